#pragma once
// O5  What a reader has seen stays. SYNC_FLUSH: a reader sees only what is flushed, and never again loses it or sees something else in its
// place. ASYNC_FLUSH: only what lies in a named range may go.

#include <map>
#include <vector>

#include "sim/oracles/facts.h"

namespace fulmar::sim {

class ReadStability {
 public:
  explicit ReadStability(Verdicts& verdicts) : verdicts_(verdicts) {}
  void add_broker(const std::string& broker, bool is_sync) { brokers_[broker].is_sync = is_sync; }
  void beyond_promise(const std::string& broker) { brokers_[broker].is_beyond = true; }
  void flushed(const std::string& broker, uint64_t to);
  void named(const std::string& broker, uint64_t begin, uint64_t end) { brokers_[broker].named.push_back({begin, end}); }
  void recovered(const Recovery& recovery);
  void read(const Seen& seen, MessageId id);

 private:
  struct Range { uint64_t begin, end; };
  struct Read { uint64_t physical, end; QueueKey queue; int64_t offset; MessageId id; };
  struct Broker {
    bool is_sync = true, is_beyond = false;
    uint64_t flushed = 0;
    std::vector<Range> named;
    std::map<uint64_t, Read> reads;    // by physical offset
  };
  Verdicts& verdicts_;
  std::map<std::string, Broker> brokers_;
};

}  // namespace fulmar::sim
