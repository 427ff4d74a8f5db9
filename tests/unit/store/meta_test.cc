// The fold of topics and offsets: what is taken at once, what comes by again in the log, and what a fresh fold makes of it.

#include <gtest/gtest.h>

#include "tests/unit/store/meta_kit.h"

namespace fulmar::testing {
namespace {

TEST(Meta, TakesChangesAtOnceAndIgnoresThemWhenTheLogBringsThemAgain) {
  MetaKit kit;
  ASSERT_TRUE(kit.meta().set_topic(kit.ctx, {"orders", 4, 4, 6}));
  ASSERT_TRUE(kit.meta().set_offsets(kit.ctx, {{{"billing", "orders", 0}, QueueOffset(5)}}));
  ASSERT_TRUE(kit.meta().set_offsets(kit.ctx, {{{"billing", "orders", 0}, QueueOffset(9)}}));
  kit.redispatch_from(0);
  EXPECT_EQ(kit.meta().offset({"billing", "orders", 0}), QueueOffset(9));
  EXPECT_EQ(kit.meta().topics_version(), 1u);
  EXPECT_EQ(kit.meta().claim(), kit.place_of(0));
}

TEST(Meta, ClaimsTheOldestRecordThatStillMatters) {
  MetaKit kit;
  ASSERT_TRUE(kit.meta().set_offsets(kit.ctx, {{{"g", "t", 0}, QueueOffset(1)}}));
  ASSERT_TRUE(kit.meta().set_topic(kit.ctx, {"t", 1, 1, 6}));
  ASSERT_TRUE(kit.meta().set_offsets(kit.ctx, {{{"g", "t", 0}, QueueOffset(2)}}));
  EXPECT_EQ(kit.meta().claim(), kit.place_of(1));
  ASSERT_TRUE(kit.meta().set_topic(kit.ctx, {"t", 2, 2, 6}));
  EXPECT_EQ(kit.meta().claim(), kit.place_of(2));
}

TEST(Meta, ATopicMadeAgainGoesOnBehindItsOldOffsets) {
  MetaKit kit;
  ASSERT_TRUE(kit.meta().set_topic(kit.ctx, {"t", 2, 2, 6}));
  kit.assign("t", 1, 7);
  ASSERT_TRUE(kit.meta().remove_topic(kit.ctx, "t"));
  EXPECT_EQ(kit.meta().topic("t"), nullptr);
  EXPECT_EQ(kit.meta().topic_count(), 0u);
  EXPECT_EQ(kit.queues().range("t", QueueId(1)).min, QueueOffset(7));
  ASSERT_TRUE(kit.meta().set_topic(kit.ctx, {"t", 2, 2, 6}));
  EXPECT_EQ(kit.queues().next_offset("t", QueueId(1)), QueueOffset(7));
  // Also when only the last record is left of all this.
  MetaKit later;
  later.take_records(kit);
  later.redispatch_from(2);
  EXPECT_NE(later.meta().topic("t"), nullptr);
  EXPECT_EQ(later.queues().range("t", QueueId(1)).max, QueueOffset(7));
  EXPECT_EQ(later.queues().next_offset("t", QueueId(1)), QueueOffset(7));
}

TEST(Meta, RemovingWhatIsNotThereIsAnError) {
  MetaKit kit;
  const auto outcome = kit.meta().remove_topic(kit.ctx, "t");
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.code(), Errc::NotFound);
}

TEST(Meta, AnAppendThatFailsChangesNothing) {
  MetaKit kit;
  ASSERT_TRUE(kit.meta().set_topic(kit.ctx, {"t", 1, 1, 6}));
  kit.log.failing = Errc::DiskFull;
  EXPECT_EQ(kit.meta().set_topic(kit.ctx, {"u", 1, 1, 6}).code(), Errc::DiskFull);
  EXPECT_EQ(kit.meta().remove_topic(kit.ctx, "t").code(), Errc::DiskFull);
  EXPECT_EQ(kit.meta().set_offsets(kit.ctx, {{{"g", "t", 0}, QueueOffset(1)}}).code(), Errc::DiskFull);
  EXPECT_NE(kit.meta().topic("t"), nullptr);
  EXPECT_EQ(kit.meta().topic("u"), nullptr);
  EXPECT_FALSE(kit.meta().offset({"g", "t", 0}).has_value());
}

TEST(Meta, ClampedOffsetsAreOwedToTheLog) {
  MetaKit kit;
  ASSERT_TRUE(kit.meta().set_topic(kit.ctx, {"t", 1, 1, 6}));
  ASSERT_TRUE(kit.meta().set_offsets(kit.ctx, {{{"g", "t", 0}, QueueOffset(10)}}));
  kit.meta().clamp_offsets(kit.ctx);   // the queue is empty
  EXPECT_EQ(kit.meta().offset({"g", "t", 0}), QueueOffset(0));
  kit.log.failing = Errc::LogRolling;
  EXPECT_FALSE(kit.meta().settle(kit.ctx));
  kit.log.failing = {};
  EXPECT_TRUE(kit.meta().settle(kit.ctx));
  MetaKit later;
  later.take_records(kit);
  later.redispatch_from(0);
  EXPECT_EQ(later.meta().offset({"g", "t", 0}), QueueOffset(0));
}

TEST(Meta, ManyOffsetsFillSeveralRecords) {
  MetaKit kit;
  std::vector<std::pair<OffsetKey, QueueOffset>> offsets;
  for (int i = 0; i < 2000; ++i) offsets.push_back({{"group", "topic", i}, QueueOffset(i)});
  const auto appended = kit.meta().set_offsets(kit.ctx, offsets);
  ASSERT_TRUE(appended);
  EXPECT_GT(kit.log.records.size(), 1u);
  EXPECT_EQ(appended->begin, kit.place_of(0));
  EXPECT_EQ(kit.meta().offset({"group", "topic", 1999}), QueueOffset(1999));
}

TEST(Meta, PassesOverUnknownItemsAndBrokenBodies) {
  MetaKit kit;
  ASSERT_TRUE(kit.meta().set_topic(kit.ctx, {"t", 1, 1, 6}));
  auto later = kit.log.records[0];
  later.body.insert(later.body.begin() + 1, {99, 0, 0, 0, 2, 7, 7});   // a kind of a later version, in front
  kit.log.records.push_back(later);
  for (const size_t cut : {1u, 3u, 9u, 12u}) {
    auto broken = kit.log.records[0];
    broken.body.resize(cut);
    kit.log.records.push_back(broken);
  }
  MetaKit fresh;
  fresh.take_records(kit);
  fresh.redispatch_from(1);
  EXPECT_NE(fresh.meta().topic("t"), nullptr);
}

TEST(Meta, ListsInPagesWithoutRemovedTopics) {
  MetaKit kit;
  for (const char* name : {"a", "b", "c", "d"}) ASSERT_TRUE(kit.meta().set_topic(kit.ctx, {name, 1, 1, 6}));
  ASSERT_TRUE(kit.meta().remove_topic(kit.ctx, "b"));
  const auto page = kit.meta().topics("a", 2);
  ASSERT_EQ(page.size(), 2u);
  EXPECT_EQ(page[0].name, "c");
  EXPECT_EQ(page[1].name, "d");
}

TEST(MetaGroups, AGroupIsFoldedLikeATopic) {
  MetaKit kit;
  GroupConfig config;
  config.name = "g";
  config.retry_max = 3;
  config.is_broadcast_enabled = false;
  config.slow_broker_id = 7;
  ASSERT_TRUE(kit.meta().set_group(kit.ctx, config));
  MetaKit fresh;
  fresh.take_records(kit);
  fresh.redispatch_from(0);
  ASSERT_NE(fresh.meta().group("g"), nullptr);
  EXPECT_EQ(*fresh.meta().group("g"), config);
  EXPECT_EQ(fresh.meta().claim(), kit.place_of(0));
  kit.redispatch_from(0);
  EXPECT_EQ(kit.meta().changes(), 1u);
}

TEST(MetaGroups, ARemovedGroupTakesItsOffsetsAlongAndTheLogDoesNotBringThemBack) {
  MetaKit kit;
  ASSERT_TRUE(kit.meta().set_offsets(kit.ctx, {{{"g", "t", 0}, QueueOffset(5)}, {{"h", "t", 0}, QueueOffset(6)}}));
  ASSERT_TRUE(kit.meta().remove_group(kit.ctx, "g"));
  EXPECT_FALSE(kit.meta().has_offsets("g"));
  kit.redispatch_from(0);
  EXPECT_EQ(kit.meta().offset({"g", "t", 0}), std::nullopt);
  EXPECT_EQ(kit.meta().offset({"h", "t", 0}), QueueOffset(6));
  ASSERT_TRUE(kit.meta().set_offsets(kit.ctx, {{{"g", "t", 0}, QueueOffset(1)}}));
  kit.redispatch_from(0);
  EXPECT_EQ(kit.meta().offset({"g", "t", 0}), QueueOffset(1));
  MetaKit fresh;
  fresh.take_records(kit);
  fresh.redispatch_from(0);
  EXPECT_EQ(fresh.meta().offset({"g", "t", 0}), QueueOffset(1));
  EXPECT_EQ(kit.meta().remove_group(kit.ctx, "nobody").code(), Errc::NotFound);
}

TEST(MetaGroups, ARemovedGroupClaimsNothing) {
  MetaKit kit;
  GroupConfig config;
  config.name = "g";
  ASSERT_TRUE(kit.meta().set_group(kit.ctx, config));
  ASSERT_TRUE(kit.meta().remove_group(kit.ctx, "g"));
  EXPECT_EQ(kit.meta().claim(), PhysicalOffset(UINT64_MAX));
  EXPECT_EQ(kit.meta().group("g"), nullptr);
  ASSERT_TRUE(kit.meta().set_group(kit.ctx, config));
  EXPECT_EQ(kit.meta().claim(), kit.place_of(2));
}

// Retention: what is still true of groups is written again, once; one that is removed needs no record, and its offsets stay away.
TEST(MetaGroups, GroupsAreCarriedOverBeforeTheirRecordsGo) {
  MetaKit kit;
  const auto group = [](std::string name, int32_t retry_max) { GroupConfig config; config.name = std::move(name); config.retry_max = retry_max; return config; };
  for (const char* name : {"made", "removed", "again"}) ASSERT_TRUE(kit.meta().set_group(kit.ctx, group(name, 1)));
  ASSERT_TRUE(kit.meta().set_offsets(kit.ctx, {{{"made", "t", 0}, QueueOffset(1)}, {{"removed", "t", 0}, QueueOffset(2)}, {{"again", "t", 0}, QueueOffset(3)}}));
  for (const char* name : {"removed", "again"}) ASSERT_TRUE(kit.meta().remove_group(kit.ctx, name));
  ASSERT_TRUE(kit.meta().set_group(kit.ctx, group("again", 2)));
  ASSERT_TRUE(kit.meta().set_group(kit.ctx, group("young", 3)));
  const size_t kept = kit.log.records.size() - 1;   // the record of "young" is the first that stays
  const PhysicalOffset cut = kit.place_of(kept);
  for (int i = 0; i < 10 && !kit.meta().carry_over(kit.ctx, cut, {}); ++i) {}
  EXPECT_GE(kit.meta().claim(), cut);
  const size_t written = kit.log.records.size();
  EXPECT_TRUE(kit.meta().carry_over(kit.ctx, cut, {}));
  EXPECT_EQ(kit.log.records.size(), written) << "once is enough";
  // The same to who folded them, to who folds what is left, and to who is given it a second time.
  MetaKit fresh;
  fresh.take_records(kit);
  fresh.redispatch_from(kept);
  kit.redispatch_from(kept);
  for (MetaKit* each : {&kit, &fresh}) {
    const Meta& meta = each->meta();
    ASSERT_NE(meta.group("made"), nullptr);
    EXPECT_EQ(*meta.group("made"), group("made", 1));
    EXPECT_EQ(meta.group("removed"), nullptr);
    ASSERT_NE(meta.group("again"), nullptr);
    EXPECT_EQ(*meta.group("again"), group("again", 2));
    ASSERT_NE(meta.group("young"), nullptr);
    EXPECT_EQ(meta.offset({"made", "t", 0}), QueueOffset(1));
    EXPECT_FALSE(meta.has_offsets("removed"));
    EXPECT_FALSE(meta.has_offsets("again"));
  }
}

TEST(MetaGroups, NamesComeInOrder) {
  MetaKit kit;
  for (const char* name : {"b", "a-1", "a"}) {
    GroupConfig config;
    config.name = name;
    ASSERT_TRUE(kit.meta().set_group(kit.ctx, config));
  }
  ASSERT_TRUE(kit.meta().set_offsets(kit.ctx, {{{"a", "t", 0}, QueueOffset(1)}, {{"a0", "t", 0}, QueueOffset(1)}, {{"c", "t", 0}, QueueOffset(1)}}));
  ASSERT_TRUE(kit.meta().remove_group(kit.ctx, "b"));
  std::string names;
  for (auto next = kit.meta().next_group(""); next; next = kit.meta().next_group(*next)) names += *next + " ";
  EXPECT_EQ(names, "a a-1 a0 c ");
}

}  // namespace
}  // namespace fulmar::testing
