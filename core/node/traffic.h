#pragma once
// What came in and what went out, by topic and by group, since the broker began: plain integers, found once a send or pull. Bounded by the
// topics that there are; groups beyond the bound are counted together, without a name.

#include <array>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/ids.h"

namespace fulmar {

enum class MessageType : uint8_t { Normal, Fifo };        // Fifo: it has a sharding key
inline constexpr std::string_view kMessageTypeNames[] = {"normal", "fifo"};
// RocketMQ's: 1 KiB, 4 KiB, 512 KiB, 1, 2, 4 MiB; of records as they are stored.
inline constexpr int64_t kMessageSizeBounds[] = {1024, 4096, 512 * 1024, 1 << 20, 2 << 20, 4 << 20};

struct TrafficLimits {
  size_t groups_max = 20'000;          // pairs of group and topic with numbers of their own
  size_t places_max = 262'144;         // queues of which it is known how far a group has pulled
};

class Traffic {
 public:
  struct In {
    uint64_t bytes = 0;
    std::array<uint64_t, std::size(kMessageSizeBounds) + 1> sizes{};   // messages, by size
    uint64_t messages() const;
  };
  struct Out {
    uint64_t messages = 0, bytes = 0;
    std::vector<QueueOffset> pulled;   // by queue id: given to the group below this; may be shorter than there are queues
  };
  struct Topic {
    uint32_t next_queue = 0;           // round robin
    std::array<In, std::size(kMessageTypeNames)> in;
    std::map<std::string, Out, std::less<>> out;   // by group; "" for all those without numbers of their own
  };
  explicit Traffic(TrafficLimits limits = {}) : limits_(limits) {}

  // Good until it is forgotten. The topic exists.
  Topic& of(std::string_view topic);
  // `bytes`: of all of them, as stored. Those of a batch count as equally large.
  static void stored(Topic& topic, MessageType type, uint64_t messages, uint64_t bytes);
  void given(std::string_view topic, std::string_view group, int32_t queue_id, QueueOffset next, uint64_t messages, uint64_t bytes);
  void forget(std::string_view topic);

  const Out* out(std::string_view topic, std::string_view group) const;   // null: nothing was given
  const std::map<std::string, Topic, std::less<>>& topics() const { return topics_; }

 private:
  TrafficLimits limits_;
  std::map<std::string, Topic, std::less<>> topics_;
  std::pair<const std::string, Topic>* last_ = nullptr;   // the one that was last asked for: senders send on
  size_t groups_ = 0, places_ = 0;
};

}  // namespace fulmar
