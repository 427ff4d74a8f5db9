#pragma once
// A pull: queue offset to runs of file slices. Records leave as they stand in the log; nothing is copied.
//
//   run --answered--> done      --a queue file or log range is cold--> waiting --fetched--> run again, from where it was
//
// What a pull lacks of the log is asked for in one request, with some more of the same for the pulls behind it; how much, consume/limits.h
// says. It waits when it has nothing yet, or so little that going on is worth one wait; else it is answered with what it has, and the rest
// is fetched meanwhile. When something of that cannot be read, it asks once more, for its next record alone.
//
// Status (store.md 15): offset < min => OFFSET_MOVED to min; == max => NOT_FOUND; > max => OFFSET_MOVED to max; nothing matched the
// filter => RETRY_IMMEDIATELY with `next` advanced. Nothing at or above the queue's dispatched end is ever returned.
// A record that came from the disk and does not match its checksums is passed over, with an event.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/consume/asker.h"
#include "core/consume/limits.h"
#include "core/model/command.h"
#include "core/store/commit_log.h"
#include "core/store/consume_queue.h"

namespace fulmar {

// Tag codes of a subscription, ascending; empty: everything. Collisions of codes pass: clients check the exact tag.
struct TagFilter {
  std::vector<int64_t> codes;
  // "*" or "", or tags joined by "||", blanks around them trimmed. InvalidArgument, with the reason.
  static Result<TagFilter> parse(std::string_view subscription);
  bool matches(int64_t code) const;
};

struct PullRequest {
  std::string group, topic;
  int32_t queue_id = 0;
  QueueOffset offset;
  int32_t count_max = 32;             // 1 to kPullCountMax
  uint64_t bytes_max = 256 * 1024;    // the first message leaves whatever its size
  TagFilter filter;
  Asker asker;
  Monotonic hold_until;               // may be held until then; in the past: answer at once
  // how far an earlier run came; kept from run to run
  QueueOffset scanned_to;
  bool has_waited = false;            // for more than it had: now it takes what there is
  bool is_narrow = false;             // what it asked for could not be read: record by record
};

struct PullAnswer {
  Code code = Code::PullNotFound;     // Success, PullNotFound, PullRetryImmediately, PullOffsetMoved
  QueueOffset next, min, max;
  int32_t count = 0;
  uint64_t bytes = 0;
  std::vector<FileSlice> slices;      // adjacent records are one; none crosses a file
};

class Pulls {
 public:
  struct Retry { PullRequest request; Result<void> outcome; };   // outcome: why what it waited for cannot be read

  Pulls(ConsumeQueues& queues, CommitLog& log, const Watermarks& watermarks) : queues_(queues), log_(log), watermarks_(watermarks), cold_(limits::kColdPullsMax) {}

  // Answers, or keeps `request` until what it needs is fetched (nothing; take_ready() has it then). Full: too many wait already.
  // StoreDamaged: the queue's entry at the offset asked for cannot be right; the message may well be whole, so it is not passed over.
  // `holes`: ranges of the log that are damaged, ascending; their messages are passed over.
  Result<std::optional<PullAnswer>> run(Ctx& ctx, PullRequest& request, std::span<const Range> holes);

  // What came home, to be run again.
  void on_queue_ready(uint64_t token);
  void on_warmed(const Warmed& warmed);
  std::vector<Retry> take_ready() { return std::exchange(ready_, {}); }
  std::vector<Asker> take_askers();   // the node stops: everybody who waits; nobody comes home any more
  void drop(ConnId conn);             // their connection is gone
  size_t waiting_count() const { return cold_.size(); }

 private:
  enum class Stop : uint8_t { ScanEnd, Full, ColdQueue, ColdLog, Damaged };
  Stop gather(Ctx& ctx, PullRequest& request, uint64_t token, std::span<const Range> holes, PullAnswer& answer);
  Stop take(Ctx& ctx, const PullRequest& request, std::span<const Range> holes, const QueueEntry& entry, PullAnswer& answer);
  void expect(Ctx& ctx, const QueueEntry& entry) const;
  bool is_worth_waiting(const PullRequest& request, const PullAnswer& answer) const;
  void fetch(Ctx& ctx, const PullRequest& request, const PullAnswer& answer, WarmToken token);
  ConsumeQueues& queues_;
  CommitLog& log_;
  const Watermarks& watermarks_;
  SlotBook<PullRequest> cold_;
  std::vector<Retry> ready_;
  // scratch
  std::vector<QueueEntry> entries_;   // last read,
  size_t cold_from_ = 0;              // the one whose record is cold,
  std::vector<Range> missing_;        // and what is fetched from there on
};

}  // namespace fulmar
