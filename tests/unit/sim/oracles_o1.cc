// O1 and O1a by hand-made histories.

#include "history.h"
#include "sim/oracles/o1_no_loss.h"
#include "sim/oracles/o1a_truth_at_ack.h"

namespace fulmar::sim {
namespace {

struct NoLossTest : testing::Test {
  Ledger ledger;
  Heard heard;
  NoLoss oracle{ledger, heard};
  std::map<MessageId, uint64_t> visible;
  void acked(uint64_t number, Fate fate = Fate::Acked) {
    ledger.add(message(number, fate));
    oracle.acked(*ledger.find(MessageId{7, number}));
  }
  void see(uint64_t number) { visible[{7, number}] = 1; }
  void use(bool is_sync) { oracle.add_broker("broker-a", is_sync); }
};

TEST_F(NoLossTest, EverythingThatWasAckedIsThere) {
  use(true);
  acked(1), acked(2), see(1), see(2);
  oracle.lost_cache("broker-a");
  oracle.recovered({"broker-a", 5000, 10});
  oracle.read_everything(visible);
  EXPECT_TRUE(heard.is_silent());
}

TEST_F(NoLossTest, UnknownAndRefusedPromiseNothing) {
  use(true);
  acked(1, Fate::Unknown), acked(2, Fate::Refused), acked(3, Fate::Pending);
  oracle.read_everything(visible);
  EXPECT_TRUE(heard.is_silent());
}

TEST_F(NoLossTest, AsyncMayLoseANamedRangeToAPowerCut) {
  use(false);
  acked(1), acked(3), see(1);
  oracle.flushed("broker-a", 2000);
  oracle.lost_cache("broker-a");
  oracle.named("broker-a", 2000, 9000);
  oracle.recovered({"broker-a", 2000, 10});
  oracle.read_everything(visible);
  EXPECT_TRUE(heard.is_silent());
  EXPECT_EQ(oracle.excused(), 1u);
}

TEST_F(NoLossTest, StoredOnlyMayGoWhereTheLogWasNotFlushed) {
  use(true);
  acked(3, Fate::StoredOnly);
  oracle.flushed("broker-a", 3000);
  oracle.lost_cache("broker-a");
  oracle.recovered({"broker-a", 3000, 10});
  oracle.read_everything(visible);
  EXPECT_TRUE(heard.is_silent());
}

TEST_F(NoLossTest, AckedMessageIsMissingAtTheEnd) {
  use(true);
  acked(1), acked(2), see(1);
  oracle.read_everything(visible);
  ASSERT_EQ(heard.said.size(), 1u);
  EXPECT_EQ(oracle.lost(), 1u);
}

TEST_F(NoLossTest, SyncLosesToAPowerCut) {
  use(true);
  acked(3);
  oracle.lost_cache("broker-a");
  oracle.recovered({"broker-a", 3010, 10});
  EXPECT_EQ(heard.said.size(), 1u);
}

TEST_F(NoLossTest, AsyncLosesToAKill) {
  use(false);
  acked(3);
  oracle.named("broker-a", 3000, 9000);
  oracle.recovered({"broker-a", 3000, 10});
  EXPECT_EQ(heard.said.size(), 1u);
}

TEST_F(NoLossTest, AsyncLosesOutsideTheNamedRange) {
  use(false);
  acked(3);
  oracle.lost_cache("broker-a");
  oracle.named("broker-a", 3001, 9000);
  oracle.recovered({"broker-a", 3000, 10});
  EXPECT_EQ(heard.said.size(), 1u);
}

TEST_F(NoLossTest, StoredOnlyIsGoneAlthoughItWasFlushed) {
  use(true);
  acked(3, Fate::StoredOnly);
  oracle.flushed("broker-a", 5000);
  oracle.lost_cache("broker-a");
  oracle.recovered({"broker-a", 3000, 10});
  EXPECT_EQ(heard.said.size(), 1u);
}

struct TruthTest : testing::Test {
  Heard heard;
  TruthAtAck oracle{heard};
  static TruthAtAck::DurableEnd durable(uint64_t to) {
    return [to](uint64_t begin, uint64_t end) { return std::clamp(to, begin, end); };
  }
};

TEST_F(TruthTest, FlushedAcksAreTrue) {
  oracle.add_broker("b", true);
  oracle.acked("b", 100, 200, true, durable(200));
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(TruthTest, AsyncAcksPromiseNoFlush) {
  oracle.add_broker("b", false);
  oracle.acked("b", 100, 200, false, durable(0));
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(TruthTest, AppendsBelowADurableLimit) {
  oracle.add_broker("b", true);
  oracle.appended("b", 200, [] { return 65536; });
  oracle.appended("b", 65536, [] { return 65536; });
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(TruthTest, LateAckThatSaysSo) {
  oracle.add_broker("broker-a", true);
  oracle.acked("broker-a", 3000, 3200, false, durable(0));
  oracle.told_ok(message(2, Fate::Acked));
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(TruthTest, FlushedAndDurable) {
  oracle.add_broker("b", true);
  oracle.flushed("b", 200, 200);
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(TruthTest, FlushedButNotDurable) {
  oracle.add_broker("b", false);
  oracle.flushed("b", 200, 199);
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(TruthTest, AckBeforeTheBytesAreDurable) {
  oracle.add_broker("b", true);
  oracle.acked("b", 100, 200, true, durable(199));
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(TruthTest, AppendBeyondTheDurableLimit) {
  oracle.add_broker("b", false);
  oracle.appended("b", 65537, [] { return 65536; });
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(TruthTest, SuccessForWhatWasNeverFlushed) {
  oracle.add_broker("broker-a", true);
  oracle.acked("broker-a", 3000, 3200, false, durable(0));
  oracle.told_ok(message(3, Fate::Acked));
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(TruthTest, LimitIsForgottenWithTheProcess) {
  oracle.add_broker("b", true);
  oracle.appended("b", 200, [] { return 65536; });
  oracle.restarted("b");
  oracle.appended("b", 300, [] { return 250; });
  EXPECT_EQ(heard.said.size(), 1u);
}

}  // namespace
}  // namespace fulmar::sim
