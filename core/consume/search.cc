#include "core/consume/search.h"

#include <algorithm>

#include "core/base/marks.h"
#include "core/store/record.h"

namespace fulmar {

namespace {
constexpr int64_t kProbeEntries = 64;   // read at a time: of these the first that can be read is compared
}

Result<bool> Searches::run(Ctx& ctx, OffsetSearch& search, std::span<const Range> holes) {
  const std::optional<uint64_t> token = waiting_.add({});
  if (!token) return Error(Errc::Full, fmt::format("{} searches wait for the disk", waiting_.size()));
  while (search.found.size() < search.queues.size()) {
    const QueueRange range = queues_.range(search.topic, QueueId(search.queues[search.found.size()]));
    if (!std::exchange(search.has_range, true)) search.low = range.min, search.high = range.max;
    search.low = std::max(search.low, range.min);   // retention may have overtaken a search that waited
    while (search.low < search.high) {
      const QueueOffset middle = search.low + EntryCount((search.high - search.low).value() / 2);
      if (probe(ctx, search, middle, *token | kMine, holes) != Probe::Cold) continue;
      SOMETIMES("search: waits for the disk", true);
      *waiting_.find(*token) = std::move(search);
      return false;
    }
    search.found.push_back(search.low);
    search.has_range = false;
  }
  waiting_.take(*token);
  return true;
}

// Narrows [low, high) by what stands at `at`, which lies inside.
Searches::Probe Searches::probe(Ctx& ctx, OffsetSearch& search, QueueOffset at, uint64_t token, std::span<const Range> holes) {
  const QueueId queue(search.queues[search.found.size()]);
  for (QueueOffset from = at; from < search.high;) {
    entries_.clear();
    const EntryCount count(std::min<int64_t>(kProbeEntries, (search.high - from).value()));
    if (!queues_.read(ctx, search.topic, queue, from, count, token, entries_)) return Probe::Cold;
    if (entries_.empty()) break;
    for (const QueueEntry& entry : entries_) {
      const QueueOffset here = std::exchange(from, from + EntryCount(1));
      if (entry.bytes == kPreBlankBytes || entry.bytes == 0 || entry.at < watermarks_.begin) continue;
      const uint64_t begin = entry.at.value(), end = begin + entry.bytes;
      const auto hole = std::upper_bound(holes.begin(), holes.end(), begin, [](uint64_t offset, const Range& r) { return offset < r.end; });
      if (hole != holes.end() && hole->begin < end) continue;
      const CommitLog::Readiness readiness = log_.readiness(entry.at, entry.bytes, ctx.now.monotonic);
      if (readiness == CommitLog::Readiness::Outside) continue;
      if (readiness == CommitLog::Readiness::Cold) {
        log_.warm(ctx, entry.at, entry.bytes, WarmToken{WarmFor::Pull, token});
        return Probe::Cold;
      }
      const ParsedRecord parsed = parse_record(log_.view(ctx, entry.at, entry.bytes), entry.at, Verify::Structure);
      if (parsed.kind != RecordKind::Message) continue;
      const Wall stored = parsed.record.place.stored;
      const bool is_older = stored < search.stamp || (stored == search.stamp && MUTANT(SearchPassesOverStamp));
      if (is_older) search.low = here + EntryCount(1);
      else search.high = at;   // what cannot be read between `at` and here belongs to it
      return is_older ? Probe::Older : Probe::NotOlder;
    }
  }
  search.high = at;            // nothing behind it can be read
  return Probe::NotOlder;
}

void Searches::on_fetched(uint64_t token, const Result<void>& outcome) {
  const uint64_t slot = token & ~kMine;
  if (waiting_.find(slot) != nullptr) ready_.push_back({waiting_.take(slot), outcome});
}

std::vector<Asker> Searches::take_askers() {
  std::vector<uint64_t> tokens;
  waiting_.for_each([&](uint64_t token, const OffsetSearch&) { tokens.push_back(token); });
  std::vector<Asker> out;
  for (const uint64_t token : tokens) out.push_back(waiting_.take(token).asker);
  return out;
}

void Searches::drop(ConnId conn) {
  std::vector<uint64_t> gone;
  waiting_.for_each([&](uint64_t token, const OffsetSearch& search) {
    if (!search.asker.is_host && search.asker.conn == conn) gone.push_back(token);
  });
  for (const uint64_t token : gone) waiting_.take(token);
}

}  // namespace fulmar
