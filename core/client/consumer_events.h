#pragma once
// What a consumer says about itself.

#include <array>
#include <string_view>

#include "core/io/trace.h"
#include "core/model/ids.h"

namespace fulmar {

struct QueueStarted {
  FULMAR_EVENT(QueueStarted, Debug, "subscription {} follows queue {} from {} on {}");
  uint64_t subscription;
  int32_t queue_id;
  QueueOffset from;
  std::string_view broker;
  auto values() const { return std::array{subscription, static_cast<uint64_t>(queue_id), static_cast<uint64_t>(from.value())}; }
  std::string_view text() const { return broker; }
};
struct QueueMoved {
  FULMAR_EVENT(QueueMoved, Warning, "subscription {}: queue {} moved from {} to {} on {}");
  uint64_t subscription;
  int32_t queue_id;
  QueueOffset from, to;
  std::string_view broker;
  auto values() const {
    return std::array{subscription, static_cast<uint64_t>(queue_id), static_cast<uint64_t>(from.value()), static_cast<uint64_t>(to.value())};
  }
  std::string_view text() const { return broker; }
};
struct QueueFailed {
  FULMAR_EVENT(QueueFailed, Info, "subscription {}: queue {} failed {} times in a row: {}");
  uint64_t subscription;
  int32_t queue_id;
  uint32_t failures;
  std::string_view what;
  auto values() const { return std::array{subscription, static_cast<uint64_t>(queue_id), uint64_t{failures}}; }
  std::string_view text() const { return what; }
};
struct QueuesAssigned {
  FULMAR_EVENT(QueuesAssigned, Info, "subscription {} owns {} queues by generation {:016x}: {}");
  uint64_t subscription, queues, generation;
  std::string_view what;
  auto values() const { return std::array{subscription, queues, generation}; }
  std::string_view text() const { return what; }
};
struct QueueRevoked {
  FULMAR_EVENT(QueueRevoked, Debug, "subscription {} gives up queue {} with {} batches out on {}");
  uint64_t subscription;
  int32_t queue_id;
  uint64_t batches;
  std::string_view broker;
  auto values() const { return std::array{subscription, static_cast<uint64_t>(queue_id), batches}; }
  std::string_view text() const { return broker; }
};

}  // namespace fulmar
