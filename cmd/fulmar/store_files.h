#pragma once
// A store directory read from outside, without a node: the files mapped read-only, the records walked one by one.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/result.h"
#include "core/store/checkpoint.h"
#include "core/store/consume_queue.h"
#include "core/store/record.h"

namespace fulmar::cmd {

// A whole file mapped read-only; unmapped when destroyed.
class ReadOnlyFile {
 public:
  static Result<ReadOnlyFile> open(const std::string& path);
  ReadOnlyFile(ReadOnlyFile&& other) noexcept;
  ReadOnlyFile& operator=(ReadOnlyFile&&) = delete;
  ~ReadOnlyFile();
  Bytes bytes() const { return {base_, size_}; }

 private:
  ReadOnlyFile(const uint8_t* base, size_t size) : base_(base), size_(size) {}
  const uint8_t* base_;
  size_t size_;
};

struct LogFile { uint64_t start = 0; ReadOnlyFile file; std::string path; uint64_t end() const { return start + file.bytes().size(); } };
struct QueueFile { uint64_t start = 0; ReadOnlyFile file; };
struct IndexFileFound { std::string name; ReadOnlyFile file; };

class StoreFiles {
 public:
  // NotFound when there is no store; what is odd about the directory itself goes into `oddities`.
  static Result<StoreFiles> open(const std::string& root, std::vector<std::string>& oddities);
  std::vector<LogFile> log;                                              // ascending, without gaps
  std::map<std::pair<std::string, int32_t>, std::vector<QueueFile>> queues;  // by topic and queue id; files ascending
  std::vector<IndexFileFound> index;
  std::optional<CheckpointState> checkpoint;
  bool has_abort = false;

  uint64_t begin() const { return log.empty() ? 0 : log.front().start; }
  uint64_t limit() const { return log.empty() ? 0 : log.back().end(); }
  // Bytes from `offset` to the end of its file; empty when outside.
  Bytes at(uint64_t offset) const;
  // The first byte at or behind `offset` that may be something else than zero: a file that was made and never written is one hole of its
  // whole size, and reading that takes seconds. limit() when there is none.
  uint64_t next_data(uint64_t offset) const;

 private:
  const LogFile* find(uint64_t offset) const;
};

}  // namespace fulmar::cmd
