#include <gtest/gtest.h>

#include "core/node/make.h"
#include "step_kit.h"

namespace fulmar {
namespace {

struct Log : TraceSink {
  std::vector<std::string> lines;
  void on_event(const TraceRecord& record) override { lines.push_back(record.describe()); }
};

struct NameServerTest : ::testing::Test {
  Log log;
  Files files;
  Trace trace{&log};
  Outbox out;
  Moment now;
  std::unique_ptr<Node> node =
      std::move(make_node(NodeKind::NameServer, "listenHost=0.0.0.0\nlistenPort=9876\n", Seed{1}, files, trace).value());
  static constexpr ConnId kConn{1};

  std::string step(std::vector<Input> inputs = {}) {
    out.clear();
    node->step(now, inputs, out);
    return out.text();
  }
  void at_ms(int64_t ms) { now.monotonic = Monotonic{ms * 1'000'000}; }
  void serve() {
    EXPECT_EQ(step(), "listen 1 0.0.0.0:9876\n");
    const Ticket ticket = std::get<request::Listen>(out.requests()[0]).ticket;
    EXPECT_EQ(step({Listening{ticket, Address{"0.0.0.0", 9876}}}), "");
    Peer peer;
    peer.remote = Address{"10.0.0.7", 4000};
    const auto hello = test::greeting();
    step({Accepted{kConn, Port(1), peer}, Received{kConn, hello}});
    finish_sends();
  }
  void finish_sends() {
    std::vector<Input> sent;
    for (const Request& r : out.requests()) if (const auto* send = std::get_if<request::Send>(&r)) sent.push_back(Sent{send->ticket, {}});
    if (!sent.empty()) step(std::move(sent));
  }
  std::string ask(const Command& command) {
    std::vector<uint8_t> bytes;
    test::append(bytes, 1, command);
    step({Received{kConn, bytes}});
    std::string answers;
    for (const auto& piece : out.pieces()) answers += test::responses(out.bytes_of(piece));
    finish_sends();
    return answers;
  }
  static command::RegisterBroker broker_a() {
    command::RegisterBroker c;
    c.cluster = "c1";
    c.broker_name = "a";
    c.port = 10911;
    c.topics_version = 3;
    c.topics = {{"t", 4, 4, 6}};
    return c;
  }
};

TEST_F(NameServerTest, RoutesWhatWasRegistered) {
  EXPECT_LE(node->next_deadline(), now.monotonic);
  serve();
  EXPECT_EQ(log.lines, std::vector<std::string>{"name server listening on port 9876 at 0.0.0.0:9876"});
  EXPECT_EQ(ask(broker_a()), "1: Registered version 3\n");
  EXPECT_EQ(log.lines.back(), "broker id 0 registered table 3 of 1 topics: a of c1");
  EXPECT_EQ(ask(command::QueryRoute{"t"}), "1: Route 1 brokers 1 queue groups\n");
  EXPECT_EQ(ask(command::ListTopics{}), "1: Topics 1\n");
  EXPECT_EQ(ask(command::DeleteTopic{"t"}),
            "1: Refusal REQUEST_CODE_NOT_SUPPORTED (a name server does not do this; got DeleteTopic; retry after 0 ms)\n");

  step({Told{CallId(5), command::QueryRoute{"t"}}, Told{CallId(6), command::GetStatus{}}});
  const auto& tell = std::get<request::Tell>(out.requests()[0]);
  EXPECT_EQ(std::get<reply::Route>(tell.reply).brokers[0].addresses[0].second, "10.0.0.7:10911");
  const auto& status = std::get<reply::Status>(std::get<request::Tell>(out.requests()[1]).reply);
  EXPECT_EQ(status.values[1], (std::pair<std::string, std::string>("listenAddress", "0.0.0.0:9876")));
}

TEST_F(NameServerTest, SilentBrokersExpireByTheMonotonicClock) {
  serve();
  ask(broker_a());
  now.wall = Wall{int64_t{1} << 40};  // a jump of the wall clock means nothing
  at_ms(9'999);
  step();
  auto heartbeat = broker_a();
  heartbeat.is_complete = false;
  heartbeat.topics.clear();
  EXPECT_EQ(ask(heartbeat), "1: Registered version 3\n");
  at_ms(10'000);
  step();
  EXPECT_EQ(ask(command::QueryRoute{"t"}), "1: Route 1 brokers 1 queue groups\n");
  EXPECT_EQ(node->next_deadline(), Monotonic{19'999'000'000});
  at_ms(19'999);
  step();
  EXPECT_EQ(log.lines.back(), "broker id 0 was silent too long: a at 10.0.0.7:10911");
  EXPECT_EQ(ask(heartbeat), "1: Registered version 3 needs topics\n");
}

TEST_F(NameServerTest, UnregistersAtOnce) {
  serve();
  ask(broker_a());
  command::UnregisterBroker c;
  c.broker_name = "a";
  EXPECT_EQ(ask(c), "1: Ok\n");
  EXPECT_EQ(ask(command::ListTopics{}), "1: Topics 0\n");
}

TEST_F(NameServerTest, StopsWhenEverythingIsSaid) {
  serve();
  EXPECT_EQ(step({Told{CallId(9), command::Stop{Duration::seconds(1)}}}), "unlisten 1\npause 1\nclose 1 Stopping\ntell 9 Ok\nstopped\n");
}

TEST_F(NameServerTest, StopsAtItsDeadlineAtTheLatest) {
  serve();
  std::vector<uint8_t> bytes;
  test::append(bytes, 1, command::GetStatus{});
  step({Received{kConn, bytes}, Told{CallId(9), command::Stop{Duration::seconds(1)}}});
  EXPECT_FALSE(out.is_stopped());  // the answer is not out yet
  at_ms(1000);
  step();
  EXPECT_TRUE(out.is_stopped());
}

TEST_F(NameServerTest, HaltsWithoutItsPort) {
  step();
  const Ticket ticket = std::get<request::Listen>(out.requests()[0]).ticket;
  EXPECT_EQ(step({Listening{ticket, Errc::AddressInUse}}), "halt AddressInUse: cannot listen on 0.0.0.0:9876: AddressInUse\n");
}

}  // namespace
}  // namespace fulmar
