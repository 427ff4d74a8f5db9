#include "core/store/warm_ranges.h"

#include <algorithm>

#include "core/base/check.h"

namespace fulmar {

namespace {

// Neighbours fetched in one such stretch of time are one range: a reader that runs through a file leaves eight a second, however small its
// steps. Rounded down, so that nothing stays warm for longer than it may.
constexpr int64_t kTogether = limits::kWarmFor.ns / 8;

Monotonic rounded(Monotonic at) { return {at.ns / kTogether * kTogether}; }

}  // namespace

// --- kinds ------------------------------------------------------------------------------------------------------------------------------

void WarmRanges::split(uint64_t at) {
  auto it = ranges_.upper_bound(at);
  if (it == ranges_.begin()) return;
  --it;
  if (it->first == at || it->second.end <= at) return;
  const auto behind = ranges_.emplace(at, it->second).first;
  it->second.end = at;
  index(behind);
}

template <class Change>
void WarmRanges::change(Range range, const Change& change) {
  if (range.empty()) return;
  split(range.begin);
  split(range.end);
  auto it = ranges_.lower_bound(range.begin);
  for (uint64_t at = range.begin; at < range.end; at = it->second.end, ++it) {
    const bool is_gap = it == ranges_.end() || it->first != at;
    if (is_gap) it = ranges_.emplace_hint(it, at, Held{it == ranges_.end() ? range.end : std::min(it->first, range.end), {}});
    else unindex(it);
    change(it->second.kind);
    index(it);
  }
  join(range);
}

void WarmRanges::join(Range range) {
  auto it = ranges_.lower_bound(range.begin);
  if (it != ranges_.begin()) --it;
  for (auto next = std::next(it); next != ranges_.end() && next->first <= range.end;) {
    if (it->second.end == next->first && it->second.kind == next->second.kind) {
      unindex(next);
      it->second.end = next->second.end;
      next = ranges_.erase(next);
    } else {
      it = next++;
    }
  }
}

void WarmRanges::fetching(Range range) {
  change(range, [](Kind& kind) { ++kind.fetches; });
}

void WarmRanges::fetched(Range range, bool is_here, Monotonic now) {
  const Monotonic until = rounded(is_here ? now + limits::kWarmFor : now);
  change(range, [&](Kind& kind) {
    CHECK(kind.fetches > 0, "[{}, {}) came home, nobody asked", range.begin, range.end);
    --kind.fetches;
    kind.until = std::max(kind.until, until);
  });
}

void WarmRanges::own(Range range) {
  change(range, [](Kind& kind) { kind.until = Monotonic::never(); });
}

void WarmRanges::release(Range range, Monotonic now) {
  change(range, [&](Kind& kind) { kind.until = kind.until == Monotonic::never() ? rounded(now) : std::max(kind.until, rounded(now)); });
}

// --- questions --------------------------------------------------------------------------------------------------------------------------

uint64_t WarmRanges::reach(uint64_t at, Monotonic now) const {
  auto it = ranges_.upper_bound(at);
  if (it == ranges_.begin()) return at;
  for (--it; it != ranges_.end() && it->first <= at && at < it->second.end && it->second.kind.until > now; ++it) at = it->second.end;
  return at;
}

std::vector<Range> WarmRanges::take_cold(Monotonic now) {
  // Room for a while, not for one.
  size_t surplus = is_over() ? by_age_.size() - kRangesMax * 3 / 4 : 0;
  std::vector<Range> cold;
  while (!by_age_.empty() && (surplus > 0 || by_age_.begin()->first <= now)) {
    const auto it = ranges_.find(by_age_.begin()->second);
    cold.push_back({it->first, it->second.end});
    by_age_.erase(by_age_.begin());
    ranges_.erase(it);
    surplus -= surplus > 0;
  }
  std::sort(cold.begin(), cold.end());
  std::vector<Range> out;
  for (Range range : cold) {
    const auto next = ranges_.lower_bound(range.end);
    const uint64_t floor = next == ranges_.begin() ? 0 : std::prev(next)->second.end, ceiling = next == ranges_.end() ? UINT64_MAX : next->first;
    range = {std::max(floor, range.begin - std::min(range.begin, kMappedAround)), std::min(ceiling, range.end + kMappedAround)};
    if (!out.empty() && range.begin <= out.back().end) out.back().end = range.end;
    else out.push_back(range);
  }
  return out;
}

}  // namespace fulmar
