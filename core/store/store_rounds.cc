// The rounds of a store: when one begins, what it covers once done, the table of queues that tells of it, and a stop that has no time for one.

#include <algorithm>

#include "core/base/marks.h"
#include "core/store/recovery.h"

namespace fulmar {

namespace {

struct RoundDoneEvent {
  FULMAR_EVENT(RoundDone, Debug, "queues and index are durable to {}");
  uint64_t covers;
  auto values() const { return std::array{covers}; }
};
struct StopUnwrittenEvent {
  FULMAR_EVENT(StopUnwritten, Warning, "{} queues are not written, it would take too long ({} ms were waited): the next start reads the log from {} to {} again");
  uint64_t queues, waited_ms, from, to;
  auto values() const { return std::array{queues, waited_ms, from, to}; }
};

}  // namespace

// A round is done, so every queue's files hold just what it covers: now the table can say so, once the checkpoint does. True: the next round
// waits for that. Entries of records that are not flushed must not stand in the files: with ASYNC_FLUSH the table is written at the end only.
bool Store::write_queue_table(Ctx& ctx) {
  const bool is_much = queues_.entry_count() >= table_entries_ + limits::kPendingEntriesRound;   // retention makes them fewer
  if (round_ || !wants_queue_table() || (!is_much && ctx.now.monotonic < next_table_)) return false;
  if (!queue_table_.can_ask(ctx.now.monotonic) || queues_.wants_removals()) return false;
  if (checkpoint_.durable().derived != durable_round_.covers) {
    next_checkpoint_ = ctx.now.monotonic;
    return true;
  }
  next_table_ = ctx.now.monotonic + limits::kQueueTableInterval;
  table_entries_ = queues_.entry_count();
  queue_table_.write(ctx, queues_.table(durable_round_.covers));
  return false;
}

bool Store::wants_queue_table() const {
  const bool is_open = state_ == State::Serving && !recovery_->is_damaged();
  return is_open && config_.flush_disk_type == FlushDiskType::Sync && !queues_.misses_files() && queue_table_.covers() != durable_round_.covers;
}

// Before a file goes that a table may name, the table goes; with ASYNC_FLUSH, and where files behind it are missing, before this life writes
// any queue.
void Store::pump_queue_table(Ctx& ctx) {
  const bool is_in_the_way = queues_.wants_removals() || is_queue_table_outlived();
  if (queue_table_.may_exist() && is_in_the_way && queue_table_.can_ask(ctx.now.monotonic)) queue_table_.clear(ctx);
  queues_.allow_removals(!queue_table_.may_exist() && !is_giving_up_);   // thousands of files take longer than a stop: the next start removes them
}

bool Store::is_queue_table_outlived() const {
  const bool is_of_no_use = config_.flush_disk_type == FlushDiskType::Async || queues_.misses_files();
  return is_of_no_use && recovery_->is_feeding_or_done() && (state_ == State::Recovering || state_ == State::Serving);
}

void Store::pump_rounds(Ctx& ctx) {
  if (is_giving_up_) {
    if (!queues_.is_writing() && index_.is_round_done()) round_.reset();
    return;
  }
  if (round_) {
    const bool is_written = queues_.is_round_done() && index_.is_round_done() && meta_.is_round_done();
    // Entries of records that are not flushed must not count: after a power cut other records may take those places.
    const PhysicalOffset covers = MUTANT(RoundForgetsDeletions) ? round_->covers : std::max(round_->covers, queues_.retired_to());
    const bool is_flushed = watermarks_.flushed >= covers || MUTANT(RoundBeforeFlush);
    if (!is_written || !is_flushed) return;
    durable_round_ = *round_;
    watermarks_.derived = durable_round_.covers;
    queues_.round_is_done(durable_round_.covers);
    ctx.trace.note(RoundDoneEvent{durable_round_.covers.value()});
    round_.reset();
  }
  if (write_queue_table(ctx) || (queue_table_.may_exist() && is_queue_table_outlived())) return;
  if (watermarks_.dispatched < durable_round_.covers) {
    // Fed again from behind what an earlier life had written: nothing new becomes durable, but memory may fill when files are missing.
    if (queues_.wants_round() && queues_.is_round_done()) queues_.begin_round(ctx);
    return;
  }
  if (state_ == State::Draining && takes_too_long()) return;   // pump_giving_up()
  if (watermarks_.dispatched == durable_round_.covers || !is_round_wanted(ctx)) {
    // Keys that fill memory are written alone: they cost the same however many queues they come from.
    if (index_.wants_round() && index_.is_round_done()) {
      SOMETIMES("store: keys are written between two rounds", true);
      index_.begin_round(ctx);
    }
    return;
  }
  round_begun_ = ctx.now.monotonic;
  round_ = Round{watermarks_.dispatched, queues_.entry_count(), index_.entry_count(), std::max(dispatch_.newest_stamp(), durable_round_.stamp)};
  queues_.begin_round(ctx);
  index_.begin_round(ctx);
  meta_.begin_round(ctx);
}

bool Store::is_round_wanted(Ctx& ctx) const {
  const bool is_due = ctx.now.monotonic >= round_due() || state_ == State::Draining;
  const bool is_full = queues_.wants_round();
  const uint64_t behind = (watermarks_.dispatched - durable_round_.covers).value();
  const bool is_far = behind >= std::min(limits::kUnderivedBytesMax, config_.commit_log_file_bytes) && !MUTANT(RoundsForgetTheLog);
  const std::optional<PhysicalOffset> wanted = retention_.wants_derived(durable_round_.covers);
  const bool is_waited_for = state_ == State::Serving && wanted && watermarks_.dispatched >= *wanted;
  SOMETIMES("store: a round begins early because memory fills", is_full && !is_due);
  SOMETIMES("store: a round begins early because much of the log would be fed again", is_far && !is_due);
  SOMETIMES("store: a round begins early because retention waits for it", is_waited_for && !is_due);
  SOMETIMES("store: a round waits because many queues would be written",
            !is_due && ctx.now.monotonic >= round_begun_ + Duration::milliseconds(config_.consume_queue_flush_interval_ms));
  return is_due || is_full || is_far || is_waited_for;
}

// Where queues are many a round is worth its cost only when much has come together: it takes no more than its share of the CPU.
Monotonic Store::round_due() const {
  const Duration least = Duration::milliseconds(config_.consume_queue_flush_interval_ms);
  const Duration most = std::max(least, Duration::milliseconds(config_.consume_queue_flush_interval_max_ms));
  const Duration pause{round_cost(queues_.dirty_count()).ns * limits::kRoundPauseFactor};
  return round_begun_ + std::clamp(pause, least, most);
}

// Writing a hundred thousand queues takes a minute, which nobody waits for who stops a broker. All of it is in the log, and flushed.
void Store::pump_giving_up(Ctx& ctx) {
  const bool is_late = config_.queue_round_cost_us != 0 && ctx.now.monotonic >= drained_by_;
  if ((!takes_too_long() && !is_late) || queues_.blocked() != nullptr || index_.blocked() != nullptr) return;
  SOMETIMES("store: a stop leaves queues to the next start", true);
  SOMETIMES("store: a stop abandons a round", round_.has_value());
  const int64_t waited_ms = kStopPatience.ms() + (ctx.now.monotonic - drained_by_).ms();
  ctx.trace.note(StopUnwrittenEvent{queues_.unwritten_count(), static_cast<uint64_t>(waited_ms), durable_round_.covers.value(), watermarks_.appended.value()});
  is_giving_up_ = true;
  if (round_) queues_.abandon_round();   // one that is done counts
  ctx.out.step_again();
}

}  // namespace fulmar
