#pragma once
// The verbs of fulmar-sim. Each returns an exit status.

#include <cstdint>
#include <string>

namespace fulmar::sim {

struct RunOptions { std::string seed = "1", profile = "store"; bool is_json = false; };
int run_verb(const RunOptions& options);

struct ReplayOptions { std::string seed = "1", profile = "store"; bool is_traced = false; uint64_t until = 0, stop_at = 0; };
int replay_verb(const ReplayOptions& options);

struct SwarmOptions {
  std::string profile = "all", start = "1", mutant;
  uint64_t seeds = 0;
  double seconds = 0;
  int jobs = 0;
  uint64_t failures_max = 1;
  uint32_t twice_every = 20;      // every nth seed runs twice, and the hashes must agree
  bool is_json = false;
};
int swarm_verb(const SwarmOptions& options);

int list_verb(bool is_json);

struct ExploreOptions { std::string seed = "1"; int jobs = 0; uint64_t nested = 300; uint64_t step = 1; bool is_async = false, is_retaining = false, is_json = false; };
int explore_verb(const ExploreOptions& options);

struct MutantsOptions { std::string only, file = "sim/mutants.killed"; uint64_t seeds = 60; int jobs = 0; bool is_updating = false, is_short = false, is_json = false; };
int mutants_verb(const MutantsOptions& options);

int default_jobs();
// Seconds since an unspecified start.
double wall_seconds();
// "90", "90s", "10m", "1h".
bool parse_span(const std::string& text, double& seconds);

}  // namespace fulmar::sim
