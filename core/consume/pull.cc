#include "core/consume/pull.h"

#include <algorithm>
#include <array>

#include "core/base/java_hash.h"
#include "core/base/marks.h"
#include "core/store/record.h"

namespace fulmar {

namespace {
struct RecordDamaged {
  FULMAR_EVENT(RecordDamaged, Error, "the record at log bytes [{}, {}) is damaged and passed over: {}");
  uint64_t begin, end;
  std::string_view why;
  auto values() const { return std::array{begin, end}; }
  std::string_view text() const { return why; }
};
}  // namespace

namespace {

constexpr size_t kExpectAhead = 2;            // entries: one record's checksums take about as long as fetching the next from main memory
constexpr size_t kCacheLineBytes = 64;
constexpr uint64_t kExpectBytesMax = 4096;    // of a long record the processor guesses the rest itself

// Tags are words. Signs of comparison, quotes and brackets, or SQL's words between blanks, mean an SQL92 filter: taken for a tag it would
// match nothing, and nobody would be told.
bool is_sql(std::string_view subscription) {
  if (subscription.find_first_of("=<>()'\"") != std::string_view::npos) return true;
  std::string lower(subscription);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const std::string_view word : {" and ", " or ", " between ", " in ", " is ", " not "})
    if (lower.find(word) != std::string::npos) return true;
  return false;
}

}  // namespace

Result<TagFilter> TagFilter::parse(std::string_view subscription) {
  TagFilter out;
  if (subscription.size() > limits::kSubscriptionBytesMax)
    return Error(Errc::InvalidArgument, fmt::format("the subscription has {} bytes, at most {} are allowed", subscription.size(), limits::kSubscriptionBytesMax));
  const auto trim = [](std::string_view text) {
    const size_t first = text.find_first_not_of(" \t\r\n");
    return first == std::string_view::npos ? std::string_view() : text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
  };
  std::string_view rest = trim(subscription);
  if (rest.empty() || rest == "*") return out;
  if (is_sql(rest)) return Error(Errc::InvalidArgument, fmt::format("'{}' looks like an SQL92 filter, which is not supported: subscribe to tags joined by '||', or to '*'", rest));
  while (true) {
    const size_t split = rest.find("||");
    const std::string_view tag = trim(rest.substr(0, split));
    if (tag == "*") return TagFilter{};   // a tag among others that means all of them
    if (!tag.empty()) out.codes.push_back(java_hash(tag));
    if (split == std::string_view::npos) break;
    rest.remove_prefix(split + 2);
  }
  if (out.codes.empty()) return Error(Errc::InvalidArgument, fmt::format("the subscription '{}' names no tag", subscription));
  if (out.codes.size() > limits::kTagsMax)
    return Error(Errc::InvalidArgument, fmt::format("the subscription names {} tags, at most {} are allowed", out.codes.size(), limits::kTagsMax));
  std::sort(out.codes.begin(), out.codes.end());
  out.codes.erase(std::unique(out.codes.begin(), out.codes.end()), out.codes.end());
  return out;
}

bool TagFilter::matches(int64_t code) const {
  if (codes.empty()) return true;
  if (code < 0 && MUTANT(FilterDropsMatching)) return false;
  return std::binary_search(codes.begin(), codes.end(), code);
}

Result<std::optional<PullAnswer>> Pulls::run(Ctx& ctx, PullRequest& request, std::span<const Range> holes) {
  const QueueRange range = queues_.range(request.topic, QueueId(request.queue_id));
  PullAnswer answer;
  answer.min = range.min;
  answer.max = range.max;
  const auto moved_to = [&](QueueOffset to) {
    answer.code = Code::PullOffsetMoved;
    answer.next = to;
    return answer;
  };
  if (request.offset < range.min) return std::optional(moved_to(range.min));
  if (request.offset > range.max) return std::optional(moved_to(range.max));
  request.scanned_to = std::max(request.scanned_to, request.offset);

  // A slot first: what is asked of the disk names it. It is given back at once when nothing had to be asked.
  const std::optional<uint64_t> token = cold_.add({});
  if (!token) return Error(Errc::Full, fmt::format("{} pulls wait for the disk", cold_.size()));
  const QueueOffset from = request.scanned_to;
  const Stop stop = gather(ctx, request, *token, holes, answer);
  const bool is_hungry = answer.count > 0 && stop == Stop::ColdLog && is_worth_waiting(request, answer);
  if (is_hungry || (answer.count == 0 && (stop == Stop::ColdQueue || stop == Stop::ColdLog))) {
    SOMETIMES("pull: waits for a cold queue file", stop == Stop::ColdQueue);
    SOMETIMES("pull: waits for a cold log range", stop == Stop::ColdLog);
    SOMETIMES("pull: waits for more than it has", is_hungry);
    if (stop == Stop::ColdLog) fetch(ctx, request, answer, WarmToken{WarmFor::Pull, *token});
    if (is_hungry) {
      request.has_waited = true;
      if (!MUTANT(PullForgetsWhatItHad)) request.scanned_to = from;
    }
    if (MUTANT(PullResumesOneLate)) request.scanned_to += EntryCount(1);
    *cold_.find(*token) = std::move(request);
    return std::optional<PullAnswer>();
  }
  cold_.take(*token);
  if (stop == Stop::ColdLog && !request.is_narrow && log_.fetches_in_flight() < limits::kPullsAheadMax) fetch(ctx, request, PullAnswer{}, WarmToken{WarmFor::Nobody});
  if (stop == Stop::Damaged) {
    SOMETIMES("pull: stands before a damaged queue entry", true);
    queues_.report_damage(ctx, request.topic, QueueId(request.queue_id), request.scanned_to);
    if (request.scanned_to == request.offset)
      return Error(Errc::StoreDamaged, fmt::format("queue {} of topic '{}' is damaged at offset {}: the next start of the broker builds it again from the log", request.queue_id, request.topic, request.offset));
  }
  answer.next = request.scanned_to;
  if (answer.count > 0) answer.code = Code::Success;
  else if (answer.next > request.offset) answer.code = Code::PullRetryImmediately;
  return std::optional(std::move(answer));
}

Pulls::Stop Pulls::gather(Ctx& ctx, PullRequest& request, uint64_t token, std::span<const Range> holes, PullAnswer& answer) {
  const QueueOffset max = answer.max;
  request.scanned_to = std::max(request.scanned_to, answer.min);   // retention may have overtaken a pull that waited
  for (uint32_t scanned = 0; request.scanned_to < max && scanned < limits::kPullScanEntriesMax;) {
    entries_.clear();
    const int64_t count = std::min<int64_t>(limits::kPullReadEntries, (max - request.scanned_to).value());
    if (!queues_.read(ctx, request.topic, QueueId(request.queue_id), request.scanned_to, EntryCount(count), token, entries_)) return Stop::ColdQueue;
    if (entries_.empty()) return Stop::Damaged;   // below the end of the queue, and nothing was written there or can be read
    for (size_t i = 0; i < entries_.size(); ++i) {
      const QueueEntry& entry = entries_[i];
      if (i + kExpectAhead < entries_.size()) expect(ctx, entries_[i + kExpectAhead]);
      if (request.scanned_to >= max || scanned == limits::kPullScanEntriesMax) break;
      const Stop stop = take(ctx, request, holes, entry, answer);
      if (stop == Stop::Full && MUTANT(PullSkipsUndelivered)) request.scanned_to += EntryCount(1);
      if (stop == Stop::ColdLog) cold_from_ = i;
      if (stop != Stop::ScanEnd) return stop;
      request.scanned_to += EntryCount(1);
      ++scanned;
    }
  }
  return Stop::ScanEnd;
}

// Records of one queue lie scattered among those of others, where no processor expects them.
void Pulls::expect(Ctx& ctx, const QueueEntry& entry) const {
  const uint64_t bytes = std::min<uint64_t>(entry.bytes, kExpectBytesMax);
  if (log_.is_own(entry.at) || log_.readiness(entry.at, bytes, ctx.now.monotonic) != CommitLog::Readiness::Ready) return;
  const Bytes record = log_.view(ctx, entry.at, bytes);
  for (size_t at = 0; at < record.size(); at += kCacheLineBytes) __builtin_prefetch(record.data() + at);
}

// ScanEnd: the entry is dealt with, go on. Damaged: it leads behind the log, or to a record of another place.
Pulls::Stop Pulls::take(Ctx& ctx, const PullRequest& request, std::span<const Range> holes, const QueueEntry& entry, PullAnswer& answer) {
  if (entry.bytes == kPreBlankBytes || entry.at < watermarks_.begin) return Stop::ScanEnd;
  if (entry.at >= watermarks_.appended || entry.bytes > (watermarks_.appended - entry.at).value()) return Stop::Damaged;
  if (!request.filter.matches(entry.tag_code)) return Stop::ScanEnd;
  if (answer.count >= request.count_max) return Stop::Full;
  if (answer.count > 0 && answer.bytes + entry.bytes > std::min(request.bytes_max, limits::kPullSliceBytesMax)) return Stop::Full;
  const uint64_t begin = entry.at.value(), end = begin + entry.bytes;
  const auto hole = std::upper_bound(holes.begin(), holes.end(), begin, [](uint64_t at, const Range& r) { return at < r.end; });
  if (hole != holes.end() && hole->begin < end) {
    SOMETIMES("pull: passes over damage", true);
    return Stop::ScanEnd;
  }
  switch (log_.readiness(entry.at, entry.bytes, ctx.now.monotonic)) {
    case CommitLog::Readiness::Outside: return Stop::Damaged;   // across the end of a file
    case CommitLog::Readiness::Cold: return Stop::ColdLog;
    case CommitLog::Readiness::Ready: break;
  }
  if (!log_.is_own(entry.at) && !MUTANT(PullServesDamage)) {
    // What a disk gives back is compared before anybody gets it: recovery reads only what was not known to be flushed.
    const ParsedRecord parsed = parse_record(log_.view(ctx, entry.at, entry.bytes), entry.at, Verify::Checksums);
    if (parsed.kind != RecordKind::Message || parsed.bytes != entry.bytes) {
      SOMETIMES("pull: a record of the disk does not match its checksum", true);
      ctx.trace.note(RecordDamaged{begin, end, parsed.kind == RecordKind::Message ? "another length than its queue entry says" : parsed.why});
      return Stop::ScanEnd;
    }
    const Message& m = parsed.record.message;
    const bool is_meant = m.topic == request.topic && m.queue_id.value() == request.queue_id && parsed.record.place.queue == request.scanned_to;
    if (!is_meant && !MUTANT(PullBelievesItsQueue)) return Stop::Damaged;
  }
  const FileSlice slice = log_.slice(ctx, entry.at, entry.bytes);
  const bool is_next = !answer.slices.empty() && answer.slices.back().file == slice.file && answer.slices.back().range.end == slice.range.begin;
  SOMETIMES("pull: merges neighbours", is_next);
  if (is_next) answer.slices.back().range.end = slice.range.end;
  else answer.slices.push_back(slice);
  answer.bytes += entry.bytes;
  ++answer.count;
  return Stop::ScanEnd;
}

// Less than a quarter of what was asked for, once, and nothing that cannot be read is near.
bool Pulls::is_worth_waiting(const PullRequest& request, const PullAnswer& answer) const {
  if (request.has_waited || request.is_narrow) return false;
  return answer.count < request.count_max / 4 && answer.bytes < std::min(request.bytes_max, limits::kPullSliceBytesMax) / 4;
}

// Asks for the records from entry `cold_from_` on that this pull still lacks, as far as they were read and lie in one file.
void Pulls::fetch(Ctx& ctx, const PullRequest& request, const PullAnswer& answer, WarmToken token) {
  const QueueEntry& first = entries_[cold_from_];
  const uint64_t file_end = log_.file_end(first.at).value();
  missing_.assign(1, Range{first.at.value(), first.at.value() + first.bytes});
  if (request.is_narrow) return log_.warm(ctx, first.at, first.bytes, token);

  int32_t count = answer.count + 1;
  uint64_t bytes = answer.bytes + first.bytes, asked = first.bytes;
  for (size_t i = cold_from_ + 1; i < entries_.size() && count < request.count_max; ++i) {
    const QueueEntry& entry = entries_[i];
    if (entry.bytes == kPreBlankBytes || !request.filter.matches(entry.tag_code)) continue;
    const uint64_t begin = entry.at.value(), end = begin + entry.bytes;
    // Entries out of order are damage: the run that comes to them will say so.
    if (begin < missing_.back().end || end > file_end || bytes + entry.bytes > std::min(request.bytes_max, limits::kPullSliceBytesMax)) break;
    ++count;
    bytes += entry.bytes;
    if (log_.readiness(entry.at, entry.bytes, ctx.now.monotonic) == CommitLog::Readiness::Ready) continue;
    const bool is_near = begin - missing_.back().end <= limits::kPullGapBytes;
    asked += is_near ? end - missing_.back().end : entry.bytes;
    if (asked > limits::kPullWarmBytesMax || (!is_near && missing_.size() == limits::kPullRangesMax)) break;
    if (is_near) missing_.back().end = end;
    else missing_.push_back({begin, end});
  }
  SOMETIMES("pull: fetches records that lie far apart", missing_.size() > 1);
  if (Range& only = missing_.front(); missing_.size() == 1) {
    const uint64_t ahead = std::clamp(only.size() * limits::kPullAheadTimes, limits::kPullWarmBytesMin, limits::kPullWarmBytesMax);
    only.end = std::max(only.end, std::min({only.begin + ahead, file_end, log_.own_tail_begin().value()}));
  }
  log_.warm_all(ctx, missing_, token);
}

void Pulls::on_queue_ready(uint64_t token) {
  if (cold_.find(token) != nullptr) ready_.push_back({cold_.take(token), {}});
}

void Pulls::on_warmed(const Warmed& warmed) {
  if (cold_.find(warmed.token.what) == nullptr) return;
  Retry retry{cold_.take(warmed.token.what), warmed.outcome};
  // The page that cannot be read may be somebody else's.
  const bool is_last_word = retry.outcome || retry.outcome.code() != Errc::Unreadable || std::exchange(retry.request.is_narrow, true);
  if (!is_last_word) {
    SOMETIMES("pull: asks for its next record alone", true);
    retry.outcome = {};
  }
  ready_.push_back(std::move(retry));
}

std::vector<Asker> Pulls::take_askers() {
  std::vector<uint64_t> tokens;
  cold_.for_each([&](uint64_t token, const PullRequest&) { tokens.push_back(token); });
  std::vector<Asker> out;
  for (const uint64_t token : tokens) out.push_back(cold_.take(token).asker);
  return out;
}

void Pulls::drop(ConnId conn) {
  std::vector<uint64_t> gone;
  cold_.for_each([&](uint64_t token, const PullRequest& request) {
    if (!request.asker.is_host && request.asker.conn == conn) gone.push_back(token);
  });
  for (const uint64_t token : gone) cold_.take(token);
}

}  // namespace fulmar
