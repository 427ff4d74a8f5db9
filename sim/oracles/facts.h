#pragma once
// What the oracles share: where a violation goes, and what a reader saw. An oracle is fed facts in the order in which they happened and
// speaks at the first one that breaks its sentence; it knows neither worlds nor nodes, so that a history can be made by hand.

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/ledger.h"
#include "sim/oracles/stored_record.h"

namespace fulmar::sim {

class Verdicts {
 public:
  virtual ~Verdicts() = default;
  virtual void violated(std::string_view oracle, std::string sentence) = 0;
};

// A record as somebody got it from a queue: the place is the one that the reader asked for or was told.
struct Seen {
  std::string_view reader;
  QueueKey queue;
  int64_t queue_offset = 0;
  StoredRecord record;
};

// What is left of a broker's log after a recovery. Everything at or behind `end` that was there is gone.
struct Recovery {
  std::string broker;
  uint64_t end = 0;
  int64_t at_ns = 0;
};

}  // namespace fulmar::sim
