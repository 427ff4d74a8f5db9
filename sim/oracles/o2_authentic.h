#pragma once
// O2  Nothing is read that was not sent, and nothing that was refused; what is read has the very body, topic, keys, tags, properties, flag
// and born time that were sent, and its own place inside.

#include <set>

#include "sim/oracles/facts.h"

namespace fulmar::sim {

class Authentic {
 public:
  Authentic(const Ledger& ledger, Verdicts& verdicts) : ledger_(ledger), verdicts_(verdicts) {}
  // The id, when the record is ours.
  std::optional<MessageId> read(const Seen& seen);
  // A reply of `bytes` did not parse as records.
  void unreadable(std::string_view reader, const QueueKey& queue, const std::string& why);
  void refused(const SentMessage& message);

 private:
  void fail(const Seen& seen, const std::string& what);
  const Ledger& ledger_;
  Verdicts& verdicts_;
  std::set<MessageId> read_;
  std::vector<uint8_t> body_;
};

}  // namespace fulmar::sim
