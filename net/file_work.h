#pragma once
// What is asked of a disk, one blocking function each, called on pool threads. Nothing here knows tickets or nodes. Every error comes
// with a sentence; who is given a path names it there, who is given an OpenFile leaves that to the loop thread, which may rename it.

#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/io/input.h"
#include "core/io/outbox.h"

namespace fulmar::net {

inline constexpr size_t kFlushWorkers = 2;               // flushes that run at the same time (decision 6)
inline constexpr uint64_t kPopulateStepBytes = 2u << 20;   // decision 1
inline constexpr uint64_t kFreeStepBytes = 64u << 20;      // blocks of a removed file are freed in slices of this size

// An open descriptor, closed once.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept { std::swap(fd_, other.fd_); return *this; }
  ~Descriptor();
  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// A mapped file as the driver holds it. Threads touch what is const after map_file, and flush_failed.
struct OpenFile {
  std::string path;  // loop thread only
  Descriptor descriptor;
  uint8_t* base = nullptr;
  // A flush is an msync: the one call that syncs a range and leaves what else is dirty alone. One mapping (that nobody can touch) of an open
  // file description of its own per flush in flight, as old as `base`: the kernel reports a lost page once per description, and only to
  // descriptions that were open when it was lost.
  uint8_t* flush_views[kFlushWorkers] = {};
  uint64_t size = 0;
  bool is_writable = false;
  std::atomic<bool> has_flush_failed{false};
  uint32_t pins = 0;         // loop thread only: tickets out that name this file
  bool is_leaving = false;   // loop thread only: unmap was asked
  uint64_t flush_end = 0;    // loop thread only: where the range of the last flush ended
  ~OpenFile();               // unmaps
};

// Directories whose names are known to be durable, all the way up: so that a new file syncs the chain above it once, not each time.
class DurableDirectories {
 public:
  // Makes `directory` and what is missing above it, and syncs every name on the way that this process has not yet seen synced.
  Result<void> make(const std::string& directory);
  // Makes the names in `directory` durable that an earlier process may have given and not synced: once each, then it is known.
  Result<void> settle(const std::string& directory);
  void forget(const std::string& directory);

 private:
  bool knows(const std::set<std::string>& set, const std::string& directory);
  std::mutex mutex_;
  std::set<std::string> known_, settled_;
};

std::string parent_of(const std::string& path);
Result<void> sync_directory(const std::string& directory);

// The contracts are those of the requests in core/io/outbox.h.
Result<std::unique_ptr<OpenFile>> map_file(const std::string& path, uint64_t size_bytes, Open how, DurableDirectories& directories);
Result<void> prepare_range(OpenFile& file, Range range, Zeros zeros = Zeros::Durable);
Result<void> warm_range(const OpenFile& file, Range range);
void cool_range(const OpenFile& file, Range range);
// is_appended: the range goes on where the last flush ended, and what lies below its end will not be stored to soon.
Result<void> flush_range(OpenFile& file, Range range, size_t worker, bool is_appended = false);
Result<std::vector<uint8_t>> read_file(const std::string& path, uint64_t bytes_max);
Result<void> replace_file(const std::string& path, Bytes contents, DurableDirectories& directories);
// `has_moved` tells whether the new name stands, also when what follows fails.
Result<void> rename_file(const std::string& from, const std::string& to, DurableDirectories& directories, bool& has_moved);
// is_mapped: somebody here still maps the file, so its blocks go when the mapping goes.
Result<void> remove_path(const std::string& path, bool is_mapped, DurableDirectories& directories);
Result<std::vector<FileEntry>> list_tree(const std::string& directory);
Result<DiskSpace> disk_space(const std::string& path);

}  // namespace fulmar::net
