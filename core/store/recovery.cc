#include "core/store/record_search.h"
#include "core/store/recovery.h"

#include <algorithm>
#include <cstring>

#include "core/base/marks.h"
#include "core/store/owners.h"

namespace fulmar {

namespace {

constexpr size_t kAheadKept = 4;   // as many as a writer and retention leave ahead

struct RecoveryStartedEvent {
  FULMAR_EVENT(RecoveryStarted, Info, "recovering: log [{}, {}) in {} files, flushed to {}, derived to {}, {}");
  uint64_t begin, limit, files, flushed, derived;
  std::string_view how;
  auto values() const { return std::array{begin, limit, files, flushed, derived}; }
  std::string_view text() const { return how; }
};
struct TornTailEvent {
  FULMAR_EVENT(TornTail, Warning, "the log is cut at {}: records up to {} were written and never known to be flushed; first bad place: {}");
  uint64_t end, last;
  std::string_view why;
  auto values() const { return std::array{end, last}; }
  std::string_view text() const { return why; }
};
struct PossibleLossEvent {
  FULMAR_EVENT(PossibleLoss, Warning, "ASYNC_FLUSH: anything lost by the crash lies in log bytes [{}, {})");
  uint64_t begin, end;
  auto values() const { return std::array{begin, end}; }
};
struct RotFoundEvent {
  FULMAR_EVENT(RotFound, Error, "log bytes [{}, {}) are damaged although they were flushed; the rest is readable, writes are refused: {}");
  uint64_t begin, end;
  std::string_view why;
  auto values() const { return std::array{begin, end}; }
  std::string_view text() const { return why; }
};
struct StrayFileEvent {
  FULMAR_EVENT(StrayFile, Warning, "ignoring {}");
  std::string_view path;
  auto values() const { return std::array<uint64_t, 0>{}; }
  std::string_view text() const { return path; }
};
struct RecoveryStageEvent {
  FULMAR_EVENT(RecoveryStage, Debug, "recovery stage {}");
  uint64_t stage;
  auto values() const { return std::array{stage}; }
};

// "commitlog/0000…" -> "0000…" when the path lies directly in that directory.
std::optional<std::string_view> name_in(std::string_view directory, std::string_view path) {
  if (!path.starts_with(directory) || path.size() <= directory.size() || path[directory.size()] != '/') return std::nullopt;
  const std::string_view name = path.substr(directory.size() + 1);
  if (name.find('/') != std::string_view::npos) return std::nullopt;
  return name;
}

}  // namespace

Recovery::Recovery(Store& store) : store_(store), tickets_(owner::kRecovery), root_(store.config_.store_path) {}

void Recovery::enter(Ctx& ctx, Stage stage) {
  CHECK(stage > stage_, "recovery goes forward only: {} after {}", static_cast<int>(stage), static_cast<int>(stage_));
  stage_ = stage;
  out_ = 0;
  is_waiting_ = false;
  window_begin_ = window_end_ = 0;
  ctx.trace.note(RecoveryStageEvent{static_cast<uint64_t>(stage)});
  ctx.out.step_again();
}

void Recovery::refuse(Ctx& ctx, Errc code, std::string sentence) {
  if (code == Errc::DiskFull) sentence += fmt::format("; the disk under {} is full: free some room there, or choose another place (storePathRootDir, --store)", root_);
  ctx.out.halt(code, std::move(sentence));
}

void Recovery::report_rot(Ctx& ctx, Range hole, std::string_view why) { ctx.trace.note(RotFoundEvent{hole.begin, hole.end, why}); }

std::string Recovery::progress() const {
  if (stage_ == Stage::Scanning || stage_ == Stage::Searching) return fmt::format("scanning the log at byte {} of {}", at_, store_.log_.files().limit());
  if (stage_ == Stage::CatchingUp) return fmt::format("rebuilding queues at byte {} of {}", store_.watermarks_.dispatched, end_);
  if (stage_ == Stage::Folding) return "reading topics and offsets";
  return fmt::format("stage {}", static_cast<int>(stage_));
}

void Recovery::start(Ctx& ctx) { ctx.out.list(tickets_.issue(0), root_); }

void Recovery::on_listed(Ctx& ctx, const Listed& listed) {
  (void)tickets_.redeem(listed.ticket);
  if (!listed.files) return refuse(ctx, listed.files.error().code, fmt::format("cannot list the store directory {}: {}", root_, listed.files.error().text()));
  std::vector<FileEntry> files = *listed.files, log_files;
  // The driver lists in any order; we walk in name order.
  std::sort(files.begin(), files.end(), [](const FileEntry& a, const FileEntry& b) { return a.path < b.path; });
  for (FileEntry& entry : files) {
    if (entry.is_directory) continue;
    if (entry.path == "checkpoint") {
      has_checkpoint_file_ = entry.size_bytes == Checkpoint::kFileBytes;
      if (!has_checkpoint_file_) {  // a crash while it was made: it holds nothing yet
        ++out_;
        ctx.out.remove(tickets_.issue(0), root_ + "/checkpoint");
      }
    } else if (entry.path == "abort") {
      has_abort_ = true;
    } else if (name_in("commitlog", entry.path)) {
      log_files.push_back(entry);
    } else if (entry.path == QueueTable::kName) {
      has_table_file_ = true;
    } else if (entry.path.starts_with("consumequeue/")) {
      entry.path.erase(0, std::strlen("consumequeue/"));
      if (entry.size_bytes == 0 && ConsumeQueues::is_queue_file(entry.path)) {   // its creation was cut short: as good as never made
        SOMETIMES("store: an unfinished queue file is removed at start", true);
        ++out_;
        ctx.out.remove(tickets_.issue(0), root_ + "/consumequeue/" + entry.path);
        continue;
      }
      queue_files_.push_back(entry);
    } else if (entry.path.starts_with("index/")) {
      entry.path.erase(0, std::strlen("index/"));
      index_files_.push_back(entry);
    }
  }
  adopt_log(ctx, std::move(log_files));
  if (ctx.out.halted() != nullptr) return;
  const int removals = out_;
  enter(ctx, Stage::Opening);
  out_ = removals;
}

void Recovery::adopt_log(Ctx& ctx, std::vector<FileEntry> entries) {
  FileSequence& files = store_.log_.files();
  for (size_t i = 0; i < entries.size(); ++i) {
    const std::optional<uint64_t> start = parse_segment_name(*name_in("commitlog", entries[i].path));
    if (!start) {
      ctx.trace.note(StrayFileEvent{entries[i].path});
      continue;
    }
    // A name is durable only together with its length, so an empty file is one that a crash kept from being finished: the newest.
    const bool is_last = i + 1 == entries.size();
    if (entries[i].size_bytes == 0 && is_last) {
      SOMETIMES("store: an unfinished segment is removed at start", true);
      ++out_;
      ctx.out.remove(tickets_.issue(0), root_ + "/" + entries[i].path);
      continue;
    }
    if (entries[i].size_bytes == 0 || (!files.files().empty() && files.limit() != *start))
      return refuse(ctx, Errc::StoreDamaged, fmt::format("the commit log has a gap: a file ends at byte {}, the next is {} with {} bytes; restore the missing file or "
                                                         "move the files behind the gap away", files.limit(), entries[i].path, entries[i].size_bytes));
    files.adopt(*start, entries[i].size_bytes);
  }
  if (files.files().empty()) files.begin_at(0);
}

void Recovery::on_done(Ctx& ctx, const Done& done) {
  (void)tickets_.redeem(done.ticket);
  if (!done.outcome) {
    if (done.outcome.error().code == Errc::FlushFailed) return refuse(ctx, Errc::FlushFailed, fmt::format("flush during recovery failed: {}", done.outcome.error().text()));
    if (stage_ == Stage::Marking || stage_ == Stage::Zeroing) {
      // A full disk must not keep an operator from starting: try again.
      SOMETIMES("store: recovery finds the disk full", true);
      if (done.outcome.error().code == Errc::DiskFull && stage_ == Stage::Marking && has_abort_) {
        SOMETIMES("store: the marker of an earlier life serves a start on a full disk", true);
        --out_;   // it says the same, and reading must not wait for room
        return;
      }
      if (done.outcome.error().code == Errc::DiskFull) {
        ctx.timers.set(TimerId(uint64_t{owner::kRecovery} << 56), ctx.now.monotonic + Duration::seconds(1));
        is_waiting_ = true;
        is_marked_ = false;
        if (stage_ == Stage::Zeroing) at_ = zeroed_to_;
        --out_;
        return;
      }
    }
    return refuse(ctx, done.outcome.error().code, fmt::format("recovery of {}: {}", root_, done.outcome.error().text()));
  }
  --out_;
}

void Recovery::on_timer(Ctx& ctx) {
  is_waiting_ = false;
  ctx.out.step_again();
}

void Recovery::on_warmed(Ctx& ctx, const Warmed& warmed) {
  is_waiting_ = false;
  is_fold_waiting_ = false;
  // A page that the medium does not give back is damage; that there is no memory or no descriptor for the file says nothing about it.
  if (!warmed.outcome && warmed.outcome.error().code != Errc::Unreadable && warmed.outcome.error().code != Errc::OutOfRange)
    return refuse(ctx, warmed.outcome.error().code, fmt::format("cannot read the commit log under {}: {}", root_, warmed.outcome.error().text()));
  if (!warmed.outcome) is_unreadable_ = true;
  ctx.out.step_again();
}

void Recovery::pump(Ctx& ctx) {
  if (ctx.out.halted() != nullptr) return;
  switch (stage_) {
    case Stage::Listing: return;
    case Stage::Opening: return open(ctx);
    case Stage::Marking: return mark(ctx);
    case Stage::Scanning: return scan(ctx);
    case Stage::Searching: return search(ctx);
    case Stage::Cutting: return cut(ctx);
    case Stage::Zeroing: return zero(ctx);
    case Stage::StoringAgain: return store_again(ctx);
    case Stage::Flushing: return flush_found(ctx);
    case Stage::Stamping: return stamp(ctx);
    case Stage::Loading: return load(ctx);
    case Stage::Folding: return fold(ctx);
    case Stage::CatchingUp: return catch_up(ctx);
    case Stage::Importing: return import(ctx);
    case Stage::Done: return;
  }
}

void Recovery::open(Ctx& ctx) {
  if (out_ > 0) return;  // removals
  Checkpoint& checkpoint = store_.checkpoint_;
  if (!is_waiting_) {
    is_waiting_ = true;
    checkpoint.open(ctx, has_checkpoint_file_);
    store_.queue_table_.read(ctx, has_table_file_);
    return;
  }
  if (checkpoint.error()) {
    if (checkpoint.error()->code == Errc::StoreVersion) return refuse(ctx, Errc::StoreVersion, checkpoint.error()->detail);
    return refuse(ctx, checkpoint.error()->code, fmt::format("cannot open {}/checkpoint: {}", root_, checkpoint.error()->text()));
  }
  if (!checkpoint.is_open() || !store_.queue_table_.is_read()) return;
  FileSequence& files = store_.log_.files();
  const std::optional<CheckpointState>& found = checkpoint.found();
  // What retention had let go when the process died: durable, and told to everybody. Oldest first, or a crash would leave a gap.
  if (found && files.files().size() > 1 && files.file(0).end() <= found->log_begin.value()) {
    SOMETIMES("store: a start removes what retention had let go", true);
    ++out_;
    ctx.out.remove(tickets_.issue(0), files.drop_front());
    return;
  }
  is_clean_ = found && found->is_clean;
  needs_crc_ = found && found->has_crc;
  SOMETIMES("store: start after a clean stop", is_clean_);
  SOMETIMES("store: start without a checkpoint", !found && !files.files().empty());
  store_.watermarks_.begin = PhysicalOffset(files.begin());
  from_ = files.begin();
  search_end_ = files.limit();
  if (found) {
    store_.log_.raise_stamp(found->newest_stamp);
    from_ = std::max(from_, found->flushed.value());
    search_end_ = std::min(search_end_, found->append_limit.value());
  }
  ctx.trace.note(RecoveryStartedEvent{files.begin(), files.limit(), files.files().size(), from_, found ? found->derived.value() : 0,
                                      is_clean_ ? "after a clean stop" : found ? "after a crash" : "without a checkpoint"});
  begin_scan(ctx);
}

void Recovery::begin_scan(Ctx& ctx) {
  at_ = from_;
  if (from_ <= store_.log_.files().limit()) return enter(ctx, Stage::Scanning);
  // Files that were flushed are gone or shorter: nothing to cut, and nothing to write behind.
  end_ = store_.log_.files().limit();
  is_damaged_ = true;
  store_.holes_.push_back({end_, from_});
  report_rot(ctx, {end_, from_}, "the files end before the flushed offset");
  store_.watermarks_.appended = store_.watermarks_.flushed = PhysicalOffset(end_);
  enter(ctx, Stage::Loading);
}

// Dispatch met damage below the end: what was flushed long ago is read again only where something derived is built anew. From here on the
// store is read-only; the marker goes, or the next start without a checkpoint would take the hole for a torn tail.
void Recovery::on_damage(Ctx& ctx, Range hole, std::string_view why) {
  report_rot(ctx, hole, why);
  store_.holes_.insert(std::upper_bound(store_.holes_.begin(), store_.holes_.end(), hole, [](const Range& a, const Range& b) { return a.begin < b.begin; }), hole);
  if (std::exchange(is_damaged_, true) || !is_marked_) return;
  ctx.out.remove(tickets_.issue(0), root_ + "/abort");
  ++out_;
}

// The marker that tells the next start, and RocketMQ's, that this one did not stop cleanly: durable before anything changes. A damaged
// store changes nothing and gets none: taken for the trace of a crash, the marker would let the next start cut at the hole.
void Recovery::mark(Ctx& ctx) {
  if (is_waiting_ || out_ > 0) return;
  if (is_marked_) return enter(ctx, Stage::Cutting);
  is_marked_ = true;
  ++out_;
  const std::string text = fmt::format("{}\n", ctx.now.wall.ms);
  ctx.out.replace(tickets_.issue(0), root_ + "/abort", as_bytes(text));
}

Bytes Recovery::window(Ctx& ctx, uint64_t at, uint64_t bytes_wanted) {
  if (is_waiting_) return {};
  CommitLog& log = store_.log_;
  const uint64_t file_end = log.file_end(PhysicalOffset(at)).value();
  if (window_begin_ <= at && at < window_end_ && (at + bytes_wanted <= window_end_ || window_end_ == file_end)) {
    const uint64_t bytes = std::min(window_end_, file_end) - at;
    if (log.readiness(PhysicalOffset(at), bytes, ctx.now.monotonic) == CommitLog::Readiness::Ready) return log.view(ctx, PhysicalOffset(at), bytes);
  }
  const uint64_t bytes = std::min(std::max(bytes_wanted, limits::kRecoveryWindowBytes), file_end - at);
  if (log.readiness(PhysicalOffset(at), bytes, ctx.now.monotonic) == CommitLog::Readiness::Ready) {
    window_begin_ = at;
    window_end_ = at + bytes;
    return log.view(ctx, PhysicalOffset(at), bytes);
  }
  window_begin_ = at;
  window_end_ = at + bytes;
  is_waiting_ = true;
  log.warm(ctx, PhysicalOffset(at), bytes, {WarmFor::Recovery, 0});
  return {};
}

void Recovery::scan(Ctx& ctx) {
  uint64_t wanted = kFillerBytes;
  const uint64_t limit = store_.log_.files().limit();
  if (MUTANT(RecoverySkipsTail) && !is_clean_) return end_scan(ctx, "skipped");
  while (at_ < limit) {
    if (is_unreadable_) return end_scan(ctx, "the page cannot be read");
    const Bytes bytes = window(ctx, at_, wanted);
    if (bytes.empty()) return;
    const uint64_t file_end = store_.log_.file_end(PhysicalOffset(at_)).value();
    const ParsedRecord parsed = parse_record(bytes, PhysicalOffset(at_), Verify::Checksums);
    if (parsed.kind == RecordKind::Message && lacks_crc(parsed)) return end_scan(ctx, "the record's checksum is missing");
    if (parsed.kind == RecordKind::Message) {
      store_.log_.raise_stamp(parsed.record.place.stored);
      at_ += parsed.bytes;
      wanted = kFillerBytes;
    } else if (parsed.kind == RecordKind::Filler) {
      if (at_ + parsed.bytes != file_end) return end_scan(ctx, "filler length");
      // A filler has no place of its own to be told by: what stands behind the limit was never stored here.
      if (store_.checkpoint_.found() && at_ >= search_end_ && at_ > from_) return end_scan(ctx, "a filler behind the append limit");
      at_ = file_end;
    } else if (parsed.is_cut_short && at_ + bytes.size() < file_end && parsed.bytes <= file_end - at_) {
      wanted = std::max<uint64_t>(parsed.bytes, kFillerBytes);
    } else {
      return end_scan(ctx, parsed.kind == RecordKind::Nothing ? "nothing" : parsed.why);
    }
  }
  end_scan(ctx, "end of files");
}

// The checksum stands at the end of a record, behind everything that it protects but the body: a torn record may have lost both the end of
// its properties and the checksum that would tell. Where the life that wrote it gave one to every record, one without is torn.
bool Recovery::lacks_crc(const ParsedRecord& parsed) const {
  SOMETIMES("store: a torn record has lost its checksum", needs_crc_ && !parsed.record.has_crc_property);
  return needs_crc_ && !parsed.record.has_crc_property && !MUTANT(MissingChecksumAccepted);
}

void Recovery::end_scan(Ctx& ctx, const char* why) {
  end_ = at_;
  why_ = why;
  if (is_unreadable_) {
    is_unreadable_ = false;
    is_damaged_ = true;
    store_.holes_.push_back({end_, store_.log_.files().limit()});
    report_rot(ctx, {end_, store_.log_.files().limit()}, why);
    store_.watermarks_.appended = store_.watermarks_.flushed = PhysicalOffset(end_);
    return enter(ctx, Stage::Loading);
  }
  at_ = end_ + 1;
  enter(ctx, Stage::Searching);
}

// Looks for good records behind the end: by magic, then by place and checksum. What is found is jumped over.
void Recovery::search(Ctx& ctx) {
  uint64_t wanted = kRecordBytesMin;
  while (at_ + kRecordBytesMin <= search_end_) {
    if (is_unreadable_) {
      is_unreadable_ = false;
      at_ = std::min(search_end_, window_end_);
      continue;
    }
    const uint64_t file_end = store_.log_.file_end(PhysicalOffset(at_)).value();
    if (at_ + kRecordBytesMin > file_end) {
      at_ = file_end;
      wanted = kRecordBytesMin;
      continue;
    }
    const Bytes bytes = window(ctx, at_, wanted);
    if (bytes.empty()) return;
    const SearchStep step = search_window(bytes, at_, file_end);
    const bool is_good = step.is_found && !lacks_crc(step.parsed) && step.at + step.parsed.bytes <= std::max(search_end_, file_end);
    if (is_good) {
      if (last_good_end_ == 0) first_good_ = step.at;
      last_good_end_ = step.at + step.parsed.bytes;
    }
    at_ = is_good ? last_good_end_ : step.is_found ? step.at + 1 : step.at;
    wanted = step.is_found ? kRecordBytesMin : step.wanted;
  }
  judge(ctx);
}

void Recovery::judge(Ctx& ctx) {
  const bool has_checkpoint = store_.checkpoint_.found().has_value();
  // With a checkpoint nothing was stored at or behind its append limit, so whatever lies behind b was never known to be flushed. Without
  // one, the bound on unflushed bytes decides; and after a stop that left no marker nothing may be torn at all.
  bool is_rot = last_good_end_ != 0 && !has_checkpoint && (last_good_end_ - end_ > store_.config_.async_unflushed_bytes_max || !has_abort_);
  if (MUTANT(TornTailTakenForRot)) is_rot = last_good_end_ != 0;
  if (MUTANT(RotTakenForTornTail)) is_rot = false;
  SOMETIMES("store: recovery finds a torn tail", last_good_end_ != 0 && !is_rot);
  SOMETIMES("store: recovery finds rot", is_rot);
  if (is_rot) {
    is_damaged_ = true;
    store_.holes_.push_back({end_, first_good_});
    report_rot(ctx, {end_, first_good_}, why_);
    // What follows the hole is scanned like the rest; each further hole is one of its own.
    at_ = first_good_;
    last_good_end_ = 0;
    stage_ = Stage::Opening;  // back to scanning: the only edge that goes back, once per hole
    return enter(ctx, Stage::Scanning);
  }
  if (last_good_end_ != 0) ctx.trace.note(TornTailEvent{end_, last_good_end_, why_});
  if (!is_clean_ && store_.config_.flush_disk_type == FlushDiskType::Async && has_checkpoint && end_ < search_end_)
    ctx.trace.note(PossibleLossEvent{end_, search_end_});
  store_.watermarks_.appended = PhysicalOffset(end_);
  if (is_damaged_) {
    store_.watermarks_.flushed = PhysicalOffset(end_);
    return enter(ctx, Stage::Loading);
  }
  enter(ctx, Stage::Marking);
}

// Files that lie wholly behind the end go away, durably, before anything is appended; the newest first and one by one, so that a crash in
// between leaves no gap.
void Recovery::cut(Ctx& ctx) {
  if (out_ > 0) return;
  if (!is_waiting_) {
    is_waiting_ = true;
    FileSequence& files = store_.log_.files();
    // Where no good record stands in them they hold what was never written in this place: they are what the writer needs next.
    uint64_t from = end_;
    for (size_t kept = 0; kept < kAheadKept; ++kept) {
      const auto next = std::find_if(files.files().begin(), files.files().end(), [&](const auto& file) { return file.start >= from; });
      if (next == files.files().end() || last_good_end_ > next->start) break;
      SOMETIMES("store: a start keeps a segment that lies ahead", true);
      from = next->end();
    }
    to_remove_ = files.drop_files_from(ctx, from);
  }
  if (!to_remove_.empty()) {
    SOMETIMES("store: recovery removes a segment behind the cut", true);
    ++out_;
    ctx.out.remove(tickets_.issue(0), to_remove_.front());
    to_remove_.erase(to_remove_.begin());
    return;
  }
  at_ = end_;
  enter(ctx, Stage::Zeroing);
}

// Old records behind the cut have the right place and a right checksum: they must be gone before new ones come.
void Recovery::zero(Ctx& ctx) {
  if (out_ > 0 || is_waiting_) return;
  const FileSequence& files = store_.log_.files();
  const uint64_t to = MUTANT(TornTailNotZeroed) ? 0 : std::min(last_good_end_, files.limit());
  if (at_ >= to || !files.find(at_)) {
    at_ = from_;
    return enter(ctx, Stage::StoringAgain);
  }
  const FileSequence::File& file = files.file(*files.find(at_));
  if (file.state != FileSequence::File::State::Mapped) {  // dropped and kept files alike were mapped by the scan or the search
    is_waiting_ = true;
    store_.log_.warm(ctx, PhysicalOffset(at_), 1, {WarmFor::Recovery, 0});
    return;
  }
  const uint64_t until = std::min({to, file.end(), at_ + limits::kPrepareStepBytes});
  zeroed_to_ = at_;
  ++out_;
  ctx.out.prepare(tickets_.issue(0), file.id, {at_ - file.start, until - file.start});
  at_ = until;
}

void Recovery::store_again(Ctx& ctx) {
  if (is_clean_ || MUTANT(RecoveredNotStoredAgain)) return enter(ctx, Stage::Flushing);
  while (at_ < end_) {
    CHECK(!is_unreadable_ || is_waiting_, "a page that was read a moment ago at {}", at_);
    const uint64_t file_end = store_.log_.file_end(PhysicalOffset(at_)).value();
    const uint64_t bytes = std::min({limits::kRecoveryWindowBytes, end_ - at_, file_end - at_});
    const Bytes seen = window(ctx, at_, bytes);
    if (seen.empty()) return;
    const std::vector<uint8_t> copy(seen.begin(), seen.begin() + static_cast<ptrdiff_t>(bytes));
    const FileSlice slice = store_.log_.slice(ctx, PhysicalOffset(at_), bytes);
    const MutableBytes into = ctx.files.at(slice.file).writable(slice.range);
    std::memcpy(into.data(), copy.data(), copy.size());
    at_ += bytes;
    SOMETIMES("store: recovery stores found records again", true);
  }
  enter(ctx, Stage::Flushing);
}

void Recovery::flush_found(Ctx& ctx) {
  if (out_ > 0) return;
  if (!is_waiting_ && !is_clean_ && from_ < end_ && !MUTANT(RecoveredNotFlushed)) {
    is_waiting_ = true;
    const FileSequence& files = store_.log_.files();
    for (uint64_t at = from_; at < end_;) {
      const FileSequence::File& file = files.file(*files.find(at));
      const uint64_t to = std::min(end_, file.end());
      ++out_;
      ctx.out.flush(tickets_.issue(0), file.id, {at - file.start, to - file.start});
      at = to;
    }
    return;
  }
  store_.flusher_.begin_at(PhysicalOffset(end_));
  store_.watermarks_.confirmed = PhysicalOffset(end_);
  enter(ctx, Stage::Stamping);
}

// The new append limit is durable before the first append.
void Recovery::stamp(Ctx& ctx) {
  Checkpoint& checkpoint = store_.checkpoint_;
  if (checkpoint.is_writing()) return;
  if (!is_waiting_) {
    is_waiting_ = true;
    // What was derived is bounded by what is left of the log.
    if (checkpoint.found() && checkpoint.found()->derived.value() <= end_)
      store_.durable_round_ = {checkpoint.found()->derived, checkpoint.found()->queue_entries, checkpoint.found()->index_entries, checkpoint.found()->logics_msg};
    else
      store_.durable_round_ = {store_.watermarks_.begin, 0, 0, {}};
    checkpoint.write(ctx, store_.checkpoint_state(false));
    return;
  }
  store_.log_.set_append_limit(checkpoint.durable().append_limit);
  store_.log_.begin_writing(PhysicalOffset(end_));
  store_.retention_.begin(ctx);
  enter(ctx, Stage::Loading);
}

}  // namespace fulmar
