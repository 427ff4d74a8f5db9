// The simulated driver against the contract of core/io, on a calm network and disk and on rough ones.

#include "sim/world.h"
#include "tests/contract/boundary_cases.h"

namespace fulmar::contract {

using namespace fulmar::sim;

class Watcher : public WorldObserver {
 public:
  void on_trace(World&, Life, const TraceRecord& record) override { log.push_back(record.describe()); }
  void on_reply(World&, Life, CallId call, const Reply& reply) override { replies.emplace_back(call, reply); }
  std::vector<std::pair<CallId, Reply>> replies;
  std::vector<std::string> log;
};

class Rig {
 public:
  enum class End { Stopped, Halted, TimedOut };
  Rig(Seed seed, const Profile& profile, const DiskProfile& disk) : world_(seed, profile) {
    host_ = world_.add_host({"host-a", {20'000, Monotonic{5'000'000'000}, Wall{1'700'000'000'000}, 7200}, disk});
    world_.observe(watcher_);
  }
  std::string root() { return "/disk"; }
  std::string host() { return world_.address_of(host_); }
  End run(NodeFactory factory, Duration limit) {
    const NodeId node = world_.add_node({"node", host_, std::move(factory), {}});
    return play({node}, limit);
  }
  End run_pair(NodeFactory a, NodeFactory b, Duration limit) {
    const NodeId first = world_.add_node({"first", host_, std::move(a), {}}), second = world_.add_node({"second", host_, std::move(b), {}});
    return play({first, second}, limit);
  }
  void say(CallId call, Command command) { said_.emplace_back(call, std::move(command)); }
  std::vector<std::pair<CallId, Reply>> replies() { return watcher_.replies; }
  std::vector<std::string> log() { return watcher_.log; }

 private:
  End play(const std::vector<NodeId>& nodes, Duration limit) {
    for (const NodeId node : nodes) world_.start(node);
    world_.run_until(world_.now());
    for (auto& [call, command] : said_) world_.tell(nodes[0], call, command);
    said_.clear();
    const auto is_any_alive = [&] {
      return std::any_of(nodes.begin(), nodes.end(), [&](NodeId n) { return world_.state(n) == NodeState::Up; });
    };
    world_.run_while(is_any_alive, world_.now() + limit);
    for (const Failure& failure : world_.failures()) ADD_FAILURE() << failure.oracle << ": " << failure.sentence;
    End end = End::Stopped;
    for (const NodeId node : nodes) {
      if (world_.state(node) == NodeState::Halted && end == End::Stopped) end = End::Halted;
      if (world_.state(node) != NodeState::Up) continue;
      world_.kill(node);
      end = End::TimedOut;
    }
    return end;
  }
  World world_;
  HostId host_;
  Watcher watcher_;
  std::vector<std::pair<CallId, Command>> said_;
};

class CalmRig : public Rig {
 public:
  CalmRig() : Rig(Seed{1}, Profile{}, DiskProfile{}) {}
};

// Nothing here may break a contract; everything may be late, cut, joined, out of order and written back at any moment.
class RoughRig : public Rig {
 public:
  RoughRig() : Rig(Seed{2}, profile(), disk()) {}

 private:
  static Profile profile() {
    Profile p;
    p.network.chunking_weights = {1, 3, 2, 3};
    p.network.coalesce = {1, 3};
    p.network.window_bytes_min = 16u << 10;
    p.network.window_bytes_max = 1u << 20;
    p.network.link.tail = {1, 100};
    p.network.link.tail_max = Duration::milliseconds(20);
    p.cpu.batch_wait = {1, 4};
    p.cpu.is_batch_drawn = true;
    return p;
  }
  static DiskProfile disk() {
    DiskProfile d;
    d.write_back = {1, 4};
    d.flush_stall = {1, 4};
    d.flush_stall_max = Duration::milliseconds(500);
    d.call.tail = {1, 10};
    d.call.tail_max = Duration::milliseconds(50);
    return d;
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Calm, Boundary, CalmRig);
INSTANTIATE_TYPED_TEST_SUITE_P(Rough, Boundary, RoughRig);

}  // namespace fulmar::contract
