// mutants: plants each bug of base/mutants.def and looks for the oracle that kills it. Seeds that killed before are tried first.

#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>

#include "core/base/marks.h"
#include "report.h"
#include "sim/swarm.h"
#include "verbs.h"
#include "workers.h"

namespace fulmar::sim {
namespace {

constexpr int kSecondsPerSeedMax = 60;

struct Killer { std::string profile; Seed seed; std::string oracle; };
struct Hunt { std::string name, wanted, oracle, other; Killer killer; uint64_t tried = 0, fired = 0; bool is_killed = false; };

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

Hunt hunt(const mutants::Description& mutant, const std::vector<Killer>& remembered, uint64_t seeds_max) {
  Hunt hunted{mutant.name, mutant.oracle, {}, {}, {}, 0, 0, false};
  const auto attempt = [&](const std::string& profile, Seed seed) {
    ++hunted.tried;
    const uint64_t fired_before = hunted.fired;
    const Killer killer = try_seed(mutant, profile, seed, hunted.fired);
    if (killer.oracle == "-" || hunted.fired == fired_before || !passes_without(profile, seed)) return false;
    if (killer.oracle == mutant.oracle) {
      hunted.killer = killer;
      hunted.is_killed = true;
      return true;
    }
    if (hunted.other.empty()) {
      hunted.other = killer.oracle;
      hunted.killer = killer;
    }
    return false;
  };
  for (const Killer& killer : remembered) {
    if (attempt(killer.profile, killer.seed)) return hunted;
  }
  static const char* const kOrder[] = {"store", "mixed", "store", "network", "store", "calm"};
  for (uint64_t i = 0; i < seeds_max; ++i) {
    if (attempt(kOrder[i % std::size(kOrder)], Seed{9'000 + i})) return hunted;
  }
  return hunted;
}

nlohmann::json to_json(const Hunt& f) {
  return {{"name", f.name}, {"oracle", f.wanted}, {"killed", f.is_killed}, {"other", f.other}, {"profile", f.killer.profile}, {"seed", fmt::format("{}", f.killer.seed.value)},
          {"tried", f.tried}, {"fired", f.fired}};
}

}  // namespace

int mutants_verb(const MutantsOptions& options) {
  std::vector<mutants::Description> all;
  for (const mutants::Description& m : mutants::all()) {
    if (std::string(m.name).find(options.only) != std::string::npos) all.push_back(m);
  }
  if (all.empty()) return std::fprintf(stderr, "no mutant has '%s' in its name\n", options.only.c_str()), kWrongUsage;
  std::map<std::string, std::vector<Killer>> killers = read_killers(options.file);
  std::vector<nlohmann::json> hunts;
  uint64_t given = 0, survived = 0;
  Workers workers(options.jobs > 0 ? options.jobs : default_jobs(), 3600, [&](uint64_t i) { return to_json(hunt(all[i], killers[all[i].name], options.seeds)).dump(); });
  workers.run([&]() -> std::optional<uint64_t> { return given < all.size() ? std::optional(given++) : std::nullopt; },
              [&](const WorkAnswer& answer) {
                nlohmann::json hunted = answer.is_crashed ? to_json(Hunt{all[answer.number].name, all[answer.number].oracle, {}, "harness", {}, 0, 0, false}) : nlohmann::json::parse(answer.text);
                const bool is_killed = hunted["killed"];
                if (!is_killed) ++survived;
                const std::string other = hunted["other"];
                if (!options.is_json) {
                  const std::string state = is_killed ? fmt::format("killed by {}", hunted["oracle"].get<std::string>())
                                            : other.empty() ? "SURVIVED" : fmt::format("KILLED BY {} ONLY, wanted {}", other, hunted["oracle"].get<std::string>());
                  std::printf("%-34s %-32s %s seed %s, %lu tried, fired %lu\n", hunted["name"].get<std::string>().c_str(), state.c_str(), hunted["profile"].get<std::string>().c_str(),
                              hunted["seed"].get<std::string>().c_str(), hunted["tried"].get<unsigned long>(), hunted["fired"].get<unsigned long>());
                  std::fflush(stdout);
                }
                hunts.push_back(std::move(hunted));
              });
  if (options.is_json) std::printf("%s\n", nlohmann::json(hunts).dump().c_str());
  else std::printf("mutants %zu, killed by the named oracle %zu, not %lu\n", hunts.size(), hunts.size() - survived, static_cast<unsigned long>(survived));
  if (options.is_updating) {
    for (const auto& hunted : hunts) {
      if (!hunted["killed"]) continue;
      killers[hunted["name"]] = {{hunted["profile"], Seed{std::stoull(hunted["seed"].get<std::string>())}, hunted["oracle"]}};
    }
    std::ofstream out(options.file);
    out << "# Seeds that killed a planted bug: name, profile, seed, oracle. Written by `fulmar-sim mutants --update`; tried first.\n";
    for (const auto& [name, list] : killers) {
      for (const Killer& k : list) out << fmt::format("{} {} {} {}\n", name, k.profile, k.seed.value, k.oracle);
    }
    if (!out) return std::fprintf(stderr, "%s cannot be written\n", options.file.c_str()), kFailed;
  }
  return survived == 0 ? kDone : kFailed;
}

}  // namespace fulmar::sim
