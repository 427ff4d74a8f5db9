#pragma once
// Sizes and bounds of the store, related to each other where they must be.

#include <cstdint>

#include "core/base/time.h"

namespace fulmar::limits {

inline constexpr uint64_t kPageBytes = 4096;
inline constexpr uint64_t kPrepareStepBytes = 2ull << 20;         // decision 1
inline constexpr uint64_t kPrepareAheadMin = 2ull << 20;          // before the first append
inline constexpr uint64_t kPrepareAheadIdle = 8ull << 20;
inline constexpr uint64_t kWarmTailBytes = 64ull << 20;           // decision 7: the youngest bytes count as resident
inline constexpr Duration kWarmFor = Duration::seconds(1);
inline constexpr uint64_t kRecoveryWindowBytes = 1ull << 20;      // recovery and catch-up read this much at a time
inline constexpr int kFlushesInFlightMax = 2;
inline constexpr Duration kCheckpointInterval = Duration::seconds(1);
inline constexpr Duration kQueueTableInterval = Duration::seconds(5);
inline constexpr uint64_t kQueuePrepareBytes = 64 * 1024;
inline constexpr uint64_t kIndexPrepareBytes = 1ull << 20;
inline constexpr uint32_t kDispatchRecordsPerStep = 2048;
inline constexpr int64_t kGapEntriesMax = 1 << 24;               // a wider gap than damage leaves is nonsense: the queue stands still
inline constexpr uint64_t kPendingEntriesMax = 1u << 20;          // queue entries held in memory before dispatch waits
inline constexpr uint64_t kPendingEntriesRound = 1u << 19;        // … and before a round of writing begins early
inline constexpr uint64_t kUnderivedBytesMax = 128ull << 20;      // of log that a start feeds again; so does a round before it is more
inline constexpr int64_t kRoundPauseFactor = 50;                  // the next round begins so many times later as the last one costs
inline constexpr uint64_t kPendingKeysMax = 1u << 19;
inline constexpr uint64_t kPendingKeysRound = 1u << 17;
inline constexpr int kQueueFilesBusyMax = 64;                     // queues mapping, preparing or flushing at one moment
inline constexpr int kQueueFilesMappedMax = 1024;
inline constexpr Duration kQueueIdle = Duration::seconds(10);     // then its file is unmapped
inline constexpr uint32_t kPropertyBytesMax = 32'767;
inline constexpr uint32_t kRetryTopicBytesMax = 255;
inline constexpr uint32_t kRecordOverheadMax = 65'536;            // record <= maxMessageSize + this (store.md 12)
inline constexpr uint32_t kTopicCountMax = 1u << 20;
inline constexpr uint32_t kGroupOffsetsMax = 1u << 21;
inline constexpr Duration kDiskPollInterval = Duration::seconds(1);

static_assert(kPendingEntriesRound < kPendingEntriesMax && kPendingKeysRound < kPendingKeysMax);
static_assert(kPrepareStepBytes % kPageBytes == 0 && kQueuePrepareBytes % kPageBytes == 0);

}  // namespace fulmar::limits
