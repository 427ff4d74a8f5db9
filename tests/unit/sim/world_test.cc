#include "sim/world.h"

#include <gtest/gtest.h>

#include "sim/sim_network.h"
#include "tests/contract/script_node.h"

namespace fulmar::sim {
namespace {

using contract::Script;
using contract::ScriptNode;

constexpr uint64_t kPage = kPageBytes;

struct Recorder : WorldObserver {
  void on_call(World&, const IoCall& call) override { calls.push_back(call.kind); }
  void on_crashed(World&, const CrashReport& report, const SimDisk&) override { crashes.push_back(report); }
  void on_life(World&, Life who, LifeChange change, const Error*) override { lives.push_back(std::to_string(who.life) + " " + to_string(change)); }
  std::vector<CallKind> calls;
  std::vector<CrashReport> crashes;
  std::vector<std::string> lives;
};

void store(MappedFile& file, Range range, uint8_t value) {
  const MutableBytes to = file.writable(range);
  std::fill(to.begin(), to.end(), value);
}

class WorldTest : public ::testing::Test {
 protected:
  void make(uint64_t seed, Profile profile = {}, DiskProfile disk = {}) {
    world_ = std::make_unique<World>(Seed{seed}, profile);
    recorder_ = Recorder();
    world_->observe(recorder_);
    a_ = world_->add_host({"a", {}, disk});
    b_ = world_->add_host({"b", {-50'000, Monotonic{77}, Wall{1'600'000'000'000}, 0}, disk});
  }
  NodeId add(HostId host, ScriptNode::Main& main) {
    return world_->add_node({"node-" + std::to_string(world_->node_count()), host,
                             [&main](Seed, Files& files, Trace& trace) { return std::make_unique<ScriptNode>(main, files, trace); }, {}});
  }
  // A node that maps, stores and flushes for ever: 4 pages, page after page.
  ScriptNode::Main writer() {
    return [this](ScriptNode& n) -> Script {
      auto file = co_await n.mapped(n.map("d/f", 4 * kPage, Open::New));
      if (!file) file = co_await n.mapped(n.map("d/f", 0, Open::Existing));
      if (!file) co_return;
      const auto prepared = co_await n.done(n.prepare(*file, {0, 4 * kPage}));
      if (!prepared) co_return;
      for (uint8_t round = 1;; ++round) {
        for (uint64_t page = 0; page < 4; ++page) store(n.files.at(*file), {page * kPage, (page + 1) * kPage}, round);
        const auto flushed = co_await n.done(n.flush(*file, {0, 4 * kPage}));
        if (!flushed) {
          n.out().halt(flushed.code());
          co_return;
        }
        ++rounds_;
      }
    };
  }
  // Two nodes that talk: an echo server on b, a client on a that sends 50 frames and counts what comes back.
  struct Talk {
    ScriptNode::Main server, client;
    NodeId server_node, client_node;
    size_t echoed = 0;
    std::optional<Errc> why, server_why;  // how each lost the connection
    bool is_patient = true;               // else the client speaks again when no echo came for 5 s
  };
  std::unique_ptr<Talk> add_talk() {
    auto talk = std::make_unique<Talk>();
    talk->server = [&t = *talk](ScriptNode& n) -> Script {
      const Address any{"0.0.0.0", 1000};  // gcc 12 destroys aggregates inside co_await twice
      const auto at = co_await n.listening(n.listen(Port(1), any));
      EXPECT_TRUE(at);
      for (size_t served = 0;; ++served) {
        co_await n.until([&n, served] { return n.accepted.size() > served; });
        const ConnId conn = n.accepted[served];
        contract::Stream& s = n.streams.at(conn);
        size_t echoed = 0;
        while (!s.is_closed) {
          if (s.bytes.size() > echoed) n.send(conn, Bytes(s.bytes).subspan(echoed));
          echoed = s.bytes.size();
          co_await n.until([&] { return s.is_closed || s.bytes.size() > echoed; });
        }
        t.server_why = s.why;
      }
    };
    talk->client = [&t = *talk](ScriptNode& n) -> Script {
      co_await n.sleep(Duration::milliseconds(5));
      const Address there{"b", 1000};
      const auto link = co_await n.dialed(n.dial(there));
      if (!link) co_return;
      contract::Stream& s = n.streams.at(link->conn);
      for (uint8_t i = 0; i < 50 && !s.is_closed; ++i) {
        n.send(link->conn, std::vector<uint8_t>(100, i));
        Monotonic patience = t.is_patient ? Monotonic::never() : n.now().monotonic + Duration::seconds(5);
        while (!s.is_closed && s.bytes.size() < (i + 1u) * 100) {
          co_await n.until([&] { return s.is_closed || s.bytes.size() >= (i + 1u) * 100 || n.now().monotonic >= patience; });
          if (n.now().monotonic < patience || s.is_closed) continue;
          n.send(link->conn, as_bytes("?"));
          patience = Monotonic::never();
        }
        t.echoed = s.bytes.size();
      }
      if (s.is_closed) t.why = s.why;
      else n.out().close(link->conn, Errc::Stopping);
    };
    talk->server_node = add(b_, talk->server);
    talk->client_node = add(a_, talk->client);
    world_->start(talk->server_node);
    world_->start(talk->client_node);
    return talk;
  }

  Recorder recorder_;
  HostId a_, b_;
  uint64_t rounds_ = 0;
  std::unique_ptr<World> world_;
};

Profile rough() {
  Profile p;
  p.network.chunking_weights = {1, 1, 1, 1};
  p.network.coalesce = {1, 2};
  p.cpu.batch_wait = {1, 2};
  p.cpu.is_batch_drawn = true;
  return p;
}

TEST_F(WorldTest, SameSeedSameHashAndWorldsDoNotMeet) {
  std::vector<uint64_t> hashes;
  for (const uint64_t seed : {5, 5, 6}) {
    make(seed, rough());
    const auto talk = add_talk();
    world_->run_for(Duration::seconds(2));
    EXPECT_EQ(talk->echoed, 5000u);
    hashes.push_back(world_->hash());
    world_.reset();
  }
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_NE(hashes[0], hashes[2]);
  // Interleaved with another world, step by step.
  make(6, rough());
  const auto other_talk = add_talk();
  const auto other = std::move(world_);
  make(5, rough());
  const auto talk = add_talk();
  for (int i = 1; i <= 2000; ++i) {
    other->run_until(SimTime{i * 1'000'000});
    world_->run_until(SimTime{i * 1'000'000});
  }
  EXPECT_EQ(world_->hash(), hashes[0]);
  EXPECT_EQ(other->hash(), hashes[2]);
  world_.reset();
}

TEST_F(WorldTest, ACrashAtEachCallHappensThereAndTheNodeWakesAgain) {
  auto main = writer();
  for (uint64_t nth = 1; nth <= 24; ++nth) {
    make(3);
    const NodeId node = add(a_, main);
    world_->start(node);
    world_->crash_at({node, nth, nth % 2 == 0 ? CrashKind::Kill : CrashKind::PowerLoss, Duration::milliseconds(10)});
    rounds_ = 0;
    EXPECT_TRUE(world_->run_for(Duration::milliseconds(100)));
    ASSERT_EQ(recorder_.crashes.size(), 1u) << nth;
    EXPECT_EQ(world_->life(node).life, 2u);
    EXPECT_GT(rounds_, 2u) << nth;
  }
}

// Stores of a step before the crash are whole, those after it never happened, and the one it hit keeps some words.
TEST_F(WorldTest, AKillInsideAStepKeepsAPrefixOfItsStores) {
  ScriptNode::Main main = [](ScriptNode& n) -> Script {
    const auto file = co_await n.mapped(n.map("d/f", 4 * kPage, Open::New));
    if (!file) co_return;
    const auto prepared = co_await n.done(n.prepare(*file, {0, 4 * kPage}));
    if (!prepared) co_return;
    store(n.files.at(*file), {4, 36}, 1);
    store(n.files.at(*file), {100, 300}, 2);
    store(n.files.at(*file), {4, 20}, 3);
    store(n.files.at(*file), {400, 500}, 4);
    n.replace("d/never", as_bytes("x"));
    co_await n.sleep(Duration::seconds(1));
  };
  uint64_t partial = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    make(seed);
    const NodeId node = add(a_, main);
    world_->start(node);
    world_->crash_at({node, 4, CrashKind::Kill, std::nullopt});  // map, prepare, writable, writable
    world_->run_for(Duration::milliseconds(50));
    ASSERT_EQ(recorder_.crashes.size(), 1u);
    const Bytes seen = world_->disk(a_).contents("d/f");
    for (size_t i = 4; i < 36; ++i) ASSERT_EQ(seen[i], 1);
    uint64_t kept = 0;
    for (size_t word = 96; word < 304; word += 8) {
      const size_t begin = std::max<size_t>(word, 100), end = std::min<size_t>(word + 8, 300);
      for (size_t i = begin; i < end; ++i) ASSERT_EQ(seen[i], seen[begin]);
      ASSERT_TRUE(seen[begin] == 0 || seen[begin] == 2);
      kept += seen[begin] == 2;
    }
    partial += kept > 0 && kept < 26;
    for (size_t i = 400; i < 500; ++i) ASSERT_EQ(seen[i], 0);
    EXPECT_FALSE(world_->disk(a_).lookup("d/never"));
    EXPECT_EQ(world_->state(node), NodeState::Down);
  }
  EXPECT_GT(partial, 10u);
}

TEST_F(WorldTest, AFailedFlushIsFinalForItsLife) {
  make(1);
  auto main = writer();
  const NodeId node = add(a_, main);
  world_->start(node);
  Fault fault;
  fault.kind = FaultKind::FlushError;
  fault.host = a_;
  fault.trigger = {{}, CallKind::Writable, 0, node, 3, {}};  // on the third store
  world_->inject(fault);
  world_->run_for(Duration::milliseconds(50));
  EXPECT_EQ(world_->state(node), NodeState::Halted);
  EXPECT_EQ(world_->faults()[FaultClass::FlushError].mattered, 1u);
  EXPECT_EQ(rounds_, 1u);  // the step that stored thrice had asked for its flush before the fault came
}

TEST_F(WorldTest, BrokenContractsAreFailures) {
  const auto broken = [this](ScriptNode::Main main) {
    make(1);
    const NodeId node = add(a_, main);
    world_->start(node);
    world_->run_for(Duration::seconds(1));
    return world_->failures().empty() ? std::string("none") : world_->failures()[0].sentence;
  };
  const std::string cold = broken([](ScriptNode& n) -> Script {
    const auto file = co_await n.mapped(n.map("f", 4 * kPage, Open::New));
    if (file) (void)n.files.at(*file).view({0, 8});
  });
  EXPECT_NE(cold.find("neither prepared nor warm"), std::string::npos) << cold;
  const std::string sparse = broken([](ScriptNode& n) -> Script {
    const auto file = co_await n.mapped(n.map("f", 4 * kPage, Open::New));
    if (file) store(n.files.at(*file), {0, 8}, 1);
  });
  EXPECT_NE(sparse.find("never prepared"), std::string::npos) << sparse;
  const std::string early = broken([](ScriptNode& n) -> Script {
    const auto file = co_await n.mapped(n.map("f", 4 * kPage, Open::New));
    if (!file) co_return;
    n.prepare(*file, {0, kPage});
    co_await n.sleep(Duration::nanoseconds(1));
    store(n.files.at(*file), {0, 8}, 1);
  });
  EXPECT_NE(early.find("whose preparation is not done"), std::string::npos) << early;
  const std::string undeclared = broken([](ScriptNode& n) -> Script {
    const auto file = co_await n.mapped(n.map("f", 4 * kPage, Open::New));
    if (!file) co_return;
    const auto prepared = co_await n.done(n.prepare(*file, {0, 4 * kPage}));
    if (prepared) DriverAccess::base(n.files.at(*file))[5000] = 1;
  });
  EXPECT_NE(undeclared.find("f changed at 5000 without writable()"), std::string::npos) << undeclared;
  const std::string twice = broken([](ScriptNode& n) -> Script {
    n.read("f", 10);
    n.replace("f", as_bytes("x"));
    co_return;
  });
  EXPECT_NE(twice.find("a second request for f"), std::string::npos) << twice;
}

TEST_F(WorldTest, AOneWayPartitionDelaysAndHeals) {
  make(2);
  const auto talk = add_talk();
  Fault fault;
  fault.kind = FaultKind::OneWayPartition;
  fault.host = b_;
  fault.other = a_;
  fault.trigger.at = SimTime{7'000'000};
  fault.duration = Duration::seconds(5);
  world_->inject(fault);
  world_->run_for(Duration::seconds(4));
  EXPECT_LT(talk->echoed, 5000u);
  EXPECT_EQ(world_->faults()[FaultClass::OneWayPartition].mattered > 0, true);
  world_->run_for(Duration::seconds(4));
  EXPECT_EQ(talk->echoed, 5000u);
}

TEST_F(WorldTest, AHalfOpenConnectionTimesOutAtTheSenderOnly) {
  make(2);
  const auto talk = add_talk();
  Fault fault;
  fault.kind = FaultKind::HalfOpen;
  fault.host = a_;
  fault.other = b_;
  fault.trigger.at = SimTime{7'000'000};
  world_->inject(fault);
  world_->run_for(Duration::seconds(60));
  // Whoever had bytes on their way learns of it; the other waits for ever.
  EXPECT_NE(talk->why.has_value(), talk->server_why.has_value());
  EXPECT_EQ(talk->why ? *talk->why : *talk->server_why, Errc::TimedOut);
  EXPECT_GT(world_->faults()[FaultClass::HalfOpen].mattered, 0u);
}

TEST_F(WorldTest, AKillIsHeardAndAPowerLossIsSilent) {
  make(2);
  const auto first = add_talk();
  world_->at(SimTime{7'000'000}, [&] { world_->kill(first->server_node); });
  world_->run_for(Duration::seconds(1));
  EXPECT_TRUE(first->why == Errc::Reset || first->why == Errc::PeerClosed);
  make(2);
  const auto second = add_talk();
  second->is_patient = false;
  world_->at(SimTime{7'000'000}, [&] { world_->power_loss(b_, CrashKind::PowerLoss, Duration::seconds(2)); });
  world_->run_for(Duration::seconds(1));
  EXPECT_FALSE(second->why);
  world_->run_for(Duration::seconds(60));
  EXPECT_TRUE(second->why == Errc::Reset || second->why == Errc::TimedOut);
}

TEST_F(WorldTest, WallStepsMoveOnlyTheWall) {
  make(1);
  const Moment before = world_->clock(b_).moment(world_->now());
  Fault fault;
  fault.kind = FaultKind::WallStep;
  fault.host = b_;
  fault.amount = -86'400'000;
  fault.trigger.at = SimTime{1'000'000'000};
  world_->inject(fault);
  world_->run_for(Duration::seconds(10));
  const Moment after = world_->clock(b_).moment(world_->now());
  EXPECT_EQ((after.monotonic - before.monotonic).ns, 10'000'000'000 - 500'000);  // 50 ppm slow
  EXPECT_LT(after.wall.ms, before.wall.ms - 86'000'000);
  EXPECT_EQ(world_->clock(b_).when(after.monotonic).ns <= world_->now().ns, true);
}

TEST_F(WorldTest, StopPauseAndRestart) {
  make(1);
  ScriptNode::Main main = [](ScriptNode& n) -> Script { co_await n.until([&n] { return !n.told.empty(); }); };
  const NodeId node = add(a_, main);
  world_->start(node);
  world_->run_for(Duration::milliseconds(10));
  world_->pause(node, Duration::milliseconds(100));
  world_->stop(node, Duration::seconds(1));
  world_->run_for(Duration::milliseconds(50));
  EXPECT_EQ(world_->state(node), NodeState::Paused);
  world_->run_for(Duration::milliseconds(100));
  EXPECT_EQ(world_->state(node), NodeState::Stopped);
  world_->start(node);
  world_->kill(node, Duration::milliseconds(5));
  world_->run_for(Duration::milliseconds(10));
  EXPECT_EQ(recorder_.lives, (std::vector<std::string>{"1 started", "1 paused", "1 resumed", "1 stopped", "2 started", "2 killed", "3 started"}));
}

}  // namespace
}  // namespace fulmar::sim
