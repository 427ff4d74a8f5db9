// A start that takes its queues from their table, and everything that must keep it from doing so.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/store/queue_world.h"
#include "tests/unit/store/store_harness.h"

namespace fulmar::testing {
namespace {

const std::string kTablePath = "store/queues.fulmar";

QueueTableState some_table() {
  QueueTableState t;
  t.covers = PhysicalOffset(4711);
  t.log_begin = PhysicalOffset(64);
  t.file_bytes = 1280;
  t.topics = {{"a", {{0, 0, 5, 0, 1}, {7, 3, 100, 1280, 2}}}, {"b", {{1, 9, 9, 0, 0}}}};
  return t;
}

TEST(QueueTable, ReadsWhatItWrote) {
  EXPECT_EQ(parse_queue_table(encode_queue_table(some_table())), some_table());
  EXPECT_EQ(parse_queue_table(encode_queue_table({})), QueueTableState{});
}

TEST(QueueTable, EveryDamageIsNoticed) {
  const std::vector<uint8_t> good = encode_queue_table(some_table());
  for (size_t at = 0; at < good.size(); ++at) {
    std::vector<uint8_t> bad = good;
    bad[at] ^= 0x10;
    EXPECT_FALSE(parse_queue_table(bad)) << at;
    EXPECT_FALSE(parse_queue_table(Bytes(good).first(at))) << at;
  }
}

class QueueTableStart : public ::testing::Test {
 protected:
  void begin(FlushDiskType flush = FlushDiskType::Sync, uint64_t seed = 7) {
    BrokerConfig config = small_store_config();
    config.flush_disk_type = flush;
    sent.clear();
    store = std::make_unique<StoreHarness>(Seed{seed}, config);
    ASSERT_TRUE(store->run_until(Store::State::Serving));
  }
  void send(const std::string& topic, int32_t queue, int count) {
    for (int i = 0; i < count; ++i) {
      while (!store->append(topic, queue, "body " + std::to_string(sent[{topic, queue}]))) store->run(5);
      ++sent[{topic, queue}];
    }
  }
  // Until a table covers everything that was sent.
  void wait_for_table() {
    const auto covers = [&] {
      const std::optional<QueueTableState> table = on_disk();
      return table && table->covers == store->store->watermarks().appended;
    };
    ASSERT_TRUE(store->run_until(covers, 4000));
  }
  std::optional<QueueTableState> on_disk() const {
    if (!store->driver.exists(kTablePath)) return {};
    return parse_queue_table(store->driver.contents(kTablePath));
  }
  void expect_all() {
    for (const auto& [queue, count] : sent) {
      const auto bodies = store->read_queue(queue.first, queue.second);
      ASSERT_TRUE(bodies) << queue.first << " " << queue.second;
      EXPECT_EQ(bodies->size(), static_cast<size_t>(count)) << queue.first << " " << queue.second;
      for (const auto& [offset, body] : *bodies) EXPECT_EQ(body, "body " + std::to_string(offset));
    }
  }
  // Deletes topic t. True: a table on the disk still named a file of it when that was gone.
  bool goes_early() {
    bool was_early = false;
    store->step(nullptr, [&](Ctx& ctx) { store->store->queues().retire_topic(ctx, "t", store->store->watermarks().appended); });
    for (int i = 0; i < 3000; ++i) {
      store->run(1);
      const auto table = on_disk();
      const bool is_named = table && !table->topics.empty() && table->topics.front().name == "t" && table->topics.front().queues.front().files > 0;
      was_early |= is_named && !store->driver.exists("store/consumequeue/t/0/00000000000000000000");
    }
    return was_early;
  }
  size_t queue_files_opened_at_start() {
    size_t before = store->driver.maps_of("store/consumequeue");
    EXPECT_TRUE(store->run_until(Store::State::Serving));
    return store->driver.maps_of("store/consumequeue") - before;
  }
  std::unique_ptr<StoreHarness> store;
  std::map<std::pair<std::string, int32_t>, int> sent;
};

TEST_F(QueueTableStart, OpensNoQueueFileThatIsKnown) {
  begin();
  for (int q = 0; q < 5; ++q) send("t", q, 70);   // more than a file each
  wait_for_table();
  store->kill();
  EXPECT_EQ(queue_files_opened_at_start(), 0u);
  expect_all();
  send("t", 3, 10);
  expect_all();
}

TEST_F(QueueTableStart, WhatCameLaterIsFedFromTheLog) {
  begin();
  send("t", 0, 30);
  wait_for_table();
  send("t", 0, 50);
  send("u", 0, 20);
  store->run(300);   // a round later, and no table of it yet
  const auto covers = on_disk()->covers;
  for (int life = 0; life < 3; ++life) {
    store->cut_power({1, 2});
    ASSERT_TRUE(store->run_until(Store::State::Serving));
    EXPECT_LE(covers, store->store->watermarks().dispatched);
    expect_all();
  }
}

TEST_F(QueueTableStart, AMissingFileIsNoticed) {
  begin();
  send("t", 0, 150);
  wait_for_table();
  store->kill();
  for (const char* gone : {"00000000000000000000", "00000000000000001280"}) {
    store->driver.erase(std::string("store/consumequeue/t/0/") + gone);
    ASSERT_TRUE(store->run_until(Store::State::Serving));
    EXPECT_TRUE(store->driver.has_event("QueuesRebuilt")) << gone;
    expect_all();
    store->kill();
    if (on_disk()) break;
  }
}

TEST_F(QueueTableStart, ADamagedTableIsLeftAside) {
  begin();
  send("t", 0, 40);
  wait_for_table();
  store->kill();
  std::vector<uint8_t> bytes(store->driver.contents(kTablePath).begin(), store->driver.contents(kTablePath).end());
  bytes[bytes.size() / 2] ^= 1;
  store->driver.put(kTablePath, bytes);
  EXPECT_GT(queue_files_opened_at_start(), 0u);
  expect_all();
}

TEST_F(QueueTableStart, AFileThatACrashKeptFromBeingMadeGoesFirst) {
  begin();
  send("t", 0, 40);
  wait_for_table();
  store->kill();
  const std::string empty = "store/consumequeue/t/0/00000000000000001280";
  store->driver.put(empty, Bytes{});
  EXPECT_EQ(queue_files_opened_at_start(), 0u);
  EXPECT_FALSE(store->driver.exists(empty));
  send("t", 0, 40);
  store->run(300);
  expect_all();
}

// Its queues may hold entries of records that a power cut takes, so that only a stop leaves a table behind.
TEST_F(QueueTableStart, AsynchronousFlushWritesItAtTheEndOnly) {
  begin(FlushDiskType::Async);
  send("t", 0, 40);
  store->run(3000);
  EXPECT_FALSE(on_disk());
  store->step(nullptr, [&](Ctx& ctx) { store->store->begin_stop(ctx); });
  ASSERT_TRUE(store->run_until(Store::State::Stopped));
  EXPECT_TRUE(on_disk());
  store->kill();
  EXPECT_EQ(queue_files_opened_at_start(), 0u);
  expect_all();
  send("t", 0, 5);
  store->run(3000);
  EXPECT_FALSE(on_disk()) << "it would not know what this life writes";
  expect_all();
}

TEST_F(QueueTableStart, GoesBeforeTheFilesOfADeletedTopic) {
  begin();
  send("t", 0, 40);
  send("u", 0, 40);
  wait_for_table();
  EXPECT_FALSE(goes_early());
  EXPECT_FALSE(store->driver.exists("store/consumequeue/t/0/00000000000000000000"));
}

// In which order the disk does what it is asked at once is the seed's to say.
TEST_F(QueueTableStart, GoesFirstWhateverTheOrderAndTheTestNoticesWhenNot) {
  for (const bool is_broken : {false, true}) {
    int early = 0;
    for (uint64_t seed = 1; seed <= 16; ++seed) {
      begin(FlushDiskType::Sync, seed);
      send("t", 0, 40);
      send("u", 0, 40);
      wait_for_table();
      Planted planted(is_broken ? Mutant::QueueTableOutlivesFiles : Mutant::None);
      early += goes_early() ? 1 : 0;
    }
    EXPECT_EQ(early > 0, is_broken) << early;
  }
}

}  // namespace
}  // namespace fulmar::testing
