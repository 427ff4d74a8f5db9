#pragma once
// O19  Recovery ends, and it is a function of the image: recovering the same image again, recovering what a recovery left, and recovering
// after a crash inside the recovery all give the same log and the same messages.

#include <optional>

#include "sim/oracles/facts.h"

namespace fulmar::sim {

class RecoveryAgrees {
 public:
  // What a recovery came to. `records` and `digest` are those of messages, not of the broker's own records. `may_lose`: a power cut
  // met stores that stood in the page cache only, so it may have fewer of them.
  struct Outcome { bool has_ended = false; uint64_t records = 0, digest = 0; std::string how; bool may_lose = false; };
  explicit RecoveryAgrees(Verdicts& verdicts) : verdicts_(verdicts) {}
  void begin_image(std::string name) { name_ = std::move(name); first_.reset(); }
  void outcome(const Outcome& outcome);

 private:
  Verdicts& verdicts_;
  std::string name_;
  std::optional<Outcome> first_;
};

}  // namespace fulmar::sim
