// fulmar-sim: the simulator program. Each verb has a file of its own.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "cmd/common/usage.h"
#include "report.h"
#include "verbs.h"

using namespace fulmar::sim;

namespace {

int fail_usage(const std::string& sentence) {
  std::fprintf(stderr, "%s\n", sentence.c_str());
  return kWrongUsage;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Runs Fulmar in a simulated world that breaks everything, and judges what it does.", "fulmar-sim");
  app.set_version_flag("--version", std::string("fulmar-sim " FULMAR_VERSION " (" FULMAR_REVISION ")"));
  app.require_subcommand(1);

  RunOptions run;
  CLI::App* run_app = app.add_subcommand("run", "one run of one seed");
  run_app->add_option("--seed", run.seed, "decimal, or fulmar1:PROFILE:HEX");
  run_app->add_option("--profile", run.profile, "store, network, mixed, edge, churn, media, retention, cluster, still or calm");
  run_app->add_flag("--json", run.is_json, "one JSON object");

  ReplayOptions replay;
  CLI::App* replay_app = app.add_subcommand("replay", "the same run with its trace");
  replay_app->add_option("--seed", replay.seed);
  replay_app->add_option("--profile", replay.profile);
  replay_app->add_flag("--trace", replay.is_traced, "print every event");
  replay_app->add_option("--until", replay.until, "stop after this event of the world");
  replay_app->add_option("--break", replay.stop_at, "raise SIGTRAP before this event of the world");

  SwarmOptions swarm;
  std::string swarm_for;
  CLI::App* swarm_app = app.add_subcommand("swarm", "many seeds in many processes");
  swarm_app->add_option("--seeds", swarm.seeds, "how many");
  swarm_app->add_option("--for", swarm_for, "how long: 60s, 10m");
  swarm_app->add_option("--start", swarm.start, "first seed");
  swarm_app->add_option("--profile", swarm.profile, "one of `list`, or all: each seed one of its own (the default)");
  swarm_app->add_option("--jobs", swarm.jobs);
  swarm_app->add_option("--failures", swarm.failures_max, "stop after so many; 0: collect all");
  swarm_app->add_option("--twice-every", swarm.twice_every, "every nth seed runs twice and must hash alike; 0: none");
  swarm_app->add_option("--mutant", swarm.mutant, "plant this bug first");
  swarm_app->add_flag("--json", swarm.is_json);

  bool is_list_json = false;
  CLI::App* list_app = app.add_subcommand("list", "profiles, faults, oracles, mutants");
  list_app->add_flag("--json", is_list_json);

  ExploreOptions explore;
  CLI::App* explore_app = app.add_subcommand("explore", "a crash at every I/O call of a workload, and inside the recoveries that follow");
  explore_app->add_option("--seed", explore.seed);
  explore_app->add_option("--jobs", explore.jobs);
  explore_app->add_option("--nested", explore.nested, "how many crashes inside recoveries");
  explore_app->add_option("--step", explore.step, "only every nth call");
  explore_app->add_flag("--async", explore.is_async, "ASYNC_FLUSH instead of SYNC_FLUSH");
  explore_app->add_flag("--retention", explore.is_retaining, "a log of two segments at most: crashes inside deletions, too");
  explore_app->add_flag("--json", explore.is_json);

  MutantsOptions mutants;
  CLI::App* mutants_app = app.add_subcommand("mutants", "plants every bug of base/mutants.def and looks for the oracle that kills it");
  mutants_app->add_option("--only", mutants.only, "names with this in them");
  mutants_app->add_option("--file", mutants.file, "remembered killing seeds");
  mutants_app->add_option("--seeds", mutants.seeds, "seeds to try for each");
  mutants_app->add_option("--jobs", mutants.jobs);
  mutants_app->add_flag("--update", mutants.is_updating, "write the killing seeds to the file");
  mutants_app->add_flag("--short", mutants.is_short, "only the remembered seeds; bugs without one are listed and fail nothing");
  mutants_app->add_flag("--json", mutants.is_json);

  if (const auto over = fulmar::cmd::parse_command_line(app, argc, argv, [](const std::string& sentence) { fail_usage(sentence); })) return *over;
  if (run_app->parsed()) return run_verb(run);
  if (replay_app->parsed()) return replay_verb(replay);
  if (swarm_app->parsed()) {
    if (!swarm_for.empty() && !parse_span(swarm_for, swarm.seconds)) return fail_usage("--for takes 90, 90s, 10m or 1h, not " + swarm_for);
    if (swarm.seeds == 0 && swarm.seconds == 0) return fail_usage("swarm needs --seeds N or --for TIME");
    return swarm_verb(swarm);
  }
  if (list_app->parsed()) return list_verb(is_list_json);
  if (explore_app->parsed()) return explore_verb(explore);
  return mutants_verb(mutants);
}
