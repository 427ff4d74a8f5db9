#pragma once
// O4  A group gets everything that it subscribed to: no queue is skipped, a batch never begins behind what was consumed, and after
// quiescence every visible message of the subscription was in a batch that was consumed.

#include <map>
#include <set>
#include <vector>

#include "sim/oracles/facts.h"

namespace fulmar::sim {

class AtLeastOnce {
 public:
  explicit AtLeastOnce(Verdicts& verdicts) : verdicts_(verdicts) {}
  // `tags` empty: everything. The group starts at the first message. Pipelined: several batches of a queue may be out with one holder.
  void subscribed(const std::string& group, const std::string& topic, std::set<std::string> tags, bool is_pipelined = false);
  // `holder`: which subscription of the group was told.
  void delivered(const std::string& group, const QueueKey& queue, uint64_t holder, int64_t first, int64_t next, const std::vector<int64_t>& offsets);
  void consumed(const std::string& group, const QueueKey& queue, uint64_t holder, int64_t next);
  // Its batches come again to whoever follows.
  void let_go(const std::string& group, uint64_t holder);
  // The topic is deleted and made again from now on: its queues begin anywhere, and what remains at the end still counts.
  void comes_and_goes(const std::string& topic) { coming_and_going_.insert(topic); }
  // Retention took what stood before: a group is led to `first` at the farthest.
  void begins_at(const QueueKey& queue, int64_t first) { begins_[queue] = first; }
  // The queue ends at `end` now: what stood behind is gone and may come back as something else.
  void cut(const QueueKey& queue, int64_t end);
  // A message that is visible at the end. True: `group` still misses it.
  bool misses(const std::string& group, const QueueKey& queue, int64_t offset, std::string_view tags) const;
  // As above, as a violation.
  void demand(const std::string& group, const QueueKey& queue, int64_t offset, std::string_view tags, MessageId id);
  const std::map<std::string, std::pair<std::string, std::set<std::string>>>& groups() const { return groups_; }   // -> topic, tags

 private:
  struct Progress {
    struct Batch { int64_t next = 0; std::vector<int64_t> offsets; };
    int64_t consumed = 0;                               // highest `next` that was consumed
    std::map<uint64_t, std::vector<Batch>> out;         // by holder, oldest first
    std::set<int64_t> done;
  };
  Verdicts& verdicts_;
  std::set<std::string> coming_and_going_, pipelined_;
  std::map<QueueKey, int64_t> begins_;
  std::map<std::string, std::pair<std::string, std::set<std::string>>> groups_;
  std::map<std::pair<std::string, QueueKey>, Progress> progress_;
};

}  // namespace fulmar::sim
