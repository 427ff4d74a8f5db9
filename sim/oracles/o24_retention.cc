#include "sim/oracles/o24_retention.h"

#include <fmt/format.h>

namespace fulmar::sim {

void RetentionTruth::recovered(const std::string& broker, uint64_t begin, int64_t at_ns, int64_t leap_ms) {
  Broker& b = brokers_[broker];
  if (begin > b.announced) {
    verdicts_.violated("O24", fmt::format("{} came back with a log that begins at {}, it had announced no begin behind {}", broker, begin, b.announced));
  }
  b.begin = begin;
  b.life_ns = at_ns;
  b.leap_ms = leap_ms;
}

void RetentionTruth::expired(const std::string& broker, uint64_t begin, uint64_t end, std::string_view why, uint64_t appended, int64_t now_ns) {
  Broker& b = brokers_[broker];
  const std::string what = fmt::format("{} lets log bytes [{}, {}) go ({})", broker, begin, end, why);
  if (begin != b.begin) verdicts_.violated("O24", fmt::format("{}, but the log begins at {}", what, b.begin));
  if (end >= appended) verdicts_.violated("O24", fmt::format("{}, and is still writing them: the log ends at {}", what, appended));
  b.announced = std::max(b.announced, end);
  if (why == "retainBytesMax") {
    if (b.rules.bytes_max == 0 || appended - begin <= b.rules.bytes_max) verdicts_.violated("O24", fmt::format("{}, of {} bytes in all", what, appended - begin));
    return;
  }
  if (why == "the disk is nearly full") {
    if (!b.rules.may_force) verdicts_.violated("O24", fmt::format("{}, although nothing may go by force", what));
    return;
  }
  for (const SentMessage& m : ledger_.all()) {
    if (m.queue.broker != broker || (m.fate != Fate::Acked && m.fate != Fate::StoredOnly) || m.physical < begin || m.physical_end() > end) continue;
    // A little for clocks that run fast. Younger than since it was asked for, it can not be.
    const int64_t age_ms = (now_ns - m.asked_ns) / 1'000'000;
    const bool is_excused = m.asked_ns < b.life_ns && b.leap_ms > 0;
    if (age_ms + age_ms / 100 + 10 >= b.rules.reserved_ms || is_excused) continue;
    return verdicts_.violated("O24", fmt::format("{}: message {} at {} offset {} is {} ms old at most, {} ms are promised", what, to_text(m.id), m.queue.text(),
                                                 m.queue_offset, age_ms, b.rules.reserved_ms));
  }
}

void RetentionTruth::begins(const std::string& broker, uint64_t at) {
  Broker& b = brokers_[broker];
  if (at > b.announced) verdicts_.violated("O24", fmt::format("the log of {} begins at {}, announced was {}", broker, at, b.announced));
  b.begin = at;
}

void RetentionTruth::file_leaves(const std::string& broker, uint64_t begin, uint64_t end, uint64_t durable_begin) {
  if (end <= durable_begin) return;
  verdicts_.violated("O24", fmt::format("{} takes the file of log bytes [{}, {}) away, and a power cut now would find a log that begins at {}", broker, begin, end, durable_begin));
}

uint64_t RetentionTruth::begin_of(const std::string& broker) const {
  const auto it = brokers_.find(broker);
  return it == brokers_.end() ? 0 : it->second.begin;
}

}  // namespace fulmar::sim
