#pragma once
// O17  After everything is healed the system works again within its bounds: brokers serve, sends succeed, groups drain, stops end.

#include <string>
#include <vector>

#include "sim/oracles/facts.h"

namespace fulmar::sim {

class Liveness {
 public:
  explicit Liveness(Verdicts& verdicts) : verdicts_(verdicts) {}
  // From `now_ns` on, `what` must come true within `bound_ns`.
  void expect(std::string what, int64_t now_ns, int64_t bound_ns);
  void came_true(std::string_view what);
  // Called as time passes; `state` says how things stand.
  void at(int64_t now_ns, const std::string& state);
  bool is_overdue(int64_t now_ns) const;

 private:
  struct Open { std::string what; int64_t from_ns, by_ns; };
  Verdicts& verdicts_;
  std::vector<Open> open_;
};

}  // namespace fulmar::sim
