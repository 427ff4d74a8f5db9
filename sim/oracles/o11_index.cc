#include "sim/oracles/o11_index.h"

#include <fmt/format.h>

#include <algorithm>

namespace fulmar::sim {

void KeyIndex::visible(const std::string& broker, const std::string& topic, const std::vector<std::string>& keys, MessageId id, uint64_t physical) {
  for (const std::string& key : keys) {
    expected_[{broker, topic, key}].insert(id);
    places_[{broker, topic, key}].insert(physical);
  }
}

void KeyIndex::forget() {
  expected_.clear();
  places_.clear();
}

std::vector<KeyIndex::Query> KeyIndex::queries() const {
  std::vector<Query> out;
  for (const auto& [query, ids] : expected_) out.push_back(query);
  return out;
}

void KeyIndex::found(const Query& query, size_t count_max, const std::vector<std::pair<MessageId, std::vector<std::string>>>& hits) {
  std::set<MessageId> got;
  for (const auto& [id, keys] : hits) {
    got.insert(id);
    if (std::find(keys.begin(), keys.end(), query.key) != keys.end()) continue;
    verdicts_.violated("O11", fmt::format("the query of {} for {}#{} finds message {}, which has not that key", query.broker, query.topic, query.key, to_text(id)));
  }
  if (hits.size() > count_max) {
    verdicts_.violated("O11", fmt::format("the query of {} for {}#{} finds {} messages, at most {} were asked for", query.broker, query.topic, query.key, hits.size(), count_max));
  }
  const auto it = expected_.find(query);
  if (it == expected_.end()) return;
  if (places_.at(query).size() > count_max) {
    if (hits.size() >= count_max) return;
    return verdicts_.violated("O11", fmt::format("the query of {} for {}#{} finds {} of at least {} messages", query.broker, query.topic, query.key, hits.size(), count_max));
  }
  for (const MessageId id : it->second) {
    if (got.contains(id)) continue;
    return verdicts_.violated("O11", fmt::format("the query of {} for {}#{} does not find message {} ({} of {} found)", query.broker, query.topic, query.key,
                                                 to_text(id), got.size(), it->second.size()));
  }
}

}  // namespace fulmar::sim
