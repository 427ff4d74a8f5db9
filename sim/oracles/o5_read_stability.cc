#include "sim/oracles/o5_read_stability.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace fulmar::sim {

void ReadStability::flushed(const std::string& broker, uint64_t to) {
  Broker& b = brokers_[broker];
  b.flushed = std::max(b.flushed, to);
}

void ReadStability::read(const Seen& seen, MessageId id) {
  Broker& b = brokers_[seen.queue.broker];
  const uint64_t at = static_cast<uint64_t>(seen.record.physical), end = at + seen.record.bytes;
  if (b.is_sync && !b.is_beyond && end > b.flushed) {
    verdicts_.violated("O5", fmt::format("{} read {} offset {}, log bytes [{}, {}), while {} had flushed only up to {}", seen.reader, seen.queue.text(),
                                         seen.queue_offset, at, end, seen.queue.broker, b.flushed));
  }
  const auto [it, is_new] = b.reads.emplace(at, Read{at, end, seen.queue, seen.queue_offset, id});
  if (is_new || it->second.id == id) return;
  verdicts_.violated("O5", fmt::format("{} read message {} at log byte {} of {}, where message {} had been read before", seen.reader, to_text(id), at,
                                       seen.queue.broker, to_text(it->second.id)));
}

void ReadStability::recovered(const Recovery& recovery) {
  Broker& b = brokers_[recovery.broker];
  const std::vector<Range> named = std::exchange(b.named, {});
  b.flushed = recovery.end;
  for (auto it = b.reads.begin(); it != b.reads.end();) {
    const Read& r = it->second;
    if (r.end <= recovery.end) { ++it; continue; }
    const bool is_named = std::any_of(named.begin(), named.end(), [&](const Range& range) { return r.physical >= range.begin && r.end <= range.end; });
    if (!b.is_beyond && (b.is_sync || !is_named)) {
      verdicts_.violated("O5", fmt::format("message {} at {} offset {}, log bytes [{}, {}), had been read, but {} came back with a log that ends at {}",
                                           to_text(r.id), r.queue.text(), r.offset, r.physical, r.end, recovery.broker, recovery.end));
    }
    it = b.reads.erase(it);
  }
}

}  // namespace fulmar::sim
