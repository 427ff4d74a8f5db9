// RocketMQ's JSON tables: written from the fold, read back, and read as others write them.

#include "core/store/exports.h"

#include <gtest/gtest.h>

#include "tests/unit/store/memory_driver.h"
#include "tests/unit/store/meta_kit.h"

namespace fulmar::testing {
namespace {

constexpr const char* kTopics = "config/topics.json";
constexpr const char* kOffsets = "config/consumerOffset.json";

class ExportsTest : public ::testing::Test {
 protected:
  void run(Exports& exports) {
    while (auto input = driver.complete_one()) {
      driver.step([&](Ctx& ctx) {
        if (const auto* read = std::get_if<Read>(&*input)) exports.on_read(ctx, *read);
        if (const auto* done = std::get_if<Done>(&*input)) exports.on_done(ctx, *done);
      });
    }
  }
  void import(Exports& exports) {
    driver.step([&](Ctx& ctx) { exports.begin_import(ctx); });
    run(exports);
    ASSERT_TRUE(exports.is_import_done());
  }
  void put(const char* path, std::string_view text) { driver.put(path, as_bytes(text)); }
  std::string text(const char* path) { return std::string(as_text(driver.contents(path))); }

  MemoryDriver driver{Seed{1}};
  MetaKit kit;
};

TEST_F(ExportsTest, WritesWhatItReads) {
  ASSERT_TRUE(kit.meta().set_topic(kit.ctx, {"orders", 8, 4, 6}));
  ASSERT_TRUE(kit.meta().set_topic(kit.ctx, {"gone", 1, 1, 6}));
  ASSERT_TRUE(kit.meta().remove_topic(kit.ctx, "gone"));
  ASSERT_TRUE(kit.meta().set_offsets(kit.ctx, {{{"billing", "orders", 0}, QueueOffset(120)}, {{"billing", "orders", 1}, QueueOffset(int64_t{1} << 60)}, {{"audit", "orders", 0}, QueueOffset(4)}}));
  Exports writer("config", kit.meta());
  driver.step([&](Ctx& ctx) { writer.write_now(ctx); });
  EXPECT_FALSE(writer.is_idle());
  run(writer);
  EXPECT_TRUE(writer.is_idle());
  EXPECT_NE(text(kOffsets).find("1:1152921504606846976"), std::string::npos) << text(kOffsets);
  EXPECT_NE(text(kTopics).find("SCHEDULE_TOPIC_XXXX"), std::string::npos);
  EXPECT_NE(text("config/subscriptionGroup.json").find("\"billing\""), std::string::npos);

  Exports reader("config", kit.meta());
  import(reader);
  ASSERT_TRUE(reader.import_outcome());
  EXPECT_EQ(reader.imported_topics(), (std::vector<TopicConfig>{{"orders", 8, 4, 6}}));
  EXPECT_EQ(reader.imported_offsets().size(), 3u);
}

TEST_F(ExportsTest, WritesAtMostEveryFiveSeconds) {
  Exports writer("config", kit.meta());
  ASSERT_TRUE(kit.meta().set_topic(kit.ctx, {"a", 1, 1, 6}));
  driver.step([&](Ctx& ctx) { writer.pump(ctx); });
  run(writer);
  ASSERT_TRUE(kit.meta().set_topic(kit.ctx, {"b", 1, 1, 6}));
  driver.advance(Duration::milliseconds(4999));
  driver.step([&](Ctx& ctx) { writer.pump(ctx); });
  EXPECT_EQ(driver.in_flight(), 0u);
  driver.advance(Duration::milliseconds(1));
  driver.step([&](Ctx& ctx) { writer.pump(ctx); });
  run(writer);
  EXPECT_NE(text(kTopics).find("\"b\""), std::string::npos);
}

TEST_F(ExportsTest, AFullDiskDelaysThemAndDoesNotHoldUpAStop) {
  driver.is_disk_full = true;
  ASSERT_TRUE(kit.meta().set_topic(kit.ctx, {"a", 1, 1, 6}));
  Exports writer("config", kit.meta());
  driver.step([&](Ctx& ctx) { writer.pump(ctx); });
  run(writer);
  EXPECT_FALSE(writer.is_idle());
  driver.step([&](Ctx& ctx) { writer.write_now(ctx); });
  run(writer);
  EXPECT_TRUE(writer.is_idle());
}

TEST_F(ExportsTest, BothMissingIsAnEmptyStore) {
  Exports reader("config", kit.meta());
  import(reader);
  EXPECT_TRUE(reader.import_outcome());
  EXPECT_TRUE(reader.imported_topics().empty());
}

TEST_F(ExportsTest, ReadsWhatOthersWrite) {
  put(kTopics, R"({"dataVersion":{"counter":2,"stateVersion":0,"timestamp":1},"future":[1,{"x":null}],"topicConfigTable":{
    "orders":{"attributes":{"message.type":"NORMAL"},"order":false,"perm":6,"readQueueNums":8,"topicName":"orders","writeQueueNums":8},
    "TBW102":{"perm":7,"readQueueNums":8,"writeQueueNums":8},"bad/name":{"perm":6},"SELF_TEST_TOPIC":{"perm":6}}})");
  put(kOffsets, R"({"groupTopicMap":{},"offsetTable":{"orders@billing":{0:120,1:98,"2":"7",3:-1,"x":1},"%RETRY%billing@billing":{0:4},"nobody":{0:1}}})");
  Exports reader("config", kit.meta());
  import(reader);
  ASSERT_TRUE(reader.import_outcome());
  ASSERT_EQ(reader.imported_topics().size(), 1u);
  ASSERT_EQ(reader.imported_offsets().size(), 4u);
  EXPECT_EQ(reader.imported_offsets()[2], std::pair(OffsetKey({"billing", "orders", 2}), QueueOffset(7)));
}

TEST_F(ExportsTest, ABackupStandsInForAMissingOrBrokenFile) {
  const std::string_view good = R"({"topicConfigTable":{"orders":{"perm":6,"readQueueNums":1,"writeQueueNums":1}}})";
  put("config/topics.json.bak", good);
  put(kOffsets, "{ broken");
  put("config/consumerOffset.json.bak", R"({"offsetTable":{"orders@g":{0:5}}})");
  Exports reader("config", kit.meta());
  import(reader);
  ASSERT_TRUE(reader.import_outcome());
  EXPECT_EQ(reader.imported_topics().size(), 1u);
  EXPECT_EQ(reader.imported_offsets().size(), 1u);
}

TEST_F(ExportsTest, AFileThatIsThereAndUselessStopsTheStart) {
  put(kTopics, "{ broken");
  Exports reader("config", kit.meta());
  import(reader);
  ASSERT_FALSE(reader.import_outcome());
  EXPECT_EQ(reader.import_outcome().code(), Errc::StoreDamaged);
  EXPECT_NE(reader.import_outcome().error().detail.find("topics.json"), std::string::npos);
}

}  // namespace
}  // namespace fulmar::testing
