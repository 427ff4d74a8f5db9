#pragma once
// What happens to bytes that nobody writes: where a log ends, what a misdirected write leaves there, and damage to a store at rest.

#include <optional>
#include <string>
#include <vector>

#include "sim/sim_disk.h"

namespace fulmar::sim {

// A record of a log as the second reader finds it.
struct LogPlace {
  std::string path;                 // of its file
  uint64_t offset = 0, bytes = 0;   // in that file
  uint64_t physical = 0;
  std::string topic;
  int32_t queue_id = 0;
  int64_t queue_offset = 0;
};
struct LogWalk {
  std::vector<LogPlace> records;
  std::string end_path;             // the file that the log ends in; empty: there is none
  uint64_t end_offset = 0, end_bytes = 0;   // in it: where no record begins any more, and its size
};
LogWalk walk_log(const SimDisk& disk);

// A write that was on its way when the power went landed behind the end of the log: old records, whole and with good checksums, that say that
// they stand elsewhere. Breaks no promise: nothing was flushed there. False: there is no room, or nothing to copy.
bool leave_stale_tail(SimDisk& disk, Prng& prng);

}  // namespace fulmar::sim
