#include "core/client/forwarder.h"

#include "client_kit.h"

namespace fulmar {
namespace {

using test::ClientKit;
using test::Lines;

struct ForwarderTest : ::testing::Test {
  ClientKit kit;
  void ask(uint64_t call, const Command& command) { kit.forwarder.forward(kit.ctx, CallId(call), command); }
  static command::QueryQueue queue(std::string_view broker) { return {.topic = "t", .queue_id = 0, .broker = broker}; }
};

TEST_F(ForwarderTest, AsksTheBrokerNamedOrTheFirst) {
  ask(1, queue("b"));
  ask(2, queue(""));
  kit.route("t", {{"a", 1}, {"b", 1}});
  EXPECT_EQ(kit.asked(), (Lines{"ns1:9876 route t", "b:10911 queue t q0", "a:10911 queue t q0"}));
  kit.answer("b:10911 queue t q0", reply::Queue{});
  kit.answer("a:10911 queue t q0", ClientKit::refusal(Code::SystemBusy));
  const Lines told = kit.told();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_TRUE(told[0].starts_with("1: Queue")) << told[0];
  EXPECT_TRUE(told[1].starts_with("2: Refusal SYSTEM_BUSY")) << told[1];
}

TEST_F(ForwarderTest, ABrokerThatAFreshRouteDoesNotNameIsRefused) {
  kit.routes.find(kit.ctx, "t");
  kit.route("t", {{"a", 1}});
  kit.pass(5000);
  ask(1, queue("b"));
  kit.pass(0);
  kit.route("t", {{"a", 1}});
  EXPECT_EQ(kit.told().size(), 1u);
  EXPECT_EQ(kit.last_refusal().cause, "could not connect: broker b is not registered");
}

TEST_F(ForwarderTest, MissingTopicsAndSilenceHaveTheirOwnWords) {
  ask(1, queue(""));
  kit.no_route("t");
  EXPECT_EQ(kit.told().size(), 1u);
  EXPECT_EQ(kit.last_refusal().code, Code::TopicNotExist);
  kit.pass(1000);
  ask(2, queue(""));
  kit.pass(3000);
  EXPECT_EQ(kit.told().size(), 1u);
  EXPECT_EQ(kit.last_refusal().code, Code::ServiceNotAvailable);
  kit.pass(5000);
  EXPECT_EQ(kit.told(), Lines{});
}

TEST_F(ForwarderTest, ALostCommitMayHaveHappenedALostQuestionMayNot) {
  kit.routes.find(kit.ctx, "t");
  kit.route("t", {{"a", 1}});
  ask(1, command::CommitOffset{.group = "g", .topic = "t", .queue_id = 0, .offset = QueueOffset(1), .broker = {}});
  ask(2, queue("a"));
  kit.answer("a:10911 commit g t q0 @1", Errc::Reset);
  EXPECT_EQ(kit.told().size(), 1u);
  EXPECT_TRUE(is_outcome_unknown(kit.last_refusal()));
  kit.answer("a:10911 queue t q0", Errc::Reset);
  EXPECT_EQ(kit.told().size(), 1u);
  EXPECT_FALSE(is_outcome_unknown(kit.last_refusal()));
}

TEST_F(ForwarderTest, TopicsAreCreatedOnEveryMasterKnown) {
  ask(1, command::CreateTopic{.topic = "t"});
  kit.route("t", {{"a", 1}});
  kit.route(kAutoCreateTopic, {{"a", 1}, {"b", 1}});
  kit.route(kMetaTopic, {{"c", 1}});
  kit.asked();
  kit.no_route(kDefaultClusterTopic);
  kit.asked();
  kit.answer("a:10911 CreateTopic", reply::Ok{});
  kit.answer("b:10911 CreateTopic", ClientKit::refusal(Code::SystemBusy, "full"));
  EXPECT_EQ(kit.told(), Lines{});
  kit.answer("c:10911 CreateTopic", reply::Ok{});
  EXPECT_EQ(kit.told().size(), 1u);
  EXPECT_EQ(kit.last_refusal().cause, "full");
  EXPECT_NE(kit.last_refusal().measured.find("b SYSTEM_BUSY"), std::string::npos) << kit.last_refusal().measured;
  kit.pass(200);
  EXPECT_EQ(kit.asked(), Lines{"ns1:9876 route t"});  // it changed
}

TEST_F(ForwarderTest, ADeletionThatSomeBrokersMissedNamesBoth) {
  const auto know_brokers = [&] {
    kit.route("t", {{"a", 1}, {"b", 1}});
    for (const std::string_view topic : {kAutoCreateTopic, kMetaTopic, kDefaultClusterTopic}) kit.no_route(topic);
    kit.asked();
  };
  ask(1, command::DeleteTopic{.topic = "t"});
  know_brokers();
  kit.answer("a:10911 DeleteTopic", reply::Ok{});
  kit.answer("b:10911 DeleteTopic", Errc::Refused);
  EXPECT_EQ(kit.told().size(), 1u);
  EXPECT_FALSE(is_outcome_unknown(kit.last_refusal()));
  EXPECT_FALSE(is_not_connected(kit.last_refusal()));
  EXPECT_EQ(kit.last_refusal().measured, "b Refused; done by a");
}

TEST_F(ForwarderTest, ABrokerThatNeverHadTheTopicDoesNotFailItsDeletion) {
  for (const bool has_one : {true, false}) {
    ClientKit fresh;
    fresh.forwarder.forward(fresh.ctx, CallId(1), command::DeleteTopic{.topic = "t"});
    fresh.route("t", {{"a", 1}});
    fresh.route(kAutoCreateTopic, {{"a", 1}, {"b", 1}});
    for (const std::string_view topic : {kMetaTopic, kDefaultClusterTopic}) fresh.no_route(topic);
    fresh.asked();
    if (has_one) fresh.answer("a:10911 DeleteTopic", reply::Ok{});
    else fresh.answer("a:10911 DeleteTopic", ClientKit::refusal(Code::TopicNotExist));
    fresh.answer("b:10911 DeleteTopic", ClientKit::refusal(Code::TopicNotExist));
    const Lines told = fresh.told();
    ASSERT_EQ(told.size(), 1u);
    EXPECT_EQ(told[0].starts_with("1: Ok"), has_one) << told[0];
  }
}

TEST_F(ForwarderTest, NobodyToAskIsToldApartFromNoAnswer) {
  ask(1, command::GetStatus{});
  for (const std::string_view topic : {kAutoCreateTopic, kMetaTopic, kDefaultClusterTopic}) kit.no_route(topic);
  EXPECT_EQ(kit.told().size(), 1u);
  EXPECT_TRUE(is_not_connected(kit.last_refusal())) << kit.last_refusal().cause;
  kit.pass(5000);
  for (const Errc why : {Errc::Refused, Errc::TimedOut}) {
    ask(2, queue("a"));
    kit.pass(0);
    if (why == Errc::Refused) kit.route("t", {{"a", 1}});
    kit.asked();
    kit.answer("a:10911 queue t q0", why);
    EXPECT_EQ(kit.told().size(), 1u);
    EXPECT_EQ(is_not_connected(kit.last_refusal()), why == Errc::Refused) << kit.last_refusal().cause;
  }
}

TEST_F(ForwarderTest, AnOldRouteDoesNotSayWhereATopicIsMade) {
  for (const std::string_view topic : {std::string_view("t"), kAutoCreateTopic, kMetaTopic, kDefaultClusterTopic}) {
    kit.routes.find(kit.ctx, topic);
    kit.route(topic, {{"a", 1}});
  }
  kit.pass(5000);
  kit.asked();
  ask(1, command::CreateTopic{.topic = "t"});
  kit.pass(3000);  // no name server answers
  EXPECT_FALSE(kit.is_pending("a:10911 CreateTopic"));
  EXPECT_EQ(kit.told().size(), 1u);
  EXPECT_EQ(kit.last_refusal().code, Code::ServiceNotAvailable);
}

TEST_F(ForwarderTest, WithoutABrokerNothingIsCreated) {
  ask(1, command::CreateTopic{.topic = "t"});
  for (const std::string_view topic : {std::string_view("t"), kAutoCreateTopic, kMetaTopic, kDefaultClusterTopic}) kit.no_route(topic);
  EXPECT_EQ(kit.told().size(), 1u);
  EXPECT_EQ(kit.last_refusal().code, Code::ServiceNotAvailable);
}

TEST_F(ForwarderTest, NameServersAreAskedInTurn) {
  ask(1, command::ListTopics{});
  EXPECT_EQ(kit.asked(), Lines{"ns1:9876 ListTopics"});
  kit.pass(1000);
  EXPECT_EQ(kit.asked(), Lines{"ns2:9876 ListTopics"});
  kit.answer("ns2:9876 ListTopics", reply::Topics{});
  EXPECT_EQ(kit.told().size(), 1u);
  ask(2, command::QueryRoute{.topic = "t"});
  EXPECT_EQ(kit.asked(), Lines{"ns2:9876 route t"});
  kit.answer("ns2:9876 route t", ClientKit::refusal(Code::TopicNotExist));
  EXPECT_EQ(kit.told().size(), 1u);
}

TEST_F(ForwarderTest, StopRefusesHeldPullsAtOnceAndTheRestByItsDeadline) {
  kit.routes.find(kit.ctx, "t");
  kit.route("t", {{"a", 1}});
  ask(1, command::PullMessages{.group = "g", .topic = "t", .queue_id = 0, .offset = {}, .suspend_ms = 15'000, .subscription = {}, .broker = {}});
  ask(2, queue(""));
  ask(3, command::GetStatus{});
  kit.forwarder.stop(kit.ctx, kit.now.monotonic + Duration::milliseconds(300));
  EXPECT_EQ(kit.told().size(), 1u);
  kit.pass(300);
  EXPECT_EQ(kit.told().size(), 2u);
  EXPECT_EQ(kit.forwarder.in_flight(), 0u);
  kit.pass(20'000);
  EXPECT_EQ(kit.told(), Lines{});
}

TEST_F(ForwarderTest, BadNamesAreRefusedHere) {
  ask(1, command::CreateTopic{.topic = "../x"});
  EXPECT_EQ(kit.told().size(), 1u);
  EXPECT_EQ(kit.last_refusal().code, Code::InvalidParameter);
  EXPECT_EQ(kit.asked(), Lines{});
}

}  // namespace
}  // namespace fulmar
