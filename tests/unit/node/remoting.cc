// RocketMQ's protocol at an endpoint, and a client of it at a broker.

#include <gtest/gtest.h>

#include "core/base/mutants.h"
#include "recorder.h"
#include "step_kit.h"
#include "tests/unit/node/broker_harness.h"
#include "tests/unit/wire/remoting_kit.h"

namespace fulmar {
namespace {

using remoting::Encoding;
using remoting::Field;
using remoting::RequestCode;
using test::frame_of;
using test::Recorder;
using test::spoken;
using test::Spoken;

constexpr std::string_view kTwoGroups =
    R"({"clientID":"c","consumerDataSet":[{"groupName":"g1","subscriptionDataSet":[{"topic":"t","subString":"*"}]},{"groupName":"g2","subscriptionDataSet":[]}]})";

struct RemotingEndpoint : ::testing::Test {
  test::StepKit kit;
  Recorder handler;
  Endpoint endpoint{7, "server"};
  static constexpr ConnId kConn{1};

  RemotingEndpoint() { endpoint.on_accepted(kit.ctx, Accepted{kConn, Port(1), {}}); }
  void receive(Bytes bytes) { endpoint.on_received(kit.ctx, Received{kConn, bytes}, handler); }
  std::string said() {
    endpoint.flush(kit.ctx);
    if (kit.all<request::Send>().empty()) return "";
    const std::string text = spoken(kit.sent_bytes());
    const auto sends = kit.all<request::Send>();
    kit.out.clear();
    for (const auto& send : sends) endpoint.on_sent(kit.ctx, Sent{send.ticket, {}});
    return text;
  }
};

TEST_F(RemotingEndpoint, NeedsNoGreetingAndAnswersInAnyOrder) {
  auto bytes = frame_of({RequestCode::GetMaxOffset, {{"topic", "t"}, {"queueId", "0"}}, {}, 41});
  test::append(bytes, Spoken{RequestCode::GetMinOffset, {{"topic", "t"}, {"queueId", "0"}}, {}, -42, Encoding::Binary});
  for (const uint8_t& byte : bytes) receive(Bytes(&byte, 1));
  ASSERT_EQ(handler.names, (std::vector<std::string>{"QueryQueue", "QueryQueue"}));
  endpoint.reply(handler.requests[1], reply::Queue{QueueOffset(1), QueueOffset(9)});
  endpoint.reply(handler.requests[0], reply::Queue{QueueOffset(1), QueueOffset(9)});
  EXPECT_EQ(said(), "-42: code 0 offset=1\n41: code 0 offset=9\n");
  kit.at_ms(60'000);
  endpoint.on_timer(kit.ctx);
  EXPECT_TRUE(endpoint.is_open(kConn));   // the greeting is over
}

TEST_F(RemotingEndpoint, AnswersARequestWhenAllOfItsPartsAre) {
  receive(frame_of({RequestCode::HeartBeat, {}, kTwoGroups}));
  ASSERT_EQ(handler.requests.size(), 2u);
  endpoint.reply(handler.requests[0], reply::Ok{});
  EXPECT_EQ(said(), "");
  endpoint.reply(handler.requests[1], reply::Ok{});
  EXPECT_EQ(said(), "7: code 0\n");
}

TEST_F(RemotingEndpoint, TheRefusalOfAnyPartIsTheAnswer) {
  const auto beat = [this] {
    handler.requests.clear();
    receive(frame_of({RequestCode::HeartBeat, {}, kTwoGroups}));
    endpoint.reply(handler.requests[0], Refusal{Code::SystemBusy, "full", "", 0});
    endpoint.reply(handler.requests[1], reply::Ok{});
    return said();
  };
  EXPECT_EQ(beat(), "7: code 2 (full)\n");
  mutants::plant(Mutant::RemotingForgetsRefusedPart);
  EXPECT_EQ(beat(), "7: code 0\n");
  mutants::plant(Mutant::None);
}

TEST_F(RemotingEndpoint, OneWayRequestsAreNotAnswered) {
  receive(frame_of({RequestCode::GetMaxOffset, {{"topic", "t"}, {"queueId", "0"}}, {}, 1, Encoding::Json, remoting::kOneWayFlag}));
  receive(frame_of({RequestCode{9999}, {}, {}, 2, Encoding::Json, remoting::kOneWayFlag}));
  ASSERT_EQ(handler.requests.size(), 1u);
  endpoint.reply(handler.requests[0], reply::Queue{});
  EXPECT_EQ(said(), "");
}

TEST_F(RemotingEndpoint, WhatItCannotServeItAnswersItself) {
  receive(frame_of({RequestCode{200050}, {}, {}, 3}));
  receive(frame_of({RequestCode::GetRouteInfoByTopic, {}, {}, 4}));
  EXPECT_EQ(said(), "3: code 3 (this request code is not served here (request code 200050))\n4: code 29 (field 'topic' is missing)\n");
  EXPECT_TRUE(endpoint.is_open(kConn));
}

TEST_F(RemotingEndpoint, ABrokenHeaderOrFrameEndsTheConnection) {
  receive(frame_of({RequestCode::GetMaxOffset, {{"topic", "t"}, {"queueId", "0"}}}));
  receive(test::raw_frame("{\"code\":"));
  EXPECT_FALSE(endpoint.is_open(kConn));
  EXPECT_EQ(handler.closed, std::vector<ConnId>{kConn});
  endpoint.flush(kit.ctx);
  EXPECT_EQ(kit.all<request::Close>().size(), 1u);
  EXPECT_EQ(endpoint.counters().broken_headers, 1u);
  endpoint.reply(handler.requests[0], reply::Queue{});   // dropped

  const ConnId other{2};
  endpoint.on_accepted(kit.ctx, Accepted{other, Port(1), {}});
  const std::vector<uint8_t> huge = {1, 0, 0, 0};
  endpoint.on_received(kit.ctx, Received{other, huge}, handler);
  EXPECT_FALSE(endpoint.is_open(other));
  EXPECT_EQ(endpoint.counters().broken_frames, 1u);
}

TEST_F(RemotingEndpoint, TellsOfGroupsBetweenAnswers) {
  receive(frame_of({RequestCode::GetMaxOffset, {{"topic", "t"}, {"queueId", "0"}}}));
  endpoint.tell_group_changed(kConn, "g");
  endpoint.tell_group_changed(ConnId(99), "g");
  endpoint.reply(handler.requests[0], reply::Queue{});
  EXPECT_EQ(said(), "1: request 40 consumerGroup=g\n7: code 0 offset=0\n");
}

TEST_F(RemotingEndpoint, RecordsFollowAsTheyAre) {
  receive(frame_of({RequestCode::PullMessage, {{"consumerGroup", "g"}, {"topic", "t"}, {"queueId", "0"}, {"queueOffset", "0"}, {"maxMsgNums", "1"}, {"sysFlag", "4"},
                                               {"commitOffset", "0"}, {"suspendTimeoutMillis", "0"}, {"subscription", "*"}}}));
  const FileSlice slice{FileId(3), Range{100, 150}};
  endpoint.reply_with_slices(handler.requests[0], reply::Pulled{}, std::span(&slice, 1));
  endpoint.flush(kit.ctx);
  const auto bytes = kit.sent_bytes();
  EXPECT_EQ(load_be<uint32_t>(bytes.data()) + 4, bytes.size() + 50);
}

// --- at a broker ------------------------------------------------------------------------------------------------------------------------

struct RemotingBroker : ::testing::Test {
  testing::BrokerHarness h;
  uint64_t next_conn = 500;

  RemotingBroker() { CHECK(h.serve()); CHECK(describe(h.create("t")) == "Ok"); }
  ConnId connect() {
    const ConnId conn(++next_conn);
    Peer peer;
    peer.remote = {"10.0.0.9", 4000};
    peer.local = {"10.0.0.1", 10909};   // the VIP port
    h.step({Accepted{conn, Port(2), peer}});
    return conn;
  }
  void request(ConnId conn, const Spoken& s) { const auto bytes = frame_of(s); h.step({Received{conn, bytes}}); }
  std::string heard(ConnId conn) { return spoken(std::exchange(h.streams[conn], {})); }
  // Asks and waits.
  std::string ask(ConnId conn, const Spoken& s) {
    request(conn, s);
    h.run_until([&] { return !h.streams[conn].empty(); });
    return heard(conn);
  }
  static Spoken send(std::string_view body, int32_t opaque = 7) {
    return {RequestCode::SendMessageV2, {{"a", "pg"}, {"b", "t"}, {"e", "0"}, {"f", "0"}, {"g", "1"}, {"h", "0"}, {"i", "TAGS\1A\2"}}, body, opaque};
  }
  static Spoken pull(std::string_view offset, std::string_view sys_flag, int32_t opaque = 8) {
    return {RequestCode::PullMessage, {{"consumerGroup", "g"}, {"topic", "t"}, {"queueId", "0"}, {"queueOffset", offset}, {"maxMsgNums", "32"}, {"sysFlag", sys_flag},
                                       {"commitOffset", offset}, {"suspendTimeoutMillis", "15000"}, {"subscription", "A"}}, {}, opaque};
  }
  static std::string beat_of(std::string_view client, std::string_view tags = "A") {
    return fmt::format(R"({{"clientID":"{}","consumerDataSet":[{{"groupName":"g","subscriptionDataSet":[{{"topic":"t","subString":"{}"}},{{"topic":"%RETRY%g","subString":"*"}}]}}]}})", client, tags);
  }
  const Spoken who{RequestCode::GetConsumerListByGroup, {{"consumerGroup", "g"}}};
};

TEST_F(RemotingBroker, SendsAndPulls) {
  const ConnId conn = connect();
  // The message id names the broker's own port.
  EXPECT_TRUE(ask(conn, send("one")).starts_with("7: code 0 msgId=0A00000100002A9F"));
  EXPECT_TRUE(ask(conn, send("two")).ends_with("queueId=0 queueOffset=1 MSG_REGION=DefaultRegion TRACE_ON=true\n"));
  EXPECT_EQ(ask(conn, send("")), "7: code 13 (the body is empty (body 0 bytes))\n");
  EXPECT_EQ(h.read_all("t"), (std::vector<std::string>{"one", "two"}));
}

TEST_F(RemotingBroker, HoldsAPullUntilSomethingArrives) {
  const ConnId conn = connect(), other = connect();
  request(conn, pull("0", "6"));
  h.settle();
  EXPECT_EQ(heard(conn), "");
  EXPECT_EQ(ask(other, send("one")).substr(0, 9), "7: code 0");
  h.run_until([&] { return !h.streams[conn].empty(); });
  EXPECT_TRUE(heard(conn).starts_with("8: code 0 (FOUND) suggestWhichBrokerId=0 nextBeginOffset=1 minOffset=0 maxOffset=1 | "));
  EXPECT_EQ(ask(conn, pull("1", "4")), "8: code 19 (OFFSET_OVERFLOW_ONE) suggestWhichBrokerId=0 nextBeginOffset=1 minOffset=0 maxOffset=1\n");
  EXPECT_EQ(ask(conn, pull("9", "6")), "8: code 21 (OFFSET_MOVED) suggestWhichBrokerId=0 nextBeginOffset=1 minOffset=0 maxOffset=1\n");
}

TEST_F(RemotingBroker, PullsByWhatTheHeartbeatSaid) {
  const ConnId conn = connect();
  ask(conn, send("one"));
  EXPECT_EQ(ask(conn, pull("0", "0")), "8: code 24 (no member of group 'g' subscribes to topic 't' (0 members))\n");
  EXPECT_EQ(ask(conn, {RequestCode::HeartBeat, {}, beat_of("c1", "B")}), "7: code 0\n");
  EXPECT_TRUE(ask(conn, pull("0", "0")).starts_with("8: code 20 "));
}

TEST_F(RemotingBroker, APullCommits) {
  const ConnId conn = connect();
  ask(conn, send("one"));
  const Spoken query{RequestCode::QueryConsumerOffset, {{"consumerGroup", "g"}, {"topic", "t"}, {"queueId", "0"}}};
  EXPECT_TRUE(ask(conn, query).starts_with("7: code 22 "));
  ask(conn, pull("1", "5"));
  h.run_for(Duration::seconds(2));
  EXPECT_EQ(ask(conn, query), "7: code 0 offset=1\n");
}

TEST_F(RemotingBroker, MembersAreListedToldAndForgotten) {
  const ConnId first = connect(), second = connect();
  EXPECT_EQ(ask(first, who), "7: code 1 (there is no group 'g')\n");
  EXPECT_EQ(ask(first, {RequestCode::HeartBeat, {}, beat_of("c1")}), "7: code 0\n");
  EXPECT_EQ(ask(first, who), "7: code 0 | {\"consumerIdList\":[\"c1\"]}\n");   // at once
  EXPECT_EQ(ask(second, {RequestCode::HeartBeat, {}, beat_of("c2")}), "7: code 0\n");
  EXPECT_EQ(ask(first, who), "7: code 0 | {\"consumerIdList\":[\"c1\",\"c2\"]}\n");
  h.run_for(Duration::seconds(2));
  EXPECT_TRUE(heard(first).ends_with("request 40 consumerGroup=g\n"));
  EXPECT_TRUE(heard(second).ends_with("request 40 consumerGroup=g\n"));
  // 90 s of silence are nothing; a connection that closes is.
  h.run_for(Duration::seconds(90));
  EXPECT_EQ(ask(first, who), "7: code 0 | {\"consumerIdList\":[\"c1\",\"c2\"]}\n");
  h.step({Closed{second, Errc::PeerClosed}});
  EXPECT_EQ(ask(first, who), "7: code 0 | {\"consumerIdList\":[\"c1\"]}\n");
  h.run_for(Duration::seconds(1));
  EXPECT_TRUE(heard(first).ends_with("request 40 consumerGroup=g\n"));
  h.run_for(Duration::seconds(40));
  EXPECT_EQ(ask(first, who), "7: code 1 (there is no group 'g')\n");
}

TEST_F(RemotingBroker, SilentGroupsAreToldOfNothing) {
  mutants::plant(Mutant::GroupsTellNobody);
  const ConnId conn = connect();
  ask(conn, {RequestCode::HeartBeat, {}, beat_of("c1")});
  h.run_for(Duration::seconds(2));
  EXPECT_EQ(heard(conn), "");
  mutants::plant(Mutant::None);
}

// One membership, whatever they speak.
TEST_F(RemotingBroker, SharesAGroupWithNativeMembers) {
  const ConnId conn = connect(), native = h.connect();
  ask(conn, {RequestCode::HeartBeat, {}, beat_of("c1")});
  command::Heartbeat beat;
  beat.client_id = "n1";
  beat.group = "g";
  beat.subscriptions = {{"t", "A"}};
  h.request(native, 1, beat);
  h.settle();
  const std::string members = h.responses(native);
  EXPECT_NE(members.find("c1"), std::string::npos) << members;
  EXPECT_EQ(members.find("subscribes"), std::string::npos) << members;   // no conflict over the retry topic
  EXPECT_EQ(ask(conn, who), "7: code 0 | {\"consumerIdList\":[\"c1\",\"n1\"]}\n");
}

TEST_F(RemotingBroker, LeavesWhenItSaysSo) {
  const ConnId conn = connect();
  ask(conn, {RequestCode::HeartBeat, {}, beat_of("c1")});
  EXPECT_EQ(ask(conn, {RequestCode::UnregisterClient, {{"clientID", "c1"}, {"consumerGroup", "g"}}}), "7: code 0\n");
  EXPECT_EQ(ask(conn, who), "7: code 1 (there is no group 'g')\n");
}

}  // namespace
}  // namespace fulmar
