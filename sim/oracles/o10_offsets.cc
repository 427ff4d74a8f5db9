#include "sim/oracles/o10_offsets.h"

#include <fmt/format.h>

#include <algorithm>

namespace fulmar::sim {

uint64_t CommittedOffsets::asked(const std::string& group, const QueueKey& queue, int64_t offset) {
  Value& v = values_[{group, queue}];
  v.highest = v.is_asked ? std::max(v.highest, offset) : offset;
  v.is_asked = true;
  return v.losses;
}

void CommittedOffsets::acked(const std::string& group, const QueueKey& queue, int64_t offset, bool is_flushed, uint64_t losses) {
  Value& v = values_[{group, queue}];
  if (v.is_lost_track_of || (!is_flushed && losses != v.losses)) return;
  v.acked = v.is_acked ? std::max(v.acked, offset) : offset;
  v.is_acked = true;
  if (!is_flushed) return;
  v.safe = v.is_safe ? std::max(v.safe, offset) : offset;
  v.is_safe = true;
}

void CommittedOffsets::lost_track(const std::string& group, const QueueKey& queue) {
  Value& v = values_[{group, queue}];
  v.is_lost_track_of = true;
  v.is_acked = v.is_safe = false;
  ++v.losses;
}

std::optional<std::string> CommittedOffsets::misses(const QueueKey& queue, int64_t offset) const {
  for (const auto& [key, v] : values_) {
    if (key.second.broker != queue.broker || key.second.topic != queue.topic || !v.is_safe) continue;
    const auto own = values_.find({key.first, queue});
    if (own == values_.end() || !own->second.is_asked || own->second.highest <= offset) return key.first;
  }
  return std::nullopt;
}

bool CommittedOffsets::has_lost_track(const std::string& group, const std::string& broker) const {
  return std::any_of(values_.begin(), values_.end(), [&](const auto& entry) {
    return entry.first.first == group && entry.first.second.broker == broker && entry.second.is_lost_track_of;
  });
}

void CommittedOffsets::lost_cache(const std::string& broker) {
  for (auto& [key, v] : values_) {
    if (key.second.broker != broker) continue;
    v.is_acked = v.is_safe;
    v.acked = v.safe;
    ++v.losses;
  }
}

void CommittedOffsets::ends_at(const QueueKey& queue) {
  for (auto& [key, v] : values_) {
    if (key.second != queue) continue;
    v.is_acked = v.is_safe = false;
    ++v.losses;
  }
}

void CommittedOffsets::beyond_promise(const std::string& broker) {
  for (auto& [key, v] : values_) {
    if (key.second.broker == broker) v.is_acked = v.is_safe = false;
  }
}

CommittedOffsets::Floor CommittedOffsets::begin_query(const std::string& group, const QueueKey& queue) const {
  const auto it = values_.find({group, queue});
  if (it == values_.end()) return {};
  return {it->second.is_acked, it->second.acked, it->second.losses};
}

void CommittedOffsets::answered(const std::string& group, const QueueKey& queue, const Floor& floor, std::optional<int64_t> offset) {
  const Value& v = values_[{group, queue}];
  if (offset && (!v.is_asked || *offset > v.highest)) {
    return verdicts_.violated("O10", fmt::format("group {} stands at {} in {}, and nobody ever committed more than {}", group, *offset, queue.text(),
                                                 v.is_asked ? fmt::format("{}", v.highest) : "nothing"));
  }
  if (!floor.has_value || floor.losses != v.losses) return;
  if (offset && *offset >= floor.offset) return;
  verdicts_.violated("O10", fmt::format("group {} stands at {} in {}, although the commit of {} was acknowledged", group,
                                        offset ? fmt::format("{}", *offset) : "nothing", queue.text(), floor.offset));
}

void CommittedOffsets::ended(const std::string& group, const QueueKey& queue, int64_t offset, int64_t max) {
  if (offset <= max) return;
  verdicts_.violated("O10", fmt::format("group {} stands at {} in {}, which ends at {}", group, offset, queue.text(), max));
}

}  // namespace fulmar::sim
