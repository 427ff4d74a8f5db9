#include "core/client/producer.h"

#include <set>

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
    kit.pass(i == 0 ? 100 : 1500);
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
  kit.pass(1500);
  kit.answer(pending_send(), ClientKit::refusal(Code::SystemBusy, "full"));
  ASSERT_EQ(kit.told().size(), 1u);
  EXPECT_TRUE(is_outcome_unknown(kit.last_refusal())) << kit.last_refusal().cause;
  EXPECT_NE(kit.last_refusal().measured.find("attempt 1 a Reset"), std::string::npos) << kit.last_refusal().measured;
}

TEST_F(ProducerTest, RefusalsAndRefusedConnectionsAreCertain) {
  know("t", {{"a", 1}});
  send();
  for (int i = 0; i < 4; ++i) {  // one more than attempts count: the first never left
    kit.answer(pending_send(), i == 0 ? Result<Reply>(Errc::Refused) : ClientKit::refusal(Code::SystemError, "disk"));
    kit.pass(i < 2 ? 300 : 1300);
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

// ------------------------------------------------------------------------------------- a broker that is started again

TEST_F(ProducerTest, RefusedConnectionsAreTriedAgainAsLongAsThereIsTime) {
  know("t", {{"a", 1}});
  send();
  kit.answer(pending_send(), Errc::Reset);  // kill -9
  int refused = 0;
  const Monotonic back = kit.now.monotonic + Duration::milliseconds(1500);
  while (kit.now.monotonic < back) {
    kit.pass(10);
    if (pending_send().empty()) continue;
    kit.answer(pending_send(), Errc::Refused);
    ++refused;
  }
  EXPECT_GE(refused, 4);
  EXPECT_LE(refused, 10);
  for (int i = 0; i < 100 && pending_send().empty(); ++i) kit.pass(10);
  EXPECT_EQ(kit.told(), Lines{});
  kit.answer(pending_send(), ClientKit::sent(0, 7));
  ASSERT_EQ(kit.told().size(), 1u);
  EXPECT_EQ(std::get<reply::Sent>(kit.replies.back()).queue_offset, QueueOffset(7));
}

TEST_F(ProducerTest, RefusedConnectionsEndAtTheDeadlineAndAreCertain) {
  know("t", {{"a", 1}});
  send();
  for (int i = 0; i < 300; ++i) {
    if (!pending_send().empty()) kit.answer(pending_send(), Errc::Refused);
    kit.pass(10);
  }
  ASSERT_EQ(kit.told().size(), 1u);
  EXPECT_FALSE(is_outcome_unknown(kit.last_refusal()));
  EXPECT_LT(kit.last_refusal().measured.size(), 2048u);
}

TEST_F(ProducerTest, WithoutResendsARefusedConnectionIsTheEnd) {
  ClientConfig config = ClientKit::config();
  config.resends = 0;
  ClientKit one(config);
  one.routes.find(one.ctx, "t");
  one.route("t", {{"a", 1}});
  one.producer.send(one.ctx, CallId(1), command::SendMessage{.topic = "t", .born = {}, .properties = {}, .body = as_bytes("x"), .broker = {}});
  one.answer("a:10911 send t q0 \"x\"", Errc::Refused);
  EXPECT_EQ(one.told().size(), 1u);
}

TEST_F(ProducerTest, TheLastResendComesHalfWayToTheDeadline) {
  know("t", {{"a", 1}});
  send();
  kit.answer(pending_send(), ClientKit::refusal(Code::SystemBusy, "rolling", 20));
  kit.pass(60);
  kit.answer(pending_send(), ClientKit::refusal(Code::SystemBusy, "rolling", 20));
  kit.pass(1300);
  EXPECT_EQ(pending_send(), "");
  kit.pass(300);
  kit.answer(pending_send(), ClientKit::sent(0, 0));
  EXPECT_EQ(kit.told().size(), 1u);
}

TEST_F(ProducerTest, OneAttemptMayBeCapped) {
  ClientConfig config = ClientKit::config();
  config.attempt_timeout_ms = 200;
  ClientKit capped(config);
  capped.routes.find(capped.ctx, "t");
  capped.route("t", {{"a", 1}});
  capped.producer.send(capped.ctx, CallId(1), command::SendMessage{.topic = "t", .born = {}, .properties = {}, .body = as_bytes("x"), .broker = {}});
  EXPECT_EQ(capped.pending.back().deadline, capped.now.monotonic + Duration::milliseconds(200));
}

// ---------------------------------------------------------------------------------------------- which broker, which queue

TEST_F(ProducerTest, ABrokerThatFailedIsAvoidedByOtherSendsForAWhile) {
  know("t", {{"a", 1}, {"b", 1}});
  send();
  const std::string first = pending_send();
  kit.answer(first, Errc::Reset);
  kit.pass(60);
  kit.answer(pending_send(), ClientKit::sent(0, 0));
  for (int i = 0; i < 6; ++i) {
    send();
    EXPECT_NE(pending_send(), first);
    kit.answer(pending_send(), ClientKit::sent(0, 1 + i));
  }
  kit.pass(1000);
  std::set<std::string> seen;
  for (int i = 0; i < 4; ++i) {
    send();
    seen.insert(pending_send());
    kit.answer(pending_send(), ClientKit::sent(0, 9 + i));
  }
  EXPECT_TRUE(seen.contains(first)) << "never tried again";
}

TEST(BrokerHealthTest, AnAnswerOfAnyKindMakesItWell) {
  BrokerHealth health(false);
  const Monotonic now{1'000'000'000'000};
  health.failed(now, "a");
  health.failed(now, "a");  // the same failure
  EXPECT_TRUE(health.is_avoided(now + Duration::milliseconds(999), "a"));
  EXPECT_FALSE(health.is_avoided(now + Duration::seconds(1), "a"));
  health.failed(now + Duration::seconds(1), "a");
  EXPECT_TRUE(health.is_avoided(now + Duration::milliseconds(2999), "a"));
  health.answered(now + Duration::milliseconds(1500), "a", Duration::seconds(20));
  EXPECT_FALSE(health.is_avoided(now + Duration::milliseconds(1500), "a"));
  health.refused_for_now(now, "b", Duration::seconds(60));
  EXPECT_TRUE(health.is_avoided(now + Duration::milliseconds(999), "b"));
  EXPECT_FALSE(health.is_avoided(now + Duration::seconds(1), "b"));
}

TEST(BrokerHealthTest, SlowBrokersRestWhenThatIsAskedFor) {
  BrokerHealth health(true);
  const Monotonic now{1'000'000'000'000};
  health.answered(now, "a", Duration::milliseconds(549));
  EXPECT_FALSE(health.is_avoided(now, "a"));
  health.answered(now, "a", Duration::milliseconds(550));
  EXPECT_TRUE(health.is_avoided(now + Duration::milliseconds(1999), "a"));
  EXPECT_FALSE(health.is_avoided(now + Duration::milliseconds(2000), "a"));
}

TEST(BrokerHealthTest, HoldsABoundedNumber) {
  BrokerHealth health(false);
  const Monotonic now{1'000'000'000'000};
  for (int i = 0; i < 5000; ++i) health.failed(now, fmt::format("broker-{}", i));
  EXPECT_EQ(health.size(), BrokerHealth::kBrokersMax);
  health.failed(now + Duration::seconds(2), "new");
  EXPECT_TRUE(health.is_avoided(now + Duration::seconds(2), "new"));
}

struct ShardTest : ProducerTest {
  std::string properties;
  void send_with_key(std::string_view key) {
    properties.clear();
    ASSERT_TRUE(property::add(properties, kShardingKeyProperty, key));
    kit.producer.send(kit.ctx, CallId(next_call++), command::SendMessage{.topic = "t", .born = {}, .properties = as_bytes(properties), .body = as_bytes("x"), .broker = {}});
  }
};

TEST_F(ShardTest, TheKeyChoosesAmongAllQueuesAsRocketMqDoes) {
  know("t", {{"a", 2}, {"b", 3}});
  // String.hashCode: "k1" 3366, "k4" 3369, "polygenelubricants" Integer.MIN_VALUE.
  const std::vector<std::pair<std::string, std::string>> wanted = {
      {"k1", "a:10911 send t q1 \"x\""}, {"k4", "b:10911 send t q2 \"x\""}, {"polygenelubricants", "b:10911 send t q1 \"x\""}};
  for (const auto& [key, text] : wanted) {
    for (int i = 0; i < 2; ++i) {
      send_with_key(key);
      EXPECT_EQ(pending_send(), text) << key;
      kit.answer(pending_send(), ClientKit::sent(0, 0));
    }
  }
}

TEST_F(ShardTest, ATopicThatWasJustMadeWithFewerQueuesIsChosenInAgain) {
  send_with_key("k1");
  kit.no_route("t");
  kit.route(kAutoCreateTopic, {{"a", 8}});
  kit.pass(5);
  kit.answer("a:10911 send t q6 \"x\"", ClientKit::refusal(Code::InvalidParameter, "no queue 6"));
  kit.pass(400);
  kit.route("t", {{"a", 2}});
  kit.answer("a:10911 send t q0 \"x\"", ClientKit::sent(0, 0));
  EXPECT_EQ(kit.told().size(), 1u);
}

TEST_F(ShardTest, NeverGoesToAnotherQueue) {
  know("t", {{"a", 2}, {"b", 3}});
  send_with_key("k1");
  const std::string text = pending_send();
  kit.answer(text, Errc::Reset);
  kit.pass(60);
  EXPECT_EQ(pending_send(), text);
  kit.answer(text, ClientKit::refusal(Code::SystemBusy, "no", 10));
  kit.pass(1600);
  EXPECT_EQ(pending_send(), text);
  kit.answer(text, ClientKit::sent(1, 0));
  EXPECT_EQ(kit.told().size(), 1u);
}

// ------------------------------------------------------------------------------------------------------------- one way

TEST_F(ProducerTest, OneWayIsSentOnceAndToldOk) {
  kit.producer.send(kit.ctx, CallId(1), command::SendMessage{.topic = "t", .sys_flag = kOneWay, .born = {}, .properties = {}, .body = as_bytes("x"), .broker = {}});
  kit.asked();
  kit.route("t", {{"a", 1}});
  EXPECT_EQ(kit.asked(), Lines{"a:10911 one-way send t q0 \"x\""});
  EXPECT_EQ(kit.told(), Lines{"1: Ok"});
  EXPECT_EQ(kit.producer.in_flight(), 0u);
  kit.pass(5000);
  EXPECT_EQ(kit.told(), Lines{});
}

TEST_F(ProducerTest, OneWayThatCannotLeaveIsRefused) {
  know("t", {{"a", 1}});
  kit.refuse_calls = Errc::Full;
  kit.producer.send(kit.ctx, CallId(1), command::SendMessage{.topic = "t", .sys_flag = kOneWay, .born = {}, .properties = {}, .body = as_bytes("x"), .broker = {}});
  ASSERT_EQ(kit.told().size(), 1u);
  EXPECT_EQ(kit.last_refusal().code, Code::SystemBusy);
  EXPECT_FALSE(is_outcome_unknown(kit.last_refusal()));
}

// -------------------------------------------------------------------------------------------------------- compression

TEST_F(ProducerTest, LargeBodiesAreCompressedOnce) {
  know("t", {{"a", 1}});
  const std::string large(4096, 'x');
  send("t", -1, {}, large.substr(1));
  EXPECT_NE(pending_send().find(large.substr(1)), std::string::npos);
  kit.answer(pending_send(), ClientKit::sent(0, 0));
  send("t", -1, {}, large);
  EXPECT_LT(pending_send().size(), 200u);
  kit.answer(pending_send(), ClientKit::sent(0, 0));
  EXPECT_EQ(kit.told().size(), 2u);
  // What the host has compressed itself, and batches, go as they are.
  kit.producer.send(kit.ctx, CallId(9), command::SendMessage{.topic = "t", .sys_flag = sys_flag::kCompressed, .born = {}, .properties = {}, .body = as_bytes(large), .broker = {}});
  EXPECT_NE(pending_send().find(large), std::string::npos);
  kit.producer.send(kit.ctx, CallId(10), command::SendBatch{.topic = "t", .born = {}, .packed = as_bytes(large), .broker = {}});
  EXPECT_TRUE(kit.is_pending("a:10911 batch t q0 4096 bytes"));
}

}  // namespace
}  // namespace fulmar
