// What goes, when, and what is still known afterwards.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/mutants.h"
#include "tests/unit/store/store_harness.h"

namespace fulmar::testing {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kReservedMs = 20'000;

BrokerConfig retaining_config() {
  BrokerConfig c = small_store_config();
  c.file_reserved_ms = kReservedMs;
  c.delete_hours.mask = 0xFFFFFF;
  return c;
}

class RetentionTest : public ::testing::Test {
 protected:
  void serve(BrokerConfig config, uint64_t seed = 7) {
    store.emplace(Seed{seed}, std::move(config));
    ASSERT_TRUE(store->run_until(Store::State::Serving));
  }
  uint64_t begin() const { return store->store->watermarks().begin.value(); }
  uint64_t end() const { return store->store->watermarks().appended.value(); }
  QueueRange range(const char* topic = "t", int32_t queue = 0) const { return store->store->queues().range(topic, QueueId(queue)); }
  // Messages of 1,000 bytes; the body says its number.
  void fill(int count, const char* topic = "t", int32_t queue = 0) {
    for (int i = 0; i < count; ++i) {
      std::string body = fmt::format("{}/{}/{} ", topic, queue, sent_[{topic, queue}]);
      body.resize(1000, '.');
      for (int tries = 0; !store->append(topic, queue, body); ++tries) {
        ASSERT_LT(tries, 1000);
        store->run(5);
      }
      ++sent_[{topic, queue}];
      store->run(2);
    }
  }
  void pass(Duration by) {
    const Monotonic until = store->driver.now.monotonic + by;
    for (int i = 0; i < 200'000 && store->driver.now.monotonic < until && !store->driver.halted(); ++i) store->run(1);
  }
  bool run_meta(const std::function<Result<Appended>(Ctx&, Meta&)>& change) {
    for (int tries = 0; tries < 100; ++tries) {
      bool is_done = false;
      store->step(nullptr, [&](Ctx& ctx) { is_done = change(ctx, store->store->meta()).has_value(); });
      if (is_done) return true;
      store->run(20);
    }
    return false;
  }
  void make_topic(const char* name) {
    ASSERT_TRUE(run_meta([&](Ctx& ctx, Meta& meta) { return meta.set_topic(ctx, {name, 4, 4, kPermRead | kPermWrite}); }));
  }
  void commit(const char* group, const char* topic, int64_t offset) {
    ASSERT_TRUE(run_meta([&](Ctx& ctx, Meta& meta) { return meta.set_offsets(ctx, {{{group, topic, 0}, QueueOffset(offset)}}); }));
  }
  // What is there reads as it was sent, without a hole from min to max.
  void check_all() {
    const Watermarks& marks = store->store->watermarks();
    ASSERT_TRUE(store->run_until([&] { return marks.dispatched == marks.appended; }));
    for (const auto& [where, count] : sent_) {
      const QueueRange held = range(where.first.c_str(), where.second);
      EXPECT_EQ(held.max.value(), count);
      const auto bodies = store->read_queue(where.first, where.second);
      ASSERT_TRUE(bodies.has_value());
      EXPECT_EQ(static_cast<int64_t>(bodies->size()), (held.max - held.min).value());
      for (const auto& [offset, body] : *bodies) EXPECT_TRUE(body.starts_with(fmt::format("{}/{}/{} ", where.first, where.second, offset))) << body.substr(0, 20);
    }
  }
  std::vector<std::string> log_files() {
    std::vector<std::string> out;
    for (const FileEntry& entry : store->driver.list("store/commitlog")) out.push_back(entry.path);
    return out;
  }
  void erase(const std::string& directory) {
    for (const FileEntry& entry : store->driver.list(directory)) store->driver.erase(directory + "/" + entry.path);
  }
  void stop_and_wake() {
    store->step(nullptr, [&](Ctx& ctx) { store->store->begin_stop(ctx); });
    ASSERT_TRUE(store->run_until(Store::State::Stopped));
    store->kill();
  }
  std::optional<StoreHarness> store;
  std::map<std::pair<std::string, int32_t>, int64_t> sent_;
};

TEST_F(RetentionTest, WhatHasExpiredGoesFromTheFrontAndQueuesFollow) {
  BrokerConfig config = retaining_config();
  config.file_reserved_ms = 10 * kReservedMs;
  serve(config);
  fill(250);
  pass(Duration::milliseconds(5 * kReservedMs));
  EXPECT_EQ(begin(), 0u) << "nothing is old enough";
  pass(Duration::milliseconds(6 * kReservedMs));
  EXPECT_GE(begin(), 3 * 65'536u);
  EXPECT_LT(begin(), end());
  EXPECT_GT(range().min.value(), 150);
  check_all();
  for (const std::string& name : log_files()) EXPECT_GE(parse_segment_name(name).value_or(0), begin()) << name;
  // Queue files behind the new begin are gone, too: 64 entries each.
  for (const FileEntry& entry : store->driver.list("store/consumequeue/t/0")) EXPECT_GT(parse_segment_name(entry.path).value_or(0) / 20 + 64, 150u) << entry.path;
  // And so it is after a start.
  const uint64_t begin_before = begin();
  const int64_t min_before = range().min.value();
  store->kill();
  ASSERT_TRUE(store->run_until(Store::State::Serving));
  EXPECT_EQ(begin(), begin_before);
  EXPECT_EQ(range().min.value(), min_before);
  EXPECT_FALSE(store->driver.has_event("RebuildDerived"));
  check_all();
}

TEST_F(RetentionTest, OnlyInItsHourUnlessTheDiskFills) {
  BrokerConfig config = retaining_config();
  const uint64_t hour = static_cast<uint64_t>(MemoryDriver(Seed{1}).now.wall.ms / 3'600'000 % 24);
  config.delete_hours.mask = 1u << ((hour + 2) % 24);
  serve(config);
  fill(150);
  pass(Duration::seconds(60));
  EXPECT_EQ(begin(), 0u);
  store->driver.disk_used_percent = 80;
  pass(Duration::seconds(60));
  EXPECT_GE(begin(), 65'536u);
  check_all();
}

TEST_F(RetentionTest, ByForceWhenTheDiskIsNearlyFullAndTheEventNamesWhoLoses) {
  BrokerConfig config = retaining_config();
  config.file_reserved_ms = 0;
  serve(config);
  make_topic("t");
  fill(150);
  commit("billing", "t", 10);
  store->driver.disk_used_percent = 86;
  pass(Duration::seconds(10));
  EXPECT_GE(begin(), 65'536u);
  bool is_named = false;
  for (const MemoryDriver::Event& event : store->driver.events())
    is_named |= event.name == "UnreadLost" && event.text.find("group billing") != std::string::npos && event.values[0] > 0;
  EXPECT_TRUE(is_named);
  check_all();
}

// A file is a hundredth of the disk, and 85 % are too many: of 90 % at least three go at once (what is prepared and unused counts as free),
// and then the disk is asked again, which takes two seconds.
TEST_F(RetentionTest, ByForceAsManyAsAreTooMany) {
  BrokerConfig config = retaining_config();
  config.file_reserved_ms = 0;
  serve(config);
  make_topic("t");
  fill(600);
  store->driver.disk_bytes = 100 * config.commit_log_file_bytes;
  store->driver.disk_used_percent = 90;
  for (int i = 0; i < 100 && begin() == 0; ++i) pass(Duration::milliseconds(100));
  pass(Duration::milliseconds(300));
  const uint64_t gone = begin() / config.commit_log_file_bytes;
  EXPECT_GE(gone, 3u);
  EXPECT_LE(gone, 6u);
  pass(Duration::seconds(1));
  EXPECT_EQ(begin() / config.commit_log_file_bytes, gone);
  store->driver.disk_used_percent = 10;
  check_all();
}

// A fast disk fills in less than the time between two measurements: then queues and index had no room left, nothing was derived, and so
// nothing could be deleted, for ever.
TEST_F(RetentionTest, WhatIsAppendedSinceTheDiskWasMeasuredCountsAtOnce) {
  for (const auto& [is_forced, planted] : {std::pair(true, Mutant::None), {false, Mutant::None}, {false, Mutant::DiskBelievedForASecond}}) {
    SCOPED_TRACE(is_forced);
    mutants::plant(planted);
    BrokerConfig config = retaining_config();
    config.file_reserved_ms = 0;
    config.is_deleting_forcibly = is_forced;
    config.consume_queue_flush_interval_ms = 60'000;
    serve(config);
    store->driver.disk_bytes = 100 * config.commit_log_file_bytes;
    store->driver.disk_used_percent = is_forced ? 84 : 89;
    pass(Duration::seconds(3));
    const Monotonic measured = store->driver.now.monotonic;
    ASSERT_FALSE(store->store->is_disk_full());
    ASSERT_EQ(begin(), 0u);
    bool is_refused = false;
    for (int i = 0; i < 400 && !is_refused && begin() == 0; ++i) {
      const Result<Appended> done = store->append("t", 0, std::string(1000, '.'));
      is_refused = !done && done.error().code == Errc::DiskFull;
      while (store->driver.in_flight() > 0 || store->driver.wants_step_again()) store->run(1);   // time stands still
    }
    EXPECT_LT((store->driver.now.monotonic - measured).ms(), 900) << "no measurement may have helped";
    mutants::plant(Mutant::None);
    EXPECT_EQ(is_refused, !is_forced && planted == Mutant::None);
    EXPECT_EQ(begin() > 0, is_forced);
  }
}

// The first measurement of a life is made before the log's end is known: its whole length must not count as appended since.
TEST_F(RetentionTest, ARestartDeletesNothingOfALogLongerThanTheRoomThatIsLeft) {
  for (const Mutant planted : {Mutant::RestartFillsTheDisk, Mutant::None}) {
    SCOPED_TRACE(static_cast<int>(planted));
    BrokerConfig config = retaining_config();
    config.file_reserved_ms = 0;
    serve(config);
    sent_.clear();
    fill(600);
    const uint64_t files = end() / config.commit_log_file_bytes;
    ASSERT_GE(files, 9u);
    store->driver.disk_bytes = 12 * config.commit_log_file_bytes;
    store->driver.disk_used_percent = 50;
    stop_and_wake();
    mutants::plant(planted);
    ASSERT_TRUE(store->run_until(Store::State::Serving));
    EXPECT_EQ(store->store->is_disk_full(), planted != Mutant::None);
    pass(Duration::seconds(5));
    mutants::plant(Mutant::None);
    EXPECT_EQ(begin() == 0, planted == Mutant::None);
  }
  check_all();
}

TEST_F(RetentionTest, NeverByForceWhereThatIsSwitchedOff) {
  BrokerConfig config = retaining_config();
  config.file_reserved_ms = 0;
  config.is_deleting_forcibly = false;
  serve(config);
  fill(150);
  store->driver.disk_used_percent = 95;
  pass(Duration::seconds(30));
  EXPECT_EQ(begin(), 0u);
}

TEST_F(RetentionTest, UnreadMessagesAreKeptWhereThatIsAsked) {
  BrokerConfig config = retaining_config();
  config.is_unread_kept = true;
  serve(config);
  make_topic("t");
  fill(150);
  commit("billing", "t", 1);
  pass(Duration::seconds(90));
  EXPECT_EQ(begin(), 0u);
  EXPECT_TRUE(store->driver.has_event("UnreadKept"));
  EXPECT_THAT(store->store->status(store->driver.now), ::testing::Contains(::testing::Pair("nextDeletion", HasSubstr("neverDeleteUnread"))));
  commit("billing", "t", 150);
  pass(Duration::seconds(90));
  EXPECT_GE(begin(), 65'536u);
  check_all();
}

TEST_F(RetentionTest, ALongLogIsShortened) {
  BrokerConfig config = retaining_config();
  config.file_reserved_ms = 0;
  config.retain_bytes_max = 3 * 65'536;
  serve(config);
  fill(600);
  pass(Duration::seconds(5));
  EXPECT_LE(end() - begin(), config.retain_bytes_max);
  EXPECT_GE(end() - begin(), 65'536u);
  check_all();
}

// Neither the interval of rounds nor that of flushes may stand between a long log and its bound.
TEST_F(RetentionTest, ALongLogWaitsForNoInterval) {
  for (const FlushDiskType type : {FlushDiskType::Sync, FlushDiskType::Async}) {
    sent_.clear();
    BrokerConfig config = retaining_config();
    config.file_reserved_ms = 0;
    config.retain_bytes_max = 3 * 65'536;
    config.flush_disk_type = type;
    config.consume_queue_flush_interval_ms = config.flush_interval_ms = 86'400'000;
    config.async_unflushed_bytes_max = 16 << 20;
    serve(config);
    uint64_t most = 0;
    const Monotonic from = store->driver.now.monotonic;
    for (int i = 0; i < 800; ++i) {
      fill(1);
      most = std::max(most, end() - begin());
    }
    ASSERT_LT(store->driver.now.monotonic - from, Duration::seconds(86'400));
    EXPECT_LE(most, config.retain_bytes_max + 65'536) << "a file goes while less than another one is written";
    EXPECT_GT(store->store->log().files().recycled_count(), 5u);
    EXPECT_EQ(store->store->log().files().removed_count(), 0u);
    check_all();
  }
}

TEST_F(RetentionTest, TopicsOffsetsAndNextOffsetsOutliveTheirSegments) {
  serve(retaining_config());
  make_topic("t");
  make_topic("quiet");
  fill(7, "quiet", 2);
  commit("billing", "quiet", 5);
  GroupConfig group;
  for (const char* name : {"billing", "gone"}) {
    group.name = name;
    group.retry_max = 3;
    ASSERT_TRUE(run_meta([&](Ctx& ctx, Meta& meta) { return meta.set_group(ctx, group); }));
  }
  ASSERT_TRUE(run_meta([&](Ctx& ctx, Meta& meta) { return meta.remove_group(ctx, "gone"); }));
  fill(200);
  pass(Duration::seconds(60));
  ASSERT_GE(begin(), 65'536u);
  EXPECT_EQ(range("quiet", 2).min.value(), 7);
  EXPECT_EQ(range("quiet", 2).max.value(), 7);
  stop_and_wake();
  // Nothing but the log is left.
  erase("store/consumequeue");
  erase("store/index");
  erase("store/config");
  store->driver.erase("store/checkpoint");
  ASSERT_TRUE(store->run_until(Store::State::Serving));
  Meta& meta = store->store->meta();
  ASSERT_NE(meta.topic("t"), nullptr);
  ASSERT_NE(meta.topic("quiet"), nullptr);
  EXPECT_EQ(meta.topic("quiet")->read_queues, 4);
  ASSERT_NE(meta.group("billing"), nullptr);
  EXPECT_EQ(meta.group("billing")->retry_max, 3);
  EXPECT_EQ(meta.group("gone"), nullptr);
  EXPECT_EQ(meta.offset({"billing", "quiet", 0}).value_or(QueueOffset(-1)).value(), 0) << "queue 0 never had a message: clamped";
  EXPECT_EQ(range("quiet", 2).min.value(), 7);
  EXPECT_EQ(range("quiet", 2).max.value(), 7);
  EXPECT_EQ(store->store->queues().next_offset("quiet", QueueId(2)).value(), 7);
  fill(1, "quiet", 2);
  pass(Duration::seconds(3));
  check_all();
}

TEST_F(RetentionTest, ExpiredSegmentsAreRecycledAndHoldOnlyWhatTheyHoldNow) {
  for (const FlushDiskType type : {FlushDiskType::Sync, FlushDiskType::Async}) {
    for (uint64_t seed = 1; seed <= 12; ++seed) {
      sent_.clear();
      BrokerConfig config = retaining_config();
      config.file_reserved_ms = 0;
      config.retain_bytes_max = 2 * 65'536;
      config.flush_disk_type = type;
      serve(config, seed);
      make_topic("t");
      fill(400);
      EXPECT_GT(store->store->log().files().recycled_count(), 2u);
      check_all();
      store->cut_power({static_cast<uint32_t>(seed % 4), 4});
      ASSERT_TRUE(store->run_until(Store::State::Serving));
      // What was acknowledged without a flush may be gone, from the end only.
      ASSERT_TRUE(store->run_until([&] { return store->store->watermarks().dispatched == store->store->watermarks().appended; }));
      const int64_t max = range().max.value();
      if (type == FlushDiskType::Sync) {
        EXPECT_GE(max, 395);
      }
      sent_[{"t", 0}] = max;
      check_all();
      fill(100);
      check_all();
    }
  }
}

TEST_F(RetentionTest, AClockThatLeapsDeletesNothing) {
  BrokerConfig config = retaining_config();
  config.file_reserved_ms = 0;   // 72 hours
  serve(config);
  fill(150);
  stop_and_wake();
  ASSERT_TRUE(store->run_until(Store::State::Serving));
  fill(100);
  for (const int64_t days : {30, -60, 31}) {
    store->driver.now.wall.ms += days * 86'400'000;
    pass(Duration::seconds(30));
    EXPECT_EQ(begin(), 0u);
  }
  EXPECT_TRUE(store->driver.has_event("ClockLeap"));
  // A start cannot tell a wrong clock from a long pause: one file an hour.
  store->driver.now.wall.ms += int64_t{30} * 86'400'000;
  stop_and_wake();
  ASSERT_TRUE(store->run_until(Store::State::Serving));
  EXPECT_TRUE(store->driver.has_event("LongPause"));
  pass(Duration::seconds(3'000));
  EXPECT_EQ(begin(), 0u);
  pass(Duration::seconds(1'200));
  EXPECT_EQ(begin(), 65'536u);
  pass(Duration::seconds(3'600));
  EXPECT_EQ(begin(), 2 * 65'536u);
  check_all();
}

TEST_F(RetentionTest, WhereverItDiesNothingIsLostAndNothingIsRebuilt) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    sent_.clear();
    BrokerConfig config = retaining_config();
    config.file_reserved_ms = 0;
    config.retain_bytes_max = 2 * 65'536;
    serve(config, seed);
    make_topic("t");
    fill(3, "quiet", 1);
    fill(140 + static_cast<int>(seed));
    store->run(static_cast<int>(seed * 7 % 60));
    const uint64_t begin_before = begin();
    if (seed % 2 == 0) store->kill();
    else store->cut_power({1, 2});
    ASSERT_TRUE(store->run_until(Store::State::Serving)) << seed;
    EXPECT_LE(begin(), begin_before + 65'536);
    EXPECT_FALSE(store->driver.has_event("RebuildDerived")) << seed;
    ASSERT_NE(store->store->meta().topic("t"), nullptr);
    fill(80);
    pass(Duration::seconds(3));
    check_all();
    EXPECT_LE(end() - begin(), config.retain_bytes_max);
  }
}

}  // namespace
}  // namespace fulmar::testing
