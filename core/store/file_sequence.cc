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

constexpr Duration kRetry = Duration::seconds(1);

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

std::optional<size_t> FileSequence::find(uint64_t offset) const {
  // Whoever asks mostly asks again for the same file: the writer's.
  if (last_found_ < files_.size() && offset >= files_[last_found_].start && offset < files_[last_found_].end()) return last_found_;
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
  return std::min({options_.ahead_max, std::max(least, rate_bytes_ / 4), 2 * options_.file_bytes});
}

void FileSequence::pump(Ctx& ctx, uint64_t end) {
  if (!is_writing_ || is_advancing_ || blocked_) return;
  if (prepared_to_ >= end + ahead_wanted(ctx, end)) return;
  const std::optional<size_t> index = find(prepared_to_);
  if (!index) {
    const uint64_t start = limit();
    CHECK(prepared_to_ == start, "prepared to {} but the files end at {}", prepared_to_, start);
    files_.push_back({start, options_.file_bytes, FileId(), File::State::Mapping});
    is_advancing_ = true;
    ctx.out.map(tickets_.issue({InFlight::What::MapNew, start, 0}), path(files_.size() - 1), options_.file_bytes, Open::New);
    return;
  }
  const File& file = files_[*index];
  if (file.state == File::State::Unmapped) return map_existing(ctx, *index);
  if (file.state == File::State::Mapping) return;
  // Steps end on multiples of the step, so that a restart in the middle does not shift them for ever.
  const uint64_t from = prepared_to_ - file.start;
  const uint64_t to = std::min(file.size, (from / limits::kPrepareStepBytes + 1) * limits::kPrepareStepBytes);
  is_advancing_ = true;
  ctx.out.prepare(tickets_.issue({InFlight::What::Prepare, file.start, file.start + to}), file.id, {from, to});
}

void FileSequence::fail(Ctx& ctx, Error error) {
  if (MUTANT(DiskFullIsFatal)) return ctx.out.halt(error.code, "no room for the log");
  is_advancing_ = false;
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
  ctx.out.step_again();
}

void FileSequence::on_mapped(Ctx& ctx, const Mapped& mapped) {
  const InFlight what = tickets_.redeem(mapped.ticket);
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
  if (what.what == InFlight::What::MapNew) is_advancing_ = false;
  ctx.trace.note(SegmentMappedEvent{it->start, it->size, options_.directory});
}

void FileSequence::on_done(Ctx& ctx, const Done& done) {
  const InFlight what = tickets_.redeem(done.ticket);
  if (!done.outcome) return fail(ctx, done.outcome.error());
  is_advancing_ = false;
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

}  // namespace fulmar
