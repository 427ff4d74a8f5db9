// O19's experiment: a broker alone on a copy of a disk.

#include <fmt/format.h>

#include "core/model/config.h"
#include "sim/court.h"
#include "sim/oracles/fsck.h"

namespace fulmar::sim {
namespace {

constexpr Duration kRecoveryBound = Duration::seconds(120);

class ServingWatch final : public WorldObserver {
 public:
  bool is_serving = false;
  void on_trace(World&, Life, const TraceRecord& record) override {
    if (record.info->id == hash_text("BrokerServing")) is_serving = true;
  }
  void on_life(World&, Life, LifeChange change, const Error*) override {
    if (change != LifeChange::Started) is_serving = false;
  }
};

}  // namespace

TrialOutcome try_recovery(SimDisk image, const std::string& config_found, const ClockSpec& clock, Seed seed, const RecoveryTrial& trial) {
  // Its stop writes all queues, for everything that was recovered is compared.
  Result<BrokerConfig> parsed = parse_broker_config(config_found, nullptr);
  CHECK(parsed.has_value(), "{}", config_found);
  parsed->queue_round_cost_us = 0;
  const std::string config = serialise(*parsed);
  TrialOutcome out;
  out.outcome.how = trial.crash_at != 0 ? fmt::format("{} at call {} of the recovery", trial.crash_at, trial.kind == CrashKind::Kill ? "killed" : "power cut") : trial.again ? "recovered, killed, recovered" : "recovered once";
  World world(seed, Profile{});
  const HostId host = world.add_host({"broker", clock, image.profile()});
  world.disk(host) = std::move(image);
  world.disk(host).set_used_by_others(0);   // a recovery waits for room on a full disk, for ever if nobody makes any
  const NodeFactory factory = [&config](Seed node_seed, Files& files, Trace& trace) {
    Result<std::unique_ptr<Node>> node = make_node(NodeKind::Broker, config, node_seed, files, trace);
    CHECK(node.has_value(), "{}", node.error().text());
    return std::move(*node);
  };
  const NodeId node = world.add_node({"broker", host, factory, {}});
  ServingWatch watch;
  world.observe(watch);
  if (trial.crash_at != 0) world.crash_at({node, trial.crash_at, trial.kind, Duration::milliseconds(50)});
  world.start(node);
  const auto serve = [&] {
    world.run_while([&] { return !watch.is_serving && world.state(node) != NodeState::Halted; }, world.now() + kRecoveryBound);
    return watch.is_serving && !world.has_failed();
  };
  out.outcome.has_ended = serve();
  out.calls = world.calls(node);
  if (out.outcome.has_ended && trial.again) {
    world.kill(node, Duration::milliseconds(50));
    watch.is_serving = false;
    out.outcome.has_ended = serve();
  }
  world.heal();
  if (out.outcome.has_ended) {
    world.stop(node, Duration::seconds(30));
    world.run_while([&] { return world.state(node) == NodeState::Up; }, world.now() + kRecoveryBound);
    if (world.state(node) == NodeState::Down) {  // the crash point came late
      out.outcome.has_ended = serve();
      world.stop(node, Duration::seconds(30));
      world.run_while([&] { return world.state(node) == NodeState::Up; }, world.now() + kRecoveryBound);
    }
    out.outcome.has_ended = out.outcome.has_ended && world.state(node) == NodeState::Stopped;
  }
  if (world.has_failed()) out.failure = fmt::format("{}: {}", world.failures().front().oracle, world.failures().front().sentence);
  if (!out.outcome.has_ended) {
    out.outcome.how += "\n" + world.recent_events(node);
    return out;
  }
  StoreFiles files;
  for (const std::string& path : world.disk(host).files()) files.emplace(path, world.disk(host).contents(path));
  FsckOptions options;
  options.is_clean = true;
  const StoreReport report = fsck(files, options);
  out.problems = report.problems;
  out.outcome.digest = report.digest();
  for (const auto& [key, records] : report.queues) {
    if (!key.first.starts_with("rmq_sys_")) out.outcome.records += records.size();
  }
  return out;
}

}  // namespace fulmar::sim
