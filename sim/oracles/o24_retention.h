#pragma once
// O24  Retention takes from the front of the log, file by file, and for a reason that its settings allow: no message that is younger than
// it was promised to stay (by a clock that nobody sets), none that a group has yet to consume where that is promised; and no file leaves
// the disk before a power cut would find a checkpoint that says so. (That topics, offsets and next offsets outlive their segments, and
// that minima tell the truth, is what O1, O3, O10 and O20 say of every store.)

#include <map>
#include <string>

#include "sim/oracles/facts.h"

namespace fulmar::sim {

struct RetentionRules {
  int64_t reserved_ms = 0;
  uint64_t bytes_max = 0;
  bool may_force = false, keeps_unread = false;
};

class RetentionTruth {
 public:
  RetentionTruth(const Ledger& ledger, Verdicts& verdicts) : ledger_(ledger), verdicts_(verdicts) {}
  void add_broker(const std::string& broker, RetentionRules rules) { brokers_[broker].rules = rules; }
  // A life began; by `leap_ms` its host's clock had been set ahead before, in all: what that makes old is not held against it.
  void recovered(const std::string& broker, uint64_t begin, int64_t at_ns, int64_t leap_ms);
  void expired(const std::string& broker, uint64_t begin, uint64_t end, std::string_view why, uint64_t appended, int64_t now_ns);
  void begins(const std::string& broker, uint64_t at);
  // The file of [begin, end) leaves its name; a power cut now would find a log that begins at `durable_begin`.
  void file_leaves(const std::string& broker, uint64_t begin, uint64_t end, uint64_t durable_begin);
  uint64_t begin_of(const std::string& broker) const;

 private:
  struct Broker {
    RetentionRules rules;
    uint64_t begin = 0, announced = 0;
    int64_t life_ns = 0, leap_ms = 0;
  };
  const Ledger& ledger_;
  Verdicts& verdicts_;
  std::map<std::string, Broker> brokers_;
};

}  // namespace fulmar::sim
