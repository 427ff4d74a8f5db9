#pragma once
// O3  Within a queue, an offset names one message, for every reader and every ack at every time; offsets are dense; log places and store
// stamps rise with them; and sends that one producer made one after the other stand in that order.

#include <map>
#include <set>
#include <vector>

#include "sim/oracles/facts.h"

namespace fulmar::sim {

class QueueOrder {
 public:
  explicit QueueOrder(Verdicts& verdicts) : verdicts_(verdicts) {}
  void read(const Seen& seen, MessageId id);
  void acked(const SentMessage& message);
  // The log of a broker was cut at `end`: what stood behind may be replaced (O1 and O5 judge whether it may).
  // The record of this offset was damaged at rest: nobody need get it, and nobody may get anything else there.
  void lost(const QueueKey& queue, int64_t offset) { lost_.emplace(queue, offset); }
  void cut(const Recovery& recovery);
  // A reader has read all of a queue that says it holds [min, max). known_end: end_of() when it asked where the queue ends; what comes while
  // the answer is on its way need not be in it.
  void read_all(std::string_view reader, const QueueKey& queue, int64_t min, int64_t max, const std::vector<int64_t>& offsets, int64_t known_end = INT64_MAX);
  // First offset behind everything known of a queue.
  int64_t end_of(const QueueKey& queue) const;
  // First offset that is known to stand at or behind this byte of the log; INT64_MAX: none.
  int64_t first_behind(const QueueKey& queue, uint64_t physical) const;

 private:
  struct Entry { MessageId id; uint64_t physical = 0; int64_t stored_ms = 0; bool has_stamp = false; };
  struct Past { int64_t offset; int64_t answered_ns; };
  using Entries = std::map<int64_t, Entry>;
  void put(std::string_view who, const QueueKey& queue, int64_t offset, const Entry& entry);
  void check_neighbours(const QueueKey& queue, const Entries& entries, Entries::const_iterator at);

  Verdicts& verdicts_;
  std::map<QueueKey, Entries> queues_;
  std::set<std::pair<QueueKey, int64_t>> lost_;
  std::map<std::pair<QueueKey, uint32_t>, std::vector<Past>> producers_;
};

}  // namespace fulmar::sim
