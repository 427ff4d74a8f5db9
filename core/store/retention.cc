#include "core/store/retention.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/marks.h"

namespace fulmar {

namespace {

struct SegmentExpiredEvent {
  FULMAR_EVENT(SegmentExpired, Info, "log bytes [{}, {}) go ({})");
  uint64_t begin, end;
  std::string_view why;
  auto values() const { return std::array{begin, end}; }
  std::string_view text() const { return why; }
};
struct UnreadLostEvent {
  FULMAR_EVENT(UnreadLost, Warning, "{} unread messages go with log bytes [{}, {}): {}");
  uint64_t count, begin, end;
  std::string_view who;
  auto values() const { return std::array{count, begin, end}; }
  std::string_view text() const { return who; }
};
struct UnreadKeptEvent {
  FULMAR_EVENT(UnreadKept, Warning, "log bytes [{}, {}) would go, neverDeleteUnread keeps them: {}");
  uint64_t begin, end;
  std::string_view who;
  auto values() const { return std::array{begin, end}; }
  std::string_view text() const { return who; }
};
struct ClockLeapEvent {
  FULMAR_EVENT(ClockLeap, Warning, "the wall clock is {} ms ahead of where it was at start; ages of messages do not follow it");
  uint64_t ms;
  auto values() const { return std::array{ms}; }
};

struct LongPauseEvent {
  FULMAR_EVENT(LongPause, Warning, "the newest message is {} s old: either nothing ran for so long or the clock is wrong; files that only this makes old go one an hour");
  uint64_t seconds;
  auto values() const { return std::array{seconds}; }
};
struct QueuesMeasuredEvent {
  FULMAR_EVENT(QueuesMeasured, Debug, "queues are asked where they begin once the log begins at {}");
  uint64_t cut;
  auto values() const { return std::array{cut}; }
};
struct LogBeginsEvent {
  FULMAR_EVENT(LogBegins, Debug, "the log begins at {}");
  uint64_t at;
  auto values() const { return std::array{at}; }
};

constexpr Duration kDoubtfulInterval = Duration::seconds(3600);
constexpr int64_t kPauseMs = 86'400'000;
constexpr int64_t kLeapMs = 300'000;
constexpr Duration kBlocksGo = Duration::seconds(2);      // after a removal the file system takes a while to free them
constexpr Duration kSpaceBelieved = Duration::seconds(10);
constexpr Duration kWeighAgain = Duration::seconds(10);   // what neverDeleteUnread keeps
constexpr size_t kUnreadNamed = 8;                        // groups in one event
constexpr size_t kRecycledMax = 2;                        // files that wait for the writer, untouched yet
constexpr uint64_t kHeadBytes = 80;                       // of a record: all up to its store stamp, with either kind of host

// The store stamp of the record that begins with `head`, when it stands at its place.
std::optional<Wall> stamp_of(Bytes head, PhysicalOffset at) {
  const uint32_t magic = load_be<uint32_t>(head.data() + 4);
  if ((magic != kMagicV1 && magic != kMagicV2) || load_be<uint64_t>(head.data() + 28) != at.value()) return std::nullopt;
  const bool is_born_v6 = (load_be<uint32_t>(head.data() + 36) & sys_flag::kBornHostV6) != 0;
  return Wall{static_cast<int64_t>(load_be<uint64_t>(head.data() + 48 + (is_born_v6 ? 20 : 8)))};
}

int64_t clock_of(const Moment& now) { return now.wall.ms - now.monotonic.ns / 1'000'000; }

}  // namespace

Retention::Retention(const BrokerConfig& config, CommitLog& log, ConsumeQueues& queues, Index& index, Meta& meta, const Watermarks& watermarks)
    : config_(config), log_(log), queues_(queues), index_(index), meta_(meta), watermarks_(watermarks) {}

void Retention::begin(Ctx& ctx) {
  clock_at_start_ = clock_now_ = clock_of(ctx.now);
  life_begin_ = seen_end_ = watermarks_.appended.value();
  writing_since_ = ctx.now.monotonic;
  // An empty log has nothing to be wrong about.
  if (log_.newest_stamp().ms > 0) pause_ms_ = std::max<int64_t>(0, ctx.now.wall.ms - log_.newest_stamp().ms);
  next_doubtful_ = ctx.now.monotonic + kDoubtfulInterval;
  if (pause_ms_ > kPauseMs) ctx.trace.note(LongPauseEvent{static_cast<uint64_t>(pause_ms_ / 1000)});
}

// Blocks are freed a moment after their file has left: until then nobody knows what a new measurement counts, and the last one, less what
// has left since, is believed. One file too many would be gone for ever. Where files leave all the time, what left last is counted twice.
void Retention::on_space(const DiskSpace& space, Monotonic now) {
  is_look_due_ = true;
  const bool is_exact = now >= blocks_gone_at_;
  if (!is_exact && now < believed_until_) return;
  space_ = space;
  space_at_ = watermarks_.appended;
  left_bytes_ = is_exact ? 0 : log_.files().file(0).size;
  believed_until_ = now + kSpaceBelieved;
}

uint64_t Retention::appended_since(PhysicalOffset measured_at) const {
  if (!life_begin_) return 0;
  return watermarks_.appended.value() - std::max(measured_at.value(), MUTANT(RestartFillsTheDisk) ? 0 : *life_begin_);
}

uint64_t Retention::disk_percent() const {
  if (!space_) return 0;
  return space_->filled(appended_since(space_at_)).emptied(left_bytes_).percent_used();
}

bool Retention::is_forced() const {
  return config_.is_deleting_forcibly && disk_percent() >= std::min(config_.disk_forced_percent, config_.disk_refuse_percent);
}

void Retention::pump(Ctx& ctx, PhysicalOffset derived) {
  note_writing(ctx);
  switch (state_) {
    case State::Resting: {
      if (!is_look_due_ && !is_long() && !is_forced()) return;
      is_look_due_ = false;
      why_ = decide(ctx, derived);
      if (why_ != Why::None) measure(ctx);
      return;
    }
    case State::Measuring:
      if (queues_.is_cut_measured()) weigh(ctx);
      return;
    case State::Carrying:
      if (!meta_.carry_over(ctx, cut_, floors_)) return;
      flush_to_ = watermarks_.appended;
      enter(State::Flushing);
      [[fallthrough]];
    case State::Flushing:
      if (watermarks_.flushed >= flush_to_) take(ctx);
      return;
    case State::Stamping: return;
    case State::Leaving:
      if (log_.files().is_disposing()) return;
      enter(State::Resting);
      blocks_gone_at_ = ctx.now.monotonic + kBlocksGo;
      is_look_due_ = true;
      ctx.out.step_again();
      return;
  }
}

// When each file got its first and its last bytes, by a clock that cannot be set.
void Retention::note_writing(Ctx& ctx) {
  clock_now_ = clock_of(ctx.now);
  SOMETIMES("store: a wall clock leaps while files wait for their age", clock_now_ - *clock_at_start_ > kLeapMs);
  if (clock_now_ - *clock_at_start_ > kLeapMs && !std::exchange(is_leap_told_, true))
    ctx.trace.note(ClockLeapEvent{static_cast<uint64_t>(clock_now_ - *clock_at_start_)});
  const uint64_t end = watermarks_.appended.value();
  while (seen_end_ < end) {
    const std::optional<size_t> index = log_.files().find(seen_end_);
    const uint64_t file_end = index ? log_.files().file(*index).end() : end + 1;
    if (file_end > end) {
      seen_end_ = end;
      return;
    }
    closed_.push_back({file_end, writing_since_, ctx.now.monotonic});
    writing_since_ = ctx.now.monotonic;
    seen_end_ = file_end;
  }
}

// --- may the oldest file go? -----------------------------------------------------------------------------------------------------------

bool Retention::may_go(PhysicalOffset derived) const {
  const FileSequence& files = log_.files();
  if (!files.can_retire_front()) return false;
  const uint64_t end = files.file(0).end();
  const PhysicalOffset known = std::min({watermarks_.appended, watermarks_.flushed, watermarks_.dispatched, derived});
  // The file that is written stays, and so does one that ends where the log ends: the next record is not there yet.
  return end < known.value();
}

std::optional<PhysicalOffset> Retention::wants_derived(PhysicalOffset derived) const {
  const FileSequence& files = log_.files();
  if (state_ != State::Resting || (!is_long() && !is_forced() && !is_round_wanted_) || !files.can_retire_front() || kept_start_ == files.begin()) return std::nullopt;
  const PhysicalOffset needed(files.file(0).end() + 1);
  return derived < needed && needed <= watermarks_.appended ? std::optional(needed) : std::nullopt;
}

std::optional<PhysicalOffset> Retention::wants_flushed(PhysicalOffset derived) const {
  if (state_ == State::Flushing && watermarks_.flushed < flush_to_) return flush_to_;
  return wants_derived(derived);
}

bool Retention::is_hour(const Moment& now) const {
  const int64_t local_s = now.wall.ms / 1000 + now.zone_s;
  const int64_t hour = (local_s % 86'400 + 86'400) % 86'400 / 3600;
  return config_.delete_hours.has(static_cast<uint32_t>(hour));
}

// Stamps never fall along the log: the first record behind a file is not older than the youngest in it. Where the first record of a file
// cannot be read the next file tells.
std::optional<Wall> Retention::stamp_behind(Ctx& ctx) {
  const FileSequence& files = log_.files();
  const uint64_t start = files.file(0).start;
  if (stamp_ && stamp_->first == start) return stamp_->second;
  if (is_warming_) return std::nullopt;
  stamp_from_ = std::max(stamp_from_, files.file(0).end());
  while (stamp_from_ + kHeadBytes <= watermarks_.appended.value()) {
    const PhysicalOffset at(stamp_from_);
    if (log_.readiness(at, kHeadBytes, ctx.now.monotonic) != CommitLog::Readiness::Ready) {
      // Asked for once: a page that cannot be read does not get better.
      if (!std::exchange(is_head_asked_, true)) {
        is_warming_ = true;
        log_.warm(ctx, at, kHeadBytes, {WarmFor::Retention, 0});
        return std::nullopt;
      }
    } else if (const std::optional<Wall> stamp = stamp_of(log_.view(ctx, at, kHeadBytes), at)) {
      is_head_asked_ = false;
      stamp_ = {start, *stamp};
      return *stamp;
    }
    is_head_asked_ = false;
    stamp_from_ = log_.file_end(at).value();
  }
  stamp_ = {start, log_.newest_stamp()};
  return log_.newest_stamp();
}

std::optional<Retention::Age> Retention::age(Ctx& ctx) {
  const uint64_t end = log_.files().file(0).end();
  while (!closed_.empty() && closed_.front().end < end) closed_.pop_front();
  if (end > *life_begin_) {
    if (closed_.empty() || closed_.front().end != end) return Age{};
    const Duration age = ctx.now.monotonic - (MUTANT(RetentionDeletesUnexpired) ? closed_.front().first : closed_.front().last);
    return Age{age.ms(), age.ms()};
  }
  const std::optional<Wall> stamp = stamp_behind(ctx);
  if (!stamp) return std::nullopt;
  const int64_t age_ms = std::min(*clock_at_start_, clock_now_) + ctx.now.monotonic.ns / 1'000'000 - stamp->ms;
  return Age{age_ms - pause_ms_, age_ms};
}

// Old enough to go for its age.
bool Retention::is_old(Ctx& ctx) {
  is_doubtful_ = false;
  const int64_t reserved_ms = config_.file_reserved_ms != 0 ? config_.file_reserved_ms : config_.file_reserved_hours * 3'600'000;
  const std::optional<Age> old = age(ctx);
  if (!old) return false;
  if (old->certain_ms >= reserved_ms) return true;
  const int64_t leap_ms = MUTANT(RetentionTrustsClock) ? clock_now_ - *clock_at_start_ : 0;
  if (leap_ms > 0 && old->likely_ms + leap_ms >= reserved_ms) return true;
  if (old->likely_ms < reserved_ms || ctx.now.monotonic < next_doubtful_) return false;
  SOMETIMES("store: a segment is old only by the time between two lives", true);
  return is_doubtful_ = true;
}

Retention::Why Retention::decide(Ctx& ctx, PhysicalOffset derived) {
  is_round_wanted_ = false;
  if (!may_go(derived)) {
    // Only what is derived lacks: with many queues the next round may be far.
    is_round_wanted_ = may_go(PhysicalOffset(UINT64_MAX)) && is_old(ctx) && is_hour(ctx.now);
    return Why::None;
  }
  // Kept for a group: looked at again when some group has come further.
  if (kept_start_ == log_.files().begin() && (ctx.now.monotonic < next_weighing_ || meta_.changes() == weighed_changes_)) return Why::None;
  const bool is_expired = is_old(ctx);
  if (is_expired && is_hour(ctx.now)) return Why::Expired;
  if (is_long()) return Why::LongLog;
  if (is_expired && disk_percent() >= config_.disk_expired_percent) return Why::DiskExpired;
  return is_forced() ? Why::DiskForced : Why::None;
}

// --- taking it -------------------------------------------------------------------------------------------------------------------------

void Retention::measure(Ctx& ctx) {
  cut_ = PhysicalOffset(log_.files().file(0).end());
  ctx.trace.note(QueuesMeasuredEvent{cut_.value()});
  queues_.begin_cut(ctx, cut_);
  enter(State::Measuring);
}

// Unread: what lies between a group's committed offset and the queue's new begin, of every topic on which the group has committed anything.
void Retention::count_unread() {
  struct Queue { int32_t id; int64_t min, new_min; };
  std::map<std::string, std::vector<Queue>, std::less<>> moved;
  unread_.clear();
  floors_.clear();
  queues_.for_each_cut([&](const ConsumeQueues::Cut& cut) {
    if (cut.new_min > cut.min) moved[std::string(cut.topic)].push_back({cut.queue.value(), cut.min.value(), cut.new_min.value()});
    if (cut.new_min == cut.max && cut.is_at_rest) floors_.push_back({std::string(cut.topic), cut.queue.value(), cut.max});
  });
  const auto& offsets = meta_.all_offsets();
  for (auto it = offsets.begin(); it != offsets.end();) {
    const OffsetKey& first = it->first;
    const auto topic = moved.find(first.topic);
    uint64_t count = 0;
    auto next = it;
    for (; next != offsets.end() && next->first.group == first.group && next->first.topic == first.topic; ++next) {}
    if (topic != moved.end()) {
      for (const Queue& queue : topic->second) {
        const auto own = std::find_if(it, next, [&](const auto& entry) { return entry.first.queue_id == queue.id; });
        const int64_t from = own == next ? queue.min : std::max(queue.min, own->second.offset.value());
        count += static_cast<uint64_t>(std::max<int64_t>(0, queue.new_min - from));
      }
      if (count > 0) unread_.push_back({first.group, first.topic, count});
    }
    it = next;
  }
}

void Retention::weigh(Ctx& ctx) {
  count_unread();
  const uint64_t begin = log_.files().begin();
  uint64_t lost = 0;
  std::string who;
  for (size_t i = 0; i < unread_.size(); ++i) {
    lost += unread_[i].count;
    if (i < kUnreadNamed) who += fmt::format("{}group {} {} of topic {}", i == 0 ? "" : ", ", unread_[i].group, unread_[i].count, unread_[i].topic);
    else if (i == kUnreadNamed) who += fmt::format(", and {} more", unread_.size() - i);
  }
  if (lost > 0 && config_.is_unread_kept && !MUTANT(RetentionIgnoresUnread)) {
    SOMETIMES("store: unread messages keep their segment", true);
    if (kept_start_ != begin) ctx.trace.note(UnreadKeptEvent{begin, cut_.value(), who});
    kept_start_ = begin;
    weighed_changes_ = meta_.changes();
    next_weighing_ = ctx.now.monotonic + kWeighAgain;
    return enter(State::Resting);
  }
  const char* why = why_ == Why::Expired ? "expired" : why_ == Why::LongLog ? "retainBytesMax" : why_ == Why::DiskExpired ? "expired, the disk fills" : "the disk is nearly full";
  SOMETIMES("store: a segment goes because it expired", why_ == Why::Expired || why_ == Why::DiskExpired);
  SOMETIMES("store: a segment goes because the log is long", why_ == Why::LongLog);
  SOMETIMES("store: a segment goes by force", why_ == Why::DiskForced);
  SOMETIMES("store: unread messages go", lost > 0);
  ctx.trace.note(SegmentExpiredEvent{begin, cut_.value(), why});
  if (lost > 0) ctx.trace.note(UnreadLostEvent{lost, begin, cut_.value(), who});
  enter(State::Carrying);
  ctx.out.step_again();
}

// From here on nobody is led there. Nothing has left the disk yet.
void Retention::take(Ctx& ctx) {
  left_bytes_ += log_.files().file(0).size;
  blocks_gone_at_ = Monotonic::never();
  log_.retire_front();
  ctx.trace.note(LogBeginsEvent{cut_.value()});
  if (is_doubtful_ && (why_ == Why::Expired || why_ == Why::DiskExpired)) next_doubtful_ = ctx.now.monotonic + kDoubtfulInterval;
  gone_ = Gone{queues_.apply_cut(), index_.forget_before(cut_)};
  stamp_.reset();
  enter(State::Stamping);
  ctx.out.step_again();
}

void Retention::on_durable(Ctx& ctx, PhysicalOffset begin) {
  if (state_ != State::Stamping || begin < cut_) return;
  queues_.remove_behind_cut();
  index_.remove_forgotten(ctx);
  const bool is_room_wanted = why_ == Why::DiskForced || why_ == Why::DiskExpired;   // a recycled file frees none
  log_.files().dispose(ctx, !is_room_wanted && log_.files().files_behind(log_.files().prepared_to()) < kRecycledMax);
  enter(State::Leaving);
}

std::string Retention::outlook(const Moment& now) const {
  const FileSequence& files = log_.files();
  if (state_ != State::Resting) return fmt::format("bytes below {} are going", cut_);
  if (files.files().size() < 2 || files.file(0).end() >= watermarks_.appended.value()) return "nothing: the log is one file";
  if (kept_start_ == files.begin()) return "kept: a group has not consumed it (neverDeleteUnread)";
  const int64_t reserved_ms = config_.file_reserved_ms != 0 ? config_.file_reserved_ms : config_.file_reserved_hours * 3'600'000;
  std::optional<int64_t> age_ms;
  if (life_begin_ && files.file(0).end() > *life_begin_ && !closed_.empty()) age_ms = (now.monotonic - closed_.front().last).ns / 1'000'000;
  else if (stamp_ && clock_at_start_) age_ms = std::min(*clock_at_start_, clock_now_) + now.monotonic.ns / 1'000'000 - stamp_->second.ms;
  if (!age_ms) return fmt::format("[{}, {}) when it is {} s old", files.begin(), files.file(0).end(), reserved_ms / 1000);
  if (*age_ms < reserved_ms) return fmt::format("[{}, {}) expires in {} s", files.begin(), files.file(0).end(), (reserved_ms - *age_ms) / 1000);
  return fmt::format("[{}, {}) has expired and goes in the next hour of deleteWhen", files.begin(), files.file(0).end());
}

}  // namespace fulmar
