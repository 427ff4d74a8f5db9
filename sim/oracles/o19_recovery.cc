#include "sim/oracles/o19_recovery.h"

#include <fmt/format.h>

namespace fulmar::sim {

void RecoveryAgrees::outcome(const Outcome& outcome) {
  if (!outcome.has_ended) {
    return verdicts_.violated("O19", fmt::format("the recovery of {} ({}) does not end", name_, outcome.how));
  }
  if (first_ && outcome.may_lose && outcome.records <= first_->records) return;
  if (!first_) {
    first_ = outcome;
    return;
  }
  if (outcome.digest == first_->digest && outcome.records == first_->records) return;
  verdicts_.violated("O19", fmt::format("the recovery of {} gives {} messages ({}) and {} others ({}): digests {:016x} and {:016x}", name_, first_->records,
                                        first_->how, outcome.records, outcome.how, first_->digest, outcome.digest));
}

}  // namespace fulmar::sim
