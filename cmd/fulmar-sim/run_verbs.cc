// run, replay and list.

#include <fmt/format.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>

#include "core/base/marks.h"
#include "report.h"
#include "sim/swarm.h"
#include "verbs.h"

namespace fulmar::sim {
namespace {

std::optional<SeedName> seed_or_complain(const std::string& text, const std::string& profile) {
  std::optional<SeedName> seed = parse_seed(text, profile);
  if (!seed) std::fprintf(stderr, "'%s' with profile '%s' is no seed: give a decimal number or fulmar1:PROFILE:HEX, and a profile of `fulmar-sim list`\n", text.c_str(), profile.c_str());
  return seed;
}

// Prints what happens, and stops where it is told to.
class Tracer final : public WorldObserver {
 public:
  explicit Tracer(const ReplayOptions& options) : options_(options) {}
  void on_trace(World& world, Life who, const TraceRecord& r) override { line(world, who, fmt::format("{} {}", r.info->name, r.describe())); }
  void on_life(World& world, Life who, LifeChange change, const Error* why) override {
    line(world, who, fmt::format("life {} {}{}", who.life, to_string(change), why == nullptr ? "" : " " + why->text()));
  }
  void on_fault(World& world, const Fault& fault) override { line(world, {fault.node, 0}, fmt::format("fault {} {}", fault.id, to_string(fault.kind))); }
  void on_call(World& world, const IoCall& call) override {
    line(world, call.who, fmt::format("call {} {} {} [{}, {}) conn {} bytes {}", call.nth, to_string(call.kind), call.path, call.range.begin, call.range.end, call.conn, call.bytes));
  }
  void on_told(World& world, Life who, CallId call, const Command& command) override { line(world, who, fmt::format("told {} {}", call, name_of(command))); }
  void on_reply(World& world, Life who, CallId call, const Reply& reply) override { line(world, who, fmt::format("reply {} {}", call, describe(reply))); }
  void on_crashed(World& world, const CrashReport& report, const SimDisk&) override {
    line(world, {report.nodes.empty() ? NodeId{} : report.nodes.front(), 0},
         fmt::format("crash kind {} image {}: pages {} undurable {} kept {} torn, names {} lost of {}, words {} kept {} lost", static_cast<int>(report.kind), to_string(report.pattern),
                     report.pages_undurable, report.pages_kept, report.pages_torn, report.names_lost, report.names_pending, report.words_kept, report.words_lost));
  }
  void on_failure(World& world, std::string_view oracle, std::string_view sentence) override { line(world, {}, fmt::format("VIOLATED {}: {}", oracle, sentence)); }

 private:
  void line(World& world, Life who, const std::string& text) {
    if (!options_.is_traced) return;
    std::printf("%12.6f %8lu %-10s %s\n", static_cast<double>(world.now().ns) / 1e9, static_cast<unsigned long>(world.events_run()), world.name(who.node).c_str(), text.c_str());
  }
  const ReplayOptions& options_;
};

}  // namespace

int default_jobs() { return static_cast<int>(std::max(1l, sysconf(_SC_NPROCESSORS_ONLN))); }

double wall_seconds() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

bool parse_span(const std::string& text, double& seconds) {
  uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc{}) return false;
  const std::string_view unit(parsed.ptr, static_cast<size_t>(end - parsed.ptr));
  const int factor = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  seconds = static_cast<double>(number) * factor;
  return factor != 0;
}

int run_verb(const RunOptions& options) {
  const std::optional<SeedName> seed = seed_or_complain(options.seed, options.profile);
  if (!seed) return kWrongUsage;
  report_crashes_of(seed->profile, seed->seed);
  const RunResult result = run_scenario(make_scenario(seed->profile, seed->seed));
  if (options.is_json) {
    std::printf("%s\n", to_json(result).dump().c_str());
  } else if (result.verdict == Verdict::Pass) {
    for (const auto& fault : result.faults) {
      if (fault.count.fired != 0) std::printf("fault %s fired %lu mattered %lu\n", fault.name, static_cast<unsigned long>(fault.count.fired), static_cast<unsigned long>(fault.count.mattered));
    }
    std::printf("%s\n", one_line(result).c_str());
  }
  if (result.verdict == Verdict::Pass) return kDone;
  if (!options.is_json) std::fprintf(stderr, "%s", result.recent.c_str());
  print_failure(result);
  return kFailed;
}

int replay_verb(const ReplayOptions& options) {
  const std::optional<SeedName> seed = seed_or_complain(options.seed, options.profile);
  if (!seed) return kWrongUsage;
  report_crashes_of(seed->profile, seed->seed);
  Run run(make_scenario(seed->profile, seed->seed));
  Tracer tracer(options);
  run.observe(tracer);
  if (options.until != 0 || options.stop_at != 0) {
    // Looked at before every event of the world.
    World& world = run.world();
    const uint64_t until = options.until, stop_at = options.stop_at;
    run.set_gate([&world, until, stop_at] {
      if (stop_at != 0 && world.events_run() + 1 == stop_at) raise(SIGTRAP);
      return until == 0 || world.events_run() < until;
    });
  }
  const RunResult result = run.all();
  if (result.verdict == Verdict::Pass || (options.until != 0 && result.oracle == "harness")) {
    std::printf("%s\n", one_line(result).c_str());
    return kDone;
  }
  print_failure(result);
  return kFailed;
}

int list_verb(bool is_json) {
  nlohmann::json out = {{"profiles", nlohmann::json::array()}, {"faults", nlohmann::json::array()}, {"oracles", nlohmann::json::array()}, {"mutants", nlohmann::json::array()}};
  for (const ProfileInfo& p : profiles()) out["profiles"].push_back({{"name", p.name}, {"meaning", p.sentence}});
  for (const auto& fault : FaultCounts{}.all()) out["faults"].push_back({{"name", fault.name}});
  for (const OracleInfo& o : oracles()) out["oracles"].push_back({{"name", o.id}, {"meaning", o.sentence}});
  for (const mutants::Description& m : mutants::all()) out["mutants"].push_back({{"name", m.name}, {"oracle", m.oracle}, {"meaning", m.sentence}});
  if (is_json) {
    std::printf("%s\n", out.dump().c_str());
    return kDone;
  }
  for (const auto& [kind, items] : out.items()) {
    for (const auto& item : items) {
      std::printf("%-9s %-34s %s%s\n", kind.c_str(), item["name"].get<std::string>().c_str(), item.contains("oracle") ? (item["oracle"].get<std::string>() + ": ").c_str() : "",
                  item.value("meaning", std::string()).c_str());
    }
  }
  return kDone;
}

}  // namespace fulmar::sim
