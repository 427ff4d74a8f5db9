#pragma once
// Seed -> scenario, a pure function: which faults exist in this run, how often, which geometry, clocks and workload. Every fault class is
// on with one half; rates are log-uniform; one seed in ten is a storm (one class times twenty), one in ten is calm.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/scenario.h"

namespace fulmar::sim {

struct ProfileInfo { const char* name; const char* sentence; };
std::vector<ProfileInfo> profiles();

// `profile` is one of profiles().
Scenario make_scenario(std::string_view profile, Seed seed);

// "fulmar1:store:00000000000000ff", or a decimal number, which takes `profile`. Nothing: neither.
struct SeedName { std::string profile; Seed seed; };
std::optional<SeedName> parse_seed(std::string_view text, std::string_view profile);
std::string seed_text(std::string_view profile, Seed seed);

}  // namespace fulmar::sim
