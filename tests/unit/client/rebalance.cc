#include "core/client/rebalance.h"

#include "client_kit.h"

namespace fulmar {
namespace {

using test::ClientKit;
using test::Lines;

// Written down from the definition of AllocateMessageQueueAveragely (semantics.md 4.3), by hand.
TEST(AverageShare, IsRocketMQs) {
  const auto shares = [](size_t queues, size_t members) {
    std::string text;
    for (size_t me = 0; me < members; ++me) {
      const QueueShare s = average_share(queues, members, me);
      text += s.begin == s.end ? " -" : fmt::format(" {}-{}", s.begin, s.end - 1);
    }
    return text;
  };
  EXPECT_EQ(shares(8, 3), " 0-2 3-5 6-7");
  EXPECT_EQ(shares(7, 3), " 0-2 3-4 5-6");
  EXPECT_EQ(shares(6, 3), " 0-1 2-3 4-5");
  EXPECT_EQ(shares(4, 4), " 0-0 1-1 2-2 3-3");
  EXPECT_EQ(shares(2, 4), " 0-0 1-1 - -");
  EXPECT_EQ(shares(0, 2), " - -");
  EXPECT_EQ(shares(5, 1), " 0-4");
}

TEST(AverageShare, CoversEveryQueueOnce) {
  for (size_t queues = 0; queues < 40; ++queues) {
    for (size_t members = 1; members < 20; ++members) {
      size_t next = 0;
      for (size_t me = 0; me < members; ++me) {
        const QueueShare s = average_share(queues, members, me);
        if (s.begin == s.end) continue;
        EXPECT_EQ(s.begin, next);
        next = s.end;
      }
      EXPECT_EQ(next, queues) << queues << " queues, " << members << " members";
    }
  }
  EXPECT_EQ(average_share(5, 2, 2).end, 0u);   // no member
}

struct RebalanceTest : ::testing::Test {
  ClientKit kit;
  uint64_t next_call = 100;

  void subscribe(command::Subscribe c = {}) {
    c.group = "g";
    c.topic = "t";
    c.subscription = "*";
    kit.consumer.subscribe(kit.ctx, CallId(1), c);
  }
  static Reply pulled(int64_t next, int32_t count) {
    reply::Pulled p;
    p.code = Code::Success;
    p.next = p.max = QueueOffset(next);
    p.count = count;
    p.records.assign(static_cast<size_t>(count), 0xAB);
    return p;
  }
  void consume(int64_t next, std::string_view broker = "a", int32_t queue_id = 0) {
    kit.consumer.consumed(kit.ctx, CallId(next_call++), command::Consumed{1, broker, queue_id, QueueOffset(next)});
  }
  std::string owned() {
    kit.told();
    std::string text;
    if (!kit.assigned.empty()) for (const auto& [broker, queue] : kit.assigned.back().queues) text += fmt::format("{}{} ", broker, queue);
    return text;
  }
};

TEST_F(RebalanceTest, QueuesAreSharedInOrderOfBrokersAndIds) {
  kit.membership.members = {"fulmar", "other"};
  subscribe();
  kit.route("t", {{"a", 2}, {"b", 3}});
  EXPECT_EQ(owned(), "a0 a1 b0 ");
  kit.set_members({"aaa", "fulmar"});
  EXPECT_EQ(owned(), "b1 b2 ");
  kit.set_members({"fulmar"});
  kit.pass(10);
  EXPECT_EQ(owned(), "a0 a1 b0 b1 b2 ");
}

TEST_F(RebalanceTest, NothingIsPulledBeforeTheMembersAreKnown) {
  kit.silent = {"a:10911"};
  subscribe();
  kit.route("t", {{"a", 1}});
  EXPECT_EQ(kit.asked(), Lines{"ns1:9876 route t"});
  EXPECT_TRUE(kit.assigned.empty());
}

TEST_F(RebalanceTest, TheFirstBrokerThatAnswersCounts) {
  kit.silent = {"a:10911"};
  subscribe();
  kit.route("t", {{"a", 1}, {"b", 1}});
  EXPECT_EQ(owned(), "a0 b0 ");   // b's word
}

TEST_F(RebalanceTest, AnotherBrokersListCountsWhenTheFirstFallsSilent) {
  subscribe();
  kit.route("t", {{"a", 1}, {"b", 1}});
  EXPECT_EQ(owned(), "a0 b0 ");
  kit.silence("a:10911");
  kit.set_members({"fulmar", "other"});
  EXPECT_EQ(owned(), "a0 ");
}

TEST_F(RebalanceTest, AQueueThatIsLostIsCommittedAndLetGo) {
  subscribe();
  kit.route("t", {{"a", 2}});
  kit.answer("a:10911 offset g t q1", reply::Offset{QueueOffset(3)});
  kit.answer("a:10911 pull t q1 @3", pulled(5, 2));
  kit.asked();
  consume(5, "a", 1);
  kit.answer("a:10911 commit g t q1 @5", reply::Ok{});
  kit.answer("a:10911 pull t q1 @5", pulled(7, 2));
  consume(7, "a", 1);
  kit.asked();
  kit.set_members({"fulmar", "other"});
  EXPECT_EQ(kit.asked(), Lines{"a:10911 commit g t q1 @7"});   // although the second is not over
  EXPECT_EQ(owned(), "a0 ");
  kit.answer("a:10911 commit g t q1 @7", reply::Ok{});
  kit.told();
  consume(7, "a", 1);
  kit.told();
  EXPECT_EQ(kit.last_refusal().code, Code::InvalidParameter);
  // Back again it begins where it is committed.
  kit.set_members({"fulmar"});
  kit.pass(300);
  EXPECT_TRUE(kit.is_pending("a:10911 offset g t q1"));
}

TEST_F(RebalanceTest, BatchesOfAQueueThatIsLostAreNobodysBusiness) {
  subscribe();
  kit.route("t", {{"a", 2}});
  kit.answer("a:10911 offset g t q1", reply::Offset{QueueOffset(3)});
  kit.answer("a:10911 pull t q1 @3", pulled(5, 2));
  kit.asked();
  kit.set_members({"fulmar", "other"});
  consume(5, "a", 1);
  EXPECT_FALSE(kit.is_pending("a:10911 commit g t q1 @5"));
}

TEST_F(RebalanceTest, WhoTakesOverWaitsForTheLastCommit) {
  kit.membership.members = {"aaa", "fulmar"};
  subscribe();
  kit.route("t", {{"a", 1}});
  EXPECT_EQ(owned(), "");
  kit.set_members({"fulmar", "zzz"});
  kit.asked();
  kit.pass(190);
  EXPECT_FALSE(kit.is_pending("a:10911 offset g t q0"));
  kit.pass(20);
  EXPECT_TRUE(kit.is_pending("a:10911 offset g t q0"));
}

TEST_F(RebalanceTest, WhoDoesNotSubscribeToATopicHasNoShareOfIt) {
  kit.membership.members = {"fulmar", "other"};
  kit.membership.absent = {{"t", {1}}};
  kit.membership.conflict = "they differ";
  subscribe();
  kit.route("t", {{"a", 2}});
  EXPECT_EQ(owned(), "a0 a1 ");
  EXPECT_EQ(kit.assigned.back().conflict, "they differ");
}

TEST_F(RebalanceTest, ATopicOfAGroupIsSubscribedToOnce) {
  subscribe();
  command::Subscribe again{"g", "t", "*"};
  kit.consumer.subscribe(kit.ctx, CallId(2), again);
  kit.told();
  EXPECT_EQ(kit.last_refusal().code, Code::InvalidParameter);
  command::Subscribe other{"g", "u", "*"};
  other.model = GroupModel::Broadcasting;
  kit.consumer.subscribe(kit.ctx, CallId(3), other);
  kit.told();
  EXPECT_EQ(kit.last_refusal().code, Code::InvalidParameter);
}

TEST_F(RebalanceTest, ABroadcastingMemberHasAllQueuesAndKeepsItsOwnProgress) {
  kit.membership.members = {"aaa", "fulmar"};
  command::Subscribe c;
  c.model = GroupModel::Broadcasting;
  c.positions.push_back({"a", 0, QueueOffset(4)});
  subscribe(c);
  kit.route("t", {{"a", 2}});
  EXPECT_EQ(owned(), "a0 a1 ");
  EXPECT_TRUE(kit.is_pending("a:10911 pull t q0 @4"));
  EXPECT_TRUE(kit.is_pending("a:10911 queue t q1"));
  kit.answer("a:10911 pull t q0 @4", pulled(6, 2));
  kit.told();
  consume(6);
  EXPECT_EQ(kit.told(), (Lines{"100: Ok", "1: Progress a t queue 0 next 6"}));
  EXPECT_FALSE(kit.is_pending("a:10911 commit g t q0 @6"));
}

TEST_F(RebalanceTest, ATimeIsLookedUp) {
  command::Subscribe c;
  c.from = StartFrom::Timestamp;
  c.from_time = Wall{123};
  subscribe(c);
  kit.route("t", {{"a", 1}});
  kit.answer("a:10911 offset g t q0", ClientKit::refusal(Code::QueryNotFound));
  kit.answer("a:10911 SearchOffset", reply::Offset{QueueOffset(9)});
  EXPECT_TRUE(kit.is_pending("a:10911 commit g t q0 @9"));
  EXPECT_TRUE(kit.is_pending("a:10911 pull t q0 @9"));
}

TEST_F(RebalanceTest, ANewQueueBeginsAtItsMinimum) {
  command::Subscribe c;
  c.from = StartFrom::Last;
  subscribe(c);
  kit.route("t", {{"a", 1}});
  kit.answer("a:10911 offset g t q0", ClientKit::refusal(Code::QueryNotFound));
  kit.answer("a:10911 queue t q0", reply::Queue{QueueOffset(5), QueueOffset(50)});
  EXPECT_TRUE(kit.is_pending("a:10911 pull t q0 @50"));
  kit.routes.refresh(kit.ctx, "t");
  kit.pass(250);
  kit.route("t", {{"a", 2}});
  kit.answer("a:10911 offset g t q1", ClientKit::refusal(Code::QueryNotFound));
  kit.answer("a:10911 queue t q1", reply::Queue{QueueOffset(0), QueueOffset(7)});
  EXPECT_TRUE(kit.is_pending("a:10911 pull t q1 @0"));
}

TEST_F(RebalanceTest, SeveralBatchesAreOutUntilThereAreEnough) {
  command::Subscribe c;
  c.queue_messages_max = 4;
  subscribe(c);
  kit.route("t", {{"a", 1}});
  kit.answer("a:10911 offset g t q0", reply::Offset{QueueOffset(0)});
  kit.answer("a:10911 pull t q0 @0", pulled(2, 2));
  kit.answer("a:10911 pull t q0 @2", pulled(4, 2));
  EXPECT_FALSE(kit.is_pending("a:10911 pull t q0 @4"));
  consume(2);
  EXPECT_TRUE(kit.is_pending("a:10911 commit g t q0 @2"));
  EXPECT_TRUE(kit.is_pending("a:10911 pull t q0 @4"));
  kit.answer("a:10911 commit g t q0 @2", reply::Ok{});
  consume(4);
  kit.pass(1000);
  EXPECT_TRUE(kit.is_pending("a:10911 commit g t q0 @4"));
}

TEST_F(RebalanceTest, APartOfTheOldestBatchBringsEverythingBehindItAgain) {
  command::Subscribe c;
  c.queue_messages_max = 10;
  subscribe(c);
  kit.route("t", {{"a", 1}});
  kit.answer("a:10911 offset g t q0", reply::Offset{QueueOffset(0)});
  kit.answer("a:10911 pull t q0 @0", pulled(2, 2));
  kit.answer("a:10911 pull t q0 @2", pulled(4, 2));
  consume(1);
  EXPECT_TRUE(kit.is_pending("a:10911 pull t q0 @1"));
  kit.answer("a:10911 pull t q0 @4", pulled(6, 2));   // given up
  kit.told();
  EXPECT_FALSE(kit.is_pending("a:10911 pull t q0 @6"));
}

TEST_F(RebalanceTest, QueuesTakeTurnsWhenTheSubscriptionIsFull) {
  command::Subscribe c;
  c.messages_max = 2;
  subscribe(c);
  kit.route("t", {{"a", 2}});
  kit.answer("a:10911 offset g t q0", reply::Offset{QueueOffset(0)});
  kit.answer("a:10911 pull t q0 @0", pulled(2, 2));
  kit.answer("a:10911 offset g t q1", reply::Offset{QueueOffset(0)});
  EXPECT_FALSE(kit.is_pending("a:10911 pull t q1 @0"));
  consume(2);
  EXPECT_TRUE(kit.is_pending("a:10911 pull t q1 @0"));
}

TEST_F(RebalanceTest, AGroupThatMayNotConsumeEndsTheSubscription) {
  kit.silent = {"a:10911"};
  subscribe();
  kit.route("t", {{"a", 1}});
  ASSERT_EQ(kit.beats.size(), 1u);
  kit.rebalance.on_reply(kit.ctx, kit.beats[0].token, ClientKit::refusal(Code::NoPermission));
  kit.settle();
  kit.told();
  EXPECT_EQ(kit.last_refusal().code, Code::NoPermission);
  EXPECT_TRUE(kit.consumer.is_idle());
}

}  // namespace
}  // namespace fulmar
