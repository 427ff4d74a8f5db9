#pragma once
// How results are told: one line for people, one JSON object for programs, and the exact command that repeats a run.

#include <nlohmann/json.hpp>
#include <string>

#include "sim/run.h"

namespace fulmar::sim {

enum ExitStatus : int { kDone = 0, kFailed = 1, kWrongUsage = 2 };

std::string replay_command(std::string_view profile, Seed seed);
std::string one_line(const RunResult& result);
void print_failure(const RunResult& result);      // to stderr
nlohmann::json to_json(const RunResult& result);
RunResult result_from_json(const nlohmann::json& json);
// What a CHECK that failed, or a process that died, comes to.
RunResult crashed_result(std::string_view profile, Seed seed, std::string sentence);
// From now on a failed CHECK in this thread prints the command that repeats (profile, seed).
void report_crashes_of(std::string_view profile, Seed seed);

}  // namespace fulmar::sim
