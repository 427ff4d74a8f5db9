// O24 by hand-made histories.

#include "history.h"
#include "sim/oracles/o24_retention.h"

namespace fulmar::sim {
namespace {

struct RetentionTruthTest : testing::Test {
  RetentionTruthTest() {
    oracle.add_broker("b", {10'000, 300, true, false});
    oracle.add_broker("strict", {10'000, 0, false, false});
  }
  void acked(const char* broker, uint64_t physical, int64_t asked_ms) {
    SentMessage m;
    m.id = {1, ++count};
    m.topic = "t";
    m.fate = Fate::Acked;
    m.queue = {broker, "t", 0};
    m.physical = physical;
    m.asked_ns = asked_ms * 1'000'000;
    ledger.add(m);
  }
  static constexpr int64_t kMs = 1'000'000;
  Heard heard;
  Ledger ledger;
  RetentionTruth oracle{ledger, heard};
  uint64_t count = 0;
};

TEST_F(RetentionTruthTest, OldMessagesGoFromTheFront) {
  acked("b", 0, 1'000);
  oracle.expired("b", 0, 1'000, "expired", 5'000, 20'000 * kMs);
  oracle.begins("b", 1'000);
  oracle.file_leaves("b", 0, 1'000, 1'000);
  oracle.recovered("b", 1'000, 30'000 * kMs, 0);
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(RetentionTruthTest, YoungOnesDoNot) {
  acked("b", 0, 15'000);
  oracle.expired("b", 0, 1'000, "expired", 5'000, 20'000 * kMs);
  ASSERT_EQ(heard.said.size(), 1u);
  EXPECT_NE(heard.said[0].find("5000 ms old at most"), std::string::npos) << heard.said[0];
}
TEST_F(RetentionTruthTest, ALeapBeforeThisLifeExcusesWhatIsOlderThanIt) {
  acked("b", 0, 15'000);
  oracle.recovered("b", 0, 16'000 * kMs, 86'400'000);
  oracle.expired("b", 0, 1'000, "expired", 5'000, 20'000 * kMs);
  EXPECT_TRUE(heard.is_silent());
  acked("b", 1'000, 17'000);
  oracle.begins("b", 1'000);
  oracle.expired("b", 1'000, 2'000, "expired", 5'000, 20'000 * kMs);
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(RetentionTruthTest, NothingFromTheMiddleAndNothingThatIsWritten) {
  oracle.expired("b", 1'000, 2'000, "retainBytesMax", 5'000, 0);
  EXPECT_EQ(heard.said.size(), 1u);
  oracle.begins("b", 1'000);
  oracle.expired("b", 1'000, 2'000, "retainBytesMax", 1'900, 0);
  EXPECT_EQ(heard.said.size(), 2u);
}
TEST_F(RetentionTruthTest, OnlyForReasonsThatAreAllowed) {
  oracle.expired("strict", 0, 1'000, "the disk is nearly full", 5'000, 0);
  EXPECT_EQ(heard.said.size(), 1u);
  oracle.expired("strict", 0, 1'000, "retainBytesMax", 5'000, 0);
  EXPECT_EQ(heard.said.size(), 2u);
  oracle.expired("b", 0, 100, "retainBytesMax", 250, 0);
  EXPECT_EQ(heard.said.size(), 3u) << "the log is not that long";
}
TEST_F(RetentionTruthTest, NoFileBeforeItsCheckpointAndNoBeginUnannounced) {
  oracle.expired("b", 0, 1'000, "retainBytesMax", 5'000, 0);
  oracle.file_leaves("b", 0, 1'000, 0);
  EXPECT_EQ(heard.said.size(), 1u);
  oracle.recovered("b", 2'000, 0, 0);
  EXPECT_EQ(heard.said.size(), 2u);
}

}  // namespace
}  // namespace fulmar::sim
