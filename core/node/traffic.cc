#include "core/node/traffic.h"

#include <algorithm>
#include <numeric>

#include "core/base/marks.h"

namespace fulmar {

uint64_t Traffic::In::messages() const { return std::accumulate(sizes.begin(), sizes.end(), uint64_t{0}); }

Traffic::Topic& Traffic::of(std::string_view topic) {
  if (last_ != nullptr && last_->first == topic) return last_->second;
  auto found = topics_.find(topic);
  if (found == topics_.end()) found = topics_.emplace(std::string(topic), Topic{}).first;
  last_ = &*found;
  return found->second;
}

void Traffic::stored(Topic& topic, MessageType type, uint64_t messages, uint64_t bytes) {
  In& in = topic.in[static_cast<size_t>(type)];
  const int64_t each = static_cast<int64_t>(bytes / messages);
  size_t bucket = 0;
  while (bucket < std::size(kMessageSizeBounds) && each > kMessageSizeBounds[bucket]) ++bucket;
  in.sizes[bucket] += messages;
  in.bytes += bytes;
}

void Traffic::given(std::string_view topic, std::string_view group, int32_t queue_id, QueueOffset next, uint64_t messages, uint64_t bytes) {
  Topic& of_topic = of(topic);
  auto found = of_topic.out.find(group);
  if (found == of_topic.out.end()) {
    const bool is_full = groups_ >= limits_.groups_max;
    SOMETIMES("broker: a group is counted without a name", is_full);
    if (!is_full) ++groups_;
    found = of_topic.out.try_emplace(is_full ? std::string() : std::string(group)).first;
  }
  Out& out = found->second;
  out.messages += messages;
  out.bytes += bytes;
  if (found->first.empty()) return;
  const size_t place = static_cast<size_t>(queue_id);
  if (place >= out.pulled.size()) {
    const size_t more = place + 1 - out.pulled.size();
    if (places_ + more > limits_.places_max) return;
    places_ += more;
    out.pulled.resize(place + 1);
  }
  out.pulled[place] = next;
}

void Traffic::forget(std::string_view topic) {
  const auto found = topics_.find(topic);
  if (found == topics_.end()) return;
  for (const auto& [group, out] : found->second.out) {
    if (!group.empty()) --groups_;
    places_ -= out.pulled.size();
  }
  last_ = nullptr;
  topics_.erase(found);
}

const Traffic::Out* Traffic::out(std::string_view topic, std::string_view group) const {
  const auto found = topics_.find(topic);
  if (found == topics_.end()) return nullptr;
  const auto of_group = found->second.out.find(group);
  return of_group == found->second.out.end() ? nullptr : &of_group->second;
}

}  // namespace fulmar
