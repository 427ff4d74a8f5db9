#include "core/client/routes.h"

#include "client_kit.h"

namespace fulmar {
namespace {

using test::ClientKit;
using test::Lines;
using Knowledge = Routes::Knowledge;

TEST(ParseAddress, TakesNamesAndBothFamilies) {
  EXPECT_EQ(*parse_address("broker-a:10911"), (Address{"broker-a", 10911}));
  EXPECT_EQ(*parse_address("[::1]:1"), (Address{"::1", 1}));
  for (const char* bad : {"", "host", ":1", "host:", "host:0", "host:65536", "host:1x", "::1:1", "[::1:1", "[]:1", "host: 1"})
    EXPECT_EQ(parse_address(bad).code(), Errc::BadAddress) << bad;
}

TEST(TopicRoute, KeepsMastersByNameAndBoundsQueues) {
  reply::Route r;
  r.brokers = {{"c", "b", {{BrokerId(0), "b:1"}, {BrokerId(1), "s:1"}}}, {"c", "a", {{BrokerId(0), "a:1"}}}, {"c", "slave-only", {{BrokerId(1), "x:1"}}},
               {"c", "bad", {{BrokerId(0), "nonsense"}}}, {"c", "a", {{BrokerId(0), "twice:1"}}}};
  r.queues = {{"a", 1 << 30, -4, kPermRead | kPermWrite}, {"b", 3, 3, kPermRead}, {"unknown", 1, 1, 6}};
  const TopicRoute route(r);
  ASSERT_EQ(route.brokers.size(), 2u);
  EXPECT_EQ(route.brokers[0], (TopicRoute::Broker{"a", {"a", 1}, TopicRoute::kQueuesMax, 0}));
  EXPECT_EQ(route.brokers[1], (TopicRoute::Broker{"b", {"b", 1}, 3, 0}));
}

struct RoutesTest : ::testing::Test {
  ClientKit kit;
  Knowledge find(std::string_view topic) { return kit.routes.find(kit.ctx, topic).knowledge; }
};

TEST_F(RoutesTest, AsksOnceAndRemembers) {
  EXPECT_EQ(find("t"), Knowledge::Asking);
  EXPECT_EQ(find("t"), Knowledge::Asking);
  EXPECT_EQ(kit.asked(), Lines{"ns1:9876 route t"});
  kit.route("t", {{"a", 2}});
  EXPECT_EQ(find("t"), Knowledge::Known);
  EXPECT_EQ(kit.asked(), Lines{});
  kit.pass(29'999);
  EXPECT_EQ(kit.asked(), Lines{});
  kit.pass(1);
  EXPECT_EQ(kit.asked(), Lines{"ns1:9876 route t"});
  EXPECT_EQ(find("t"), Knowledge::Known);  // while it is asked again
}

TEST_F(RoutesTest, TriesTheNameServersInTurnAndStaysWithTheOneThatAnswers) {
  find("t");
  kit.pass(1000);
  EXPECT_EQ(kit.asked(), (Lines{"ns1:9876 route t", "ns2:9876 route t"}));
  kit.route("t", {{"a", 1}});
  find("u");
  EXPECT_EQ(kit.asked(), Lines{"ns2:9876 route u"});
}

TEST_F(RoutesTest, MissingIsKeptForASecond) {
  find("t");
  kit.no_route("t");
  EXPECT_EQ(find("t"), Knowledge::Missing);
  EXPECT_EQ(kit.asked().size(), 2u);
  kit.pass(999);
  EXPECT_EQ(find("t"), Knowledge::Missing);
  EXPECT_EQ(kit.asked(), Lines{});
  kit.pass(1);
  EXPECT_EQ(find("t"), Knowledge::Asking);
  EXPECT_EQ(kit.asked().size(), 1u);
}

TEST_F(RoutesTest, AKnownRouteSurvivesSilenceAndANameServerThatKnowsNothing) {
  find("t");
  kit.route("t", {{"a", 1}});
  kit.pass(30'000);
  kit.answer("ns1:9876 route t", ClientKit::refusal(Code::TopicNotExist));
  kit.answer("ns2:9876 route t", Errc::Refused);
  EXPECT_EQ(find("t"), Knowledge::Known);
  kit.pass(200);  // asked again after a back-off
  kit.no_route("t");
  EXPECT_EQ(find("t"), Knowledge::Missing);
}

TEST_F(RoutesTest, SilenceBacksOffAndGoesOnOnlyWhenWanted) {
  find("t");
  kit.pass(2000);
  EXPECT_EQ(kit.asked().size(), 2u);
  EXPECT_EQ(kit.routes.last_failure("t"), "ns1:9876 TimedOut, ns2:9876 TimedOut");
  kit.pass(60'000);
  EXPECT_EQ(kit.asked(), Lines{});
  EXPECT_EQ(find("t"), Knowledge::Asking);
  EXPECT_EQ(kit.asked().size(), 1u);
}

TEST_F(RoutesTest, RefreshesAreSpaced) {
  find("t");
  kit.route("t", {{"a", 1}});
  kit.asked();
  for (int i = 0; i < 10; ++i) kit.routes.refresh(kit.ctx, "t");
  EXPECT_EQ(kit.asked(), Lines{});
  kit.pass(200);
  EXPECT_EQ(kit.asked(), Lines{"ns1:9876 route t"});
}

TEST_F(RoutesTest, UnusedTopicsAreForgottenAndTheTableIsBounded) {
  find("t");
  kit.route("t", {{"a", 1}});
  for (int i = 0; i < 12; ++i) {
    kit.pass(30'000);
    if (kit.is_pending("ns1:9876 route t")) kit.route("t", {{"a", 1}});
  }
  EXPECT_EQ(kit.routes.size(), 0u);
  for (size_t i = 0; i < Routes::kTopicsMax; ++i) find(fmt::format("t{}", i));
  EXPECT_EQ(find("one-more"), Knowledge::Full);
  kit.route("t77", {{"a", 1}});
  EXPECT_EQ(find("one-more"), Knowledge::Asking);
  EXPECT_EQ(kit.routes.size(), Routes::kTopicsMax);
}

TEST(RoutesWithoutNameServers, SaysSo) {
  ClientConfig config;
  ClientKit kit(config);
  kit.routes.find(kit.ctx, "t");
  kit.settle();
  EXPECT_EQ(kit.routes.last_failure("t"), "no name server is configured (namesrvAddr)");
}

}  // namespace
}  // namespace fulmar
