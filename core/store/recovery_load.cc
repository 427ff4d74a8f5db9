// The second half of recovery: what is derived from the log is loaded, folded and fed, once the log's end is known.

#include <algorithm>

#include "core/base/marks.h"
#include "core/store/recovery.h"

namespace fulmar {

namespace {

struct RebuildEvent {
  FULMAR_EVENT(RebuildDerived, Warning, "derived files are missing or foreign: rebuilding from {} (queues {}, index {})");
  uint64_t from, queues, index;
  auto values() const { return std::array{from, queues, index}; }
};
struct RecoveredEvent {
  FULMAR_EVENT(Recovered, Info, "recovered: log [{}, {}), dispatched from {}");
  uint64_t begin, end, dispatched;
  auto values() const { return std::array{begin, end, dispatched}; }
};

}  // namespace

// What the table says holds only for the log and the directory that it was written of. ASYNC_FLUSH writes entries of records that a power cut
// may take, and their remains must be looked for, unless nothing was written since.
std::optional<QueueTableState> Recovery::usable_table(PhysicalOffset derived, bool is_known) {
  std::optional<QueueTableState> table = store_.queue_table_.take_found();
  if (!table || !is_known) return {};
  // An earlier life met an entry that cannot be right, and left a count that no store has: the queues are to be built again.
  if (store_.checkpoint_.found()->queue_entries == UINT64_MAX) return {};
  const bool is_of_this_log = table->log_begin == store_.watermarks_.begin;
  const bool is_exact = table->covers == derived;
  const bool is_sync = store_.config_.flush_disk_type == FlushDiskType::Sync;
  const bool is_usable = is_of_this_log && table->covers <= derived && table->covers >= table->log_begin && (is_sync || is_exact) &&
                         table->file_bytes == store_.queues_.file_bytes();
  if (!is_usable) return {};
  return table;
}

void Recovery::load(Ctx& ctx) {
  ConsumeQueues& queues = store_.queues_;
  Index& index = store_.index_;
  const std::optional<CheckpointState>& found = store_.checkpoint_.found();
  const bool is_known = found && found->derived.value() <= end_;
  const PhysicalOffset derived = is_known ? found->derived : store_.watermarks_.begin;
  if (!is_waiting_) {
    is_waiting_ = true;
    for (const FileEntry& entry : queue_files_) queues.adopt(ctx, entry);
    for (const FileEntry& entry : index_files_) index.adopt(ctx, entry);
    const std::optional<QueueTableState> table = usable_table(derived, is_known);
    feed_from_ = table ? table->covers : derived;
    queues.begin_load(ctx, derived, is_known ? found->queue_entries : 0, true, table ? &*table : nullptr);
    index.begin_load(ctx, store_.watermarks_.begin, is_known ? found->index_entries : 0, true);
    return;
  }
  if (!queues.is_loaded() || !index.is_loaded()) return;
  PhysicalOffset from = feed_from_;
  if (from < derived && !index.needs_rebuild()) index.ignore_below(derived);
  if (queues.needs_rebuild() || index.needs_rebuild()) {
    SOMETIMES("store: derived files are rebuilt from the log", true);
    from = store_.watermarks_.begin;
    ctx.trace.note(RebuildEvent{from.value(), queues.needs_rebuild(), index.needs_rebuild()});
    store_.durable_round_ = {from, 0, 0, {}};
  }
  if (!store_.holes_.empty()) queues.expect_gaps();
  store_.dispatch_.begin_at(from);
  fold_at_ = queues.range(kMetaTopic, QueueId(0)).min;
  enter(ctx, Stage::Folding);
}

// Topics and offsets from the meta records below what dispatch will feed: those that the meta topic's queue already names.
void Recovery::fold(Ctx& ctx) {
  if (is_fold_waiting_) return;
  const QueueRange range = store_.queues_.range(kMetaTopic, QueueId(0));
  while (true) {
    if (fold_index_ == fold_entries_.size()) {
      fold_entries_.clear();
      fold_index_ = 0;
      if (fold_at_ >= range.max) return enter(ctx, Stage::CatchingUp);
      if (!store_.queues_.read(ctx, kMetaTopic, QueueId(0), fold_at_, std::min(EntryCount(256), range.max - fold_at_), kFoldToken, fold_entries_)) {
        is_fold_waiting_ = true;
        return;
      }
      if (fold_entries_.empty()) return rebuild(ctx);   // an entry of the queue is not one: so may be those of others
    }
    const QueueEntry& entry = fold_entries_[fold_index_];
    if (entry.bytes == kPreBlankBytes) {   // its record was damaged
      ++fold_index_;
      fold_at_ += EntryCount(1);
      continue;
    }
    const CommitLog::Readiness readiness = store_.log_.readiness(entry.at, entry.bytes, ctx.now.monotonic);
    if (readiness == CommitLog::Readiness::Cold && !is_unreadable_) {
      is_fold_waiting_ = true;
      // A window, not a record: meta records tend to be neighbours.
      store_.log_.warm(ctx, entry.at, std::max<uint64_t>(entry.bytes, 64 * 1024), {WarmFor::Recovery, 1});
      return;
    }
    if (readiness == CommitLog::Readiness::Ready) {
      const ParsedRecord parsed = parse_record(store_.log_.view(ctx, entry.at, entry.bytes), entry.at, Verify::Checksums);
      if (parsed.kind == RecordKind::Message) (void)store_.meta_.apply(ctx, parsed.record);
      else on_damage(ctx, {entry.at.value(), entry.at.value() + entry.bytes}, "a record of topics and offsets");
    } else {
      on_damage(ctx, {entry.at.value(), entry.at.value() + entry.bytes}, "a record of topics and offsets cannot be read");
    }
    is_unreadable_ = false;
    ++fold_index_;
    fold_at_ += EntryCount(1);
  }
}

void Recovery::rebuild(Ctx& ctx) {
  SOMETIMES("store: the fold of topics finds a queue that is not what it should be", true);
  store_.queues_.begin_rebuild(ctx);
  const PhysicalOffset from = store_.watermarks_.begin;
  ctx.trace.note(RebuildEvent{from.value(), true, false});
  store_.durable_round_ = {from, 0, 0, {}};
  store_.dispatch_.begin_at(from);
  enter(ctx, Stage::CatchingUp);
}

void Recovery::on_queues_ready(Ctx& ctx) {
  is_fold_waiting_ = false;
  ctx.out.step_again();
}

bool Recovery::is_fed() const {
  return stage_ == Stage::CatchingUp && (store_.watermarks_.dispatched.value() >= end_ || store_.dispatch_.is_stopped());
}

void Recovery::catch_up(Ctx& ctx) {
  if (!is_fed()) return;   // the store pumps dispatch and rounds
  store_.queues_.begin_appending();
  store_.meta_.clamp_offsets(ctx);
  if (store_.meta_.has_records() || is_damaged_) return finish(ctx);
  store_.exports_.begin_import(ctx);
  enter(ctx, Stage::Importing);
}

// An imported store: RocketMQ's JSON tables become records of the log.
void Recovery::import(Ctx& ctx) {
  Exports& exports = store_.exports_;
  if (!exports.is_import_done()) return;
  if (!exports.import_outcome()) return refuse(ctx, exports.import_outcome().error().code, exports.import_outcome().error().detail);
  const auto& topics = exports.imported_topics();
  while (imported_topics_ < topics.size()) {
    if (!store_.meta_.set_topic(ctx, topics[imported_topics_])) return;  // the place is not prepared yet; the next step tries again
    ++imported_topics_;
    SOMETIMES("store: tables of another broker are imported", true);
  }
  const auto& offsets = exports.imported_offsets();
  while (imported_offsets_ < offsets.size()) {
    const size_t count = std::min<size_t>(offsets.size() - imported_offsets_, 200);
    const std::vector<std::pair<OffsetKey, QueueOffset>> some(offsets.begin() + static_cast<ptrdiff_t>(imported_offsets_),
                                                              offsets.begin() + static_cast<ptrdiff_t>(imported_offsets_ + count));
    if (!store_.meta_.set_offsets(ctx, some)) return;
    imported_offsets_ += count;
  }
  finish(ctx);
}

void Recovery::finish(Ctx& ctx) {
  if (is_damaged_) store_.meta_.assume_topics(ctx);
  ctx.trace.note(RecoveredEvent{store_.watermarks_.begin.value(), end_, store_.durable_round_.covers.value()});
  enter(ctx, Stage::Done);
}

}  // namespace fulmar
