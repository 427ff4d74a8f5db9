#pragma once
// A story on the simulator: one name server, one broker, one client, a workload, and the faults that the story is about. Every oracle
// listens; a story passes when none speaks and what it expects has happened.

#include <gtest/gtest.h>

#include <algorithm>

#include "sim/run.h"

namespace fulmar::sim {

class LifeLog final : public WorldObserver {
 public:
  uint32_t halted = 0, killed = 0, stopped = 0;
  std::vector<std::string> why, events;
  void on_life(World&, Life who, LifeChange change, const Error* error) override {
    if (who.node != kBrokerNode) return;
    if (change == LifeChange::Halted) ++halted, why.push_back(error == nullptr ? "" : error->text());
    if (change == LifeChange::Killed) ++killed;
    if (change == LifeChange::Stopped) ++stopped;
  }
  void on_trace(World&, Life who, const TraceRecord& record) override {
    if (who.node == kBrokerNode) events.emplace_back(record.info->name);
  }
  uint64_t count(std::string_view name) const { return static_cast<uint64_t>(std::count(events.begin(), events.end(), name)); }
};

struct Story {
  explicit Story(bool is_sync, uint64_t seed = 1) {
    BrokerGeometry geometry;
    geometry.is_sync = is_sync;
    geometry.log_file_bytes = 128 * 1024;
    scenario = plain_scenario(Seed{seed}, geometry);
    scenario.profile = "story";
    scenario.chaos = Duration::seconds(8);
  }
  Fault& fault(FaultKind kind, Duration at) {
    Fault f;
    f.id = scenario.faults.size() + 1;
    f.kind = kind;
    f.trigger.at = SimTime{at.ns};
    f.trigger.node = f.node = kBrokerNode;
    f.host = HostId(1);
    scenario.faults.push_back(f);
    return scenario.faults.back();
  }
  Fault& crash(CrashKind kind, Duration at, uint64_t calls = 0) {
    Fault& f = fault(FaultKind::Crash, at);
    f.crash_kind = kind;
    f.calls = calls;
    return f;
  }
  void images(ImagePattern only) {
    scenario.hosts[1].disk.image_weights = {};
    scenario.hosts[1].disk.image_weights[static_cast<size_t>(only)] = 1;
  }
  // Runs it and expects that every oracle stays silent and that enough was acked to mean something.
  RunResult passes() {
    sim::Run run(scenario);
    run.observe(log);
    const RunResult result = run.all();
    EXPECT_EQ(result.verdict, Verdict::Pass) << result.oracle << " in " << result.phase << ": " << result.sentence << "\n" << result.recent;
    EXPECT_GE(result.acked, 100u);
    return result;
  }
  static uint64_t fired(const RunResult& result, FaultClass kind) { return result.faults[static_cast<size_t>(kind)].count.fired; }

  Scenario scenario;
  LifeLog log;
};

}  // namespace fulmar::sim
