#pragma once
// The commit log: append, read, truncate. The only truth; everything else is derived from it.

#include <map>
#include <optional>

#include "core/store/file_sequence.h"
#include "core/store/record.h"
#include "core/store/warm_ranges.h"
#include "core/store/watermarks.h"

namespace fulmar {

struct Appended { PhysicalOffset begin, end; QueueOffset queue_offset; };

// Who waits for cold pages; the rest of the token is the waiter's own.
enum class WarmFor : uint8_t { Recovery = 1, Dispatch = 2, Queues = 3, Pull = 4, Query = 5, Retention = 6, Nobody = 7 };
struct WarmToken { WarmFor who; uint64_t what = 0; };
struct Warmed { WarmToken token; Result<void> outcome; };   // Unreadable: a page of the range cannot be read

class CommitLog {
 public:
  struct Options {
    std::string directory;
    uint64_t file_bytes = 1ull << 30;
    uint64_t ahead_max = 64ull << 20;
    uint32_t body_bytes_max = 4u << 20;
    bool with_crc_property = true;
    Zeros zeros = Zeros::Durable;
  };
  CommitLog(Options options, Watermarks& watermarks);

  // Encodes `message` at the end of the active file.
  //   message   topic and queue are the caller's business; queue_offset the next of its queue
  //   returns   [begin, end) in the log
  //   errors    LogRolling: the place is not prepared yet, SYSTEM_BUSY; DiskFull: and it will not be until the disk has room;
  //             UnflushedLimit: would pass the append limit; RecordTooLarge: MESSAGE_ILLEGAL. Nothing is stored on any error.
  //   source    store.md 2.1, 2.2
  Result<Appended> append(Ctx& ctx, const Message& message, QueueOffset queue_offset);
  // May `bytes` of records, in one piece, be appended now? What append() would answer; for batches, which are stored whole or not at all.
  Result<void> room_for(Ctx& ctx, uint64_t bytes) const;
  // Ends the segment with a filler when `bytes` do not fit it any more. After room_for() said yes, before a batch's first append.
  void make_room(Ctx& ctx, uint64_t bytes);
  // No byte at or beyond `limit` is stored (decision 13).
  void set_append_limit(PhysicalOffset limit) { append_limit_ = limit; }
  PhysicalOffset append_limit() const { return append_limit_; }
  // Stamps never fall within a log (store.md FG-7): the newest stamp so far.
  Wall newest_stamp() const { return newest_stamp_; }
  void raise_stamp(Wall stamp) { newest_stamp_ = std::max(newest_stamp_, stamp); }

  // --- reading ----------------------------------------------------------------------------------------------------------------------
  enum class Readiness : uint8_t { Ready, Cold, Outside };
  // Ready: resident by our bookkeeping (decision 7). The range must not cross a file.
  Readiness readiness(PhysicalOffset at, uint64_t bytes, Monotonic now) const;
  // Stored by this life and still in memory; anything else came from the disk, and may not be what was written there.
  bool is_own(PhysicalOffset at) const { return is_writing_ && at.value() >= own_tail_begin_; }
  Bytes view(Ctx& ctx, PhysicalOffset at, uint64_t bytes) const;        // Ready ranges only
  FileSlice slice(Ctx& ctx, PhysicalOffset at, uint64_t bytes);         // Ready ranges only
  // Fetches the pages of [at, at + bytes), cut at the end of the file; maps the file first when it must. The answer comes in take_warmed().
  void warm(Ctx& ctx, PhysicalOffset at, uint64_t bytes, WarmToken token);
  // The same for several ranges of one file, ascending, in one request with one answer. Where the first page is on its way already nothing
  // is asked: the answer comes with it, and says that it is there, or that not all of what it came with can be read.
  void warm_all(Ctx& ctx, std::span<const Range> ranges, WarmToken token);
  size_t fetches_in_flight() const { return warms_.out_count(); }
  // Where what this life appended and never gave back begins; all of it is resident anyway.
  PhysicalOffset own_tail_begin() const { return PhysicalOffset(is_writing_ ? own_tail_begin_ : files_.limit()); }
  std::vector<Warmed> take_warmed() { return std::exchange(warmed_, {}); }
  // First byte behind the file that holds `at`.
  PhysicalOffset file_end(PhysicalOffset at) const;
  PhysicalOffset file_begin(PhysicalOffset at) const;

  // --- retention ------------------------------------------------------------------------------------------------------------------------
  // The oldest file is not part of the log any more: begin moves behind it. files().dispose() then ends it.
  void retire_front();
  bool is_front_idle() const;               // nobody was sent anything of it for a while

  // --- inputs and pump ----------------------------------------------------------------------------------------------------------------
  void on_mapped(Ctx& ctx, const Mapped& mapped);
  void on_done(Ctx& ctx, const Done& done);
  void on_timer(Ctx& ctx) { files_.on_timer(ctx); }
  void pump(Ctx& ctx);

  // --- recovery -----------------------------------------------------------------------------------------------------------------------
  FileSequence& files() { return files_; }
  const FileSequence& files() const { return files_; }
  // The log ends here; appends begin at `end` once its place is prepared.
  void begin_writing(PhysicalOffset end);
  bool is_ready_to_append() const { return is_writing_; }
  uint64_t prepared_unused_bytes() const;   // ours, but free in spirit (decision 10)

 private:
  struct WaitingForMap { std::vector<Range> ranges; WarmToken token; };
  struct WarmInFlight { std::vector<Range> ranges; std::vector<WarmToken> tokens; };
  struct PlaceFound { uint64_t at; bool needs_filler; };
  Result<PlaceFound> place_for(uint64_t bytes) const;
  void fetch(Ctx& ctx, size_t index, std::span<const Range> ranges, WarmToken token);
  void start_warm(Ctx& ctx, std::span<const Range> ranges, WarmToken token);
  bool ride_along(Range wanted, WarmToken token);
  uint64_t page_begin(uint64_t at) const;
  void pump_cooling(Ctx& ctx);
  void look_for_cold(Ctx& ctx);
  bool may_cool_later() const;
  void cool(Ctx& ctx, Range range);

  Options options_;
  Watermarks& watermarks_;
  FileSequence files_;
  TicketBook<WarmInFlight> warms_;
  std::vector<Ticket> rides_;              // fetches in flight that others may wait for, too; the oldest first
  std::vector<WaitingForMap> waiting_;
  WarmRanges warm_;                        // all that may be resident, but the tail of this life and what is prepared behind it
  std::map<uint64_t, Monotonic> last_use_;   // by a file's start: when somebody fetched or sent of it, until it is given back whole
  std::vector<Warmed> warmed_;
  PhysicalOffset append_limit_{UINT64_MAX};
  uint64_t own_tail_begin_ = 0;            // appended by this life and not released: resident while within kWarmTailBytes of the end
  bool is_ahead_cooled_ = false;           // since the log became quiet
  uint64_t quiet_end_ = 0;                 // where the log ended when cooling last looked
  Monotonic quiet_since_, next_cooling_;
  bool is_cooling_timer_set_ = false;
  Wall newest_stamp_;
  bool is_writing_ = false;
};

}  // namespace fulmar
