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

constexpr size_t kWarmRangesMax = 512;
constexpr Duration kCoolingInterval = Duration::seconds(2);
constexpr Duration kQuiet = Duration::seconds(10);

}  // namespace

CommitLog::CommitLog(Options options, Watermarks& watermarks)
    : options_(std::move(options)),
      watermarks_(watermarks),
      files_({options_.directory, options_.file_bytes, options_.ahead_max, owner::kLogFiles}),
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
  if (files_.prepared_to() < out.at + bytes || !files_.find(out.at)) {
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
  encode_filler(ctx.files.at(file.id).writable({end - file.start, end - file.start + kFillerBytes}), static_cast<uint32_t>(left));
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

// Gives back whole pages of [begin, end); what readiness() says of them must be Cold already.
void CommitLog::cool(Ctx& ctx, uint64_t begin, uint64_t end) {
  for (uint64_t at = begin; at < end;) {
    const std::optional<size_t> index = files_.find(at);
    if (!index) return;
    const FileSequence::File& file = files_.file(*index);
    const uint64_t to = std::min(end, file.end());
    const uint64_t page = limits::kPageBytes;
    const Range pages{(at - file.start + page - 1) / page * page, (to - file.start) / page * page};
    if (!pages.empty() && file.state == FileSequence::File::State::Mapped) ctx.out.cool(file.id, pages);
    at = to;
  }
}

// Residence (decision 2): the tail keeps its last kWarmTailBytes; what was fetched goes a second later; when nothing was appended for a
// while the tail goes too, and what is prepared far ahead. Giving back costs nothing but a fetch, should somebody ask.
void CommitLog::pump_cooling(Ctx& ctx) {
  if (ctx.now.monotonic < next_cooling_) return;
  next_cooling_ = ctx.now.monotonic + kCoolingInterval;
  const auto is_live = [&](const Range64& r) { return r.until > ctx.now.monotonic; };
  std::erase_if(warm_ranges_, [&](const Range64& r) {
    if (is_live(r)) return false;
    for (const Range64& other : warm_ranges_)
      if (is_live(other) && other.begin / limits::kPageBytes * limits::kPageBytes < r.end && r.begin < other.end + limits::kPageBytes) return false;
    if (warms_.out_count() > 0) return false;   // one in flight may be for the same pages
    cool(ctx, r.begin, std::min(r.end, own_tail_begin_));
    return true;
  });
  const uint64_t end = watermarks_.appended.value();
  if (end != quiet_end_) {
    quiet_end_ = end;
    quiet_since_ = ctx.now.monotonic;
    ahead_cooled_from_ = UINT64_MAX;
  }
  const bool is_quiet = ctx.now.monotonic - quiet_since_ >= kQuiet && watermarks_.dispatched == watermarks_.appended && watermarks_.flushed == watermarks_.appended;
  const uint64_t keep_from = is_quiet ? end : end - std::min(end, limits::kWarmTailBytes);
  // In pieces, so that a busy log does not give back a page at a time.
  if (is_writing_ && keep_from > own_tail_begin_ && (is_quiet || keep_from - own_tail_begin_ >= limits::kRecoveryWindowBytes) && warms_.out_count() == 0) {
    SOMETIMES("store: a quiet log gives its tail back", is_quiet);
    const uint64_t from = own_tail_begin_;
    own_tail_begin_ = keep_from;
    bool is_in_use = false;
    for (const Range64& r : warm_ranges_) is_in_use = is_in_use || (r.begin < keep_from && from < r.end);
    if (!is_in_use) cool(ctx, from, keep_from);
  }
  const uint64_t ahead_from = end + limits::kPrepareAheadIdle;
  if (is_writing_ && is_quiet && ahead_from < std::min(files_.prepared_to(), ahead_cooled_from_)) {
    cool(ctx, ahead_from, files_.prepared_to());
    ahead_cooled_from_ = ahead_from;
  }
  const bool is_more = !warm_ranges_.empty() || (is_writing_ && own_tail_begin_ < end) || (is_writing_ && !is_quiet);
  if (is_more) ctx.timers.set(TimerId(uint64_t{owner::kLogWarm} << 56), next_cooling_);
}

// --- reading -------------------------------------------------------------------------------------------------------------------------

CommitLog::Readiness CommitLog::readiness(PhysicalOffset at, uint64_t bytes, Monotonic now) const {
  const std::optional<size_t> index = files_.find(at.value());
  if (!index || at.value() + bytes > files_.file(*index).end()) return Readiness::Outside;
  if (files_.file(*index).state != FileSequence::File::State::Mapped) return Readiness::Cold;
  const uint64_t begin = at.value(), end = begin + bytes, appended = watermarks_.appended.value();
  const uint64_t tail = std::max(own_tail_begin_, appended > limits::kWarmTailBytes ? appended - limits::kWarmTailBytes : 0);
  if (is_writing_ && begin >= tail && end <= appended) return Readiness::Ready;
  for (const Range64& r : warm_ranges_)
    if (r.until > now && begin >= r.begin && end <= r.end) return Readiness::Ready;
  return Readiness::Cold;
}

Bytes CommitLog::view(Ctx& ctx, PhysicalOffset at, uint64_t bytes) const {
  const FileSequence::File& file = files_.file(*files_.find(at.value()));
  return ctx.files.at(file.id).view({at.value() - file.start, at.value() - file.start + bytes});
}

FileSlice CommitLog::slice(PhysicalOffset at, uint64_t bytes) const {
  const FileSequence::File& file = files_.file(*files_.find(at.value()));
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
  bytes = std::min(bytes, files_.file(*index).end() - at.value());
  switch (files_.file(*index).state) {
    case FileSequence::File::State::Mapped: return start_warm(ctx, at.value(), bytes, token);
    case FileSequence::File::State::Unmapped: files_.map_existing(ctx, *index); [[fallthrough]];
    case FileSequence::File::State::Mapping: waiting_.push_back({at.value(), bytes, token}); return;
  }
}

void CommitLog::start_warm(Ctx& ctx, uint64_t at, uint64_t bytes, WarmToken token) {
  const FileSlice cold = slice(PhysicalOffset(at), bytes);
  ctx.out.warm(warms_.issue({at, bytes, token}), std::span(&cold, 1));
}

void CommitLog::on_mapped(Ctx& ctx, const Mapped& mapped) {
  files_.on_mapped(ctx, mapped);
  std::vector<WaitingForMap> waiting = std::exchange(waiting_, {});
  for (WaitingForMap& w : waiting) {
    const std::optional<size_t> index = files_.find(w.at);
    if (!index || files_.has_map_error()) {
      warmed_.push_back({w.token, files_.has_map_error() ? *files_.map_error() : Error(Errc::OutOfRange, "the file is gone")});
      ctx.out.step_again();
    } else if (files_.file(*index).state == FileSequence::File::State::Mapped) {
      start_warm(ctx, w.at, w.bytes, w.token);
    } else {
      waiting_.push_back(w);
    }
  }
}

void CommitLog::on_done(Ctx& ctx, const Done& done) {
  if (done.ticket.owner() == owner::kLogFiles) return files_.on_done(ctx, done);
  const WarmInFlight what = warms_.redeem(done.ticket);
  if (done.outcome) {
    if (warm_ranges_.size() >= kWarmRangesMax) warm_ranges_.erase(warm_ranges_.begin());
    warm_ranges_.push_back({what.at, what.at + what.bytes, ctx.now.monotonic + limits::kWarmFor});
  }
  SOMETIMES("store: a page of the log cannot be read", !done.outcome && done.outcome.error().code == Errc::Unreadable);
  warmed_.push_back({what.token, done.outcome});
}

}  // namespace fulmar
