#pragma once
// O11  A query by key finds every dispatched message with that key (the newest, when there are more than were asked for) and nothing else.

#include <map>
#include <set>
#include <vector>

#include "sim/oracles/facts.h"

namespace fulmar::sim {

class KeyIndex {
 public:
  explicit KeyIndex(Verdicts& verdicts) : verdicts_(verdicts) {}
  // A message that can be read from the queues of `broker` now.
  void visible(const std::string& broker, const std::string& topic, const std::vector<std::string>& keys, MessageId id, uint64_t physical);
  void forget();     // what is visible is told anew
  // Every (broker, topic, key) that is worth a query.
  struct Query { std::string broker, topic, key; friend auto operator<=>(const Query&, const Query&) = default; };
  std::vector<Query> queries() const;
  void found(const Query& query, size_t count_max, const std::vector<std::pair<MessageId, std::vector<std::string>>>& hits);

 private:
  Verdicts& verdicts_;
  std::map<Query, std::set<MessageId>> expected_;
  std::map<Query, std::set<uint64_t>> places_;
};

}  // namespace fulmar::sim
