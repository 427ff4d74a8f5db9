#include "report.h"

#include <fmt/format.h>

#include <cstdio>

#include "sim/swarm.h"

namespace fulmar::sim {

std::string replay_command(std::string_view profile, Seed seed) {
  return fmt::format("fulmar-sim replay --seed {} --trace   # source revision {}", seed_text(profile, seed), FULMAR_REVISION);
}

std::string one_line(const RunResult& r) {
  uint64_t fired = 0, mattered = 0;
  for (const auto& fault : r.faults) {
    fired += fault.count.fired;
    mattered += fault.count.mattered;
  }
  const std::string head = fmt::format("{} {}: sent {} acked {} refused {} unknown {} lost {} excused {} duplicated {}, {:.1f} s simulated, {} events, faults {} ({} mattered), hash {:016x}",
                                       r.verdict == Verdict::Pass ? "PASS" : "FAIL", seed_text(r.profile, r.seed), r.sent, r.acked, r.refused, r.unknown, r.lost,
                                       r.excused, r.duplicated, r.simulated_seconds(), r.events, fired, mattered, r.step_hash);
  if (r.verdict == Verdict::Pass) return head;
  return head + fmt::format("\n  {} {} in phase {}: {}", to_string(r.verdict), r.oracle, r.phase, r.sentence);
}

void print_failure(const RunResult& r) {
  std::fprintf(stderr, "%s\n  again: %s\n", one_line(r).c_str(), replay_command(r.profile, r.seed).c_str());
}

nlohmann::json to_json(const RunResult& r) {
  nlohmann::json faults = nlohmann::json::object();
  for (const auto& fault : r.faults) {
    if (fault.count.fired != 0) faults[fault.name] = {{"fired", fault.count.fired}, {"mattered", fault.count.mattered}};
  }
  nlohmann::json out = {{"seed", seed_text(r.profile, r.seed)}, {"step_hash", fmt::format("{:016x}", r.step_hash)}, {"verdict", to_string(r.verdict)},
                        {"oracle", r.oracle}, {"sentence", r.sentence}, {"phase", r.phase}, {"sent", r.sent}, {"acked", r.acked}, {"refused", r.refused},
                        {"unknown", r.unknown}, {"lost", r.lost}, {"excused", r.excused}, {"duplicated", r.duplicated}, {"events", r.events},
                        {"simulated_seconds", r.simulated_seconds()}, {"simulated_ns", r.simulated_ns}, {"faults", std::move(faults)}, {"revision", FULMAR_REVISION}};
  if (r.verdict != Verdict::Pass) out["replay"] = replay_command(r.profile, r.seed);
  return out;
}

RunResult result_from_json(const nlohmann::json& json) {
  RunResult r;
  const SeedName seed = parse_seed(json.at("seed").get<std::string>(), "store").value();
  r.seed = seed.seed;
  r.profile = seed.profile;
  const std::string verdict = json.at("verdict");
  for (int v = 0; v <= static_cast<int>(Verdict::TimeOut); ++v) {
    if (verdict == to_string(static_cast<Verdict>(v))) r.verdict = static_cast<Verdict>(v);
  }
  r.oracle = json.at("oracle");
  r.sentence = json.at("sentence");
  r.phase = json.at("phase");
  r.step_hash = std::stoull(json.at("step_hash").get<std::string>(), nullptr, 16);
  r.sent = json.at("sent");
  r.acked = json.at("acked");
  r.refused = json.at("refused");
  r.unknown = json.at("unknown");
  r.lost = json.at("lost");
  r.excused = json.at("excused");
  r.duplicated = json.at("duplicated");
  r.events = json.at("events");
  r.simulated_ns = json.at("simulated_ns");
  for (FaultCounts::Named fault : FaultCounts{}.all()) {
    const auto it = json.at("faults").find(fault.name);
    if (it != json.at("faults").end()) fault.count = {it->at("fired"), it->at("mattered")};
    r.faults.push_back(fault);
  }
  return r;
}

RunResult crashed_result(std::string_view profile, Seed seed, std::string sentence) {
  RunResult r;
  r.seed = seed;
  r.profile = profile;
  r.verdict = Verdict::Safety;
  r.oracle = "check";
  r.sentence = std::move(sentence);
  r.phase = "?";
  return r;
}

void report_crashes_of(std::string_view profile, Seed seed) {
  static std::string command;
  command = replay_command(profile, seed);
  crash_context().arg = nullptr;
  crash_context().on_crash = [](const std::string&, void*) {
    std::fprintf(stderr, "  again: %s\n", command.c_str());
    std::fflush(stderr);
  };
}

}  // namespace fulmar::sim
