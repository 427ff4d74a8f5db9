#include "core/node/client.h"

#include <gtest/gtest.h>

#include <deque>

#include "core/node/make.h"
#include "step_kit.h"

namespace fulmar {
namespace {

// A client node and, behind every address, a peer that understands frames and lets the test answer.
struct ClientNodeTest : ::testing::Test {
  struct Asked { ConnId conn; uint32_t opaque; std::string text; };

  static std::string config() {
    ClientConfig c;
    c.name_servers = {"ns:9876"};
    return serialise(c);
  }
  ClientNodeTest() { node = *make_node(NodeKind::Client, config(), Seed{3}, files, trace); }

  // Steps with these inputs, and again as long as the driver has something to report at once.
  void step(std::vector<Input> inputs = {}) {
    do {
      out.clear();
      trace.begin_step(now);
      node->step(now, inputs, out);
      inputs.clear();
      carry_out(inputs);
    } while (!inputs.empty());
  }
  void carry_out(std::vector<Input>& reports) {
    transcript += out.text();
    for (const Request& any : out.requests()) {
      if (const auto* dial = std::get_if<request::Dial>(&any)) {
        if (unreachable.contains(dial->peer.host)) {
          reports.push_back(Dialed{dial->ticket, Errc::Refused});
          continue;
        }
        const ConnId conn(++last_conn);
        peers[conn] = dial->peer;
        reports.push_back(Dialed{dial->ticket, Connected{conn, Peer{dial->peer, {}, false, {}}}});
      } else if (const auto* send = std::get_if<request::Send>(&any)) {
        for (uint32_t i = 0; i < send->piece_count; ++i) {
          const Bytes bytes = out.bytes_of(out.pieces()[send->first_piece + i]);
          streams[send->conn].insert(streams[send->conn].end(), bytes.begin(), bytes.end());
        }
        read(send->conn);
        reports.push_back(Sent{send->ticket, {}});
      } else if (const auto* tell = std::get_if<request::Tell>(&any)) {
        told.push_back(fmt::format("{}: {}", tell->call, describe(tell->reply)));
        replies.push_back(tell->reply);
      }
    }
    is_stopped = is_stopped || out.is_stopped();
  }
  void read(ConnId conn) {
    std::vector<uint8_t>& stream = streams[conn];
    if (!greeted.contains(conn)) {
      ASSERT_GE(stream.size(), 8u);
      ASSERT_TRUE(equal(Bytes(stream).first(8), native::kPreamble));
      stream.erase(stream.begin(), stream.begin() + 8);
      greeted.insert(conn);
    }
    native::Framer framer(native::kFrameBytesMaxRequest);
    framer.feed(Bytes(stream));
    for (auto frame = framer.next(); frame && !frame->empty(); frame = framer.next()) {
      const auto decoded = codec.decode_request(*frame);
      ASSERT_TRUE(decoded.has_value());
      if (std::holds_alternative<command::Hello>(decoded->command)) continue;
      asked.push_back({conn, decoded->opaque, fmt::format("{} {}", peers[conn].host, name_of(decoded->command))});
    }
    stream.clear();
  }
  Input word(uint64_t call, Command command) { return Told{CallId(call), std::move(command)}; }
  // Answers the oldest request of that text.
  void answer(std::string_view text, const Reply& reply) {
    const auto it = std::find_if(asked.begin(), asked.end(), [&](const Asked& a) { return a.text == text; });
    ASSERT_NE(it, asked.end()) << "nobody asks " << text;
    std::vector<uint8_t> frame;
    ASSERT_TRUE(codec.encode_response(it->opaque, reply, 0, frame).has_value());
    const ConnId conn = it->conn;
    asked.erase(it);
    step({Received{conn, frame}});
  }
  void pass(int64_t ms) {
    const Monotonic end = now.monotonic + Duration::milliseconds(ms);
    while (node->next_deadline() <= end) {
      now.monotonic = std::max(now.monotonic, node->next_deadline());
      step();
    }
    now.monotonic = end;
  }
  static Reply route() {
    reply::Route r;
    r.brokers.push_back({"c", "a", {{BrokerId(0), "a:10911"}}});
    r.queues.push_back({"a", 1, 1, kPermRead | kPermWrite});
    return r;
  }
  static command::SendMessage message() {
    command::SendMessage c;
    c.topic = "t";
    c.body = as_bytes("hello");
    return c;
  }
  std::vector<std::string> take_told() { return std::exchange(told, {}); }
  ConnId conn_to(std::string_view host) const {
    for (auto it = peers.rbegin(); it != peers.rend(); ++it)
      if (it->second.host == host) return it->first;
    return {};
  }

  Moment now{Monotonic{1'000'000'000}, Wall{1'700'000'000'000}, 0};
  Files files;
  Trace trace;
  Outbox out;
  std::unique_ptr<Node> node;
  native::Codec codec;
  uint64_t last_conn = 0;
  std::set<std::string> unreachable;
  std::map<ConnId, Address> peers;
  std::set<ConnId> greeted;
  std::map<ConnId, std::vector<uint8_t>> streams;
  std::deque<Asked> asked;
  std::vector<std::string> told;
  std::vector<Reply> replies;
  std::string transcript;
  bool is_stopped = false;
};

using Lines = std::vector<std::string>;

TEST_F(ClientNodeTest, SendsAMessage) {
  step({word(1, message())});
  answer("ns QueryRoute", route());
  reply::Sent sent;
  sent.queue_offset = QueueOffset(4);
  answer("a SendMessage", sent);
  EXPECT_EQ(take_told().size(), 1u);
  EXPECT_EQ(std::get<reply::Sent>(replies[0]).broker, "a");
  EXPECT_EQ(std::get<reply::Sent>(replies[0]).queue_offset, QueueOffset(4));
}

TEST_F(ClientNodeTest, ResendsOverANewConnectionAndTellsOnce) {
  step({word(1, message())});
  answer("ns QueryRoute", route());
  ASSERT_EQ(asked.back().text, "a SendMessage");
  const ConnId lost = conn_to("a");
  asked.clear();
  step({Closed{lost, Errc::Reset}});
  EXPECT_EQ(take_told(), Lines{});
  pass(400);
  EXPECT_NE(conn_to("a"), lost);
  answer("a SendMessage", reply::Sent{});
  EXPECT_EQ(take_told().size(), 1u);
  pass(10'000);
  EXPECT_EQ(take_told(), Lines{});
}

TEST_F(ClientNodeTest, ABrokerThatIsNotThereIsACertainFailure) {
  unreachable = {"a"};
  step({word(1, message())});
  answer("ns QueryRoute", route());
  pass(3000);
  ASSERT_EQ(take_told().size(), 1u);
  const Refusal refusal = std::get<Refusal>(replies[0]);
  EXPECT_EQ(refusal.code, Code::ServiceNotAvailable);
  EXPECT_FALSE(is_outcome_unknown(refusal)) << refusal.cause << refusal.measured;
}

TEST_F(ClientNodeTest, ConsumesAndCommitsAtStop) {
  step({word(1, command::Subscribe{"g", "t", "*", command::Subscribe::From::First, 32})});
  answer("ns QueryRoute", route());
  answer("a Heartbeat", reply::Members{1, {ClientConfig{}.client_id}, {}, {}});
  answer("a QueryOffset", Refusal{Code::QueryNotFound, "none", "", 0});
  answer("a QueryQueue", reply::Queue{QueueOffset(0), QueueOffset(2)});
  reply::Pulled pulled;
  pulled.next = pulled.max = QueueOffset(2);
  pulled.count = 2;
  pulled.records = {1, 2, 3};
  answer("a PullMessages", pulled);
  const auto batch = std::get<reply::Delivered>(replies.at(1));
  EXPECT_EQ(describe(replies.at(0)), "Assigned 0000000000000001 a/0");
  EXPECT_EQ(batch.records, pulled.records);
  step({word(2, command::Consumed{1, "a", 0, batch.next}), word(3, command::Stop{Duration::seconds(2)})});
  EXPECT_FALSE(is_stopped);
  take_told();
  answer("a CommitOffset", reply::Ok{});
  EXPECT_TRUE(is_stopped);
  EXPECT_EQ(take_told(), Lines{"3: Ok"});
}

TEST_F(ClientNodeTest, StopRefusesWhatIsLeftAtItsDeadlineAndWhatComesLater) {
  step({word(1, message()), word(2, command::GetStatus{}), word(3, command::Stop{Duration::milliseconds(700)}), word(4, command::Stop{})});
  EXPECT_EQ(take_told(), Lines{});
  step({word(5, message())});
  ASSERT_EQ(take_told().size(), 1u);
  EXPECT_EQ(std::get<Refusal>(replies[0]).cause, "the client is stopping");
  pass(699);
  EXPECT_FALSE(is_stopped);
  pass(1);
  EXPECT_TRUE(is_stopped);
  EXPECT_EQ(take_told().size(), 4u);
  EXPECT_EQ(node->next_deadline(), Monotonic::never());
}

TEST_F(ClientNodeTest, AnIdleClientStopsAtOnce) {
  step({word(1, command::Stop{Duration::seconds(1)})});
  EXPECT_TRUE(is_stopped);
  EXPECT_EQ(take_told(), Lines{"1: Ok"});
}

TEST_F(ClientNodeTest, CommandsOfOtherNodesAreRefused) {
  step({word(1, command::Hello{}), word(2, command::RegisterBroker{})});
  ASSERT_EQ(take_told().size(), 2u);
  for (const Reply& reply : replies) EXPECT_EQ(std::get<Refusal>(reply).code, Code::RequestCodeNotSupported);
}

TEST_F(ClientNodeTest, SameSeedSameSteps) {
  const auto run = [](ClientNodeTest& test) {
    test.unreachable = {"a"};
    test.step({test.word(1, message()), test.word(2, command::Subscribe{"g", "t", "*", command::Subscribe::From::First, 32})});
    test.answer("ns QueryRoute", route());
    test.pass(20'000);
    return test.transcript + fmt::format("{:x}", test.trace.step_hash());
  };
  struct Another : ClientNodeTest { void TestBody() override {} } another;
  EXPECT_EQ(run(*this), run(another));
}

TEST(MakeClient, NamesTheBadLine) {
  Files files;
  Trace trace;
  const auto made = make_node(NodeKind::Client, "sendMsgTimeout=soon\n", Seed{1}, files, trace);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.code(), Errc::InvalidArgument);
}

}  // namespace
}  // namespace fulmar
