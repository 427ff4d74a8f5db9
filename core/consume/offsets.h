#pragma once
// Committed consumer offsets, coalesced: the first commit of a (group, topic, queue) in a second is appended at the end of this step,
// later ones are held and appended together, the last value winning, when the second is over. A commit is answered when a record that
// covers it is appended (decision 9).
//
//   a key: Quiet --commit--> due now --appended--> Recent (one second) --commit--> due when the second is over --appended--> Recent

#include <map>
#include <set>
#include <vector>

#include "core/consume/asker.h"
#include "core/consume/limits.h"
#include "core/store/meta.h"

namespace fulmar {

class Commits {
 public:
  struct Settled {
    Asker asker;
    bool needs_flush = false;
    PhysicalOffset end;          // of the record that covers it
    Result<void> outcome;        // why it could not be appended; it is not taken then
  };

  explicit Commits(Meta& meta, uint32_t capacity = limits::kCommitsWaitingMax) : meta_(meta), capacity_(capacity) {}

  // False: too many commits wait.
  [[nodiscard]] bool commit(Ctx& ctx, OffsetKey key, QueueOffset offset, bool needs_flush, const Asker& asker);
  // The group was moved there: commits of it that are held are answered as if they had been taken, and are not.
  void forget(const OffsetKey& key);
  // End of step and timer: appends what is due. What is answered thereby comes out of take_settled().
  void pump(Ctx& ctx);
  // Everything held is due: at clean stop, then pump until waiting_count() is 0.
  void hurry(Ctx& ctx);
  std::vector<Settled> take_settled() { return std::exchange(settled_, {}); }
  size_t waiting_count() const { return waiting_; }

 private:
  struct Waiter { Asker asker; bool needs_flush = false; };
  struct Pending {
    QueueOffset offset;
    Monotonic due, since;
    std::vector<Waiter> waiters;
  };
  void settle(Pending& pending, PhysicalOffset end, const Result<void>& outcome);
  void make_due(const OffsetKey& key, Pending& pending, Monotonic at);
  void arm(Ctx& ctx);

  Meta& meta_;
  uint32_t capacity_;
  uint32_t waiting_ = 0;
  std::map<OffsetKey, Pending> pending_;
  std::set<std::pair<Monotonic, OffsetKey>> due_;          // of pending_
  std::map<OffsetKey, Monotonic> recent_;                  // appended less than a second ago
  std::set<std::pair<Monotonic, OffsetKey>> recent_by_age_;
  std::vector<Settled> settled_;
};

}  // namespace fulmar
