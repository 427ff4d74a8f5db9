// O25 by hand-made histories.

#include "history.h"
#include "sim/oracles/o25_metrics.h"

namespace fulmar::sim {
namespace {

constexpr MetricFamily kIn{"rocketmq_messages_in_total", "", MetricKind::Counter}, kLag{"rocketmq_consumer_lag_messages", ""};

struct MetricsAgreeTest : testing::Test {
  MetricsAgreeTest() {
    oracle.readable({"b", "t", 0}, 0, 10, 4);
    oracle.readable({"b", "t", 1}, 5, 8, 1);
    oracle.readable({"b", "u", 0}, 0, 2, 0);
    oracle.readable({"b", "t", 2}, 1, 3, 0);   // of which it has committed nothing
    oracle.committed("g", {"b", "t", 0}, 7);
    oracle.committed("g", {"b", "t", 1}, 2);   // what it has not consumed before 5 is gone
  }
  void in(const char* topic, const char* type, int64_t count) { page.samples.push_back({&kIn, {{"topic", topic}, {"message_type", type}}, count}); }
  void lag(const char* topic, int64_t count) { page.samples.push_back({&kLag, {{"consumer_group", "g"}, {"topic", topic}}, count}); }
  void judge() {
    oracle.said("b", page);
    oracle.judge("b", {"g"});
  }
  void expect_violated() const {
    ASSERT_EQ(heard.said.size(), 1u);
    EXPECT_TRUE(heard.said.front().starts_with("O25: ")) << heard.said.front();
  }
  Heard heard;
  MetricsAgree oracle{heard};
  reply::Metrics page;
};

TEST_F(MetricsAgreeTest, WhatWasReadIsWhatIsSaid) {
  in("t", "normal", 3);
  in("t", "fifo", 2);
  lag("t", 8);
  judge();
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(MetricsAgreeTest, ATopicIsLeftOut) {
  lag("t", 8);
  judge();
  expect_violated();
}
TEST_F(MetricsAgreeTest, SomethingIsCountedTwice) {
  in("t", "normal", 5);
  in("u", "normal", 1);
  lag("t", 8);
  judge();
  expect_violated();
}
TEST_F(MetricsAgreeTest, TheLagIsAnother) {
  in("t", "normal", 5);
  lag("t", 7);
  judge();
  expect_violated();
}
TEST_F(MetricsAgreeTest, TheLagIsLeftOut) {
  in("t", "normal", 5);
  judge();
  expect_violated();
}
TEST_F(MetricsAgreeTest, NobodyKnows) {
  oracle.cannot_know("b");
  judge();
  EXPECT_TRUE(heard.is_silent());
}

}  // namespace
}  // namespace fulmar::sim
