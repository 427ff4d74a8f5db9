// Where every queue begins and ends, found at start.
//
// True entries fill a queue from its first file up to some end without a hole: whatever is below `derived` was flushed. Behind the end
// stands anything: zeros, entries of records beyond `derived`, remains of an earlier life. A first search asks each probed entry only
// whether it could be true; it finds an end that is never too low. The last entry is then looked up in the log: when its record stands
// there the end is right, else a second search asks every probed entry for its record.

#include "core/store/consume_queue_impl.h"

namespace fulmar {

namespace {

// "topic/queueId/00000000000000000000" taken apart; nothing when it is anything else.
struct QueueFileName { std::string_view topic; int32_t id; uint64_t start; };
std::optional<QueueFileName> parse_path(std::string_view path) {
  const size_t first = path.find('/');
  if (first == std::string_view::npos) return {};
  const size_t second = path.find('/', first + 1);
  if (second == std::string_view::npos) return {};
  const std::string_view digits = path.substr(first + 1, second - first - 1);
  if (digits.empty() || digits.size() > 9 || (digits.size() > 1 && digits.front() == '0')) return {};
  int32_t id = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return {};
    id = id * 10 + (c - '0');
  }
  const std::optional<uint64_t> start = parse_segment_name(path.substr(second + 1));
  if (!start) return {};
  return QueueFileName{path.substr(0, first), id, *start};
}

}  // namespace

void ConsumeQueues::Impl::adopt(Ctx& ctx, const FileEntry& entry) {
  if (entry.is_directory) return;
  const std::optional<QueueFileName> name = parse_path(entry.path);
  QueueState* q = name ? find_or_make(name->topic, name->id) : nullptr;
  if (q == nullptr) {
    ctx.trace.note(QueueFileIgnored{entry.size_bytes, entry.path});
    return;
  }
  q->files.push_back(name->start);
  if (entry.size_bytes == options.file_bytes && name->start % options.file_bytes == 0) return;
  ctx.trace.note(QueueFileIgnored{entry.size_bytes, entry.path});
  must_rebuild = true;
}

bool ConsumeQueues::Impl::is_queue_file(std::string_view path) { return parse_path(path).has_value(); }

// Queues that stand as the table says need no look.
void ConsumeQueues::Impl::take_table(const QueueTableState& table) {
  for (const QueueTableState::Topic& topic : table.topics) {
    for (const QueueTableState::Queue& row : topic.queues) {
      QueueState* q = find_or_make(topic.name, row.id);
      if (q == nullptr) continue;
      std::sort(q->files.begin(), q->files.end());
      const bool has_its_files = row.files == 0 || (!q->files.empty() && q->files.front() == row.first_file && q->files.size() >= row.files);
      must_rebuild |= !has_its_files;
      if (!has_its_files || (row.files == 0 && !q->files.empty())) continue;   // a topic that was deleted and made again: looked into
      q->min = row.min;
      q->max = q->next = q->stored = q->round_end = q->cursor = row.max;
      if (q->files.empty()) q->cursor = first_index(file_start(row.max));
      q->is_known = true;
      entries += static_cast<uint64_t>(row.max - row.min);
    }
  }
  SOMETIMES("store: queues are taken from their table", true);
}

void ConsumeQueues::Impl::begin_load(Ctx& ctx) {
  is_loading = true;
  for (auto& q : queues) {
    if (q->files.empty()) continue;
    std::sort(q->files.begin(), q->files.end());
    for (size_t i = 1; i < q->files.size(); ++i) must_rebuild |= q->files[i] != q->files[i - 1] + options.file_bytes;
    if (!q->is_known) load_todo.push_back(q->index);
  }
  pump_load(ctx);
}

void ConsumeQueues::Impl::pump_load(Ctx& ctx) {
  if (!is_loading) return;
  if (must_rebuild) load_todo.clear();
  while (!load_todo.empty() && jobs.size() < static_cast<size_t>(limits::kQueueFilesBusyMax)) {
    QueueState& q = *queues[load_todo.front()];
    load_todo.pop_front();
    q.is_loading = true;
    LoadJob job;
    job.first = job.low = first_index(q.files.front());
    job.high = first_index(q.files.back() + options.file_bytes);
    jobs.emplace(q.index, job);
    advance_load(ctx, q);
  }
  if (load_todo.empty() && jobs.empty()) end_load(ctx);
}

void ConsumeQueues::Impl::on_warmed(Ctx& ctx, const Warmed& warmed) {
  const auto it = jobs.find(static_cast<uint32_t>(warmed.token.what));
  if (it == jobs.end() || !it->second.is_waiting_for_log) return;
  it->second.is_waiting_for_log = false;
  it->second.is_record_unreadable = !warmed.outcome;
  advance_load(ctx, *queues[it->first]);
}

// Below `derived`, in one piece, or a pre-blank.
bool ConsumeQueues::Impl::is_plausible(const QueueEntry& entry) const {
  if (entry.bytes == kPreBlankBytes) return entry.at.value() == 0;
  return entry.bytes >= kRecordBytesMin && entry.at < derived && entry.bytes <= derived.value() - entry.at.value();
}

bool ConsumeQueues::Impl::is_dead(const QueueEntry& entry) const {
  return entry.bytes == 0 || entry.bytes == kPreBlankBytes || entry.at < watermarks.begin;
}

// Entry `index`, once its page is here.
ConsumeQueues::Impl::Probe ConsumeQueues::Impl::probe(Ctx& ctx, QueueState& q, int64_t index, QueueEntry& out) {
  const uint64_t start = file_start(index);
  const uint64_t at = static_cast<uint64_t>(index) * kQueueEntryBytes - start;
  const Range bytes{at, at + kQueueEntryBytes};
  OpenFile* file = find_open(q, start);
  if (file == nullptr) {
    open(ctx, q, start, What::MapWrite);
    return Probe::Waiting;
  }
  file->last_used = ctx.now.monotonic;
  if (!file->residence.covers(bytes, ctx.now.monotonic)) {
    warm(ctx, q, start, *file, whole_pages(bytes, options.file_bytes), What::WarmWrite);
    return Probe::Waiting;
  }
  out = decode_queue_entry(ctx.files.at(file->id).view(bytes));
  return Probe::Ready;
}

// Does the record of this very entry stand in the log? Records that retention has taken, and those whose page cannot be read, are taken
// as they are: the count of all entries judges in the end.
ConsumeQueues::Impl::Probe ConsumeQueues::Impl::stands_in_log(Ctx& ctx, QueueState& q, LoadJob& job, int64_t index, const QueueEntry& entry, bool& stands) {
  stands = is_plausible(entry);
  if (!stands || entry.bytes == kPreBlankBytes || entry.at < watermarks.begin) return Probe::Ready;
  if (std::exchange(job.is_record_unreadable, false)) return Probe::Ready;
  const uint64_t end = entry.at.value() + entry.bytes;
  stands = end <= log.file_end(entry.at).value();
  if (!stands) return Probe::Ready;
  const CommitLog::Readiness readiness = log.readiness(entry.at, entry.bytes, ctx.now.monotonic);
  if (readiness == CommitLog::Readiness::Cold) {
    job.is_waiting_for_log = true;
    log.warm(ctx, entry.at, entry.bytes, {WarmFor::Queues, q.index});
    return Probe::Waiting;
  }
  stands = readiness == CommitLog::Readiness::Ready;
  if (!stands) return Probe::Ready;
  const ParsedRecord parsed = parse_record(log.view(ctx, entry.at, entry.bytes), entry.at, Verify::Structure);
  stands = parsed.kind == RecordKind::Message && parsed.bytes == entry.bytes && parsed.record.message.topic == *q.topic &&
           parsed.record.message.queue_id.value() == q.id && parsed.record.place.queue.value() == index;
  return Probe::Ready;
}

void ConsumeQueues::Impl::advance_load(Ctx& ctx, QueueState& q) {
  LoadJob& job = jobs.at(q.index);
  if (q.is_asked || job.is_waiting_for_log) return;
  while (step_load(ctx, q, job)) {}
}

bool ConsumeQueues::Impl::step_load(Ctx& ctx, QueueState& q, LoadJob& job) {
  using Phase = LoadJob::Phase;
  QueueEntry entry;
  const bool is_search_done = job.low == job.high;
  switch (job.phase) {
    case Phase::FindEnd: {
      if (is_search_done) { job.phase = Phase::Verify; return true; }
      const int64_t middle = job.low + (job.high - job.low) / 2;
      if (probe(ctx, q, middle, entry) != Probe::Ready) return false;
      (is_plausible(entry) ? job.low : job.high) = is_plausible(entry) ? middle + 1 : middle;
      return true;
    }
    case Phase::Verify: {
      job.end = job.low;
      if (job.end == job.first) return clear_behind(job, 0, 0);
      bool stands = true;
      if (!MUTANT(QueueEndNotVerified)) {
        if (probe(ctx, q, job.end - 1, entry) != Probe::Ready) return false;
        if (stands_in_log(ctx, q, job, job.end - 1, entry, stands) != Probe::Ready) return false;
      }
      SOMETIMES("store: remains of an earlier life stand behind a queue", !stands);
      job.low = job.first;
      job.high = stands ? job.end : job.end - 1;
      job.phase = stands ? Phase::FindMin : Phase::FindEndStrictly;
      if (stands && MUTANT(QueueMinInFirstFileOnly)) job.high = std::min(job.end, first_index(q.files.front() + options.file_bytes));
      return true;
    }
    case Phase::FindEndStrictly: {
      if (is_search_done) {
        job.end = job.high;
        if (job.end == job.first) return clear_behind(job, 0, 0);
        job.low = job.first;
        job.phase = Phase::FindMin;
        return true;
      }
      const int64_t middle = job.low + (job.high - job.low) / 2;
      bool stands = false;
      if (probe(ctx, q, middle, entry) != Probe::Ready) return false;
      if (stands_in_log(ctx, q, job, middle, entry, stands) != Probe::Ready) return false;
      (stands ? job.low : job.high) = stands ? middle + 1 : middle;
      return true;
    }
    case Phase::FindMin: {
      if (is_search_done) return judge_head(ctx, q, job);
      // Most queues begin with their first entry.
      const int64_t middle = job.low == job.first ? job.first : job.low + (job.high - job.low) / 2;
      if (probe(ctx, q, middle, entry) != Probe::Ready) return false;
      SOMETIMES("store: the first file of a queue is dead", middle >= first_index(q.files.front() + options.file_bytes) && is_dead(entry));
      (is_dead(entry) ? job.low : job.high) = is_dead(entry) ? middle + 1 : middle;
      return true;
    }
    case Phase::ClearBehind: return step_clear(ctx, q, job);
  }
  return false;
}

// Below its end a queue holds nothing but true entries: one that cannot be true where it begins is damage that no search has met.
bool ConsumeQueues::Impl::judge_head(Ctx& ctx, QueueState& q, LoadJob& job) {
  QueueEntry entry;
  if (job.low < job.end && !MUTANT(QueueHeadNotJudged)) {
    if (probe(ctx, q, job.low, entry) != Probe::Ready) return false;
    if (!is_plausible(entry)) {
      SOMETIMES("store: a queue begins with an entry that cannot be true", true);
      ctx.trace.note(QueueEntryDamaged{q.id, job.low, *q.topic});
      must_rebuild = true;
    }
  }
  return clear_behind(job, job.low, job.end);
}

bool ConsumeQueues::Impl::clear_behind(LoadJob& job, int64_t min, int64_t end) {
  job.phase = LoadJob::Phase::ClearBehind;
  job.clear_at = static_cast<uint64_t>(end == 0 ? job.first : end) * kQueueEntryBytes;
  job.min = min;
  job.end = end;
  return true;
}

// Remains of a life whose records a crash took: a queue that is never written again would show them for ever, and a reader that trusts
// the files alone (RocketMQ's recovery) takes them for entries. They stand in one piece behind the end: zeroed until a page is empty.
bool ConsumeQueues::Impl::step_clear(Ctx& ctx, QueueState& q, LoadJob& job) {
  if (job.clear_at >= q.files.back() + options.file_bytes) { finish_load(ctx, q, job.min, job.end); return false; }
  const uint64_t start = job.clear_at / options.file_bytes * options.file_bytes, from = job.clear_at - start;
  OpenFile* found = find_open(q, start);
  if (found == nullptr) { open(ctx, q, start, What::MapWrite); return false; }
  OpenFile& file = *found;
  const uint64_t page_end = std::min((from / limits::kPageBytes + 1) * limits::kPageBytes, options.file_bytes);
  const Range page{from, page_end};
  if (!file.residence.covers(page, ctx.now.monotonic)) {
    warm(ctx, q, start, file, whole_pages(page, options.file_bytes), What::WarmWrite);
    return false;
  }
  const Bytes behind = ctx.files.at(file.id).view(page);
  if (std::all_of(behind.begin(), behind.end(), [](uint8_t b) { return b == 0; })) { finish_load(ctx, q, job.min, job.end); return false; }
  SOMETIMES("store: remains behind a queue are cleared at start", true);
  prepare_from(ctx, q, start, file, from);
  return false;
}

// A page or a file that is needed cannot be read.
void ConsumeQueues::Impl::lose_load(Ctx& ctx, QueueState& q, uint64_t start) {
  ctx.trace.note(QueueUnreadable{q.id, first_index(start), *q.topic});
  must_rebuild = true;
  finish_load(ctx, q, 0, 0);
}

void ConsumeQueues::Impl::finish_load(Ctx& ctx, QueueState& q, int64_t min, int64_t max) {
  q.min = min;
  q.max = q.next = q.stored = q.round_end = max;
  q.cursor = max == 0 ? first_index(q.files.front()) : max;
  entries += static_cast<uint64_t>(max - min);
  q.is_loading = false;
  jobs.erase(q.index);
  for (auto it = open_files.lower_bound({q.index, 0}); it != open_files.end() && it->first.queue == q.index;) {
    const auto here = it++;
    if (here->second.busy == 0) close(ctx, here);
  }
  ctx.out.step_again();   // the next one begins with the next pump
}

void ConsumeQueues::Impl::end_load(Ctx& ctx) {
  is_loading = false;
  is_loaded = true;
  must_rebuild |= is_sum_expected && entries != entries_expected;
  if (!must_rebuild) return;
  SOMETIMES("store: the queues are built again", true);
  ctx.trace.note(QueuesRebuilt{entries, entries_expected});
  for (auto& q : queues) {
    discard_files(*q);
    q->min = q->max = q->next = q->stored = q->cursor = q->round_end = 0;
  }
  entries = 0;
  known_below = {};
  pump_removals(ctx);
}

void ConsumeQueues::on_warmed(Ctx& ctx, const Warmed& warmed) { impl_->on_warmed(ctx, warmed); }

}  // namespace fulmar
