// mutants: plants each bug of base/mutants.def and looks for the oracle that kills it. Seeds that killed before are tried first; the short
// form tries nothing else, so that it is quick and says the same each time.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>

#include "core/base/mutants.h"
#include "report.h"
#include "sim/swarm.h"
#include "verbs.h"
#include "workers.h"

namespace fulmar::sim {
namespace {

constexpr int kSecondsPerSeedMax = 60;
constexpr uint64_t kRememberedMin = 20;    // fewer bugs with a killing seed are no test of the oracles
constexpr std::string_view kUnitTest = "unit";   // instead of an oracle: nothing to hunt here
constexpr size_t kKillersMax = 3;          // remembered for each bug: a change of the core moves what a seed does

struct Killer { std::string profile; Seed seed; std::string oracle; };
struct Hunt {
  const mutants::Description* mutant = nullptr;
  std::vector<Killer> killers;             // by the named oracle
  Killer other;                            // the first by another one
  uint64_t tried = 0, fired = 0;
  bool is_remembered = false;
};

// Lines "name profile seed oracle"; '#' begins a comment.
std::map<std::string, std::vector<Killer>> read_killers(const std::string& path) {
  std::map<std::string, std::vector<Killer>> out;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string name, profile, seed, oracle;
    if (!(words >> name >> profile >> seed >> oracle)) continue;
    if (const auto parsed = parse_seed(seed, profile)) out[name].push_back({profile, parsed->seed, oracle});
  }
  return out;
}

// One seed with the bug planted, in a process of its own: the bug may abort it.
Killer try_seed(const mutants::Description& mutant, const std::string& profile, Seed seed, uint64_t& fired) {
  std::string how;
  const auto line = run_in_child([&] {
    mutants::plant(mutant.id);
    const RunResult result = run_scenario(make_scenario(profile, seed));
    return fmt::format("{} {}", mutants::fired(), result.verdict == Verdict::Pass ? "-" : result.oracle);
  }, kSecondsPerSeedMax, &how);
  if (!line) return ++fired, Killer{profile, seed, how.starts_with("no end") ? "timeout" : "check"};
  std::istringstream words(*line);
  uint64_t count = 0;
  Killer out{profile, seed, {}};
  words >> count >> out.oracle;
  fired += count;
  return out;
}

// A seed that fails by itself proves nothing about a bug.
bool passes_without(const std::string& profile, Seed seed) {
  const auto line = run_in_child([&] { return std::string(run_scenario(make_scenario(profile, seed)).verdict == Verdict::Pass ? "pass" : "fail"); }, kSecondsPerSeedMax, nullptr);
  return line == "pass";
}

// Until so many seeds killed the bug, or all are tried.
Hunt hunt(const mutants::Description& mutant, const std::vector<Killer>& remembered, uint64_t seeds_max, size_t killers_max) {
  Hunt out{&mutant, {}, {}, 0, 0, !remembered.empty()};
  const auto attempt = [&](const std::string& profile, Seed seed) {
    const auto is_it = [&](const Killer& k) { return k.profile == profile && k.seed == seed; };
    if (out.killers.size() >= killers_max || std::any_of(out.killers.begin(), out.killers.end(), is_it)) return;
    ++out.tried;
    const uint64_t fired_before = out.fired;
    const Killer killer = try_seed(mutant, profile, seed, out.fired);
    if (killer.oracle == "-" || out.fired == fired_before) return;
    const bool is_named = killer.oracle == mutant.oracle;
    if ((!is_named && !out.other.oracle.empty()) || !passes_without(profile, seed)) return;
    if (is_named) out.killers.push_back(killer);
    else out.other = killer;
  };
  for (const Killer& killer : remembered) attempt(killer.profile, killer.seed);
  static const char* const kOrder[] = {"store", "edge", "churn", "media", "mixed", "retention", "edge", "churn", "media", "retention", "network", "cluster", "still", "calm"};
  for (uint64_t i = 0; i < seeds_max; ++i) attempt(kOrder[i % std::size(kOrder)], Seed{9'000 + i});
  return out;
}

nlohmann::json to_json(const Hunt& h) {
  nlohmann::json seeds = nlohmann::json::array();
  for (const Killer& k : h.killers) seeds.push_back({{"profile", k.profile}, {"seed", fmt::format("{}", k.seed.value)}});
  return {{"name", h.mutant->name}, {"oracle", h.mutant->oracle}, {"killed", !h.killers.empty()}, {"seeds", seeds}, {"other", h.other.oracle},
          {"other_seed", h.other.oracle.empty() ? "" : fmt::format("{} {}", h.other.profile, h.other.seed.value)}, {"tried", h.tried}, {"fired", h.fired},
          {"remembered", h.is_remembered}};
}

std::string state_of(const nlohmann::json& hunted, bool is_short) {
  const std::string other = hunted["other"], wanted = hunted["oracle"];
  if (hunted["killed"]) return fmt::format("killed by {}", wanted);
  if (!other.empty()) return fmt::format("KILLED BY {} ONLY, wanted {} ({})", other, wanted, hunted["other_seed"].get<std::string>());
  return is_short && !hunted["remembered"] ? "not killed yet" : "SURVIVED";
}

// What was hunted and not killed is forgotten; so is what is no bug any more.
void remember(std::map<std::string, std::vector<Killer>>& killers, const std::vector<nlohmann::json>& hunts) {
  std::erase_if(killers, [](const auto& entry) {
    const std::vector<mutants::Description> known = mutants::all();
    return std::none_of(known.begin(), known.end(), [&](const mutants::Description& m) { return entry.first == m.name; });
  });
  for (const auto& hunted : hunts) {
    killers.erase(hunted["name"].get<std::string>());
    for (const auto& k : hunted["seeds"]) {
      killers[hunted["name"]].push_back({k["profile"], Seed{std::stoull(k["seed"].get<std::string>())}, hunted["oracle"]});
    }
  }
}

bool write_killers(const std::string& path, const std::map<std::string, std::vector<Killer>>& killers) {
  std::ofstream out(path);
  out << "# Seeds that killed a planted bug: name, profile, seed, oracle. Written by `fulmar-sim mutants --update`; tried first.\n";
  for (const auto& [name, list] : killers) {
    for (const Killer& k : list) out << fmt::format("{} {} {} {}\n", name, k.profile, k.seed.value, k.oracle);
  }
  return static_cast<bool>(out.flush());
}

}  // namespace

int mutants_verb(const MutantsOptions& options) {
  std::vector<mutants::Description> all;
  size_t left_to_unit_tests = 0;
  for (const mutants::Description& m : mutants::all()) {
    if (std::string_view(m.oracle) == kUnitTest) ++left_to_unit_tests;
    else if (std::string(m.name).find(options.only) != std::string::npos) all.push_back(m);
  }
  if (all.empty()) return std::fprintf(stderr, "no mutant has '%s' in its name\n", options.only.c_str()), kWrongUsage;
  std::map<std::string, std::vector<Killer>> killers = read_killers(options.file);
  std::vector<nlohmann::json> hunts;
  const uint64_t seeds_max = options.is_short ? 0 : options.seeds;
  const size_t killers_max = options.is_updating ? kKillersMax : 1;
  uint64_t given = 0, killed = 0, missed = 0;
  Workers workers(options.jobs > 0 ? options.jobs : default_jobs(), 3600, [&](uint64_t i) { return to_json(hunt(all[i], killers[all[i].name], seeds_max, killers_max)).dump(); });
  workers.run([&]() -> std::optional<uint64_t> { return given < all.size() ? std::optional(given++) : std::nullopt; },
              [&](const WorkAnswer& answer) {
                const mutants::Description& mutant = all[answer.number];
                nlohmann::json hunted = answer.is_crashed ? to_json(Hunt{&mutant, {}, {"", {}, "harness"}, 0, 0, true}) : nlohmann::json::parse(answer.text);
                if (hunted["killed"]) ++killed;
                else if (!options.is_short || hunted["remembered"]) ++missed;
                if (!options.is_json) {
                  std::string seeds;
                  for (const auto& k : hunted["seeds"]) seeds += fmt::format(" {} {}", k["profile"].get<std::string>(), k["seed"].get<std::string>());
                  std::printf("%-34s %s:%s, %lu tried, fired %lu\n", mutant.name, state_of(hunted, options.is_short).c_str(), seeds.empty() ? " no seed" : seeds.c_str(),
                              hunted["tried"].get<unsigned long>(), hunted["fired"].get<unsigned long>());
                  std::fflush(stdout);
                }
                hunts.push_back(std::move(hunted));
              });
  if (options.is_json) std::printf("%s\n", nlohmann::json(hunts).dump().c_str());
  else std::printf("mutants %zu (and %zu left to unit tests), killed by the named oracle %lu, missed %lu\n", hunts.size(), left_to_unit_tests, static_cast<unsigned long>(killed), static_cast<unsigned long>(missed));
  if (options.is_updating) {
    remember(killers, hunts);
    if (!write_killers(options.file, killers)) return std::fprintf(stderr, "%s cannot be written\n", options.file.c_str()), kFailed;
  }
  const bool is_enough = killed >= kRememberedMin || !options.is_short || !options.only.empty();
  if (!is_enough) std::fprintf(stderr, "only %lu bugs are killed by seeds of %s, at least %lu must be\n", static_cast<unsigned long>(killed), options.file.c_str(), static_cast<unsigned long>(kRememberedMin));
  return missed == 0 && is_enough ? kDone : kFailed;
}

}  // namespace fulmar::sim
