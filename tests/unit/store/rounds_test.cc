// When rounds begin, and what a stop does with queues that it has no time to write.

#include <gtest/gtest.h>

#include "tests/unit/store/queue_world.h"
#include "tests/unit/store/store_harness.h"

namespace fulmar::testing {
namespace {

class Rounds : public ::testing::Test {
 protected:
  static BrokerConfig config_of(uint32_t cost_us, FlushDiskType flush = FlushDiskType::Sync) {
    BrokerConfig config = small_store_config();
    config.flush_disk_type = flush;
    config.queue_round_cost_us = cost_us;
    return config;
  }
  void begin(const BrokerConfig& config) {
    sent.clear();
    store = std::make_unique<StoreHarness>(Seed{11}, config);
    ASSERT_TRUE(store->run_until(Store::State::Serving));
  }
  void send(int32_t queue, int count, size_t bytes = 10) {
    for (int i = 0; i < count; ++i) {
      std::string body = "body " + std::to_string(sent[queue]);
      body.resize(std::max(bytes, body.size()), '.');
      while (!store->append("t", queue, body)) store->run(5);
      ++sent[queue];
    }
  }
  void send_to_each(int32_t queues) {
    for (int32_t queue = 0; queue < queues; ++queue) send(queue, 1);
  }
  bool is_written() const {
    for (const auto& [name, value] : store->store->status(store->driver.now))
      if (name == "derivedOffset") return value == fmt::format("{}", store->store->watermarks().appended);
    return false;
  }
  // How long until everything is in the files of queues.
  Duration time_to_write() {
    const Monotonic from = store->driver.now.monotonic;
    EXPECT_TRUE(store->run_until([this] { return is_written(); }));
    return store->driver.now.monotonic - from;
  }
  void stop() {
    store->step(nullptr, [&](Ctx& ctx) { store->store->begin_stop(ctx); });
  }
  // True: everything that was sent is there, in order.
  bool has_all() {
    for (const auto& [queue, count] : sent) {
      const auto bodies = store->read_queue("t", queue);
      if (!bodies || bodies->size() != static_cast<size_t>(count)) return false;
      for (const auto& [offset, body] : *bodies)
        if (!body.starts_with("body " + std::to_string(offset))) return false;
    }
    return true;
  }
  std::unique_ptr<StoreHarness> store;
  std::map<int32_t, int> sent;
};

TEST_F(Rounds, FewQueuesAreWrittenEachSecondManyAreNot) {
  begin(config_of(4'000));   // a fifth of a second each
  send_to_each(3);
  EXPECT_LE(time_to_write().ms(), 1'100);
  send_to_each(40);
  const int64_t ms = time_to_write().ms();
  EXPECT_GE(ms, 7'000);
  EXPECT_LE(ms, 8'500);
  EXPECT_TRUE(has_all());
}

TEST_F(Rounds, AtLastEveryQueueIsWritten) {
  BrokerConfig config = config_of(1'000'000);
  config.consume_queue_flush_interval_max_ms = 30'000;
  begin(config);
  send_to_each(20);
  const int64_t ms = time_to_write().ms();
  EXPECT_GE(ms, 28'000);
  EXPECT_LE(ms, 31'000);
}

// What a start would have to feed again is bounded, and the test notices when it is not.
TEST_F(Rounds, BeginEarlyWhenMuchOfTheLogIsNotDerived) {
  for (const bool is_broken : {false, true}) {
    Planted planted(is_broken ? Mutant::RoundsForgetTheLog : Mutant::None);
    BrokerConfig config = config_of(10'000'000);
    config.consume_queue_flush_interval_max_ms = 86'400'000;
    begin(config);
    uint64_t most = 0;
    for (int i = 0; i < 300; ++i) {
      send(i % 16, 1, 1'000);
      store->run(20);
      const Watermarks& marks = store->store->watermarks();
      most = std::max(most, (marks.dispatched - marks.derived).value());
    }
    EXPECT_EQ(most > 2 * config.commit_log_file_bytes, is_broken) << most;
    EXPECT_TRUE(has_all());
  }
}

// Keys fill memory sooner than entries: one message may have hundreds.
TEST_F(Rounds, KeysAreWrittenWithoutTheQueues) {
  BrokerConfig config = config_of(10'000'000);
  config.consume_queue_flush_interval_max_ms = 86'400'000;
  config.commit_log_file_bytes = 16 << 20;
  config.async_unflushed_bytes_max = 4 << 20;
  config.index_slot_count = 10'000;
  config.index_entry_count = 400'000;
  begin(config);
  for (uint64_t keys = 0, message = 0; keys < limits::kPendingKeysRound + 1'000; ++message) {
    std::string properties = "KEYS\1";
    for (int i = 0; i < 1'000; ++i, ++keys) properties += std::to_string(keys) + " ";
    properties.back() = '\2';
    while (!store->append("t", static_cast<int32_t>(message % 8), "x", properties)) store->run(5);
    store->run(5);
  }
  const auto has_index = [&] { return !store->driver.list("store/index").empty(); };
  EXPECT_TRUE(store->run_until(has_index, 500));
  EXPECT_LT(store->driver.maps_of("store/consumequeue"), 1u);
}

TEST_F(Rounds, AStopWritesWhatItHasTimeFor) {
  begin(config_of(4'000));
  send_to_each(40);
  stop();
  ASSERT_TRUE(store->run_until(Store::State::Stopped));
  EXPECT_FALSE(store->driver.has_event("StopUnwritten"));
  EXPECT_FALSE(store->driver.exists("store/abort"));
  EXPECT_TRUE(store->driver.exists("store/consumequeue/t/39/00000000000000000000"));
}

TEST_F(Rounds, AStopLeavesVeryManyQueuesToTheNextStart) {
  for (const FlushDiskType flush : {FlushDiskType::Sync, FlushDiskType::Async}) {
    begin(config_of(100'000, flush));
    for (int round = 0; round < 2; ++round) {   // the last one counts
      send_to_each(5);
      (void)time_to_write();
    }
    for (int life = 0; life < 3; ++life) {
      send_to_each(30);
      const Monotonic from = store->driver.now.monotonic;
      stop();
      ASSERT_TRUE(store->run_until(Store::State::Stopped));
      EXPECT_LT((store->driver.now.monotonic - from).ms(), 1'000);
      EXPECT_TRUE(store->driver.has_event("StopUnwritten"));
      EXPECT_TRUE(store->driver.exists("store/abort")) << "a Java broker must look at the log, too";
      EXPECT_TRUE(store->driver.exists("store/queues.fulmar"));
      const auto page = Checkpoint::parse(store->driver.contents("store/checkpoint"));
      ASSERT_TRUE(page);
      EXPECT_TRUE(page->is_clean);
      EXPECT_EQ(page->flushed, store->store->watermarks().appended);
      EXPECT_LT(page->derived, page->flushed);
      EXPECT_LE(page->logics_msg, page->physic_msg);
      store->kill();
      ASSERT_TRUE(store->run_until(Store::State::Serving));
      EXPECT_FALSE(store->driver.has_event("QueuesRebuilt"));
      EXPECT_TRUE(has_all());
    }
    store->kill();
    store->wake(config_of(0, flush));
    ASSERT_TRUE(store->run_until(Store::State::Serving));
    stop();
    ASSERT_TRUE(store->run_until(Store::State::Stopped));
    EXPECT_FALSE(store->driver.exists("store/abort"));
    store->kill();
    ASSERT_TRUE(store->run_until(Store::State::Serving));
    EXPECT_TRUE(has_all());
  }
}

// A round that runs when the stop comes, on a disk that is slow: what it has not written must not count.
TEST_F(Rounds, AStopAbandonsARoundThatTakesTooLong) {
  for (const FlushDiskType flush : {FlushDiskType::Sync, FlushDiskType::Async}) {
    for (const bool is_broken : {false, true}) {
      Planted planted(is_broken ? Mutant::AbandonedRoundCounts : Mutant::None);
      begin(config_of(1, flush));
      send_to_each(200);
      ASSERT_TRUE(store->run_until([&] { return store->store->queues().is_writing(); }));
      stop();
      store->run(300);
      store->driver.advance(Duration::seconds(3));
      ASSERT_TRUE(store->run_until(Store::State::Stopped));
      EXPECT_TRUE(store->driver.has_event("StopUnwritten"));
      store->kill();
      ASSERT_TRUE(store->run_until(Store::State::Serving));
      EXPECT_EQ(has_all(), !is_broken);
      if (is_broken) continue;
      send_to_each(200);
      EXPECT_TRUE(store->run_until([this] { return is_written(); }, 100'000));
      store->kill();
      ASSERT_TRUE(store->run_until(Store::State::Serving));
      EXPECT_TRUE(has_all());
    }
  }
}

}  // namespace
}  // namespace fulmar::testing
