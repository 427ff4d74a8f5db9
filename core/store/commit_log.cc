#include "core/store/commit_log.h"

#include <algorithm>

#include "core/base/marks.h"
#include "core/store/owners.h"

namespace fulmar {

namespace {

struct AppendedEvent {
  FULMAR_EVENT(Appended, Debug, "appended [{}, {}) queue offset {} topic {}");
  uint64_t begin, end;
  int64_t queue_offset;
  std::string_view topic;
  auto values() const { return std::array{begin, end, static_cast<uint64_t>(queue_offset)}; }
  std::string_view text() const { return topic; }
};

constexpr Duration kCoolingInterval = Duration::seconds(2);
constexpr Duration kQuiet = Duration::seconds(10);
constexpr size_t kRidesLookedAt = 16;   // the youngest fetches in flight: a few readers, not thousands, are near each other

}  // namespace

CommitLog::CommitLog(Options options, Watermarks& watermarks)
    : options_(std::move(options)),
      watermarks_(watermarks),
      files_({options_.directory, options_.file_bytes, options_.ahead_max, owner::kLogFiles, options_.zeros}),
      warms_(owner::kLogWarm) {}

// --- writing -------------------------------------------------------------------------------------------------------------------------

Result<CommitLog::PlaceFound> CommitLog::place_for(uint64_t bytes) const {
  if (bytes + kFillerBytes > options_.file_bytes)
    return Error(Errc::RecordTooLarge, fmt::format("{} bytes do not fit a commit-log file of {} bytes", bytes, options_.file_bytes));
  const uint64_t end = watermarks_.appended.value();
  const std::optional<size_t> index = files_.find(end);
  PlaceFound out{end, false};
  if (index) {
    // A record never crosses a file, and a file always keeps room for a filler (store.md 2.2).
    const uint64_t left = files_.file(*index).end() - end;
    if (bytes + kFillerBytes > left) out = {files_.file(*index).end(), true};
  }
  // With room for a filler, which a file keeps anyway: what stands behind the end is always ours, be it zeros. In a recycled file anything
  // else could be taken for what it was in its earlier life.
  if (files_.prepared_to() < out.at + bytes + kFillerBytes || !files_.find(out.at)) {
    if (const Error* why = files_.blocked()) return *why;
    return Error(Errc::LogRolling, fmt::format("the log is prepared to {}, the record ends at {}", files_.prepared_to(), out.at + bytes));
  }
  if (out.at + bytes > append_limit_.value() && !MUTANT(AppendLimitIgnored))
    return Error(Errc::UnflushedLimit, fmt::format("{} bytes are not flushed yet, the append limit is {} and the record would end at {}",
                                                   end - watermarks_.flushed.value(), append_limit_, out.at + bytes));
  return out;
}

Result<void> CommitLog::room_for(Ctx&, uint64_t bytes) const {
  if (!is_writing_) return Error(Errc::NotReady, "the log is not recovered yet");
  FULMAR_TRY_VOID(place_for(bytes));
  return {};
}

void CommitLog::make_room(Ctx& ctx, uint64_t bytes) {
  const uint64_t end = watermarks_.appended.value();
  const std::optional<size_t> index = files_.find(end);
  if (!index) return;
  const FileSequence::File& file = files_.file(*index);
  const uint64_t left = file.end() - end;
  if (bytes + kFillerBytes <= left) return;
  SOMETIMES("store: a segment ends with a filler", true);
  SOMETIMES("store: a segment ends with exactly a filler", left == kFillerBytes);
  const uint64_t bytes_stored = std::min<uint64_t>(left, kStampedFillerBytes);
  encode_filler(ctx.files.at(file.id).writable({end - file.start, end - file.start + bytes_stored}), static_cast<uint32_t>(left), PhysicalOffset(end));
  watermarks_.appended = PhysicalOffset(file.end());
}

Result<Appended> CommitLog::append(Ctx& ctx, const Message& message, QueueOffset queue_offset) {
  if (!is_writing_) return Error(Errc::NotReady, "the log is not recovered yet");
  FULMAR_TRY(const uint32_t bytes, record_bytes(message, options_.with_crc_property));
  if (bytes > options_.body_bytes_max + limits::kRecordOverheadMax)
    return Error(Errc::RecordTooLarge, fmt::format("the record would have {} bytes, at most {} are allowed", bytes, options_.body_bytes_max + limits::kRecordOverheadMax));
  FULMAR_TRY_VOID(place_for(bytes));
  make_room(ctx, bytes);

  const PhysicalOffset at = watermarks_.appended;
  const FileSequence::File& file = files_.file(*files_.find(at.value()));
  newest_stamp_ = MUTANT(StampFollowsClock) ? ctx.now.wall : std::max(newest_stamp_, ctx.now.wall);
  const uint64_t in_file = at.value() - file.start;
  encode_record(ctx.files.at(file.id).writable({in_file, in_file + bytes}), message, {at, queue_offset, newest_stamp_}, options_.with_crc_property);
  watermarks_.appended = at + ByteCount(bytes);
  ctx.trace.note(AppendedEvent{at.value(), watermarks_.appended.value(), queue_offset.value(), message.topic});
  return Appended{at, watermarks_.appended, queue_offset};
}

void CommitLog::begin_writing(PhysicalOffset end) {
  watermarks_.appended = end;
  own_tail_begin_ = end.value();
  is_writing_ = true;
  files_.begin_writing(end.value());
}

uint64_t CommitLog::prepared_unused_bytes() const {
  const uint64_t end = watermarks_.appended.value();
  return is_writing_ && files_.prepared_to() > end ? files_.prepared_to() - end : 0;
}

void CommitLog::pump(Ctx& ctx) {
  if (is_writing_) files_.pump(ctx, watermarks_.appended.value());
  pump_cooling(ctx);
}

void CommitLog::retire_front() {
  last_use_.erase(files_.begin());
  files_.retire_front();
  watermarks_.begin = PhysicalOffset(files_.begin());
}

bool CommitLog::is_front_idle() const { return !last_use_.contains(files_.begin()); }

// --- residence (decision 2) ----------------------------------------------------------------------------------------------------------

uint64_t CommitLog::page_begin(uint64_t at) const {
  const std::optional<size_t> index = files_.find(at);
  return index ? at - (at - files_.file(*index).start) % limits::kPageBytes : at;
}

// Gives back whole pages; what readiness() says of them must be Cold already.
void CommitLog::cool(Ctx& ctx, Range range) {
  range = {std::max(range.begin, files_.begin()), std::min(range.end, files_.limit())};
  for (uint64_t at = range.begin; at < range.end;) {
    const FileSequence::File& file = files_.file(*files_.find(at));
    const uint64_t to = std::min(range.end, file.end());
    const Range pages = inner_pages({at - file.start, to - file.start}, file.size);
    if (!pages.empty() && file.state == FileSequence::File::State::Mapped) ctx.out.cool(file.id, pages);
    at = to;
  }
}

// What was fetched goes a second later, at the next look. Giving back costs nothing but a fetch, should somebody ask.
void CommitLog::pump_cooling(Ctx& ctx) {
  const bool is_due = ctx.now.monotonic >= next_cooling_;
  if (is_due) {
    next_cooling_ = ctx.now.monotonic + kCoolingInterval;
    is_cooling_timer_set_ = false;
    look_for_cold(ctx);
  }
  if (is_due || warm_.is_over()) {
    const uint64_t end = is_writing_ ? own_tail_begin_ : files_.limit();
    for (const Range& cold : warm_.take_cold(ctx.now.monotonic)) cool(ctx, {cold.begin, std::min(cold.end, end)});
  }
  if (is_cooling_timer_set_ || !may_cool_later()) return;
  is_cooling_timer_set_ = true;
  ctx.timers.set(TimerId(uint64_t{owner::kLogWarm} << 56), next_cooling_);
}

// The tail keeps its last kWarmTailBytes; when nothing was appended for a while the tail goes too, and what is prepared far ahead.
void CommitLog::look_for_cold(Ctx& ctx) {
  const Monotonic now = ctx.now.monotonic;
  const uint64_t end = watermarks_.appended.value();
  if (end != quiet_end_) {
    quiet_end_ = end;
    quiet_since_ = now;
    is_ahead_cooled_ = false;
  }
  const bool is_quiet = now - quiet_since_ >= kQuiet && watermarks_.dispatched == watermarks_.appended && watermarks_.flushed == watermarks_.appended;
  const uint64_t keep_from = page_begin(is_quiet ? end : end - std::min(end, limits::kWarmTailBytes));
  // In pieces, so that a busy log does not give back a page at a time.
  if (is_writing_ && keep_from > own_tail_begin_ && (is_quiet || keep_from - own_tail_begin_ >= limits::kRecoveryWindowBytes)) {
    SOMETIMES("store: a quiet log gives its tail back", is_quiet);
    warm_.release({page_begin(own_tail_begin_), keep_from}, now);
    own_tail_begin_ = keep_from;
  }
  if (is_writing_ && is_quiet && !std::exchange(is_ahead_cooled_, true)) cool(ctx, {end + limits::kPrepareAheadIdle, files_.limit()});
  // What was sent slowly became resident again after it was cooled: a file that is left alone is given back whole.
  std::erase_if(last_use_, [&](const auto& use) {
    if (now - use.second < kQuiet) return false;
    const std::optional<size_t> index = files_.find(use.first);
    if (index) warm_.release({use.first, is_writing_ ? std::min(files_.file(*index).end(), own_tail_begin_) : files_.file(*index).end()}, now);
    return true;
  });
}

bool CommitLog::may_cool_later() const {
  const uint64_t end = watermarks_.appended.value();
  return !warm_.empty() || !last_use_.empty() || (is_writing_ && (end != quiet_end_ || own_tail_begin_ < page_begin(end) || !is_ahead_cooled_));
}

// --- reading -------------------------------------------------------------------------------------------------------------------------

CommitLog::Readiness CommitLog::readiness(PhysicalOffset at, uint64_t bytes, Monotonic now) const {
  const std::optional<size_t> index = files_.find(at.value());
  if (!index || at.value() + bytes > files_.file(*index).end()) return Readiness::Outside;
  if (files_.file(*index).state != FileSequence::File::State::Mapped) return Readiness::Cold;
  const uint64_t begin = at.value(), end = begin + bytes, appended = watermarks_.appended.value();
  const uint64_t tail = std::max(own_tail_begin_, appended > limits::kWarmTailBytes ? appended - limits::kWarmTailBytes : 0);
  const bool ends_in_tail = is_writing_ && end <= appended;
  if (ends_in_tail && begin >= tail) return Readiness::Ready;
  const uint64_t warm_to = warm_.reach(begin, now);
  return warm_to >= end || (ends_in_tail && warm_to >= tail) ? Readiness::Ready : Readiness::Cold;
}

Bytes CommitLog::view(Ctx& ctx, PhysicalOffset at, uint64_t bytes) const {
  const FileSequence::File& file = files_.file(*files_.find(at.value()));
  return ctx.files.at(file.id).view({at.value() - file.start, at.value() - file.start + bytes});
}

FileSlice CommitLog::slice(Ctx& ctx, PhysicalOffset at, uint64_t bytes) {
  const FileSequence::File& file = files_.file(*files_.find(at.value()));
  last_use_[file.start] = ctx.now.monotonic;
  return {file.id, {at.value() - file.start, at.value() - file.start + bytes}};
}

PhysicalOffset CommitLog::file_end(PhysicalOffset at) const { return PhysicalOffset(files_.file(*files_.find(at.value())).end()); }
PhysicalOffset CommitLog::file_begin(PhysicalOffset at) const { return PhysicalOffset(files_.file(*files_.find(at.value())).start); }

void CommitLog::warm(Ctx& ctx, PhysicalOffset at, uint64_t bytes, WarmToken token) {
  const std::optional<size_t> index = files_.find(at.value());
  if (!index) {
    warmed_.push_back({token, Error(Errc::OutOfRange, fmt::format("{} is outside of the log", at))});
    ctx.out.step_again();
    return;
  }
  const Range range{at.value(), std::min(at.value() + bytes, files_.file(*index).end())};
  fetch(ctx, *index, std::span(&range, 1), token);
}

void CommitLog::warm_all(Ctx& ctx, std::span<const Range> ranges, WarmToken token) {
  const std::optional<size_t> index = files_.find(ranges.front().begin);
  CHECK(index && ranges.back().end <= files_.file(*index).end(), "[{}, {}) is no part of one file", ranges.front().begin, ranges.back().end);
  const Range first{ranges.front().begin, ranges.front().begin + 1};   // on which page the asker goes on
  if (!ride_along(first, token)) fetch(ctx, *index, ranges, token);
}

// Several readers of a topic come by one after the other, each for its own queue, and all for the same pages.
bool CommitLog::ride_along(Range wanted, WarmToken token) {
  for (size_t i = rides_.size(); i > 0 && i + kRidesLookedAt > rides_.size(); --i) {
    WarmInFlight& flight = *warms_.peek(rides_[i - 1]);
    const bool is_on_its_way = std::any_of(flight.ranges.begin(), flight.ranges.end(), [&](Range r) { return r.begin <= wanted.begin && wanted.end <= r.end; });
    if (!is_on_its_way) continue;
    SOMETIMES("store: a fetch serves several", true);
    if (token.who != WarmFor::Nobody) flight.tokens.push_back(token);
    return true;
  }
  return false;
}

void CommitLog::fetch(Ctx& ctx, size_t index, std::span<const Range> ranges, WarmToken token) {
  switch (files_.file(index).state) {
    case FileSequence::File::State::Mapped: return start_warm(ctx, ranges, token);
    case FileSequence::File::State::Unmapped: files_.map_existing(ctx, index); [[fallthrough]];
    case FileSequence::File::State::Mapping: waiting_.push_back({{ranges.begin(), ranges.end()}, token}); return;
  }
}

void CommitLog::start_warm(Ctx& ctx, std::span<const Range> ranges, WarmToken token) {
  const FileSequence::File& file = files_.file(*files_.find(ranges.front().begin));
  WarmInFlight flight{{}, {token}};
  std::vector<FileSlice> cold;
  for (const Range& range : ranges) {
    const Range pages = whole_pages({range.begin - file.start, range.end - file.start}, file.size);
    cold.push_back({file.id, pages});
    flight.ranges.push_back({file.start + pages.begin, file.start + pages.end});
    warm_.fetching(flight.ranges.back());
  }
  const Ticket ticket = warms_.issue(std::move(flight));
  rides_.push_back(ticket);
  ctx.out.warm(ticket, cold);
}

void CommitLog::on_mapped(Ctx& ctx, const Mapped& mapped) {
  files_.on_mapped(ctx, mapped);
  std::vector<WaitingForMap> waiting = std::exchange(waiting_, {});
  for (WaitingForMap& w : waiting) {
    const std::optional<size_t> index = files_.find(w.ranges.front().begin);
    if (!index || files_.has_map_error()) {
      warmed_.push_back({w.token, files_.has_map_error() ? *files_.map_error() : Error(Errc::OutOfRange, "the file is gone")});
      ctx.out.step_again();
    } else if (files_.file(*index).state == FileSequence::File::State::Mapped) {
      start_warm(ctx, w.ranges, w.token);
    } else {
      waiting_.push_back(std::move(w));
    }
  }
}

void CommitLog::on_done(Ctx& ctx, const Done& done) {
  if (done.ticket.owner() == owner::kLogFiles) return files_.on_done(ctx, done);
  std::erase(rides_, done.ticket);
  const WarmInFlight what = warms_.redeem(done.ticket);
  for (const Range& range : what.ranges) warm_.fetched(range, done.outcome.has_value(), ctx.now.monotonic);
  if (const std::optional<size_t> index = files_.find(what.ranges.front().begin)) last_use_[files_.file(*index).start] = ctx.now.monotonic;
  SOMETIMES("store: a page of the log cannot be read", !done.outcome && done.outcome.error().code == Errc::Unreadable);
  for (const WarmToken& token : what.tokens)
    if (token.who != WarmFor::Nobody) warmed_.push_back({token, done.outcome});
}

}  // namespace fulmar
