#include <algorithm>
#include <map>
#include <set>

#include "tests/unit/sim/disk_fixture.h"

namespace fulmar::sim {
namespace {

// Pages in the order in which they are stored below.
constexpr std::array<uint64_t, 6> kOrder{3, 1, 5, 0, 4, 2};

class PatternTest : public DiskTest {
 protected:
  // Which of kOrder's places survived, after one crash with the pattern; a page is old (0) or new (1) as a whole.
  std::vector<bool> survivors(ImagePattern pattern, uint64_t seed) {
    make({}, 6);
    for (const uint64_t p : kOrder) store_page(p, 1);
    crash(seed, pattern);
    std::vector<bool> kept;
    for (const uint64_t p : kOrder) {
      EXPECT_TRUE(is_all(page(p), 0) || is_all(page(p), 1)) << to_string(pattern);
      kept.push_back(is_all(page(p), 1));
    }
    return kept;
  }
  std::set<std::vector<bool>> all(ImagePattern pattern, uint64_t seeds = 200) {
    std::set<std::vector<bool>> out;
    for (uint64_t seed = 0; seed < seeds; ++seed) out.insert(survivors(pattern, seed));
    return out;
  }
  static bool is_prefix(const std::vector<bool>& kept) { return std::is_sorted(kept.rbegin(), kept.rend()); }
  static bool is_suffix(const std::vector<bool>& kept) { return std::is_sorted(kept.begin(), kept.end()); }
  static size_t count(const std::vector<bool>& kept) { return static_cast<size_t>(std::count(kept.begin(), kept.end(), true)); }
};

TEST_F(PatternTest, NoneAndAll) {
  EXPECT_EQ(all(ImagePattern::None, 5), (std::set<std::vector<bool>>{std::vector<bool>(6, false)}));
  EXPECT_EQ(all(ImagePattern::All, 5), (std::set<std::vector<bool>>{std::vector<bool>(6, true)}));
}

TEST_F(PatternTest, PrefixAndSuffixOfTheStoreOrder) {
  const auto prefixes = all(ImagePattern::Prefix), suffixes = all(ImagePattern::Suffix);
  EXPECT_EQ(prefixes.size(), 7u);  // every length, and nothing else
  EXPECT_EQ(suffixes.size(), 7u);
  for (const auto& kept : prefixes) EXPECT_TRUE(is_prefix(kept));
  for (const auto& kept : suffixes) EXPECT_TRUE(is_suffix(kept));
}

TEST_F(PatternTest, OneHoleOneOnlyAlternate) {
  const auto holes = all(ImagePattern::OneHole), only = all(ImagePattern::OneOnly), alternate = all(ImagePattern::Alternate, 20);
  EXPECT_EQ(holes.size(), 6u);
  EXPECT_EQ(only.size(), 6u);
  EXPECT_EQ(alternate.size(), 2u);
  for (const auto& kept : holes) EXPECT_EQ(count(kept), 5u);
  for (const auto& kept : only) EXPECT_EQ(count(kept), 1u);
  for (const auto& kept : alternate) EXPECT_EQ(count(kept), 3u);
}

TEST_F(PatternTest, ReverseKeepsTheEndsOfFiles) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    make({}, 6);
    for (const uint64_t p : kOrder) store_page(p, 1);
    crash(seed, ImagePattern::Reverse);
    for (uint64_t p = 0; p + 1 < 6; ++p) EXPECT_LE(page(p)[0], page(p + 1)[0]);
  }
}

TEST_F(PatternTest, SectorTearSplitsOnePageAtASector) {
  bool has_mixture = false;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    make({}, 6);
    for (const uint64_t p : kOrder) store_page(p, 1);
    const CrashReport report = crash(seed, ImagePattern::SectorTear);
    EXPECT_EQ(report.pages_torn, 1u);
    size_t mixed = 0;
    for (uint64_t p = 0; p < 6; ++p) {
      for (uint64_t s = 0; s < kPageBytes; s += kSectorBytes) EXPECT_TRUE(is_all(page(p).subspan(s, kSectorBytes), page(p)[s]));
      mixed += !is_all(page(p), 0) && !is_all(page(p), 1);
    }
    EXPECT_LE(mixed, 1u);
    has_mixture = has_mixture || mixed == 1;
  }
  EXPECT_TRUE(has_mixture);
  EXPECT_GT(counts_[FaultClass::TornPage].mattered, 0u);
}

TEST_F(PatternTest, IntermediateFindsWhatWriteBackLeft) {
  std::set<uint8_t> seen;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    DiskProfile profile;
    profile.write_back = {1, 1};
    make(profile, 1);
    for (uint8_t version = 1; version <= 12; ++version) store_page(0, version);
    crash(seed, ImagePattern::Intermediate);
    seen.insert(page(0)[0]);
  }
  EXPECT_GT(seen.size(), 2u);
  EXPECT_TRUE(std::any_of(seen.begin(), seen.end(), [](uint8_t v) { return v > 0 && v < 12; }));
}

TEST_F(PatternTest, PanicDoesNotTear) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    make({}, 6);
    for (const uint64_t p : kOrder) store_page(p, 1);
    CrashReport report;
    Prng prng(Seed{seed});
    disk_->crash(CrashKind::Panic, prng, report);
    EXPECT_EQ(report.pages_torn, 0u);
  }
}

TEST_F(PatternTest, WeightsReachEveryPattern) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    make({}, 6);
    for (const uint64_t p : kOrder) store_page(p, 1);
    crash(seed);
  }
  for (size_t i = 0; i < kImagePatterns; ++i) {
    const auto kind = static_cast<FaultClass>(static_cast<size_t>(FaultClass::ImageNone) + i);
    EXPECT_GT(counts_[kind].mattered, 0u) << to_string(kind);
  }
}

// --- names ----------------------------------------------------------------------------------------------------------------------------

TEST_F(DiskTest, PendingNamesAreLostInDependencyClosedSubsets) {
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    make({}, 1);
    ASSERT_TRUE(disk_->create("store/cq/topic/0", kPageBytes, Wall{1}));
    ASSERT_TRUE(disk_->replace("store/meta", as_bytes("v1"), Wall{1}));
    crash(seed);
    std::string what;
    Prng order(Seed{1});
    auto entries = disk_->list("store", order);
    std::sort(entries.begin(), entries.end(), [](const FileEntry& a, const FileEntry& b) { return a.path < b.path; });
    for (const FileEntry& e : entries) what += e.path + " ";
    seen.insert(what);
    EXPECT_NE(what.find("log/0"), std::string::npos);  // committed before
    EXPECT_TRUE(what.find("cq/topic/0") == std::string::npos || what.find("cq/topic ") != std::string::npos);
  }
  EXPECT_GE(seen.size(), 6u);  // with and without each, the file without its directory never, strays too
  EXPECT_GT(counts_[FaultClass::ShortFile].fired, 0u);
  EXPECT_GT(counts_[FaultClass::StrayFile].fired, 0u);
}

TEST_F(DiskTest, PrefixOrderLosesOnlySuffixes) {
  DiskProfile profile;
  profile.meta_order = MetaOrder::Prefix;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    make(profile, 1);
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(disk_->create("store/" + std::to_string(i), kPageBytes, Wall{1}));
    crash(seed);
    bool has_gap = false;
    for (int i = 0; i < 4; ++i) {
      const bool is_there = disk_->lookup("store/" + std::to_string(i)).has_value();
      EXPECT_FALSE(has_gap && is_there);
      has_gap = has_gap || !is_there;
    }
  }
}

TEST_F(DiskTest, ReplaceIsOldOrNewAndRenameKeepsOneName) {
  std::set<std::string> contents;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    make({}, 1);
    store_page(0, 7);
    flush({0, kPageBytes});
    disk_->commit(*disk_->replace("store/meta", as_bytes("old"), Wall{1}));
    ASSERT_TRUE(disk_->replace("store/meta", as_bytes("newer"), Wall{1}));
    ASSERT_TRUE(disk_->rename(file_, "store/log/9"));
    EXPECT_FALSE(disk_->is_durable("store/log/9", {0, kPageBytes}));
    crash(seed);
    contents.insert(std::string(as_text(disk_->contents("store/meta"))));
    const bool has_old = disk_->lookup(kPath).has_value(), has_new = disk_->lookup("store/log/9").has_value();
    EXPECT_NE(has_old, has_new);
    EXPECT_TRUE(is_all(disk_->contents(has_old ? kPath : "store/log/9"), 7));
  }
  EXPECT_EQ(contents, (std::set<std::string>{"old", "newer"}));
}

}  // namespace
}  // namespace fulmar::sim
