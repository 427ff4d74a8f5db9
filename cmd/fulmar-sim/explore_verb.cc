// explore: a crash at every I/O call of one workload. The workload runs once; before each event that will make calls, the process forks a
// child for each of them, which crashes there, recovers and is judged. So nothing is run twice but what comes after the crash.

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <vector>

#include "report.h"
#include "sim/swarm.h"
#include "verbs.h"
#include "workers.h"

namespace fulmar::sim {
namespace {

constexpr uint32_t kOperations = 400;

Scenario explored(const ExploreOptions& options, Seed seed) {
  BrokerGeometry geometry;
  geometry.is_sync = !options.is_async;
  geometry.log_file_bytes = 64 * 1024;
  geometry.queue_file_entries = 60;
  geometry.index_slots = 40;
  geometry.index_entries = 200;
  geometry.unflushed_bytes_max = 128 * 1024;
  geometry.flush_interval_ms = 100;
  geometry.queue_flush_interval_ms = 400;
  if (options.is_retaining) geometry.retain_bytes_max = 2 * geometry.log_file_bytes;
  Scenario s = plain_scenario(seed, geometry);
  s.profile = "explore";
  s.load.messages_max = kOperations;
  s.load.topics = 2;
  s.load.queues = 2;
  s.load.batched = {1, 4};
  s.load.batch_max = 4;
  s.load.body_bytes_max = options.is_retaining ? 2'500 : 400;
  s.load.large = {1, 60};
  s.load.large_bytes_max = 9000;
  s.load.gap_max = Duration::milliseconds(30);
  s.oracles.recovery_checks = 1;
  s.oracles.recovery_every = 1;
  s.oracles.checks_wire = false;
  s.chaos = Duration::seconds(6);
  return s;
}

// How many calls the broker had made after each event of the world.
std::vector<uint64_t> count_calls(const Scenario& scenario) {
  std::vector<uint64_t> calls{0};
  Run run(scenario);
  run.set_gate([&] {
    calls.resize(run.world().events_run() + 1, run.world().calls(kBrokerNode));
    calls.back() = run.world().calls(kBrokerNode);
    return true;
  });
  if (!run.start() || !run.chaos()) {
    print_failure(run.result());
    return {};
  }
  return calls;
}

// Crashes again inside the recovery that follows the first crash.
class CrashAgain final : public WorldObserver {
 public:
  explicit CrashAgain(uint64_t call, CrashKind kind) : call_(call), kind_(kind) {}
  void on_life(World& world, Life who, LifeChange change, const Error*) override {
    if (who.node != kBrokerNode || change != LifeChange::Started || who.life != 2) return;
    world.crash_at({kBrokerNode, world.calls(kBrokerNode) + call_, kind_, Duration::milliseconds(50)});
  }

 private:
  uint64_t call_;
  CrashKind kind_;
};

struct Point { uint64_t call = 0; CrashKind kind = CrashKind::Kill; uint64_t nested = 0; };
std::string text_of(const Point& p) {
  return fmt::format("{} at call {}{}", p.kind == CrashKind::Kill ? "kill" : "power cut", p.call, p.nested == 0 ? "" : fmt::format(", again at call {} of the recovery", p.nested));
}

class Explorer {
 public:
  Explorer(const ExploreOptions& options, Seed seed) : options_(options), seed_(seed), scenario_(explored(options, seed)), jobs_(options.jobs > 0 ? options.jobs : default_jobs()) {}

  int run() {
    const std::vector<uint64_t> calls = count_calls(scenario_);
    if (calls.empty()) return kFailed;
    const uint64_t total = calls.back();
    std::fprintf(stderr, "%lu calls in %zu events; a crash at each, killed and with the power cut\n", static_cast<unsigned long>(total), calls.size());
    nested_one_in_ = options_.nested == 0 ? 0 : std::max<uint64_t>(1, 2 * total / options_.step / options_.nested);
    began_ = told_ = wall_seconds();
    Run run(scenario_);
    run_ = &run;
    uint64_t last = 0;
    run.set_gate([&] {
      const uint64_t event = run.world().events_run() + 1;
      if (event >= calls.size()) return true;
      for (uint64_t n = calls[event - 1] + 1; n <= calls[event]; ++n) {
        if (n <= last || n % options_.step != 0) continue;
        last = n;
        explore_call(n, total);
      }
      return true;
    });
    (void)(run.start() && run.chaos());
    while (!children_.empty()) reap();
    std::printf("explored %lu calls: %lu crashes, %lu of them twice, %lu failed, %.1f s\n", static_cast<unsigned long>(total), static_cast<unsigned long>(done_),
                static_cast<unsigned long>(nested_done_), static_cast<unsigned long>(failed_), wall_seconds() - began_);
    return failed_ == 0 ? kDone : kFailed;
  }

 private:
  void explore_call(uint64_t n, uint64_t total) {
    for (const CrashKind kind : {CrashKind::Kill, CrashKind::PowerLoss}) {
      Point point{n, kind, 0};
      spawn(point);
      const uint64_t lot = draw(seed_, static_cast<Domain>(static_cast<uint32_t>(Domain::Scenario) + 60), n, static_cast<uint64_t>(kind));
      if (nested_one_in_ != 0 && lot % nested_one_in_ == 0) {
        point.nested = 1 + mix64(lot) % 80;
        spawn(point);
      }
    }
    if (wall_seconds() - told_ < 1) return;
    told_ = wall_seconds();
    std::fprintf(stderr, "%.0f s: call %lu of %lu, %lu crashes, %lu failed\n", told_ - began_, static_cast<unsigned long>(n), static_cast<unsigned long>(total), static_cast<unsigned long>(done_), static_cast<unsigned long>(failed_));
  }

  void spawn(const Point& point) {
    while (children_.size() >= static_cast<size_t>(jobs_)) reap();
    int fds[2];
    if (pipe(fds) != 0) std::abort();
    std::fflush(stdout);
    std::fflush(stderr);
    const pid_t pid = fork();
    if (pid == 0) {
      close(fds[0]);
      send_crash_reports_to(fds[1]);
      const std::string line = judge(point);
      if (write(fds[1], line.data(), line.size()) < 0) _exit(3);
      _exit(0);
    }
    close(fds[1]);
    children_.emplace(pid, std::pair(point, fds[0]));
  }

  // In the child: the world stands before the event that makes the call.
  std::string judge(const Point& point) {
    run_->set_gate({});
    World& world = run_->world();
    CrashAgain again(point.nested, point.kind);
    if (point.nested != 0) run_->observe(again);
    world.crash_at({kBrokerNode, point.call, point.kind, Duration::milliseconds(50)});
    run_->workload().end_sending();
    // The step of the crash may end without it: one more life is what tells.
    world.run_while([&] { return world.life(kBrokerNode).life < 2; }, world.now() + Duration::seconds(5));
    if (point.nested != 0) world.run_while([&] { return world.life(kBrokerNode).life < 3; }, world.now() + Duration::seconds(3));
    if (!world.has_failed()) (void)(run_->heal() && run_->drain() && run_->stop());
    const RunResult result = run_->result();
    if (result.verdict == Verdict::Pass) return "ok";
    return fmt::format("{} {}", result.oracle, result.sentence);
  }

  void reap() {
    int status = 0;
    const pid_t pid = wait(&status);
    const auto it = children_.find(pid);
    if (it == children_.end()) return;
    const auto [point, fd] = it->second;
    children_.erase(it);
    std::string text(1 << 16, 0);
    const ssize_t n = read(fd, text.data(), text.size());
    close(fd);
    text.resize(n > 0 ? static_cast<size_t>(n) : 0);
    ++done_;
    if (point.nested != 0) ++nested_done_;
    if (text == "ok") return;
    ++failed_;
    if (text.empty()) text = fmt::format("check the process died (status {})", status);
    std::printf("failed %s, seed %lu%s: %s\n", text_of(point).c_str(), static_cast<unsigned long>(seed_.value), options_.is_async ? ", async" : "", text.c_str());
    std::fflush(stdout);
  }

  const ExploreOptions& options_;
  Seed seed_;
  Scenario scenario_;
  int jobs_;
  Run* run_ = nullptr;
  uint64_t nested_one_in_ = 0, done_ = 0, nested_done_ = 0, failed_ = 0;
  double began_ = 0, told_ = 0;
  std::map<pid_t, std::pair<Point, int>> children_;
};

}  // namespace

int explore_verb(const ExploreOptions& options) {
  const std::optional<SeedName> seed = parse_seed(options.seed, "store");
  if (!seed || options.step == 0) return std::fprintf(stderr, "'%s' is no seed, or --step is 0\n", options.seed.c_str()), kWrongUsage;
  return Explorer(options, seed->seed).run();
}

}  // namespace fulmar::sim
