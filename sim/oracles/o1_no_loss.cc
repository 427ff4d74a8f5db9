#include "sim/oracles/o1_no_loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace fulmar::sim {

void NoLoss::add_broker(const std::string& broker, bool is_sync) { brokers_[broker].is_sync = is_sync; }

void NoLoss::flushed(const std::string& broker, uint64_t to) {
  Broker& b = brokers_[broker];
  b.flushed = std::max(b.flushed, to);
}

void NoLoss::lost_cache(const std::string& broker) { brokers_[broker].has_lost_cache = true; }

void NoLoss::named(const std::string& broker, uint64_t begin, uint64_t end) { brokers_[broker].named.push_back({begin, end}); }

void NoLoss::beyond_promise(const std::string& broker) { brokers_[broker].is_beyond = true; }

bool NoLoss::is_excused(const Broker& broker, const Past& past, const SentMessage& message) const {
  if (broker.is_beyond) return true;
  if (!past.has_lost_cache) return false;
  if (broker.is_sync) return message.fate == Fate::StoredOnly && message.physical_end() > past.flushed;
  return std::any_of(past.named.begin(), past.named.end(), [&](const Range& range) {
    return message.physical >= range.begin && message.physical_end() <= range.end;
  });
}

void NoLoss::recovered(const Recovery& recovery) {
  Broker& b = brokers_[recovery.broker];
  const Past past{recovery, std::exchange(b.named, {}), b.flushed, std::exchange(b.has_lost_cache, false)};
  b.past.push_back(past);
  b.flushed = recovery.end;
  for (const SentMessage& m : ledger_.all()) {
    const bool is_promised = m.fate == Fate::Acked || m.fate == Fate::StoredOnly;
    if (!is_promised || m.queue.broker != recovery.broker || m.physical_end() <= recovery.end || excused_.contains(m.id)) continue;
    if (is_excused(b, past, m)) {
      excused_.insert(m.id);
      continue;
    }
    return verdicts_.violated("O1", fmt::format("message {} was {} at {} offset {}, log bytes [{}, {}), but {} came back with a log that ends at {}",
                                                to_text(m.id), to_string(m.fate), m.queue.text(), m.queue_offset, m.physical, m.physical_end(),
                                                recovery.broker, recovery.end));
  }
}

void NoLoss::acked(const SentMessage& message) {
  const Broker& b = brokers_[message.queue.broker];
  for (const Past& past : b.past) {
    if (past.recovery.at_ns < message.asked_ns || message.physical_end() <= past.recovery.end) continue;
    if (is_excused(b, past, message)) excused_.insert(message.id);
  }
}

void NoLoss::read_everything(const std::map<MessageId, uint64_t>& visible) {
  lost_ = 0;
  const SentMessage* first = nullptr;
  for (const SentMessage& m : ledger_.all()) {
    const bool is_promised = m.fate == Fate::Acked || m.fate == Fate::StoredOnly;
    if (!is_promised || m.may_vanish || visible.contains(m.id) || excused_.contains(m.id) || brokers_[m.queue.broker].is_beyond) continue;
    if (first == nullptr) first = &m;
    ++lost_;
  }
  if (first == nullptr) return;
  verdicts_.violated("O1", fmt::format("{} acked messages cannot be read at the end; the first is {} of producer {}, {} at {} offset {}, log bytes [{}, {})",
                                       lost_, to_text(first->id), first->producer, to_string(first->fate), first->queue.text(), first->queue_offset,
                                       first->physical, first->physical_end()));
}

}  // namespace fulmar::sim
