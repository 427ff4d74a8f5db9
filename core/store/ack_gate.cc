#include "core/store/ack_gate.h"

namespace fulmar {

bool AckGate::hold(PhysicalOffset end, Monotonic deadline, uint64_t token) {
  AUDIT(held_.empty() || held_.at(held_.size() - 1).end <= end, "held out of order at {}", end);
  return held_.try_push({end, deadline, token});
}

void AckGate::release(PhysicalOffset durable_to, Monotonic now, std::vector<Released>& out) {
  while (!held_.empty()) {
    const Held& first = held_.front();
    const bool is_covered = first.end <= durable_to;
    if (!is_covered && first.deadline > now) break;
    out.push_back({first.token, !is_covered});
    (void)held_.pop();
  }
}

Monotonic AckGate::next_deadline() const { return held_.empty() ? Monotonic::never() : held_.front().deadline; }

}  // namespace fulmar
