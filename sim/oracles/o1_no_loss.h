#pragma once
// O1  No acknowledged message is lost. SYNC_FLUSH: whatever crashes. ASYNC_FLUSH: a process that dies loses nothing; a power cut (or a
// flush that failed) may take only what lies in the range that the broker names at its next start. FLUSH_DISK_TIMEOUT promises what
// ASYNC_FLUSH does, without the naming: it may be lost where the log was not flushed.

#include <map>
#include <set>
#include <vector>

#include "sim/oracles/facts.h"

namespace fulmar::sim {

class NoLoss {
 public:
  NoLoss(const Ledger& ledger, Verdicts& verdicts) : ledger_(ledger), verdicts_(verdicts) {}
  void add_broker(const std::string& broker, bool is_sync);
  void flushed(const std::string& broker, uint64_t to);
  // The broker died, and with it what the machine had not made durable (power, panic, or a failed flush).
  void lost_cache(const std::string& broker);
  // "Anything lost lies in [begin, end)", said before recovered().
  void named(const std::string& broker, uint64_t begin, uint64_t end);
  void recovered(const Recovery& recovery);
  // The answer of a message came when its broker had died and come back in between.
  void acked(const SentMessage& message);
  // The disk was damaged beyond the promise: loss is excused, lies are not.
  void beyond_promise(const std::string& broker);
  // Everything that can be read now: id -> number of places.
  void read_everything(const std::map<MessageId, uint64_t>& visible);
  uint64_t lost() const { return lost_; }              // of the last read_everything(), unexcused
  uint64_t excused() const { return excused_.size(); }

 private:
  struct Range { uint64_t begin, end; };
  struct Past { Recovery recovery; std::vector<Range> named; uint64_t flushed; bool has_lost_cache; };
  struct Broker {
    bool is_sync = true, is_beyond = false, has_lost_cache = false;
    uint64_t flushed = 0;
    std::vector<Range> named;
    std::vector<Past> past;
  };
  bool is_excused(const Broker& broker, const Past& past, const SentMessage& message) const;

  const Ledger& ledger_;
  Verdicts& verdicts_;
  std::map<std::string, Broker> brokers_;
  std::set<MessageId> excused_;
  uint64_t lost_ = 0;
};

}  // namespace fulmar::sim
