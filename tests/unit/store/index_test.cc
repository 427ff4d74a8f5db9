// The index: bytes, hashes, names, one round as outbox text, and what it does about a full disk.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/mutants.h"
#include "tests/unit/store/index_world.h"

namespace fulmar::testing {
namespace {

using ::testing::ElementsAre;

TEST(IndexFormat, HeaderAndEntryAreRocketMqs) {
  uint8_t header[kIndexHeaderBytes];
  encode_index_header(header, {Wall{1}, Wall{2}, PhysicalOffset(3), PhysicalOffset(0x0400), 5, 6});
  EXPECT_THAT(header, ElementsAre(0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 5, 0, 0, 0, 6));
  uint8_t entry[kIndexEntryBytes];
  encode_index_entry(entry, {0x01020304, PhysicalOffset(0x1122), 7, 8});
  EXPECT_THAT(entry, ElementsAre(1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0x11, 0x22, 0, 0, 0, 7, 0, 0, 0, 8));
  EXPECT_EQ(decode_index_entry(entry).previous, 8u);
}

TEST(IndexFormat, HashOfTheMinimumIntIsZero) {
  EXPECT_EQ(key_hash("a", "b"), 94400u);   // 31 * (31 * 97 + 35) + 98
  // A key that completes "t#" to a text whose Java hash is Integer.MIN_VALUE.
  const uint32_t prefix = static_cast<uint32_t>('t') * 31 + '#';
  std::string key;
  for (uint32_t length = 6; length <= 8 && key.empty(); ++length) {
    uint32_t power = 1;
    for (uint32_t i = 0; i < length; ++i) power *= 31;
    uint64_t rest = static_cast<uint32_t>(0x80000000u - prefix * power);
    for (int wraps = 0; wraps < 64 && key.empty(); ++wraps, rest += uint64_t{1} << 32) {
      uint64_t left = rest, unit = 1;
      for (uint32_t i = 1; i < length; ++i) unit *= 31;
      std::string made;
      for (uint32_t i = 0; i < length; ++i, unit /= 31) {
        const uint64_t below = (unit - 1) / 30 * 40;                      // the others take at least 40 each
        const uint64_t digit = left > below ? std::min<uint64_t>((left - below) / unit, 126) : 0;
        if (digit < 40) break;
        made += static_cast<char>(digit);
        left -= digit * unit;
      }
      if (made.size() == length && left == 0) key = made;
    }
  }
  ASSERT_FALSE(key.empty());
  EXPECT_EQ(key_hash("t", key), 0u);
  mutants::plant(Mutant::IndexHashKeepsMinimum);
  EXPECT_NE(key_hash("t", key), 0u);   // the bug that the line above finds
  mutants::plant(Mutant::None);
}

TEST(IndexFormat, FilesAreNamedByLocalTime) {
  EXPECT_EQ(index_file_name(Wall{1'700'000'000'123}, 0), "20231114221320123");
  EXPECT_EQ(index_file_name(Wall{1'700'000'000'123}, 8 * 3600), "20231115061320123");
  EXPECT_EQ(index_file_name(Wall{1'709'164'800'000}, 0), "20240229000000000");
}

TEST(Index, ARoundFlushesEntriesThenSlotsThenHeader) {
  IndexWorld world(Seed{1});
  world.load();
  world.append("t", "u1", "a b");
  world.append("t", "u2", "a", sys_flag::kRollback);
  world.dispatch();
  EXPECT_EQ(world.query("t", "a"), std::vector<uint64_t>{0});
  std::string text;
  world.begin_round();
  text += world.driver.last_text();
  while (world.turn()) text += world.driver.last_text();
  EXPECT_THAT(text, ::testing::MatchesRegex("map index/20231114221320000 4296 new\nprepare 1 .0, 296.\nprepare 1 .316, 4296.\n"
                                            "flush 1 .0, 376.\nflush 1 .[0-9]+, [0-9]+.\nflush 1 .0, 40.\n"));
  EXPECT_TRUE(world.index->is_round_done());
  EXPECT_EQ(world.index->entry_count(), 3u);
  EXPECT_EQ(world.query("t", "b"), std::vector<uint64_t>{0});
  EXPECT_TRUE(world.query("t", "u2").empty());
}

// A removal that was allowed once allows nothing that is forgotten later: until the new begin is durable a start counts these files.
TEST(Index, ForgottenFilesWaitForTheirOwnPermission) {
  IndexWorld world(Seed{1}, 16, 10);
  world.load();
  for (int i = 0; i < 60; ++i) world.append("t", fmt::format("u{}", i));
  world.dispatch();
  world.round();
  const auto file_count = [&] { return world.driver.list("index").size(); };
  const auto forget = [&](uint64_t begin) { world.step([&](Ctx& ctx) { world.index->forget_before(PhysicalOffset(begin)), world.index->pump(ctx); }); };
  const auto remove = [&] { world.step([&](Ctx& ctx) { world.index->remove_forgotten(ctx), world.index->pump(ctx); }); };
  const size_t all = file_count();
  ASSERT_GE(all, 6u);
  for (const uint64_t begin : {uint64_t{2000}, uint64_t{4000}}) {
    const size_t before = file_count();
    forget(begin);
    world.settle();
    EXPECT_EQ(file_count(), before) << "begin " << begin;
    remove();
    world.settle();
    EXPECT_LT(file_count(), before) << "begin " << begin;
  }
  EXPECT_EQ(world.query("t", "u59"), std::vector<uint64_t>{5900});
}

TEST(Index, AFullDiskStopsTheIndexAndNothingElse) {
  IndexWorld world(Seed{1});
  world.load();
  world.append("t", "u1");
  world.dispatch();
  world.driver.is_disk_full = true;
  world.round();
  ASSERT_NE(world.index->blocked(), nullptr);
  EXPECT_FALSE(world.index->is_round_done());
  EXPECT_EQ(world.query("t", "u1").size(), 1u);
  world.driver.is_disk_full = false;
  world.driver.advance(Duration::seconds(1));
  world.step([&](Ctx& ctx) { world.index->pump(ctx); });
  world.settle();
  EXPECT_TRUE(world.index->is_round_done());
}

TEST(Index, ACountFoundInTheCacheIsMadeDurableFirst) {
  IndexWorld world(Seed{1});
  world.load();
  for (int i = 0; i < 199; ++i) world.append("t", "u" + std::to_string(i));
  world.dispatch();
  world.begin_round();
  while (world.driver.last_text().find(".0, 40.") == std::string::npos && world.driver.last_text().find("[0, 40)") == std::string::npos) ASSERT_TRUE(world.turn());
  world.driver.kill();   // the file is full, says its header, which no flush covers
  world.restart();
  world.settle();
  EXPECT_TRUE(world.index->is_settled());
  EXPECT_EQ(world.index->entry_count(), 199u + 199u);   // found, and dispatched once more
  world.round();                                        // into the next file
  world.driver.crash({0, 1});
  world.restart();
  EXPECT_FALSE(world.index->needs_rebuild());
  EXPECT_EQ(world.index->entry_count(), 199u + 199u);
}

TEST(Index, AMissingFileMeansARebuild) {
  IndexWorld world(Seed{1});
  world.load();
  for (int i = 0; i < 250; ++i) world.append("t", "u" + std::to_string(i));
  world.dispatch();
  world.round();
  world.driver.crash({1, 2});
  world.driver.erase("index/20231114221320000");
  world.restart();
  EXPECT_TRUE(world.index->needs_rebuild());
  EXPECT_EQ(world.difference("t", "u7"), "");
  world.round();
  EXPECT_EQ(world.difference("t", "u7"), "");
}

}  // namespace
}  // namespace fulmar::testing
