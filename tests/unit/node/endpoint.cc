#include "core/node/endpoint.h"

#include <gtest/gtest.h>

#include "recorder.h"
#include "step_kit.h"

namespace fulmar {
namespace {

using test::append;
using test::greeting;
using test::Recorder;
using test::responses;

struct EndpointTest : ::testing::Test {
  test::StepKit kit;
  Recorder handler;
  Endpoint endpoint{7, "server"};
  static constexpr ConnId kConn{1};

  void accept(Endpoint& e, ConnId conn) {
    Peer peer;
    peer.remote = Address{"10.0.0.9", 4000};
    e.on_accepted(kit.ctx, Accepted{conn, Port(1), peer});
  }
  void receive(Endpoint& e, ConnId conn, Bytes bytes) {
    e.on_received(kit.ctx, Received{conn, bytes}, handler);
    e.flush(kit.ctx);
  }
  // A connection that has greeted and was answered.
  void open(Endpoint& e, ConnId conn = kConn) {
    accept(e, conn);
    receive(e, conn, greeting());
    sent(e);
  }
  // The driver has carried out every send of the last step.
  void sent(Endpoint& e) {
    const auto sends = kit.all<request::Send>();
    kit.out.clear();
    for (const auto& send : sends) e.on_sent(kit.ctx, Sent{send.ticket, {}});
    e.flush(kit.ctx);
  }
  std::vector<uint8_t> request(uint32_t opaque, bool is_one_way = false) {
    std::vector<uint8_t> bytes;
    append(bytes, opaque, command::GetStatus{}, is_one_way);
    return bytes;
  }
};

TEST_F(EndpointTest, GreetsInOneSend) {
  accept(endpoint, kConn);
  auto bytes = greeting();
  append(bytes, 4, command::QueryRoute{"t"});
  endpoint.on_received(kit.ctx, Received{kConn, bytes}, handler);
  ASSERT_EQ(handler.names, std::vector<std::string>{"QueryRoute"});
  EXPECT_EQ(endpoint.peer(kConn)->remote.host, "10.0.0.9");
  endpoint.reply(handler.requests[0], reply::Ok{});
  endpoint.flush(kit.ctx);
  EXPECT_EQ(kit.out.requests().size(), 1u);
  EXPECT_EQ(responses(kit.sent_bytes()), "0: Hello version 1\n4: Ok\n");
}

TEST_F(EndpointTest, RefusesOtherProtocolsWithOneLine) {
  const auto line_for = [this](std::vector<uint8_t> bytes) {
    static uint64_t next = 100;
    const ConnId conn(++next);
    accept(endpoint, conn);
    receive(endpoint, conn, bytes);
    EXPECT_EQ(kit.all<request::Close>().size(), 0u);  // a close now would cut the line
    EXPECT_FALSE(endpoint.is_open(conn));
    const auto line = kit.sent_bytes();
    sent(endpoint);
    EXPECT_EQ(kit.asked(), fmt::format("close {} Canceled\n", conn));
    return std::string(as_text(line));
  };
  const std::string start = "fulmar speaks its native protocol and RocketMQ's on this port; ";
  EXPECT_EQ(line_for({0x16, 3, 1}), start + "TLS is not served here\r\n");
  EXPECT_EQ(line_for({'G', 'E', 'T'}), start + "these bytes belong to another one\r\n");
  EXPECT_EQ(line_for({'F', 'U', 'L', 0}), start + "these bytes belong to another one\r\n");
  EXPECT_EQ(line_for({'F', 'U', 'L', 'M', 'A', 'R', 0, 2}), start + "the client speaks version 2, the server version 1\r\n");
  EXPECT_EQ(endpoint.counters().refused_protocol, 4u);
  EXPECT_EQ(endpoint.connection_count(), 0u);
}

TEST_F(EndpointTest, HelloComesFirst) {
  accept(endpoint, kConn);
  auto bytes = test::preamble();
  append(bytes, 9, command::GetStatus{});
  receive(endpoint, kConn, bytes);
  EXPECT_EQ(responses(kit.sent_bytes()),
            "9: Refusal INVALID_PARAMETER (hello is the first request of a connection; got GetStatus; retry after 0 ms)\n");
  sent(endpoint);
  EXPECT_EQ(kit.asked(), "close 1 Canceled\n");
  EXPECT_TRUE(handler.requests.empty());
  EXPECT_TRUE(handler.closed.empty());  // it was never heard of
}

TEST_F(EndpointTest, NamesBothVersions) {
  accept(endpoint, kConn);
  auto bytes = test::preamble();
  append(bytes, 3, command::Hello{9, 0, "c"});
  receive(endpoint, kConn, bytes);
  EXPECT_EQ(
      responses(kit.sent_bytes()),
      "3: Refusal VERSION_NOT_SUPPORTED (this version of the native protocol is not supported; the client speaks version 9, the server "
      "version 1; retry after 0 ms)\n");
}

TEST_F(EndpointTest, ABrokenHeaderHarmsOnlyItsRequest) {
  open(endpoint);
  std::vector<uint8_t> bytes;
  command::PullMessages pull;
  pull.count_max = -1;
  append(bytes, 21, pull);
  append(bytes, 22, command::GetStatus{});
  auto later = request(23);
  store_le<uint16_t>(later.data() + 8 + 8 + 6, 400);
  bytes.insert(bytes.end(), later.begin(), later.end());
  receive(endpoint, kConn, bytes);
  const auto answers = responses(kit.sent_bytes());
  EXPECT_EQ(answers,
            "21: Refusal INVALID_PARAMETER (pull.countMax is negative: -1; ; retry after 0 ms)\n"
            "23: Refusal REQUEST_CODE_NOT_SUPPORTED (request 400 is not known to version 1 of the native protocol; ; retry after 0 ms)\n");
  EXPECT_TRUE(endpoint.is_open(kConn));
  EXPECT_EQ(handler.requests.size(), 1u);
  EXPECT_EQ(endpoint.counters().broken_headers, 2u);
}

TEST_F(EndpointTest, BrokenFramingClosesAfterTheReplies) {
  open(endpoint);
  auto bytes = request(5);
  bytes.insert(bytes.end(), {1, 0, 0, 0});
  struct Prompt : Recorder {
    Endpoint* e = nullptr;
    void on_request(Ctx& ctx, const RequestRef& from, const Command& command) override {
      Recorder::on_request(ctx, from, command);
      e->reply(from, reply::Ok{});
    }
  } prompt;
  prompt.e = &endpoint;
  endpoint.on_received(kit.ctx, Received{kConn, bytes}, prompt);
  endpoint.flush(kit.ctx);
  EXPECT_EQ(prompt.closed, std::vector<ConnId>{kConn});
  EXPECT_EQ(responses(kit.sent_bytes()), "5: Ok\n");
  EXPECT_EQ(kit.all<request::Pause>().size(), 1u);
  EXPECT_EQ(endpoint.counters().broken_frames, 1u);
  endpoint.reply(RequestRef{kConn, 6, false}, reply::Ok{});  // too late, dropped
  sent(endpoint);
  EXPECT_EQ(kit.asked(), "close 1 Canceled\n");
}

TEST_F(EndpointTest, SlowGreetersAreClosed) {
  accept(endpoint, kConn);
  kit.at_ms(9'999);
  receive(endpoint, kConn, Bytes(native::kPreamble).first(7));
  EXPECT_EQ(kit.timers.next(), Monotonic{10'000'000'000});
  kit.at_ms(10'000);
  ASSERT_TRUE(kit.timers.pop_due(kit.now.monotonic).has_value());
  endpoint.on_timer(kit.ctx);
  EXPECT_EQ(kit.asked(), "close 1 PeerTooSlow\n");
  EXPECT_EQ(endpoint.connection_count(), 0u);
}

TEST_F(EndpointTest, AGreetedConnectionMayBeSilent) {
  open(endpoint);
  kit.at_ms(60'000);
  endpoint.on_timer(kit.ctx);
  EXPECT_TRUE(endpoint.is_open(kConn));
}

TEST_F(EndpointTest, PausesAboveTheRequestsInFlightAndResumesAtHalf) {
  EndpointLimits limits;
  limits.requests_in_flight_max = 4;
  Endpoint e(7, "server", limits);
  open(e);
  std::vector<uint8_t> bytes;
  for (uint32_t i = 1; i <= 5; ++i) append(bytes, i, command::GetStatus{});
  receive(e, kConn, bytes);
  EXPECT_EQ(kit.asked(), "pause 1\n");
  for (int i = 0; i < 2; ++i) e.reply(handler.requests[static_cast<size_t>(i)], reply::Ok{});
  e.flush(kit.ctx);
  EXPECT_EQ(kit.all<request::Resume>().size(), 0u);
  sent(e);
  e.reply(handler.requests[2], reply::Ok{});
  e.flush(kit.ctx);
  EXPECT_EQ(kit.all<request::Resume>().size(), 1u);
}

TEST_F(EndpointTest, PausesWhileThePeerDoesNotRead) {
  EndpointLimits limits;
  limits.queued_bytes_max = 1000;
  Endpoint e(7, "server", limits);
  open(e);
  receive(e, kConn, request(1));
  reply::Pulled pulled;
  pulled.records.resize(2000);
  e.reply(handler.requests[0], pulled);
  e.flush(kit.ctx);
  EXPECT_EQ(kit.all<request::Pause>().size(), 1u);
  sent(e);
  EXPECT_EQ(kit.asked(), "resume 1\n");
}

TEST_F(EndpointTest, LateRepliesCarryTheirOwnNumber) {
  open(endpoint);
  receive(endpoint, kConn, request(31));
  receive(endpoint, kConn, request(32));
  EXPECT_EQ(kit.asked(), "");
  endpoint.reply(handler.requests[1], reply::Offset{QueueOffset(2)});
  endpoint.reply(handler.requests[0], reply::Offset{QueueOffset(1)});
  endpoint.flush(kit.ctx);
  EXPECT_EQ(responses(kit.sent_bytes()), "32: Offset 2\n31: Offset 1\n");
}

TEST_F(EndpointTest, OneWayRequestsGetNoAnswer) {
  open(endpoint);
  receive(endpoint, kConn, request(31, true));
  endpoint.reply(handler.requests[0], reply::Ok{});
  endpoint.flush(kit.ctx);
  EXPECT_EQ(kit.asked(), "");
}

TEST_F(EndpointTest, SlicesLeaveInOrderBetweenTheirHeaders) {
  open(endpoint);
  auto bytes = request(1);
  append(bytes, 2, command::GetStatus{});
  receive(endpoint, kConn, bytes);
  reply::Pulled pulled;
  const FileSlice slices[] = {{FileId(3), {0, 100}}, {FileId(4), {8, 58}}};
  endpoint.reply_with_slices(handler.requests[0], pulled, slices);
  endpoint.reply(handler.requests[1], reply::Ok{});
  endpoint.flush(kit.ctx);
  const auto& send = kit.sent();
  ASSERT_EQ(send.piece_count, 4u);
  EXPECT_FALSE(kit.out.pieces()[0].is_slice);
  EXPECT_EQ(kit.out.pieces()[1].slice.file, FileId(3));
  EXPECT_EQ(kit.out.pieces()[2].slice.file, FileId(4));
  const Bytes header = kit.out.bytes_of(kit.out.pieces()[0]);
  EXPECT_EQ(load_le<uint32_t>(header.data()) + 4, header.size() + 150);
  EXPECT_EQ(responses(kit.out.bytes_of(kit.out.pieces()[3])), "2: Ok\n");

  EXPECT_FALSE(endpoint.has_room_for_slices(kConn, 1u << 20));
  EXPECT_TRUE(endpoint.has_room_for_slices(kConn, (1u << 20) - 150));
  sent(endpoint);
  EXPECT_TRUE(endpoint.has_room_for_slices(kConn, 4u << 20));  // alone, anything fits
}

TEST_F(EndpointTest, AReplyThatDoesNotFitBecomesARefusal) {
  open(endpoint);
  receive(endpoint, kConn, request(8));
  reply::Status status;
  status.values.emplace_back("name", std::string(9000, 'x'));
  endpoint.reply(handler.requests[0], status);
  endpoint.flush(kit.ctx);
  EXPECT_EQ(responses(kit.sent_bytes()),
            "8: Refusal SYSTEM_ERROR (the answer does not fit a frame; status.value is 9000 bytes long, at most 8192; retry after 0 ms)\n");
}

TEST_F(EndpointTest, TheNewestUnfinishedFrameGivesWay) {
  EndpointLimits limits;
  limits.partial_bytes_max = 100;
  Endpoint e(7, "server", limits);
  open(e, ConnId(1));
  open(e, ConnId(2));
  receive(e, ConnId(1), request(1));
  receive(e, ConnId(2), request(1));
  std::vector<uint8_t> start(60, 0);
  store_le<uint32_t>(start.data(), 1000);
  receive(e, ConnId(2), start);
  kit.out.clear();
  receive(e, ConnId(1), start);
  EXPECT_EQ(kit.asked(), "close 2 Full\n");
  EXPECT_EQ(handler.closed, std::vector<ConnId>{ConnId(2)});
}

TEST_F(EndpointTest, TooManyConnectionsAreRefused) {
  EndpointLimits limits;
  limits.connections_max = 1;
  Endpoint e(7, "server", limits);
  accept(e, ConnId(1));
  accept(e, ConnId(2));
  EXPECT_EQ(kit.asked(), "close 2 Full\n");
}

TEST_F(EndpointTest, DrainingAnswersWhatItHasAndReadsNoMore) {
  open(endpoint, ConnId(1));
  open(endpoint, ConnId(2));
  receive(endpoint, ConnId(1), request(5));
  EXPECT_EQ(endpoint.drain(kit.ctx), 1u);
  EXPECT_EQ(kit.asked(), "pause 1\npause 2\nclose 2 Stopping\n");
  receive(endpoint, ConnId(1), request(6));
  EXPECT_EQ(handler.requests.size(), 1u);
  endpoint.reply(handler.requests[0], reply::Ok{});
  endpoint.flush(kit.ctx);
  EXPECT_EQ(endpoint.drain(kit.ctx), 1u);
  sent(endpoint);
  EXPECT_EQ(endpoint.drain(kit.ctx), 0u);
  EXPECT_EQ(kit.asked(), "close 1 Stopping\n");
}

// Answers each request at once, with many bytes.
struct Generous : Recorder {
  Endpoint* e = nullptr;
  size_t bytes = 1000;
  void on_request(Ctx& ctx, const RequestRef& from, const Command& command) override {
    Recorder::on_request(ctx, from, command);
    reply::Pulled pulled;
    pulled.records.resize(bytes);
    e->reply(from, pulled);
  }
};

TEST_F(EndpointTest, ReadsRequestsOnlyWhileThereIsRoomForTheirAnswers) {
  EndpointLimits limits;
  limits.queued_bytes_max = 2500;
  Endpoint e(7, "server", limits);
  Generous generous;
  generous.e = &e;
  open(e);
  std::vector<uint8_t> bytes;
  for (uint32_t i = 1; i <= 7; ++i) append(bytes, i, command::GetStatus{});
  const size_t cut = bytes.size() - 10;
  e.on_received(kit.ctx, Received{kConn, Bytes(bytes).first(cut)}, generous);
  e.flush(kit.ctx);
  EXPECT_EQ(generous.requests.size(), 3u);   // the third passes the bound, the fourth waits
  EXPECT_EQ(kit.all<request::Pause>().size(), 1u);
  e.on_received(kit.ctx, Received{kConn, Bytes(bytes).subspan(cut)}, generous);   // was on its way
  e.read_on(kit.ctx, generous);
  e.flush(kit.ctx);
  EXPECT_EQ(generous.requests.size(), 3u);
  for (int round = 0; round < 2; ++round) {
    sent(e);
    e.read_on(kit.ctx, generous);
    e.flush(kit.ctx);
  }
  ASSERT_EQ(generous.requests.size(), 7u);
  for (uint32_t i = 0; i < 7; ++i) EXPECT_EQ(generous.requests[i].opaque, i + 1);
  EXPECT_EQ(kit.all<request::Resume>().size(), 1u);
}

TEST_F(EndpointTest, AStepAnswersSoMuchAndTheNextGoesOnInTurn) {
  EndpointLimits limits;
  limits.step_bytes_max = 1500;
  Endpoint e(7, "server", limits);
  Generous generous;
  generous.e = &e;
  open(e, ConnId(1));
  open(e, ConnId(2));
  std::vector<uint8_t> bytes;
  for (uint32_t i = 1; i <= 4; ++i) append(bytes, i, command::GetStatus{});
  e.on_received(kit.ctx, Received{ConnId(1), bytes}, generous);
  e.on_received(kit.ctx, Received{ConnId(2), bytes}, generous);
  e.flush(kit.ctx);
  std::string order;
  for (int step = 0; step < 8 && generous.requests.size() < 8; ++step) {
    EXPECT_TRUE(kit.out.wants_step_again());
    kit.out.clear();
    e.read_on(kit.ctx, generous);
    e.flush(kit.ctx);
  }
  for (const RequestRef& from : generous.requests) order += fmt::format("{}:{} ", from.conn, from.opaque);
  EXPECT_EQ(order, "1:1 1:2 1:3 1:4 2:1 2:2 2:3 2:4 ");
  kit.out.clear();
  e.flush(kit.ctx);
  EXPECT_FALSE(kit.out.wants_step_again());
}

TEST_F(EndpointTest, WhoOwesMostReadingIsClosed) {
  EndpointLimits limits;
  limits.queued_bytes_total_max = 5000;
  Endpoint e(7, "server", limits);
  Generous generous;
  generous.e = &e;
  open(e, ConnId(1));
  open(e, ConnId(2));
  std::vector<uint8_t> bytes;
  for (uint32_t i = 1; i <= 9; ++i) append(bytes, i, command::GetStatus{});
  e.on_received(kit.ctx, Received{ConnId(1), request(1)}, generous);
  e.on_received(kit.ctx, Received{ConnId(2), bytes}, generous);
  e.flush(kit.ctx);
  EXPECT_EQ(generous.requests.size(), 5u);
  EXPECT_TRUE(kit.out.wants_step_again());
  const auto sends = kit.all<request::Send>();
  kit.out.clear();
  e.read_on(kit.ctx, generous);
  EXPECT_EQ(kit.asked(), "close 2 PeerTooSlow\n");
  EXPECT_EQ(generous.closed, std::vector<ConnId>{ConnId(2)});
  EXPECT_TRUE(e.is_open(ConnId(1)));
  for (const auto& send : sends) e.on_sent(kit.ctx, Sent{send.ticket, Error(Errc::Canceled)});
  kit.out.clear();
  e.on_received(kit.ctx, Received{ConnId(1), bytes}, generous);
  e.flush(kit.ctx);
  EXPECT_EQ(generous.requests.size(), 5u + 5u);   // all the room is there again
}

TEST_F(EndpointTest, DrainingWaitsForAPeerThatDoesNotReadOnlySoLong) {
  open(endpoint);
  receive(endpoint, kConn, request(5));
  endpoint.reply(handler.requests[0], reply::Ok{});
  endpoint.flush(kit.ctx);
  kit.out.clear();
  EXPECT_EQ(endpoint.drain(kit.ctx), 1u);
  EXPECT_EQ(kit.timers.next(), Monotonic{} + Duration::seconds(2));
  kit.at_ms(2000);
  ASSERT_TRUE(kit.timers.pop_due(kit.now.monotonic).has_value());
  endpoint.on_timer(kit.ctx);
  EXPECT_EQ(endpoint.drain(kit.ctx), 0u);
  EXPECT_EQ(kit.asked(), "pause 1\nclose 1 PeerTooSlow\n");
}

TEST_F(EndpointTest, ClosedConnectionsAreForgotten) {
  open(endpoint);
  receive(endpoint, kConn, request(5));
  endpoint.on_closed(kit.ctx, Closed{kConn, Errc::Reset}, handler);
  EXPECT_EQ(handler.closed, std::vector<ConnId>{kConn});
  EXPECT_EQ(endpoint.peer(kConn), nullptr);
  endpoint.reply(handler.requests[0], reply::Ok{});
  endpoint.flush(kit.ctx);
  EXPECT_EQ(kit.asked(), "");
}

}  // namespace
}  // namespace fulmar
