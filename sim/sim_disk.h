#pragma once
// One disk: what nodes see (the page cache), what its medium holds, and what of the difference a crash keeps (simulation.md 2).
// A page that was stored to is undurable until a flush that covers the store has committed; background write-back may land any version
// of it at any moment, so a crash may find each such page old, new, torn or in between. Names are durable once their operation committed.
// The model is weaker than any real file system: it never promises more than core/io does.
//
// A plain value without a clock: drivers begin an operation, wait its latency, and commit, fail or abandon it.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/io/input.h"
#include "core/io/outbox.h"
#include "sim/fault.h"
#include "sim/observer.h"
#include "sim/profile.h"

namespace fulmar::sim {

inline constexpr uint64_t kPageBytes = 4096, kSectorBytes = 512;

using Inode = Id<struct InodeTag>;
using DiskOp = Id<struct DiskOpTag>;  // an operation in flight; 0: nothing is

class SimDisk {
 public:
  SimDisk(DiskProfile profile, Seed seed, uint64_t entity, FaultCounts* counts);
  SimDisk(SimDisk&&) = default;
  SimDisk& operator=(SimDisk&&) = default;

  // --- names. The in-core effect is immediate, durability comes with commit. Paths use '/'; parents are made as needed. -------------
  struct Begun { Inode inode; DiskOp op; };
  Result<Begun> create(std::string_view path, uint64_t size_bytes, Wall now);       // Exists, DiskFull
  Result<DiskOp> replace(std::string_view path, Bytes contents, Wall now);          // DiskFull
  Result<DiskOp> rename(Inode inode, std::string_view path);                        // Exists, NotFound
  Result<DiskOp> remove(std::string_view path);                                     // IoFailed: a directory that is not empty; missing is fine
  std::optional<Inode> lookup(std::string_view path) const;                         // files only
  std::string path_of(Inode inode) const;                                           // empty when unlinked
  // The whole subtree, shuffled; nothing for a missing directory.
  std::vector<FileEntry> list(std::string_view directory, Prng& order) const;
  Result<std::vector<uint8_t>> read(std::string_view path, uint64_t bytes_max) const;  // NotFound, OutOfRange, Unreadable
  // Commits whatever is pending about a path and its parents, as an fsync of its directories does.
  void sync_name(std::string_view path);
  bool is_name_durable(std::string_view path) const;

  // --- contents ---------------------------------------------------------------------------------------------------------------------
  // An open file keeps its bytes when it is unlinked. base() stays put while open.
  void open(Inode inode);
  void close(Inode inode);
  uint8_t* base(Inode inode);
  uint64_t size(Inode inode) const;
  // Before bytes in the range are stored. May write some dirty page back first.
  void note_store(Inode inode, Range range);
  bool is_allocated(Inode inode, Range range) const;                                // blocks exist: a store cannot meet a full disk
  Result<void> check_readable(Inode inode, Range range) const;                      // Unreadable
  // DiskFull; commit zeroes the range: clean and durable, or (Zeros::Soon) as a store would.
  Result<DiskOp> prepare(Inode inode, Range range, Zeros zeros = Zeros::Durable);
  DiskOp flush(Inode inode, Range range);                                           // captures what is stored now

  // --- operations in flight ---------------------------------------------------------------------------------------------------------
  void commit(DiskOp op);
  // A name operation of a caller who syncs the directory: with it go all that were pending there before it.
  void commit_with_directory(DiskOp op);
  void fail(DiskOp op);              // of a flush: its pages become clean though the medium lacks them, until stored to again
  // Its process died: a flush may have landed some pages, a prepare leaves each page old or zero, names stay pending.
  void abandon(DiskOp op);
  std::vector<DiskOp> pending_names() const;

  // --- space ------------------------------------------------------------------------------------------------------------------------
  DiskSpace space() const;
  void set_used_by_others(uint64_t bytes) { used_by_others_ = bytes; }
  uint64_t used_by_others() const { return used_by_others_; }

  // --- crashes ----------------------------------------------------------------------------------------------------------------------
  // Replaces what is seen by what survived, drawn by `prng`; then everything is clean and nothing is in flight or open. Kill is not one:
  // it loses nothing here but operations in flight (abandon). `report` gets what was kept and lost.
  void crash(CrashKind kind, Prng& prng, CrashReport& report);
  // The pages a crash would have to decide about, in store order, for tests that want to place a pattern.
  void crash_with(ImagePattern pattern, Prng& prng, CrashReport& report);
  // A new process opens files after FlushFailed: old bytes may reappear, by profile.
  void process_gone();
  SimDisk clone() const;             // without what is in flight or open; counts nothing

  struct Place { std::string path; uint64_t offset = 0; };
  // --- what oracles ask -----------------------------------------------------------------------------------------------------------
  // The end of the longest [range.begin, x) that a power loss now would certainly preserve: name, size and bytes; range.begin if none.
  uint64_t durable_prefix(std::string_view path, Range range) const;
  bool is_durable(std::string_view path, Range range) const { return durable_prefix(path, range) >= range.end; }
  // All files, by path; contents as seen. For an independent fsck of images.
  std::vector<std::string> files() const;
  Bytes contents(std::string_view path) const;     // empty when missing
  uint64_t digest() const;                         // of all names and contents seen
  uint64_t undurable_pages() const;
  // A clean page of an open file that differs from the medium: somebody stored to it without writable(). Costs a look at every page.
  std::optional<Place> undeclared_store() const;
  const DiskProfile& profile() const { return profile_; }

  // --- faults -----------------------------------------------------------------------------------------------------------------------
  // A random page without unflushed bytes of a random file whose path contains `text`; nothing when there is none.
  std::optional<Place> make_unreadable(std::string_view text, Prng& prng);
  // Flips one bit there, on the medium and in the cache.
  bool rot(std::string_view text, Prng& prng);
  void rot_at(std::string_view path, uint64_t offset, uint8_t mask);
  // Bytes that no node stored, on the medium and in the cache; of a disk whose pages are clean there.
  void overwrite(std::string_view path, uint64_t offset, Bytes bytes);
  // The file is gone, durably, by no node's doing.
  void lose_file(std::string_view path);
  void make_page_unreadable(std::string_view path, uint64_t offset);

 private:
  friend class CrashImage;
  struct Free { void operator()(uint8_t* p) const; };
  using Memory = std::unique_ptr<uint8_t[], Free>;
  using PageBytes = std::vector<uint8_t>;
  struct Landed { uint64_t store; PageBytes bytes; };
  struct DirtyPage {
    uint64_t first_store = 0, last_store = 0;  // store order; first since the last commit
    std::vector<Landed> landed;                // versions that write-back or a flush in flight may have put on the medium
  };
  struct File {
    Memory seen, medium;
    uint64_t size = 0;
    Wall modified;
    uint32_t opens = 0;
    std::vector<bool> allocated, touched;      // per page; untouched pages are zero, seen and on the medium
    std::map<uint64_t, DirtyPage> dirty;
    std::set<uint64_t> lost;                   // clean, but the medium has other bytes
    std::set<uint64_t> unreadable;
    std::string path;                          // seen; empty when unlinked
  };
  struct Name { Inode inode; friend bool operator==(Name, Name) = default; };   // inode 0: a directory
  struct NameOp {
    enum class Kind : uint8_t { Create, Replace, Rename, Remove, MakeDirectory } kind;
    std::string path, other;                   // Rename: from `path` to `other`
    Inode inode;
  };
  struct Captured { PageBytes bytes; uint64_t next_store = 0; };                // bytes and that store once the page was stored to again
  struct FlushOp { Inode inode; std::map<uint64_t, Captured> pages; };
  struct PrepareOp { Inode inode; Range range; Zeros zeros; std::vector<uint64_t> fresh; };  // pages that had no block before

  File& file(Inode inode);
  const File& file(Inode inode) const;
  Inode add_file(uint64_t size_bytes, Wall now);
  bool has_room(uint64_t bytes) const;
  uint64_t missing_parents(std::string_view path) const;
  void make_parents(std::string_view path);
  DiskOp add_name_op(NameOp op);
  void commit_name(uint64_t id);
  void apply_durable(const NameOp& op);
  static bool is_related(const NameOp& a, const NameOp& b);
  void drop_if_unused(Inode inode);
  void land(File& f, uint64_t page, const uint8_t* bytes);
  void add_landed(DirtyPage& dirty, const File& f, uint64_t page);
  void write_back_some();
  void capture_before_store(Inode inode, File& f, uint64_t page, uint64_t store);
  void commit_flush(FlushOp& op);
  void fail_flush(FlushOp& op);
  void commit_prepare(const PrepareOp& op);
  void abandon_prepare(const PrepareOp& op);
  std::optional<std::pair<Inode, uint64_t>> cold_page(std::string_view text, Prng& prng);
  void count_space();
  static uint64_t page_length(const File& f, uint64_t page);
  static Range pages_of(Range range) { return {range.begin / kPageBytes, (range.end + kPageBytes - 1) / kPageBytes}; }

  DiskProfile profile_;
  KeyedStream write_back_, abandon_;
  FaultCounts* counts_;
  std::map<Inode, File> files_;
  std::map<std::string, Name, std::less<>> names_, durable_names_;
  std::map<uint64_t, NameOp> name_ops_;        // pending, in order
  std::set<Inode> with_dirty_;                 // files that may have dirty pages
  std::map<uint64_t, FlushOp> flushes_;
  std::map<uint64_t, PrepareOp> prepares_;
  uint64_t used_bytes_ = 0, used_by_others_ = 0;
  uint64_t next_inode_ = 1, next_op_ = 1, stores_ = 0;
};

}  // namespace fulmar::sim
