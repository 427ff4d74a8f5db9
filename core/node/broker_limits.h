#pragma once
// Bounds of the broker node; those of what consumes stand in consume/limits.h.

#include <cstdint>

#include "core/base/time.h"

namespace fulmar::limits {

inline constexpr uint32_t kSendsHeldMax = 1u << 16;        // sends waiting for their flush: SYSTEM_BUSY, nothing is stored
inline constexpr uint32_t kFlushWaitersMax = 1u << 14;     // topic changes and commits that wait for a flush: SYSTEM_BUSY
inline constexpr int32_t kTopicQueuesMax = 1024;           // RocketMQ's largest built-in topic has as many
inline constexpr int32_t kTopicPageMax = 1000;             // topics of one listing
inline constexpr Duration kUnregisterPatience = Duration::seconds(1);

}  // namespace fulmar::limits
