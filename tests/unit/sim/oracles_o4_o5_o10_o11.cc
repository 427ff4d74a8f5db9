// O4, O5, O10 and O11 by hand-made histories.

#include "history.h"
#include "sim/oracles/o10_offsets.h"
#include "sim/oracles/o11_index.h"
#include "sim/oracles/o4_at_least_once.h"
#include "sim/oracles/o5_read_stability.h"

namespace fulmar::sim {
namespace {

struct AtLeastOnceTest : testing::Test {
  Heard heard;
  AtLeastOnce oracle{heard};
  void SetUp() override { oracle.subscribed("g", "topic-0", {}); }
  void demand(int64_t offset, std::string_view tags = "") { oracle.demand("g", kQueue, offset, tags, {7, 1}); }
};
TEST_F(AtLeastOnceTest, AllInOrder) {
  oracle.delivered("g", kQueue, 1, 0, 2, {0, 1});
  oracle.consumed("g", kQueue, 1, 2);
  demand(0), demand(1);
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(AtLeastOnceTest, BatchesMayComeAgain) {
  oracle.delivered("g", kQueue, 1, 0, 2, {0, 1});
  oracle.consumed("g", kQueue, 1, 2);
  oracle.delivered("g", kQueue, 1, 1, 2, {1});
  oracle.consumed("g", kQueue, 1, 2);
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(AtLeastOnceTest, FilteredMessagesAreNotOwed) {
  oracle.subscribed("tagged", "topic-0", {"a"});
  oracle.delivered("tagged", kQueue, 1, 0, 3, {1});
  oracle.consumed("tagged", kQueue, 1, 3);
  oracle.demand("tagged", kQueue, 0, "b", {7, 1});
  oracle.demand("tagged", kQueue, 1, "a", {7, 2});
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(AtLeastOnceTest, SkipsBehindWhatWasConsumed) {
  oracle.delivered("g", kQueue, 1, 0, 2, {0, 1});
  oracle.delivered("g", kQueue, 1, 2, 3, {2});
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(AtLeastOnceTest, SeveralBatchesOfAPipelinedGroup) {
  oracle.subscribed("p", "topic-0", {}, true);
  oracle.delivered("p", kQueue, 1, 0, 2, {0, 1});
  oracle.delivered("p", kQueue, 1, 2, 3, {2});
  oracle.consumed("p", kQueue, 1, 3);
  EXPECT_TRUE(heard.is_silent());
  EXPECT_FALSE(oracle.misses("p", kQueue, 2, ""));
  oracle.delivered("p", kQueue, 1, 4, 5, {4});
  EXPECT_EQ(heard.said.size(), 1u);
}

TEST_F(AtLeastOnceTest, AnotherMemberGoesOnWhereTheFirstHasConsumed) {
  oracle.delivered("g", kQueue, 1, 0, 2, {0, 1});
  oracle.let_go("g", 1);
  oracle.delivered("g", kQueue, 2, 0, 2, {0, 1});
  oracle.consumed("g", kQueue, 1, 2);   // nobody's batch any more
  EXPECT_TRUE(heard.is_silent());
  oracle.delivered("g", kQueue, 2, 2, 3, {2});
  EXPECT_EQ(heard.said.size(), 1u);
}

TEST_F(AtLeastOnceTest, NeverDelivered) {
  oracle.delivered("g", kQueue, 1, 0, 2, {0});
  oracle.consumed("g", kQueue, 1, 2);
  demand(1);
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(AtLeastOnceTest, DeliveredButNotConsumed) {
  oracle.delivered("g", kQueue, 1, 0, 1, {0});
  demand(0);
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(AtLeastOnceTest, ReplacedAfterACut) {
  oracle.delivered("g", kQueue, 1, 0, 2, {0, 1});
  oracle.consumed("g", kQueue, 1, 2);
  oracle.cut(kQueue, 1);
  demand(0);
  EXPECT_TRUE(heard.is_silent());
  demand(1);
  EXPECT_EQ(heard.said.size(), 1u);
}

struct StabilityTest : testing::Test {
  Heard heard;
  ReadStability oracle{heard};
  std::vector<std::vector<uint8_t>> kept;
  void read(const SentMessage& m) {
    kept.push_back(stored(m));
    oracle.read(seen(kept.back()), m.id);
  }
};
TEST_F(StabilityTest, FlushedAndKept) {
  oracle.add_broker("broker-a", true);
  oracle.flushed("broker-a", 5000);
  read(message(1)), read(message(1));
  oracle.recovered({"broker-a", 5000, 1});
  read(message(1));
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(StabilityTest, AsyncShowsWhatIsNotFlushed) {
  oracle.add_broker("broker-a", false);
  read(message(1));
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(StabilityTest, AsyncLosesANamedRange) {
  oracle.add_broker("broker-a", false);
  read(message(1));
  oracle.named("broker-a", 1000, 9000);
  oracle.recovered({"broker-a", 1000, 1});
  SentMessage other = message(2);
  other.physical = 1000;
  read(other);
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(StabilityTest, SyncShowsWhatIsNotFlushed) {
  oracle.add_broker("broker-a", true);
  oracle.flushed("broker-a", 1000);
  read(message(1));
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(StabilityTest, SyncLosesWhatWasRead) {
  oracle.add_broker("broker-a", true);
  oracle.flushed("broker-a", 5000);
  read(message(1));
  oracle.recovered({"broker-a", 1100, 1});
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(StabilityTest, SomethingElseInItsPlace) {
  oracle.add_broker("broker-a", true);
  oracle.flushed("broker-a", 5000);
  read(message(1));
  SentMessage other = message(2);
  other.physical = 1000;
  read(other);
  EXPECT_EQ(heard.said.size(), 1u);
}

struct OffsetsTest : testing::Test {
  Heard heard;
  CommittedOffsets oracle{heard};
  void commit(int64_t offset, bool is_flushed = false) {
    const uint64_t losses = oracle.asked("g", kQueue, offset);
    oracle.acked("g", kQueue, offset, is_flushed, losses);
  }
  void query(std::optional<int64_t> offset) { oracle.answered("g", kQueue, oracle.begin_query("g", kQueue), offset); }
};
TEST_F(OffsetsTest, LastCommitStands) {
  query(std::nullopt);
  commit(3), query(3), commit(5), query(5);
  oracle.ended("g", kQueue, 5, 5);
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(OffsetsTest, UnansweredCommitsMayStand) {
  commit(3);
  oracle.asked("g", kQueue, 7);
  query(3), query(7);
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(OffsetsTest, PowerCutTakesWhatWasNotFlushed) {
  commit(3, true), commit(5);
  oracle.lost_cache("broker-a");
  query(3);
  EXPECT_TRUE(heard.is_silent());
}
// The broker answers a commit that did not ask for a flush and halts on a failed one; the answer arrives after it is gone.
TEST_F(OffsetsTest, AnswerThatCrossedAFailedFlush) {
  const uint64_t early = oracle.asked("g", kQueue, 3);
  oracle.lost_cache("broker-a");
  oracle.acked("g", kQueue, 3, false, early);
  query(std::nullopt);
  EXPECT_TRUE(heard.is_silent());
  const uint64_t flushed = oracle.asked("g", kQueue, 4);
  oracle.lost_cache("broker-a");
  oracle.acked("g", kQueue, 4, true, flushed);
  query(std::nullopt);
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(OffsetsTest, CommitIsLostWithoutAPowerCut) {
  commit(3, true), commit(5), query(3);
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(OffsetsTest, FlushedCommitIsLost) {
  commit(3, true);
  oracle.lost_cache("broker-a");
  query(std::nullopt);
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(OffsetsTest, HigherThanAnybodyCommitted) {
  commit(3), query(4);
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(OffsetsTest, AboveTheEnd) {
  oracle.ended("g", kQueue, 6, 5);
  EXPECT_EQ(heard.said.size(), 1u);
}

struct IndexTest : testing::Test {
  Heard heard;
  KeyIndex oracle{heard};
  KeyIndex::Query query{"broker-a", "topic-0", "k"};
  void visible(uint64_t number, std::vector<std::string> keys) { oracle.visible("broker-a", "topic-0", keys, {7, number}, number); }
};
TEST_F(IndexTest, AllFound) {
  visible(1, {"k"}), visible(2, {"j", "k"}), visible(3, {"j"});
  oracle.found(query, 64, {{{7, 1}, {"k"}}, {{7, 2}, {"j", "k"}}});
  EXPECT_TRUE(heard.is_silent());
  EXPECT_EQ(oracle.queries().size(), 2u);
}
TEST_F(IndexTest, AsManyAsWereAskedFor) {
  visible(1, {"k"}), visible(2, {"k"}), visible(3, {"k"});
  oracle.found(query, 2, {{{7, 3}, {"k"}}, {{7, 2}, {"k"}}});
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(IndexTest, NothingToFind) {
  oracle.found(query, 64, {});
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(IndexTest, OnlyTheWindowIsDemanded) {
  oracle.visible("broker-a", "topic-0", {"k"}, {7, 1}, 1, 1000), oracle.visible("broker-a", "topic-0", {"k"}, {7, 2}, 2, 2000);
  oracle.found(query, 64, {{{7, 2}, {"k"}}}, {2000, 2000});
  EXPECT_TRUE(heard.is_silent());
  EXPECT_EQ(oracle.stamps(query), (std::vector<int64_t>{1000, 2000}));
}
TEST_F(IndexTest, GoneBeforeOrAfterItWasToldOf) {
  visible(1, {"k"});
  oracle.begins_at("broker-a", 3);
  visible(2, {"k"}), visible(3, {"k"});
  oracle.found(query, 64, {{{7, 3}, {"k"}}});
  EXPECT_TRUE(heard.is_silent());
  oracle.begins_at("broker-a", 2);   // a power cut took the new begin back
  visible(2, {"k"});
  oracle.found(query, 64, {{{7, 3}, {"k"}}});
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(IndexTest, NotFoundInItsWindow) {
  oracle.visible("broker-a", "topic-0", {"k"}, {7, 1}, 1, 1000), oracle.visible("broker-a", "topic-0", {"k"}, {7, 2}, 2, 2000);
  oracle.found(query, 64, {{{7, 1}, {"k"}}}, {1000, 2000});
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(IndexTest, NotFound) {
  visible(1, {"k"});
  oracle.found(query, 64, {});
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(IndexTest, WrongKey) {
  visible(1, {"k"});
  oracle.found(query, 64, {{{7, 1}, {"k"}}, {{7, 2}, {"collision"}}});
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(IndexTest, FewerThanThereAre) {
  visible(1, {"k"}), visible(2, {"k"}), visible(3, {"k"});
  oracle.found(query, 2, {{{7, 3}, {"k"}}});
  EXPECT_EQ(heard.said.size(), 1u);
}

}  // namespace
}  // namespace fulmar::sim
