// The generator, the hashes and the checksum: fixed outputs, because step hashes and stored files depend on each bit.

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "core/base/crc32.h"
#include "core/base/java_hash.h"
#include "core/base/mutants.h"
#include "core/base/prng.h"

namespace fulmar {
namespace {

TEST(Prng, IsSplitMix64) {
  // The published outputs of SplitMix64 for seed 0, and for 1234567.
  Prng zero(Seed{0});
  for (const uint64_t expected : {0xE220A8397B1DCDAFu, 0x6E789E6AA1B965F4u, 0x06C45D188009454Fu}) EXPECT_EQ(zero.next(), expected);
  Prng other(Seed{1234567});
  for (const uint64_t expected : {6457827717110365317u, 3203168211198807973u, 9817491932198370423u}) EXPECT_EQ(other.next(), expected);
}
TEST(Prng, BelowIsLemiresProduct) {
  // The high half of draw * bound, computed here by hand for one draw: 0xE220A8397B1DCDAF * 10 >> 64.
  EXPECT_EQ(Prng(Seed{0}).below(10), 8u);
  EXPECT_EQ(Prng(Seed{0}).below(256), 0xE2u);
  EXPECT_EQ(Prng(Seed{0}).below(1), 0u);
}
TEST(Prng, RangesReachBothEndsAndStayInside) {
  Prng prng(Seed{7});
  std::map<int64_t, int> seen;
  for (int i = 0; i < 3000; ++i) ++seen[prng.between(-2, 2)];
  ASSERT_EQ(seen.size(), 5u);
  EXPECT_EQ(seen.begin()->first, -2);
  EXPECT_EQ(seen.rbegin()->first, 2);
  for (const auto& [value, count] : seen) EXPECT_GT(count, 450) << value;
  EXPECT_EQ(prng.between(INT64_MIN, INT64_MIN), INT64_MIN);
  (void)prng.between(INT64_MIN, INT64_MAX);
}
TEST(Prng, ChanceIsARatio) {
  Prng prng(Seed{3});
  int hits = 0;
  for (int i = 0; i < 10'000; ++i) hits += prng.chance({1, 4});
  EXPECT_NEAR(hits, 2500, 200);
  EXPECT_FALSE(prng.chance({0, 1}));
  EXPECT_TRUE(prng.chance({1, 1}));
}
TEST(Prng, LogBetweenGivesEachPowerOfTwoItsShare) {
  Prng prng(Seed{11});
  std::map<int, int> by_bit;
  for (int i = 0; i < 10'000; ++i) {
    const uint64_t value = prng.log_between(3, 1000);
    ASSERT_GE(value, 3u);
    ASSERT_LE(value, 1000u);
    ++by_bit[63 - __builtin_clzll(value)];
  }
  EXPECT_EQ(by_bit.size(), 9u);  // 2..3 up to 512..1000
  for (const auto& [bit, count] : by_bit) EXPECT_NEAR(count, 1111, 200) << bit;
  EXPECT_EQ(prng.log_between(5, 5), 5u);
  EXPECT_GE(prng.log_between(1, UINT64_MAX), 1u);
}
TEST(Prng, ShuffleIsFixed) {
  std::vector<int> items{0, 1, 2, 3, 4, 5, 6, 7};
  Prng(Seed{1}).shuffle(std::span<int>(items));
  std::vector<int> sorted = items, again{0, 1, 2, 3, 4, 5, 6, 7};
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, again);
  Prng(Seed{1}).shuffle(std::span<int>(again));
  EXPECT_EQ(again, items);
}
TEST(HashText, IsFnv1a) {
  EXPECT_EQ(hash_text(""), 0xCBF29CE484222325u);
  EXPECT_EQ(hash_text("a"), 0xAF63DC4C8601EC8Cu);
  EXPECT_EQ(hash_text("foobar"), 0x85944171F73967E8u);
}

TEST(Crc32, IsZlibs) {
  EXPECT_EQ(crc32(as_bytes("123456789")), 0xCBF43926u);
  EXPECT_EQ(crc32({}), 0u);
  EXPECT_EQ(crc32({}, 0xCBF43926u), 0xCBF43926u);  // nothing follows
  EXPECT_EQ(crc32(as_bytes("789"), crc32(as_bytes("123456"))), 0xCBF43926u);
  EXPECT_EQ(record_crc(as_bytes("123456789")), 0x4BF43926u);
}
TEST(Crc32, CombinesWithoutTheBytes) {
  EXPECT_EQ(crc32_combine(crc32(as_bytes("12345")), crc32(as_bytes("6789")), 4), 0xCBF43926u);
  EXPECT_EQ(crc32_combine(0xCBF43926u, 0, 0), 0xCBF43926u);
  EXPECT_EQ(crc32_combine(0, 0xCBF43926u, 9), 0xCBF43926u);
  // A gap of zeros too long to walk: x^(8 * 2^32) computed by squaring equals itself computed in two halves.
  const uint32_t far = crc32_combine(1, 0, uint64_t{1} << 32);
  EXPECT_EQ(far, crc32_combine(crc32_combine(1, 0, uint64_t{1} << 31), 0, uint64_t{1} << 31));
}

TEST(JavaHash, IsStringHashCode) {
  EXPECT_EQ(java_hash(""), 0);
  EXPECT_EQ(java_hash("TagA"), 2598919);
  EXPECT_EQ(java_hash("Aa"), 2112);
  EXPECT_EQ(java_hash("BB"), 2112);
  EXPECT_EQ(java_hash("polygenelubricants"), INT32_MIN);
  EXPECT_EQ(java_hash("\xC3\xA9"), 0xE9);                        // é
  EXPECT_EQ(java_hash("\xE4\xB8\xAD"), 0x4E2D);                  // 中
  EXPECT_EQ(java_hash("\xF0\x9F\x98\x80"), 0xD83D * 31 + 0xDE00);  // U+1F600: two units
}
TEST(JavaHash, BadUtf8HashesAsReplacementCharacters) {
  EXPECT_EQ(java_hash("\xFF"), 0xFFFD);
  EXPECT_EQ(java_hash("\xC3"), 0xFFFD);                          // cut short
  EXPECT_EQ(java_hash("\xC0\x80"), 0xFFFD * 31 + 0xFFFD);        // overlong
  EXPECT_EQ(java_hash("\xF0\x9F"), java_hash("\xFF\xFF"));
}

TEST(Marks, CountWhatWasReached) {
  marks::reset();
  for (int i = 0; i < 5; ++i) SOMETIMES("tests: i is two or three", i == 2 || i == 3);
  SOMETIMES("tests: never true", false);
  ALWAYS("tests: holds", true);
  std::map<std::string, uint64_t> counts;
  for (const auto& count : marks::counts()) counts[count.name] = count.hits;
  EXPECT_EQ(counts["tests: i is two or three"], 2u);
  EXPECT_EQ(counts["tests: holds"], 1u);
  EXPECT_EQ(counts.count("tests: never true"), 0u);
}
TEST(Mutants, OnlyThePlantedOneFires) {
  ASSERT_EQ(mutants::planted(), Mutant::None);
  for (const auto& mutant : mutants::all()) {
    EXPECT_FALSE(mutants::hit(mutants::tag_of(mutant.id))) << mutant.name;
    mutants::plant(mutant.id);
    EXPECT_TRUE(mutants::hit(mutants::tag_of(mutant.id))) << mutant.name;
    EXPECT_EQ(mutants::fired(), 1u);
    mutants::plant(Mutant::None);
    EXPECT_NE(std::string_view(mutant.sentence), "");
    EXPECT_TRUE(std::string_view(mutant.oracle).front() == 'O' || std::string_view(mutant.oracle) == "unit") << mutant.name;
  }
}

}  // namespace
}  // namespace fulmar
