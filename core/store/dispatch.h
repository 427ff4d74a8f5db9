#pragma once
// The only walker: feeds visible records, in log order, to everything Derived.

#include <optional>
#include <span>
#include <utility>

#include "core/store/commit_log.h"
#include "core/store/derived.h"

namespace fulmar {

// A small fact for whoever waits for messages.
struct Arrival { std::string topic; QueueId queue_id; QueueOffset max; };

class Dispatch {
 public:
  Dispatch(CommitLog& log, Watermarks& watermarks, std::vector<Derived*> derived);
  // Starts (again) at `from`, a record's beginning.
  void begin_at(PhysicalOffset from) { watermarks_.dispatched = from; }
  // Walks [dispatched, visible), at most kDispatchRecordsPerStep records; asks for step_again when more is ready, warms what is cold.
  // `skip`: ranges of the log that recovery found damaged, ascending; they are passed over.
  void pump(Ctx& ctx, PhysicalOffset visible, std::span<const Range> skip);
  void on_warmed(const Warmed& warmed);
  // What came from the disk is compared with its checksums. Where it does not match, or cannot be read, the next good record is sought and
  // dispatch goes on there; the range between is told here, once. (What this life stored itself is not compared: it stops at nonsense.)
  struct Damage { Range hole; std::string_view why; };
  std::optional<Damage> take_damage() { return std::exchange(damage_, std::nullopt); }
  bool is_waiting() const { return is_waiting_; }
  bool is_stopped() const { return is_stopped_; }
  Wall newest_stamp() const { return newest_stamp_; }   // of what this life has dispatched
  bool is_behind(PhysicalOffset visible) const { return watermarks_.dispatched < visible; }

 private:
  CommitLog& log_;
  Watermarks& watermarks_;
  std::vector<Derived*> derived_;
  void stop(Ctx& ctx, PhysicalOffset at, std::string_view why);
  void begin_seek(PhysicalOffset at, uint64_t from, const char* why);
  bool seek(Ctx& ctx, uint64_t visible);        // false: it waits
  void fetch(Ctx& ctx, PhysicalOffset at, uint64_t bytes);
  bool is_waiting_ = false;
  bool is_stopped_ = false;                     // a visible record does not parse or cannot be read: an operator must look
  bool is_unreadable_ = false, is_narrow_ = false;   // the last fetch failed; pages are fetched one by one since
  uint64_t window_begin_ = 0, window_end_ = 0;  // what was fetched last
  bool is_seeking_ = false;
  uint64_t seek_at_ = 0, seek_wanted_ = 0;      // behind the bad record at `dispatched`
  const char* why_ = "";
  std::optional<Damage> damage_;
  Wall newest_stamp_;
};

}  // namespace fulmar
