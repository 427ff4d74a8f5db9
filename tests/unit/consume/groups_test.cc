// Members of groups: who is one, who is told when, and what is too much.

#include "core/consume/groups.h"

#include <gtest/gtest.h>

namespace fulmar {
namespace {

struct GroupsTest : ::testing::Test {
  Moment now{Monotonic{1'000'000'000'000}, Wall{1'700'000'000'000}, 0};
  Outbox out;
  Files files;
  Timers timers;
  Prng prng{Seed{1}};
  Trace trace;
  Ctx ctx{now, out, files, timers, prng, trace};
  GroupLimits limits;
  std::optional<Groups> groups_;
  std::vector<std::string> said;   // "client: reply"
  std::map<uint32_t, reply::Members> last;

  Groups& groups() {
    if (!groups_) groups_.emplace(limits);
    return *groups_;
  }
  static command::Heartbeat heartbeat(std::string_view client, uint64_t known = 0, std::vector<Subscription> subscriptions = {{"t", "*"}}, uint32_t suspend_ms = 1000) {
    command::Heartbeat c;
    c.client_id = client;
    c.group = "g";
    c.subscriptions = std::move(subscriptions);
    c.generation_known = known;
    c.suspend_ms = suspend_ms;
    return c;
  }
  // The client's number is its connection and its opaque.
  void beat(uint32_t number, const command::Heartbeat& c) {
    groups().on_heartbeat(ctx, Asker{ConnId(number), number, false, false, {}}, "10.0.0.1:1", c);
    settle();
  }
  void beat(uint32_t number, uint64_t known = 0) { beat(number, heartbeat(names[number], known)); }
  void settle() {
    groups().pump(ctx);
    for (Groups::Answer& one : groups().take_answers()) {
      said.push_back(fmt::format("{}: {}", one.asker.opaque, describe(one.reply)));
      if (const auto* members = std::get_if<reply::Members>(&one.reply)) last[one.asker.opaque] = *members;
    }
  }
  void pass(int64_t ms) {
    const Monotonic end = now.monotonic + Duration::milliseconds(ms);
    while (timers.next() <= end) {
      now.monotonic = std::max(now.monotonic, timers.next());
      while (timers.pop_due(now.monotonic)) {}
      settle();
    }
    now.monotonic = end;
  }
  std::string members_of(uint32_t number) { return fmt::format("{}", fmt::join(last[number].members, ",")); }
  uint64_t generation(uint32_t number) { return last[number].generation; }
  std::vector<std::string> heard() { return std::exchange(said, {}); }
  const std::vector<std::string> names{"", "a", "b", "c", "d"};
};

TEST_F(GroupsTest, AJoinIsToldWhenItHasSettled) {
  beat(1);
  EXPECT_TRUE(said.empty());
  pass(30);
  EXPECT_EQ(heard().size(), 1u);
  EXPECT_EQ(members_of(1), "a");
  EXPECT_NE(generation(1), 0u);
}

TEST_F(GroupsTest, WhoKnowsIsHeldAndToldOfNothingNew) {
  beat(1);
  pass(30);
  beat(1, generation(1));
  heard();
  pass(990);
  EXPECT_TRUE(said.empty());
  pass(20);
  EXPECT_EQ(heard().size(), 1u);
  EXPECT_EQ(members_of(1), "");   // it knows them
}

TEST_F(GroupsTest, AChangeReachesEveryMemberAtOnce) {
  beat(1);
  pass(30);
  beat(1, generation(1));
  heard();
  beat(2);
  pass(30);
  EXPECT_EQ(heard().size(), 2u);
  EXPECT_EQ(members_of(1), "a,b");
  EXPECT_EQ(members_of(2), "a,b");
  EXPECT_EQ(generation(1), generation(2));
  beat(1, generation(1));
  groups().on_closed(ctx, ConnId(2));
  pass(30);
  EXPECT_EQ(members_of(1), "a");
}

TEST_F(GroupsTest, EqualMembershipsHaveEqualGenerations) {
  beat(1), beat(2);
  pass(40);
  const uint64_t both = generation(1);
  groups_.reset();   // the broker restarts, and hears them in another order
  beat(2), beat(1);
  pass(40);
  EXPECT_EQ(generation(1), both);
  EXPECT_EQ(generation(2), both);
}

TEST_F(GroupsTest, ABrokerThatHasJustBegunWaitsForTheOthers) {
  groups().begin(now);
  beat(1, 77);
  pass(500);
  EXPECT_TRUE(said.empty());
  beat(2);
  pass(600);
  EXPECT_EQ(members_of(1), "a,b");
}

TEST_F(GroupsTest, SilenceIsMeasuredFromTheAnswer) {
  beat(1);
  pass(30);
  pass(9'900);
  EXPECT_TRUE(groups().has_members("g"));
  pass(200);
  EXPECT_FALSE(groups().has_members("g"));
  EXPECT_EQ(groups().members_total(), 0u);
}

TEST_F(GroupsTest, WallClocksDoNotMatter) {
  beat(1);
  now.wall.ms += 86'400'000;
  pass(5'000);
  EXPECT_TRUE(groups().has_members("g"));
}

TEST_F(GroupsTest, LeavingIsAnsweredAndTold) {
  beat(1), beat(2);
  pass(40);
  beat(1, generation(1));
  heard();
  groups().on_leave(ctx, Asker{ConnId(2), 2, false, false, {}}, {"b", "g"});
  pass(40);
  EXPECT_EQ(heard().size(), 2u);
  EXPECT_EQ(members_of(1), "a");
  groups().on_leave(ctx, Asker{ConnId(2), 2, false, false, {}}, {"b", "nobody"});
  settle();
  EXPECT_EQ(heard(), std::vector<std::string>{"2: Ok"});
}

TEST_F(GroupsTest, OneHeartbeatOfAMemberIsHeld) {
  beat(1);
  pass(30);
  beat(1, generation(1));
  EXPECT_EQ(groups().held_count(), 1u);
  heard();
  beat(1, generation(1));
  EXPECT_EQ(heard().size(), 1u);
  EXPECT_EQ(groups().held_count(), 1u);
}

TEST_F(GroupsTest, AnOldConnectionThatIsClosedLateTakesNobodyAlong) {
  beat(1);
  pass(30);
  const uint64_t known = generation(1);
  groups().on_heartbeat(ctx, Asker{ConnId(9), 1, false, false, {}}, "10.0.0.1:2", heartbeat("a", known));
  settle();
  groups().on_closed(ctx, ConnId(1));
  EXPECT_TRUE(groups().has_members("g"));
  groups().on_closed(ctx, ConnId(9));
  EXPECT_FALSE(groups().has_members("g"));
}

TEST_F(GroupsTest, TwoClientsWithOneIdAreAConflict) {
  groups().on_heartbeat(ctx, Asker{ConnId(9), 1, false, false, {}}, "10.0.0.1:2", heartbeat("a"));
  beat(2, heartbeat("a"));
  EXPECT_NE(groups().conflict("g").find("two clients call themselves 'a'"), std::string::npos);
}

TEST_F(GroupsTest, DifferentSubscriptionsAreReportedAndSharedByTopic) {
  beat(1, heartbeat("a", 0, {{"t", "*"}, {"u", "*"}}));
  beat(2, heartbeat("b", 0, {{"t", "x"}}));
  pass(60);
  EXPECT_EQ(members_of(1), "a,b");
  EXPECT_EQ(last[1].conflict, "'a' subscribes to topic 't' by '*', 'b' by 'x'");
  ASSERT_EQ(last[1].absent.size(), 1u);
  EXPECT_EQ(last[1].absent[0].topic, "u");
  EXPECT_EQ(last[1].absent[0].members, std::vector<uint32_t>{1});
  EXPECT_TRUE(last[2].absent.empty());
  EXPECT_EQ(groups().topics("g"), (std::vector<std::string>{"t", "u"}));
}

TEST_F(GroupsTest, ModelsDoNotShareWithEachOther) {
  command::Heartbeat c = heartbeat("b");
  c.model = GroupModel::Broadcasting;
  beat(1), beat(2, c);
  pass(60);
  EXPECT_EQ(members_of(1), "a");
  EXPECT_EQ(members_of(2), "b");
  EXPECT_NE(last[1].conflict, "");
}

TEST_F(GroupsTest, WhatIsWrongIsRefused) {
  beat(1, heartbeat(""));
  beat(1, heartbeat(std::string(256, 'x')));
  beat(1, heartbeat("a", 0, {}));
  beat(1, heartbeat("a", 0, {{"t", "*"}, {"t", "*"}}));
  beat(1, heartbeat("a", 0, {{"u", "*"}, {"t", "*"}}));
  beat(1, heartbeat("a", 0, {{"t", std::string(9000, 'x')}}));
  beat(1, heartbeat("a", 0, {{"no/topic", "*"}}));
  for (const std::string& line : heard()) EXPECT_NE(line.find("INVALID_PARAMETER"), std::string::npos) << line;
  EXPECT_EQ(groups().members_total(), 0u);
}

TEST_F(GroupsTest, FullIsAnAnswer) {
  limits.members_max = 2;
  beat(1), beat(2), beat(3);
  EXPECT_EQ(heard().size(), 1u);
  EXPECT_EQ(groups().member_count("g"), 2u);
  beat(1);   // who is there stays
  EXPECT_EQ(groups().member_count("g"), 2u);
}

TEST_F(GroupsTest, TextIsBounded) {
  limits.text_bytes_max = 100;
  beat(1);
  beat(2, heartbeat("b", 0, {{"t", std::string(200, 'x')}}));
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("SYSTEM_BUSY"), std::string::npos);
  groups().on_closed(ctx, ConnId(1));
  beat(3);
  EXPECT_EQ(groups().member_count("g"), 1u);
}

// Who joins and vanishes in a loop costs the others little: they are told at most once a settling time.
TEST_F(GroupsTest, AStormOfJoinsIsToldTogether) {
  beat(1);
  pass(30);
  heard();
  uint64_t known = generation(1);
  size_t told = 0;
  for (uint32_t round = 0; round < 1000; ++round) {
    beat(1, known);
    groups().on_heartbeat(ctx, Asker{ConnId(100 + round), 2, false, false, {}}, "10.0.0.2:1", heartbeat("stormy"));
    pass(1);
    groups().on_closed(ctx, ConnId(100 + round));
    pass(1);
    for (const std::string& line : heard()) told += line.starts_with("1: ") && line.find("a") != std::string::npos ? 1 : 0;
    known = generation(1) != 0 ? generation(1) : known;
  }
  EXPECT_EQ(groups().members_total(), 1u);
  EXPECT_LE(groups().held_count(), 1u);
  EXPECT_LE(told, 1100u);
}

}  // namespace
}  // namespace fulmar
