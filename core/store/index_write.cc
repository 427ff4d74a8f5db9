// Writing the index: one batch of keys at a time, entries before slots before header, each made durable before the next.

#include "core/store/index_impl.h"
#include "core/store/round_events.h"

namespace fulmar {

namespace {

constexpr TimerId kRetryTimer{uint64_t{owner::kIndex} << 56 | 1};
constexpr TimerId kSweepTimer{uint64_t{owner::kIndex} << 56 | 2};
constexpr Duration kRetryInterval = Duration::seconds(1);
constexpr size_t kBatchKeysMax = 16'384;
// So many separate pages of slots are fetched one by one; beyond that the whole area is.
constexpr size_t kSlotRangesMax = 32;
static_assert(kBatchKeysMax * kIndexEntryBytes <= limits::kIndexPrepareBytes);   // what a crash leaves behind is found by windows of this size

}  // namespace

// --- requests ------------------------------------------------------------------------------------------------------------------------------

void Index::Impl::map(Ctx& ctx, File& file, What what) {
  file.is_mapping = true;
  ++file.busy;
  if (what == What::MapWrite) is_asked = true;
  const Ticket ticket = tickets.issue({what, file.name, {}, 0});
  ctx.out.map(ticket, path(file.name), file_bytes(), file.is_made ? Open::Existing : Open::New);
}

void Index::Impl::prepare(Ctx& ctx, File& file, Range range) {
  ++file.busy;
  is_asked = true;
  const Ticket ticket = tickets.issue({What::Prepare, file.name, range, 0});
  ctx.out.prepare(ticket, file.id, range);
}

void Index::Impl::warm_to_write(Ctx& ctx, File& file, std::vector<Range> pages) {
  std::vector<FileSlice> slices;
  for (const Range range : pages) {
    file.residence.fetching(range);
    slices.push_back({file.id, range});
  }
  ++file.busy;
  is_asked = true;
  warming = std::move(pages);
  const Ticket ticket = tickets.issue({What::WarmWrite, file.name, {}, 0});
  ctx.out.warm(ticket, slices);
}

void Index::Impl::flush(Ctx& ctx, File& file, Range range) {
  ++file.busy;
  is_asked = true;
  const Ticket ticket = tickets.issue({What::Flush, file.name, range, 0});
  ctx.out.flush(ticket, file.id, range);
}

void Index::Impl::stall(Ctx& ctx, Error error) {
  SOMETIMES("store: the index waits for room on the disk", error.code == Errc::DiskFull);
  if (!blocked) ctx.trace.note(RoundBlocked{error.detail});
  blocked = std::move(error);
  retry_at = ctx.now.monotonic + kRetryInterval;
  ctx.timers.set(kRetryTimer, retry_at);
}

// --- a batch --------------------------------------------------------------------------------------------------------------------------------

// The file that takes the next entry, made when there is none; names count up where the clock does not.
Index::Impl::File& Index::Impl::writing_file(Ctx& ctx) {
  if (!files.empty() && !is_full(*files.back())) {
    // Times of entries count from the file's begin. What a power cut took with the log may have begun it later than what comes now, by a
    // clock that was set back since: such keys begin another file.
    const bool is_before = pending.front().stored < files.back()->header.begin_time && !MUTANT(IndexTimesBeforeBegin);
    SOMETIMES("store: an index file begins later than its next key", is_before);
    if (!is_before) return *files.back();
  }
  SOMETIMES("store: an index file is full", !files.empty());
  uint64_t name = 0;
  for (const char c : index_file_name(ctx.now.wall, ctx.now.zone_s)) name = name * 10 + static_cast<uint64_t>(c - '0');
  if (!files.empty()) name = std::max(name, files.back()->name + 1);
  files.push_back(std::make_unique<File>());
  files.back()->name = name;
  return *files.back();
}

void Index::Impl::drive(Ctx& ctx) {
  if (is_asked) return;
  if (retry_at != Monotonic::never() && ctx.now.monotonic < retry_at) return;
  retry_at = Monotonic::never();
  if (stage != Stage::Gathering || !removals.empty() || removals_out != 0) return;   // a rebuild's old files go first
  if (File* found = unsettled()) return settle(ctx, *found);
  if (pending_base < round_end && gather(ctx)) write_entries(ctx, *files.back());
}

bool Index::Impl::gather(Ctx& ctx) {
  File& file = writing_file(ctx);
  file.last_used = ctx.now.monotonic;
  if (file.is_mapping) return false;   // on_mapped goes on here
  if (!file.is_mapped) { map(ctx, file, What::MapWrite); return false; }
  const uint64_t slots_end = entry_at(0);
  if (!file.are_slots_prepared) {
    const uint64_t from = file.prepared_to;
    prepare(ctx, file, {from, std::min(from + limits::kIndexPrepareBytes, slots_end)});
    return false;
  }
  const uint64_t first = file.header.count;
  if (file.prepared_to < entry_at(first + 1)) {
    // The first entries of a life begin behind what stands there: an earlier life's bytes behind it become zero.
    const uint64_t from = std::max(file.prepared_to, entry_at(first));
    prepare(ctx, file, {from, std::min(from + limits::kIndexPrepareBytes, file_bytes())});
    return false;
  }
  batch = std::min({static_cast<size_t>(round_end - pending_base), kBatchKeysMax, static_cast<size_t>(options.entry_count - first),
                    static_cast<size_t>((file.prepared_to - entry_at(first)) / kIndexEntryBytes)});
  // The header, slots of the batch, and the pages of its entries after a pause, must be here; they stay until the batch is done.
  std::vector<Range> cold;
  const auto want = [&](Range range) {
    if (file.residence.covers(range, ctx.now.monotonic)) return;
    const Range pages = whole_pages(range, file_bytes());
    if (!cold.empty() && cold.back().end >= pages.begin) cold.back().end = std::max(cold.back().end, pages.end);
    else cold.push_back(pages);
  };
  std::vector<uint32_t> wanted;
  wanted.reserve(batch);
  for (size_t i = 0; i < batch; ++i) wanted.push_back(static_cast<uint32_t>(pending[i].hash % options.slot_count));
  std::sort(wanted.begin(), wanted.end());
  want({0, kIndexHeaderBytes});
  for (const uint32_t slot : wanted) want({slot_at(slot), slot_at(slot) + kIndexSlotBytes});
  if (cold.size() > kSlotRangesMax) cold = {{0, whole_pages({0, slots_end}, file_bytes()).end}};
  want({entry_at(first), entry_at(first + batch)});
  if (cold.empty()) return true;
  batch = 0;
  warm_to_write(ctx, file, std::move(cold));
  return false;
}

// What a start found is what the page cache held: a process that was killed may have left stores, a count among them, that no flush covers.
// All of it is made durable, and counted, before anything is built on it: a later power cut must not take back part of a file that others
// follow.
Index::Impl::File* Index::Impl::unsettled() {
  const auto it = std::find_if(files.begin(), files.end(), [](const auto& file) { return !file->is_settled && !file->is_forgotten; });
  return it == files.end() || MUTANT(IndexFoundNotSettled) ? nullptr : it->get();
}

void Index::Impl::settle(Ctx& ctx, File& file) {
  file.last_used = ctx.now.monotonic;
  if (file.is_mapping) return;   // on_mapped goes on here
  if (!file.is_mapped) return map(ctx, file, What::MapWrite);
  const Range header{0, kIndexHeaderBytes};
  if (!file.residence.covers(header, ctx.now.monotonic)) return warm_to_write(ctx, file, {whole_pages(header, file_bytes())});
  SOMETIMES("store: a start makes an index count durable that an earlier life left", file.header.count > file.durable_count);
  batch = 0;
  slots_taken = 0;
  stage = Stage::FlushingSlots;
  flush(ctx, file, {0, entry_at(file.header.count)});
}

// Which slots change, to what, and what each entry links to: entries of one slot form a chain, its old value last.
void Index::Impl::plan_slots(const File& file) {
  std::vector<std::pair<uint32_t, uint32_t>> order;   // slot, place in the batch
  order.reserve(batch);
  for (size_t i = 0; i < batch; ++i) order.emplace_back(static_cast<uint32_t>(pending[i].hash % options.slot_count), static_cast<uint32_t>(i));
  std::sort(order.begin(), order.end());
  previous.assign(batch, 0);
  slots.clear();
  for (const auto& [slot, place] : order) {
    const uint32_t number = file.header.count + place;
    if (slots.empty() || slots.back().slot != slot) {
      slots.push_back({slot, number});
    } else {
      previous[place] = slots.back().number;
      slots.back().number = number;
    }
  }
}

void Index::Impl::write_entries(Ctx& ctx, File& file) {
  MappedFile& mapped = ctx.files.at(file.id);
  plan_slots(file);
  slots_taken = 0;
  for (size_t i = 0; i < batch; ++i) {
    if (previous[i] != 0) continue;
    const uint64_t at = slot_at(pending[i].hash % options.slot_count);
    const uint32_t old = load_be<uint32_t>(mapped.view({at, at + kIndexSlotBytes}).data());
    previous[i] = old < file.header.count ? old : 0;   // a number out of range is an empty slot
    slots_taken += previous[i] == 0;
  }
  // Entry times are relative to the begin time: it must be known, and durable no later than they are (store.md FG-8).
  const bool is_first = file.header.begin_time.ms == 0;
  const Wall base = MUTANT(IndexBeginSetLate) ? file.header.begin_time : is_first ? pending[0].stored : file.header.begin_time;
  if (is_first) {
    file.header.begin_time = pending[0].stored;
    file.header.begin_at = pending[0].at;
    uint8_t bytes[kIndexHeaderBytes];
    encode_index_header(bytes, file.header);
    Writer(mapped.writable({0, 24})).bytes(Bytes(bytes).first(24));
  }
  if (MUTANT(IndexSlotBeforeEntry)) write_slots(ctx, file);
  const Range range{entry_at(file.header.count), entry_at(file.header.count + batch)};
  MutableBytes into = mapped.writable(range);
  for (size_t i = 0; i < batch; ++i) {
    const PendingKey& key = pending[i];
    const int64_t seconds = base.ms <= 0 ? 0 : std::clamp<int64_t>((key.stored.ms - base.ms) / 1000, 0, INT32_MAX);
    encode_index_entry(into.subspan(i * kIndexEntryBytes, kIndexEntryBytes), {key.hash, key.at, static_cast<int32_t>(seconds), previous[i]});
  }
  stage = Stage::FlushingEntries;
  flush(ctx, file, {is_first ? 0 : range.begin, range.end});
}

void Index::Impl::write_slots(Ctx& ctx, File& file) {
  MappedFile& mapped = ctx.files.at(file.id);
  for (const SlotWrite& write : slots) store_be(mapped.writable({slot_at(write.slot), slot_at(write.slot) + kIndexSlotBytes}).data(), write.number);
}

// The count last, and alone: what it covers is true whenever it is read.
void Index::Impl::write_header(Ctx& ctx, File& file) {
  file.header.used_slots += slots_taken;
  file.header.count += static_cast<uint32_t>(batch);
  for (size_t i = 0; i < batch; ++i) {
    file.header.end_time = std::max(file.header.end_time, pending[i].stored);
    file.header.end_at = std::max(file.header.end_at, pending[i].at);
  }
  MappedFile& mapped = ctx.files.at(file.id);
  uint8_t bytes[kIndexHeaderBytes];
  encode_index_header(bytes, file.header);
  Writer(mapped.writable({8, 32})).bytes(Bytes(bytes).subspan(8, 24));
  Writer(mapped.writable({32, 40})).bytes(Bytes(bytes).subspan(32, 8));
}

// --- removal and unmapping -----------------------------------------------------------------------------------------------------------------------

void Index::Impl::pump_removals(Ctx& ctx) {
  while (!removals.empty() && removals_out < static_cast<size_t>(limits::kQueueFilesBusyMax)) {
    if (retry_at != Monotonic::never() && ctx.now.monotonic < retry_at) return;
    ++removals_out;
    const Ticket ticket = tickets.issue({What::Remove, removals.front(), {}, 0});
    ctx.out.remove(ticket, path(removals.front()));
    removals.pop_front();
  }
}

// One that somebody still looks into waits: names of files are remembered by tickets.
void Index::Impl::pump_forgotten(Ctx& ctx) {
  if (!may_remove_forgotten || is_loading) return;
  std::erase_if(files, [&](const auto& file) {
    if (!file->is_forgotten || file->busy != 0 || !file->waiting.empty() || file->is_mapping) return false;
    if (file->is_mapped) unmap(ctx, *file);
    removals.push_back(file->name);
    SOMETIMES("store: an index file goes with the log", true);
    return true;
  });
}

// What was read and what was written goes a moment later; slots that this life prepared stay while the file is mapped.
void Index::Impl::cool_cold(Ctx& ctx, File& file) {
  for (const Range& cold : file.residence.take_cold(ctx.now.monotonic)) {
    const Range pages = inner_pages({cold.begin, std::min(cold.end, file_bytes())}, file_bytes());
    if (!pages.empty()) ctx.out.cool(file.id, pages);
  }
}

void Index::Impl::unmap(Ctx& ctx, File& file) {
  CHECK(file.busy == 0 && file.is_mapped);
  ctx.out.unmap(file.id);
  file.is_mapped = false;
  file.residence = {};
}

void Index::Impl::pump_sweep(Ctx& ctx) {
  const bool has_mapped = std::any_of(files.begin(), files.end(), [](const auto& file) { return file->is_mapped; });
  if (!has_mapped && walks.empty()) return;
  if (sweep_at == Monotonic::never()) {
    sweep_at = ctx.now.monotonic + limits::kQueueIdle;
    ctx.timers.set(kSweepTimer, sweep_at);
  }
  if (ctx.now.monotonic < sweep_at) return;
  sweep_at = ctx.now.monotonic + limits::kQueueIdle;
  ctx.timers.set(kSweepTimer, sweep_at);
  for (auto& file : files) {
    if (!file->is_mapped || (stage != Stage::Gathering && (file == files.back() || file->busy != 0))) continue;   // the writer is about to store
    cool_cold(ctx, *file);
    if (file->busy == 0 && file->last_used + limits::kQueueIdle <= ctx.now.monotonic)
      unmap(ctx, *file);
  }
  // Whoever asked has gone away.
  std::erase_if(walks, [&](const auto& each) { return each.second.last_used + limits::kQueueIdle <= ctx.now.monotonic; });
}

// --- answers ----------------------------------------------------------------------------------------------------------------------------------------

void Index::Impl::on_mapped(Ctx& ctx, const Mapped& mapped) {
  const InFlight flight = tickets.redeem(mapped.ticket);
  File* file = find(flight.name);
  CHECK(file != nullptr);
  --file->busy;
  file->is_mapping = false;
  ready.insert(ready.end(), file->waiting.begin(), file->waiting.end());
  if (flight.what == What::MapWrite) is_asked = false;
  if (mapped.file) {
    file->id = *mapped.file;
    file->is_mapped = file->is_made = true;
    file->last_used = ctx.now.monotonic;
    file->waiting.clear();
    if (flight.what == What::MapWrite) blocked.reset();
    return is_loading ? advance_load(ctx) : drive(ctx);
  }
  if (is_loading) {
    ctx.trace.note(IndexUnreadable{file->name, 0, file_bytes()});
    must_rebuild = true;
    return end_load(ctx);
  }
  if (flight.what == What::MapWrite) {
    file->waiting.clear();
    return stall(ctx, mapped.file.error());
  }
  ctx.trace.note(IndexUnreadable{file->name, 0, file_bytes()});
  for (const uint64_t token : std::exchange(file->waiting, {}))
    if (const auto it = walks.find(token); it != walks.end()) it->second.leave(file->name);
  drive(ctx);
}

void Index::Impl::on_done(Ctx& ctx, const Done& done) {
  const InFlight flight = tickets.redeem(done.ticket);
  if (flight.what == What::Remove) {
    --removals_out;
    if (!done.outcome) {
      removals.push_back(flight.name);
      stall(ctx, done.outcome.error());
    } else if (removals.empty() && removals_out == 0) {
      blocked.reset();
    }
    return is_loading ? advance_load(ctx) : drive(ctx);
  }
  File* file = find(flight.name);
  CHECK(file != nullptr);
  --file->busy;
  if (flight.what == What::WarmRead) {
    ready.push_back(flight.token);
    file->residence.fetched(flight.range, done.outcome.has_value(), ctx.now.monotonic);
    if (done.outcome) return;
    // The rest of this chain is lost; older files may still know more.
    SOMETIMES("store: a query meets an unreadable page of the index", true);
    ctx.trace.note(IndexUnreadable{file->name, flight.range.begin, flight.range.end});
    if (const auto it = walks.find(flight.token); it != walks.end()) it->second.leave(file->name);
    return;
  }
  is_asked = false;
  if (flight.what == What::WarmWrite)
    for (const Range range : warming) file->residence.fetched(range, done.outcome.has_value(), ctx.now.monotonic);
  if (flight.what == What::Flush) {
    if (!done.outcome)
      return ctx.out.halt(Errc::FlushFailed, fmt::format("index file {} could not be flushed: {}", path(file->name), done.outcome.error().text()));
    return flushed(ctx, *file, flight.range);
  }
  if (!done.outcome) {
    if (is_loading) {
      ctx.trace.note(IndexUnreadable{file->name, 0, file_bytes()});
      must_rebuild = true;
      return end_load(ctx);
    }
    return stall(ctx, done.outcome.error());
  }
  if (flight.what == What::Prepare) {
    blocked.reset();
    file->prepared_to = flight.range.end;
    file->residence.own(flight.range);
    if (flight.range.end == entry_at(0)) file->are_slots_prepared = true;
  }
  return is_loading ? advance_load(ctx) : drive(ctx);
}

void Index::Impl::flushed(Ctx& ctx, File& file, Range range) {
  switch (stage) {
    case Stage::Gathering: return;
    case Stage::FlushingEntries: {
      const uint64_t page = limits::kPageBytes;
      // Full pages behind the writer; the one that slots and entries share stays.
      const Range done{std::max(std::max(range.begin, entry_at(file.header.count)) / page, (entry_at(0) + page - 1) / page) * page, range.end / page * page};
      write_slots(ctx, file);
      stage = Stage::FlushingSlots;
      flush(ctx, file, {slot_at(slots.front().slot), slot_at(slots.back().slot) + kIndexSlotBytes});
      file.residence.release(done, ctx.now.monotonic);
      return;
    }
    case Stage::FlushingSlots:
      write_header(ctx, file);
      stage = Stage::FlushingHeader;
      return flush(ctx, file, {0, kIndexHeaderBytes});
    case Stage::FlushingHeader:
      file.durable_count = file.header.count;
      file.is_settled = true;
      pop(batch);
      batch = 0;
      stage = Stage::Gathering;
      cool_cold(ctx, file);
      return drive(ctx);
  }
}

}  // namespace fulmar
