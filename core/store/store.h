#pragma once
// The store as one machine: it recovers, then takes messages, dispatches, flushes, writes what is derived, and stops.
//
//   Recovering --> Serving --stop--> Draining --> Stopped
//              \-> Damaged (rot inside the log: everything readable stays readable, nothing is written)
//   Every state may halt the node: a store that cannot be opened, a failed flush.
//
// Rounds write what is derived. One is due when the time since the last one has come to what the queues that are waiting cost, many times
// over: few queues are written each second, a hundred thousand when their entries fill memory, when a start would have too much to feed
// again, when retention waits, or at last after flushConsumeQueueThoroughInterval.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/model/command.h"
#include "core/model/config.h"
#include "core/store/ack_gate.h"
#include "core/store/checkpoint.h"
#include "core/store/commit_log.h"
#include "core/store/consume_queue.h"
#include "core/store/dispatch.h"
#include "core/store/exports.h"
#include "core/store/flusher.h"
#include "core/store/index_file.h"
#include "core/store/meta.h"
#include "core/store/retention.h"

namespace fulmar {

class Recovery;

class Store : private MetaLog {
 public:
  enum class State : uint8_t { Recovering, Serving, Damaged, Draining, Stopped };
  explicit Store(const BrokerConfig& config);
  ~Store() override;

  void start(Ctx& ctx);
  State state() const { return state_; }
  bool can_read() const { return state_ == State::Serving || state_ == State::Damaged || state_ == State::Draining; }

  // --- writing --------------------------------------------------------------------------------------------------------------------------
  // Appends one message to (topic, queue): gives it the next queue offset and a store stamp. Topic and queue must exist: the caller has
  // looked. Nothing is stored on an error: NotReady, Stopping, StoreDamaged, DiskFull (watermark or no block), LogRolling,
  // UnflushedLimit, RecordTooLarge.
  Result<Appended> append(Ctx& ctx, const Message& message);
  // All of `items` or none, with consecutive queue offsets; `message` carries what they share. Appended covers all of them.
  Result<Appended> append_batch(Ctx& ctx, const Message& message, std::span<const BatchItem> items);
  // What a client is told about an append error: code, cause, what was measured, when to try again.
  Refusal refusal(const Error& error) const;
  // What must be durable before an append that ends at `end` is acknowledged: SYNC_FLUSH the flushed offset, ASYNC_FLUSH nothing.
  PhysicalOffset ack_mark() const;
  PhysicalOffset visible() const;           // dispatch may go up to here (decision 12)
  // Somebody waits until everything before `end` is flushed: with ASYNC_FLUSH it is flushed now and not when the interval ends.
  void want_flushed(Ctx& ctx, PhysicalOffset end);

  // --- parts the broker talks to ----------------------------------------------------------------------------------------------------------
  CommitLog& log() { return log_; }
  ConsumeQueues& queues() { return queues_; }
  Index& index() { return index_; }
  Meta& meta() { return meta_; }
  const Watermarks& watermarks() const { return watermarks_; }
  std::vector<Warmed> take_warmed() { return std::exchange(warmed_for_broker_, {}); }   // WarmFor::Pull and Query
  // Ranges of the log that are damaged (recovery found rot), ascending.
  std::span<const Range> holes() const { return holes_; }
  std::vector<std::pair<std::string, std::string>> status(const Moment& now) const;
  // Whether a message would be taken now; the errors of append() that do not depend on the message.
  Result<void> can_write(Ctx& ctx) const { return may_append(ctx, false); }
  bool is_disk_full() const { return is_disk_refusing_ || log_.files().blocked() != nullptr; }
  std::optional<DiskSpace> disk_space() const;   // our own reserve counted as free, what was appended since it was measured as used
  uint64_t flush_count() const { return flusher_.asked_count(); }

  // --- inputs: tickets and timers whose owner byte is_store() -----------------------------------------------------------------------------
  void on_input(Ctx& ctx, const Input& input);
  void on_timer(Ctx& ctx, TimerId timer);
  void pump(Ctx& ctx);

  // --- stop: no more appends are taken; flushes, writes everything derived, exports, a clean checkpoint, removes the abort marker ----------
  void begin_stop(Ctx& ctx);

 private:
  friend class Recovery;
  static constexpr Duration kStopPatience = Duration::seconds(2);   // with a full disk, and with very many queues
  Result<Appended> append_meta(Ctx& ctx, Bytes body) override;
  Result<void> may_append(Ctx& ctx, bool is_meta) const;
  void enter(Ctx& ctx, State state);
  void pump_flush(Ctx& ctx);
  void pump_rounds(Ctx& ctx);
  bool is_round_wanted(Ctx& ctx) const;
  Monotonic round_due() const;
  bool takes_too_long() const { return round_cost(queues_.unwritten_count()) > kStopPatience; }   // for a stop to write all queues
  Duration round_cost(size_t queues) const { return Duration::microseconds(static_cast<int64_t>(queues) * config_.queue_round_cost_us); }
  void pump_queue_table(Ctx& ctx);
  bool write_queue_table(Ctx& ctx);
  bool is_queue_table_outlived() const;
  bool wants_queue_table() const;
  void pump_checkpoint(Ctx& ctx);
  void pump_retention(Ctx& ctx);
  void pump_disk(Ctx& ctx);
  void pump_watermark(Ctx& ctx);
  void pump_stop(Ctx& ctx);
  void pump_giving_up(Ctx& ctx);
  void on_space(Ctx& ctx, const Space& answer);
  void route_warmed(Ctx& ctx);
  void arm(Ctx& ctx);
  CheckpointState checkpoint_state(bool is_clean) const;

  BrokerConfig config_;
  State state_ = State::Recovering;
  Watermarks watermarks_;
  CommitLog log_;
  ConsumeQueues queues_;
  Index index_;
  Meta meta_;
  Retention retention_;
  QueueTable queue_table_;
  Exports exports_;
  Flusher flusher_;
  Checkpoint checkpoint_;
  Dispatch dispatch_;
  std::unique_ptr<Recovery> recovery_;
  std::vector<Range> holes_;
  std::vector<Warmed> warmed_for_broker_;
  TicketBook<int> tickets_;                 // abort marker and disk space
  PhysicalOffset flush_wanted_;             // ASYNC_FLUSH: somebody waits for everything before it
  Monotonic next_flush_, round_begun_, next_checkpoint_, next_disk_poll_;
  // A round of writing everything derived: what it covers once done.
  struct Round { PhysicalOffset covers; uint64_t queue_entries, index_entries; Wall stamp; };   // stamp: of its last record
  std::optional<Round> round_;
  Monotonic next_table_;
  bool is_table_written_ = false;
  uint64_t table_entries_ = 0;              // over all queues, as of the last table
  Round durable_round_{};                   // the last that is done
  std::optional<DiskSpace> space_;          // as measured when the log ended at space_at_, our own reserve counted as free
  PhysicalOffset space_at_;
  bool is_disk_refusing_ = false, is_space_asked_ = false;
  uint64_t raw_free_ = 0;                   // as measured, our own reserve not counted
  bool is_export_written_ = false, is_clean_written_ = false, is_abort_asked_ = false, is_abort_removed_ = false;
  Monotonic armed_ = Monotonic::never();
  Monotonic drained_by_;                    // Draining: a full disk is waited for until then, and queues are written
  bool is_giving_up_ = false;               // Draining: what is not written is left to the next start
};

}  // namespace fulmar
