// Consume queues: bytes, rules of building, rounds as outbox text, and what they do about a bad disk.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/mutants.h"
#include "tests/unit/store/queue_world.h"

namespace fulmar::testing {
namespace {

using ::testing::ElementsAre;

Message tagged(std::string& properties, std::string_view tags) {
  properties.clear();
  (void)property::add(properties, property::kTags, tags);
  Message message;
  message.properties = as_bytes(properties);
  return message;
}

TEST(QueueEntryFormat, HasTwentyBytes) {
  uint8_t bytes[kQueueEntryBytes];
  encode_queue_entry(bytes, {PhysicalOffset(0x0102030405060708), 0x11223344, -2});
  EXPECT_THAT(bytes, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x22, 0x33, 0x44, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFE));
  EXPECT_EQ(decode_queue_entry(bytes), (QueueEntry{PhysicalOffset(0x0102030405060708), 0x11223344, -2}));
}

TEST(QueueEntryFormat, TagCodeIsJavasHashSignExtended) {
  std::string properties;
  EXPECT_EQ(tag_code_of(tagged(properties, "TagA")), 2598919);
  EXPECT_EQ(tag_code_of(tagged(properties, "Aa")), 2112);
  EXPECT_EQ(tag_code_of(tagged(properties, "polygenelubricants")), INT64_C(-2147483648));
  EXPECT_EQ(tag_code_of(Message{}), 0);
  Planted planted(Mutant::TagCodeNotSignExtended);
  EXPECT_EQ(tag_code_of(tagged(properties, "polygenelubricants")), INT64_C(2147483648));   // the bug that the line above finds
}

TEST(ConsumeQueues, ARoundMapsPreparesWritesAndFlushes) {
  QueueWorld world(Seed{1});
  world.load();
  world.append("orders", 3, "TagA");
  world.append("orders", 3);
  world.dispatch();
  EXPECT_EQ(world.driver.last_text(), "");
  std::string text;
  world.begin_round();
  text += world.driver.last_text();
  while (world.turn()) text += world.driver.last_text();
  EXPECT_EQ(text,
            "map queues/orders/3/00000000000000000000 8000 new\n"
            "prepare 1 [0, 8000)\n"
            "flush 1 [0, 40)\n");
  EXPECT_TRUE(world.queues->is_round_done());
  EXPECT_EQ(world.queues->pending_count(), 0u);
  EXPECT_EQ(world.difference(2), "");
  const Bytes file = world.driver.contents(world.path("orders", 3, 0));
  EXPECT_EQ(decode_queue_entry(file.first(20)), (QueueEntry{PhysicalOffset(0), world.records[0].bytes, 2598919}));
}

TEST(ConsumeQueues, TakesOrdinaryAndCommittedRecordsOnly) {
  QueueWorld world(Seed{1});
  world.load();
  world.append("t", 0, "", sys_flag::kPrepared, 0);
  world.append("t", 0, "", sys_flag::kCommit);
  world.append("t", 0, "", sys_flag::kRollback, 0);
  world.append("t", 0);
  world.dispatch();
  EXPECT_EQ(world.queues->range("t", QueueId(0)).max, QueueOffset(2));
}

TEST(ConsumeQueues, IgnoresWhatItHas) {
  for (const bool is_broken : {false, true}) {
    QueueWorld world(Seed{1});
    world.load();
    world.append("t", 0);
    world.append("t", 0);
    Planted planted(is_broken ? Mutant::QueueTakesDuplicates : Mutant::None);
    world.dispatch();
    world.dispatched = 0;
    world.dispatch();
    EXPECT_EQ(world.queues->range("t", QueueId(0)).max == QueueOffset(2), !is_broken);
  }
}

TEST(ConsumeQueues, NeverShiftsOverAGap) {
  for (const bool is_broken : {false, true}) {
    QueueWorld world(Seed{1});
    world.load();
    world.append("t", 0);
    world.append("t", 0, "", 0, 5);
    world.append("t", 0);
    world.append("t", 1);
    Planted planted(is_broken ? Mutant::QueueShiftsOverGap : Mutant::None);
    world.dispatch();
    EXPECT_EQ(world.queues->range("t", QueueId(0)).max == QueueOffset(1), !is_broken);
    if (is_broken) continue;
    EXPECT_TRUE(world.driver.has_event("QueueGap"));
    EXPECT_EQ(world.queues->broken_count(), 1u);
    EXPECT_EQ(world.queues->range("t", QueueId(1)).max, QueueOffset(1));
  }
}

TEST(ConsumeQueues, SaysOnceThatAQueueGrew) {
  QueueWorld world(Seed{1});
  world.load();
  for (int i = 0; i < 3; ++i) world.append("t", 0);
  world.append("u", 1);
  world.dispatch();
  const std::vector<Arrival> arrivals = world.queues->take_arrivals();
  ASSERT_EQ(arrivals.size(), 2u);
  EXPECT_EQ(arrivals[0].max, QueueOffset(3));
  EXPECT_EQ(arrivals[1].topic, "u");
  EXPECT_TRUE(world.queues->take_arrivals().empty());
}

TEST(ConsumeQueues, AQueueThatBeginsLateIsFilledUpWithPreBlanks) {
  QueueWorld world(Seed{2});
  world.load();
  world.append("t", 0, "", 0, 430);   // file 1 holds 400 to 799
  for (int i = 0; i < 3; ++i) world.append("t", 0);
  world.dispatch();
  EXPECT_EQ(world.queues->range("t", QueueId(0)).min, QueueOffset(430));
  world.round();
  const Bytes file = world.driver.contents(world.path("t", 0, 8000));
  EXPECT_EQ(decode_queue_entry(file.first(20)), (QueueEntry{PhysicalOffset(0), kPreBlankBytes, 0}));
  EXPECT_EQ(decode_queue_entry(file.subspan(29 * 20, 20)).bytes, kPreBlankBytes);
  EXPECT_FALSE(world.driver.exists(world.path("t", 0, 0)));
  world.driver.crash({0, 1});
  world.restart();
  EXPECT_FALSE(world.queues->needs_rebuild());
  EXPECT_EQ(world.queues->range("t", QueueId(0)).min, QueueOffset(430));
  EXPECT_EQ(world.difference(4), "");
}

// Seed fulmar1:store:756a: entries reached the file before the round's end, the crash took their records, and nobody wrote there again.
TEST(ConsumeQueues, RemainsBehindAQueueAreClearedAtStart) {
  QueueWorld world(Seed{7});
  world.load();
  for (int i = 0; i < 3; ++i) world.append("t", 0);
  world.dispatch();
  world.round();
  for (int i = 0; i < 2; ++i) world.append("t", 0);
  world.dispatch();
  world.begin_round();
  const auto entry = [&](size_t index) { return decode_queue_entry(world.driver.contents(world.path("t", 0, 0)).subspan(index * kQueueEntryBytes, kQueueEntryBytes)); };
  while (entry(4).bytes == 0) ASSERT_TRUE(world.turn());
  world.driver.kill();
  world.restart(world.records[3].at.value());
  EXPECT_FALSE(world.queues->needs_rebuild());
  EXPECT_EQ(world.difference(3), "");
  EXPECT_NE(entry(2).bytes, 0u);
  EXPECT_EQ(entry(3), QueueEntry{});
  EXPECT_EQ(entry(4), QueueEntry{});
  world.append("t", 0);
  world.dispatch();
  world.round();
  EXPECT_EQ(world.difference(4), "");
}

TEST(ConsumeQueues, FindsItsFirstLiveEntryAcrossFiles) {
  for (const bool is_broken : {false, true}) {
    QueueWorld world(Seed{3}, 20 * 50);
    world.load();
    for (int i = 0; i < 180; ++i) world.append("t", 0);
    world.dispatch();
    world.round();
    world.driver.crash({1, 2});
    Planted planted(is_broken ? Mutant::QueueMinInFirstFileOnly : Mutant::None);
    world.wake();
    world.watermarks.begin = world.records[130].at;
    world.load(false);
    EXPECT_EQ(world.queues->range("t", QueueId(0)).max, QueueOffset(180));
    EXPECT_EQ(world.queues->range("t", QueueId(0)).min == QueueOffset(130), !is_broken);
  }
}

TEST(ConsumeQueues, AHeadThatCannotBeTrueIsBuiltAgain) {
  for (const bool is_broken : {false, true}) {
    QueueWorld world(Seed{3});
    world.load();
    for (int i = 0; i < 20; ++i) world.append("t", 0);
    world.dispatch();
    world.round();
    world.driver.crash({1, 1});
    const std::string path = world.path("t", 0, 0);
    std::vector<uint8_t> bytes(world.driver.contents(path).begin(), world.driver.contents(path).end());
    std::fill(bytes.begin(), bytes.begin() + 2 * kQueueEntryBytes, uint8_t{0x5A});
    world.driver.put(path, bytes);
    Planted planted(is_broken ? Mutant::QueueHeadNotJudged : Mutant::None);
    world.restart();
    EXPECT_EQ(world.queues->needs_rebuild(), !is_broken);
    world.dispatch();
    EXPECT_EQ(world.difference(20).empty(), !is_broken);
  }
}

TEST(ConsumeQueues, WaitsForRoomAndGoesOn) {
  QueueWorld world(Seed{4});
  world.load();
  world.append("t", 0);
  world.dispatch();
  world.driver.is_disk_full = true;
  world.round();
  ASSERT_NE(world.queues->blocked(), nullptr);
  EXPECT_EQ(world.queues->blocked()->code, Errc::DiskFull);
  EXPECT_FALSE(world.queues->is_round_done());
  EXPECT_EQ(world.difference(1), "");                       // readers see it all the same
  world.driver.is_disk_full = false;
  world.driver.advance(Duration::seconds(1));
  EXPECT_TRUE(world.driver.pop_due().has_value());
  world.step([&](Ctx& ctx) { world.queues->pump(ctx); });
  world.settle();
  EXPECT_TRUE(world.queues->is_round_done());
  EXPECT_EQ(world.queues->blocked(), nullptr);
}

TEST(ConsumeQueues, AFailedFlushIsTheEnd) {
  QueueWorld world(Seed{4});
  world.load();
  world.append("t", 0);
  world.dispatch();
  world.driver.is_flush_failing = true;
  world.round();
  ASSERT_TRUE(world.driver.halted().has_value());
  EXPECT_EQ(world.driver.halted()->code, Errc::FlushFailed);
}

TEST(ConsumeQueues, ARetiredTopicLosesItsFilesAndKeepsItsOffsets) {
  QueueWorld world(Seed{5});
  world.load();
  for (int i = 0; i < 10; ++i) world.append("t", 0);
  world.append("u", 0);
  world.dispatch();
  world.begin_round();                                       // in the middle of its work
  world.turn();
  world.step([&](Ctx& ctx) { world.queues->retire_topic(ctx, "t", PhysicalOffset(0)); });
  EXPECT_EQ(world.queues->range("t", QueueId(0)).min, QueueOffset(10));
  EXPECT_EQ(world.queues->entry_count(), 1u);
  for (int i = 0; i < 3; ++i) world.append("t", 0);
  world.dispatch();
  world.settle();
  world.round();
  EXPECT_TRUE(world.queues->is_round_done());
  EXPECT_EQ(world.queues->range("t", QueueId(0)).max, QueueOffset(13));
  const Bytes file = world.driver.contents(world.path("t", 0, 0));
  EXPECT_EQ(decode_queue_entry(file.subspan(9 * 20, 20)).bytes, kPreBlankBytes);
  EXPECT_EQ(decode_queue_entry(file.subspan(10 * 20, 20)).at, world.records[11].at);
  world.step([&](Ctx& ctx) { world.queues->retire_topic(ctx, "t", PhysicalOffset(0)); });
  world.round();
  EXPECT_FALSE(world.driver.exists(world.path("t", 0, 0)));
  world.driver.crash({0, 1});
  world.restart();
  EXPECT_FALSE(world.queues->needs_rebuild());
  world.queues->begin_queue_at("t", QueueId(0), QueueOffset(13));
  world.queues->begin_appending();
  EXPECT_EQ(world.queues->next_offset("t", QueueId(0)), QueueOffset(13));
}

// A power cut may take the record that deletes the topic; then its queue must still be there.
TEST(ConsumeQueues, TheFilesOfARetiredTopicWaitForTheFlushOfItsDeletion) {
  QueueWorld world(Seed{5});
  world.load();
  for (int i = 0; i < 10; ++i) world.append("t", 0);
  world.dispatch();
  world.round();
  const PhysicalOffset end = world.records.back().at + ByteCount(1'000);
  world.step([&](Ctx& ctx) { world.queues->retire_topic(ctx, "t", end); });
  world.begin_round();
  world.settle();
  EXPECT_FALSE(world.queues->is_round_done());
  EXPECT_TRUE(world.driver.exists(world.path("t", 0, 0)));
  world.watermarks.flushed = end;
  world.step([&](Ctx& ctx) { world.queues->pump(ctx); });
  world.settle();
  EXPECT_TRUE(world.queues->is_round_done());
  EXPECT_FALSE(world.driver.exists(world.path("t", 0, 0)));
}

TEST(ConsumeQueues, StrayFilesAreNotedAndMissingOnesBuiltAgain) {
  QueueWorld world(Seed{6}, 20 * 50);
  world.load();
  for (int i = 0; i < 120; ++i) world.append("t", 0);
  world.dispatch();
  world.round();
  world.driver.crash({1, 2});
  world.driver.put("queues/t/0/notes.bak", Bytes{});
  world.restart();
  EXPECT_FALSE(world.queues->needs_rebuild());
  EXPECT_TRUE(world.driver.has_event("QueueFileIgnored"));
  world.driver.crash({1, 2});
  world.driver.erase(world.path("t", 0, 1000));
  world.restart();
  EXPECT_TRUE(world.queues->needs_rebuild());
  EXPECT_TRUE(world.driver.list("queues").size() == 1);            // the stray one
  world.dispatch();
  EXPECT_EQ(world.difference(120), "");
  world.round();
  world.driver.crash({1, 2});
  world.restart();
  EXPECT_FALSE(world.queues->needs_rebuild());
  EXPECT_EQ(world.difference(120), "");
}

TEST(ConsumeQueues, AFileOfAnotherSizeMeansARebuild) {
  QueueWorld world(Seed{6});
  world.load();
  world.append("t", 0);
  world.dispatch();
  world.round();
  world.driver.crash({1, 2});
  const std::vector<uint8_t> odd(100);
  world.driver.put(world.path("t", 0, 8000), odd);
  world.restart();
  EXPECT_TRUE(world.queues->needs_rebuild());
  EXPECT_FALSE(world.driver.exists(world.path("t", 0, 8000)));
}

TEST(ConsumeQueues, AnUnreadablePageLosesItsEntriesAndNothingElse) {
  QueueWorld world(Seed{7}, 20 * 2000);
  world.load();
  for (int i = 0; i < 1500; ++i) world.append("t", 0);
  world.dispatch();
  world.round();
  world.driver.crash({1, 2});
  world.restart();
  world.driver.unreadable.insert({world.path("t", 0, 0), 1});      // entries 205 to 409
  std::vector<QueueEntry> out;
  world.read_some("t", 0, QueueOffset(0), EntryCount(1000), out);
  EXPECT_GE(out.size(), 200u);
  out.clear();
  world.read_some("t", 0, QueueOffset(300), EntryCount(10), out);
  EXPECT_TRUE(out.empty());
  EXPECT_TRUE(world.driver.has_event("QueueUnreadable"));
  world.read_some("t", 0, QueueOffset(600), EntryCount(10), out);
  EXPECT_EQ(out.size(), 10u);
  EXPECT_EQ(out[0].at, world.records[600].at);
}

TEST(ConsumeQueues, IdleFilesAreUnmappedAndFewAreBusyAtOnce) {
  QueueWorld world(Seed{8});
  world.load();
  for (int i = 0; i < 200; ++i) world.append("t", i);
  world.dispatch();
  world.begin_round();
  EXPECT_EQ(world.driver.in_flight(), static_cast<size_t>(limits::kQueueFilesBusyMax));
  world.settle();
  EXPECT_EQ(world.driver.mapped_count(), 200u);
  world.driver.advance(limits::kQueueIdle);
  world.step([&](Ctx& ctx) { world.queues->pump(ctx); });
  world.driver.advance(limits::kQueueIdle);
  world.step([&](Ctx& ctx) { world.queues->pump(ctx); });
  EXPECT_EQ(world.driver.mapped_count(), 0u);
  while (world.driver.pop_due()) {}
  EXPECT_EQ(world.driver.timers().size(), 0u);
  EXPECT_EQ(world.difference(200), "");
}

}  // namespace
}  // namespace fulmar::testing
