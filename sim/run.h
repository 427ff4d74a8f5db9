#pragma once
// Executes a scenario: chaos, healing, drain, clean stop, restart, verification; and says what came of it.

#include <functional>
#include <string>
#include <vector>

#include "sim/court.h"
#include "sim/scenario.h"
#include "sim/workload.h"

namespace fulmar::sim {

enum class Verdict : uint8_t { Pass, Safety, Liveness, Nondeterminism, Resource, Harness, TimeOut };
const char* to_string(Verdict verdict);
Verdict verdict_of(std::string_view oracle);     // what a violation of that oracle is

struct RunResult {
  Seed seed;
  std::string profile;
  Verdict verdict = Verdict::Pass;
  std::string oracle, sentence, phase;            // of the violation
  uint64_t step_hash = 0, events = 0;
  uint64_t sent = 0, acked = 0, refused = 0, unknown = 0, lost = 0, excused = 0, duplicated = 0;
  double simulated_seconds() const { return static_cast<double>(simulated_ns) / 1e9; }
  int64_t simulated_ns = 0;
  std::vector<FaultCounts::Named> faults;
  std::string recent;                             // last events of the brokers, for a failure
};

struct OracleInfo { const char* id; const char* sentence; };
std::vector<OracleInfo> oracles();

// The phases of a run, one after the other; scenario tests and `explore` step through them by themselves.
class Run {
 public:
  explicit Run(const Scenario& scenario);
  ~Run();
  World& world() { return world_; }
  Court& court() { return court_; }
  Workload& workload() { return workload_; }
  void observe(WorldObserver& observer) { world_.observe(observer); }

  // Asked before every event of the world; when it says no, the run ends there.
  void set_gate(std::function<bool()> gate) { gate_ = std::move(gate); }

  // Each answers false when an oracle has spoken.
  bool start();                    // nodes up, workload begun
  bool chaos();                    // for as long as the scenario says
  bool heal();                     // all faults end, all nodes run, sends succeed again
  bool share();                    // every queue of a group has one owner, also when members die; reset and wipe (only with several members)
  bool drain();                    // everything that is visible has been read and consumed
  bool stop();                     // in order; then the stores are complete on disk
  bool hurt();                     // damage at rest, when the scenario wants some
  bool verify();                   // and once more from the start: the same answers, no resources held
  RunResult result();
  RunResult all();
  bool wait_for(const std::string& what, const std::function<bool()>& condition);

 private:
  void tick();
  bool run_while(const std::function<bool()>& condition, SimTime until);
  bool run_for(Duration span) { return run_while([] { return true; }, world_.now() + span); }
  bool all_serving() const;
  void start_missing();

  Scenario scenario_;
  World world_;
  Court court_;
  Workload workload_;
  std::function<bool()> gate_;
  std::string phase_ = "start";
  bool is_kept_up_ = false;
};

RunResult run_scenario(const Scenario& scenario);

}  // namespace fulmar::sim
