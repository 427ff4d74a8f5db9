#include "core/consume/query.h"

#include <algorithm>

#include "core/base/marks.h"

namespace fulmar {

namespace {
constexpr uint64_t kProbeBytes = 4096;   // enough for most records; longer ones are fetched once their size is known
constexpr size_t kFetchesMax = 16;       // in a row without getting on: a disk slower than what it fetches stays warm

bool has_key(const Message& message, std::string_view key) {
  bool has = false;
  property::for_each(message.properties, [&](std::string_view name, std::string_view value) {
    if (name == property::kUniqueKey) has = has || value == key;
    if (name != property::kKeys) return;
    while (!value.empty()) {
      const size_t end = value.find(' ');
      has = has || value.substr(0, end) == key;
      if (end == std::string_view::npos) break;
      value.remove_prefix(end + 1);
    }
  });
  return has;
}
}  // namespace

Result<std::optional<QueryAnswer>> Queries::run(Ctx& ctx, MessageQuery& query) {
  if (query.fetches > kFetchesMax) return Error(Errc::Full, fmt::format("this query fetched {} times in vain", query.fetches));
  const std::optional<uint64_t> token = waiting_.add({});
  if (!token) return Error(Errc::Full, fmt::format("{} queries wait for the disk", waiting_.size()));
  const PhysicalOffset oldest_before = query.oldest;
  const uint32_t asked_before = query.asked;
  const bool had_candidates = query.has_candidates;
  if (!judge(ctx, query, *token)) {
    const bool is_postponed = !postponed_.empty() && postponed_.back() == *token;
    const uint64_t walked = query.has_candidates ? 0 : index_.walked(query.walk);
    const bool gets_on = query.oldest != oldest_before || query.asked != asked_before || query.has_candidates != had_candidates || walked > query.walked;
    query.walked = std::max(query.walked, walked);
    if (gets_on) query.fetches = 0;
    else if (!is_postponed) ++query.fetches;
    *waiting_.find(*token) = std::move(query);
    return std::optional<QueryAnswer>();
  }
  waiting_.take(*token);
  if (query.at && query.found == 0) return Error(Errc::NotFound, fmt::format("no message begins at physical offset {}", *query.at));
  return std::optional(QueryAnswer{query.found, std::move(query.records)});
}

bool Queries::judge(Ctx& ctx, MessageQuery& query, uint64_t token) {
  while (true) {
    if (!query.has_candidates) {
      if (query.at) query.candidates.push_back({*query.at});
      else if (!walk_index(ctx, query, token)) return false;
      query.has_candidates = true;
      const auto below = [&](const KeyHit& hit) { return hit.at >= query.oldest; };
      query.judged = static_cast<size_t>(std::partition_point(query.candidates.begin(), query.candidates.end(), below) - query.candidates.begin());
    }
    if (!judge_candidates(ctx, query, token)) return false;
    // The index knows seconds: very many messages of one second may stand before those that were asked for.
    const bool is_cut_short = query.candidates.size() >= query.asked && query.asked < limits::kQueryCandidatesMax && !MUTANT(QueryStopsAtItsCandidates);
    if (query.at || query.is_full || query.found >= query.count_max || !is_cut_short) return true;
    SOMETIMES("query: walks on behind candidates that were none", true);
    query.candidates.clear();
    query.has_candidates = false;
    query.walk = 0;
  }
}

bool Queries::judge_candidates(Ctx& ctx, MessageQuery& query, uint64_t token) {
  while (query.judged < query.candidates.size() && query.found < query.count_max && !query.is_full) {
    if (step_bytes_ > limits::kQueryStepBytesMax) {
      SOMETIMES("query: goes on in the next step", true);
      postponed_.push_back(token);
      return false;
    }
    if (look(ctx, query, query.candidates[query.judged].at, token) == Look::Cold) return false;
    query.oldest = query.candidates[query.judged].at;
    ++query.judged;
  }
  return true;
}

// The index goes on where it stood only when it is asked under the same name again.
bool Queries::walk_index(Ctx& ctx, MessageQuery& query, uint64_t token) {
  if (query.walk == 0) {
    query.walk = next_walk_++;
    query.walked = 0;
    query.asked = std::min(query.asked == 0 ? static_cast<uint32_t>(query.count_max) + limits::kQueryCollisionsMax : query.asked * 4, limits::kQueryCandidatesMax);
  }
  if (index_.query(ctx, query.topic, query.key, query.begin, query.end, query.asked, query.walk, query.candidates)) {
    walks_.erase(query.walk);
    return true;
  }
  walks_[query.walk] = token;
  return false;
}

// Reads the candidate and keeps it when it is what was asked for.
Queries::Look Queries::look(Ctx& ctx, MessageQuery& query, PhysicalOffset at, uint64_t token) {
  // Above what was dispatched nobody may see anything (decision 12).
  if (at < watermarks_.begin || at >= watermarks_.dispatched) return Look::No;
  const uint64_t room = std::min((watermarks_.appended - at).value(), (log_.file_end(at) - at).value());
  uint64_t bytes = std::min(kProbeBytes, room);
  if (log_.readiness(at, bytes, ctx.now.monotonic) == CommitLog::Readiness::Outside) return Look::No;
  if (!is_ready(ctx, at, bytes, token)) return Look::Cold;
  ParsedRecord parsed = parse_record(log_.view(ctx, at, bytes), at, Verify::Checksums);
  if (parsed.is_cut_short && parsed.bytes > bytes && parsed.bytes <= room) {
    bytes = parsed.bytes;
    if (!is_ready(ctx, at, bytes, token)) return Look::Cold;
    parsed = parse_record(log_.view(ctx, at, bytes), at, Verify::Checksums);
  }
  step_bytes_ += bytes;
  if (parsed.kind != RecordKind::Message) return Look::No;
  const RecordView& record = parsed.record;
  if (query.at) {
    if (record.message.topic == kMetaTopic) return Look::No;
  } else {
    const bool is_match = record.message.topic == query.topic && has_key(record.message, query.key);
    SOMETIMES("query: a hash collision", !is_match);
    if (!is_match || record.place.stored < query.begin || record.place.stored > query.end) return Look::No;
  }
  if (query.found > 0 && query.records.size() + record.total_bytes > limits::kQueryBytesMax) {
    query.is_full = true;   // the newest ones leave
    return Look::No;
  }
  const Bytes whole = log_.view(ctx, at, record.total_bytes);
  query.records.insert(query.records.end(), whole.begin(), whole.end());
  ++query.found;
  return Look::Yes;
}

bool Queries::is_ready(Ctx& ctx, PhysicalOffset at, uint64_t bytes, uint64_t token) {
  if (log_.readiness(at, bytes, ctx.now.monotonic) == CommitLog::Readiness::Ready) return true;
  SOMETIMES("query: waits for a cold record", true);
  log_.warm(ctx, at, bytes, WarmToken{WarmFor::Query, token});
  return false;
}

void Queries::on_index_ready(uint64_t walk) {
  const auto found = walks_.find(walk);
  if (found == walks_.end()) return;
  const uint64_t token = found->second;
  walks_.erase(found);
  if (waiting_.find(token) != nullptr) ready_.push_back({waiting_.take(token), {}});
}

void Queries::on_warmed(const Warmed& warmed) {
  if (waiting_.find(warmed.token.what) != nullptr) ready_.push_back({waiting_.take(warmed.token.what), warmed.outcome});
}

std::vector<Queries::Retry> Queries::take_ready() {
  step_bytes_ = 0;
  for (const uint64_t token : std::exchange(postponed_, {})) ready_.push_back({waiting_.take(token), {}});
  return std::exchange(ready_, {});
}

std::vector<Asker> Queries::take_askers() {
  postponed_.clear();
  std::vector<uint64_t> tokens;
  waiting_.for_each([&](uint64_t token, const MessageQuery&) { tokens.push_back(token); });
  std::vector<Asker> out;
  for (const uint64_t token : tokens) out.push_back(waiting_.take(token).asker);
  return out;
}

void Queries::drop(ConnId conn) {
  std::vector<uint64_t> gone;
  waiting_.for_each([&](uint64_t token, const MessageQuery& query) {
    if (!query.asker.is_host && query.asker.conn == conn) gone.push_back(token);
  });
  for (const uint64_t token : gone) {
    waiting_.take(token);
    std::erase(postponed_, token);
  }
}

}  // namespace fulmar
