#include "core/base/mutants.h"
#include "core/client/consumer.h"

#include "client_kit.h"

namespace fulmar {
namespace {

using test::ClientKit;
using test::Lines;

struct ConsumerTest : ::testing::Test {
  ClientKit kit;
  uint64_t next_call = 100;

  void subscribe(uint64_t call, command::Subscribe::From from = command::Subscribe::From::First, std::string_view topic = "t") {
    kit.consumer.subscribe(kit.ctx, CallId(call), command::Subscribe{"g", topic, "*", from, 32});
  }
  // A subscription over the only queue of broker a, pulling at `at`.
  void follow(int64_t at) {
    subscribe(1);
    kit.route("t", {{"a", 1}});
    kit.answer("a:10911 offset g t q0", reply::Offset{QueueOffset(at)});
    kit.asked();
  }
  static Reply pulled(Code code, int64_t next, int32_t count, int64_t max = 1000) {
    reply::Pulled p;
    p.code = code;
    p.next = QueueOffset(next);
    p.max = QueueOffset(max);
    p.count = count;
    p.records.assign(static_cast<size_t>(count), 0xAB);
    return p;
  }
  void consume(int64_t next, std::string_view broker = "a", int32_t queue_id = 0, uint64_t subscription = 1) {
    kit.consumer.consumed(kit.ctx, CallId(next_call++), command::Consumed{subscription, broker, queue_id, QueueOffset(next)});
  }
  reply::Delivered delivered() {
    kit.told();
    return std::get<reply::Delivered>(kit.replies.back());
  }
};

TEST_F(ConsumerTest, StartsAtTheCommittedOffsetOfEveryQueue) {
  subscribe(1);
  kit.route("t", {{"a", 2}, {"b", 1}});
  EXPECT_EQ(kit.asked(), (Lines{"ns1:9876 route t", "a:10911 offset g t q0", "a:10911 offset g t q1", "b:10911 offset g t q0"}));
  kit.answer("a:10911 offset g t q1", reply::Offset{QueueOffset(7)});
  EXPECT_EQ(kit.asked(), Lines{"a:10911 pull t q1 @7"});
}

TEST_F(ConsumerTest, WithoutOneTheFirstIsTheMinimum) {
  subscribe(1);
  kit.route("t", {{"a", 1}});
  kit.answer("a:10911 offset g t q0", ClientKit::refusal(Code::QueryNotFound));
  kit.asked();
  kit.answer("a:10911 queue t q0", reply::Queue{QueueOffset(5), QueueOffset(50)});
  EXPECT_EQ(kit.asked(), Lines{"a:10911 pull t q0 @5"});
}

TEST_F(ConsumerTest, TheLastIsTheMaximumAndIsRemembered) {
  subscribe(1, command::Subscribe::From::Last);
  kit.route("t", {{"a", 1}});
  kit.answer("a:10911 offset g t q0", ClientKit::refusal(Code::QueryNotFound));
  kit.asked();
  kit.answer("a:10911 queue t q0", reply::Queue{QueueOffset(5), QueueOffset(50)});
  EXPECT_EQ(kit.asked(), (Lines{"a:10911 commit g t q0 @50", "a:10911 pull t q0 @50"}));
}

TEST_F(ConsumerTest, OneBatchIsOutAndOnlyWhatIsConsumedIsCommitted) {
  follow(3);
  kit.answer("a:10911 pull t q0 @3", pulled(Code::Success, 5, 2));
  const reply::Delivered batch = delivered();
  EXPECT_EQ(batch.broker, "a");
  EXPECT_EQ(batch.topic, "t");
  EXPECT_EQ(batch.first, QueueOffset(3));
  EXPECT_EQ(batch.next, QueueOffset(5));
  EXPECT_EQ(batch.count, 2);
  kit.pass(60'000);
  for (const std::string& line : kit.asked()) EXPECT_TRUE(line.ends_with(" route t")) << line;
  consume(5);
  EXPECT_EQ(kit.told().size(), 1u);
  EXPECT_EQ(kit.asked(), (Lines{"a:10911 commit g t q0 @5", "a:10911 pull t q0 @5"}));
}

TEST_F(ConsumerTest, ThePartThatWasNotConsumedComesAgain) {
  follow(3);
  kit.answer("a:10911 pull t q0 @3", pulled(Code::Success, 5, 2));
  consume(4);
  EXPECT_EQ(kit.asked(), (Lines{"a:10911 commit g t q0 @4", "a:10911 pull t q0 @4"}));
}

TEST_F(ConsumerTest, ConsumedMustAnswerABatch) {
  follow(3);
  consume(4);
  EXPECT_EQ(kit.told().size(), 1u);
  EXPECT_EQ(kit.last_refusal().code, Code::InvalidParameter);
  kit.answer("a:10911 pull t q0 @3", pulled(Code::Success, 5, 2));
  kit.told();
  for (const int64_t bad : {2, 6}) {
    consume(bad);
    EXPECT_EQ(kit.told().size(), 1u);
    EXPECT_EQ(kit.last_refusal().code, Code::InvalidParameter);
  }
  consume(5, "a", 0, 77);
  consume(5, "b");
  EXPECT_EQ(kit.told().size(), 2u);
  consume(5);
  consume(5);  // twice
  EXPECT_EQ(kit.told().size(), 2u);
  EXPECT_EQ(kit.last_refusal().code, Code::InvalidParameter);
}

TEST_F(ConsumerTest, CommitsAreCoalescedToOneASecond) {
  follow(0);
  kit.answer("a:10911 pull t q0 @0", pulled(Code::Success, 1, 1));
  consume(1);
  kit.answer("a:10911 commit g t q0 @1", reply::Ok{});
  for (int64_t at = 1; at < 5; ++at) {
    kit.pass(100);
    kit.answer(fmt::format("a:10911 pull t q0 @{}", at), pulled(Code::Success, at + 1, 1));
    consume(at + 1);
  }
  kit.asked();
  kit.pass(599);
  EXPECT_EQ(kit.asked(), Lines{});
  kit.pass(1);
  EXPECT_EQ(kit.asked(), Lines{"a:10911 commit g t q0 @5"});
  kit.answer("a:10911 commit g t q0 @5", reply::Ok{});
  kit.pass(5000);
  EXPECT_EQ(kit.asked(), Lines{});
}

TEST_F(ConsumerTest, AMovedOffsetIsFollowedInBothDirections) {
  follow(3);
  kit.answer("a:10911 pull t q0 @3", pulled(Code::PullOffsetMoved, 10, 0));
  EXPECT_EQ(kit.asked(), (Lines{"a:10911 commit g t q0 @10", "a:10911 pull t q0 @10"}));
  kit.answer("a:10911 pull t q0 @10", pulled(Code::PullOffsetMoved, 6, 0));
  EXPECT_EQ(kit.asked(), Lines{"a:10911 pull t q0 @6"});
}

TEST_F(ConsumerTest, WhatIsFilteredAwayIsPassedOver) {
  follow(3);
  kit.answer("a:10911 pull t q0 @3", pulled(Code::PullRetryImmediately, 40, 0));
  EXPECT_EQ(kit.asked(), (Lines{"a:10911 commit g t q0 @40", "a:10911 pull t q0 @40"}));
}

TEST_F(ConsumerTest, AnEmptyAnswerDoesNotSpin) {
  follow(3);
  kit.answer("a:10911 pull t q0 @3", pulled(Code::PullNotFound, 3, 0));
  EXPECT_EQ(kit.asked(), Lines{});
  kit.pass(20);
  EXPECT_EQ(kit.asked(), Lines{"a:10911 pull t q0 @3"});
  kit.pass(15'000);
  kit.answer("a:10911 pull t q0 @3", pulled(Code::PullNotFound, 3, 0));
  EXPECT_EQ(kit.asked(), Lines{"a:10911 pull t q0 @3"});  // it was held: at once
  kit.answer("a:10911 pull t q0 @3", pulled(Code::Success, 3, 1));
  EXPECT_EQ(kit.told(), Lines{});  // records that go nowhere are not believed
}

TEST_F(ConsumerTest, RefusalsBackOffAndAskForTheRoute) {
  follow(3);
  kit.pass(1000);
  kit.answer("a:10911 pull t q0 @3", ClientKit::refusal(Code::SystemBusy));
  EXPECT_EQ(kit.asked(), Lines{"ns1:9876 route t"});
  kit.pass(100);
  EXPECT_EQ(kit.asked(), Lines{"a:10911 pull t q0 @3"});
}

TEST_F(ConsumerTest, AfterALostCallItGoesBackWhenTheBrokerForgot) {
  follow(3);
  kit.answer("a:10911 pull t q0 @3", pulled(Code::Success, 9, 6));
  consume(9);
  kit.answer("a:10911 commit g t q0 @9", reply::Ok{});
  kit.answer("a:10911 pull t q0 @9", Errc::Reset);
  kit.pass(100);
  kit.asked();
  kit.answer("a:10911 offset g t q0", reply::Offset{QueueOffset(6)});
  EXPECT_EQ(kit.asked(), Lines{"a:10911 pull t q0 @6"});
}

TEST_F(ConsumerTest, AfterALostCallItGoesOnWhenTheBrokerRemembers) {
  follow(3);
  kit.answer("a:10911 pull t q0 @3", pulled(Code::Success, 9, 6));
  consume(9);
  kit.answer("a:10911 commit g t q0 @9", Errc::Reset);  // it arrived; its answer did not
  kit.answer("a:10911 pull t q0 @9", Errc::Reset);
  kit.pass(100);
  kit.asked();
  kit.answer("a:10911 offset g t q0", reply::Offset{QueueOffset(9)});
  EXPECT_EQ(kit.asked(), Lines{"a:10911 pull t q0 @9"});
}

// What was consumed and never committed may have been lost with the end of the queue and its offsets given to other messages.
TEST_F(ConsumerTest, AfterALostCallItGoesBackToWhatTheBrokerRemembers) {
  follow(3);
  kit.answer("a:10911 pull t q0 @3", pulled(Code::Success, 9, 6));
  consume(9);
  kit.answer("a:10911 commit g t q0 @9", Errc::Reset);
  kit.answer("a:10911 pull t q0 @9", Errc::Reset);
  kit.pass(100);
  kit.asked();
  kit.answer("a:10911 offset g t q0", reply::Offset{QueueOffset(3)});
  EXPECT_EQ(kit.asked(), Lines{"a:10911 pull t q0 @3"});
  kit.pass(2000);
  EXPECT_FALSE(kit.is_pending("a:10911 commit g t q0 @9"));
}

// It began at the first message there was, the deletion of what stood before was lost, and those offsets are given again.
TEST_F(ConsumerTest, WhereTheBeginIsLostItIsAskedForAgain) {
  subscribe(1, command::Subscribe::From::First);
  kit.route("t", {{"a", 1}});
  kit.answer("a:10911 offset g t q0", ClientKit::refusal(Code::QueryNotFound));
  kit.asked();
  kit.answer("a:10911 queue t q0", reply::Queue{QueueOffset(29), QueueOffset(29)});
  kit.asked();
  for (const Mutant planted : {Mutant::ConsumerTrustsItsBegin, Mutant::None}) {
    kit.answer("a:10911 pull t q0 @29", Errc::Reset);
    kit.pass(1000);
    kit.asked();
    mutants::plant(planted);
    kit.answer("a:10911 offset g t q0", ClientKit::refusal(Code::QueryNotFound));
    mutants::plant(Mutant::None);
    EXPECT_EQ(kit.asked().back(), planted == Mutant::None ? "a:10911 queue t q0" : "a:10911 pull t q0 @29");
  }
  kit.answer("a:10911 queue t q0", reply::Queue{QueueOffset(7), QueueOffset(30)});
  EXPECT_EQ(kit.asked().back(), "a:10911 pull t q0 @7");
}

// It began at the end, and the broker lost that end and what we wanted stored: its offsets were given again, so time says what was sent since.
TEST_F(ConsumerTest, WhereTheEndIsLostAtWhichItBeganTimeSaysWhereToGoOn) {
  subscribe(1, command::Subscribe::From::Last);
  kit.route("t", {{"a", 1}});
  kit.answer("a:10911 offset g t q0", ClientKit::refusal(Code::QueryNotFound));
  kit.asked();
  kit.answer("a:10911 queue t q0", reply::Queue{QueueOffset(5), QueueOffset(50)});
  kit.asked();
  kit.answer("a:10911 commit g t q0 @50", Errc::Reset);
  kit.answer("a:10911 pull t q0 @50", Errc::Reset);
  kit.pass(100);
  kit.asked();
  kit.answer("a:10911 offset g t q0", ClientKit::refusal(Code::QueryNotFound));
  const Lines asked = kit.asked();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0], "a:10911 SearchOffset");
  kit.answer(asked[0], reply::Offset{QueueOffset(20)});
  EXPECT_EQ(kit.asked().back(), "a:10911 pull t q0 @20");
}

TEST_F(ConsumerTest, OffsetsThatAreGoneAreSaidAgain) {
  follow(3);
  kit.answer("a:10911 pull t q0 @3", Errc::Reset);
  kit.pass(100);
  kit.asked();
  kit.answer("a:10911 offset g t q0", ClientKit::refusal(Code::QueryNotFound));
  EXPECT_EQ(kit.asked(), (Lines{"a:10911 commit g t q0 @3", "a:10911 pull t q0 @3"}));
}

TEST_F(ConsumerTest, NewQueuesAreAddedWhenTheRouteShowsThem) {
  follow(3);
  kit.pass(15'000);
  kit.answer("a:10911 pull t q0 @3", pulled(Code::PullNotFound, 3, 0));
  kit.pass(15'000);
  kit.asked();
  kit.route("t", {{"a", 2}, {"b", 1}});
  EXPECT_EQ(kit.asked(), (Lines{"a:10911 offset g t q1", "b:10911 offset g t q0"}));
}

TEST_F(ConsumerTest, ATopicThatDoesNotExistYetIsWaitedFor) {
  subscribe(1);
  kit.no_route("t");
  kit.asked();
  kit.pass(1000);
  kit.route("t", {{"a", 1}});
  EXPECT_TRUE(kit.is_pending("a:10911 offset g t q0"));
}

TEST_F(ConsumerTest, UnsubscribeCommitsThenAnswers) {
  follow(0);
  kit.answer("a:10911 pull t q0 @0", pulled(Code::Success, 1, 1));
  consume(1);
  kit.answer("a:10911 commit g t q0 @1", reply::Ok{});
  kit.answer("a:10911 pull t q0 @1", pulled(Code::Success, 4, 3));
  consume(4);
  kit.told();
  kit.asked();
  kit.consumer.unsubscribe(kit.ctx, CallId(9), command::Unsubscribe{1});
  EXPECT_EQ(kit.asked(), Lines{"a:10911 commit g t q0 @4"});
  EXPECT_EQ(kit.told(), Lines{});
  kit.answer("a:10911 commit g t q0 @4", reply::Ok{});
  EXPECT_EQ(kit.told(), Lines{"9: Ok"});
  EXPECT_TRUE(kit.consumer.is_idle());
  kit.answer("a:10911 pull t q0 @4", pulled(Code::Success, 9, 5));  // too late
  EXPECT_EQ(kit.told(), Lines{});
  kit.consumer.unsubscribe(kit.ctx, CallId(10), command::Unsubscribe{1});
  EXPECT_EQ(kit.told().size(), 1u);
  EXPECT_EQ(kit.last_refusal().code, Code::SubscriptionNotExist);
}

TEST_F(ConsumerTest, ABatchThatIsOutMayStillBeConsumedWhileLeaving) {
  follow(0);
  kit.answer("a:10911 pull t q0 @0", pulled(Code::Success, 1, 1));
  consume(1);
  kit.answer("a:10911 pull t q0 @1", pulled(Code::Success, 4, 3));
  kit.asked();
  kit.told();
  kit.consumer.stop(kit.ctx, kit.now.monotonic + Duration::seconds(2));
  EXPECT_FALSE(kit.consumer.is_idle());  // a commit is on its way
  consume(4);
  kit.answer("a:10911 commit g t q0 @1", reply::Ok{});
  EXPECT_FALSE(kit.consumer.is_idle());
  kit.answer("a:10911 commit g t q0 @4", reply::Ok{});
  EXPECT_TRUE(kit.consumer.is_idle());
}

TEST_F(ConsumerTest, LeavingEndsAtItsDeadline) {
  follow(0);
  kit.answer("a:10911 pull t q0 @0", pulled(Code::Success, 1, 1));
  consume(1);
  kit.told();
  kit.consumer.unsubscribe(kit.ctx, CallId(9), command::Unsubscribe{1});
  kit.pass(2999);
  EXPECT_EQ(kit.told(), Lines{});
  kit.pass(1);
  EXPECT_EQ(kit.told().size(), 1u);
  EXPECT_EQ(kit.last_refusal().measured, "1 of 1 queues uncommitted");
  EXPECT_TRUE(kit.consumer.is_idle());
}

TEST_F(ConsumerTest, WhileInDoubtALeavingQueueAsksBeforeItCommits) {
  follow(3);
  kit.answer("a:10911 pull t q0 @3", pulled(Code::Success, 9, 6));
  consume(9);
  kit.answer("a:10911 commit g t q0 @9", Errc::Reset);
  kit.told();
  kit.asked();
  kit.consumer.unsubscribe(kit.ctx, CallId(9), command::Unsubscribe{1});
  EXPECT_EQ(kit.asked(), Lines{"a:10911 offset g t q0"});
  kit.answer("a:10911 pull t q0 @9", Errc::Reset);  // the pull that was given up is not taken for the answer
  EXPECT_EQ(kit.told(), Lines{});
  kit.answer("a:10911 offset g t q0", reply::Offset{QueueOffset(3)});  // what it consumed since comes again to whoever follows
  EXPECT_FALSE(kit.is_pending("a:10911 commit g t q0 @9"));
  EXPECT_EQ(kit.told(), Lines{"9: Ok"});
}

// The broker died under a batch that is out with the host, no call of the queue was under way: its offsets may have been given again.
TEST_F(ConsumerTest, ABatchThatIsOutWhenTheConnectionIsLostIsNotCommittedUnasked) {
  follow(3);
  kit.answer("a:10911 pull t q0 @3", pulled(Code::Success, 9, 6));
  kit.asked();
  kit.consumer.on_link_lost({"elsewhere", 10911});
  kit.consumer.on_link_lost({"a", 10911});
  consume(9);
  EXPECT_EQ(kit.asked(), Lines{"a:10911 offset g t q0"});
  kit.answer("a:10911 offset g t q0", reply::Offset{QueueOffset(3)});
  EXPECT_EQ(kit.asked(), Lines{"a:10911 pull t q0 @3"});
}

TEST_F(ConsumerTest, AnExpressionThatDoesNotParseEndsTheSubscription) {
  follow(3);
  kit.answer("a:10911 pull t q0 @3", ClientKit::refusal(Code::SubscriptionParseFailed));
  EXPECT_EQ(kit.told().size(), 1u);
  EXPECT_TRUE(kit.consumer.is_idle());
}

TEST_F(ConsumerTest, ImpossibleSubscriptionsAreRefused) {
  subscribe(1, command::Subscribe::From::First, "a/b");
  EXPECT_EQ(kit.told().size(), 1u);
  kit.consumer.subscribe(kit.ctx, CallId(2), command::Subscribe{"g", "t", "*", command::Subscribe::From::First, 0});
  EXPECT_EQ(kit.told().size(), 1u);
  EXPECT_TRUE(kit.consumer.is_idle());
}

}  // namespace
}  // namespace fulmar
