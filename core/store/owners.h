#pragma once
// The top byte of every ticket and timer says whose it is; a node routes by it.

#include <cstdint>

namespace fulmar::owner {
inline constexpr uint8_t kEndpoint = 1, kLinks = 2, kNode = 3, kLongPoll = 4, kCommits = 6, kGroups = 7;
inline constexpr uint8_t kLogFiles = 16, kLogWarm = 27, kFlusher = 17, kCheckpoint = 18, kQueues = 19, kIndex = 20, kRecovery = 21, kExports = 22,
                         kStore = 24, kQueueTable = 25;
inline constexpr bool is_store(uint8_t byte) { return byte >= kLogFiles && byte < 32; }
}  // namespace fulmar::owner
