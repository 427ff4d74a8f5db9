#pragma once
// Pulls that found nothing and are held: woken by an arrival in their queue, or at their deadline. Bounded: a full table holds nothing
// more, and the pull is answered at once. One timer, for the earliest deadline.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/consume/pull.h"
#include "core/store/dispatch.h"

namespace fulmar {

class LongPoll {
 public:
  explicit LongPoll(uint32_t capacity = limits::kHeldPullsMax) : capacity_(capacity) {}

  // The pull has just found nothing below `request.scanned_to`. False: full.
  [[nodiscard]] bool hold(Ctx& ctx, PullRequest& request);
  // The queue grew: whoever waits for what is there now comes out, in the order in which they came.
  void on_arrival(Ctx& ctx, const Arrival& arrival, std::vector<PullRequest>& out);
  void take_due(Ctx& ctx, std::vector<PullRequest>& out);
  void take_topic(std::string_view topic, std::vector<PullRequest>& out);   // it was deleted
  void take_group(std::string_view group, std::string_view topic, int32_t queue_id, std::vector<PullRequest>& out);   // it was moved
  void take_all(std::vector<PullRequest>& out);                             // the node stops
  void drop(ConnId conn);
  size_t size() const { return held_.size(); }

 private:
  struct Key { std::string topic; int32_t queue_id = 0; friend auto operator<=>(const Key&, const Key&) = default; };
  struct Held { PullRequest request; Monotonic since; };
  PullRequest take(uint64_t sequence);
  uint32_t capacity_;
  uint64_t next_sequence_ = 1;
  std::map<uint64_t, Held> held_;
  std::map<Key, std::set<uint64_t>> by_queue_;
  std::set<std::pair<Monotonic, uint64_t>> by_deadline_;
  std::set<std::pair<ConnId, uint64_t>> by_conn_;
};

}  // namespace fulmar
