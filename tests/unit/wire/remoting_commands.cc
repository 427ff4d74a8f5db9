// RocketMQ's requests as typed commands, and typed replies as RocketMQ's.

#include "core/wire/remoting/commands.h"

#include <gtest/gtest.h>

#include "../../property/wire/spelled.h"
#include "core/base/mutants.h"
#include "remoting_kit.h"

namespace fulmar {
namespace {

using namespace remoting;
using test::frame_of;
using test::Spoken;

// What a request becomes: "SendMessage …" for each command, or its answer.
std::string understood(const Spoken& s) {
  Codec codec;
  const auto frame = frame_of(s);
  const auto request = codec.decode_request(frame);
  if (!request) return request.error().text();
  std::string out;
  if (request->answer) out = describe(*request->answer);
  for (const Request::Part& part : request->parts)
    out += fmt::format("{}{}{} {}", out.empty() ? "" : " + ", part.is_silent ? "silently " : "", name_of(part.command), std::visit(test::Spell{}, part.command));
  return out;
}
// How a reply to a request of this code is said.
std::string said(RequestCode code, const Reply& reply, Encoding encoding = Encoding::Json, uint64_t following_bytes = 0) {
  std::vector<uint8_t> out;
  const auto encoded = Codec::encode_reply({7, code, encoding}, reply, following_bytes, out);
  if (!encoded) return encoded.error().text();
  out.resize(out.size() + following_bytes, '#');
  return test::spoken(out);
}

const std::vector<Field> kSend = {{"a", "pg"}, {"b", "T"}, {"c", "TBW102"}, {"d", "4"}, {"e", "2"}, {"f", "1"}, {"g", "1700000000000"}, {"h", "9"}, {"i", "TAGS\1x\2"}, {"j", "3"}};

TEST(RemotingCommands, SendsInThreeForms) {
  const std::string sent = "SendMessage T|2|9|1|1700000000000|3|<TAGS\1x\2>|<body>|";
  EXPECT_EQ(understood({RequestCode::SendMessageV2, kSend, "body"}), sent);
  EXPECT_EQ(understood({RequestCode::SendMessage,
                        {{"producerGroup", "pg"}, {"topic", "T"}, {"defaultTopic", "TBW102"}, {"defaultTopicQueueNums", "4"}, {"queueId", "2"}, {"sysFlag", "1"},
                         {"bornTimestamp", "1700000000000"}, {"flag", "9"}, {"properties", "TAGS\1x\2"}, {"reconsumeTimes", "3"}}, "body"}), sent);
  const std::string batch = "SendBatch T|2|1|1700000000000|<body>|";
  EXPECT_EQ(understood({RequestCode::SendBatchMessage, kSend, "body"}), batch);
  std::vector<Field> marked = kSend;
  marked.push_back({"m", "true"});
  EXPECT_EQ(understood({RequestCode::SendMessageV2, marked, "body"}), batch);   // one client's batch
  mutants::plant(Mutant::RemotingBatchIsOneMessage);
  EXPECT_NE(understood({RequestCode::SendBatchMessage, kSend, "body"}), batch);
  mutants::plant(Mutant::None);
}

TEST(RemotingCommands, NamesTheFieldThatIsMissingOrWrong) {
  EXPECT_EQ(understood({RequestCode::SendMessageV2, {{"b", "T"}}}), "Refusal INVALID_PARAMETER (field 'e' is missing; ; retry after 0 ms)");
  EXPECT_EQ(understood({RequestCode::GetMaxOffset, {{"topic", "T"}, {"queueId", "1x"}}}),
            "Refusal INVALID_PARAMETER (field 'queueId' is no whole number of 32 bits; '1x'; retry after 0 ms)");
  EXPECT_EQ(understood({RequestCode::GetMaxOffset, {{"topic", "T"}, {"queueId", "4294967296"}}}),
            "Refusal INVALID_PARAMETER (field 'queueId' is no whole number of 32 bits; '4294967296'; retry after 0 ms)");
}

TEST(RemotingCommands, WhatNobodyServesIsRefused) {
  EXPECT_EQ(understood({RequestCode{9999}}), "Refusal REQUEST_CODE_NOT_SUPPORTED (this request code is not served here; request code 9999; retry after 0 ms)");
  EXPECT_EQ(understood({RequestCode::EndTransaction}),
            "Refusal REQUEST_CODE_NOT_SUPPORTED (transactional messages are not supported by this version; request code 37; retry after 0 ms)");
  EXPECT_EQ(understood({RequestCode::CheckClientConfig}), "Refusal SYSTEM_ERROR (this version filters by tags only, not by SQL92; ; retry after 0 ms)");
}

std::vector<Field> pull_fields(std::string_view sys_flag) {
  return {{"consumerGroup", "g"}, {"topic", "T"}, {"queueId", "1"}, {"queueOffset", "50"}, {"maxMsgNums", "32"}, {"sysFlag", sys_flag},
          {"commitOffset", "49"}, {"suspendTimeoutMillis", "15000"}, {"subscription", "A||B"}, {"subVersion", "0"}};
}

TEST(RemotingCommands, PullsByTheirFlags) {
  EXPECT_EQ(understood({RequestCode::PullMessage, pull_fields("6")}), "PullMessages g|T|1|50|32|262144|15000|A||B|");
  EXPECT_EQ(understood({RequestCode::LitePullMessage, pull_fields("20")}), "PullMessages g|T|1|50|32|262144|0|A||B|");
  EXPECT_EQ(understood({RequestCode::PullMessage, pull_fields("2")}), "PullMessages g|T|1|50|32|262144|15000||");   // as the group has registered
  const std::string both = "silently CommitOffset g|T|1|49|false| + PullMessages g|T|1|50|32|262144|15000|A||B|";
  EXPECT_EQ(understood({RequestCode::PullMessage, pull_fields("7")}), both);
  EXPECT_EQ(understood({RequestCode::PullMessage, pull_fields("15")}), "Refusal INVALID_PARAMETER (classes as filters are not supported; sysFlag bit 3; retry after 0 ms)");
  mutants::plant(Mutant::RemotingPullForgetsCommit);
  EXPECT_NE(understood({RequestCode::PullMessage, pull_fields("7")}), both);
  mutants::plant(Mutant::None);
  auto everything = pull_fields("6");
  everything[8].value = "";
  EXPECT_EQ(understood({RequestCode::PullMessage, everything}), "PullMessages g|T|1|50|32|262144|15000|*|");
  everything.push_back({"expressionType", "SQL92"});
  EXPECT_EQ(understood({RequestCode::PullMessage, everything}), "Refusal SYSTEM_ERROR (this version filters by tags only; expressionType 'SQL92'; retry after 0 ms)");
}

TEST(RemotingCommands, Offsets) {
  const std::vector<Field> queue = {{"consumerGroup", "g"}, {"topic", "T"}, {"queueId", "1"}, {"commitOffset", "9"}, {"timestamp", "5"}};
  EXPECT_EQ(understood({RequestCode::QueryConsumerOffset, queue}), "QueryOffset g|T|1|");
  EXPECT_EQ(understood({RequestCode::UpdateConsumerOffset, queue}), "CommitOffset g|T|1|9|false|");
  EXPECT_EQ(understood({RequestCode::GetMinOffset, queue}), "QueryQueue T|1|");
  EXPECT_EQ(understood({RequestCode::SearchOffsetByTimestamp, queue}), "SearchOffset T|1|5|");
  EXPECT_EQ(understood({RequestCode::UpdateConsumerOffset, {{"consumerGroup", "g"}, {"topic", "T"}, {"queueId", "1"}, {"commitOffset", "-1"}}}), "Ok");
}

TEST(RemotingCommands, AHeartbeatIsOneCommandForEachGroup) {
  const std::string_view body =
      R"({"clientID":"10.0.0.9@1","producerDataSet":[{"groupName":"pg"}],"consumerDataSet":[)"
      R"({"groupName":"g1","messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","subscriptionDataSet":[)"
      R"({"topic":"b","subString":"A||B","subVersion":"17","codeSet":["1"]},{"topic":"%RETRY%g1","subString":"*"},{"topic":"a","subString":""}]},)"
      R"({"groupName":"g2","messageModel":0,"consumeFromWhere":5,"subscriptionDataSet":null}]})";
  EXPECT_EQ(understood({RequestCode::HeartBeat, {}, body}),
            "Heartbeat 10.0.0.9@1|g1|JAVA 121|0|0|0|[a|*][b|A||B]|0|0| + Heartbeat 10.0.0.9@1|g2|JAVA 121|1|2|0||0|0|");
  EXPECT_EQ(understood({RequestCode::HeartBeat, {}, R"({"clientID":"c","producerDataSet":[{"groupName":"pg"}]})"}), "Ok");
  EXPECT_EQ(understood({RequestCode::HeartBeat, {}, "{"}).substr(0, 57), "Refusal INVALID_PARAMETER (the heartbeat is no JSON; not ");
  EXPECT_EQ(understood({RequestCode::HeartBeat, {}, "{}"}), "Refusal INVALID_PARAMETER (field 'clientID' of the heartbeat is missing; ; retry after 0 ms)");
  EXPECT_EQ(understood({RequestCode::HeartBeat, {}, R"({"clientID":"c","consumerDataSet":[{"groupName":"g","messageModel":"X"}]})"}),
            "Refusal INVALID_PARAMETER (field 'messageModel' of the heartbeat has an unknown value; group 'g'; retry after 0 ms)");
  EXPECT_EQ(understood({RequestCode::HeartBeat, {}, R"({"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{"topic":"t","subString":"a > 1","expressionType":"SQL92"}]}]})"}),
            "Refusal SUBSCRIPTION_PARSE_FAILED (this version filters by tags only; topic 't', expressionType 'SQL92'; retry after 0 ms)");
}

TEST(RemotingCommands, ClientsLeave) {
  EXPECT_EQ(understood({RequestCode::UnregisterClient, {{"clientID", "c"}, {"producerGroup", "p"}, {"consumerGroup", ""}}}), "Ok");
  EXPECT_EQ(understood({RequestCode::UnregisterClient, {{"clientID", "c"}, {"consumerGroup", "g"}}}), "LeaveGroup c|g|");
}

TEST(RemotingCommands, OthersByName) {
  EXPECT_EQ(understood({RequestCode::GetRouteInfoByTopic, {{"topic", "T"}}}), "QueryRoute T|");
  EXPECT_EQ(understood({RequestCode::GetConsumerListByGroup, {{"consumerGroup", "g"}}}), "DescribeGroup g|");
  EXPECT_EQ(understood({RequestCode::UpdateAndCreateTopic, {{"topic", "T"}, {"readQueueNums", "8"}, {"writeQueueNums", "4"}, {"perm", "6"}, {"order", "false"}}}), "CreateTopic T|8|4|6|");
  EXPECT_EQ(understood({RequestCode::ViewMessageById, {{"offset", "1024"}}}), "ViewMessage 1024|");
  EXPECT_EQ(understood({RequestCode::QueryMessage, {{"topic", "T"}, {"key", "k"}, {"maxNum", "5"}, {"beginTimestamp", "1"}, {"endTimestamp", "2"}}}), "QueryMessages T|k|5|1|2|");
  EXPECT_EQ(understood({RequestCode::QueryMessage, {{"topic", "T"}, {"key", "k"}, {"maxNum", "5"}, {"beginTimestamp", "1"}, {"endTimestamp", "2"}, {"_UNIQUE_KEY_QUERY", "true"}}}),
            "QueryMessages T|k|32|1|2|");
}

TEST(RemotingCommands, ResponsesToNothingAreNothing) { EXPECT_EQ(understood({RequestCode::SendMessage, {}, {}, 7, Encoding::Json, kResponseFlag}), ""); }

TEST(RemotingReplies, SpeakTheEncodingOfTheirRequest) {
  std::vector<uint8_t> out;
  ASSERT_TRUE(Codec::encode_reply({7, RequestCode::GetMaxOffset, Encoding::Binary}, reply::Queue{QueueOffset(1), QueueOffset(9)}, 0, out).has_value());
  EXPECT_EQ(out[4], 1);
  EXPECT_EQ(test::spoken(out), "7: code 0 offset=9\n");
  EXPECT_EQ(said(RequestCode::GetMinOffset, reply::Queue{QueueOffset(1), QueueOffset(9)}), "7: code 0 offset=1\n");
  mutants::plant(Mutant::RemotingMaxIsMin);
  EXPECT_EQ(said(RequestCode::GetMinOffset, reply::Queue{QueueOffset(1), QueueOffset(9)}), "7: code 0 offset=9\n");
  mutants::plant(Mutant::None);
}

TEST(RemotingReplies, Sent) {
  reply::Sent sent;
  sent.queue_id = 3;
  sent.queue_offset = QueueOffset(7);
  sent.message_id = "0A00000100002A9F0000000000000400";
  EXPECT_EQ(said(RequestCode::SendMessageV2, sent), "7: code 0 msgId=0A00000100002A9F0000000000000400 queueId=3 queueOffset=7 MSG_REGION=DefaultRegion TRACE_ON=true\n");
  sent.code = Code::FlushDiskTimeout;
  EXPECT_EQ(said(RequestCode::SendMessage, sent).substr(0, 10), "7: code 10");
}

TEST(RemotingReplies, PulledAlwaysHasItsFourFields) {
  reply::Pulled pulled;
  pulled.next = QueueOffset(5);
  pulled.max = QueueOffset(9);
  EXPECT_EQ(said(RequestCode::PullMessage, pulled, Encoding::Json, 3), "7: code 0 (FOUND) suggestWhichBrokerId=0 nextBeginOffset=5 minOffset=0 maxOffset=9 | ###\n");
  for (const Code code : {Code::PullNotFound, Code::PullRetryImmediately, Code::PullOffsetMoved}) {
    pulled.code = code;
    EXPECT_NE(said(RequestCode::PullMessage, pulled).find("suggestWhichBrokerId=0 nextBeginOffset=5 minOffset=0 maxOffset=9\n"), std::string::npos);
  }
}

TEST(RemotingReplies, RefusalsCarryCodeAndRemark) {
  EXPECT_EQ(said(RequestCode::SendMessage, Refusal{Code::SystemBusy, "too many wait", "65536 wait", 100}), "7: code 2 (too many wait (65536 wait); try again in 100 ms)\n");
  const Refusal no_topic{Code::TopicNotExist, "there is no topic 'T'", "", 0};
  EXPECT_EQ(said(RequestCode::GetRouteInfoByTopic, no_topic), "7: code 17 (there is no topic 'T')\n");
  EXPECT_EQ(said(RequestCode::GetMaxOffset, no_topic), "7: code 0 offset=0\n");
  EXPECT_EQ(said(RequestCode::QueryConsumerOffset, no_topic), "7: code 22 (there is no topic 'T')\n");
  mutants::plant(Mutant::RemotingOffsetNotFoundIsError);
  EXPECT_EQ(said(RequestCode::QueryConsumerOffset, no_topic), "7: code 17 (there is no topic 'T')\n");
  mutants::plant(Mutant::None);
  EXPECT_EQ(said(RequestCode::GetConsumerListByGroup, Refusal{Code::SubscriptionGroupNotExist, "no group", "", 0}), "7: code 1 (no group)\n");
  EXPECT_EQ(said(RequestCode::ViewMessageById, Refusal{Code::QueryNotFound, "no record", "", 0}), "7: code 1 (no record)\n");
  EXPECT_EQ(said(RequestCode::QueryMessage, reply::Messages{}), "7: code 22 (no message was found)\n");
}

TEST(RemotingReplies, Bodies) {
  reply::Route route;
  route.brokers.push_back({"c", "b", {{BrokerId(0), "127.0.0.1:10911"}, {BrokerId(1), "127.0.0.1:20911"}}});
  route.queues.push_back({"b", 8, 4, 6});
  EXPECT_EQ(said(RequestCode::GetRouteInfoByTopic, route),
            R"(7: code 0 | {"brokerDatas":[{"brokerAddrs":{"0":"127.0.0.1:10911","1":"127.0.0.1:20911"},"brokerName":"b","cluster":"c","enableActingMaster":false}],)"
            R"("filterServerTable":{},"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":4}]})" "\n");
  reply::Cluster cluster;
  for (const auto& [name, id] : {std::pair{"a", 0}, {"a", 1}, {"b", 0}}) {
    reply::ClusterBroker broker;
    broker.cluster = "c";
    broker.name = name;
    broker.broker_id = BrokerId(id);
    broker.address = fmt::format("{}:{}", name, id);
    cluster.brokers.push_back(broker);
  }
  EXPECT_EQ(said(RequestCode::GetBrokerClusterInfo, cluster),
            R"(7: code 0 | {"brokerAddrTable":{"a":{"brokerAddrs":{"0":"a:0","1":"a:1"},"brokerName":"a","cluster":"c","enableActingMaster":false},)"
            R"("b":{"brokerAddrs":{"0":"b:0"},"brokerName":"b","cluster":"c","enableActingMaster":false}},"clusterAddrTable":{"c":["a","b"]}})" "\n");
  reply::Group group;
  group.config.name = "g";
  EXPECT_EQ(said(RequestCode::GetConsumerListByGroup, group), "7: code 1 (group 'g' has no members)\n");
  group.members.push_back({"id\"1", "", "", GroupModel::Clustering, StartFrom::Last, {}});
  group.members.push_back({"id2", "", "", GroupModel::Broadcasting, StartFrom::Last, {}});
  EXPECT_EQ(said(RequestCode::GetConsumerListByGroup, group), "7: code 0 | {\"consumerIdList\":[\"id\\\"1\"]}\n");
}

TEST(RemotingReplies, ABodyThatDoesNotFitIsAnError) {
  std::vector<uint8_t> out = {1};
  EXPECT_FALSE(Codec::encode_reply({7, RequestCode::PullMessage, Encoding::Json}, reply::Pulled{}, kFrameBytesMax, out).has_value());
  EXPECT_EQ(out.size(), 1u);
}

TEST(RemotingReplies, TellsThatAGroupHasChanged) {
  std::vector<uint8_t> out;
  Codec::encode_group_changed(3, "g", out);
  EXPECT_EQ(test::spoken(out), "3: request 40 consumerGroup=g\n");
}

}  // namespace
}  // namespace fulmar
