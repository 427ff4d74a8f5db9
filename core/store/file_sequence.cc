#include "core/store/file_sequence.h"

#include <algorithm>
#include <charconv>

#include "core/base/marks.h"

namespace fulmar {

namespace {

struct SegmentMappedEvent {
  FULMAR_EVENT(SegmentMapped, Debug, "segment {} of {} bytes mapped in {}");
  uint64_t start, size;
  std::string_view directory;
  auto values() const { return std::array{start, size}; }
  std::string_view text() const { return directory; }
};
struct PrepareBlockedEvent {
  FULMAR_EVENT(PrepareBlocked, Warning, "no place for the log behind {}: {}");
  uint64_t at;
  std::string_view why;
  auto values() const { return std::array{at}; }
  std::string_view text() const { return why; }
};
struct PrepareResumedEvent {
  FULMAR_EVENT(PrepareResumed, Info, "the log grows again behind {}");
  uint64_t at;
  auto values() const { return std::array{at}; }
};

struct SegmentLeavesEvent {
  FULMAR_EVENT(SegmentLeaves, Info, "segment {} of {} bytes is gone ({})");
  uint64_t start, size;
  std::string_view how;
  auto values() const { return std::array{start, size}; }
  std::string_view text() const { return how; }
};
struct SegmentStaysEvent {
  FULMAR_EVENT(SegmentStays, Warning, "segment {} cannot be removed now, tried again every second: {}");
  uint64_t start;
  std::string_view why;
  auto values() const { return std::array{start}; }
  std::string_view text() const { return why; }
};

constexpr Duration kRetry = Duration::seconds(1);
constexpr uint64_t kStepsTogetherMax = 8, kDurableStepsTogetherMax = 2;   // of kPrepareStepBytes

}  // namespace

std::string segment_name(uint64_t start) { return fmt::format("{:020}", start); }

std::optional<uint64_t> parse_segment_name(std::string_view name) {
  if (name.size() != 20) return std::nullopt;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), value);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return value;
}

std::string FileSequence::path(size_t index) const { return options_.directory + "/" + segment_name(files_[index].start); }

void FileSequence::adopt(uint64_t start, uint64_t size) {
  CHECK(files_.empty() || files_.back().end() == start, "gap before {}", start);
  files_.push_back({start, size, FileId(), File::State::Unmapped});
}

void FileSequence::map_existing(Ctx& ctx, size_t index) {
  File& file = files_[index];
  CHECK(file.state == File::State::Unmapped);
  file.state = File::State::Mapping;
  ctx.out.map(tickets_.issue({InFlight::What::MapExisting, file.start, 0}), path(index), file.size, Open::Existing);
}

void FileSequence::begin_writing(uint64_t end) {
  prepared_to_ = end;
  is_writing_ = true;
  rate_end_ = end;
}

std::optional<size_t> FileSequence::search(uint64_t offset) const {
  const auto after = std::upper_bound(files_.begin(), files_.end(), offset, [](uint64_t o, const File& f) { return o < f.start; });
  if (after == files_.begin()) return std::nullopt;
  const size_t index = static_cast<size_t>(after - files_.begin()) - 1;
  if (offset >= files_[index].end()) return std::nullopt;
  return last_found_ = index;
}

// The faster the writer, the further ahead: about a quarter of a second of what the last second brought.
uint64_t FileSequence::ahead_wanted(Ctx& ctx, uint64_t end) {
  const Duration passed = ctx.now.monotonic - rate_at_;
  if (passed >= Duration::seconds(1)) {
    rate_bytes_ = passed >= Duration::seconds(2) ? 0 : end - rate_end_;
    rate_end_ = end;
    rate_at_ = ctx.now.monotonic;
  } else {
    rate_bytes_ = std::max(rate_bytes_, end - rate_end_);
  }
  const uint64_t least = rate_end_ == end && rate_bytes_ == 0 ? limits::kPrepareAheadMin : limits::kPrepareAheadIdle;
  // Never more than two files: with small segments a fixed distance would be dozens of them.
  // A burst is followed at once: one turn of a busy loop appends megabytes.
  return std::min({options_.ahead_max, std::max({least, rate_bytes_ / 4, end - rate_end_}), 2 * options_.file_bytes});
}

bool FileSequence::make_next(Ctx& ctx) {
  const uint64_t start = limit();
  if (renaming_to_ == start && leaving_) return false;
  files_.push_back({start, options_.file_bytes, FileId(), File::State::Mapping});
  is_making_ = true;
  ctx.out.map(tickets_.issue({InFlight::What::MapNew, start, 0}), path(files_.size() - 1), options_.file_bytes, Open::New);
  return true;
}

void FileSequence::pump(Ctx& ctx, uint64_t end) {
  // Also when the new file could not be made: then the one that goes takes its name.
  if (is_leave_waiting_ && !is_making_) dispose(ctx, true);
  if (!is_writing_ || blocked_) return;
  // A file takes a while to be made, and a writer at full speed does not wait: the next one is there once half of this one is full.
  if (!is_making_ && !files_.empty() && limit() > prepared_to_ && limit() - end <= options_.file_bytes / 2) (void)make_next(ctx);
  const uint64_t wanted = end + ahead_wanted(ctx, end);
  if (is_advancing_ || prepared_to_ >= wanted) return;
  const std::optional<size_t> index = find(prepared_to_);
  if (!index) {
    CHECK(prepared_to_ == limit(), "prepared to {} but the files end at {}", prepared_to_, limit());
    (void)make_next(ctx);
    return;
  }
  const File& file = files_[*index];
  if (file.state == File::State::Unmapped) return map_existing(ctx, *index);
  if (file.state == File::State::Mapping) return;
  // Steps end on multiples of the step, so that a restart in the middle does not shift them for ever. The further behind, the longer a
  // step: one is in flight at a time, and each is a turn of the loop.
  const uint64_t from = prepared_to_ - file.start;
  if (file.is_recycled && MUTANT(RecycledBytesTrusted)) {
    prepared_to_ = file.end();
    return ctx.out.step_again();
  }
  const uint64_t most = options_.zeros == Zeros::Soon ? kStepsTogetherMax : kDurableStepsTogetherMax;
  const uint64_t steps = std::clamp<uint64_t>((wanted - prepared_to_) / 2 / limits::kPrepareStepBytes, 1, most);
  const uint64_t to = std::min(file.size, (from / limits::kPrepareStepBytes + steps) * limits::kPrepareStepBytes);
  is_advancing_ = true;
  ctx.out.prepare(tickets_.issue({InFlight::What::Prepare, file.start, file.start + to}), file.id, {from, to}, options_.zeros);
}

void FileSequence::fail(Ctx& ctx, Error error) {
  if (MUTANT(DiskFullIsFatal)) return ctx.out.halt(error.code, "no room for the log");
  if (!std::exchange(is_failing_, true)) ctx.trace.note(PrepareBlockedEvent{prepared_to_, error.text()});
  SOMETIMES("store: the log finds no room on the disk", error.code == Errc::DiskFull);
  blocked_ = std::move(error);
  ctx.timers.set(TimerId(uint64_t{options_.owner} << 56), ctx.now.monotonic + kRetry);
}

void FileSequence::unblock(Ctx& ctx) {
  if (!blocked_) return;
  ctx.timers.cancel(TimerId(uint64_t{options_.owner} << 56));
  on_timer(ctx);
}

void FileSequence::on_timer(Ctx& ctx) {
  blocked_.reset();
  if (leaving_ && is_leave_stalled_) remove_leaving(ctx);
  ctx.out.step_again();
}

void FileSequence::on_mapped(Ctx& ctx, const Mapped& mapped) {
  const InFlight what = tickets_.redeem(mapped.ticket);
  if (what.what == InFlight::What::MapLeaving) {
    if (!mapped.file) return remove_leaving(ctx);
    leaving_->id = *mapped.file;
    leaving_->state = File::State::Mapped;
    return rename_leaving(ctx);
  }
  if (what.what == InFlight::What::MapNew) is_making_ = false;
  const auto it = std::lower_bound(files_.begin(), files_.end(), what.start, [](const File& f, uint64_t s) { return f.start < s; });
  if (it == files_.end() || it->start != what.start) {  // dropped meanwhile
    if (mapped.file) ctx.out.unmap(*mapped.file);
    return;
  }
  if (!mapped.file) {
    if (what.what == InFlight::What::MapNew) {
      files_.erase(it);
      return fail(ctx, mapped.file.error());
    }
    it->state = File::State::Unmapped;
    map_error_ = mapped.file.error();
    return;
  }
  it->id = *mapped.file;
  it->state = File::State::Mapped;
  ctx.trace.note(SegmentMappedEvent{it->start, it->size, options_.directory});
}

void FileSequence::on_done(Ctx& ctx, const Done& done) {
  const InFlight what = tickets_.redeem(done.ticket);
  if (what.what != InFlight::What::Prepare) return on_leaving(ctx, what, done.outcome);
  is_advancing_ = false;
  if (!done.outcome) return fail(ctx, done.outcome.error());
  if (prepared_to_ < what.prepare_end) {
    prepared_to_ = what.prepare_end;
    if (std::exchange(is_failing_, false)) ctx.trace.note(PrepareResumedEvent{prepared_to_});
    SOMETIMES("store: the log prepares the end of a segment", find(prepared_to_) == std::nullopt);
  }
}

std::vector<std::string> FileSequence::drop_files_from(Ctx& ctx, uint64_t offset) {
  std::vector<std::string> dropped;
  while (!files_.empty() && files_.back().start >= offset) {
    // The last one left may begin exactly at the end: it stays, so that the sequence keeps its place.
    if (files_.size() == 1) break;
    dropped.push_back(path(files_.size() - 1));
    if (files_.back().state == File::State::Mapped) ctx.out.unmap(files_.back().id);
    files_.pop_back();
  }
  return dropped;
}

// --- the front ---------------------------------------------------------------------------------------------------------------------------

std::string FileSequence::drop_front() {
  CHECK(files_.size() > 1 && files_.front().state == File::State::Unmapped);
  std::string out = path(0);
  files_.erase(files_.begin());
  return out;
}

void FileSequence::retire_front() {
  CHECK(can_retire_front());
  leaving_ = files_.front();
  files_.erase(files_.begin());
  last_found_ = 0;
}

size_t FileSequence::files_behind(uint64_t offset) const {
  return static_cast<size_t>(std::count_if(files_.begin(), files_.end(), [&](const File& file) { return file.start > offset; }));
}

void FileSequence::dispose(Ctx& ctx, bool may_recycle) {
  CHECK(leaving_);
  if (!may_recycle || leaving_->size != options_.file_bytes) return remove_leaving(ctx);
  is_leave_waiting_ = is_making_;   // the next name is taken
  SOMETIMES("store: a segment that goes waits for a new one", is_leave_waiting_);
  if (is_leave_waiting_) return;
  if (leaving_->state == File::State::Mapped) return rename_leaving(ctx);
  ctx.out.map(tickets_.issue({InFlight::What::MapLeaving, leaving_->start, 0}), options_.directory + "/" + segment_name(leaving_->start), leaving_->size, Open::Existing);
}

// To the next name, which nobody else takes meanwhile. The file counts as ours to write only when the name is durable: what is stored
// under the old one would be gone after a crash.
void FileSequence::rename_leaving(Ctx& ctx) {
  is_leave_waiting_ = is_making_;   // begun while this one was mapped
  if (is_leave_waiting_) return;
  renaming_to_ = limit();
  ctx.out.rename(tickets_.issue({InFlight::What::Rename, leaving_->start, 0}), leaving_->id, options_.directory + "/" + segment_name(renaming_to_));
  if (MUTANT(RenameAfterFirstStore)) {
    files_.push_back({renaming_to_, leaving_->size, leaving_->id, File::State::Mapped, true});
    renaming_to_ = 0;
  }
}

void FileSequence::remove_leaving(Ctx& ctx) {
  renaming_to_ = 0;
  is_leave_stalled_ = false;
  if (leaving_->state == File::State::Mapped) ctx.out.unmap(leaving_->id);
  leaving_->state = File::State::Unmapped;
  ctx.out.remove(tickets_.issue({InFlight::What::Remove, leaving_->start, 0}), options_.directory + "/" + segment_name(leaving_->start));
}

void FileSequence::on_leaving(Ctx& ctx, const InFlight& what, const Result<void>& outcome) {
  CHECK(leaving_ && leaving_->start == what.start);
  if (what.what == InFlight::What::Rename && !outcome) {
    // The new name may stand all the same, but for one that somebody else's file has.
    SOMETIMES("store: a segment that goes cannot be renamed", true);
    if (outcome.error().code == Errc::Exists) return remove_leaving(ctx);
    ctx.out.remove(tickets_.issue({InFlight::What::Unname, leaving_->start, 0}), options_.directory + "/" + segment_name(renaming_to_));
    return;
  }
  const uint64_t to = std::exchange(renaming_to_, 0);
  if (what.what == InFlight::What::Unname) return remove_leaving(ctx);
  if (!outcome) {
    if (!is_leave_told_) ctx.trace.note(SegmentStaysEvent{what.start, outcome.error().text()});
    is_leave_told_ = is_leave_stalled_ = true;
    ctx.timers.set(TimerId(uint64_t{options_.owner} << 56), ctx.now.monotonic + kRetry);
    return;
  }
  is_leave_told_ = false;
  ctx.trace.note(SegmentLeavesEvent{what.start, leaving_->size, what.what == InFlight::What::Rename ? "recycled" : "removed"});
  SOMETIMES("store: a segment is recycled", what.what == InFlight::What::Rename);
  SOMETIMES("store: an expired segment is removed", what.what == InFlight::What::Remove);
  if (what.what == InFlight::What::Rename) {
    ++recycled_;
    if (to != 0) files_.push_back({to, leaving_->size, leaving_->id, File::State::Mapped, true});
  } else {
    ++removed_;
  }
  leaving_.reset();
  ctx.out.step_again();
}

}  // namespace fulmar
