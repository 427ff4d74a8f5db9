#include "sim/media.h"

#include <algorithm>

#include "sim/oracles/stored_record.h"

namespace fulmar::sim {

LogWalk walk_log(const SimDisk& disk) {
  LogWalk walk;
  std::vector<std::string> paths;
  for (const std::string& path : disk.files()) {
    if (path.starts_with("store/commitlog/") && path.size() == 16 + 20) paths.push_back(path);
  }
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    const Bytes file = disk.contents(path);
    uint64_t at = 0;
    walk.end_path = path;
    walk.end_bytes = file.size();
    while (at + 8 <= file.size()) {
      const RecordOutcome outcome = read_stored_record(file.subspan(at));
      walk.end_offset = at;
      if (outcome.kind == RecordOutcome::Kind::Filler && outcome.filler_bytes == file.size() - at) break;
      if (outcome.kind != RecordOutcome::Kind::Record) return walk;
      const StoredRecord& r = outcome.record;
      walk.records.push_back({path, at, r.bytes, static_cast<uint64_t>(r.physical), std::string(r.topic), r.queue_id, r.queue_offset});
      at += r.bytes;
    }
  }
  return walk;
}

bool leave_stale_tail(SimDisk& disk, Prng& prng) {
  const LogWalk walk = walk_log(disk);
  if (walk.records.empty() || walk.end_path.empty()) return false;
  const uint64_t room = walk.end_bytes - walk.end_offset;
  const size_t first = prng.below(walk.records.size());
  const std::string& source = walk.records[first].path;
  uint64_t bytes = 0;
  for (size_t i = first; i < walk.records.size() && i < first + 3 && walk.records[i].path == source; ++i) {
    if (bytes + walk.records[i].bytes + 8 > room) break;
    bytes += walk.records[i].bytes;
  }
  if (bytes == 0) return false;
  const Bytes old = disk.contents(source).subspan(walk.records[first].offset, bytes);
  disk.overwrite(walk.end_path, walk.end_offset, std::vector<uint8_t>(old.begin(), old.end()));
  return true;
}

}  // namespace fulmar::sim
