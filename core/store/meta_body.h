#pragma once
// Private to meta*.cc: how bodies of meta records are written (the layout stands in meta.h).

#include <string_view>
#include <vector>

#include "core/store/meta.h"

namespace fulmar {

inline constexpr uint8_t kBodyVersion = 1;
enum MetaItem : uint8_t { kTopicSet = 1, kTopicRemoved = 2, kOffsetSet = 3, kQueueFloor = 4, kGroupSet = 5, kGroupRemoved = 6 };
// Flags of kGroupSet.
inline constexpr uint8_t kConsume = 1, kFromMin = 2, kBroadcast = 4, kOrderly = 8, kNotified = 16;
inline constexpr size_t kBodyBytesMax = 16 * 1024;   // fits every allowed segment many times

// A body under construction. Items are written back to back; sizes are patched when an item ends.
class BodyWriter {
 public:
  BodyWriter() { bytes_.push_back(kBodyVersion); }
  void begin(uint8_t kind) {
    put<uint8_t>(kind);
    put<uint32_t>(0);
    item_at_ = bytes_.size();
  }
  void end() { store_be<uint32_t>(bytes_.data() + item_at_ - 4, static_cast<uint32_t>(bytes_.size() - item_at_)); }
  template <class T> void put(T value) {
    bytes_.resize(bytes_.size() + sizeof(T));
    store_be(bytes_.data() + bytes_.size() - sizeof(T), value);
  }
  void name(std::string_view text) {
    put<uint16_t>(static_cast<uint16_t>(text.size()));
    bytes_.insert(bytes_.end(), text.begin(), text.end());
  }
  Bytes bytes() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
  size_t item_at_ = 0;
};

inline void put_removal(BodyWriter& body, std::string_view topic, const std::vector<std::pair<int32_t, QueueOffset>>& next) {
  body.begin(kTopicRemoved);
  body.name(topic);
  body.put<uint16_t>(static_cast<uint16_t>(next.size()));
  for (const auto& [queue, offset] : next) {
    body.put<int32_t>(queue);
    body.put<int64_t>(offset.value());
  }
  body.end();
}

inline void put_topic(BodyWriter& body, const TopicConfig& config) {
  body.begin(kTopicSet);
  body.name(config.name);
  body.put<int32_t>(config.read_queues);
  body.put<int32_t>(config.write_queues);
  body.put<uint32_t>(config.perm);
  body.end();
}

inline void put_offset(BodyWriter& body, const OffsetKey& key, QueueOffset offset) {
  body.begin(kOffsetSet);
  body.name(key.group);
  body.name(key.topic);
  body.put<int32_t>(key.queue_id);
  body.put<int64_t>(offset.value());
  body.end();
}

inline void put_group(BodyWriter& body, const GroupConfig& config) {
  const auto flag = [](bool is_set, uint8_t bit) { return is_set ? bit : uint8_t{0}; };
  body.begin(kGroupSet);
  body.name(config.name);
  body.put<uint8_t>(static_cast<uint8_t>(flag(config.is_consume_enabled, kConsume) | flag(config.is_from_min_enabled, kFromMin) |
                                         flag(config.is_broadcast_enabled, kBroadcast) | flag(config.is_orderly, kOrderly) |
                                         flag(config.is_notified, kNotified)));
  body.put<int32_t>(config.retry_queues);
  body.put<int32_t>(config.retry_max);
  body.put<int32_t>(config.timeout_minutes);
  body.put<int32_t>(config.sys_flag);
  body.put<int64_t>(config.broker_id);
  body.put<int64_t>(config.slow_broker_id);
  body.end();
}

}  // namespace fulmar
