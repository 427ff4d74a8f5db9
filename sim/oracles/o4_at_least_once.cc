#include "sim/oracles/o4_at_least_once.h"

#include <fmt/format.h>

#include <algorithm>

namespace fulmar::sim {

void AtLeastOnce::subscribed(const std::string& group, const std::string& topic, std::set<std::string> tags) {
  groups_.emplace(group, std::pair(topic, std::move(tags)));
}

void AtLeastOnce::delivered(const std::string& group, const QueueKey& queue, int64_t first, int64_t next, const std::vector<int64_t>& offsets) {
  Progress& p = progress_[{group, queue}];
  // A consumer is not told of what its filter passed over: demand() sees to those.
  const auto found = groups_.find(group);
  const bool is_filtered = found != groups_.end() && !found->second.second.empty();
  const auto begin = begins_.find(queue);
  const int64_t led_to = std::max(p.consumed, begin == begins_.end() ? 0 : begin->second);
  if (first > led_to && !is_filtered && !coming_and_going_.contains(queue.topic)) {
    verdicts_.violated("O4", fmt::format("group {} gets {} from offset {} on, but has consumed only up to {}", group, queue.text(), first, p.consumed));
  }
  for (const int64_t offset : offsets) {
    if (offset >= first && offset < next) continue;
    verdicts_.violated("O4", fmt::format("group {} gets offset {} in a batch of {} that spans [{}, {})", group, offset, queue.text(), first, next));
  }
  p.batch = offsets;
}

void AtLeastOnce::consumed(const std::string& group, const QueueKey& queue, int64_t next) {
  Progress& p = progress_[{group, queue}];
  if (!p.batch) return;
  for (const int64_t offset : *p.batch) {
    if (offset < next) p.done.insert(offset);
  }
  p.batch.reset();
  p.consumed = std::max(p.consumed, next);
}

void AtLeastOnce::cut(const QueueKey& queue, int64_t end) {
  for (auto& [key, p] : progress_) {
    if (key.second != queue) continue;
    p.done.erase(p.done.lower_bound(end), p.done.end());
    if (p.batch) std::erase_if(*p.batch, [&](int64_t offset) { return offset >= end; });
  }
}

bool AtLeastOnce::misses(const std::string& group, const QueueKey& queue, int64_t offset, std::string_view tags) const {
  const auto found = groups_.find(group);
  if (found == groups_.end() || found->second.first != queue.topic) return false;
  const std::set<std::string>& wanted = found->second.second;
  if (!wanted.empty() && !wanted.contains(std::string(tags))) return false;
  const auto it = progress_.find({group, queue});
  return it == progress_.end() || !it->second.done.contains(offset);
}

void AtLeastOnce::demand(const std::string& group, const QueueKey& queue, int64_t offset, std::string_view tags, MessageId id) {
  if (!misses(group, queue, offset, tags)) return;
  verdicts_.violated("O4", fmt::format("group {} never got message {} at {} offset {}", group, to_text(id), queue.text(), offset));
}

}  // namespace fulmar::sim
