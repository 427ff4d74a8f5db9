#pragma once
// What every driver promises a node: house.md section 3 and the contracts in core/io, as cases over a Rig. A driver joins with
//
//   INSTANTIATE_TYPED_TEST_SUITE_P(Uv, Boundary, UvRig);
//
// and a Rig is
//
//   struct Rig {                                // default-constructible: a fresh disk and network
//     enum class End { Stopped, Halted, TimedOut };
//     std::string root();                       // an existing, empty directory: the nodes' disk
//     std::string host();                       // the address at which nodes of this rig listen and dial ("127.0.0.1")
//     // Makes the node, steps it at once and then whenever something happened or its deadline came, until it said stopped() or halt()
//     // or `limit` of its own time is over; then destroys it. Destroying is a crash that keeps the page cache, like kill -9: a later
//     // run on the same Rig finds every store and every name the driver had carried out.
//     End run(NodeFactory factory, Duration limit);
//     // The same with two nodes at once, each with a disk view of the same root; ends when both have ended. Stopped only when both
//     // are. The nodes may run on threads of their own.
//     End run_pair(NodeFactory a, NodeFactory b, Duration limit);
//     // Queues a Told for the next run(), delivered in order after the node's first step. Views inside stay valid until run returns.
//     void say(CallId call, Command command);
//     std::vector<std::pair<CallId, Reply>> replies();  // what the nodes told, in order
//     std::vector<std::string> log();                   // TraceRecord::describe() of every event noted, in order
//   };
//
// Every case also checks what ScriptNode checks in each: tickets redeemed once and by the right input, Closed the last word, time
// that does not fall.

#include <atomic>
#include <numeric>

#include "tests/contract/script_node.h"

namespace fulmar::contract {

inline constexpr uint64_t kPage = 4096;
inline constexpr Duration kLimit = Duration::seconds(20);

inline std::vector<uint8_t> pattern(size_t bytes, uint64_t salt = 0) {
  std::vector<uint8_t> out(bytes);
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<uint8_t>(mix64(i / 8 + salt * 0x10001) >> (i % 8 * 8));
  return out;
}
inline void store(MappedFile& file, uint64_t at, Bytes bytes) {
  const MutableBytes to = file.writable({at, at + bytes.size()});
  std::copy(bytes.begin(), bytes.end(), to.begin());
}
inline bool is_filled(Bytes bytes, uint8_t value) {
  return std::all_of(bytes.begin(), bytes.end(), [value](uint8_t b) { return b == value; });
}
inline std::vector<uint8_t> copy_of(std::string_view text) { return {text.begin(), text.end()}; }

template <class Rig>
class Boundary : public ::testing::Test {
 protected:
  using End = typename Rig::End;
  Rig rig_;

  NodeFactory factory(ScriptNode::Main& main) {
    return [&main](Seed, Files& files, Trace& trace) { return std::make_unique<ScriptNode>(main, files, trace); };
  }
  // A node's life on the rig's disk; ends with its script, or earlier with `limit`.
  void play(ScriptNode::Main main, End expected = End::Stopped, Duration limit = kLimit) {
    const End end = rig_.run(factory(main), limit);
    EXPECT_EQ(static_cast<int>(end), static_cast<int>(expected));
  }
  void play_pair(ScriptNode::Main a, ScriptNode::Main b) {
    const End end = rig_.run_pair(factory(a), factory(b), kLimit);
    EXPECT_EQ(static_cast<int>(end), static_cast<int>(End::Stopped));
  }
  std::string at(std::string_view name) { return rig_.root() + "/" + std::string(name); }
  // Functions, for gcc 12 copies an aggregate written inside a co_await bit by bit, strings and all.
  Address any_port() { return {rig_.host(), 0}; }
  Address at_port(uint16_t port) { return {rig_.host(), port}; }
};
TYPED_TEST_SUITE_P(Boundary);

// --- steps, time, the host ------------------------------------------------------------------------------------------------------------

TYPED_TEST_P(Boundary, ANodeIsSteppedByItsDeadline) {
  this->play([](ScriptNode& n) -> Script {
    for (int i = 0; i < 5; ++i) {
      const Monotonic asked = n.now().monotonic + Duration::milliseconds(30);
      co_await n.sleep(Duration::milliseconds(30));
      EXPECT_GE(n.now().monotonic, asked);
      EXPECT_LT(n.now().monotonic, asked + Duration::seconds(2));
    }
  });
}

TYPED_TEST_P(Boundary, StepAgainNeedsNoInput) {
  this->play([](ScriptNode& n) -> Script {
    const uint64_t first = n.steps;
    for (int i = 0; i < 500; ++i) {
      const uint64_t step = n.steps;
      n.out().step_again();
      // No deadline stands behind this wait: only step_again brings the next step.
      co_await ScriptNode::Wait(n, [&n, step] { return n.steps > step; }, __builtin_LINE());
    }
    EXPECT_GE(n.steps, first + 500);
  });
}

TYPED_TEST_P(Boundary, WallTimeIsATimeOfDay) {
  this->play([](ScriptNode& n) -> Script {
    EXPECT_GT(n.now().wall.ms, 1'000'000'000'000);
    EXPECT_LE(std::abs(n.now().zone_s), 15 * 3600);
    co_return;
  });
}

TYPED_TEST_P(Boundary, ToldArrivesAndTellComesBack) {
  this->rig_.say(CallId(7), command::GetStatus{});
  this->rig_.say(CallId(9), command::QueryRoute{"orders"});
  this->play([](ScriptNode& n) -> Script {
    co_await n.until([&n] { return n.told.size() == 2; });
    EXPECT_EQ(n.told[0], "GetStatus");
    EXPECT_EQ(n.told[1], "QueryRoute orders");
    n.out().tell(n.told_calls[1], reply::Topics{});
    n.out().tell(n.told_calls[0], reply::Ok{});
    n.out().tell(n.told_calls[0], reply::Offset{QueueOffset(12)});
    co_await n.sleep(Duration::milliseconds(1));
  });
  const auto replies = this->rig_.replies();
  ASSERT_EQ(replies.size(), 3u);
  EXPECT_EQ(replies[0].first, CallId(9));
  EXPECT_EQ(replies[1].first, CallId(7));
  EXPECT_EQ(std::get<reply::Offset>(replies[2].second).offset, QueueOffset(12));
}

struct ScriptSpoke {
  FULMAR_EVENT(ScriptSpoke, Info, "said {} of {}");
  uint64_t a, b;
  auto values() const { return std::array{a, b}; }
};

TYPED_TEST_P(Boundary, EventsReachTheLog) {
  this->play([](ScriptNode& n) -> Script {
    n.trace.note(ScriptSpoke{1, 2});
    co_return;
  });
  const std::vector<std::string> log = this->rig_.log();
  EXPECT_NE(std::find(log.begin(), log.end(), "said 1 of 2"), log.end());
}

TYPED_TEST_P(Boundary, NothingOfAHaltedStepIsCarriedOut) {
  const std::string path = this->at("halted");
  this->play(
      [&](ScriptNode& n) -> Script {
        n.replace(path, as_bytes("never"));
        n.out().halt(Errc::FlushFailed, "as the script says");
        co_return;
      },
      TestFixture::End::Halted);
  this->play([&](ScriptNode& n) -> Script {
    const auto contents = co_await n.contents(n.read(path, 100));
    REQUIRE(!contents);
    EXPECT_EQ(contents.code(), Errc::NotFound);
  });
}

// --- listen, dial -----------------------------------------------------------------------------------------------------------------------

TYPED_TEST_P(Boundary, ListenTellsTheRealPortAndASecondIsRefused) {
  this->play([&](ScriptNode& n) -> Script {
    const auto first = co_await n.listening(n.listen(Port(1), this->any_port()));
    REQUIRE(first);
    EXPECT_NE(first->port, 0);
    const auto second = co_await n.listening(n.listen(Port(2), *first));
    REQUIRE(!second);
    EXPECT_EQ(second.code(), Errc::AddressInUse);
    n.out().unlisten(Port(1));
    const auto third = co_await n.listening(n.listen(Port(3), *first));
    REQUIRE(third);
    EXPECT_EQ(third->port, first->port);
  });
}

TYPED_TEST_P(Boundary, DialingWhereNobodyListensIsRefused) {
  this->play([&](ScriptNode& n) -> Script {
    const auto at = co_await n.listening(n.listen(Port(1), this->any_port()));
    REQUIRE(at);
    n.out().unlisten(Port(1));
    co_await n.sleep(Duration::milliseconds(20));
    const auto link = co_await n.dialed(n.dial(*at));
    REQUIRE(!link);
    EXPECT_EQ(link.code(), Errc::Refused);
  });
}

TYPED_TEST_P(Boundary, BothEndsKnowTheirPeer) {
  std::atomic<uint16_t> port{0};
  this->play_pair(
      [&](ScriptNode& n) -> Script {
        const auto at = co_await n.listening(n.listen(Port(4), this->any_port()));
        REQUIRE(at);
        port = at->port;
        co_await n.until([&n] { return !n.accepted.empty(); });
        const Stream& stream = n.streams.at(n.accepted[0]);
        EXPECT_EQ(stream.port, Port(4));
        EXPECT_EQ(stream.peer.local.port, at->port);
        EXPECT_NE(stream.peer.remote.port, 0);
        EXPECT_FALSE(stream.peer.is_tls);
        co_await n.until([&stream] { return stream.is_closed; });
      },
      [&](ScriptNode& n) -> Script {
        co_await n.until([&port] { return port != 0; });
        const auto link = co_await n.dialed(n.dial(this->at_port(port)));
        REQUIRE(link);
        EXPECT_EQ(link->peer.remote.port, port);
        n.out().close(link->conn, Errc::Stopping);
        co_await n.sleep(Duration::milliseconds(100));
        EXPECT_FALSE(n.streams.at(link->conn).is_closed);  // no Closed for our own close()
      });
}

// --- streams ----------------------------------------------------------------------------------------------------------------------------

TYPED_TEST_P(Boundary, BytesArriveInOrderInBothDirections) {
  std::atomic<uint16_t> port{0};
  constexpr size_t kSends = 300;
  std::vector<uint8_t> all;
  for (size_t i = 0; i < kSends; ++i) {
    const std::vector<uint8_t> part = pattern(i * 7 % 1500 + 1, i);
    all.insert(all.end(), part.begin(), part.end());
  }
  this->play_pair(
      [&](ScriptNode& n) -> Script {  // echoes
        const auto at = co_await n.listening(n.listen(Port(1), this->any_port()));
        REQUIRE(at);
        port = at->port;
        co_await n.until([&n] { return !n.accepted.empty(); });
        const ConnId conn = n.accepted[0];
        Stream& stream = n.streams.at(conn);
        size_t echoed = 0;
        while (!stream.is_closed) {
          if (stream.bytes.size() > echoed) {
            n.send(conn, Bytes(stream.bytes).subspan(echoed));
            echoed = stream.bytes.size();
          }
          co_await n.until([&] { return stream.is_closed || stream.bytes.size() > echoed; });
        }
        EXPECT_TRUE(equal(stream.bytes, all));
        EXPECT_EQ(stream.why, Errc::PeerClosed);
      },
      [&](ScriptNode& n) -> Script {
        co_await n.until([&port] { return port != 0; });
        const auto link = co_await n.dialed(n.dial(this->at_port(port)));
        REQUIRE(link);
        size_t at = 0;
        for (size_t i = 0; i < kSends; ++i) {
          const size_t bytes = i * 7 % 1500 + 1;
          const Ticket sent = n.send(link->conn, Bytes(all).subspan(at, bytes));
          at += bytes;
          if (i % 10 != 0) continue;  // ten sends in one step, then wait for the last of them
          const Result<void> outcome = co_await n.done(sent);
          EXPECT_TRUE(outcome);
        }
        const Stream& stream = n.streams.at(link->conn);
        co_await n.until([&] { return stream.bytes.size() >= all.size(); });
        EXPECT_TRUE(equal(stream.bytes, all));
        n.out().close(link->conn, Errc::Stopping);
      });
}

// Eight slices of 1 MiB between small headers, as a pull answers. Sent means that the bytes are nobody's but ours again.
TYPED_TEST_P(Boundary, SlicesLeaveIntactAndAreOursAfterSent) {
  constexpr uint64_t kMiB = 1u << 20, kFile = 8 * kMiB;
  const std::vector<uint8_t> content = pattern(kFile, 3);
  std::vector<uint8_t> all;
  for (uint64_t i = 0; i < 8; ++i) {
    const std::string header = "slice " + std::to_string(i) + "\n";
    all.insert(all.end(), header.begin(), header.end());
    all.insert(all.end(), content.begin() + static_cast<ptrdiff_t>(i * kMiB), content.begin() + static_cast<ptrdiff_t>((i + 1) * kMiB));
  }
  std::atomic<uint16_t> port{0};
  this->play_pair(
      [&](ScriptNode& n) -> Script {
        const auto file = co_await n.mapped(n.map(this->at("slices"), kFile, Open::New));
        REQUIRE(file);
        const auto prepared = co_await n.done(n.prepare(*file, {0, kFile}));
        REQUIRE(prepared);
        store(n.files.at(*file), 0, content);
        const auto at = co_await n.listening(n.listen(Port(1), this->any_port()));
        REQUIRE(at);
        port = at->port;
        co_await n.until([&n] { return !n.accepted.empty(); });
        std::vector<std::string> headers(8);
        std::vector<Piece> pieces;
        for (uint64_t i = 0; i < 8; ++i) {
          headers[i] = "slice " + std::to_string(i) + "\n";
          pieces.emplace_back(as_bytes(headers[i]));
          pieces.emplace_back(FileSlice{*file, {i * kMiB, (i + 1) * kMiB}});
        }
        const Ticket sending = n.send(n.accepted[0], pieces);
        headers.assign(8, "overwritten");  // Bytes are copied by send
        const auto sent = co_await n.done(sending);
        EXPECT_TRUE(sent);
        store(n.files.at(*file), 0, std::vector<uint8_t>(kFile, 0xEE));
        co_await n.until([&n] { return n.streams.at(n.accepted[0]).is_closed; });
      },
      [&](ScriptNode& n) -> Script {
        co_await n.until([&port] { return port != 0; });
        const auto link = co_await n.dialed(n.dial(this->at_port(port)));
        REQUIRE(link);
        const Stream& stream = n.streams.at(link->conn);
        n.out().pause(link->conn);
        co_await n.sleep(Duration::milliseconds(30));
        n.out().resume(link->conn);
        co_await n.until([&] { return stream.is_closed || stream.bytes.size() >= all.size(); });
        EXPECT_TRUE(equal(stream.bytes, all)) << stream.bytes.size() << " of " << all.size();
        n.out().close(link->conn, Errc::Stopping);
      });
}

TYPED_TEST_P(Boundary, APausedPeerIsNotRead) {
  std::atomic<uint16_t> port{0};
  std::atomic<bool> is_paused{false};
  const std::vector<uint8_t> content = pattern(2u << 20, 5);
  this->play_pair(
      [&](ScriptNode& n) -> Script {
        const auto at = co_await n.listening(n.listen(Port(1), this->any_port()));
        REQUIRE(at);
        port = at->port;
        co_await n.until([&] { return !n.accepted.empty() && is_paused; });
        n.send(n.accepted[0], content);
        co_await n.until([&n] { return n.streams.at(n.accepted[0]).is_closed; });
      },
      [&](ScriptNode& n) -> Script {
        co_await n.until([&port] { return port != 0; });
        const auto link = co_await n.dialed(n.dial(this->at_port(port)));
        REQUIRE(link);
        const Stream& stream = n.streams.at(link->conn);
        n.out().pause(link->conn);
        co_await n.sleep(Duration::milliseconds(1));
        is_paused = true;
        co_await n.sleep(Duration::milliseconds(200));
        EXPECT_EQ(stream.bytes.size(), 0u);
        n.out().resume(link->conn);
        co_await n.until([&] { return stream.bytes.size() >= content.size(); });
        EXPECT_TRUE(equal(stream.bytes, content));
        n.out().close(link->conn, Errc::Stopping);
      });
}

// Our close() redeems what is still to be sent; nothing follows for that connection.
TYPED_TEST_P(Boundary, CloseRedeemsItsSends) {
  std::atomic<uint16_t> port{0};
  const std::vector<uint8_t> content = pattern(32u << 20, 6);
  this->play_pair(
      [&](ScriptNode& n) -> Script {
        const auto at = co_await n.listening(n.listen(Port(1), this->any_port()));
        REQUIRE(at);
        port = at->port;
        co_await n.until([&n] { return !n.accepted.empty(); });
        const Ticket sending = n.send(n.accepted[0], content);
        co_await n.sleep(Duration::milliseconds(50));
        n.out().close(n.accepted[0], Errc::PeerTooSlow);
        co_await n.until([&n, sending] { return n.is_redeemed(sending); });
        const auto late = co_await n.done(n.send(n.accepted[0], as_bytes("late")));
        EXPECT_FALSE(late);
        co_await n.sleep(Duration::milliseconds(100));
        EXPECT_FALSE(n.streams.at(n.accepted[0]).is_closed);
      },
      [&](ScriptNode& n) -> Script {
        co_await n.until([&port] { return port != 0; });
        const auto link = co_await n.dialed(n.dial(this->at_port(port)));
        REQUIRE(link);
        n.out().pause(link->conn);
        co_await n.sleep(Duration::milliseconds(200));
        n.out().resume(link->conn);
        const Stream& stream = n.streams.at(link->conn);
        co_await n.until([&] { return stream.is_closed; });
        EXPECT_LE(stream.bytes.size(), content.size());
        EXPECT_TRUE(equal(stream.bytes, Bytes(content).first(std::min(content.size(), stream.bytes.size()))));
      });
}

TYPED_TEST_P(Boundary, SentComesBeforeClosed) {
  std::atomic<uint16_t> port{0};
  const std::vector<uint8_t> content = pattern(32u << 20, 7);
  this->play_pair(
      [&](ScriptNode& n) -> Script {
        const auto at = co_await n.listening(n.listen(Port(1), this->any_port()));
        REQUIRE(at);
        port = at->port;
        co_await n.until([&n] { return !n.accepted.empty(); });
        for (int i = 0; i < 4; ++i) n.send(n.accepted[0], Bytes(content).subspan(0, content.size() / 4));
        co_await n.until([&n] { return n.streams.at(n.accepted[0]).is_closed; });
        EXPECT_EQ(n.network_history, (std::vector<std::string>{"sent", "sent", "sent", "sent", "closed"}));
        EXPECT_EQ(n.tickets_out(), 0u);
      },
      [&](ScriptNode& n) -> Script {
        co_await n.until([&port] { return port != 0; });
        const auto link = co_await n.dialed(n.dial(this->at_port(port)));
        REQUIRE(link);
        n.out().pause(link->conn);
        co_await n.sleep(Duration::milliseconds(50));
        n.out().close(link->conn, Errc::Stopping);
      });
}

// A slice on its way pins its file: unmap waits for Sent.
TYPED_TEST_P(Boundary, UnmapWaitsForASliceOnItsWay) {
  constexpr uint64_t kFile = 16u << 20;
  const std::vector<uint8_t> content = pattern(kFile, 8);
  std::atomic<uint16_t> port{0};
  this->play_pair(
      [&](ScriptNode& n) -> Script {
        const auto file = co_await n.mapped(n.map(this->at("pinned"), kFile, Open::New));
        REQUIRE(file);
        const auto prepared = co_await n.done(n.prepare(*file, {0, kFile}));
        REQUIRE(prepared);
        store(n.files.at(*file), 0, content);
        const auto at = co_await n.listening(n.listen(Port(1), this->any_port()));
        REQUIRE(at);
        port = at->port;
        co_await n.until([&n] { return !n.accepted.empty(); });
        const Piece piece{FileSlice{*file, {0, kFile}}};
        const Ticket sending = n.send(n.accepted[0], std::span(&piece, 1));
        n.out().unmap(*file);
        while (!n.is_redeemed(sending)) {
          const uint64_t step = n.steps;
          co_await n.until([&n, step] { return n.steps > step; });
          EXPECT_TRUE(n.is_redeemed(sending) || n.files.find(*file) != nullptr);
        }
        const auto sent = co_await n.done(sending);
        EXPECT_TRUE(sent);
        co_await n.until([&n, &file] { return n.files.find(*file) == nullptr; });
        co_await n.until([&n] { return n.streams.at(n.accepted[0]).is_closed; });
      },
      [&](ScriptNode& n) -> Script {
        co_await n.until([&port] { return port != 0; });
        const auto link = co_await n.dialed(n.dial(this->at_port(port)));
        REQUIRE(link);
        const Stream& stream = n.streams.at(link->conn);
        n.out().pause(link->conn);
        co_await n.sleep(Duration::milliseconds(150));
        n.out().resume(link->conn);
        co_await n.until([&] { return stream.is_closed || stream.bytes.size() >= kFile; });
        EXPECT_TRUE(equal(stream.bytes, content));
        n.out().close(link->conn, Errc::Stopping);
      });
}

// --- files ------------------------------------------------------------------------------------------------------------------------------

TYPED_TEST_P(Boundary, MapNewMakesParentsAndSetsTheLength) {
  const std::string path = this->at("a/b/00000000000000000000");
  this->play([&](ScriptNode& n) -> Script {
    const auto file = co_await n.mapped(n.map(path, 64 * kPage, Open::New));
    REQUIRE(file);
    EXPECT_EQ(n.files.at(*file).size(), 64 * kPage);
    EXPECT_TRUE(n.files.at(*file).is_writable());
    const auto again = co_await n.mapped(n.map(path, 64 * kPage, Open::New));
    REQUIRE(!again);
    EXPECT_EQ(again.code(), Errc::Exists);
    const auto warmed = co_await n.done(n.warm(*file, {0, 64 * kPage}));
    REQUIRE(warmed);
    EXPECT_TRUE(is_filled(n.files.at(*file).view({0, 64 * kPage}), 0));
  });
}

TYPED_TEST_P(Boundary, MapExistingTakesTheLengthItFinds) {
  const std::string path = this->at("existing");
  this->play([&](ScriptNode& n) -> Script {
    const auto missing = co_await n.mapped(n.map(path, 0, Open::Existing));
    REQUIRE(!missing);
    EXPECT_EQ(missing.code(), Errc::NotFound);
    const auto made = co_await n.mapped(n.map(path, 3 * kPage, Open::New));
    REQUIRE(made);
    n.out().unmap(*made);
    co_await n.until([&] { return n.files.find(*made) == nullptr; });

    const auto as_it_is = co_await n.mapped(n.map(path, 0, Open::Existing));
    REQUIRE(as_it_is);
    EXPECT_NE(*as_it_is, *made);  // ids are never reused
    EXPECT_EQ(n.files.at(*as_it_is).size(), 3 * kPage);
    const auto wrong = co_await n.mapped(n.map(path, 4 * kPage, Open::Existing));
    REQUIRE(!wrong);
    EXPECT_EQ(wrong.code(), Errc::WrongSize);
    const auto read_only = co_await n.mapped(n.map(path, 3 * kPage, Open::ReadOnly));
    REQUIRE(read_only);
    EXPECT_FALSE(n.files.at(*read_only).is_writable());

    const auto emptied = co_await n.done(n.replace(this->at("empty"), {}));
    REQUIRE(emptied);
    const auto empty = co_await n.mapped(n.map(this->at("empty"), 0, Open::Existing));
    REQUIRE(!empty);
    EXPECT_EQ(empty.code(), Errc::WrongSize);
  });
}

TYPED_TEST_P(Boundary, PrepareZeroesExactlyItsRange) {
  this->play([&](ScriptNode& n) -> Script {
    constexpr uint64_t kFile = 32 * kPage;
    const auto file = co_await n.mapped(n.map(this->at("prepared"), kFile, Open::New));
    REQUIRE(file);
    const auto first = co_await n.done(n.prepare(*file, {0, kFile}));
    REQUIRE(first);
    EXPECT_TRUE(is_filled(n.files.at(*file).view({0, kFile}), 0));
    store(n.files.at(*file), 0, std::vector<uint8_t>(kFile, 0xAB));
    const auto second = co_await n.done(n.prepare(*file, {100, 9 * kPage + 50}));
    REQUIRE(second);
    EXPECT_TRUE(is_filled(n.files.at(*file).view({0, 100}), 0xAB));
    EXPECT_TRUE(is_filled(n.files.at(*file).view({100, 9 * kPage + 50}), 0));
    EXPECT_TRUE(is_filled(n.files.at(*file).view({9 * kPage + 50, kFile}), 0xAB));
  });
}

TYPED_TEST_P(Boundary, StoresSurviveTheirNode) {
  const std::string path = this->at("survivor");
  const std::vector<uint8_t> flushed = pattern(2 * kPage, 1), unflushed = pattern(kPage, 2);
  this->play(
      [&](ScriptNode& n) -> Script {
        const auto file = co_await n.mapped(n.map(path, 8 * kPage, Open::New));
        REQUIRE(file);
        const auto prepared = co_await n.done(n.prepare(*file, {0, 8 * kPage}));
        REQUIRE(prepared);
        store(n.files.at(*file), 0, flushed);
        const auto done = co_await n.done(n.flush(*file, {0, 2 * kPage}));
        EXPECT_TRUE(done);
        store(n.files.at(*file), 2 * kPage, unflushed);
        co_await n.sleep(Duration::seconds(3600));  // killed long before
      },
      TestFixture::End::TimedOut, Duration::milliseconds(700));
  this->play([&](ScriptNode& n) -> Script {
    const auto file = co_await n.mapped(n.map(path, 0, Open::Existing));
    REQUIRE(file);
    REQUIRE(n.files.at(*file).size() == 8 * kPage);
    const auto warmed = co_await n.done(n.warm(*file, {0, 8 * kPage}));
    REQUIRE(warmed);
    EXPECT_TRUE(equal(n.files.at(*file).view({0, 2 * kPage}), flushed));
    EXPECT_TRUE(equal(n.files.at(*file).view({2 * kPage, 3 * kPage}), unflushed));
    EXPECT_TRUE(is_filled(n.files.at(*file).view({3 * kPage, 8 * kPage}), 0));
  });
}

TYPED_TEST_P(Boundary, SeveralFlushesMayBeInFlight) {
  this->play([&](ScriptNode& n) -> Script {
    const auto file = co_await n.mapped(n.map(this->at("flushed"), 64 * kPage, Open::New));
    REQUIRE(file);
    const auto prepared = co_await n.done(n.prepare(*file, {0, 64 * kPage}));
    REQUIRE(prepared);
    std::vector<Ticket> flushes;
    for (uint64_t i = 0; i < 8; ++i) {
      store(n.files.at(*file), i * kPage, pattern(kPage, i));
      flushes.push_back(n.flush(*file, {i * kPage, (i + 1) * kPage}));
    }
    for (const Ticket flush : flushes) {
      const auto done = co_await n.done(flush);
      EXPECT_TRUE(done);
    }
    // A range that leaves our residence is still there when it is warmed again.
    n.out().cool(*file, {0, 64 * kPage});
    const auto warmed = co_await n.done(n.warm(*file, {0, 8 * kPage}));
    REQUIRE(warmed);
    for (uint64_t i = 0; i < 8; ++i) EXPECT_TRUE(equal(n.files.at(*file).view({i * kPage, (i + 1) * kPage}), pattern(kPage, i)));
  });
}

TYPED_TEST_P(Boundary, ListShowsTheWholeSubtree) {
  this->play([&](ScriptNode& n) -> Script {
    const auto none = co_await n.listed(n.list(this->at("missing")));
    REQUIRE(none);
    EXPECT_TRUE(none->empty());
    const auto one = co_await n.mapped(n.map(this->at("tree/queues/orders/0"), 2 * kPage, Open::New));
    REQUIRE(one);
    const auto two = co_await n.done(n.replace(this->at("tree/checkpoint"), as_bytes("hello")));
    REQUIRE(two);
    auto entries = co_await n.listed(n.list(this->at("tree")));
    REQUIRE(entries);
    std::sort(entries->begin(), entries->end(), [](const FileEntry& a, const FileEntry& b) { return a.path < b.path; });
    std::vector<std::string> seen;
    for (const FileEntry& e : *entries) seen.push_back(e.is_directory ? e.path + "/" : e.path + " " + std::to_string(e.size_bytes));
    EXPECT_EQ(seen, (std::vector<std::string>{"checkpoint 5", "queues/", "queues/orders/", "queues/orders/0 8192"}));
  });
}

TYPED_TEST_P(Boundary, ReplaceIsReadBackWhole) {
  const std::string path = this->at("config/topics.json");
  const std::vector<uint8_t> large = pattern(300'000, 4);
  this->play([&](ScriptNode& n) -> Script {
    const auto missing = co_await n.contents(n.read(path, 100));
    REQUIRE(!missing);
    EXPECT_EQ(missing.code(), Errc::NotFound);
    const auto first = co_await n.done(n.replace(path, as_bytes("old")));
    REQUIRE(first);
    const auto old = co_await n.contents(n.read(path, 3));
    REQUIRE(old);
    EXPECT_EQ(*old, copy_of("old"));
    const auto second = co_await n.done(n.replace(path, large));
    REQUIRE(second);
    const auto too_long = co_await n.contents(n.read(path, large.size() - 1));
    REQUIRE(!too_long);
    EXPECT_EQ(too_long.code(), Errc::OutOfRange);
    // Nothing but the file itself is left in its directory.
    const auto entries = co_await n.listed(n.list(this->at("config")));
    REQUIRE(entries);
    EXPECT_EQ(entries->size(), 1u);
  });
  this->play([&](ScriptNode& n) -> Script {
    const auto now = co_await n.contents(n.read(path, 1u << 20));
    REQUIRE(now);
    EXPECT_EQ(*now, large);
  });
}

TYPED_TEST_P(Boundary, RenameKeepsIdAndBytesAndReplacesNothing) {
  const std::string from = this->at("log/0"), to = this->at("log/1"), taken = this->at("log/2");
  const std::vector<uint8_t> content = pattern(kPage, 9);
  this->play([&](ScriptNode& n) -> Script {
    const auto file = co_await n.mapped(n.map(from, 4 * kPage, Open::New));
    REQUIRE(file);
    const auto occupied = co_await n.done(n.replace(taken, as_bytes("taken")));
    REQUIRE(occupied);
    const auto prepared = co_await n.done(n.prepare(*file, {0, 4 * kPage}));
    REQUIRE(prepared);
    store(n.files.at(*file), 0, content);
    const auto refused = co_await n.done(n.rename(*file, taken));
    REQUIRE(!refused);
    EXPECT_EQ(refused.code(), Errc::Exists);
    // The flush pins the file, so the rename is carried out after it; both come home.
    const Ticket flush = n.flush(*file, {0, kPage});
    const Ticket rename = n.rename(*file, to);
    const auto renamed = co_await n.done(rename);
    REQUIRE(renamed);
    EXPECT_TRUE(n.is_redeemed(flush));
    const auto flushed = co_await n.done(flush);
    EXPECT_TRUE(flushed);
    EXPECT_TRUE(equal(n.files.at(*file).view({0, kPage}), content));
    store(n.files.at(*file), kPage, content);
    const auto again = co_await n.done(n.flush(*file, {kPage, 2 * kPage}));
    EXPECT_TRUE(again);
  });
  this->play([&](ScriptNode& n) -> Script {
    const auto old = co_await n.mapped(n.map(from, 0, Open::Existing));
    REQUIRE(!old);
    EXPECT_EQ(old.code(), Errc::NotFound);
    const auto file = co_await n.mapped(n.map(to, 4 * kPage, Open::ReadOnly));
    REQUIRE(file);
    const auto warmed = co_await n.done(n.warm(*file, {0, 4 * kPage}));
    REQUIRE(warmed);
    EXPECT_TRUE(equal(n.files.at(*file).view({0, kPage}), content));
    EXPECT_TRUE(equal(n.files.at(*file).view({kPage, 2 * kPage}), content));
  });
}

TYPED_TEST_P(Boundary, RemoveTakesFilesAndEmptyDirectories) {
  const std::string path = this->at("gone/file");
  this->play([&](ScriptNode& n) -> Script {
    const auto file = co_await n.mapped(n.map(path, 16 * kPage, Open::New));
    REQUIRE(file);
    const auto not_empty = co_await n.done(n.remove(this->at("gone")));
    EXPECT_FALSE(not_empty);
    n.out().unmap(*file);
    const auto removed = co_await n.done(n.remove(path));
    EXPECT_TRUE(removed);
    EXPECT_EQ(n.files.find(*file), nullptr);
    const auto missing = co_await n.done(n.remove(path));
    EXPECT_TRUE(missing);
    const auto directory = co_await n.done(n.remove(this->at("gone")));
    EXPECT_TRUE(directory);
    const auto entries = co_await n.listed(n.list(this->rig_.root()));
    REQUIRE(entries);
    EXPECT_TRUE(entries->empty());
    // The name is free again.
    const auto anew = co_await n.mapped(n.map(path, kPage, Open::New));
    EXPECT_TRUE(anew);
  });
}

TYPED_TEST_P(Boundary, SpaceAddsUp) {
  this->play([&](ScriptNode& n) -> Script {
    const auto space = co_await n.disk_space(n.space(this->rig_.root()));
    REQUIRE(space);
    EXPECT_GT(space->total, 0u);
    EXPECT_LE(space->used, space->total);
    EXPECT_LE(space->free, space->total);
  });
}

REGISTER_TYPED_TEST_SUITE_P(Boundary, ANodeIsSteppedByItsDeadline, StepAgainNeedsNoInput, WallTimeIsATimeOfDay,
                            ToldArrivesAndTellComesBack, EventsReachTheLog, NothingOfAHaltedStepIsCarriedOut,
                            ListenTellsTheRealPortAndASecondIsRefused, DialingWhereNobodyListensIsRefused, BothEndsKnowTheirPeer,
                            BytesArriveInOrderInBothDirections, SlicesLeaveIntactAndAreOursAfterSent, APausedPeerIsNotRead,
                            CloseRedeemsItsSends, SentComesBeforeClosed, UnmapWaitsForASliceOnItsWay,
                            MapNewMakesParentsAndSetsTheLength, MapExistingTakesTheLengthItFinds, PrepareZeroesExactlyItsRange,
                            StoresSurviveTheirNode, SeveralFlushesMayBeInFlight, ListShowsTheWholeSubtree, ReplaceIsReadBackWhole,
                            RenameKeepsIdAndBytesAndReplacesNothing, RemoveTakesFilesAndEmptyDirectories, SpaceAddsUp);

}  // namespace fulmar::contract
