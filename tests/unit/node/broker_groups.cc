// A broker node in memory: groups, their configuration, offsets by time, and groups that are moved.

#include <gtest/gtest.h>

#include "tests/unit/node/broker_harness.h"

namespace fulmar::testing {
namespace {

using To = command::ResetOffset::To;

struct BrokerGroups : ::testing::Test {
  BrokerHarness h;
  void SetUp() override {
    ASSERT_TRUE(h.serve());
    EXPECT_EQ(describe(h.create("t")), "Ok");
  }
  static command::Heartbeat heartbeat(std::string_view client, uint64_t known = 0) {
    command::Heartbeat c;
    c.client_id = client;
    c.group = "g";
    c.version = "9";
    c.subscriptions = {{"t", "*"}};
    c.generation_known = known;
    c.suspend_ms = 1000;
    return c;
  }
  void send(int count) {
    for (int i = 0; i < count; ++i) {
      EXPECT_TRUE(std::holds_alternative<reply::Sent>(h.ask(BrokerHarness::message("t", fmt::format("m{}", i)))));
      h.driver.now.wall.ms += 10;
    }
  }
  std::string commit(int64_t offset) { return h.ask_text(command::CommitOffset{"g", "t", 0, QueueOffset(offset), false, {}}); }
  std::string committed() { return h.ask_text(command::QueryOffset{"g", "t", 0, {}}); }
  reply::OffsetsReset reset(To to, int64_t at = 0, bool is_dry_run = false) {
    command::ResetOffset c{.group = "g", .topic = "t", .to = to, .stamp = Wall{at}, .offset = QueueOffset(at), .is_dry_run = is_dry_run};
    const Reply reply = h.ask(c);
    EXPECT_TRUE(std::holds_alternative<reply::OffsetsReset>(reply)) << describe(reply);
    return std::get<reply::OffsetsReset>(reply);
  }
  Code code(const Command& c) {
    const Reply reply = h.ask(c);
    return std::holds_alternative<Refusal>(reply) ? std::get<Refusal>(reply).code : Code::Success;
  }
};

TEST_F(BrokerGroups, MembersHearOfEachOther) {
  h.run_for(Duration::seconds(2));
  const ConnId a = h.connect(), b = h.connect();
  h.request(a, 1, heartbeat("a"));
  h.request(b, 2, heartbeat("b"));
  h.run_for(Duration::milliseconds(100));
  const std::string both = h.responses(a);   // 1: Members GENERATION a,b
  EXPECT_TRUE(both.ends_with("a,b\n")) << both;
  EXPECT_TRUE(h.responses(b).ends_with("a,b\n"));
  h.request(a, 3, heartbeat("a", std::strtoull(both.c_str() + std::string_view("1: Members ").size(), nullptr, 16)));
  h.run_for(Duration::milliseconds(100));
  EXPECT_EQ(h.responses(a), "");   // held: nothing has changed
  h.step({Closed{b, Errc::PeerClosed}});
  h.run_for(Duration::milliseconds(100));
  const std::string heard = h.responses(a);
  EXPECT_TRUE(heard.ends_with(" a\n")) << heard;
  const Reply described = h.ask(command::DescribeGroup{"g"});
  const auto& group = std::get<reply::Group>(described);
  ASSERT_EQ(group.members.size(), 1u);
  EXPECT_EQ(group.members[0].client_id, "a");
  EXPECT_EQ(group.members[0].address, "10.0.0.9:4000");
  EXPECT_EQ(group.members[0].version, "9");
  ASSERT_EQ(group.queues.size(), 1u);
  EXPECT_EQ(group.queues[0].committed, QueueOffset(-1));
  EXPECT_FALSE(group.is_configured);
}

TEST_F(BrokerGroups, AreListedByPages) {
  send(2);
  EXPECT_EQ(commit(1), "Ok");
  for (const char* name : {"x", "a", "m"}) {
    command::CreateGroup c;
    c.config.name = name;
    EXPECT_EQ(h.ask_text(c), "Ok");
  }
  h.tell(heartbeat("client"));
  std::string names, after;
  while (true) {
    const Reply reply = h.ask(command::ListGroups{after, 2});
    const auto& page = std::get<reply::Groups>(reply);
    for (const reply::GroupSummary& g : page.groups) names += fmt::format("{}{}{} ", g.name, g.members, g.is_configured ? "+" : "-");
    if (!page.has_more) break;
    after = page.groups.back().name;
  }
  EXPECT_EQ(names, "a0+ g1- m0+ x0+ ");
}

TEST_F(BrokerGroups, AConfigurationOutlivesACrash) {
  command::CreateGroup c;
  c.config.name = "g";
  c.config.retry_max = 3;
  c.config.is_consume_enabled = false;
  EXPECT_EQ(h.ask_text(c), "Ok");
  EXPECT_EQ(code(BrokerHarness::pull("t", 0)), Code::NoPermission);
  EXPECT_EQ(code(heartbeat("a")), Code::NoPermission);
  h.cut_power({0, 1});
  ASSERT_TRUE(h.serve());
  const Reply described = h.ask(command::DescribeGroup{"g"});
  EXPECT_EQ(std::get<reply::Group>(described).config, c.config);
  c.config.is_consume_enabled = true;
  EXPECT_EQ(h.ask_text(c), "Ok");
  EXPECT_EQ(h.ask_text(BrokerHarness::pull("t", 0)), "Pulled PULL_NOT_FOUND count 0 next 0 min 0 max 0");
}

TEST_F(BrokerGroups, ADeletedGroupIsForgottenWithItsOffsets) {
  send(3);
  EXPECT_EQ(commit(2), "Ok");
  EXPECT_EQ(committed(), "Offset 2");
  const ConnId conn = h.connect();
  h.request(conn, 1, heartbeat("a"));
  EXPECT_EQ(code(command::DeleteGroup{"g"}), Code::SystemBusy);
  h.step({Closed{conn, Errc::PeerClosed}});
  EXPECT_EQ(h.ask_text(command::DeleteGroup{"g"}), "Ok");
  EXPECT_EQ(code(command::QueryOffset{"g", "t", 0, {}}), Code::QueryNotFound);
  EXPECT_EQ(code(command::DescribeGroup{"g"}), Code::SubscriptionGroupNotExist);
  EXPECT_EQ(code(command::DeleteGroup{"g"}), Code::SubscriptionGroupNotExist);
  h.kill();
  ASSERT_TRUE(h.serve());
  EXPECT_EQ(code(command::QueryOffset{"g", "t", 0, {}}), Code::QueryNotFound);
  EXPECT_EQ(commit(1), "Ok");   // a new life of the name
  EXPECT_EQ(committed(), "Offset 1");
}

TEST_F(BrokerGroups, ADeletedGroupTakesHeldCommitsAlong) {
  send(3);
  EXPECT_EQ(commit(1), "Ok");
  const uint64_t held = h.tell(command::CommitOffset{"g", "t", 0, QueueOffset(2), false, {}});   // for the rest of the second
  EXPECT_EQ(h.ask_text(command::DeleteGroup{"g"}), "Ok");
  h.run_for(Duration::seconds(2));
  EXPECT_NE(h.told(held), nullptr);
  EXPECT_EQ(code(command::QueryOffset{"g", "t", 0, {}}), Code::QueryNotFound);
}

TEST_F(BrokerGroups, OffsetsAreFoundByTime) {
  send(20);
  const Reply all = h.ask(BrokerHarness::pull("t", 0));
  std::vector<int64_t> stamps;
  for (Bytes rest = std::get<reply::Pulled>(all).records; !rest.empty();) {
    const ParsedRecord parsed = parse_received_record(rest, Verify::Checksums);
    stamps.push_back(parsed.record.place.stored.ms);
    rest = rest.subspan(parsed.bytes);
  }
  ASSERT_EQ(stamps.size(), 20u);
  const auto found = [this](int64_t stamp) { return std::get<reply::Offset>(h.ask(command::SearchOffset{"t", 0, Wall{stamp}, {}})).offset.value(); };
  EXPECT_EQ(found(0), 0);
  EXPECT_EQ(found(stamps.back() + 1), 20);
  for (size_t i = 0; i < stamps.size(); ++i) {
    EXPECT_EQ(found(stamps[i]), std::lower_bound(stamps.begin(), stamps.end(), stamps[i]) - stamps.begin());
    EXPECT_EQ(found(stamps[i] + 1), std::lower_bound(stamps.begin(), stamps.end(), stamps[i] + 1) - stamps.begin());
  }
  EXPECT_EQ(code(command::SearchOffset{"t", 7, Wall{0}, {}}), Code::InvalidParameter);
  EXPECT_EQ(code(command::SearchOffset{"nobody", 0, Wall{0}, {}}), Code::TopicNotExist);
}

TEST_F(BrokerGroups, OffsetsAreFoundByTimeOnAColdDisk) {
  send(20);
  h.run_for(Duration::seconds(3));
  h.kill();
  ASSERT_TRUE(h.serve());
  EXPECT_EQ(h.ask_text(command::SearchOffset{"t", 0, Wall{0}, {}}), "Offset 0");
  EXPECT_EQ(h.ask_text(command::SearchOffset{"t", 0, Wall{INT64_MAX}, {}}), "Offset 20");
}

TEST_F(BrokerGroups, AGroupIsMovedWhileItIsAway) {
  send(5);
  EXPECT_EQ(commit(4), "Ok");
  const reply::OffsetsReset dry = reset(To::First, 0, true);
  ASSERT_EQ(dry.queues.size(), 1u);
  EXPECT_EQ(dry.queues[0].was, QueueOffset(4));
  EXPECT_EQ(dry.queues[0].is, QueueOffset(0));
  EXPECT_EQ(committed(), "Offset 4");
  reset(To::First);
  EXPECT_EQ(committed(), "Offset 0");
  reset(To::Offset, 3);
  EXPECT_EQ(committed(), "Offset 3");
  reset(To::Last);
  EXPECT_EQ(committed(), "Offset 5");
  EXPECT_EQ(reset(To::Timestamp, 0).queues[0].is, QueueOffset(0));
  EXPECT_EQ(code(command::ResetOffset{.group = "g", .topic = "t", .to = To::Offset, .offset = QueueOffset(6)}), Code::InvalidParameter);
  EXPECT_EQ(code(command::ResetOffset{.group = "g", .topic = "nobody"}), Code::TopicNotExist);
}

TEST_F(BrokerGroups, AGroupIsMovedWhileItConsumes) {
  send(5);
  EXPECT_EQ(commit(4), "Ok");
  const uint64_t held = h.tell(BrokerHarness::pull("t", 5, 10'000));   // it waits at the end
  reset(To::Offset, 2);
  h.settle();
  ASSERT_NE(h.told(held), nullptr);
  EXPECT_EQ(commit(5), "Ok");                 // ignored
  EXPECT_EQ(committed(), "Offset 2");
  EXPECT_EQ(h.ask_text(BrokerHarness::pull("t", 5)), "Pulled PULL_OFFSET_MOVED count 0 next 2 min 0 max 5");
  EXPECT_EQ(h.ask_text(BrokerHarness::pull("t", 2)), "Pulled SUCCESS count 3 next 5 min 0 max 5");
  EXPECT_EQ(commit(3), "Ok");                 // counts again
  h.run_for(Duration::seconds(2));
  EXPECT_EQ(committed(), "Offset 3");
}

TEST_F(BrokerGroups, AnotherGroupIsNotMoved) {
  send(3);
  EXPECT_EQ(commit(3), "Ok");
  reset(To::First);
  command::PullMessages other = BrokerHarness::pull("t", 3);
  other.group = "other";
  EXPECT_EQ(h.ask_text(other), "Pulled PULL_NOT_FOUND count 0 next 3 min 0 max 3");
}

TEST_F(BrokerGroups, TheConfigurationIsShownAndAFewKeysChange) {
  const Reply shown = h.ask(command::GetConfig{});
  const auto value_of = [](const Reply& reply, std::string_view key) {
    for (const auto& [name, value] : std::get<reply::Status>(reply).values)
      if (name == key) return value;
    return std::string("none");
  };
  EXPECT_EQ(value_of(shown, "maxMessageSize"), "65536");
  EXPECT_EQ(code(BrokerHarness::message("t", std::string(2000, 'x'))), Code::Success);
  EXPECT_EQ(h.ask_text(command::UpdateConfig{"maxMessageSize", "1024"}), "Ok");
  EXPECT_EQ(value_of(h.ask(command::GetConfig{}), "maxMessageSize"), "1024");
  EXPECT_EQ(code(BrokerHarness::message("t", std::string(2000, 'x'))), Code::MessageIllegal);
  EXPECT_EQ(code(command::UpdateConfig{"storePathRootDir", "elsewhere"}), Code::InvalidParameter);
  EXPECT_EQ(code(command::UpdateConfig{"maxMessageSize", "lots"}), Code::InvalidParameter);
  EXPECT_EQ(code(command::UpdateConfig{"maxMessageSize", "1\nlistenPort=1"}), Code::InvalidParameter);
}

}  // namespace
}  // namespace fulmar::testing
