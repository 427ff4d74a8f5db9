// WarmRanges against a model that keeps every byte for itself: any run of fetches, owning, releasing and cooling.

#include "core/store/warm_ranges.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <optional>
#include <string>

#include "core/base/prng.h"

namespace fulmar {
namespace {

constexpr uint64_t kUnit = WarmRanges::kMappedAround / 4;   // so that what is widened meets its neighbours
constexpr uint64_t kCells = 64;

struct Cell {
  bool may_be_resident = false, is_owned = false;
  int fetches = 0;
  std::optional<Monotonic> fetched_at;   // the last time that all of it came
};

struct World {
  explicit World(uint64_t seed) : draw(Seed{seed}) {}
  Prng draw;
  WarmRanges ranges;
  std::array<Cell, kCells> cells;
  std::vector<Range> under_way;          // in cells
  Monotonic now{50'000'000'000};

  Range some() {
    const uint64_t begin = draw.below(kCells);
    return {begin, begin + 1 + draw.below(std::min<uint64_t>(kCells - begin, 9))};
  }
  static Range bytes(Range cells_of) { return {cells_of.begin * kUnit, cells_of.end * kUnit}; }
  bool may_be_warm(const Cell& cell) const { return cell.is_owned || (cell.fetched_at && now < *cell.fetched_at + limits::kWarmFor); }
  // Less than an eighth is lost to rounding.
  bool must_be_warm(const Cell& cell) const {
    return cell.is_owned || (cell.fetched_at && now < *cell.fetched_at + limits::kWarmFor * 7 / 8);
  }

  std::string act() {
    const uint64_t what = draw.below(100);
    const Range range = some();
    if (what < 30) {
      ranges.fetching(bytes(range));
      under_way.push_back(range);
      for (uint64_t i = range.begin; i < range.end; ++i) { ++cells[i].fetches; cells[i].may_be_resident = true; }
    } else if (what < 60 && !under_way.empty()) {
      const size_t which = draw.below(under_way.size());
      const Range home = under_way[which];
      under_way.erase(under_way.begin() + static_cast<ptrdiff_t>(which));
      const bool is_here = draw.chance({5, 6});
      ranges.fetched(bytes(home), is_here, now);
      for (uint64_t i = home.begin; i < home.end; ++i) {
        --cells[i].fetches;
        if (is_here) cells[i].fetched_at = now;
      }
    } else if (what < 68) {
      ranges.own(bytes(range));
      for (uint64_t i = range.begin; i < range.end; ++i) cells[i].is_owned = cells[i].may_be_resident = true;
    } else if (what < 78) {
      ranges.release(bytes(range), now);
      for (uint64_t i = range.begin; i < range.end; ++i) {
        cells[i].may_be_resident = true;
        if (std::exchange(cells[i].is_owned, false)) cells[i].fetched_at.reset();   // what it was before is not kept
      }
    } else if (what < 90) {
      now = now + Duration::milliseconds(static_cast<int64_t>(draw.below(600)));
    } else {
      return cool();
    }
    return {};
  }

  std::string cool() {
    const bool was_over = ranges.is_over();
    uint64_t last_end = 0;
    bool is_first = true;
    for (const Range& cold : ranges.take_cold(now)) {
      if (cold.empty() || (!is_first && cold.begin <= last_end)) return "not ascending and disjoint";
      if (cold.begin % kUnit != 0 || cold.end % kUnit != 0) return "cuts through a cell";
      is_first = false;
      last_end = cold.end;
      for (uint64_t i = cold.begin / kUnit; i < std::min(cold.end / kUnit, kCells); ++i) {
        if (cells[i].fetches > 0) return "cools what is being fetched: cell " + std::to_string(i);
        if (!was_over && must_be_warm(cells[i])) return "cools what is warm: cell " + std::to_string(i);
        cells[i] = {};
      }
    }
    for (uint64_t i = 0; i < kCells; ++i)
      if (cells[i].may_be_resident && cells[i].fetches == 0 && !may_be_warm(cells[i])) return "forgets cell " + std::to_string(i);
    return {};
  }

  std::string compare() {
    for (uint64_t i = 0; i < kCells; ++i) {
      const uint64_t begin = i * kUnit;
      const bool is_warm = ranges.covers({begin, begin + kUnit}, now);
      if (is_warm && !may_be_warm(cells[i])) return "claims cell " + std::to_string(i);
      if (!is_warm && must_be_warm(cells[i])) return "denies cell " + std::to_string(i);
      if (!is_warm && ranges.reach(begin, now) != begin) return "half a cell";
    }
    const Range range = some();
    bool all = true;
    for (uint64_t i = range.begin; i < range.end; ++i) all = all && ranges.covers(bytes({i, i + 1}), now);
    return all == ranges.covers(bytes(range), now) ? "" : "a range differs from its cells";
  }

  // Silence: what is under way comes home, nobody owns, a second passes: all of it is given back and the set is empty.
  std::string end() {
    for (const Range& home : std::exchange(under_way, {})) {
      ranges.fetched(bytes(home), true, now);
      for (uint64_t i = home.begin; i < home.end; ++i) { --cells[i].fetches; cells[i].fetched_at = now; }
    }
    ranges.release({0, kCells * kUnit}, now);
    for (Cell& cell : cells) cell.is_owned = false;
    now = now + limits::kWarmFor;
    if (std::string wrong = cool(); !wrong.empty()) return wrong;
    return ranges.empty() ? "" : "ranges are left";
  }
};

RC_GTEST_PROP(WarmRangesProperty, AgreesWithOneCellForEachPlace, (uint64_t seed)) {
  World world(seed);
  const int actions = *rc::gen::inRange(1, 400);
  for (int i = 0; i < actions; ++i) {
    std::string wrong = world.act();
    if (wrong.empty()) wrong = world.compare();
    if (!wrong.empty()) RC_FAIL(wrong);
  }
  const std::string wrong = world.end();
  if (!wrong.empty()) RC_FAIL(wrong);
}

// However many places are asked for, and whenever somebody looks: the set keeps to its bound and the oldest go first.
RC_GTEST_PROP(WarmRangesProperty, StaysBoundedAndForgetsTheOldestFirst, (uint64_t seed)) {
  Prng draw(Seed{seed});
  WarmRanges ranges;
  Monotonic now{1'000'000'000};
  const uint64_t step = *rc::gen::inRange<uint64_t>(1, 900);
  uint64_t oldest = 0;
  const auto place = [](uint64_t i) { return Range{i * 3 * WarmRanges::kMappedAround, i * 3 * WarmRanges::kMappedAround + 4096}; };
  for (uint64_t i = 0; i < 4000; ++i) {
    ranges.fetching(place(i));
    ranges.fetched(place(i), true, now);
    now = now + Duration::microseconds(static_cast<int64_t>(draw.below(step)));
    if (!ranges.is_over()) continue;
    for (const Range& cold : ranges.take_cold(now)) {
      // Widened, and joined with what lies around the next one.
      for (; oldest <= i && place(oldest).begin < cold.end; ++oldest) RC_ASSERT(cold.begin <= place(oldest).begin && place(oldest).end <= cold.end);
    }
    RC_ASSERT(ranges.size() <= WarmRanges::kRangesMax);
    RC_ASSERT(i + 1 - oldest == ranges.size());
    RC_ASSERT(ranges.covers(place(i), now));
  }
}

}  // namespace
}  // namespace fulmar
