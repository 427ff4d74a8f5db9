#pragma once
// O11  A query by key finds every dispatched message with that key that was stored in the window it names (the newest, when there are more
// than were asked for) and nothing else.

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "sim/oracles/facts.h"

namespace fulmar::sim {

class KeyIndex {
 public:
  explicit KeyIndex(Verdicts& verdicts) : verdicts_(verdicts) {}
  // A message that can be read from the queues of `broker` now.
  void visible(const std::string& broker, const std::string& topic, const std::vector<std::string>& keys, MessageId id, uint64_t physical, int64_t stored_ms = 0);
  // The log of the broker begins there: what stood before need not be found, also when it was read earlier and is told of later.
  void begins_at(const std::string& broker, uint64_t physical);
  void forget();     // what is visible is told anew
  // Every (broker, topic, key) that is worth a query.
  struct Query { std::string broker, topic, key; friend auto operator<=>(const Query&, const Query&) = default; };
  std::vector<Query> queries() const;
  struct Window { int64_t begin_ms = 0, end_ms = INT64_MAX; };   // of store times, both ends belong to it
  // When the messages of a key were stored, in order of their places.
  std::vector<int64_t> stamps(const Query& query) const;
  void found(const Query& query, size_t count_max, const std::vector<std::pair<MessageId, std::vector<std::string>>>& hits, Window window);
  void found(const Query& query, size_t count_max, const std::vector<std::pair<MessageId, std::vector<std::string>>>& hits) { found(query, count_max, hits, {}); }

 private:
  Verdicts& verdicts_;
  struct Place { MessageId id; int64_t stored_ms = 0; };
  std::map<Query, std::map<uint64_t, Place>> places_;   // by log byte
  std::map<std::string, uint64_t> begins_;              // by broker
};

}  // namespace fulmar::sim
