#pragma once
// O10  A group's committed offset is one that was committed, lies not above the queue's end, and after a restart not below the last
// commit that was acknowledged (a power cut may take those that did not ask for a flush).

#include <map>
#include <optional>
#include <string>

#include "sim/oracles/facts.h"

namespace fulmar::sim {

class CommittedOffsets {
 public:
  explicit CommittedOffsets(Verdicts& verdicts) : verdicts_(verdicts) {}
  // One committer per key, values rising.
  // Returns how often the broker lost its cache so far: an answer to a commit without a flush that was on its way when that happened
  // promises nothing, however late it arrives.
  uint64_t asked(const std::string& group, const QueueKey& queue, int64_t offset);
  void acked(const std::string& group, const QueueKey& queue, int64_t offset, bool is_flushed, uint64_t losses);
  // A commit without an answer may still arrive, after younger ones: no floor can be demanded any more.
  void lost_track(const std::string& group, const QueueKey& queue);
  bool has_lost_track(const std::string& group, const std::string& broker) const;   // of any queue there
  void lost_cache(const std::string& broker);
  // What the queue held may be gone: what groups committed there comes down to what is left.
  void ends_at(const QueueKey& queue);
  void beyond_promise(const std::string& broker);
  // What the broker answers: nothing, or an offset. `asked_ns`-time floors are the caller's: see begin_query().
  struct Floor { bool has_value = false; int64_t offset = 0; uint64_t losses = 0; };
  Floor begin_query(const std::string& group, const QueueKey& queue) const;
  void answered(const std::string& group, const QueueKey& queue, const Floor& floor, std::optional<int64_t> offset);
  // A group that has committed on the topic, and certainly not behind this message; nothing: none.
  std::optional<std::string> misses(const QueueKey& queue, int64_t offset) const;
  void ended(const std::string& group, const QueueKey& queue, int64_t offset, int64_t max);

 private:
  struct Value {
    bool is_asked = false, is_acked = false, is_safe = false, is_lost_track_of = false;
    int64_t highest = 0, acked = 0, safe = 0;
    uint64_t losses = 0;
  };
  Verdicts& verdicts_;
  std::map<std::pair<std::string, QueueKey>, Value> values_;
};

}  // namespace fulmar::sim
