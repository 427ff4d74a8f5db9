#pragma once
// O1a  An acknowledgement tells the truth when it leaves: at the moment of a SYNC_FLUSH ack, a power cut would keep the record's bytes, the
// file's size and its name. In every mode no byte is stored at or behind the append limit that is durable in the checkpoint, and what the
// broker calls flushed is what a power cut would keep: later acks and every promise of recovery rest on it.

#include <functional>
#include <map>
#include <set>

#include "sim/oracles/facts.h"

namespace fulmar::sim {

class TruthAtAck {
 public:
  // What the disk model says would survive a power cut now: the end of the durable prefix of log bytes [begin, end).
  using DurableEnd = std::function<uint64_t(uint64_t begin, uint64_t end)>;
  // The append limit that a power cut now would leave in the checkpoint.
  using DurableLimit = std::function<uint64_t()>;

  explicit TruthAtAck(Verdicts& verdicts) : verdicts_(verdicts) {}
  void add_broker(const std::string& broker, bool is_sync) { brokers_[broker].is_sync = is_sync; }
  // The broker hands out an ack. `waited`: it says that the ack promises durability.
  void acked(const std::string& broker, uint64_t begin, uint64_t end, bool waited, const DurableEnd& durable);
  // The sender was told SEND_OK for a record at `physical`.
  void told_ok(const SentMessage& message);
  void appended(const std::string& broker, uint64_t end, const DurableLimit& limit);
  // The broker says that its log is flushed up to `to`; it is durable up to `safe`.
  void flushed(const std::string& broker, uint64_t to, uint64_t safe);
  void restarted(const std::string& broker);

 private:
  struct Broker { bool is_sync = true; uint64_t limit = 0; std::set<uint64_t> not_waited; };
  Verdicts& verdicts_;
  std::map<std::string, Broker> brokers_;
};

}  // namespace fulmar::sim
