// O17, O18, O19 and O22 by hand-made histories.

#include "history.h"
#include "sim/oracles/o17_liveness.h"
#include "sim/oracles/o18_resources.h"
#include "sim/oracles/o19_recovery.h"
#include "sim/oracles/o22_answers.h"

namespace fulmar::sim {
namespace {

struct LivenessTest : testing::Test { Heard heard; Liveness oracle{heard}; };
TEST_F(LivenessTest, InTime) {
  oracle.expect("sends", 0, 100);
  oracle.at(99, "");
  oracle.came_true("sends");
  oracle.at(200, "");
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(LivenessTest, NothingExpected) {
  oracle.at(1'000, "");
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(LivenessTest, ExpectedAgain) {
  oracle.expect("sends", 0, 100);
  oracle.came_true("sends");
  oracle.expect("sends", 150, 100);
  oracle.at(200, "");
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(LivenessTest, Late) {
  oracle.expect("sends", 0, 100);
  oracle.at(100, "all is stuck");
  ASSERT_EQ(heard.said.size(), 1u);
  EXPECT_NE(heard.said[0].find("all is stuck"), std::string::npos);
}
TEST_F(LivenessTest, OtherThingCameTrue) {
  oracle.expect("sends", 0, 100);
  oracle.came_true("reads");
  oracle.at(100, "");
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(LivenessTest, SaidOnce) {
  oracle.expect("sends", 0, 100);
  oracle.at(100, "");
  oracle.at(200, "");
  EXPECT_EQ(heard.said.size(), 1u);
}

struct ResourcesTest : testing::Test { Heard heard; Resources oracle{heard}; };
TEST_F(ResourcesTest, MomentsOfRest) {
  oracle.started("b");
  oracle.quiet("b", 2), oracle.quiet("b", 0), oracle.quiet("b", 1);
  oracle.end_quiet("b");
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(ResourcesTest, LogFilesStayMapped) {
  oracle.mapped("b", 1, "store/commitlog/00000000000000000000");
  oracle.mapped("b", 1, "store/commitlog/00000000000000000000");
  oracle.end_quiet("b");
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(ResourcesTest, QueueFilesAreGivenBack) {
  oracle.mapped("b", 1, "store/consumequeue/t/0/00000000000000000000");
  oracle.unmapped("b", 1);
  oracle.mapped("b", 2, "store/consumequeue/t/0/00000000000000000000");
  oracle.unmapped("b", 2);
  oracle.end_quiet("b");
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(ResourcesTest, TicketsLeak) {
  oracle.quiet("b", 2), oracle.quiet("b", 1);
  oracle.end_quiet("b");
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(ResourcesTest, IdleQueueStaysMapped) {
  oracle.mapped("b", 1, "store/consumequeue/t/0/00000000000000000000");
  oracle.end_quiet("b");
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(ResourcesTest, MappedTwice) {
  oracle.mapped("b", 1, "store/index/1");
  oracle.mapped("b", 2, "store/index/1");
  EXPECT_EQ(heard.said.size(), 1u);
}

struct RecoveryTest : testing::Test {
  Heard heard;
  RecoveryAgrees oracle{heard};
  static RecoveryAgrees::Outcome outcome(uint64_t records, uint64_t digest, bool has_ended = true) { return {has_ended, records, digest, "somehow"}; }
  void SetUp() override { oracle.begin_image("an image"); }
};
TEST_F(RecoveryTest, Same) {
  oracle.outcome(outcome(3, 9)), oracle.outcome(outcome(3, 9)), oracle.outcome(outcome(3, 9));
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(RecoveryTest, OneAlone) {
  oracle.outcome(outcome(3, 9));
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(RecoveryTest, OtherImagesMayDiffer) {
  oracle.outcome(outcome(3, 9));
  oracle.begin_image("another");
  oracle.outcome(outcome(4, 8));
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(RecoveryTest, FewerRecords) {
  oracle.outcome(outcome(3, 9)), oracle.outcome(outcome(2, 9));
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(RecoveryTest, OtherRecords) {
  oracle.outcome(outcome(3, 9)), oracle.outcome(outcome(3, 8));
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(RecoveryTest, DoesNotEnd) {
  oracle.outcome(outcome(0, 0, false));
  EXPECT_EQ(heard.said.size(), 1u);
}

struct AnswersTest : testing::Test { Heard heard; Answers oracle{heard}; };
TEST_F(AnswersTest, EachOnce) {
  oracle.told(1, "client", "SendMessage", 100, false);
  oracle.answered(1, 100);
  oracle.at(1'000);
  oracle.request(5, 1, false, "SendMessage");
  oracle.response(5, 1);
  oracle.request(5, 1, false, "SendMessage");
  oracle.response(5, 1);
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(AnswersTest, SubscriptionsAreAnsweredOften) {
  oracle.told(1, "client", "Subscribe", 100, true);
  oracle.answered(1, 50), oracle.answered(1, 500);
  oracle.at(1'000);
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(AnswersTest, DeadNodesAnswerNothing) {
  oracle.told(1, "client", "SendMessage", 100, false);
  oracle.died("client");
  oracle.at(1'000);
  oracle.request(5, 2, true, "SendMessage");
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(AnswersTest, Twice) {
  oracle.told(1, "client", "SendMessage", 100, false);
  oracle.answered(1, 10), oracle.answered(1, 20);
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(AnswersTest, Never) {
  oracle.told(1, "client", "SendMessage", 100, false);
  oracle.at(101);
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(AnswersTest, OneWayIsAnswered) {
  oracle.request(5, 1, true, "SendMessage");
  oracle.response(5, 1);
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(AnswersTest, OtherConnection) {
  oracle.request(5, 1, false, "SendMessage");
  oracle.response(6, 1);
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(AnswersTest, SecondResponse) {
  oracle.request(5, 1, false, "SendMessage");
  oracle.response(5, 1), oracle.response(5, 1);
  EXPECT_EQ(heard.said.size(), 1u);
}

}  // namespace
}  // namespace fulmar::sim
