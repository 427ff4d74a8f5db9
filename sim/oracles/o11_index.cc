#include "sim/oracles/o11_index.h"

#include <fmt/format.h>

#include <algorithm>

namespace fulmar::sim {

void KeyIndex::visible(const std::string& broker, const std::string& topic, const std::vector<std::string>& keys, MessageId id, uint64_t physical,
                       int64_t stored_ms) {
  const auto begin = begins_.find(broker);
  if (begin != begins_.end() && physical < begin->second) return;   // read before retention took it, told of afterwards
  for (const std::string& key : keys) places_[{broker, topic, key}][physical] = {id, stored_ms};
}

void KeyIndex::begins_at(const std::string& broker, uint64_t physical) {
  begins_[broker] = physical;
  for (auto& [query, places] : places_)
    if (query.broker == broker) places.erase(places.begin(), places.lower_bound(physical));
}

void KeyIndex::forget() { places_.clear(); }

std::vector<KeyIndex::Query> KeyIndex::queries() const {
  std::vector<Query> out;
  for (const auto& [query, places] : places_) out.push_back(query);
  return out;
}

std::vector<int64_t> KeyIndex::stamps(const Query& query) const {
  std::vector<int64_t> out;
  const auto it = places_.find(query);
  if (it == places_.end()) return out;
  for (const auto& [at, place] : it->second) out.push_back(place.stored_ms);
  return out;
}

void KeyIndex::found(const Query& query, size_t count_max, const std::vector<std::pair<MessageId, std::vector<std::string>>>& hits, Window window) {
  const std::string what = window.begin_ms == 0 && window.end_ms == INT64_MAX
                               ? fmt::format("the query of {} for {}#{}", query.broker, query.topic, query.key)
                               : fmt::format("the query of {} for {}#{} stored in [{}, {}] ms", query.broker, query.topic, query.key, window.begin_ms, window.end_ms);
  std::set<MessageId> got;
  for (const auto& [id, keys] : hits) {
    got.insert(id);
    if (std::find(keys.begin(), keys.end(), query.key) != keys.end()) continue;
    verdicts_.violated("O11", fmt::format("{} finds message {}, which has not that key", what, to_text(id)));
  }
  if (hits.size() > count_max) verdicts_.violated("O11", fmt::format("{} finds {} messages, at most {} were asked for", what, hits.size(), count_max));
  const auto it = places_.find(query);
  if (it == places_.end()) return;
  std::set<MessageId> expected;
  size_t places = 0;
  for (const auto& [at, place] : it->second) {
    if (place.stored_ms < window.begin_ms || place.stored_ms > window.end_ms) continue;
    expected.insert(place.id);
    ++places;
  }
  if (places > count_max) {
    if (hits.size() >= count_max) return;
    return verdicts_.violated("O11", fmt::format("{} finds {} of at least {} messages", what, hits.size(), count_max));
  }
  // A full answer may hold records that their queue does not show any more, in place of older ones.
  if (hits.size() >= count_max) return;
  for (const MessageId id : expected) {
    if (got.contains(id)) continue;
    return verdicts_.violated("O11", fmt::format("{} does not find message {} ({} of {} found)", what, to_text(id), got.size(), expected.size()));
  }
}

}  // namespace fulmar::sim
