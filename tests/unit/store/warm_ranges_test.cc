#include "core/store/warm_ranges.h"

#include <gtest/gtest.h>

namespace fulmar {
namespace {

constexpr uint64_t kMiB = 1ull << 20;
constexpr Monotonic at_ms(int64_t ms) { return {ms * 1'000'000}; }
constexpr Monotonic kStart = at_ms(100'000);

TEST(WarmRanges, AFetchIsWarmWhenItIsHomeAndColdASecondLater) {
  WarmRanges ranges;
  ranges.fetching({4096, 8192});
  EXPECT_FALSE(ranges.covers({4096, 8192}, kStart));
  EXPECT_TRUE(ranges.take_cold(kStart + Duration::seconds(60)).empty()) << "it is under way";
  ranges.fetched({4096, 8192}, true, kStart);
  EXPECT_TRUE(ranges.covers({5000, 8192}, kStart));
  EXPECT_FALSE(ranges.covers({4095, 8192}, kStart));
  EXPECT_FALSE(ranges.covers({5000, 8193}, kStart));
  EXPECT_TRUE(ranges.take_cold(kStart + Duration::milliseconds(500)).empty());
  EXPECT_FALSE(ranges.covers({4096, 8192}, kStart + limits::kWarmFor));
  EXPECT_EQ(ranges.take_cold(kStart + limits::kWarmFor), (std::vector<Range>{{0, 8192 + WarmRanges::kMappedAround}}));
  EXPECT_TRUE(ranges.empty());
}

TEST(WarmRanges, AFetchThatFailedIsCooledForWhatCameOfIt) {
  WarmRanges ranges;
  ranges.fetching({4 * kMiB, 5 * kMiB});
  ranges.fetched({4 * kMiB, 5 * kMiB}, false, kStart);
  EXPECT_FALSE(ranges.covers({4 * kMiB, 5 * kMiB}, kStart));
  EXPECT_EQ(ranges.take_cold(kStart), (std::vector<Range>{{2 * kMiB, 7 * kMiB}}));
}

TEST(WarmRanges, NeighboursFetchedTogetherAreOneRange) {
  WarmRanges ranges;
  for (uint64_t at = 0; at < 100; ++at) {
    ranges.fetching({at * 4096, (at + 1) * 4096});
    ranges.fetched({at * 4096, (at + 1) * 4096}, true, kStart);
  }
  EXPECT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges.reach(0, kStart), 100u * 4096);
  // A reader that goes on for ten seconds leaves what it has behind it.
  for (int64_t ms = 0; ms < 10'000; ++ms) {
    const Monotonic now = kStart + Duration::milliseconds(ms);
    const uint64_t at = (100 + static_cast<uint64_t>(ms)) * 4096;
    ranges.fetching({at, at + 4096});
    ranges.fetched({at, at + 4096}, true, now);
    EXPECT_TRUE(ranges.covers({at, at + 4096}, now));
    (void)ranges.take_cold(now);
    ASSERT_LE(ranges.size(), 10u);
  }
}

TEST(WarmRanges, WhatIsStillWantedBoundsWhatIsCooled) {
  WarmRanges ranges;
  ranges.fetching({10 * kMiB, 11 * kMiB});
  ranges.fetched({10 * kMiB, 11 * kMiB}, true, kStart);
  const Monotonic later = kStart + limits::kWarmFor;
  ranges.own({9 * kMiB, 9 * kMiB + 4096});
  ranges.fetching({10 * kMiB + 8192, 10 * kMiB + 12288});
  EXPECT_EQ(ranges.take_cold(later), (std::vector<Range>{{9 * kMiB + 4096, 10 * kMiB + 8192}, {10 * kMiB + 12288, 13 * kMiB}}));
  ranges.fetched({10 * kMiB + 8192, 10 * kMiB + 12288}, true, later);
  EXPECT_TRUE(ranges.covers({10 * kMiB + 8192, 10 * kMiB + 12288}, later));
  EXPECT_TRUE(ranges.covers({9 * kMiB, 9 * kMiB + 4096}, Monotonic{later.ns * 1000}));
}

TEST(WarmRanges, WhatIsReleasedIsColdUnlessItWasFetchedLately) {
  WarmRanges ranges;
  ranges.own({0, 10 * kMiB});
  ranges.fetching({12 * kMiB, 13 * kMiB});
  ranges.fetched({12 * kMiB, 13 * kMiB}, true, kStart);
  ranges.release({8 * kMiB, 14 * kMiB}, kStart);
  EXPECT_EQ(ranges.reach(0, kStart), 8 * kMiB);
  EXPECT_TRUE(ranges.covers({12 * kMiB, 13 * kMiB}, kStart));
  EXPECT_EQ(ranges.take_cold(kStart), (std::vector<Range>{{8 * kMiB, 12 * kMiB}, {13 * kMiB, 16 * kMiB}}));
  EXPECT_EQ(ranges.size(), 2u);
}

TEST(WarmRanges, BeyondTheBoundTheOldestIsCooledEarly) {
  WarmRanges ranges;
  const auto place = [](uint64_t i) { return Range{i * 10 * kMiB, i * 10 * kMiB + 4096}; };
  for (uint64_t i = 0; i <= WarmRanges::kRangesMax; ++i) {
    EXPECT_FALSE(ranges.is_over());
    ranges.fetching(place(i));
    ranges.fetched(place(i), true, kStart + Duration::microseconds(static_cast<int64_t>(i) * 500));
  }
  EXPECT_TRUE(ranges.is_over());
  const Monotonic now = kStart + Duration::milliseconds(520);
  const std::vector<Range> cold = ranges.take_cold(now);
  EXPECT_EQ(cold.size(), WarmRanges::kRangesMax / 4 + 1);
  EXPECT_EQ(cold.back().end, place(WarmRanges::kRangesMax / 4).end + WarmRanges::kMappedAround);
  EXPECT_FALSE(ranges.covers(place(0), now));
  EXPECT_TRUE(ranges.covers(place(WarmRanges::kRangesMax), now));
}

TEST(Pages, WholeAndInner) {
  EXPECT_EQ(whole_pages({4097, 8193}, 100'000), (Range{4096, 12288}));
  EXPECT_EQ(whole_pages({99'000, 100'000}, 100'000), (Range{98304, 100'000}));
  EXPECT_EQ(inner_pages({4097, 12289}, 100'000), (Range{8192, 12288}));
  EXPECT_EQ(inner_pages({98'000, 100'000}, 100'000), (Range{98304, 100'000})) << "a file's last page may be a part of one";
  EXPECT_TRUE(inner_pages({4097, 8191}, 100'000).empty());
}

}  // namespace
}  // namespace fulmar
