// The machines of the consuming side, each alone or over a store in memory.

#include <gtest/gtest.h>

#include <array>

#include "core/base/java_hash.h"
#include "core/consume/long_poll.h"
#include "core/consume/offsets.h"
#include "core/consume/pull.h"
#include "core/consume/query.h"
#include "tests/unit/store/meta_kit.h"
#include "tests/unit/store/store_harness.h"

namespace fulmar::testing {
namespace {

// --- subscriptions --------------------------------------------------------------------------------------------------------------------

TEST(TagFilter, ParsesWhatClientsWrite) {
  for (const char* all : {"", "*", "  * ", "TagA || *"}) EXPECT_TRUE(TagFilter::parse(all)->codes.empty()) << all;
  const TagFilter two = *TagFilter::parse(" TagA||  Aa ||TagA|| ");
  EXPECT_EQ(two.codes, (std::vector<int64_t>{2112, 2598919}));
  EXPECT_TRUE(two.matches(2112));
  EXPECT_FALSE(two.matches(0));
  for (const char* sql : {"a > 5", "price=3", "a between 1 AND 2", "TAGS is not null", "name in ('x')", "(a)", "x OR y"}) {
    const auto refused = TagFilter::parse(sql);
    ASSERT_FALSE(refused) << sql;
    EXPECT_NE(refused.error().detail.find("SQL92"), std::string::npos) << refused.error().detail;
  }
  for (const char* tags : {"android || oracle", "in", "order-made.v2 || and"}) EXPECT_TRUE(TagFilter::parse(tags)) << tags;
  EXPECT_FALSE(TagFilter::parse("||"));
  EXPECT_FALSE(TagFilter::parse(std::string(9000, 'x')));
  std::string many;
  for (int i = 0; i < 129; ++i) many += fmt::format("t{}||", i);
  EXPECT_FALSE(TagFilter::parse(many));
}

// --- tokens ---------------------------------------------------------------------------------------------------------------------------

TEST(SlotBook, ForgetsTokensForGood) {
  SlotBook<int> book(2);
  const uint64_t a = *book.add(1), b = *book.add(2);
  EXPECT_FALSE(book.add(3).has_value());
  EXPECT_EQ(book.take(a), 1);
  const uint64_t c = *book.add(3);
  EXPECT_NE(a, c);
  EXPECT_EQ(book.find(a), nullptr);
  EXPECT_EQ(*book.find(b), 2);
  EXPECT_EQ(*book.find(c), 3);
}

// --- long polls -----------------------------------------------------------------------------------------------------------------------

class LongPollTest : public ::testing::Test {
 protected:
  PullRequest request(std::string topic, int64_t offset, int64_t until_ms, uint64_t conn = 1) {
    PullRequest r;
    r.topic = std::move(topic);
    r.offset = r.scanned_to = QueueOffset(offset);
    r.hold_until = Monotonic{until_ms * 1'000'000};
    r.asker.conn = ConnId(conn);
    return r;
  }
  bool hold(PullRequest r) { return polls.hold(kit.ctx, r); }
  size_t arrive(std::string topic, int64_t max) {
    out.clear();
    polls.on_arrival(kit.ctx, {std::move(topic), QueueId(0), QueueOffset(max)}, out);
    return out.size();
  }
  MetaKit kit;
  LongPoll polls{3};
  std::vector<PullRequest> out;
};

TEST_F(LongPollTest, WakesWhoeverWaitsForWhatIsThere) {
  ASSERT_TRUE(hold(request("t", 5, 9000)));
  ASSERT_TRUE(hold(request("t", 7, 9000)));
  ASSERT_TRUE(hold(request("u", 5, 9000)));
  EXPECT_EQ(arrive("t", 5), 0u);
  EXPECT_EQ(arrive("t", 6), 1u);
  EXPECT_EQ(arrive("t", 100), 1u);
  EXPECT_EQ(polls.size(), 1u);
}

TEST_F(LongPollTest, IsBoundedAndDropsClosedConnections) {
  for (uint64_t conn : {1, 2, 2}) ASSERT_TRUE(hold(request("t", 0, 9000, conn)));
  EXPECT_FALSE(hold(request("t", 0, 9000)));
  polls.drop(ConnId(2));
  EXPECT_EQ(polls.size(), 1u);
  EXPECT_EQ(arrive("t", 1), 1u);
}

TEST_F(LongPollTest, HasOneTimerForTheEarliestDeadline) {
  ASSERT_TRUE(hold(request("t", 0, 3000)));
  ASSERT_TRUE(hold(request("u", 0, 2000)));
  EXPECT_EQ(kit.timers.size(), 1u);
  EXPECT_EQ(kit.timers.next().ns, 2'000'000'000);
  kit.now.monotonic = Monotonic{2'000'000'000};
  polls.take_due(kit.ctx, out);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].topic, "u");
  EXPECT_EQ(kit.timers.next().ns, 3'000'000'000);
  out.clear();
  polls.take_topic("t", out);
  EXPECT_EQ(out.size(), 1u);
}

// --- commits --------------------------------------------------------------------------------------------------------------------------

class CommitsTest : public ::testing::Test {
 protected:
  bool commit(std::string group, int64_t offset, uint32_t opaque = 0) {
    return commits.commit(kit.ctx, {std::move(group), "t", 0}, QueueOffset(offset), false, Asker{ConnId(1), opaque, false, false, {}});
  }
  std::vector<Commits::Settled> pump_at_ms(int64_t ms) {
    kit.now.monotonic = Monotonic{ms * 1'000'000};
    commits.pump(kit.ctx);
    return commits.take_settled();
  }
  int64_t stored(std::string group) { return kit.meta().offset({std::move(group), "t", 0}).value_or(QueueOffset(-1)).value(); }
  MetaKit kit;
  Commits commits{kit.meta(), 4};
};

TEST_F(CommitsTest, AppendsTheFirstAtOnceAndTheRestTogether) {
  ASSERT_TRUE(commit("g", 1));
  ASSERT_TRUE(commit("h", 1));
  EXPECT_EQ(pump_at_ms(1000).size(), 2u);
  EXPECT_EQ(kit.log.records.size(), 1u) << "one record for both";
  ASSERT_TRUE(commit("g", 2));
  ASSERT_TRUE(commit("g", 3));
  EXPECT_TRUE(pump_at_ms(1500).empty());
  EXPECT_EQ(stored("g"), 1);
  EXPECT_EQ(kit.timers.next().ns, 2'000'000'000);
  EXPECT_EQ(pump_at_ms(2000).size(), 2u);
  EXPECT_EQ(stored("g"), 3);
  EXPECT_EQ(kit.log.records.size(), 2u);
  ASSERT_TRUE(commit("g", 4));
  EXPECT_EQ(pump_at_ms(3001).size(), 1u) << "a second later it is the first again";
}

TEST_F(CommitsTest, IsBounded) {
  ASSERT_TRUE(commit("g", 1));
  pump_at_ms(1000);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(commit("g", i));
  EXPECT_FALSE(commit("g", 9));
  EXPECT_EQ(commits.waiting_count(), 4u);
}

TEST_F(CommitsTest, WaitsForALogThatRollsButNotForEver) {
  kit.log.failing = Errc::LogRolling;
  ASSERT_TRUE(commit("g", 1));
  EXPECT_TRUE(pump_at_ms(1000).empty());
  EXPECT_TRUE(pump_at_ms(1010).empty());
  const auto settled = pump_at_ms(3000);
  ASSERT_EQ(settled.size(), 1u);
  EXPECT_EQ(settled[0].outcome.code(), Errc::LogRolling);
  EXPECT_EQ(stored("g"), -1);
  kit.log.failing = Errc::DiskFull;
  ASSERT_TRUE(commit("g", 1));
  EXPECT_EQ(pump_at_ms(3001)[0].outcome.code(), Errc::DiskFull);
}

TEST_F(CommitsTest, HurriesAtStop) {
  ASSERT_TRUE(commit("g", 1));
  pump_at_ms(1000);
  ASSERT_TRUE(commit("g", 2));
  EXPECT_TRUE(pump_at_ms(1001).empty());
  commits.hurry(kit.ctx);
  EXPECT_EQ(pump_at_ms(1001).size(), 1u);
  EXPECT_EQ(stored("g"), 2);
  EXPECT_EQ(commits.waiting_count(), 0u);
}

// --- pulls over a store ---------------------------------------------------------------------------------------------------------------

class PullTest : public ::testing::Test {
 protected:
  explicit PullTest(BrokerConfig config = small_store_config()) : store(Seed{5}, std::move(config)) {}
  void SetUp() override {
    ASSERT_TRUE(store.run_until(Store::State::Serving));
    for (int i = 0; i < 30; ++i) ASSERT_TRUE(append(fmt::format("{} {}", i, std::string(5000, 'x'))));
    ASSERT_TRUE(store.run_until([&] { return store.store->queues().range("t", QueueId(0)).max == QueueOffset(30); }));
    pulls.emplace(store.store->queues(), store.store->log(), store.store->watermarks());
  }
  bool append(const std::string& body, int32_t queue = 0) {
    for (int tries = 0; tries < 1000; ++tries) {
      if (store.append("t", queue, body)) return true;
      store.run(5);
    }
    return false;
  }
  // Runs until it is answered; what it waits for is fetched.
  PullAnswer pull(int64_t offset, int32_t count_max, std::span<const Range> holes = {}, int32_t queue = 0) {
    PullRequest request;
    request.topic = "t";
    request.queue_id = queue;
    request.offset = QueueOffset(offset);
    request.count_max = count_max;
    request.bytes_max = 1u << 20;
    std::optional<PullAnswer> answer;
    store.step(nullptr, [&](Ctx& ctx) { answer = *pulls->run(ctx, request, holes); });
    for (int i = 0; i < 1000 && !answer; ++i) {
      ++waits;
      store.run(1);
      for (const uint64_t token : store.store->queues().take_ready()) pulls->on_queue_ready(token);
      for (const Warmed& warmed : store.store->take_warmed()) pulls->on_warmed(warmed);
      for (Pulls::Retry& retry : pulls->take_ready()) {
        refused = retry.outcome ? std::optional<Errc>() : retry.outcome.code();
        if (refused) return {};
        store.step(nullptr, [&](Ctx& ctx) { answer = *pulls->run(ctx, retry.request, holes); });
        warms += store.driver.last_text().find("warm") != std::string::npos;
      }
    }
    CHECK(answer.has_value());
    return *answer;
  }
  StoreHarness store;
  std::optional<Pulls> pulls;
  // A new process on the same disk: nothing of the log is resident.
  void restart() {
    store.step(nullptr, [&](Ctx& ctx) { store.store->begin_stop(ctx); });
    ASSERT_TRUE(store.run_until(Store::State::Stopped));
    store.kill();
    ASSERT_TRUE(store.run_until(Store::State::Serving));
    pulls.emplace(store.store->queues(), store.store->log(), store.store->watermarks());
    store.driver.advance(Duration::seconds(5));
  }
  int waits = 0, warms = 0;   // warms: of those that were run again
  std::optional<Errc> refused;
};

TEST_F(PullTest, MergesNeighboursAndNeverCrossesAFile) {
  const PullAnswer all = pull(0, 100);
  EXPECT_EQ(all.count, 30);
  EXPECT_EQ(all.next, QueueOffset(30));
  EXPECT_GT(all.slices.size(), 1u) << "64 KiB segments";
  EXPECT_LE(all.slices.size(), 4u);
  for (const FileSlice& slice : all.slices) EXPECT_LE(slice.range.end, 64u * 1024);
  EXPECT_EQ(pulls->waiting_count(), 0u);
}

TEST_F(PullTest, PassesOverDamage) {
  const PullAnswer first = pull(0, 1), second = pull(1, 1);
  const Range hole{first.slices[0].range.end, first.slices[0].range.end + 1};
  const PullAnswer around = pull(0, 3, std::span(&hole, 1));
  EXPECT_EQ(around.count, 3);
  EXPECT_EQ(around.next, QueueOffset(4));
  ASSERT_EQ(around.slices.size(), 2u);
  EXPECT_EQ(around.slices[1].range.begin, second.slices[0].range.end);
}

TEST_F(PullTest, WaitsForColdFiles) {
  restart();
  int64_t offset = 0;
  while (offset < 30) {
    const PullAnswer answer = pull(offset, 100);
    ASSERT_EQ(answer.code, Code::Success);
    offset = answer.next.value();
  }
  EXPECT_GT(waits, 0);
  EXPECT_EQ(pulls->waiting_count(), 0u);
}

// Two records of the first file are resident when the pull begins, which asks for many: those of the next file come with them.
TEST_F(PullTest, WaitsForMoreThanItHas) {
  restart();
  const PullAnswer first = pull(0, 1);
  const uint64_t file_end = 64 * 1024;
  ASSERT_EQ(first.count, 1);
  const auto records_in_first_file = static_cast<int64_t>(file_end / first.slices[0].range.size());
  const int64_t from = records_in_first_file - 2;
  const PullAnswer rest = pull(from, 100);
  EXPECT_GT(rest.count, 2);
  EXPECT_EQ((rest.next - QueueOffset(from)).value(), rest.count) << "what it had is delivered, too";
  EXPECT_GT(rest.slices.size(), 1u);
}

// Every record lies on two pages, and one of the fourth's cannot be read: only who needs it is refused.
TEST_F(PullTest, APageThatCannotBeReadIsNobodyElsesTrouble) {
  restart();
  store.driver.unreadable.insert({"store/commitlog/00000000000000000000", 4});
  const PullAnswer before = pull(0, 3);
  EXPECT_EQ(before.code, Code::Success);
  EXPECT_GE(before.count, 1);
  pull(3, 1);
  EXPECT_EQ(refused, Errc::Unreadable);
  refused.reset();
  EXPECT_EQ(pull(6, 1).count, 1);
  EXPECT_FALSE(refused);
  EXPECT_EQ(pulls->waiting_count(), 0u);
}

// --- many queues in one log -------------------------------------------------------------------------------------------------------------

// 10 KiB records, every twentieth of them in queue 1, one file.
class PullOfManyTest : public PullTest {
 protected:
  PullOfManyTest() : PullTest(config()) {}
  static BrokerConfig config() {
    BrokerConfig c = small_store_config();
    c.commit_log_file_bytes = 4u << 20;
    c.consume_queue_file_bytes = 20 * 1024;
    c.async_unflushed_bytes_max = 8u << 20;
    return c;
  }
  void SetUp() override {
    ASSERT_TRUE(store.run_until(Store::State::Serving));
    for (int i = 0; i < 200; ++i) ASSERT_TRUE(append(std::string(10'000, 'x'), i % 20 == 0));
    ASSERT_TRUE(store.run_until([&] { return store.store->queues().range("t", QueueId(0)).max == QueueOffset(190); }));
    restart();
  }
};

TEST_F(PullOfManyTest, WhatLiesFarApartIsFetchedInOneRequest) {
  const PullAnswer all = pull(0, 32, {}, 1);
  EXPECT_EQ(all.count, 10);
  EXPECT_EQ(warms, 1);
}

TEST_F(PullOfManyTest, ReadsAheadForWhoGoesOn) {
  QueueOffset at;
  int pulls_done = 0;
  for (; at < QueueOffset(190); ++pulls_done) at = pull(at.value(), 10).next;
  EXPECT_LE(pulls_done, 19 + 5);
  EXPECT_LE(warms, 8) << "two megabytes, four pulls of a hundred kilobytes at a time";
}

TEST_F(PullOfManyTest, AFetchServesAllWhoWaitForIt) {
  ASSERT_EQ(pull(0, 1).count, 1);   // the queue's file is resident now
  std::array<PullRequest, 2> requests;
  store.step(nullptr, [&](Ctx& ctx) {
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].topic = "t";
      requests[i].offset = QueueOffset(static_cast<int64_t>(100 + 5 * i));
      requests[i].count_max = 10;
      requests[i].bytes_max = 1u << 20;
      EXPECT_FALSE(pulls->run(ctx, requests[i], {})->has_value());
    }
  });
  EXPECT_NE(store.driver.last_text().find("warm"), std::string::npos);
  EXPECT_EQ(store.driver.last_text().find("warm"), store.driver.last_text().rfind("warm")) << store.driver.last_text();
  ASSERT_TRUE(store.run_until([&] { return store.store->log().fetches_in_flight() == 0; }));
  for (const Warmed& warmed : store.store->take_warmed()) pulls->on_warmed(warmed);
  std::vector<Pulls::Retry> ready = pulls->take_ready();
  ASSERT_EQ(ready.size(), 2u);
  for (Pulls::Retry& retry : ready) {
    std::optional<PullAnswer> answer;
    store.step(nullptr, [&](Ctx& ctx) { answer = *pulls->run(ctx, retry.request, {}); });
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->count, 10);
  }
}

// The checkpoint says that all was flushed, so no start reads it again: whoever serves a record must notice.
TEST_F(PullTest, WhatTheDiskGivesBackIsComparedBeforeItIsServed) {
  store.step(nullptr, [&](Ctx& ctx) { store.store->begin_stop(ctx); });
  ASSERT_TRUE(store.run_until(Store::State::Stopped));
  store.kill();
  const std::string path = "store/commitlog/00000000000000000000";
  const Bytes before = store.driver.contents(path);
  std::vector<uint8_t> rotten(before.begin(), before.end());
  rotten[2'000] ^= 4;   // in the body of the first record
  store.driver.put(path, rotten);
  ASSERT_TRUE(store.run_until(Store::State::Serving));
  pulls.emplace(store.store->queues(), store.store->log(), store.store->watermarks());
  const PullAnswer first = pull(0, 2);
  EXPECT_EQ(first.code, Code::Success);
  EXPECT_EQ(first.count, 2);
  EXPECT_EQ(first.next, QueueOffset(3)) << "offset 0 is passed over";
  EXPECT_TRUE(store.driver.has_event("RecordDamaged"));
}

TEST_F(PullTest, SaysWhereAQueueBeginsAndEnds) {
  EXPECT_EQ(pull(30, 1).code, Code::PullNotFound);
  EXPECT_EQ(pull(31, 1).code, Code::PullOffsetMoved);
  EXPECT_EQ(pull(31, 1).next, QueueOffset(30));
}

}  // namespace
}  // namespace fulmar::testing
