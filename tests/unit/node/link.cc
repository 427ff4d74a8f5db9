#include "core/node/link.h"

#include <gtest/gtest.h>

#include "step_kit.h"

namespace fulmar {
namespace {

struct Ended : ReplyHandler {
  std::vector<std::string> said;
  Links* again = nullptr;  // makes a new call from inside on_reply
  void on_reply(Ctx& ctx, uint64_t token, Result<Reply> reply) override {
    said.push_back(fmt::format("{}: {}", token, reply ? describe(*reply) : std::string(to_string(reply.error().code))));
    if (again != nullptr) {
      Links* links = std::exchange(again, nullptr);
      EXPECT_TRUE(links->call(ctx, Address{"b", 1}, command::GetStatus{}, token + 1000, Monotonic::never()).has_value());
    }
  }
};

struct LinksTest : ::testing::Test {
  test::StepKit kit;
  Ended handler;
  Links links{9, "client"};
  const Address a{"a", 1};

  Monotonic in_ms(int64_t ms) const { return kit.now.monotonic + Duration::milliseconds(ms); }
  void call(uint64_t token, Monotonic deadline = Monotonic::never()) {
    ASSERT_TRUE(links.call(kit.ctx, a, command::GetStatus{}, token, deadline).has_value());
  }
  Ticket dial_ticket() const { return kit.all<request::Dial>().at(0).ticket; }
  void dialed(Ticket ticket, ConnId conn) {
    kit.out.clear();
    EXPECT_TRUE(links.on_dialed(kit.ctx, Dialed{ticket, Connected{conn, {}}}, handler));
    links.flush(kit.ctx);
  }
  void respond(ConnId conn, uint32_t opaque, const Reply& reply) {
    native::Codec codec;
    std::vector<uint8_t> frame;
    ASSERT_TRUE(codec.encode_response(opaque, reply, 0, frame).has_value());
    EXPECT_TRUE(links.on_received(kit.ctx, Received{conn, frame}, handler));
  }
  void ring() {
    while (kit.timers.pop_due(kit.now.monotonic)) links.on_timer(kit.ctx, handler);
    links.flush(kit.ctx);
  }
  // The one send of this step, which begins a connection.
  std::string asked_on_the_wire() {
    const auto bytes = kit.sent_bytes();
    EXPECT_EQ(kit.out.requests().size(), 1u);
    EXPECT_TRUE(equal(Bytes(bytes).first(8), native::kPreamble));
    native::Framer framer(native::kFrameBytesMaxRequest);
    native::Codec codec;
    framer.feed(Bytes(bytes).subspan(8));
    std::string asked;
    for (auto frame = framer.next(); !frame->empty(); frame = framer.next()) {
      const auto decoded = codec.decode_request(*frame);
      asked += fmt::format("{} {}\n", decoded->opaque, name_of(decoded->command));
    }
    return asked;
  }
  std::vector<std::string> take() { return std::exchange(handler.said, {}); }
};

using Said = std::vector<std::string>;

TEST_F(LinksTest, DialsGreetsAndAsksInOneSend) {
  call(70);
  call(71);
  links.flush(kit.ctx);
  EXPECT_EQ(kit.out.text(), "dial a:1\n");
  dialed(dial_ticket(), ConnId(5));
  EXPECT_TRUE(links.is_open(a));
  EXPECT_EQ(asked_on_the_wire(), "0 Hello\n1 GetStatus\n2 GetStatus\n");

  respond(ConnId(5), 0, reply::Hello{});
  respond(ConnId(5), 2, reply::Offset{QueueOffset(2)});
  respond(ConnId(5), 1, reply::Offset{QueueOffset(1)});
  EXPECT_EQ(take(), (Said{"71: Offset 2", "70: Offset 1"}));
  EXPECT_EQ(links.calls_in_flight(), 0u);
}

TEST_F(LinksTest, TimedOutCallsIgnoreTheirLateReply) {
  call(1, in_ms(100));
  const Ticket ticket = dial_ticket();
  dialed(ticket, ConnId(5));
  kit.at_ms(99);
  ring();
  EXPECT_EQ(take(), Said{});
  kit.at_ms(100);
  ring();
  EXPECT_EQ(take(), Said{"1: TimedOut"});
  respond(ConnId(5), 1, reply::Ok{});
  EXPECT_EQ(take(), Said{});
  EXPECT_EQ(links.counters().late_replies, 1u);
}

// Who is told that it never left may send it elsewhere: it must not leave behind his back when the connection comes at last.
TEST_F(LinksTest, WhatTimesOutBeforeThereIsAConnectionNeverLeaves) {
  call(1, in_ms(300));
  call(2, in_ms(100));
  call(3);
  call(4, in_ms(50));
  const Ticket ticket = dial_ticket();
  kit.at_ms(200);
  ring();
  EXPECT_EQ(take(), (Said{"4: Canceled", "2: Canceled"}));
  call(5);
  dialed(ticket, ConnId(5));
  EXPECT_EQ(asked_on_the_wire(), "0 Hello\n1 GetStatus\n3 GetStatus\n5 GetStatus\n");
  kit.at_ms(300);
  ring();
  EXPECT_EQ(take(), Said{"1: TimedOut"});
}

// The peer may be gone without a word: the next call must not vanish on the same connection.
TEST_F(LinksTest, AConnectionThatIsSilentSinceACallIsGivenUp) {
  call(1, in_ms(100));
  dialed(dial_ticket(), ConnId(5));
  call(2);
  call(3, in_ms(200));
  links.flush(kit.ctx);
  kit.out.clear();
  kit.at_ms(100);
  ring();
  EXPECT_EQ(take(), Said{"1: TimedOut"});
  EXPECT_TRUE(links.is_open(a)) << "the first call was made before there was a connection";
  kit.at_ms(200);
  ring();
  EXPECT_EQ(take(), (Said{"2: TimedOut", "3: TimedOut"}));
  EXPECT_EQ(kit.asked(), "close 5 TimedOut\n");
  EXPECT_FALSE(links.is_open(a));
  EXPECT_EQ(links.counters().silent, 1u);
  EXPECT_EQ(links.calls_in_flight(), 0u);
  call(4);
  kit.at_ms(263);
  ring();
  EXPECT_EQ(kit.out.text(), "dial a:1\n");
  dialed(dial_ticket(), ConnId(6));
  respond(ConnId(6), 4, reply::Ok{});
  EXPECT_EQ(take(), Said{"4: Ok"});
}

TEST_F(LinksTest, AConnectionThatSpeaksIsKept) {
  call(1);
  dialed(dial_ticket(), ConnId(5));
  call(2, in_ms(100));
  links.flush(kit.ctx);
  kit.out.clear();
  respond(ConnId(5), 1, reply::Ok{});
  kit.at_ms(100);
  ring();
  EXPECT_EQ(take(), (Said{"1: Ok", "2: TimedOut"}));
  EXPECT_EQ(kit.asked(), "");
  EXPECT_TRUE(links.is_open(a));
}

TEST_F(LinksTest, ACallWithPatienceWaitsWhileItsConnectionBringsBytes) {
  call(1);
  dialed(dial_ticket(), ConnId(5));
  ASSERT_TRUE(links.call(kit.ctx, a, command::GetStatus{}, 2, {in_ms(100), in_ms(350)}).has_value());
  ASSERT_TRUE(links.call(kit.ctx, a, command::GetStatus{}, 3, {in_ms(100), in_ms(150)}).has_value());
  links.flush(kit.ctx);
  kit.out.clear();
  respond(ConnId(5), 1, reply::Ok{});
  kit.at_ms(100);
  ring();
  EXPECT_EQ(take(), Said{"1: Ok"}) << "something came: slow, not dead";
  call(4);
  respond(ConnId(5), 4, reply::Ok{});
  kit.at_ms(150);
  ring();
  EXPECT_EQ(take(), (Said{"4: Ok", "3: TimedOut"})) << "patience has an end";
  kit.at_ms(200);
  ring();
  EXPECT_EQ(take(), Said{}) << "bytes came since it last looked";
  kit.out.clear();
  kit.at_ms(300);
  ring();
  EXPECT_EQ(take(), Said{"2: TimedOut"}) << "silent for a whole time-out";
  EXPECT_EQ(kit.asked(), "close 5 TimedOut\n");
}

TEST_F(LinksTest, AFailedDialEndsWhoWaitsAndBacksOff) {
  call(1);
  links.on_dialed(kit.ctx, Dialed{dial_ticket(), Errc::Refused}, handler);
  EXPECT_EQ(take(), Said{"1: Refused"});
  kit.out.clear();
  call(2);
  links.flush(kit.ctx);
  EXPECT_EQ(kit.asked(), "");  // not yet
  kit.at_ms(63);               // 50 ms and at most a quarter more
  ring();
  EXPECT_EQ(kit.out.text(), "dial a:1\n");
  dialed(dial_ticket(), ConnId(6));
  respond(ConnId(6), 2, reply::Ok{});
  EXPECT_EQ(take(), Said{"2: Ok"});
}

TEST_F(LinksTest, ADialThatTakesTooLongIsGivenUp) {
  call(1);
  const Ticket ticket = dial_ticket();
  kit.at_ms(3000);
  ring();
  EXPECT_EQ(take(), Said{"1: TimedOut"});
  dialed(ticket, ConnId(8));
  EXPECT_EQ(kit.asked(), "close 8 Canceled\n");
  EXPECT_FALSE(links.is_open(a));
}

TEST_F(LinksTest, ALostConnectionEndsItsCallsOnly) {
  call(1);
  const Ticket ticket = dial_ticket();
  dialed(ticket, ConnId(5));
  ASSERT_TRUE(links.call(kit.ctx, Address{"b", 1}, command::GetStatus{}, 2, Monotonic::never()).has_value());
  handler.again = &links;
  EXPECT_TRUE(links.on_closed(kit.ctx, Closed{ConnId(5), Errc::Reset}, handler));
  EXPECT_EQ(take(), Said{"1: Reset"});
  EXPECT_EQ(links.calls_in_flight(), 2u);
  EXPECT_FALSE(links.on_closed(kit.ctx, Closed{ConnId(77), Errc::Reset}, handler));
}

TEST_F(LinksTest, ARefusedHelloEndsEverything) {
  call(1);
  const Ticket ticket = dial_ticket();
  dialed(ticket, ConnId(5));
  kit.out.clear();
  respond(ConnId(5), 0, Refusal{Code::VersionNotSupported, "no", "", 0});
  EXPECT_EQ(take(), Said{"1: Refused"});
  EXPECT_EQ(kit.asked(), "close 5 Refused\n");
}

TEST_F(LinksTest, AnswersForAnotherLinkAreNotBelieved) {
  call(1);
  const Ticket first = dial_ticket();
  dialed(first, ConnId(5));
  ASSERT_TRUE(links.call(kit.ctx, Address{"b", 1}, command::GetStatus{}, 2, Monotonic::never()).has_value());
  const Ticket second = dial_ticket();
  dialed(second, ConnId(6));
  respond(ConnId(6), 1, reply::Ok{});
  EXPECT_EQ(take(), Said{});
}

TEST_F(LinksTest, GarbageEndsTheConnection) {
  call(1);
  const Ticket ticket = dial_ticket();
  dialed(ticket, ConnId(5));
  kit.out.clear();
  const std::vector<uint8_t> garbage(16, 0xFF);
  links.on_received(kit.ctx, Received{ConnId(5), garbage}, handler);
  EXPECT_EQ(take(), Said{"1: FrameTooLarge"});
  EXPECT_EQ(kit.asked(), "close 5 FrameTooLarge\n");
}

TEST_F(LinksTest, FullIsSaid) {
  LinkLimits limits;
  limits.calls_in_flight_max = 1;
  Links few(9, "client", limits);
  ASSERT_TRUE(few.call(kit.ctx, a, command::GetStatus{}, 1, Monotonic::never()).has_value());
  EXPECT_EQ(few.call(kit.ctx, a, command::GetStatus{}, 2, Monotonic::never()).code(), Errc::Full);
  EXPECT_EQ(links.call(kit.ctx, a, command::Stop{}, 1, Monotonic::never()).code(), Errc::InvalidArgument);
}

}  // namespace
}  // namespace fulmar
