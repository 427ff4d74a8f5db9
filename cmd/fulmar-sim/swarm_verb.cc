// swarm: many seeds in worker processes.

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <set>

#include "core/base/mutants.h"
#include "report.h"
#include "sim/swarm.h"
#include "verbs.h"
#include "workers.h"

namespace fulmar::sim {
namespace {

constexpr int kSecondsPerSeedMax = 120;

// Without a profile every seed has one of its own: most of them the disk's, for a run with network faults takes ten times as long.
constexpr std::string_view kAll = "all";
std::string profile_of(std::string_view asked, uint64_t seed) {
  static constexpr std::string_view kRotation[] = {"store", "churn", "edge", "media", "mixed", "cluster", "network", "media", "retention"};
  return std::string(asked == kAll ? kRotation[seed % std::size(kRotation)] : asked);
}

bool plant(const std::string& name) {
  for (const mutants::Description& m : mutants::all()) {
    if (name == m.name) return mutants::plant(m.id), true;
  }
  return false;
}

// Names of marks that this process hit for the first time since the last call.
nlohmann::json new_marks() {
  static std::set<std::string> known;
  nlohmann::json out = nlohmann::json::array();
  for (const marks::Count& mark : marks::counts()) {
    if (mark.hits > 0 && known.insert(mark.name).second) out.push_back(mark.name);
  }
  return out;
}

class Totals {
 public:
  explicit Totals(const SwarmOptions& options) : options_(options), began_(wall_seconds()), is_terminal_(isatty(STDERR_FILENO) != 0) {}
  void add(const RunResult& r, const nlohmann::json& new_mark_names) {
    ++seeds_;
    ++profiles_[r.profile];
    acked_ += r.acked;
    simulated_ += r.simulated_seconds();
    lost_ += r.lost;
    duplicated_ += r.duplicated;
    for (const auto& fault : r.faults) {
      faults_[fault.name].fired += fault.count.fired;
      faults_[fault.name].mattered += fault.count.mattered;
    }
    for (const auto& name : new_mark_names) marks_.insert(name.get<std::string>());
    if (r.verdict == Verdict::Pass) return;
    failures_.push_back(r);
    if (is_terminal_) std::fprintf(stderr, "\n");
    print_failure(r);
  }
  uint64_t seeds() const { return seeds_; }
  size_t failures() const { return failures_.size(); }
  double seconds() const { return wall_seconds() - began_; }
  void progress() {
    const double now = seconds();
    if (now - told_ < 1) return;
    told_ = now;
    const std::string line = fmt::format("{:.0f} s: {} seeds, {:.1f} simulated h, {} acked, {} failed, {:.1f} seeds/s", now, seeds_, simulated_ / 3600, acked_, failures_.size(),
                                         static_cast<double>(seeds_) / now);
    std::fprintf(stderr, is_terminal_ ? "\r%s" : "%s\n", line.c_str());
  }
  void table() const {
    if (options_.is_json) {
      nlohmann::json faults = nlohmann::json::object(), failures = nlohmann::json::array();
      for (const auto& [name, count] : faults_) faults[name] = {{"fired", count.fired}, {"mattered", count.mattered}};
      for (const RunResult& r : failures_) failures.push_back(to_json(r));
      std::printf("%s\n", nlohmann::json({{"seeds", seeds_}, {"simulated_hours", simulated_ / 3600}, {"acked", acked_}, {"lost", lost_}, {"duplicated", duplicated_},
                                          {"seconds", seconds()}, {"faults", faults}, {"marks", marks_}, {"failures", failures}}).dump().c_str());
      return;
    }
    if (is_terminal_) std::fprintf(stderr, "\n");
    for (const auto& [name, count] : faults_) std::printf("fault %-20s fired %8lu mattered %8lu\n", name.c_str(), static_cast<unsigned long>(count.fired), static_cast<unsigned long>(count.mattered));
    for (const std::string& mark : marks_) std::printf("mark  %s\n", mark.c_str());
    for (const auto& [name, count] : profiles_) std::printf("profile %-11s %lu seeds\n", name.c_str(), static_cast<unsigned long>(count));
    std::printf("faults that never fired:%s; that fired and never mattered:%s\n", names_where([](const auto& c) { return c.fired == 0; }).c_str(),
                names_where([](const auto& c) { return c.fired != 0 && c.mattered == 0; }).c_str());
    std::printf("swarm of profile %s: %lu seeds in %.1f s (%.2f/s), %.2f simulated hours, acked %lu lost %lu duplicated %lu, marks %zu, failed %zu\n", options_.profile.c_str(),
                static_cast<unsigned long>(seeds_), seconds(), static_cast<double>(seeds_) / seconds(), simulated_ / 3600, static_cast<unsigned long>(acked_),
                static_cast<unsigned long>(lost_), static_cast<unsigned long>(duplicated_), marks_.size(), failures_.size());
    for (const RunResult& r : failures_) std::printf("failed %s %s: %s\n", seed_text(r.profile, r.seed).c_str(), r.oracle.c_str(), r.sentence.c_str());
  }

 private:
  template <class Is> std::string names_where(Is is) const {
    std::string out;
    for (const auto& [name, count] : faults_) if (is(count)) out += " " + name;
    return out.empty() ? " none" : out;
  }

  const SwarmOptions& options_;
  double began_, told_ = 0;
  bool is_terminal_;
  uint64_t seeds_ = 0, acked_ = 0, lost_ = 0, duplicated_ = 0;
  double simulated_ = 0;
  std::map<std::string, uint64_t> profiles_;
  std::map<std::string, FaultCounts::Count> faults_;
  std::set<std::string> marks_;
  std::vector<RunResult> failures_;
};

std::string run_one(const std::string& profile, Seed seed, bool is_twice) {
  const Scenario scenario = make_scenario(profile, seed);
  RunResult result = run_scenario(scenario);
  if (is_twice && result.verdict == Verdict::Pass) {
    const RunResult again = run_scenario(scenario);
    if (again.step_hash != result.step_hash) {
      result.verdict = Verdict::Nondeterminism;
      result.oracle = "determinism";
      result.sentence = fmt::format("the second run of this seed ends with hash {:016x}", again.step_hash);
    }
  }
  nlohmann::json out = to_json(result);
  out["new_marks"] = new_marks();
  return out.dump();
}

}  // namespace

int swarm_verb(const SwarmOptions& options) {
  // A seed text brings its own profile; a number takes the one that was asked for.
  const bool is_all = options.profile == kAll;
  std::optional<SeedName> start = parse_seed(options.start, is_all ? "store" : options.profile);
  if (start && is_all && options.start.find(':') == std::string::npos) start->profile = kAll;
  if (!start) return std::fprintf(stderr, "'%s' with profile '%s' is no seed\n", options.start.c_str(), options.profile.c_str()), kWrongUsage;
  if (!options.mutant.empty() && !plant(options.mutant)) return std::fprintf(stderr, "no mutant is named %s\n", options.mutant.c_str()), kWrongUsage;
  const std::string profile = start->profile;
  Totals totals(options);
  Workers workers(options.jobs > 0 ? options.jobs : default_jobs(), kSecondsPerSeedMax, [&](uint64_t seed) {
    return run_one(profile_of(profile, seed), Seed{seed}, options.twice_every != 0 && seed % options.twice_every == 0);
  });
  uint64_t given = 0;
  const auto next = [&]() -> std::optional<uint64_t> {
    if (options.seeds != 0 && given >= options.seeds) return std::nullopt;
    if (options.seconds > 0 && totals.seconds() >= options.seconds) return std::nullopt;
    if (options.failures_max != 0 && totals.failures() >= options.failures_max) return std::nullopt;
    return start->seed.value + given++;
  };
  const auto on_answer = [&](const WorkAnswer& answer) {
    if (!answer.is_crashed) {
      const nlohmann::json json = nlohmann::json::parse(answer.text);
      return totals.add(result_from_json(json), json.at("new_marks"));
    }
    RunResult result = crashed_result(profile_of(profile, answer.number), Seed{answer.number}, answer.text);
    if (answer.is_timed_out) result.verdict = Verdict::TimeOut, result.oracle = "timeout";
    totals.add(result, nlohmann::json::array());
  };
  workers.run(next, on_answer, [&] { totals.progress(); });
  totals.table();
  return totals.failures() == 0 ? kDone : kFailed;
}

}  // namespace fulmar::sim
