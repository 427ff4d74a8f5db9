#pragma once
// Equal-sized mapped files under one directory, named by their 20-digit start offset: the commit log's bytes as one line. New files are
// asked for and prepared before they are needed (decision 1); files found at start keep the length they have.
//
//   a file: Unmapped --map--> Mapping --> Mapped (prepared_to moves forward in steps while it is at the writing end)
//
// The writing end: everything in [writable_from, prepared_to()) may be stored to. One map or prepare is in flight at a time; when one
// fails with DiskFull it is tried again every second and blocked() says why. The file behind the one that is written is there before the
// writer comes near its end, so that a roll waits for nobody.
//
// The front: retire_front() takes the oldest file out of the sequence; dispose() then removes it, or recycles it: renames it, durably, to
// the next name behind the last file, where prepare() zeroes it step by step like a new one.
//
//   leaving: none --retire_front--> Retired --dispose--> (mapped -> renamed) | (unmapped -> removed) --> none

#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/io/node.h"
#include "core/io/tickets.h"
#include "core/model/ids.h"
#include "core/store/limits.h"

namespace fulmar {

std::string segment_name(uint64_t start);                              // "00000000001073741824"
std::optional<uint64_t> parse_segment_name(std::string_view name);     // 20 digits and nothing else

class FileSequence {
 public:
  struct Options {
    std::string directory;
    uint64_t file_bytes = 1ull << 30;
    uint64_t ahead_max = 64ull << 20;
    uint8_t owner = 0;
    Zeros zeros = Zeros::Durable;   // what prepare promises of the place ahead
  };
  struct File {
    uint64_t start = 0, size = 0;
    FileId id;                     // when Mapped
    enum class State : uint8_t { Unmapped, Mapping, Mapped } state = State::Unmapped;
    bool is_recycled = false;      // by this life: it holds bytes of an earlier place
    uint64_t end() const { return start + size; }
  };

  explicit FileSequence(Options options) : options_(std::move(options)), tickets_(options_.owner) {}

  // --- start ----------------------------------------------------------------------------------------------------------------------
  void adopt(uint64_t start, uint64_t size);         // in ascending order, without a gap to the last one; an existing file
  void map_existing(Ctx& ctx, size_t index);         // then on_mapped
  // Writing goes on at `end`: it, and everything behind it, counts as unprepared, so that prepare() zeroes it before it is written.
  void begin_writing(uint64_t end);

  // --- running ----------------------------------------------------------------------------------------------------------------------
  // Keeps the place ahead of `end` prepared: at least kPrepareAheadMin, more the faster the writer is. Call once a step.
  void pump(Ctx& ctx, uint64_t end);
  uint64_t prepared_to() const { return prepared_to_; }
  const Error* blocked() const { return blocked_ ? &*blocked_ : nullptr; }
  // The disk has room again: try at once.
  void unblock(Ctx& ctx);

  // --- inputs -------------------------------------------------------------------------------------------------------------------------
  void on_mapped(Ctx& ctx, const Mapped& mapped);
  void on_done(Ctx& ctx, const Done& done);
  void on_timer(Ctx& ctx);                            // TimerId(owner << 56)

  // --- reading ------------------------------------------------------------------------------------------------------------------------
  // Index of the file that holds `offset`; nothing when outside.
  std::optional<size_t> find(uint64_t offset) const {
    // Whoever asks mostly asks again for the same file, the writer's, several times a message.
    const bool is_again = last_found_ < files_.size() && offset - files_[last_found_].start < files_[last_found_].size;   // a start behind it wraps
    return is_again ? std::optional(last_found_) : search(offset);
  }
  const std::vector<File>& files() const { return files_; }
  const File& file(size_t index) const { return files_[index]; }
  std::string path(size_t index) const;
  uint64_t begin() const { return files_.empty() ? next_start_ : files_.front().start; }
  uint64_t limit() const { return files_.empty() ? next_start_ : files_.back().end(); }
  // Forgets files that lie wholly at or behind `offset`, after a cut; the caller removes them in the order given, newest first.
  std::vector<std::string> drop_files_from(Ctx& ctx, uint64_t offset);
  // --- the front (retention) ------------------------------------------------------------------------------------------------------------
  bool can_retire_front() const { return !leaving_ && files_.size() > 1 && files_.front().state != File::State::Mapping; }
  std::string drop_front();                           // before anything is mapped: the path of the oldest file, which the caller removes
  void retire_front();                                // not found any more; its name and bytes stay until dispose()
  // Recycles when asked to and the file has the length of a new one, once no new file is being made; else, or when renaming fails, removes.
  // One at a time.
  void dispose(Ctx& ctx, bool may_recycle);
  bool is_disposing() const { return leaving_.has_value(); }
  size_t files_behind(uint64_t offset) const;         // whole files behind the one that holds `offset`, ready or being made
  uint64_t recycled_count() const { return recycled_; }
  uint64_t removed_count() const { return removed_; }
  void begin_at(uint64_t start) { next_start_ = start; }  // an empty sequence starts here
  bool is_idle() const { return tickets_.out_count() == 0; }
  bool has_map_error() const { return map_error_.has_value(); }
  const std::optional<Error>& map_error() const { return map_error_; }   // map_existing failed: the store cannot be opened

 private:
  struct InFlight {
    enum class What : uint8_t { MapNew, MapExisting, Prepare, MapLeaving, Rename, Unname, Remove } what = What::Prepare;
    uint64_t start = 0;
    uint64_t prepare_end = 0;
  };
  std::optional<size_t> search(uint64_t offset) const;
  uint64_t ahead_wanted(Ctx& ctx, uint64_t end);
  bool make_next(Ctx& ctx);                          // false: its name is being given to a recycled file
  void fail(Ctx& ctx, Error error);
  void rename_leaving(Ctx& ctx);
  void remove_leaving(Ctx& ctx);
  void on_leaving(Ctx& ctx, const InFlight& what, const Result<void>& outcome);

  Options options_;
  TicketBook<InFlight> tickets_;
  std::vector<File> files_;
  uint64_t next_start_ = 0;
  uint64_t prepared_to_ = 0;
  mutable size_t last_found_ = 0;
  bool is_writing_ = false, is_advancing_ = false, is_making_ = false;
  std::optional<File> leaving_;
  bool is_leave_stalled_ = false, is_leave_told_ = false;
  bool is_leave_waiting_ = false;            // a new file is being made: `leaving_` gets the name behind it
  uint64_t renaming_to_ = 0;                 // the start that `leaving_` is being renamed to; 0: it is not
  uint64_t recycled_ = 0, removed_ = 0;
  std::optional<Error> blocked_, map_error_;
  bool is_failing_ = false;                  // said so, once, until something was prepared again
  uint64_t rate_end_ = 0, rate_bytes_ = 0;   // how much was appended in the last second
  Monotonic rate_at_;
};

}  // namespace fulmar
