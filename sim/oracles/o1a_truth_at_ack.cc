#include "sim/oracles/o1a_truth_at_ack.h"

#include <fmt/format.h>

namespace fulmar::sim {

void TruthAtAck::acked(const std::string& broker, uint64_t begin, uint64_t end, bool waited, const DurableEnd& durable) {
  Broker& b = brokers_[broker];
  if (!b.is_sync && !waited) return;
  if (!waited) {
    b.not_waited.insert(begin);  // FLUSH_DISK_TIMEOUT says so; told_ok() sees to it
    return;
  }
  b.not_waited.erase(begin);
  const uint64_t safe = durable(begin, end);
  if (safe >= end) return;
  verdicts_.violated("O1a", fmt::format("{} acknowledges log bytes [{}, {}) as flushed, but a power cut now keeps them only up to {}", broker, begin, end, safe));
}

void TruthAtAck::told_ok(const SentMessage& message) {
  const Broker& b = brokers_[message.queue.broker];
  if (!b.is_sync || !b.not_waited.contains(message.physical)) return;
  verdicts_.violated("O1a", fmt::format("{} answers SEND_OK to message {} at log byte {}, but never says that it was flushed", message.queue.broker,
                                        to_text(message.id), message.physical));
}

void TruthAtAck::appended(const std::string& broker, uint64_t end, const DurableLimit& limit) {
  Broker& b = brokers_[broker];
  if (end <= b.limit) return;
  b.limit = limit();
  if (end <= b.limit) return;
  verdicts_.violated("O1a", fmt::format("{} stores log bytes up to {}, but the append limit that a power cut now keeps is {}", broker, end, b.limit));
}

void TruthAtAck::flushed(const std::string& broker, uint64_t to, uint64_t safe) {
  if (safe >= to) return;
  verdicts_.violated("O1a", fmt::format("{} takes its log for flushed up to {}, but a power cut now keeps it only up to {}", broker, to, safe));
}

void TruthAtAck::restarted(const std::string& broker) {
  brokers_[broker].limit = 0;
  brokers_[broker].not_waited.clear();
}

}  // namespace fulmar::sim
