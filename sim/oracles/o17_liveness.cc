#include "sim/oracles/o17_liveness.h"

#include <fmt/format.h>

#include <algorithm>

namespace fulmar::sim {

void Liveness::expect(std::string what, int64_t now_ns, int64_t bound_ns) { open_.push_back({std::move(what), now_ns, now_ns + bound_ns}); }

void Liveness::came_true(std::string_view what) {
  std::erase_if(open_, [&](const Open& open) { return open.what == what; });
}

bool Liveness::is_overdue(int64_t now_ns) const {
  return std::any_of(open_.begin(), open_.end(), [&](const Open& open) { return now_ns >= open.by_ns; });
}

void Liveness::at(int64_t now_ns, const std::string& state) {
  for (auto it = open_.begin(); it != open_.end();) {
    if (now_ns < it->by_ns) { ++it; continue; }
    verdicts_.violated("O17", fmt::format("{} did not come true within {} s of healing: {}", it->what, (it->by_ns - it->from_ns) / 1'000'000'000, state));
    it = open_.erase(it);
  }
}

}  // namespace fulmar::sim
