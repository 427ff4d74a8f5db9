#include "core/store/dispatch.h"

#include "core/base/marks.h"

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
      if (is_narrow_) return stop(ctx, at, "it cannot be read");
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

    const ParsedRecord parsed = parse_record(log_.view(ctx, at, bytes), at, Verify::Structure);
    if (parsed.is_cut_short && at.value() + bytes < end) {
      const uint64_t needed = std::max<uint64_t>({parsed.bytes, bytes + kFillerBytes, window});
      return fetch(ctx, at, std::min(needed, end - at.value()));
    }
    if (parsed.kind == RecordKind::Filler) {
      watermarks_.dispatched = at + ByteCount(parsed.bytes);
      continue;
    }
    if (parsed.kind != RecordKind::Message) {
      // Below `visible` everything was verified when it was appended or recovered: the medium changed under us. Stop and say so; never
      // skip (store.md FG-23).
      return stop(ctx, at, parsed.kind == RecordKind::Nothing ? "zeros" : parsed.why);
    }
    for (Derived* derived : derived_) {
      if (derived->apply(ctx, parsed.record)) continue;
      // Full. Those before it have the record already and will ignore it when it comes again.
      SOMETIMES("store: dispatch waits for a round", true);
      return;
    }
    watermarks_.dispatched = at + ByteCount(parsed.bytes);
    ++walked;
  }
}

void Dispatch::stop(Ctx& ctx, PhysicalOffset at, std::string_view why) {
  ctx.trace.note(DispatchStoppedEvent{at.value(), why});
  is_stopped_ = true;
}

void Dispatch::fetch(Ctx& ctx, PhysicalOffset at, uint64_t bytes) {
  is_waiting_ = true;
  window_begin_ = at.value();
  window_end_ = at.value() + bytes;
  SOMETIMES("store: dispatch reads cold pages", true);
  log_.warm(ctx, at, bytes, {WarmFor::Dispatch, 0});
}

}  // namespace fulmar
