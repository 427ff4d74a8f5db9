// The files of consume queues: mapping, preparing, writing, flushing, removing, and cold reads.

#include "core/store/consume_queue_impl.h"
#include "core/store/round_events.h"

namespace fulmar {

namespace {

constexpr TimerId kRetryTimer{uint64_t{owner::kQueues} << 56 | 1};
constexpr TimerId kSweepTimer{uint64_t{owner::kQueues} << 56 | 2};
constexpr Duration kRetryInterval = Duration::seconds(1);
// Held reads are bounded by whoever holds them; beyond this many they are answered at once, to ask again.
constexpr size_t kWaitingReadsMax = 65'536;

}  // namespace

// --- open files ------------------------------------------------------------------------------------------------------------------------

ConsumeQueues::Impl::OpenFile* ConsumeQueues::Impl::find_open(const QueueState& q, uint64_t start) {
  const auto it = open_files.find({q.index, start});
  return it == open_files.end() ? nullptr : &it->second;
}

void ConsumeQueues::Impl::open(Ctx& ctx, QueueState& q, uint64_t start, What what) {
  CHECK(q.removing == 0, "{} queue {} is opened while its files are removed", *q.topic, q.id);
  make_room_for_open(ctx);
  OpenFile& file = open_files[{q.index, start}];
  file.is_new = !std::binary_search(q.files.begin(), q.files.end(), start);
  file.busy = 1;
  file.last_used = ctx.now.monotonic;
  if (what == What::MapWrite) q.is_asked = true;
  const Ticket ticket = tickets.issue({what, q.index, start, q.life, {}});
  ctx.out.map(ticket, path(q, start), options.file_bytes, file.is_new ? Open::New : Open::Existing);
}

// Above the bound the file that was idle longest goes; when all are busy the bound gives way, for their number is bounded too.
void ConsumeQueues::Impl::make_room_for_open(Ctx& ctx) {
  if (open_files.size() < static_cast<size_t>(limits::kQueueFilesMappedMax)) return;
  auto oldest = open_files.end();
  for (auto it = open_files.begin(); it != open_files.end(); ++it) {
    if (it->second.busy != 0 || !it->second.waiting.empty() || queues[it->first.queue]->is_working) continue;
    if (oldest == open_files.end() || it->second.last_used < oldest->second.last_used) oldest = it;
  }
  SOMETIMES("store: a queue file makes room for another", oldest != open_files.end());
  if (oldest != open_files.end()) close(ctx, oldest);
}

void ConsumeQueues::Impl::close(Ctx& ctx, std::map<FileKey, OpenFile>::iterator it) {
  CHECK(it->second.busy == 0 && it->second.waiting.empty());
  if (it->second.is_mapped) ctx.out.unmap(it->second.id);
  QueueState& q = *queues[it->first.queue];
  if (q.pending.empty()) q.pending = {};   // an idle queue keeps no memory
  open_files.erase(it);
}

void ConsumeQueues::Impl::warm(Ctx& ctx, QueueState& q, uint64_t start, OpenFile& file, Range range, What what) {
  ++file.busy;
  if (what == What::WarmWrite) q.is_asked = true;
  file.residence.fetching(range);
  const FileSlice slice{file.id, range};
  const Ticket ticket = tickets.issue({what, q.index, start, q.life, range});
  ctx.out.warm(ticket, std::span(&slice, 1));
}

// --- cold reads ------------------------------------------------------------------------------------------------------------------------

void ConsumeQueues::Impl::wait_for_read(Ctx& ctx, QueueState& q, uint64_t start, Range range, uint64_t token) {
  if (waiting_reads >= kWaitingReadsMax || q.removing != 0) {
    ready.push_back(token);
    ctx.out.step_again();
    return;
  }
  if (find_open(q, start) == nullptr) open(ctx, q, start, What::MapRead);
  OpenFile& file = *find_open(q, start);
  // A reader usually goes on: more than it asks for is fetched, unless pages of this file are known to be bad.
  Range window = whole_pages(range, options.file_bytes);
  if (!file.is_suspect) window.end = std::min(std::max(window.end, window.begin + limits::kQueuePrepareBytes), options.file_bytes);
  file.waiting.push_back({token, window, false});
  ++waiting_reads;
  if (file.is_mapped) ask_for_waiting(ctx, q, start, file);
}

void ConsumeQueues::Impl::ask_for_waiting(Ctx& ctx, QueueState& q, uint64_t start, OpenFile& file) {
  for (size_t i = 0; i < file.waiting.size(); ++i) {
    Wait& wait = file.waiting[i];
    if (wait.is_asked) continue;
    wait.is_asked = true;
    // Readers of one place share one answer.
    const bool is_shared = std::any_of(file.waiting.begin(), file.waiting.end(),
                                       [&](const Wait& other) { return &other != &wait && other.is_asked && other.window == wait.window; });
    if (!is_shared) warm(ctx, q, start, file, wait.window, What::WarmRead);
  }
}

void ConsumeQueues::Impl::answer_waiting(OpenFile& file) {
  for (const Wait& wait : file.waiting) ready.push_back(wait.token);
  waiting_reads -= file.waiting.size();
  file.waiting.clear();
}

// What was read and what was written goes a moment later; an idle file goes whole, with its mapping.
void ConsumeQueues::Impl::cool_cold(Ctx& ctx, OpenFile& file) {
  for (const Range& cold : file.residence.take_cold(ctx.now.monotonic)) {
    const Range pages = inner_pages({cold.begin, std::min(cold.end, options.file_bytes)}, options.file_bytes);
    if (!pages.empty()) ctx.out.cool(file.id, pages);
  }
}

// --- removal -----------------------------------------------------------------------------------------------------------------------------

void ConsumeQueues::Impl::discard_files(QueueState& q) {
  for (auto it = open_files.lower_bound({q.index, 0}); it != open_files.end() && it->first.queue == q.index; ++it) {
    answer_waiting(it->second);
    const auto at = std::lower_bound(q.files.begin(), q.files.end(), it->first.start);
    if (at == q.files.end() || *at != it->first.start) q.files.insert(at, it->first.start);   // its creation is in flight
  }
  for (const uint64_t start : q.files) {
    // One that is on its way out already stays so.
    const bool is_known = q.removing != 0 && std::find(removals.begin(), removals.end(), FileKey{q.index, start}) != removals.end();
    if (is_known) continue;
    removals.push_back({q.index, start});
    ++q.removing;
  }
  q.files.clear();
  q.prepared_to = 0;
  ++q.life;
  if (q.is_working) {
    q.is_working = false;
    --working;
    std::erase(stalled, q.index);
  }
  q.is_asked = false;
}

void ConsumeQueues::Impl::pump_removals(Ctx& ctx) {
  if (!may_remove && !MUTANT(QueueTableOutlivesFiles)) return;
  for (size_t left = removals.size(); left > 0 && removals_out < static_cast<size_t>(limits::kQueueFilesBusyMax); --left) {
    const FileKey key = removals.front();
    removals.pop_front();
    const auto it = open_files.find(key);
    const bool is_early = queues[key.queue]->removable_at > watermarks.flushed;
    SOMETIMES("store: the files of a deleted topic wait for the flush of its deletion", is_early);
    if ((is_early && !MUTANT(QueueFilesRemovedEarly)) || (it != open_files.end() && it->second.busy != 0)) {
      removals.push_back(key);   // its answers come home first
      continue;
    }
    if (it != open_files.end()) close(ctx, it);
    ++removals_out;
    const Ticket ticket = tickets.issue({What::Remove, key.queue, key.start, 0, {}});
    ctx.out.remove(ticket, path(*queues[key.queue], key.start));
  }
}

void ConsumeQueues::Impl::on_removed(Ctx& ctx, const InFlight& flight, const Result<void>& outcome) {
  --removals_out;
  QueueState& q = *queues[flight.queue];
  if (outcome) {
    CHECK(q.removing > 0);
    --q.removing;
    return;
  }
  removals_stalled.push_back({flight.queue, flight.start});
  retry_later(ctx, outcome.error());
}

// --- a round ------------------------------------------------------------------------------------------------------------------------------

void ConsumeQueues::Impl::pump_rounds(Ctx& ctx) {
  if (retry_at <= ctx.now.monotonic) {
    retry_at = Monotonic::never();
    removals.insert(removals.end(), removals_stalled.begin(), removals_stalled.end());
    removals_stalled.clear();
    pump_removals(ctx);
    for (const uint32_t index : std::exchange(stalled, {}))
      if (queues[index]->is_working) drive(ctx, *queues[index]);
  }
  for (size_t left = round_todo.size(); left > 0 && working < static_cast<size_t>(limits::kQueueFilesBusyMax); --left) {
    QueueState& q = *queues[round_todo.front()];
    round_todo.pop_front();
    if (q.is_working || q.stored >= q.round_end || q.pending.empty()) continue;
    if (q.removing != 0) {
      round_todo.push_back(q.index);   // its old files go first
      continue;
    }
    q.is_working = true;
    ++working;
    drive(ctx, q);
  }
}

void ConsumeQueues::Impl::drive(Ctx& ctx, QueueState& q) {
  if (q.is_asked) return;
  if (q.stored >= q.round_end) return finish(q);
  while (true) {
    const uint64_t start = file_start(q.cursor);
    const int64_t file_end = first_index(start + options.file_bytes);
    OpenFile* file = find_open(q, start);
    if (file == nullptr) return open(ctx, q, start, What::MapWrite);
    if (!file->is_mapped) return;   // a reader asked for it; on_mapped goes on here
    file->last_used = ctx.now.monotonic;
    const uint64_t at = static_cast<uint64_t>(q.cursor) * kQueueEntryBytes;
    const int64_t writable_end = std::min({q.max, file_end, first_index(q.prepared_to)});
    if (writable_end <= q.cursor) return prepare_next(ctx, q, start, *file);
    const Range bytes{at - start, static_cast<uint64_t>(writable_end) * kQueueEntryBytes - start};
    if (!file->residence.covers(bytes, ctx.now.monotonic)) {
      // Mapped again after a pause: its pages are ours but may be far away.
      SOMETIMES("store: a queue file is written again after it was unmapped", true);
      return warm(ctx, q, start, *file, whole_pages(bytes, options.file_bytes), What::WarmWrite);
    }
    write_run(ctx, q, start, *file);
    if (q.cursor < std::min(q.max, file_end)) continue;
    return flush_written(ctx, q, start, *file);
  }
}

// Zeroes the next step ahead of the writer. It begins at the very byte where writing goes on: live entries stand before it.
void ConsumeQueues::Impl::prepare_next(Ctx& ctx, QueueState& q, uint64_t start, OpenFile& file) {
  uint64_t from = std::max(static_cast<uint64_t>(q.cursor) * kQueueEntryBytes, std::max(q.prepared_to, start)) - start;
  if (MUTANT(QueuePreparesWholePage)) from = from / limits::kPageBytes * limits::kPageBytes;
  prepare_from(ctx, q, start, file, from);
}

void ConsumeQueues::Impl::prepare_from(Ctx& ctx, QueueState& q, uint64_t start, OpenFile& file, uint64_t from) {
  const uint64_t to = std::min((from / limits::kQueuePrepareBytes + 1) * limits::kQueuePrepareBytes, options.file_bytes);
  const Range range{from, to};
  ++file.busy;
  q.is_asked = true;
  const Ticket ticket = tickets.issue({What::Prepare, q.index, start, q.life, range});
  ctx.out.prepare(ticket, file.id, range);
}

void ConsumeQueues::Impl::write_run(Ctx& ctx, QueueState& q, uint64_t start, OpenFile& file) {
  const int64_t to = std::min({q.max, first_index(start + options.file_bytes), first_index(q.prepared_to)});
  const Range bytes{static_cast<uint64_t>(q.cursor) * kQueueEntryBytes - start, static_cast<uint64_t>(to) * kQueueEntryBytes - start};
  MutableBytes into = ctx.files.at(file.id).writable(bytes);
  if (q.flush_from > q.cursor || file_start(q.flush_from) != start || q.flush_from < q.stored) q.flush_from = q.cursor;
  SOMETIMES("store: pre-blank entries are written", q.cursor < q.stored);
  for (; q.cursor < to; ++q.cursor, into = into.subspan(kQueueEntryBytes)) {
    const QueueEntry entry = q.cursor < q.stored ? QueueEntry{PhysicalOffset(0), kPreBlankBytes, 0} : q.pending[static_cast<size_t>(q.cursor - q.stored)];
    encode_queue_entry(into.first(kQueueEntryBytes), entry);
  }
}

void ConsumeQueues::Impl::flush_written(Ctx& ctx, QueueState& q, uint64_t start, OpenFile& file) {
  const Range range{static_cast<uint64_t>(q.flush_from) * kQueueEntryBytes - start, static_cast<uint64_t>(q.cursor) * kQueueEntryBytes - start};
  ++file.busy;
  q.is_asked = true;
  const Ticket ticket = tickets.issue({What::Flush, q.index, start, q.life, range});
  ctx.out.flush(ticket, file.id, range);
}

void ConsumeQueues::Impl::stored_to(Ctx& ctx, QueueState& q, uint64_t start, OpenFile& file, Range flushed) {
  const int64_t end = first_index(start + flushed.end);
  if (end > q.stored) {
    const int64_t count = end - q.stored;
    q.pending.erase(q.pending.begin(), q.pending.begin() + count);
    pending_count -= static_cast<size_t>(count);
    q.stored = end;
  }
  q.flush_from = q.cursor;
  // Full pages behind the writer are not touched soon; the one it stands in stays.
  const uint64_t page = limits::kPageBytes;
  const Range done{flushed.begin / page * page, flushed.end / page * page};
  file.residence.release(done, ctx.now.monotonic);
  cool_cold(ctx, file);
  SOMETIMES("store: a queue rolls to its next file", flushed.end == options.file_bytes);
  drive(ctx, q);
}

void ConsumeQueues::Impl::finish(QueueState& q) {
  if (!q.is_working) return;
  q.is_working = false;
  --working;
}

void ConsumeQueues::Impl::stall(Ctx& ctx, QueueState& q, Error error) {
  SOMETIMES("store: a queue waits for room on the disk", error.code == Errc::DiskFull);
  stalled.push_back(q.index);
  retry_later(ctx, std::move(error));
}

void ConsumeQueues::Impl::retry_later(Ctx& ctx, Error error) {
  if (!blocked) ctx.trace.note(RoundBlocked{error.detail});
  blocked = std::move(error);
  retry_at = ctx.now.monotonic + kRetryInterval;
  ctx.timers.set(kRetryTimer, retry_at);
}

void ConsumeQueues::Impl::go_on(Ctx& ctx, QueueState& q) {
  if (q.is_loading) advance_load(ctx, q);
  else if (q.is_working) drive(ctx, q);
}

// --- unmapping what is idle ------------------------------------------------------------------------------------------------------------------

void ConsumeQueues::Impl::pump_sweep(Ctx& ctx) {
  if (open_files.empty()) return;
  if (sweep_at == Monotonic::never()) {
    sweep_at = ctx.now.monotonic + limits::kQueueIdle;
    ctx.timers.set(kSweepTimer, sweep_at);
  }
  if (ctx.now.monotonic < sweep_at) return;
  sweep_at = Monotonic::never();
  for (auto it = open_files.begin(); it != open_files.end();) {
    const auto here = it++;
    OpenFile& file = here->second;
    cool_cold(ctx, file);
    if (file.busy == 0 && file.waiting.empty() && !queues[here->first.queue]->is_working && file.last_used + limits::kQueueIdle <= ctx.now.monotonic)
      close(ctx, here);
  }
  if (open_files.empty()) return;
  sweep_at = ctx.now.monotonic + limits::kQueueIdle;
  ctx.timers.set(kSweepTimer, sweep_at);
}

// --- answers ---------------------------------------------------------------------------------------------------------------------------------

void ConsumeQueues::Impl::on_mapped(Ctx& ctx, const Mapped& mapped) {
  const InFlight flight = tickets.redeem(mapped.ticket);
  QueueState& q = *queues[flight.queue];
  const auto it = open_files.find({flight.queue, flight.start});
  CHECK(it != open_files.end());
  OpenFile& file = it->second;
  --file.busy;
  if (flight.life == q.life && flight.what == What::MapWrite) q.is_asked = false;
  if (mapped.file) {
    file.id = *mapped.file;
    file.is_mapped = true;
    if (flight.life != q.life) return;   // pump_removals takes it from here
    if (file.is_new) {
      q.files.insert(std::lower_bound(q.files.begin(), q.files.end(), flight.start), flight.start);
      blocked.reset();
    }
    ask_for_waiting(ctx, q, flight.start, file);
    return go_on(ctx, q);
  }
  answer_waiting(file);
  open_files.erase(it);
  if (flight.life != q.life) return;
  if (q.is_loading) return lose_load(ctx, q, flight.start);
  if (flight.what == What::MapWrite) return stall(ctx, q, mapped.file.error());
  q.lost_until = ctx.now.monotonic + kRetryInterval;
  mark_damaged(ctx, q, flight.start);
  go_on(ctx, q);   // it may have waited for the reader's mapping
}

void ConsumeQueues::Impl::on_done(Ctx& ctx, const Done& done) {
  const InFlight flight = tickets.redeem(done.ticket);
  if (flight.what == What::Remove) return on_removed(ctx, flight, done.outcome);
  if (flight.what == What::RemoveOld) {   // one that stays is found again by a later start, and goes with the next cut
    --old_files_out;
    return;
  }
  QueueState& q = *queues[flight.queue];
  const auto it = open_files.find({flight.queue, flight.start});
  CHECK(it != open_files.end());
  OpenFile& file = it->second;
  --file.busy;
  if (flight.what == What::Flush && !done.outcome)
    return ctx.out.halt(Errc::FlushFailed, fmt::format("consume queue {} could not be flushed: {}", path(q, flight.start), done.outcome.error().text()));
  if (flight.what == What::WarmRead || flight.what == What::WarmWrite) file.residence.fetched(flight.range, done.outcome.has_value(), ctx.now.monotonic);
  if (flight.life != q.life) return;
  if (flight.what == What::WarmRead) return on_warm_read(ctx, q, flight, file, done.outcome);
  q.is_asked = false;
  if (q.is_loading && flight.what == What::Prepare) {
    LoadJob& job = jobs.at(q.index);
    // A disk that cannot clear today leaves it to the next start: nobody of ours reads behind the end.
    if (!done.outcome) return finish_load(ctx, q, job.min, job.end);
    job.clear_at = flight.start + flight.range.end;
    return advance_load(ctx, q);
  }
  if (!done.outcome) {
    if (q.is_loading) return lose_load(ctx, q, flight.start);
    return stall(ctx, q, done.outcome.error());
  }
  if (flight.what == What::Prepare) {
    file.residence.own(flight.range);
    q.prepared_to = flight.start + flight.range.end;
    blocked.reset();
  }
  if (flight.what == What::Flush) return stored_to(ctx, q, flight.start, file, flight.range);
  go_on(ctx, q);
}

void ConsumeQueues::Impl::mark_damaged(Ctx& ctx, QueueState& q, uint64_t line_at) {
  if (q.is_damaged) return;
  SOMETIMES("store: a queue has lost entries to its disk", true);
  q.is_damaged = true;
  ++broken;
  ctx.trace.note(QueueUnreadable{q.id, first_index(line_at), *q.topic});
}

void ConsumeQueues::Impl::on_warm_read(Ctx& ctx, QueueState& q, const InFlight& flight, OpenFile& file, const Result<void>& outcome) {
  if (!outcome) {
    const bool is_narrow = file.is_suspect || flight.range.size() <= 2 * limits::kPageBytes;
    file.is_suspect = true;   // from now on it is asked page by page
    if (is_narrow) {
      file.unreadable.push_back(flight.range);
      mark_damaged(ctx, q, flight.start + flight.range.begin);
    }
  }
  size_t kept = 0;
  for (const Wait& wait : file.waiting) {
    if (wait.is_asked && wait.window == flight.range) ready.push_back(wait.token);
    else file.waiting[kept++] = wait;
  }
  waiting_reads -= file.waiting.size() - kept;
  file.waiting.resize(kept);
}

}  // namespace fulmar
