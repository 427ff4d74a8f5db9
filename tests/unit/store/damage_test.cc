// Damage below the flushed end that a start meets only where it builds something derived anew.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/store/store_harness.h"

namespace fulmar::testing {
namespace {

class DamageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(store.run_until(Store::State::Serving));
    for (int i = 0; i < 6; ++i) {
      while (!store.append("t", 0, std::string(1000, static_cast<char>('a' + i)))) store.run(5);
      store.run(200);
    }
    store.step(nullptr, [&](Ctx& ctx) { store.store->begin_stop(ctx); });
    ASSERT_TRUE(store.run_until(Store::State::Stopped));
    store.kill();
  }
  // Flips a bit in the body of the record whose body is full of `letter`, and takes the queue's files away.
  void hurt(char letter) {
    const std::string path = "store/commitlog/00000000000000000000";
    const Bytes before = store.driver.contents(path);
    std::vector<uint8_t> rotten(before.begin(), before.end());
    const std::string body(500, letter);
    const auto at = std::search(rotten.begin(), rotten.end(), body.begin(), body.end());
    ASSERT_NE(at, rotten.end());
    *at ^= 4;
    store.driver.put(path, rotten);
    for (const FileEntry& entry : store.driver.list("store/consumequeue/t")) store.driver.erase("store/consumequeue/t/" + entry.path);
  }
  std::vector<QueueEntry> entries() {
    std::vector<QueueEntry> out;
    const QueueRange range = store.store->queues().range("t", QueueId(0));
    for (int i = 0; i < 100; ++i) {
      out.clear();
      bool is_done = false;
      store.step(nullptr, [&](Ctx& ctx) { is_done = store.store->queues().read(ctx, "t", QueueId(0), range.min, range.max - range.min, 1, out); });
      if (is_done) break;
      store.run(5);
    }
    return out;
  }
  StoreHarness store{Seed{5}};
};

TEST_F(DamageTest, OneRecordIsLostAndNothingElse) {
  hurt('c');
  ASSERT_TRUE(store.run_until(Store::State::Damaged));
  EXPECT_TRUE(store.driver.has_event("RotFound"));
  ASSERT_EQ(store.store->holes().size(), 1u);
  const QueueRange range = store.store->queues().range("t", QueueId(0));
  EXPECT_EQ(range.min, QueueOffset(0));
  EXPECT_EQ(range.max, QueueOffset(6));
  const std::vector<QueueEntry> all = entries();
  ASSERT_EQ(all.size(), 6u);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(all[i].bytes == kPreBlankBytes, i == 2) << i;
  EXPECT_FALSE(store.append("t", 0, "more")) << "a damaged store is read-only";
}

TEST_F(DamageTest, ItIsFoundAgainAndStopsInOrder) {
  hurt('c');
  ASSERT_TRUE(store.run_until(Store::State::Damaged));
  store.run(500);
  store.step(nullptr, [&](Ctx& ctx) { store.store->begin_stop(ctx); });
  ASSERT_TRUE(store.run_until(Store::State::Stopped));
  EXPECT_FALSE(store.driver.exists("store/abort")) << "it would be taken for a crash, and the hole for a torn tail";
  store.kill();
  ASSERT_TRUE(store.run_until(Store::State::Damaged));
  EXPECT_EQ(entries().size(), 6u);
}

}  // namespace
}  // namespace fulmar::testing
