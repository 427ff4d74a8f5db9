#pragma once
// Bounds of everything that waits or is asked for on the consuming side, each with what is answered when it is reached.

#include <cstdint>

#include "core/base/time.h"

namespace fulmar::limits {

inline constexpr int32_t kPullCountMax = 1024;                 // more is cut to this
inline constexpr uint64_t kPullSliceBytesMax = 1u << 20;       // of one reply; a larger first message leaves alone
inline constexpr uint32_t kPullScanEntriesMax = 4096;          // passed over or taken by one pull: then what there is, or RETRY_IMMEDIATELY
inline constexpr uint32_t kPullReadEntries = 256;              // read from the queue at a time
// What a pull that meets a cold record has fetched, in one request: the records that it lacks, those of others between them as far as the
// kernel maps around a page anyway, and some more of the same for the pulls behind it.
inline constexpr uint64_t kPullGapBytes = 64u << 10;
inline constexpr uint64_t kPullAheadTimes = 4;                 // as far as four such pulls will come …
inline constexpr uint64_t kPullWarmBytesMin = 256u << 10;      // … but at least so far when one range holds them all,
inline constexpr uint64_t kPullWarmBytesMax = 16u << 20;       // and no farther than this
inline constexpr size_t kPullRangesMax = 16;                   // when they lie far apart
inline constexpr size_t kPullsAheadMax = 64;                   // fetched for who was answered already: no more are begun
inline constexpr uint32_t kColdPullsMax = 8192;                // waiting for the disk: SYSTEM_BUSY
inline constexpr uint32_t kRoomPullsMax = 8192;                // waiting for room on their connection: SYSTEM_BUSY
inline constexpr uint32_t kHeldPullsMax = 65'536;              // long polls: answered at once as "not found"
inline constexpr Duration kSuspendMax = Duration::seconds(60); // a longer wish is cut to this
inline constexpr size_t kTagsMax = 128, kSubscriptionBytesMax = 8192;   // SUBSCRIPTION_PARSE_FAILED
inline constexpr uint32_t kCommitsWaitingMax = 65'536;         // SYSTEM_BUSY
inline constexpr Duration kCommitInterval = Duration::seconds(1);
inline constexpr Duration kCommitRetry = Duration::milliseconds(10);
inline constexpr Duration kCommitPatience = Duration::seconds(2);       // a log that rolls for longer: refused
inline constexpr uint32_t kSearchesMax = 1024;                 // SYSTEM_BUSY
inline constexpr size_t kResetsMax = 65'536;                   // queues of groups that were moved and not pulled since: SYSTEM_BUSY
inline constexpr int32_t kGroupPageMax = 1000;                 // groups of one listing
inline constexpr size_t kGroupQueuesMax = 65'536;              // of one description; what lies behind is left out
inline constexpr uint32_t kQueriesMax = 256;                   // SYSTEM_BUSY
inline constexpr int32_t kQueryCountMax = 64;
inline constexpr uint32_t kQueryCollisionsMax = 64;            // candidates beyond the wanted number that may turn out to be other keys
inline constexpr uint32_t kQueryCandidatesMax = 16'384;        // what the index is asked for in the end; what lies behind is not found
inline constexpr uint64_t kQueryBytesMax = 1u << 20;
inline constexpr uint64_t kQueryStepBytesMax = 8u << 20;       // read and checked for queries in one step; the rest goes on in the next

}  // namespace fulmar::limits
