#pragma once
// O20  Every image of a store parses under a second reader of the format, written from its description only (store.md 1 to 3, 7, 8): the
// commit log is one sequence of good records, dense per queue; queue entries match records one to one; every key of a record is found
// through the index; the checkpoint claims nothing that is not there.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/oracles/facts.h"

namespace fulmar::sim {

// Paths with '/', relative to the disk, and what they hold. Borrowed.
using StoreFiles = std::map<std::string, Bytes>;

struct FsckOptions {
  std::string root = "store";
  uint64_t index_slots = 0, index_entries = 0;  // geometry; 0 slots: the index is not looked at
  bool is_clean = false;                        // stopped in order: everything derived must be complete
  bool is_unwritten = false;                    // … but what the checkpoint does not call derived; the abort marker says so
  bool has_crc = false;                         // every record carries the CRC property: one without is none
  bool may_be_torn = false;                     // not stopped in order: behind the log's end may stand anything that is no record
  bool is_claimed = false;                      // what the checkpoint calls derived must be complete, as after a crash
  uint64_t derived_to = 0;                      // and what the broker does, which may be more
};

struct LogRecord {
  uint64_t physical = 0;
  uint32_t bytes = 0;
  int64_t queue_offset = 0;
  int64_t tag_code = 0;
  bool has_tag_code = true;                     // false: tags whose hash we do not compute
  std::vector<uint32_t> key_hashes;             // of those keys whose hash we compute
  uint32_t crc = 0;                             // of the whole record
};
struct StoreReport {
  std::vector<std::string> problems;
  uint64_t log_begin = 0, log_end = 0;
  std::set<std::string> topics;                                               // a record of the broker's own makes each
  std::set<std::string> groups;                                               // so it does of these, and none behind it ends them
  std::map<std::pair<std::string, int32_t>, int64_t> floors;                  // and says where an emptied queue goes on
  std::map<std::pair<std::string, int32_t>, std::vector<LogRecord>> queues;   // by topic and queue id, in log order
  // Of all records whose topic is not the broker's own: two stores with the same answers have the same.
  uint64_t digest() const;
  uint64_t record_count() const;
};

StoreReport fsck(const StoreFiles& files, const FsckOptions& options);

// What the checkpoint page says; nothing when no slot has a good checksum.
struct CheckpointClaim { uint64_t sequence = 0, flushed = 0, append_limit = 0, derived = 0, log_begin = 0; bool is_clean = false; };
std::optional<CheckpointClaim> read_checkpoint(Bytes page);

}  // namespace fulmar::sim
