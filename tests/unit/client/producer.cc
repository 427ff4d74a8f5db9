#include "core/client/producer.h"

#include "client_kit.h"

namespace fulmar {
namespace {

using test::ClientKit;
using test::Lines;

struct ProducerTest : ::testing::Test {
  ClientKit kit;
  uint64_t next_call = 1;
  void send(std::string_view topic = "t", int32_t queue_id = -1, std::string_view broker = {}, std::string_view body = "x") {
    command::SendMessage c;
    const std::string topic_copy(topic), body_copy(body), broker_copy(broker);  // borrowed for the call only
    c.topic = topic_copy;
    c.queue_id = queue_id;
    c.body = as_bytes(body_copy);
    c.broker = broker_copy;
    kit.producer.send(kit.ctx, CallId(next_call++), c);
  }
  void know(std::string_view topic, const std::vector<std::pair<std::string, int32_t>>& brokers) {
    kit.routes.find(kit.ctx, topic);
    kit.route(topic, brokers);
    kit.asked();
  }
  // The one send that is pending.
  std::string pending_send() {
    std::string found;
    for (const auto& p : kit.pending)
      if (p.text.find(" send ") != std::string::npos) found = p.text;
    return found;
  }
};

TEST_F(ProducerTest, WaitsForTheRouteAndFillsInTheBroker) {
  send("t", 0);
  EXPECT_EQ(kit.asked(), Lines{"ns1:9876 route t"});
  kit.route("t", {{"a", 1}});
  EXPECT_EQ(kit.asked(), Lines{"a:10911 send t q0 \"x\""});
  kit.answer("a:10911 send t q0 \"x\"", ClientKit::sent(0, 12));
  const Lines told = kit.told();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(std::get<reply::Sent>(kit.replies[0]).broker, "a");
  EXPECT_EQ(std::get<reply::Sent>(kit.replies[0]).queue_offset, QueueOffset(12));
  EXPECT_EQ(kit.producer.in_flight(), 0u);
}

TEST_F(ProducerTest, GoesRoundAllQueuesOfAllBrokers) {
  know("t", {{"a", 2}, {"b", 1}});
  std::map<std::string, int> seen;
  for (int i = 0; i < 9; ++i) {
    send();
    const std::string text = pending_send();
    ++seen[text];
    kit.answer(text, ClientKit::sent(0, i));
  }
  EXPECT_EQ(seen, (std::map<std::string, int>{{"a:10911 send t q0 \"x\"", 3}, {"a:10911 send t q1 \"x\"", 3}, {"b:10911 send t q0 \"x\"", 3}}));
}

TEST_F(ProducerTest, KeepsToTheQueueAndBrokerAskedFor) {
  know("t", {{"a", 2}, {"b", 2}});
  send("t", 1, "b");
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(kit.is_pending("b:10911 send t q1 \"x\""));
    kit.answer("b:10911 send t q1 \"x\"", ClientKit::refusal(Code::SystemBusy));
    kit.pass(100 << i);
  }
  EXPECT_EQ(kit.told().size(), 1u);
  EXPECT_EQ(kit.last_refusal().code, Code::SystemBusy);
}

TEST_F(ProducerTest, ResendsToAnotherBrokerWithTheSameBytes) {
  know("t", {{"a", 1}, {"b", 1}});
  send();
  const std::string first = pending_send();
  kit.answer(first, ClientKit::refusal(Code::ServiceNotAvailable));
  EXPECT_EQ(kit.told(), Lines{});
  kit.pass(50);
  const std::string second = pending_send();
  EXPECT_NE(first, second);
  EXPECT_EQ(first.substr(1), second.substr(1));
  kit.answer(second, ClientKit::sent(0, 5));
  EXPECT_EQ(kit.told().size(), 1u);
}

TEST_F(ProducerTest, ALostAnswerMakesTheOutcomeUnknownForGood) {
  know("t", {{"a", 1}});
  send();
  kit.answer(pending_send(), Errc::Reset);
  kit.pass(50);
  kit.answer(pending_send(), ClientKit::refusal(Code::SystemBusy, "full"));
  kit.pass(200);
  kit.answer(pending_send(), ClientKit::refusal(Code::SystemBusy, "full"));
  ASSERT_EQ(kit.told().size(), 1u);
  EXPECT_TRUE(is_outcome_unknown(kit.last_refusal())) << kit.last_refusal().cause;
  EXPECT_NE(kit.last_refusal().measured.find("attempt 1 a Reset"), std::string::npos) << kit.last_refusal().measured;
}

TEST_F(ProducerTest, RefusalsAndRefusedConnectionsAreCertain) {
  know("t", {{"a", 1}});
  send();
  for (int i = 0; i < 3; ++i) {
    kit.answer(pending_send(), i == 0 ? Result<Reply>(Errc::Refused) : ClientKit::refusal(Code::SystemError, "disk"));
    kit.pass(300);
  }
  ASSERT_EQ(kit.told().size(), 1u);
  EXPECT_FALSE(is_outcome_unknown(kit.last_refusal()));
  EXPECT_EQ(kit.last_refusal().code, Code::SystemError);
}

TEST_F(ProducerTest, OtherRefusalsAndFlushTimeOutsArePassedOn) {
  know("t", {{"a", 1}});
  send();
  kit.answer(pending_send(), ClientKit::refusal(Code::MessageIllegal, "bad properties"));
  ASSERT_EQ(kit.told().size(), 1u);
  EXPECT_EQ(kit.last_refusal().cause, "bad properties");
  send();
  kit.answer(pending_send(), ClientKit::sent(0, 1, Code::FlushDiskTimeout));
  ASSERT_EQ(kit.told().size(), 1u);
  EXPECT_EQ(std::get<reply::Sent>(kit.replies.back()).code, Code::FlushDiskTimeout);
}

TEST_F(ProducerTest, ASilentBrokerGetsAThirdOfTheTimeAndTheWholeEndsAtItsDeadline) {
  know("t", {{"a", 1}});
  send();
  EXPECT_EQ(kit.pending.back().deadline, kit.now.monotonic + Duration::seconds(1));
  kit.pass(2999);
  EXPECT_EQ(kit.told(), Lines{});
  kit.pass(1);
  ASSERT_EQ(kit.told().size(), 1u);
  EXPECT_TRUE(is_outcome_unknown(kit.last_refusal()));
  kit.pass(10'000);
  EXPECT_EQ(kit.told(), Lines{});
}

TEST_F(ProducerTest, AnUnknownTopicOfABrokerAsksForTheRouteFirst) {
  know("t", {{"a", 1}});
  kit.pass(10);
  send();
  kit.answer(pending_send(), ClientKit::refusal(Code::TopicNotExist));
  kit.asked();
  kit.pass(200);
  EXPECT_EQ(kit.asked(), Lines{"ns1:9876 route t"});
  kit.route("t", {{"b", 1}});
  EXPECT_EQ(kit.asked(), Lines{"b:10911 send t q0 \"x\""});
}

TEST_F(ProducerTest, ATopicThatABrokerCreates) {
  send();
  kit.no_route("t");
  kit.route(kAutoCreateTopic, {{"a", 8}, {"b", 8}});
  const std::string text = pending_send();
  EXPECT_EQ(text.substr(1), ":10911 send t q-1 \"x\"");
  kit.asked();
  kit.answer(text, ClientKit::sent(3, 0));
  EXPECT_EQ(kit.told().size(), 1u);
  kit.pass(200);
  EXPECT_EQ(kit.asked(), Lines{"ns1:9876 route t"});
}

TEST_F(ProducerTest, ATopicThatNobodyCreatesIsRefusedAtOnce) {
  send();
  kit.no_route("t");
  kit.no_route(kAutoCreateTopic);
  ASSERT_EQ(kit.told().size(), 1u);
  EXPECT_EQ(kit.last_refusal().code, Code::TopicNotExist);
  EXPECT_NE(kit.last_refusal().cause.find("topic t "), std::string::npos);
  EXPECT_EQ(kit.last_refusal().measured, "name servers asked: ns1:9876, ns2:9876");
}

TEST_F(ProducerTest, SilentNameServersAreNamedAtTheDeadline) {
  send();
  kit.pass(3000);
  ASSERT_EQ(kit.told().size(), 1u);
  EXPECT_EQ(kit.last_refusal().code, Code::ServiceNotAvailable);
  EXPECT_FALSE(is_outcome_unknown(kit.last_refusal()));
  EXPECT_NE(kit.last_refusal().cause.find("ns2:9876 TimedOut"), std::string::npos) << kit.last_refusal().cause;
}

TEST_F(ProducerTest, RefusesLocallyWithTheMeasure) {
  send("t", -1, {}, std::string((4u << 20) + 1, 'x'));
  EXPECT_EQ(kit.told().size(), 1u);
  EXPECT_EQ(kit.last_refusal().measured, "body 4194305 bytes, at most 4194304 bytes");
  send("a/b");
  EXPECT_EQ(kit.told().size(), 1u);
  EXPECT_EQ(kit.last_refusal().code, Code::MessageIllegal);
  EXPECT_EQ(kit.asked(), Lines{});
}

TEST_F(ProducerTest, AQueueThatAFreshRouteDeniesIsRefusedAtOnce) {
  send("t", 9, "a");
  kit.route("t", {{"a", 2}});
  ASSERT_EQ(kit.told().size(), 1u);
  EXPECT_EQ(kit.last_refusal().code, Code::InvalidParameter);
}

TEST_F(ProducerTest, AQueueThatNoBrokerHasIsRefusedAtOnce) {
  send("t", 9);
  kit.route("t", {{"a", 2}, {"b", 4}});
  ASSERT_EQ(kit.told().size(), 1u);
  EXPECT_EQ(kit.last_refusal().code, Code::InvalidParameter);
  EXPECT_EQ(kit.last_refusal().cause, "topic t has no queue 9");
  EXPECT_EQ(kit.last_refusal().measured, "queue 9, write queues 4");
  EXPECT_EQ(kit.last_refusal().retry_after_ms, 0u);
}

TEST_F(ProducerTest, ATopicThatTakesNothingIsRefusedAtOnce) {
  for (const int32_t queue : {-1, 0}) {
    kit.pass(5000);
    send("t", queue);
    kit.pass(0);
    kit.route("t", {{"a", 0}, {"b", 0}});
    ASSERT_EQ(kit.told().size(), 1u);
    EXPECT_EQ(kit.last_refusal().code, Code::NoPermission);
    EXPECT_EQ(kit.last_refusal().retry_after_ms, 0u);
  }
}

TEST_F(ProducerTest, ABrokerThatIsAwayIsWaitedFor) {
  know("t", {{"b", 1}});
  send("t", 0, "a");
  kit.pass(200);
  kit.route("t", {{"b", 1}});
  EXPECT_EQ(kit.told(), Lines{});
  kit.pass(200);
  kit.route("t", {{"a", 1}, {"b", 1}});
  EXPECT_TRUE(kit.is_pending("a:10911 send t q0 \"x\""));
}

TEST(ProducerBounds, FullIsSystemBusy) {
  ProducerLimits limits;
  limits.sends_in_flight_max = 2;
  ClientKit kit(ClientKit::config(), limits);
  command::SendMessage c;
  c.topic = "t";
  for (uint64_t i = 1; i <= 3; ++i) kit.producer.send(kit.ctx, CallId(i), c);
  ASSERT_EQ(kit.told().size(), 1u);
  EXPECT_EQ(kit.last_refusal().code, Code::SystemBusy);
  EXPECT_EQ(kit.producer.in_flight(), 2u);
}

TEST_F(ProducerTest, FullLinksAreTriedAgain) {
  know("t", {{"a", 1}});
  kit.refuse_calls = Errc::Full;
  send();
  kit.refuse_calls.reset();
  kit.pass(50);
  kit.answer(pending_send(), ClientKit::sent(0, 0));
  EXPECT_EQ(kit.told().size(), 1u);
}

TEST_F(ProducerTest, WhatCannotBeEncodedIsIllegal) {
  know("t", {{"a", 1}});
  kit.refuse_calls = Errc::InvalidArgument;
  send();
  ASSERT_EQ(kit.told().size(), 1u);
  EXPECT_EQ(kit.last_refusal().code, Code::MessageIllegal);
}

TEST_F(ProducerTest, StopEndsEverySendByItsDeadline) {
  know("t", {{"a", 1}});
  send();
  send("unknown");
  kit.producer.stop(kit.ctx, kit.now.monotonic + Duration::milliseconds(500));
  kit.pass(499);
  EXPECT_EQ(kit.told(), Lines{});
  kit.pass(1);
  EXPECT_EQ(kit.told().size(), 2u);
  EXPECT_EQ(kit.producer.in_flight(), 0u);
  kit.pass(5000);  // the late answers find nobody
  EXPECT_EQ(kit.told(), Lines{});
}

TEST_F(ProducerTest, ABatchIsSentLikeAMessage) {
  know("t", {{"a", 1}});
  const std::string packed(10, 'p');
  kit.producer.send(kit.ctx, CallId(1), command::SendBatch{.topic = "t", .queue_id = -1, .sys_flag = 0, .born = {}, .packed = as_bytes(packed), .broker = {}});
  EXPECT_EQ(kit.asked(), Lines{"a:10911 batch t q0 10 bytes"});
}

}  // namespace
}  // namespace fulmar
