#pragma once
// Which bytes of the log may go, and the order in which everything that leads to them goes (spec: ST§17). One file at a time, the oldest:
//
//   Resting --it may go--> Measuring --> Carrying --> Flushing --> Stamping --> Leaving --> Resting
//
//   Measuring   each queue finds its first entry behind the file; who would lose unread messages is counted
//   Carrying    topics, offsets and queue floors that stand in it are appended again
//   Flushing    … and are durable
//   Stamping    begin and the minima of all queues have moved; the checkpoint that says so is being made durable
//   Leaving     the file is renamed (recycled) or removed when its last reader is done; files of queues and index follow
//
// A crash anywhere is harmless: before Stamping ends the old begin holds, behind it recovery finishes the removal.
//
// When a file may go: every record is older than fileReservedTime and the hour is one of deleteWhen, or the disk is above
// diskMaxUsedSpaceRatio; or the log is longer than retainBytesMax; or the disk is above diskSpaceCleanForciblyRatio and
// cleanFileForciblyEnable says so. Never: the file that is written, what is not flushed, dispatched and derived yet, and with
// neverDeleteUnread what a group has not consumed.
//
// Age: what this life wrote is aged by the monotonic clock, so a wall clock that leaps deletes nothing. What an earlier life wrote is aged
// by the wall clock as the start found it, or as it is now if that is earlier; a file that is old only because of time that passed between
// two lives (which a wrong clock cannot be told from) goes once an hour at most.

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "core/io/input.h"
#include "core/model/config.h"
#include "core/store/commit_log.h"
#include "core/store/consume_queue.h"
#include "core/store/index_file.h"
#include "core/store/meta.h"

namespace fulmar {

class Retention {
 public:
  enum class State : uint8_t { Resting, Measuring, Carrying, Flushing, Stamping, Leaving };
  Retention(const BrokerConfig& config, CommitLog& log, ConsumeQueues& queues, Index& index, Meta& meta, const Watermarks& watermarks);

  // When the log's end is known, before anything is appended.
  void begin(Ctx& ctx);
  // Each step of a store that serves. `derived`: what files of queues and index are known to hold.
  void pump(Ctx& ctx, PhysicalOffset derived);
  void on_space(const DiskSpace& space, Monotonic now);
  void on_warmed() { is_warming_ = false; }  // WarmFor::Retention
  // Stamping: how many entries of queues and index went with what this step took. The store writes a checkpoint that says so …
  struct Gone { uint64_t queue_entries, index_entries; };
  std::optional<Gone> take_gone() { return std::exchange(gone_, std::nullopt); }
  void on_durable(Ctx& ctx, PhysicalOffset begin);   // … and tells how far one that is durable says the log begins
  // What must be flushed, and queues and index derived to, before it can go on: nobody should wait for the next interval while the log is
  // longer than it may be, or the disk too full. Nothing: it waits for neither.
  std::optional<PhysicalOffset> wants_flushed(PhysicalOffset derived) const;
  std::optional<PhysicalOffset> wants_derived(PhysicalOffset derived) const;
  State state() const { return state_; }
  // Bytes that this life has appended since the log ended at `measured_at`. What an earlier life left is on the disk, whenever it was measured:
  // the first measurement is older than the log's end.
  uint64_t appended_since(PhysicalOffset measured_at) const;
  // For `fulmar status`: what keeps the oldest file, or when it goes.
  std::string outlook(const Moment& now) const;

 private:
  enum class Why : uint8_t { None, Expired, LongLog, DiskExpired, DiskForced };
  struct Closed { uint64_t end; Monotonic first, last; };   // a file of this life: when the writer came to it, and when it left it
  struct Unread { std::string group, topic; uint64_t count; };
  void note_writing(Ctx& ctx);
  bool is_long() const { return config_.retain_bytes_max != 0 && (watermarks_.appended - watermarks_.begin).value() > config_.retain_bytes_max; }
  bool may_go(PhysicalOffset derived) const;         // none of its bytes is needed by the broker itself
  struct Age { int64_t certain_ms = 0, likely_ms = 0; };   // without the time between the last life and this one, and with it
  std::optional<Age> age(Ctx& ctx);                  // of the youngest record in the oldest file; nothing: being looked up
  bool is_old(Ctx& ctx);
  std::optional<Wall> stamp_behind(Ctx& ctx);        // the least stamp behind the oldest file
  Why decide(Ctx& ctx, PhysicalOffset derived);
  bool is_hour(const Moment& now) const;
  uint64_t disk_percent() const;
  bool is_forced() const;                            // the disk is so full that files go unexpired
  void measure(Ctx& ctx);
  void weigh(Ctx& ctx);                              // Measuring is done
  void count_unread();
  void take(Ctx& ctx);
  void enter(State state) { state_ = state; }

  const BrokerConfig& config_;
  CommitLog& log_;
  ConsumeQueues& queues_;
  Index& index_;
  Meta& meta_;
  const Watermarks& watermarks_;
  State state_ = State::Resting;
  Why why_ = Why::None;
  PhysicalOffset cut_, flush_to_;
  std::vector<Meta::Floor> floors_;
  std::vector<Unread> unread_;
  std::optional<Gone> gone_;

  std::optional<DiskSpace> space_;           // as measured when the log ended at space_at_
  PhysicalOffset space_at_;
  uint64_t left_bytes_ = 0;                  // since that was measured
  Monotonic blocks_gone_at_, believed_until_;
  bool is_look_due_ = false;
  bool is_round_wanted_ = false;             // the oldest file has expired, and is not derived
  std::optional<int64_t> clock_at_start_;    // wall ms - monotonic ms
  int64_t clock_now_ = 0;
  int64_t pause_ms_ = 0;                     // what the wall clock says passed between the newest stamp found and this life
  Monotonic next_doubtful_;                  // a file that is old by that alone may go
  bool is_doubtful_ = false;                 // the one that is going
  std::optional<uint64_t> life_begin_;       // what this life appends lies behind it
  uint64_t seen_end_ = 0;
  Monotonic writing_since_;
  std::deque<Closed> closed_;
  bool is_leap_told_ = false;
  bool is_warming_ = false, is_head_asked_ = false;
  std::optional<std::pair<uint64_t, Wall>> stamp_;   // of the oldest file: its start, the stamp behind it
  uint64_t stamp_from_ = 0;                  // where the next stamp is sought
  uint64_t kept_start_ = UINT64_MAX;         // neverDeleteUnread holds the file that begins here, and has said so
  Monotonic next_weighing_;
  uint64_t weighed_changes_ = 0;
};

}  // namespace fulmar
