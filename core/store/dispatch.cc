#include "core/store/dispatch.h"

#include <algorithm>

#include "core/base/marks.h"
#include "core/store/record_search.h"

namespace fulmar {

namespace {
struct DispatchStoppedEvent {
  FULMAR_EVENT(DispatchStopped, Error, "dispatch stands at {}: the record there does not parse: {}");
  uint64_t at;
  std::string_view why;
  auto values() const { return std::array{at}; }
  std::string_view text() const { return why; }
};
}  // namespace

Dispatch::Dispatch(CommitLog& log, Watermarks& watermarks, std::vector<Derived*> derived)
    : log_(log), watermarks_(watermarks), derived_(std::move(derived)) {}

void Dispatch::on_warmed(const Warmed& warmed) {
  is_waiting_ = false;
  is_unreadable_ = !warmed.outcome;
}

void Dispatch::pump(Ctx& ctx, PhysicalOffset visible, std::span<const Range> skip) {
  if (is_waiting_ || is_stopped_) return;
  uint32_t walked = 0;
  while (watermarks_.dispatched < visible) {
    if (damage_) return ctx.out.step_again();   // it is told first
    if (is_seeking_) {
      if (!seek(ctx, visible.value())) return;
      continue;
    }
    const PhysicalOffset at = watermarks_.dispatched;
    bool is_in_hole = false;
    for (const Range& hole : skip) {
      if (at.value() < hole.begin || at.value() >= hole.end) continue;
      watermarks_.dispatched = PhysicalOffset(hole.end);
      is_in_hole = true;
    }
    if (is_in_hole) continue;
    if (walked == limits::kDispatchRecordsPerStep) return ctx.out.step_again();

    const uint64_t end = std::min(log_.file_end(at).value(), visible.value());
    if (std::exchange(is_unreadable_, false)) {
      // The bad page may lie behind this record: once more, page by page. Fetching the same again would never end.
      if (is_narrow_) {
        begin_seek(at, std::max(window_end_, at.value() + 1), "it cannot be read");
        continue;
      }
      is_narrow_ = true;
    }
    // The window grows until it holds the whole record; what is visible and not our own tail is fetched a window at a time.
    const uint64_t window = is_narrow_ ? std::max<uint64_t>(limits::kPageBytes - at.value() % limits::kPageBytes, kFillerBytes) : limits::kRecoveryWindowBytes;
    uint64_t bytes = std::min(end - at.value(), window);
    if (bytes < kFillerBytes) {  // cannot be a record: the tail of a segment shorter than a filler
      watermarks_.dispatched = log_.file_end(at);
      continue;
    }
    if (log_.readiness(at, end - at.value(), ctx.now.monotonic) == CommitLog::Readiness::Ready) bytes = end - at.value();
    else if (window_begin_ <= at.value() && at.value() + kFillerBytes <= window_end_) bytes = std::min(bytes, window_end_ - at.value());
    if (log_.readiness(at, bytes, ctx.now.monotonic) != CommitLog::Readiness::Ready) return fetch(ctx, at, bytes);

    const bool is_own = log_.is_own(at) || MUTANT(DispatchBelievesTheDisk);
    const ParsedRecord parsed = parse_record(log_.view(ctx, at, bytes), at, is_own ? Verify::Structure : Verify::Checksums);
    if (parsed.is_cut_short && at.value() + bytes < end) {
      const uint64_t needed = std::max<uint64_t>({parsed.bytes, bytes + kFillerBytes, window});
      return fetch(ctx, at, std::min(needed, end - at.value()));
    }
    const bool is_filler = parsed.kind == RecordKind::Filler && at + ByteCount(parsed.bytes) == log_.file_end(at);
    if (is_filler) {
      watermarks_.dispatched = at + ByteCount(parsed.bytes);
      continue;
    }
    if (parsed.kind != RecordKind::Message) {
      // Below `visible` everything was verified when it was appended or recovered: memory changed under us, or the medium. Never skip in
      // silence (store.md FG-23).
      const char* why = parsed.kind == RecordKind::Nothing ? "zeros" : parsed.kind == RecordKind::Filler ? "filler length" : parsed.why;
      if (is_own) return stop(ctx, at, why);
      begin_seek(at, at.value() + 1, why);
      continue;
    }
    for (Derived* derived : derived_) {
      if (derived->apply(ctx, parsed.record)) continue;
      // Full. Those before it have the record already and will ignore it when it comes again.
      SOMETIMES("store: dispatch waits for a round", true);
      return;
    }
    watermarks_.dispatched = at + ByteCount(parsed.bytes);
    newest_stamp_ = parsed.record.place.stored;
    ++walked;
  }
}

void Dispatch::stop(Ctx& ctx, PhysicalOffset at, std::string_view why) {
  ctx.trace.note(DispatchStoppedEvent{at.value(), why});
  is_stopped_ = true;
}

void Dispatch::begin_seek(PhysicalOffset at, uint64_t from, const char* why) {
  SOMETIMES("store: dispatch looks for the next good record", true);
  CHECK(at == watermarks_.dispatched);
  is_seeking_ = true;
  is_narrow_ = false;
  seek_at_ = from;
  seek_wanted_ = kRecordBytesMin;
  why_ = why;
}

bool Dispatch::seek(Ctx& ctx, uint64_t visible) {
  uint64_t found = visible;
  while (seek_at_ + kRecordBytesMin <= visible) {
    const uint64_t file_end = log_.file_end(PhysicalOffset(seek_at_)).value();
    if (seek_at_ + kRecordBytesMin > file_end) {
      seek_at_ = file_end;
      seek_wanted_ = kRecordBytesMin;
      continue;
    }
    if (std::exchange(is_unreadable_, false)) {
      if (is_narrow_) seek_at_ = std::max(window_end_, seek_at_ + 1);
      is_narrow_ = true;
      seek_wanted_ = kRecordBytesMin;
      continue;
    }
    const uint64_t window = is_narrow_ ? limits::kPageBytes - seek_at_ % limits::kPageBytes : limits::kRecoveryWindowBytes;
    const uint64_t bytes = std::min(std::max({seek_wanted_, window, uint64_t{kRecordBytesMin}}), file_end - seek_at_);
    if (log_.readiness(PhysicalOffset(seek_at_), bytes, ctx.now.monotonic) != CommitLog::Readiness::Ready) {
      fetch(ctx, PhysicalOffset(seek_at_), bytes);
      return false;
    }
    const SearchStep step = search_window(log_.view(ctx, PhysicalOffset(seek_at_), bytes), seek_at_, file_end);
    if (step.is_found && step.at + step.parsed.bytes <= visible) {
      found = step.at;
      break;
    }
    seek_at_ = step.is_found ? step.at + 1 : step.at;
    seek_wanted_ = step.is_found ? kRecordBytesMin : step.wanted;
  }
  damage_ = Damage{{watermarks_.dispatched.value(), found}, why_};
  watermarks_.dispatched = PhysicalOffset(found);
  is_seeking_ = is_narrow_ = false;
  return true;
}

void Dispatch::fetch(Ctx& ctx, PhysicalOffset at, uint64_t bytes) {
  is_waiting_ = true;
  window_begin_ = at.value();
  window_end_ = at.value() + bytes;
  SOMETIMES("store: dispatch reads cold pages", true);
  log_.warm(ctx, at, bytes, {WarmFor::Dispatch, 0});
}

}  // namespace fulmar
