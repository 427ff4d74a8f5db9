#include "core/store/consume_queue.h"

#include <algorithm>

#include "core/base/java_hash.h"
#include "core/store/consume_queue_impl.h"

namespace fulmar {

// --- entries -------------------------------------------------------------------------------------------------------------------------

void encode_queue_entry(MutableBytes into, const QueueEntry& entry) {
  Writer w(into);
  w.u64(entry.at.value());
  w.u32(entry.bytes);
  w.i64(entry.tag_code);
}

QueueEntry decode_queue_entry(Bytes from) {
  Reader r(from);
  QueueEntry entry;
  entry.at = PhysicalOffset(r.u64());
  entry.bytes = r.u32();
  entry.tag_code = r.i64();
  return entry;
}

int64_t tag_code_of(const Message& message) {
  const std::optional<std::string_view> tags = property::find(message.properties, property::kTags);
  if (!tags) return 0;
  const int32_t hash = java_hash(*tags);
  if (MUTANT(TagCodeNotSignExtended)) return static_cast<int64_t>(static_cast<uint32_t>(hash));
  return hash;
}

// --- queues in memory ------------------------------------------------------------------------------------------------------------------

ConsumeQueues::Impl::Impl(ConsumeQueues::Options o, CommitLog& l, Watermarks& w) : options(std::move(o)), log(l), watermarks(w) {
  // Entries never cross a file: the size is rounded up to whole ones, as RocketMQ does.
  options.file_bytes = (options.file_bytes + kQueueEntryBytes - 1) / kQueueEntryBytes * kQueueEntryBytes;
  CHECK(options.file_bytes > 0);
}

QueueState* ConsumeQueues::Impl::find(std::string_view topic, int32_t id) {
  if (last_topic == nullptr || last_topic->first != topic) {
    const auto it = topics.find(topic);
    if (it == topics.end()) return nullptr;
    last_topic = &*it;
  }
  if (id < 0) return nullptr;
  const auto& list = last_topic->second.queues;
  // Ids are nearly always 0, 1, 2 …: the place is the id.
  if (static_cast<size_t>(id) < list.size() && list[static_cast<size_t>(id)].first == id) return queues[list[static_cast<size_t>(id)].second].get();
  const auto at = std::lower_bound(list.begin(), list.end(), std::pair(id, uint32_t{0}));
  return at != list.end() && at->first == id ? queues[at->second].get() : nullptr;
}

// Null for names that would leave the directory: they stand only in a foreign log.
QueueState* ConsumeQueues::Impl::find_or_make(std::string_view topic, int32_t id) {
  if (QueueState* q = find(topic, id)) return q;
  if (id < 0 || topic.empty() || topic.front() == '.' || topic.find('/') != std::string_view::npos || topic.find('\0') != std::string_view::npos)
    return nullptr;
  auto it = topics.find(topic);
  if (it == topics.end()) it = topics.emplace(std::string(topic), TopicQueues{}).first;
  auto made = std::make_unique<QueueState>();
  made->topic = &it->first;
  made->id = id;
  made->index = static_cast<uint32_t>(queues.size());
  auto& list = it->second.queues;
  list.insert(std::lower_bound(list.begin(), list.end(), std::pair(id, uint32_t{0})), {id, made->index});
  queues.push_back(std::move(made));
  return queues.back().get();
}

std::string ConsumeQueues::Impl::path(const QueueState& q, uint64_t start) const {
  return fmt::format("{}/{}/{}/{}", options.directory, *q.topic, q.id, segment_name(start));
}

void ConsumeQueues::Impl::begin_at(QueueState& q, int64_t first) {
  CHECK(q.min == q.max && q.pending.empty() && first >= q.max, "queue [{}, {}) begins at {}", q.min, q.max, first);
  const uint64_t start = file_start(first);
  const bool stands_in_place = q.cursor >= first_index(start) && q.cursor <= first;
  const bool has_file = std::binary_search(q.files.begin(), q.files.end(), start) || (!q.files.empty() && q.files.back() + options.file_bytes == start);
  if (!q.files.empty() && !(stands_in_place && has_file)) {
    SOMETIMES("store: an empty queue with files begins elsewhere", true);
    discard_files(q);
  }
  q.min = q.max = q.stored = q.round_end = first;
  if (q.files.empty()) q.cursor = first_index(start);
}

void ConsumeQueues::Impl::append(QueueState& q, const QueueEntry& entry) {
  if (q.min == q.max) {
    q.first_at_index = q.min;
    q.first_at = entry.at;
  }
  q.pending.push_back(entry);
  ++q.max;
  ++entries;
  ++pending_count;
  if (!q.is_dirty) { q.is_dirty = true; dirty.push_back(q.index); }
  if (!q.has_arrival) { q.has_arrival = true; arrivals.push_back(q.index); }
}

// The next entry stands durably in its file, written by an earlier life after the table that was found.
void ConsumeQueues::Impl::advance(QueueState& q) {
  ++entries;
  ++q.max;
  q.stored = q.cursor = q.round_end = q.max;
}

ConsumeQueues::ConsumeQueues(Options options, CommitLog& log, Watermarks& watermarks)
    : impl_(std::make_unique<Impl>(std::move(options), log, watermarks)) {}
ConsumeQueues::~ConsumeQueues() = default;

void ConsumeQueues::expect_gaps() { impl_->expects_gaps = true; }

bool ConsumeQueues::apply(Ctx& ctx, const RecordView& record) {
  const uint32_t transaction = record.message.sys_flag & sys_flag::kTransactionMask;
  if (transaction != 0 && transaction != sys_flag::kCommit) return true;
  if (impl_->pending_count >= limits::kPendingEntriesMax) return false;
  QueueState* q = impl_->find_or_make(record.message.topic, record.message.queue_id.value());
  const int64_t offset = record.place.queue.value();
  if (q == nullptr || offset < 0 || q->is_broken) return true;
  const QueueEntry entry{record.place.physical, record.total_bytes, tag_code_of(record.message)};
  if (offset < q->max && !MUTANT(QueueTakesDuplicates)) return true;   // dispatched again after a restart
  if (q->min == q->max) impl_->begin_at(*q, std::max(offset, q->max));
  const bool is_gap = offset > q->max && !MUTANT(QueueShiftsOverGap);
  if (is_gap && impl_->expects_gaps && offset - q->max <= limits::kGapEntriesMax) {
    SOMETIMES("store: a queue goes on behind records that were damaged", true);
    while (q->max < offset) {
      if (impl_->pending_count >= limits::kPendingEntriesMax) return false;
      impl_->append(*q, {PhysicalOffset(0), kPreBlankBytes, 0});
    }
  }
  if (is_gap && offset > q->max) {
    // Appending here would shift every later offset of the queue (store.md FG-4).
    ctx.trace.note(QueueGap{q->id, q->max, record.place.physical.value(), offset, *q->topic});
    q->is_broken = true;
    ++impl_->broken;
    return true;
  }
  const bool may_stand = entry.at < impl_->known_below && q->pending.empty() && !q->is_fed_anew;
  if (may_stand && std::binary_search(q->files.begin(), q->files.end(), impl_->file_start(offset))) {
    SOMETIMES("store: an entry behind the table of queues stands in its file", true);
    impl_->advance(*q);
    return true;
  }
  if (entry.at < impl_->known_below) {
    SOMETIMES("store: a file behind the table of queues is missing", !impl_->misses_files);
    impl_->misses_files = true;
    q->is_fed_anew = true;   // a round may write it while the rest is being fed: then its file is there, but it is ours and ends here
  }
  impl_->append(*q, entry);
  return true;
}

// --- offsets -------------------------------------------------------------------------------------------------------------------------

QueueOffset ConsumeQueues::next_offset(std::string_view topic, QueueId queue) {
  const QueueState* q = impl_->find_or_make(topic, queue.value());
  return QueueOffset(q == nullptr ? 0 : q->next);
}

void ConsumeQueues::assigned(std::string_view topic, QueueId queue, EntryCount count) {
  QueueState* q = impl_->find(topic, queue.value());
  CHECK(q != nullptr && count.value() >= 0, "{} queue {} was never asked for", topic, queue);
  q->next += count.value();
}

void ConsumeQueues::begin_appending() {
  for (auto& q : impl_->queues) {
    // Nothing of it is in the log any more, and its files were lost.
    SOMETIMES("store: an empty queue goes on at its floor", q->min == q->max && q->max < q->floor);
    if (q->min == q->max && q->max < q->floor) impl_->begin_at(*q, q->floor);
    q->next = q->max;
  }
}

void ConsumeQueues::set_floor(std::string_view topic, QueueId queue, QueueOffset next) {
  QueueState* q = impl_->find_or_make(topic, queue.value());
  if (q != nullptr) q->floor = std::max(q->floor, next.value());
}

QueueRange ConsumeQueues::range(std::string_view topic, QueueId queue) const {
  const QueueState* q = impl_->find(topic, queue.value());
  return q == nullptr ? QueueRange{} : QueueRange{QueueOffset(q->min), QueueOffset(q->max)};
}

void ConsumeQueues::Impl::retire(QueueState& q) {
  entries -= static_cast<uint64_t>(q.max - q.min);
  pending_count -= q.pending.size();
  q.pending = {};
  q.min = q.stored = q.round_end = q.max;
  broken -= static_cast<size_t>(q.is_broken) + static_cast<size_t>(q.is_damaged);
  q.is_broken = q.is_damaged = false;
  discard_files(q);
  q.cursor = first_index(file_start(q.max));
}

void ConsumeQueues::retire_topic(Ctx&, std::string_view topic, PhysicalOffset end) {
  const auto it = impl_->topics.find(topic);
  if (it == impl_->topics.end()) return;
  impl_->retired_to = std::max(impl_->retired_to, end);
  for (const auto& [id, index] : it->second.queues) {
    impl_->queues[index]->removable_at = end;
    impl_->retire(*impl_->queues[index]);
  }
}

void ConsumeQueues::begin_queue_at(std::string_view topic, QueueId queue, QueueOffset first) {
  QueueState* q = impl_->find_or_make(topic, queue.value());
  if (q == nullptr) return;
  if (q->max <= first.value()) {
    if (q->min != q->max) impl_->retire(*q);
    if (q->max < first.value()) impl_->begin_at(*q, first.value());
  } else if (q->min < first.value()) {
    // The topic was made again since, and a crash left the files of both lives: what belongs to the first is passed over.
    SOMETIMES("store: entries of a deleted topic stand before those of its successor", true);
    impl_->entries -= static_cast<uint64_t>(first.value() - q->min);
    q->min = first.value();
  }
  q->next = std::max(q->next, first.value());
}

PhysicalOffset ConsumeQueues::retired_to() const { return impl_->retired_to; }
uint64_t ConsumeQueues::entry_count() const { return impl_->entries; }
uint64_t ConsumeQueues::file_bytes() const { return impl_->options.file_bytes; }
size_t ConsumeQueues::pending_count() const { return impl_->pending_count; }
size_t ConsumeQueues::queue_count() const { return impl_->queues.size(); }
size_t ConsumeQueues::broken_count() const { return impl_->broken; }
bool ConsumeQueues::is_damaged_on_disk() const { return impl_->is_damaged_on_disk; }

void ConsumeQueues::report_damage(Ctx& ctx, std::string_view topic, QueueId queue, QueueOffset offset) {
  QueueState* q = impl_->find(topic, queue.value());
  if (q == nullptr || offset.value() >= q->stored) return;
  impl_->is_damaged_on_disk = true;
  if (q->is_damaged) return;
  q->is_damaged = true;
  ++impl_->broken;
  ctx.trace.note(QueueEntryDamaged{q->id, offset.value(), *q->topic});
}

void ConsumeQueues::for_each(const std::function<void(std::string_view, QueueId, QueueRange)>& visit) const {
  for (const auto& [topic, list] : impl_->topics)
    for (const auto& [id, index] : list.queues) {
      const QueueState& q = *impl_->queues[index];
      if (q.max > q.min) visit(topic, QueueId(id), {QueueOffset(q.min), QueueOffset(q.max)});
    }
}

std::vector<uint64_t> ConsumeQueues::take_ready() {
  if (impl_->is_cutting) impl_->take_cut_tokens();
  return std::exchange(impl_->ready, {});
}

std::vector<Arrival> ConsumeQueues::take_arrivals() {
  std::vector<Arrival> out;
  out.reserve(impl_->arrivals.size());
  for (const uint32_t index : impl_->arrivals) {
    QueueState& q = *impl_->queues[index];
    q.has_arrival = false;
    out.push_back({*q.topic, QueueId(q.id), QueueOffset(q.max)});
  }
  impl_->arrivals.clear();
  return out;
}

// --- reading -------------------------------------------------------------------------------------------------------------------------

namespace {

constexpr int64_t kEntriesPerRead = static_cast<int64_t>(limits::kQueuePrepareBytes / kQueueEntryBytes) - 1;

// Entries of [from, to) as the file has them, those that lead nowhere too; stops at one that was never written: damage that the count at
// start will find.
void decode_run(Bytes bytes, std::vector<QueueEntry>& out) {
  for (; bytes.size() >= kQueueEntryBytes; bytes = bytes.subspan(kQueueEntryBytes)) {
    const QueueEntry entry = decode_queue_entry(bytes);
    if (entry.bytes < kRecordBytesMin) return;
    out.push_back(entry);
  }
}

// Behind the last entry that ends in the page where entry `at` begins; at least one.
int64_t end_of_page(int64_t at, uint64_t start) {
  const uint64_t begin = static_cast<uint64_t>(at) * kQueueEntryBytes - start;
  const uint64_t page_end = (begin / limits::kPageBytes + 1) * limits::kPageBytes;
  return at + std::max<int64_t>(1, static_cast<int64_t>((page_end - begin) / kQueueEntryBytes));
}

}  // namespace

bool ConsumeQueues::read(Ctx& ctx, std::string_view topic, QueueId queue, QueueOffset from, EntryCount count, uint64_t token, std::vector<QueueEntry>& out) {
  QueueState* q = impl_->find(topic, queue.value());
  if (q == nullptr || from.value() < q->min || from.value() >= q->max || count.value() <= 0) return true;
  int64_t at = from.value();
  const int64_t end = at + std::min(count.value(), q->max - at);
  if (at < q->stored) {
    const uint64_t start = impl_->file_start(at);
    Impl::OpenFile* file = impl_->find_open(*q, start);
    int64_t to = std::min({end, q->stored, impl_->first_index(start + impl_->options.file_bytes), at + kEntriesPerRead});
    if (file != nullptr && file->is_suspect) to = std::min(to, end_of_page(at, start));   // page by page around what cannot be read
    const Range bytes{static_cast<uint64_t>(at) * kQueueEntryBytes - start, static_cast<uint64_t>(to) * kQueueEntryBytes - start};
    if (file == nullptr || !file->is_mapped || !file->residence.covers(bytes, ctx.now.monotonic)) {
      if (file != nullptr ? file->is_lost(bytes) : ctx.now.monotonic < q->lost_until) return true;
      SOMETIMES("store: a queue is read from a cold file", true);
      impl_->wait_for_read(ctx, *q, start, bytes, token);
      return false;
    }
    file->last_used = ctx.now.monotonic;
    const size_t before = out.size();
    decode_run(ctx.files.at(file->id).view(bytes), out);
    at += static_cast<int64_t>(out.size() - before);
    if (at < q->stored) return true;
  }
  const auto first = q->pending.begin() + (at - q->stored);
  if (at < end) out.insert(out.end(), first, first + (end - at));
  return true;
}

// --- inputs and rounds ---------------------------------------------------------------------------------------------------------------

void ConsumeQueues::adopt(Ctx& ctx, const FileEntry& entry) { impl_->adopt(ctx, entry); }
void ConsumeQueues::begin_load(Ctx& ctx, PhysicalOffset derived, uint64_t entries_expected, bool is_expected_known,
                               const QueueTableState* table) {
  impl_->derived = derived;
  impl_->entries_expected = entries_expected;
  impl_->is_sum_expected = is_expected_known && table == nullptr;   // of queues as they were at different times there is no sum to compare
  if (table != nullptr) {
    impl_->known_below = derived;
    impl_->take_table(*table);
  }
  impl_->begin_load(ctx);
}
bool ConsumeQueues::is_queue_file(std::string_view path) { return Impl::is_queue_file(path); }
void ConsumeQueues::allow_removals(bool is_allowed) { impl_->may_remove = is_allowed; }
bool ConsumeQueues::wants_removals() const { return !impl_->removals.empty() || !impl_->removals_stalled.empty() || !impl_->old_files.empty(); }

QueueTableState ConsumeQueues::table(PhysicalOffset covers) const {
  QueueTableState out;
  out.covers = covers;
  out.log_begin = impl_->watermarks.begin;
  out.file_bytes = impl_->options.file_bytes;
  out.topics.reserve(impl_->topics.size());
  for (const auto& [topic, list] : impl_->topics) {
    QueueTableState::Topic& row = out.topics.emplace_back();
    row.name = topic;
    for (const auto& [id, index] : list.queues) {
      const QueueState& q = *impl_->queues[index];
      // Entries behind round_end may stand in the files, too; their records are dispatched again.
      const int64_t max = topic != kMetaTopic && MUTANT(QueueTableCountsMemory) ? q.max : q.round_end;
      if (max == 0 || q.is_broken || q.is_damaged) continue;
      row.queues.push_back({id, std::min(q.min, max), max, q.files.empty() ? 0 : q.files.front(), static_cast<uint32_t>(q.files.size())});
    }
    if (row.queues.empty()) out.topics.pop_back();
  }
  return out;
}
bool ConsumeQueues::is_loaded() const { return impl_->is_loaded; }
void ConsumeQueues::begin_rebuild(Ctx& ctx) {
  impl_->must_rebuild = true;
  impl_->end_load(ctx);
}
bool ConsumeQueues::needs_rebuild() const { return impl_->must_rebuild; }
bool ConsumeQueues::misses_files() const { return impl_->misses_files && !MUTANT(MissingFilesKeepTable); }
void ConsumeQueues::round_is_done(PhysicalOffset covers) { impl_->misses_files &= covers < impl_->known_below; }

void ConsumeQueues::on_mapped(Ctx& ctx, const Mapped& mapped) { impl_->on_mapped(ctx, mapped); }
void ConsumeQueues::on_done(Ctx& ctx, const Done& done) { impl_->on_done(ctx, done); }

void ConsumeQueues::pump(Ctx& ctx) {
  impl_->pump_removals(ctx);
  impl_->pump_old_files(ctx);
  impl_->pump_cut(ctx, *this);
  impl_->pump_load(ctx);
  impl_->pump_rounds(ctx);
  impl_->pump_sweep(ctx);
}

bool ConsumeQueues::is_idle() const { return impl_->tickets.out_count() == 0; }
const Error* ConsumeQueues::blocked() const { return impl_->blocked ? &*impl_->blocked : nullptr; }

void ConsumeQueues::begin_round(Ctx&) {
  impl_->in_round.clear();
  for (const uint32_t index : impl_->dirty) {
    QueueState& q = *impl_->queues[index];
    q.is_dirty = false;
    impl_->in_round.push_back({index, q.life, q.round_end});
    q.round_end = q.max;
    if (q.stored < q.max && !q.is_working) impl_->round_todo.push_back(index);
  }
  impl_->dirty.clear();
}

bool ConsumeQueues::is_round_done() const {
  if (MUTANT(QueueRoundDoneBeforeFlush)) return impl_->round_todo.empty();
  return impl_->round_todo.empty() && impl_->working == 0 && impl_->removals.empty() && impl_->removals_stalled.empty() && impl_->removals_out == 0;
}

size_t ConsumeQueues::dirty_count() const { return impl_->dirty.size(); }
size_t ConsumeQueues::unwritten_count() const { return impl_->dirty.size() + impl_->round_todo.size() + impl_->working; }
bool ConsumeQueues::is_writing() const { return impl_->working > 0; }

// What was written of it stays in the files, where a start takes it for what a crash has left.
void ConsumeQueues::abandon_round() {
  impl_->round_todo.clear();
  for (const Impl::InRound& was : std::exchange(impl_->in_round, {})) {
    QueueState& q = *impl_->queues[was.queue];
    if (q.life == was.life && !MUTANT(AbandonedRoundCounts)) q.round_end = was.end_before;
    if (!q.is_dirty) { q.is_dirty = true; impl_->dirty.push_back(was.queue); }
  }
}

bool ConsumeQueues::wants_round() const { return impl_->pending_count >= limits::kPendingEntriesRound; }

}  // namespace fulmar
