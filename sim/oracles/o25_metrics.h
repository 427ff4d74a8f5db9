#pragma once
// O25  Metrics agree with what can be read: what came in, topic by topic, is what stands in the queues of this life of the broker; and what a
// group has before it is what lies between its committed offsets and the ends of its queues.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/model/metrics.h"
#include "sim/oracles/facts.h"

namespace fulmar::sim {

class MetricsAgree {
 public:
  explicit MetricsAgree(Verdicts& verdicts) : verdicts_(verdicts) {}
  // --- one complete reading, while nothing is sent and nothing committed ------------------------------------------------------------------
  void begin_reading() { brokers_.clear(); }
  // A queue from its minimum to its end; so many of its messages were appended by the life that is asked.
  void readable(const QueueKey& queue, int64_t min, int64_t max, uint64_t of_this_life);
  void committed(const std::string& group, const QueueKey& queue, int64_t offset);
  // Something went meanwhile, or may have gone before it could be read: nothing is compared.
  void cannot_know(const std::string& broker) { brokers_[broker].is_known = false; }
  // A page of the broker; the last one lets it be compared. `group`: only those groups commit nothing beside what committed() was told.
  void said(const std::string& broker, const reply::Metrics& page);
  // `may_arrive`: by topic, how many messages may have come in since they were read, sent long ago.
  void judge(const std::string& broker, const std::vector<std::string>& groups, const std::map<std::string, uint64_t>& may_arrive = {});

 private:
  struct Queue { int64_t min = 0, max = 0; };
  struct Broker {
    bool is_known = true;
    std::map<std::string, uint64_t> readable, said_in;                               // by topic
    std::map<QueueKey, Queue> queues;
    std::map<std::pair<std::string, QueueKey>, int64_t> committed;                   // by group
    std::map<std::pair<std::string, std::string>, int64_t> said_lag;                 // by group and topic
  };
  Verdicts& verdicts_;
  std::map<std::string, Broker> brokers_;
};

}  // namespace fulmar::sim
