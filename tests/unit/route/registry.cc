#include "core/route/registry.h"

#include <gtest/gtest.h>

#include "core/base/mutants.h"

namespace fulmar {
namespace {

Monotonic at_s(int64_t s) { return Monotonic{s * 1'000'000'000}; }

command::RegisterBroker broker(std::string_view name, int64_t id, uint16_t port, std::vector<TopicConfig> topics, uint64_t version = 1) {
  command::RegisterBroker c;
  c.cluster = "c1";
  c.broker_name = name;
  c.broker_id = BrokerId(id);
  c.port = port;
  c.topics_version = version;
  c.topics = std::move(topics);
  return c;
}
command::RegisterBroker heartbeat(std::string_view name, int64_t id, uint16_t port, uint64_t version = 1) {
  auto c = broker(name, id, port, {}, version);
  c.is_complete = false;
  return c;
}

std::string spelled(const Reply& reply) {
  if (const auto* route = std::get_if<reply::Route>(&reply)) {
    std::string out;
    for (const auto& b : route->brokers) {
      out += fmt::format("{}/{}", b.cluster, b.name);
      for (const auto& [id, address] : b.addresses) out += fmt::format(" {}={}", id, address);
      out += "; ";
    }
    for (const auto& q : route->queues) out += fmt::format("{}:{}/{}/{} ", q.broker, q.read_queues, q.write_queues, q.perm);
    return out;
  }
  return describe(reply);
}

TEST(Registry, MergesTheBrokersOfATopicInOrder) {
  Registry r;
  EXPECT_EQ(describe(r.register_broker(broker("b", 0, 2, {{"t", 4, 4, 6}}), "h2", at_s(0)).reply), "Registered version 1");
  EXPECT_EQ(describe(r.register_broker(broker("a", 1, 3, {{"t", 9, 9, 4}}), "h3", at_s(0)).reply), "Registered version 1");
  auto named = broker("a", 0, 1, {{"u", 1, 1, 6}, {"t", 8, 7, 6}});
  named.host = "2001::1";
  EXPECT_EQ(describe(r.register_broker(named, "ignored", at_s(0)).reply), "Registered version 1");
  EXPECT_EQ(spelled(r.route("t")), "c1/a 0=[2001::1]:1 1=h3:3; c1/b 0=h2:2; a:8/7/6 b:4/4/6 ");
  EXPECT_EQ(spelled(r.route("u")), "c1/a 0=[2001::1]:1 1=h3:3; a:1/1/6 ");
  EXPECT_EQ(spelled(r.route("x")), "Refusal TOPIC_NOT_EXIST (no broker has the topic x; 3 brokers, 2 topics are registered; retry after 1000 ms)");
}

TEST(Registry, HeartbeatsNeedAKnownTableAndAddress) {
  Registry r;
  EXPECT_EQ(describe(r.register_broker(heartbeat("a", 0, 1), "h", at_s(0)).reply), "Registered version 1 needs topics");
  EXPECT_EQ(r.broker_count(), 0u);
  EXPECT_EQ(r.register_broker(broker("a", 0, 1, {}), "h", at_s(0)).news, Registry::News::NewBroker);
  EXPECT_EQ(describe(r.register_broker(heartbeat("a", 0, 1), "h", at_s(1)).reply), "Registered version 1");
  EXPECT_EQ(describe(r.register_broker(heartbeat("a", 0, 1, 2), "h", at_s(1)).reply), "Registered version 2 needs topics");
  EXPECT_EQ(describe(r.register_broker(heartbeat("a", 0, 9), "h", at_s(1)).reply), "Registered version 1 needs topics");
  EXPECT_EQ(r.register_broker(broker("a", 0, 9, {}), "h", at_s(1)).news, Registry::News::NewTable);
}

TEST(Registry, SilenceExpires) {
  Registry r;
  (void)r.register_broker(broker("a", 0, 1, {{"t", 1, 1, 6}}), "h", at_s(0));
  (void)r.register_broker(broker("b", 0, 2, {{"t", 1, 1, 6}}), "h", at_s(3));
  (void)r.register_broker(heartbeat("a", 0, 1), "h", at_s(5));
  EXPECT_EQ(r.next_expiry(), at_s(13));
  EXPECT_TRUE(r.expire(Monotonic{at_s(13).ns - 1}).empty());
  const auto gone = r.expire(at_s(13));
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(gone[0].broker_name, "b");
  EXPECT_EQ(spelled(r.route("t")), "c1/a 0=h:1; a:1/1/6 ");
  EXPECT_EQ(r.expire(at_s(15)).size(), 1u);
  EXPECT_EQ(r.broker_count(), 0u);
  EXPECT_EQ(r.topic_count(), 0u);
  EXPECT_EQ(r.next_expiry(), Monotonic::never());
}

TEST(Registry, TablesReplaceEachOther) {
  Registry r;
  (void)r.register_broker(broker("a", 0, 1, {{"old", 1, 1, 6}, {"kept", 1, 1, 6}}), "h", at_s(0));
  (void)r.register_broker(broker("a", 0, 1, {{"new", 1, 1, 6}, {"kept", 2, 2, 6}, {"kept", 3, 3, 6}}, 2), "h", at_s(0));
  EXPECT_EQ(r.topic_count(), 2u);
  EXPECT_EQ(spelled(r.route("kept")), "c1/a 0=h:1; a:3/3/6 ");
  EXPECT_TRUE(std::holds_alternative<Refusal>(r.route("old")));
}

TEST(Registry, ListsTopicsInPages) {
  Registry r;
  (void)r.register_broker(broker("a", 0, 1, {{"c", 3, 3, 6}, {"a", 1, 1, 6}}), "h", at_s(0));
  (void)r.register_broker(broker("b", 0, 1, {{"b", 2, 2, 6}, {"c", 9, 9, 6}}), "h", at_s(0));
  const auto first = r.topics("", 2);
  EXPECT_EQ(first.topics, (std::vector<TopicConfig>{{"a", 1, 1, 6}, {"b", 2, 2, 6}}));
  EXPECT_TRUE(first.has_more);
  const auto second = r.topics("b", 2);
  EXPECT_EQ(second.topics, (std::vector<TopicConfig>{{"c", 3, 3, 6}}));
  EXPECT_FALSE(second.has_more);
}

TEST(Registry, UnregisteringTakesTheIdOnly) {
  Registry r;
  (void)r.register_broker(broker("a", 0, 1, {}), "h", at_s(0));
  (void)r.register_broker(broker("a", 1, 2, {}), "h", at_s(0));
  command::UnregisterBroker c;
  c.broker_name = "a";
  EXPECT_TRUE(r.unregister_broker(c));
  EXPECT_FALSE(r.unregister_broker(c));
  EXPECT_EQ(r.broker_count(), 1u);
}

TEST(Registry, AGoodbyeOfAFormerLifeComesTooLate) {
  Registry r;
  command::UnregisterBroker c;
  c.broker_name = "a";
  (void)r.register_broker(broker("a", 0, 1, {}), "h", at_s(0), ConnId(1));
  (void)r.register_broker(broker("a", 0, 1, {}), "h", at_s(1), ConnId(2));
  EXPECT_FALSE(r.unregister_broker(c, ConnId(1)));
  EXPECT_EQ(r.broker_count(), 1u);
  EXPECT_TRUE(r.unregister_broker(c, ConnId(2)));
  EXPECT_EQ(r.broker_count(), 0u);
}

TEST(Registry, ASecondBrokerOfOneNameIsRefusedWhileTheFirstLives) {
  Registry r;
  command::UnregisterBroker goodbye;
  goodbye.broker_name = "a";
  (void)r.register_broker(broker("a", 0, 1, {{"t", 1, 1, 6}}), "h", at_s(0), ConnId(1));
  for (const bool is_complete : {true, false}) {
    auto second = broker("a", 0, 2, {{"u", 1, 1, 6}}, 9);
    second.is_complete = is_complete;
    const Registry::Outcome outcome = r.register_broker(second, "h", at_s(1), ConnId(2));
    EXPECT_EQ(describe(outcome.reply),
              "Refusal NO_PERMISSION (another broker is registered as a with id 0: each needs a brokerName or a brokerId of its own; h:1 is alive, h:2 is refused; retry after 1000 ms)");
    EXPECT_EQ(outcome.news, is_complete ? Registry::News::Refused : Registry::News::None);  // told once
  }
  EXPECT_FALSE(r.unregister_broker(goodbye, ConnId(2)));
  EXPECT_EQ(spelled(r.route("t")), "c1/a 0=h:1; a:1/1/6 ");
  mutants::plant(Mutant::RegistryForgetsWhoLives);
  EXPECT_EQ(r.register_broker(broker("a", 0, 2, {{"t", 2, 2, 6}}), "h", at_s(1), ConnId(2)).news, Registry::News::NewTable);
  mutants::plant(Mutant::None);
  EXPECT_EQ(r.register_broker(broker("a", 0, 1, {{"t", 1, 1, 6}}), "h", at_s(1), ConnId(1)).news, Registry::News::Refused);
  // Silence for the time of expiry frees the name, before anybody has looked.
  EXPECT_EQ(r.register_broker(broker("a", 0, 1, {{"t", 1, 1, 6}}), "h", at_s(11), ConnId(1)).news, Registry::News::NewTable);
  EXPECT_EQ(spelled(r.route("t")), "c1/a 0=h:1; a:1/1/6 ");
}

TEST(Registry, ABrokerMovesWhenItsConnectionIsGoneOrOnIt) {
  Registry r;
  (void)r.register_broker(broker("a", 0, 1, {}), "h", at_s(0), ConnId(1));
  EXPECT_EQ(r.register_broker(broker("a", 0, 7, {}), "h", at_s(1), ConnId(1)).news, Registry::News::NewTable);
  r.on_connection_closed(ConnId(1));
  EXPECT_EQ(r.register_broker(broker("a", 0, 2, {}), "h", at_s(1), ConnId(2)).news, Registry::News::NewTable);
  EXPECT_EQ(r.register_broker(broker("a", 0, 1, {}), "h", at_s(1), ConnId(3)).news, Registry::News::Refused);
  (void)r.register_broker(heartbeat("a", 0, 2), "h", at_s(2), ConnId(4));  // it dialled anew before we noticed
  r.on_connection_closed(ConnId(2));
  EXPECT_EQ(r.register_broker(broker("a", 0, 1, {}), "h", at_s(2), ConnId(3)).news, Registry::News::None);
}

TEST(Registry, OneAddressIsOneIdOfAName) {
  Registry r;
  (void)r.register_broker(broker("a", 1, 1, {{"t", 1, 1, 6}}), "h", at_s(0), ConnId(1));
  (void)r.register_broker(broker("a", 2, 2, {}), "h", at_s(0), ConnId(2));
  (void)r.register_broker(broker("a", 0, 1, {{"t", 1, 1, 6}}), "h", at_s(1), ConnId(3));
  EXPECT_EQ(spelled(r.route("t")), "c1/a 0=h:1 2=h:2; a:1/1/6 ");
  EXPECT_EQ(r.broker_count(), 2u);
}

TEST(Registry, FullIsARefusal) {
  RegistryLimits limits;
  limits.brokers_max = 1;
  limits.topics_max = 2;
  Registry r(limits);
  (void)r.register_broker(broker("a", 0, 1, {{"t", 1, 1, 6}}), "h", at_s(0));
  EXPECT_EQ(describe(r.register_broker(broker("b", 0, 1, {}), "h", at_s(0)).reply),
            "Refusal SYSTEM_BUSY (the name server knows too many brokers; 1 brokers, at most 1; retry after 1000 ms)");
  EXPECT_EQ(describe(r.register_broker(broker("a", 0, 1, {{"t", 1, 1, 6}, {"u", 1, 1, 6}, {"v", 1, 1, 6}}, 2), "h", at_s(0)).reply),
            "Refusal SYSTEM_BUSY (the name server knows too many topics; 3 topics announced, room for 2 of 2; retry after 1000 ms)");
  EXPECT_EQ(r.register_broker(broker("a", 0, 1, {{"t", 1, 1, 6}, {"u", 1, 1, 6}}, 2), "h", at_s(0)).news, Registry::News::NewTable);
}

TEST(Registry, NonsenseIsRefused) {
  Registry r;
  EXPECT_EQ(r.register_broker(broker("", 0, 1, {}), "h", at_s(0)).news, Registry::News::Refused);
  EXPECT_EQ(r.register_broker(broker("a", 0, 1, {}), "", at_s(0)).news, Registry::News::Refused);
  EXPECT_EQ(r.register_broker(broker("a", 0, 0, {}), "h", at_s(0)).news, Registry::News::Refused);
  EXPECT_EQ(r.register_broker(broker("a", -1, 1, {}), "h", at_s(0)).news, Registry::News::Refused);
  EXPECT_EQ(r.register_broker(broker(std::string(256, 'x'), 0, 1, {}), "h", at_s(0)).news, Registry::News::Refused);
}

uint32_t perm_of(const Registry& r, std::string_view topic, std::string_view broker_name) {
  const Reply reply = r.route(topic);
  for (const reply::RouteQueues& q : std::get<reply::Route>(reply).queues)
    if (q.broker == broker_name) return q.perm;
  return 99;
}

TEST(Registry, AWipedPermissionOutlivesRegistrations) {
  Registry r;
  (void)r.register_broker(broker("a", 0, 1, {{"t", 1, 1, 6}}), "h", at_s(0));
  (void)r.register_broker(broker("b", 0, 1, {{"t", 1, 1, 6}}), "h", at_s(0));
  EXPECT_EQ(r.set_writable("a", false)->count, 1);
  EXPECT_EQ(r.set_writable("a", false)->count, 0);   // it was wiped
  EXPECT_EQ(perm_of(r, "t", "a"), 4u);
  EXPECT_EQ(perm_of(r, "t", "b"), 6u);
  (void)r.register_broker(broker("a", 0, 1, {{"t", 1, 1, 6}, {"u", 1, 1, 6}}, 2), "h", at_s(1));
  EXPECT_EQ(perm_of(r, "u", "a"), 4u);
  (void)r.expire(at_s(100));
  (void)r.register_broker(broker("a", 0, 1, {{"t", 1, 1, 6}}, 3), "h", at_s(101));
  EXPECT_EQ(perm_of(r, "t", "a"), 4u);
  EXPECT_EQ(r.set_writable("a", true)->count, 1);
  EXPECT_EQ(perm_of(r, "t", "a"), 6u);
  EXPECT_FALSE(r.set_writable("nobody", false).has_value());
}

TEST(Registry, TheClusterIsListedByNameAndId) {
  Registry r;
  auto b = broker("b", 0, 1, {{"t", 1, 1, 6}});
  b.version = "1.2";
  (void)r.register_broker(b, "h", at_s(0));
  (void)r.register_broker(broker("a", 1, 1, {}), "h", at_s(2));
  (void)r.set_writable("b", false);
  std::string text;
  for (const reply::ClusterBroker& one : r.cluster(at_s(3)).brokers)
    text += fmt::format("{}/{} {} {} {} ms {} topics {}; ", one.name, one.broker_id, one.address, one.version, one.silent_ms, one.topics, one.is_writable);
  EXPECT_EQ(text, "a/1 h:1  1000 ms 0 topics true; b/0 h:1 1.2 3000 ms 1 topics false; ");
}

}  // namespace
}  // namespace fulmar
