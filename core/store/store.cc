#include "core/store/store.h"

#include <algorithm>

#include "core/base/marks.h"
#include "core/store/owners.h"
#include "core/store/recovery.h"

namespace fulmar {

namespace {


struct StoreStateEvent {
  FULMAR_EVENT(StoreState, Info, "store is {} ({})");
  uint64_t state;
  std::string_view name;
  auto values() const { return std::array{state}; }
  std::string_view text() const { return name; }
};
struct DiskRefusingEvent {
  FULMAR_EVENT(DiskRefusing, Warning, "writes are refused: {} % of the disk are used, {} bytes free under {}");
  uint64_t percent, free;
  std::string_view path;
  auto values() const { return std::array{percent, free}; }
  std::string_view text() const { return path; }
};
struct DiskAcceptingEvent {
  FULMAR_EVENT(DiskAccepting, Info, "writes are taken again: {} % of the disk are used, {} bytes free under {}");
  uint64_t percent, free;
  std::string_view path;
  auto values() const { return std::array{percent, free}; }
  std::string_view text() const { return path; }
};

const char* name_of(Store::State state) {
  switch (state) {
    case Store::State::Recovering: return "recovering";
    case Store::State::Serving: return "serving";
    case Store::State::Damaged: return "damaged: read-only";
    case Store::State::Draining: return "draining";
    case Store::State::Stopped: return "stopped";
  }
  return "?";
}

constexpr uint64_t kMetaReserveBytes = 1ull << 20;

// What the store asks for itself.
enum : int { kAskSpace = 1, kRemoveAbort = 2 };

CommitLog::Options log_options(const BrokerConfig& c) {
  // A synchronous flush must not find the zeros ahead among what it writes.
  const Zeros zeros = c.flush_disk_type == FlushDiskType::Sync ? Zeros::Durable : Zeros::Soon;
  return {c.store_path + "/commitlog", c.commit_log_file_bytes, c.prepare_ahead_bytes_max, c.body_bytes_max, c.is_crc_property_on, zeros};
}

}  // namespace

Store::Store(const BrokerConfig& config)
    : config_(config),
      log_(log_options(config), watermarks_),
      queues_({config.store_path + "/consumequeue", config.consume_queue_file_bytes}, log_, watermarks_),
      index_({config.store_path + "/index", config.index_slot_count, config.index_entry_count, config.is_index_enabled}),
      meta_(*this, queues_),
      retention_(config_, log_, queues_, index_, meta_, watermarks_),
      queue_table_(fmt::format("{}/{}", config.store_path, QueueTable::kName)),
      exports_(config.store_path + "/config", meta_),
      flusher_(log_, watermarks_),
      checkpoint_(config.store_path + "/checkpoint"),
      // Meta first: a retired topic must be known before its queues are asked for more.
      dispatch_(log_, watermarks_, {&meta_, &queues_, &index_}),
      tickets_(owner::kStore) {}

Store::~Store() = default;

void Store::start(Ctx& ctx) {
  round_begun_ = ctx.now.monotonic;   // what is fed again is in no hurry
  recovery_ = std::make_unique<Recovery>(*this);
  recovery_->start(ctx);
}

void Store::enter(Ctx& ctx, State state) {
  state_ = state;
  ctx.trace.note(StoreStateEvent{static_cast<uint64_t>(state), name_of(state)});
}

// --- writing -------------------------------------------------------------------------------------------------------------------------

Result<void> Store::may_append(Ctx&, bool is_meta) const {
  switch (state_) {
    case State::Recovering:
      if (is_meta && log_.is_ready_to_append()) break;  // the tables of an imported store
      return Error(Errc::NotReady, "the store is recovering: " + recovery_->progress());
    case State::Damaged: return Error(Errc::StoreDamaged, fmt::format("bytes [{}, {}) of the commit log are damaged; reads go on, writes would bury the damage", holes_.front().begin, holes_.front().end));
    case State::Draining:
      if (is_meta && !is_clean_written_) break;
      return Error(Errc::Stopping, "the broker is stopping");
    case State::Stopped: return Error(Errc::Stopping, "the broker has stopped");
    case State::Serving: break;
  }
  // Topics and offsets are small and let consumers go on, so they may use what is prepared; messages are refused at the watermark.
  if (is_disk_refusing_ && !is_meta) return Error(Errc::DiskFull, fmt::format("the disk under {} is above the refusal watermark", config_.store_path));
  // The last of the prepared place is theirs alone: without it nothing could be deleted any more, for what stands in the oldest file must
  // be appended again first.
  const uint64_t reserve = std::min(kMetaReserveBytes, config_.commit_log_file_bytes / 8);
  if (!is_meta && log_.files().blocked() != nullptr && log_.prepared_unused_bytes() <= reserve) {
    SOMETIMES("store: the last prepared bytes are kept for topics and offsets", true);
    return *log_.files().blocked();
  }
  return {};
}

Result<Appended> Store::append(Ctx& ctx, const Message& message) {
  FULMAR_TRY_VOID(may_append(ctx, false));
  FULMAR_TRY(const Appended appended, log_.append(ctx, message, queues_.next_offset(message.topic, message.queue_id)));
  queues_.assigned(message.topic, message.queue_id, EntryCount(1));
  return appended;
}

Result<Appended> Store::append_batch(Ctx& ctx, const Message& shared, std::span<const BatchItem> items) {
  FULMAR_TRY_VOID(may_append(ctx, false));
  CHECK(!items.empty());
  uint64_t total = 0;
  Message message = shared;
  for (const BatchItem& item : items) {
    message.properties = item.properties;
    message.body = item.body;
    FULMAR_TRY(const uint32_t bytes, record_bytes(message, config_.is_crc_property_on));
    total += bytes;
  }
  // The whole batch lies in one segment (store.md 2.2), so that nothing can refuse its second half.
  FULMAR_TRY_VOID(log_.room_for(ctx, total));
  log_.make_room(ctx, total);
  Appended all;
  for (size_t i = 0; i < items.size(); ++i) {
    message.flag = items[i].flag;
    message.properties = items[i].properties;
    message.body = items[i].body;
    const Result<Appended> one = log_.append(ctx, message, queues_.next_offset(message.topic, message.queue_id));
    CHECK(one.has_value(), "item {} of a batch that has room: {}", i, one.error().text());
    queues_.assigned(message.topic, message.queue_id, EntryCount(1));
    if (i == 0) all = *one;
    all.end = one->end;
  }
  return all;
}

Result<Appended> Store::append_meta(Ctx& ctx, Bytes body) {
  FULMAR_TRY_VOID(may_append(ctx, true));
  Message message;
  message.topic = kMetaTopic;
  message.born = ctx.now.wall;
  message.body = body;
  FULMAR_TRY(const Appended appended, log_.append(ctx, message, queues_.next_offset(kMetaTopic, QueueId(0))));
  queues_.assigned(kMetaTopic, QueueId(0), EntryCount(1));
  return appended;
}

PhysicalOffset Store::ack_mark() const {
  if (config_.flush_disk_type == FlushDiskType::Async || MUTANT(AckByAppendedOffset)) return watermarks_.appended;
  return watermarks_.flushed;
}

PhysicalOffset Store::visible() const {
  if (config_.flush_disk_type == FlushDiskType::Async || MUTANT(VisibleBeforeFlush)) return watermarks_.appended;
  return watermarks_.flushed;
}

namespace {
std::string measured_disk(const std::optional<DiskSpace>& space, uint32_t percent_max, uint64_t free_min) {
  if (!space) return "not measured yet";
  return fmt::format("used {} % ({} of {} bytes), free {} bytes; refused from {} % used or below {} bytes free", space->percent_used(), space->used,
                     space->used + space->free, space->free, percent_max, free_min);
}
}  // namespace

Refusal Store::refusal(const Error& error) const {
  Refusal out;
  out.cause = error.detail.empty() ? std::string(to_string(error.code)) : error.detail;
  // The codes that an append can give; anything else is a bug of ours and answered as such.
  const Errc code = error.code;
  if (code == Errc::NotReady) return {Code::ServiceNotAvailable, out.cause, fmt::format("dispatched {} of {} bytes", watermarks_.dispatched, log_.files().limit()), 200};
  if (code == Errc::Stopping) return {Code::ServiceNotAvailable, out.cause, fmt::format("log ends at {}", watermarks_.appended), 1000};
  if (code == Errc::StoreDamaged) return {Code::ServiceNotAvailable, out.cause, fmt::format("{} damaged ranges", holes_.size()), 0};
  if (code == Errc::DiskFull) return {Code::ServiceNotAvailable, out.cause, measured_disk(disk_space(), config_.disk_refuse_percent, config_.disk_free_bytes_min), 10'000};
  if (code == Errc::LogRolling) return {Code::SystemBusy, out.cause, fmt::format("prepared to {}, appended to {}", log_.files().prepared_to(), watermarks_.appended), 20};
  if (code == Errc::UnflushedLimit)
    return {Code::SystemBusy, out.cause, fmt::format("appended {}, flushed {}, limit {}", watermarks_.appended, watermarks_.flushed, log_.append_limit()), 50};
  if (code == Errc::Full)   // the cause names the bound
    return {Code::SystemBusy, out.cause, fmt::format("{} topics, {} committed offsets", meta_.topic_count(), meta_.all_offsets().size()), 1000};
  if (code == Errc::RecordTooLarge || code == Errc::HeaderBroken || code == Errc::InvalidArgument)
    return {Code::MessageIllegal, out.cause, fmt::format("maxMessageSize {}", config_.body_bytes_max), 0};
  out.measured = to_string(code);
  out.retry_after_ms = 1000;
  return out;
}

std::vector<std::pair<std::string, std::string>> Store::status(const Moment& now) const {
  const auto number = [](auto v) { return fmt::format("{}", v); };
  std::vector<std::pair<std::string, std::string>> out;
  out.emplace_back("storeState", name_of(state_));
  out.emplace_back("commitLogMinOffset", number(watermarks_.begin));
  out.emplace_back("commitLogMaxOffset", number(watermarks_.appended));
  out.emplace_back("flushedOffset", number(watermarks_.flushed));
  out.emplace_back("confirmOffset", number(watermarks_.confirmed));
  out.emplace_back("dispatchOffset", number(watermarks_.dispatched));
  out.emplace_back("dispatchBehindBytes", number(visible().value() - std::min(visible(), watermarks_.dispatched).value()));
  out.emplace_back("derivedOffset", number(durable_round_.covers));
  out.emplace_back("appendLimit", number(log_.append_limit()));
  out.emplace_back("flushDiskType", config_.flush_disk_type == FlushDiskType::Sync ? "SYNC_FLUSH" : "ASYNC_FLUSH");
  out.emplace_back("commitLogSegments", number(log_.files().files().size()));
  out.emplace_back("commitLogSegmentsAhead", number(log_.files().files_behind(watermarks_.appended.value())));
  out.emplace_back("commitLogSegmentsRecycled", number(log_.files().recycled_count()));
  out.emplace_back("commitLogSegmentsRemoved", number(log_.files().removed_count()));
  out.emplace_back("nextDeletion", retention_.outlook(now));
  out.emplace_back("consumeQueues", number(queues_.queue_count()));
  out.emplace_back("consumeQueueEntries", number(queues_.entry_count()));
  out.emplace_back("consumeQueuesUnwritten", number(queues_.unwritten_count()));
  out.emplace_back("indexEntries", number(index_.entry_count()));
  out.emplace_back("topics", number(meta_.topic_count()));
  out.emplace_back("brokenQueues", number(queues_.broken_count()));
  out.emplace_back("isDiskFull", is_disk_full() ? "true" : "false");
  out.emplace_back("commitLogDisk", measured_disk(disk_space(), config_.disk_refuse_percent, config_.disk_free_bytes_min));
  return out;
}

// --- inputs --------------------------------------------------------------------------------------------------------------------------

void Store::on_input(Ctx& ctx, const Input& input) {
  if (const auto* mapped = std::get_if<Mapped>(&input)) {
    switch (mapped->ticket.owner()) {
      case owner::kLogFiles: return log_.on_mapped(ctx, *mapped);
      case owner::kCheckpoint: return checkpoint_.on_mapped(ctx, *mapped);
      case owner::kQueues: return queues_.on_mapped(ctx, *mapped);
      case owner::kIndex: return index_.on_mapped(ctx, *mapped);
      default: break;
    }
  } else if (const auto* done = std::get_if<Done>(&input)) {
    switch (done->ticket.owner()) {
      case owner::kLogFiles:
      case owner::kLogWarm: return log_.on_done(ctx, *done);
      case owner::kFlusher: return flusher_.on_done(ctx, *done);
      case owner::kCheckpoint: return checkpoint_.on_done(ctx, *done);
      case owner::kQueues: return queues_.on_done(ctx, *done);
      case owner::kIndex: return index_.on_done(ctx, *done);
      case owner::kExports: return exports_.on_done(ctx, *done);
      case owner::kQueueTable: return queue_table_.on_done(ctx, *done);
      case owner::kRecovery: return recovery_->on_done(ctx, *done);
      case owner::kStore:  // the abort marker
        (void)tickets_.redeem(done->ticket);
        if (!done->outcome) ctx.out.halt(done->outcome.error().code, "cannot remove the abort marker: " + done->outcome.error().text());
        is_abort_removed_ = true;
        return;
      default: break;
    }
  } else if (const auto* listed = std::get_if<Listed>(&input)) {
    return recovery_->on_listed(ctx, *listed);
  } else if (const auto* read = std::get_if<Read>(&input)) {
    return read->ticket.owner() == owner::kQueueTable ? queue_table_.on_read(ctx, *read) : exports_.on_read(ctx, *read);
  } else if (const auto* space = std::get_if<Space>(&input)) {
    return on_space(ctx, *space);
  }
  CHECK(false, "an input that nobody asked for: kind {}", input.index());
}

void Store::on_timer(Ctx& ctx, TimerId timer) {
  switch (timer.value() >> 56) {
    case owner::kLogFiles: return log_.on_timer(ctx);
    case owner::kRecovery: return recovery_->on_timer(ctx);
    case owner::kStore: armed_ = Monotonic::never(); return;
    default: return;  // the pumps look at the time themselves
  }
}

void Store::route_warmed(Ctx& ctx) {
  for (Warmed& warmed : log_.take_warmed()) {
    switch (warmed.token.who) {
      case WarmFor::Recovery: recovery_->on_warmed(ctx, warmed); break;
      case WarmFor::Dispatch: dispatch_.on_warmed(warmed); break;
      case WarmFor::Queues: queues_.on_warmed(ctx, warmed); break;
      case WarmFor::Retention: retention_.on_warmed(); break;
      case WarmFor::Pull:
      case WarmFor::Query: warmed_for_broker_.push_back(std::move(warmed)); break;
      case WarmFor::Nobody: break;
    }
  }
}

// --- pump ----------------------------------------------------------------------------------------------------------------------------

void Store::pump(Ctx& ctx) {
  if (state_ == State::Stopped || recovery_ == nullptr) return;
  route_warmed(ctx);
  if (state_ == State::Recovering) {
    recovery_->pump(ctx);
    if (ctx.out.halted() != nullptr) return;
    if (recovery_->is_done()) {
      // Who hears that we serve may send at once: the first place is prepared, or a refusal names what it wants for.
      const bool has_place = log_.files().prepared_to() > watermarks_.appended.value() || log_.files().blocked() != nullptr;
      SOMETIMES("store: serving waits for the first place", !has_place && !recovery_->is_damaged());
      if (recovery_->is_damaged()) enter(ctx, State::Damaged);
      else if (has_place) enter(ctx, State::Serving);
    }
  }
  log_.pump(ctx);
  const bool is_fed = state_ != State::Recovering || recovery_->is_feeding();
  if (is_fed) dispatch_.pump(ctx, state_ == State::Recovering ? std::min(visible(), watermarks_.appended) : visible(), holes_);
  if (state_ == State::Recovering && recovery_->is_fed()) ctx.out.step_again();   // nothing else need come home any more
  if (const std::optional<Dispatch::Damage> damage = dispatch_.take_damage()) {
    recovery_->on_damage(ctx, damage->hole, damage->why);
    queues_.expect_gaps();
    ctx.out.step_again();
  }
  pump_queue_table(ctx);
  queues_.pump(ctx);
  index_.pump(ctx);
  if (state_ == State::Recovering) {
    for (const uint64_t token : queues_.take_ready()) if (token == Recovery::kFoldToken) recovery_->on_queues_ready(ctx);
  }
  if (is_fed) pump_rounds(ctx);
  if (log_.is_ready_to_append() && is_fed && !recovery_->is_damaged()) {   // a damaged store changes nothing
    pump_flush(ctx);
    if (state_ == State::Serving) pump_retention(ctx);
    pump_checkpoint(ctx);
  }
  if (state_ == State::Serving || state_ == State::Draining) exports_.pump(ctx);
  pump_disk(ctx);
  pump_watermark(ctx);
  if (state_ == State::Draining) pump_stop(ctx);
  route_warmed(ctx);
  arm(ctx);
}

void Store::want_flushed(Ctx& ctx, PhysicalOffset end) {
  if (config_.flush_disk_type == FlushDiskType::Sync || end <= std::max(flush_wanted_, watermarks_.flushed)) return;
  flush_wanted_ = end;
  ctx.out.step_again();   // this step's pump may be over
}

void Store::pump_flush(Ctx& ctx) {
  if (watermarks_.flushed >= watermarks_.appended) return;
  const bool is_sync = config_.flush_disk_type == FlushDiskType::Sync || state_ != State::Serving;
  const bool is_much = (watermarks_.appended - watermarks_.flushed).value() >= config_.async_unflushed_bytes_max / 2;
  const bool is_wanted = watermarks_.flushed < flush_wanted_;
  SOMETIMES("store: an asynchronous flush is made at once because somebody waits", !is_sync && is_wanted && ctx.now.monotonic < next_flush_);
  if (!is_sync && !is_much && !is_wanted && ctx.now.monotonic < next_flush_) return;
  next_flush_ = ctx.now.monotonic + Duration::milliseconds(config_.flush_interval_ms);
  flusher_.flush_all(ctx);
}

CheckpointState Store::checkpoint_state(bool is_clean) const {
  CheckpointState s;
  s.is_clean = is_clean;
  s.has_crc = config_.is_crc_property_on;
  s.flushed = watermarks_.flushed;
  s.append_limit = is_clean ? watermarks_.flushed : watermarks_.flushed + ByteCount(config_.async_unflushed_bytes_max);
  s.derived = is_giving_up_ && MUTANT(StopClaimsUnwritten) ? watermarks_.dispatched : durable_round_.covers;
  // A count that no store can have: the next start builds the queues again.
  s.queue_entries = queues_.is_damaged_on_disk() ? UINT64_MAX : durable_round_.queue_entries;
  s.index_entries = durable_round_.index_entries;
  s.newest_stamp = s.physic_msg = log_.newest_stamp();
  s.logics_msg = s.index_msg = durable_round_.stamp;   // RocketMQ feeds again what is younger
  s.log_begin = watermarks_.begin;
  return s;
}

void Store::pump_checkpoint(Ctx& ctx) {
  if (checkpoint_.is_writing()) return;
  const CheckpointState& durable = checkpoint_.durable();
  log_.set_append_limit(durable.append_limit);
  if (is_clean_written_) return;
  const uint64_t half = config_.async_unflushed_bytes_max / 2;
  const bool is_limit_near = watermarks_.appended.value() + half > durable.append_limit.value() && watermarks_.flushed > durable.flushed;
  const bool is_news = watermarks_.flushed != durable.flushed || durable_round_.covers != durable.derived;
  const bool has_moved = watermarks_.begin != durable.log_begin;   // retention waits for it
  if (!is_limit_near && !has_moved && !(is_news && ctx.now.monotonic >= next_checkpoint_)) return;
  SOMETIMES("store: the append limit moves under load", is_limit_near);
  next_checkpoint_ = ctx.now.monotonic + limits::kCheckpointInterval;
  checkpoint_.write(ctx, checkpoint_state(false));
}

void Store::pump_retention(Ctx& ctx) {
  retention_.pump(ctx, durable_round_.covers);
  if (const auto wanted = retention_.wants_flushed(durable_round_.covers)) want_flushed(ctx, round_ ? std::max(*wanted, round_->covers) : *wanted);
  if (const std::optional<Retention::Gone> gone = retention_.take_gone()) {
    // What the checkpoint says was counted before; all that went was durable.
    const auto count = [&](Round& round) {
      round.queue_entries -= std::min(round.queue_entries, gone->queue_entries);
      round.index_entries -= std::min(round.index_entries, gone->index_entries);
    };
    count(durable_round_);
    if (round_) count(*round_);
  }
  retention_.on_durable(ctx, checkpoint_.is_writing() ? PhysicalOffset(0) : checkpoint_.durable().log_begin);
}

void Store::pump_disk(Ctx& ctx) {
  if (is_space_asked_ || ctx.now.monotonic < next_disk_poll_ || is_abort_removed_) return;
  next_disk_poll_ = ctx.now.monotonic + limits::kDiskPollInterval;
  is_space_asked_ = true;
  ctx.out.space(tickets_.issue(kAskSpace), config_.store_path);
}

void Store::on_space(Ctx& ctx, const Space& answer) {
  (void)tickets_.redeem(answer.ticket);
  is_space_asked_ = false;
  if (!answer.space) return;  // the directory may not exist yet
  if (space_ && answer.space->free > raw_free_) log_.files().unblock(ctx);
  raw_free_ = answer.space->free;
  // Blocks that are ours and not used yet count as free (decision 10).
  space_ = answer.space->emptied(log_.prepared_unused_bytes());
  space_at_ = watermarks_.appended;
  retention_.on_space(*space_, ctx.now.monotonic);
}

// A fast disk fills in less than the time between two measurements, and queues and index need what the log leaves them: what was appended
// since the last one counts at once.
std::optional<DiskSpace> Store::disk_space() const {
  if (!space_) return std::nullopt;
  return MUTANT(DiskBelievedForASecond) ? *space_ : space_->filled(retention_.appended_since(space_at_));
}

void Store::pump_watermark(Ctx& ctx) {
  const std::optional<DiskSpace> space = disk_space();
  if (!space) return;
  const uint64_t percent = space->percent_used();
  const bool is_refusing = percent >= config_.disk_refuse_percent || space->free < config_.disk_free_bytes_min;
  if (is_refusing == is_disk_refusing_) return;
  is_disk_refusing_ = is_refusing;
  SOMETIMES("store: the disk passes the refusal watermark", is_refusing);
  SOMETIMES("store: the disk has room again", !is_refusing);
  if (is_refusing) ctx.trace.note(DiskRefusingEvent{percent, space->free, config_.store_path});
  else ctx.trace.note(DiskAcceptingEvent{percent, space->free, config_.store_path});
}

// --- stop ----------------------------------------------------------------------------------------------------------------------------

void Store::begin_stop(Ctx& ctx) {
  if (state_ == State::Draining || state_ == State::Stopped) return;
  // A store that is not open yet, or must not be written, has nothing to persist: its files are as good as the crash left them.
  if (state_ != State::Serving) return enter(ctx, State::Stopped);
  enter(ctx, State::Draining);
  drained_by_ = ctx.now.monotonic + kStopPatience;
  ctx.out.step_again();
}

void Store::pump_stop(Ctx& ctx) {
  const bool is_written = is_giving_up_ || (watermarks_.dispatched == watermarks_.appended && durable_round_.covers == watermarks_.dispatched);
  const bool is_drained = watermarks_.flushed == watermarks_.appended && !round_ && is_written && flusher_.is_idle() && index_.is_settled();
  if (!is_written) pump_giving_up(ctx);
  if (!is_drained && !is_clean_written_) {
    // Room may appear on a disk, for a moment's patience; a name that is taken, or a directory that nobody may write, will not change while we wait.
    for (const Error* why : {queues_.blocked(), index_.blocked()}) {
      if (why == nullptr || watermarks_.flushed < watermarks_.appended) continue;
      const bool is_hopeless = why->code == Errc::Exists || why->code == Errc::NotPermitted || why->code == Errc::ReadOnly || why->code == Errc::NotFound;
      if (!is_hopeless && ctx.now.monotonic < drained_by_) continue;
      SOMETIMES("store: a stop does not wait for room on the disk", !is_hopeless);
      // Stopping, whatever the cause: everything acknowledged is durable in the log, and nobody is refused for want of room.
      return ctx.out.halt(Errc::Stopping, "stopped without writing all queues and the index, the next start builds them from the log: " + why->detail);
    }
    return;
  }
  if (!is_export_written_) {
    is_export_written_ = true;
    exports_.write_now(ctx);
    return ctx.out.step_again();
  }
  if (!exports_.is_idle() || checkpoint_.is_writing() || queue_table_.is_busy()) return;
  if (!is_table_written_) {
    is_table_written_ = true;
    if (!queues_.wants_removals()) return queue_table_.write(ctx, queues_.table(durable_round_.covers));
  }
  if (!is_clean_written_) {
    is_clean_written_ = true;
    checkpoint_.write(ctx, checkpoint_state(true));
    return;
  }
  // The marker stays where queues lack entries: RocketMQ would go on behind the youngest that it finds in any of them.
  if (is_giving_up_) is_abort_asked_ = is_abort_removed_ = true;
  if (!is_abort_asked_) {
    is_abort_asked_ = true;
    ctx.out.remove(tickets_.issue(kRemoveAbort), config_.store_path + "/abort");
    return;
  }
  if (!is_abort_removed_ || !queues_.is_idle() || !index_.is_idle()) return;
  enter(ctx, State::Stopped);
  ctx.out.step_again();
}

// The pump looks at the time itself; one timer wakes the node for whatever is due next.
void Store::arm(Ctx& ctx) {
  Monotonic next = next_disk_poll_;
  if (watermarks_.flushed < watermarks_.appended) next = std::min(next, next_flush_);
  if (watermarks_.dispatched != durable_round_.covers && !round_ && !is_giving_up_) next = std::min(next, round_due());
  if (state_ == State::Draining && !is_giving_up_ && ctx.now.monotonic < drained_by_) next = std::min(next, drained_by_);
  const CheckpointState& durable = checkpoint_.durable();
  if (log_.is_ready_to_append() && (watermarks_.flushed != durable.flushed || durable_round_.covers != durable.derived)) next = std::min(next, next_checkpoint_);
  if (wants_queue_table() && !round_ && queue_table_.can_ask(next_table_) && !queues_.wants_removals()) next = std::min(next, next_table_);
  if (is_space_asked_ && next == next_disk_poll_) next = Monotonic::never();
  if (next == armed_) return;
  armed_ = next;
  ctx.timers.set(TimerId(uint64_t{owner::kStore} << 56), next <= ctx.now.monotonic ? ctx.now.monotonic + Duration::milliseconds(1) : next);
}

}  // namespace fulmar
