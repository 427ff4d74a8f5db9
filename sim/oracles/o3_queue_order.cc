#include "sim/oracles/o3_queue_order.h"

#include <fmt/format.h>

#include <iterator>

namespace fulmar::sim {

void QueueOrder::put(std::string_view who, const QueueKey& queue, int64_t offset, const Entry& entry) {
  Entries& entries = queues_[queue];
  const auto [it, is_new] = entries.emplace(offset, entry);
  if (!is_new) {
    Entry& known = it->second;
    if (known.id != entry.id || known.physical != entry.physical) {
      return verdicts_.violated("O3", fmt::format("{} offset {} is message {} at log byte {} for {}, and was message {} at log byte {} before", queue.text(),
                                                  offset, to_text(entry.id), entry.physical, who, to_text(known.id), known.physical));
    }
    if (known.has_stamp || !entry.has_stamp) return;
    known = entry;
  }
  check_neighbours(queue, entries, it);
}

void QueueOrder::check_neighbours(const QueueKey& queue, const Entries& entries, Entries::const_iterator at) {
  const auto check = [&](Entries::const_iterator low, Entries::const_iterator high) {
    const Entry &a = low->second, &b = high->second;
    if (a.physical >= b.physical) {
      verdicts_.violated("O3", fmt::format("{}: offset {} stands at log byte {}, offset {} at {}", queue.text(), low->first, a.physical, high->first, b.physical));
    }
    if (a.has_stamp && b.has_stamp && a.stored_ms > b.stored_ms) {
      verdicts_.violated("O3", fmt::format("{}: offset {} is stamped {}, the later offset {} is stamped {}", queue.text(), low->first, a.stored_ms, high->first, b.stored_ms));
    }
  };
  if (at != entries.begin()) check(std::prev(at), at);
  if (std::next(at) != entries.end()) check(at, std::next(at));
}

void QueueOrder::read(const Seen& seen, MessageId id) {
  put(seen.reader, seen.queue, seen.queue_offset, {id, static_cast<uint64_t>(seen.record.physical), seen.record.stored_ms, true});
}

void QueueOrder::acked(const SentMessage& m) {
  put("its sender", m.queue, m.queue_offset, {m.id, m.physical, 0, false});
  std::vector<Past>& past = producers_[{m.queue, m.producer}];
  for (const Past& before : past) {
    if (before.answered_ns >= m.asked_ns || before.offset < m.queue_offset) continue;
    verdicts_.violated("O3", fmt::format("{}: producer {} sent message {} after the answer for offset {}, and it stands at offset {}", m.queue.text(), m.producer,
                                         to_text(m.id), before.offset, m.queue_offset));
    break;
  }
  past.push_back({m.queue_offset, m.answered_ns});
}

void QueueOrder::cut(const Recovery& recovery) {
  for (auto& [queue, entries] : queues_) {
    if (queue.broker != recovery.broker) continue;
    auto it = entries.begin();
    while (it != entries.end() && it->second.physical < recovery.end) ++it;
    if (it == entries.end()) continue;
    const int64_t end = it->first;
    entries.erase(it, entries.end());
    for (auto& [key, past] : producers_) {
      if (key.first == queue) std::erase_if(past, [&](const Past& p) { return p.offset >= end; });
    }
  }
}

void QueueOrder::read_all(std::string_view reader, const QueueKey& queue, int64_t min, int64_t max, const std::vector<int64_t>& offsets, int64_t known_end) {
  int64_t expected = min;
  const auto pass_over_lost = [&](int64_t end) { while (expected < end && lost_.contains({queue, expected})) ++expected; };
  for (const int64_t offset : offsets) {
    pass_over_lost(offset);
    if (offset != expected) break;
    ++expected;
  }
  pass_over_lost(max);
  if (expected < max) {
    verdicts_.violated("O3", fmt::format("{} read {} which says it holds [{}, {}), and there was nothing at offset {}", reader, queue.text(), min, max, expected));
  }
  const auto it = queues_.find(queue);
  if (it == queues_.end()) return;
  const auto behind = it->second.lower_bound(known_end);
  if (behind == it->second.begin()) return;
  int64_t last = std::prev(behind)->first;
  while (lost_.contains({queue, last})) --last;
  if (last >= std::max(max, expected)) verdicts_.violated("O3", fmt::format("{} says that {} ends at {}, but offset {} was there before", reader, queue.text(), max, last));
}

int64_t QueueOrder::first_behind(const QueueKey& queue, uint64_t physical) const {
  const auto it = queues_.find(queue);
  if (it == queues_.end()) return INT64_MAX;
  for (const auto& [offset, entry] : it->second)
    if (entry.physical >= physical) return offset;
  return INT64_MAX;
}

int64_t QueueOrder::end_of(const QueueKey& queue) const {
  const auto it = queues_.find(queue);
  return it == queues_.end() || it->second.empty() ? 0 : it->second.rbegin()->first + 1;
}

}  // namespace fulmar::sim
