#include "sim/oracles/o4_at_least_once.h"

#include <fmt/format.h>

#include <algorithm>

namespace fulmar::sim {

void AtLeastOnce::subscribed(const std::string& group, const std::string& topic, std::set<std::string> tags, bool is_pipelined) {
  if (is_pipelined) pipelined_.insert(group);
  groups_.emplace(group, std::pair(topic, std::move(tags)));
}

void AtLeastOnce::delivered(const std::string& group, const QueueKey& queue, uint64_t holder, int64_t first, int64_t next, const std::vector<int64_t>& offsets) {
  Progress& p = progress_[{group, queue}];
  std::vector<Progress::Batch>& out = p.out[holder];
  // A batch that does not follow the last one begins anew: what was out comes again.
  if (!out.empty() && (first < out.back().next || !pipelined_.contains(group))) out.clear();
  const int64_t known = std::max(p.consumed, out.empty() ? 0 : out.back().next);
  // A consumer is not told of what its filter passed over: demand() sees to those.
  const auto found = groups_.find(group);
  const bool is_filtered = found != groups_.end() && !found->second.second.empty();
  const auto begin = begins_.find(queue);
  const int64_t led_to = std::max(known, begin == begins_.end() ? 0 : begin->second);
  if (first > led_to && !is_filtered && !coming_and_going_.contains(queue.topic)) {
    verdicts_.violated("O4", fmt::format("group {} gets {} from offset {} on, but has consumed only up to {}, and {} is out", group, queue.text(), first, p.consumed, known));
  }
  for (const int64_t offset : offsets) {
    if (offset >= first && offset < next) continue;
    verdicts_.violated("O4", fmt::format("group {} gets offset {} in a batch of {} that spans [{}, {})", group, offset, queue.text(), first, next));
  }
  out.push_back({next, offsets});
}

void AtLeastOnce::consumed(const std::string& group, const QueueKey& queue, uint64_t holder, int64_t next) {
  Progress& p = progress_[{group, queue}];
  std::vector<Progress::Batch>& out = p.out[holder];
  const auto end = std::find_if(out.begin(), out.end(), [next](const Progress::Batch& b) { return b.next == next; });
  if (end == out.end()) return;   // it was taken back meanwhile
  for (auto batch = out.begin(); batch != end + 1; ++batch) p.done.insert(batch->offsets.begin(), batch->offsets.end());
  out.erase(out.begin(), end + 1);
  p.consumed = std::max(p.consumed, next);
}

void AtLeastOnce::let_go(const std::string& group, uint64_t holder) {
  for (auto& [key, p] : progress_)
    if (key.first == group) p.out.erase(holder);
}

void AtLeastOnce::cut(const QueueKey& queue, int64_t end) {
  for (auto& [key, p] : progress_) {
    if (key.second != queue) continue;
    p.done.erase(p.done.lower_bound(end), p.done.end());
    for (auto& [holder, out] : p.out)
      for (Progress::Batch& batch : out) std::erase_if(batch.offsets, [&](int64_t offset) { return offset >= end; });
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
