#pragma once
// Places and sizes in the log and its queues. A physical offset is a byte of the commit log, a queue offset an entry of a queue.

#include "core/base/id.h"

namespace fulmar {

using ByteCount = Count<struct ByteCountTag>;
using PhysicalOffset = Offset<struct PhysicalOffsetTag, ByteCount>;
using EntryCount = Count<struct EntryCountTag, int64_t>;
using QueueOffset = Offset<struct QueueOffsetTag, EntryCount>;
using QueueId = Id<struct QueueIdTag, int32_t>;
using BrokerId = Id<struct BrokerIdTag, int64_t>;
using Epoch = Id<struct EpochTag, int64_t>;

}  // namespace fulmar
