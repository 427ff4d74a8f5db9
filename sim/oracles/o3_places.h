#pragma once
// O3, for messages whose sender chose how often and where they may stand: one that went one way is sent once, so it stands at one place at
// most; copies of one with a sharding key all stand in one queue.

#include <map>

#include "sim/oracles/facts.h"

namespace fulmar::sim {

class Places {
 public:
  explicit Places(Verdicts& verdicts) : verdicts_(verdicts) {}
  void read(const Seen& seen, const SentMessage& message);

 private:
  struct Place { QueueKey queue; int64_t offset = 0; };
  Verdicts& verdicts_;
  std::map<MessageId, Place> places_;   // of those messages, the first that was seen
};

}  // namespace fulmar::sim
