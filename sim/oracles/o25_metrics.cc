#include "sim/oracles/o25_metrics.h"

#include <fmt/format.h>

#include <algorithm>

namespace fulmar::sim {

namespace {
std::string label_of(const MetricSample& sample, std::string_view name) {
  for (const MetricLabel& label : sample.labels)
    if (label.name == name) return label.value;
  return {};
}
}  // namespace

void MetricsAgree::readable(const QueueKey& queue, int64_t min, int64_t max, uint64_t of_this_life) {
  Broker& broker = brokers_[queue.broker];
  broker.readable[queue.topic] += of_this_life;
  broker.queues[queue] = {min, max};
}

void MetricsAgree::committed(const std::string& group, const QueueKey& queue, int64_t offset) { brokers_[queue.broker].committed[{group, queue}] = offset; }

void MetricsAgree::said(const std::string& name, const reply::Metrics& page) {
  Broker& broker = brokers_[name];
  for (const MetricSample& sample : page.samples) {
    if (sample.family->name == "rocketmq_messages_in_total") broker.said_in[label_of(sample, "topic")] += static_cast<uint64_t>(sample.value);
    if (sample.family->name == "rocketmq_consumer_lag_messages") {
      const auto [at, is_first] = broker.said_lag.emplace(std::pair(label_of(sample, "consumer_group"), label_of(sample, "topic")), sample.value);
      if (!is_first) verdicts_.violated("O25", fmt::format("the metrics of {} name group {} and topic {} twice", name, at->first.first, at->first.second));
    }
  }
}

void MetricsAgree::judge(const std::string& name, const std::vector<std::string>& groups, const std::map<std::string, uint64_t>& may_arrive) {
  const auto late = [&](const std::string& topic) {
    const auto found = may_arrive.find(topic);
    return found == may_arrive.end() ? uint64_t{0} : found->second;
  };
  const Broker& broker = brokers_[name];
  if (!broker.is_known) return;
  for (const auto& [topic, count] : broker.readable) {
    const auto said = broker.said_in.find(topic);
    const uint64_t in = said == broker.said_in.end() ? 0 : said->second;
    if (in < count || in > count + late(topic)) return verdicts_.violated("O25", fmt::format("{} messages of topic {} came in by the metrics of {}, and {} of its present life can be read", in, topic, name, count));
  }
  for (const std::string& group : groups) {
    std::map<std::string, int64_t> before;   // by topic: of all queues of a topic of which it has committed something
    for (const auto& [key, offset] : broker.committed)
      if (key.first == group) before.emplace(key.second.topic, 0);
    for (const auto& [key, queue] : broker.queues) {
      const auto topic = before.find(key.topic);
      if (topic == before.end()) continue;
      const auto own = broker.committed.find({group, key});
      topic->second += queue.max - (own == broker.committed.end() ? queue.min : std::clamp(own->second, queue.min, queue.max));
    }
    for (const auto& [topic, lag] : before) {
      const auto said = broker.said_lag.find({group, topic});
      if (said == broker.said_lag.end()) return verdicts_.violated("O25", fmt::format("the metrics of {} do not say how far group {} is behind in topic {}", name, group, topic));
      if (said->second < lag || said->second > lag + static_cast<int64_t>(late(topic)))
        return verdicts_.violated("O25", fmt::format("by the metrics of {} group {} is {} messages behind in topic {}, and it is {}", name, group, said->second, topic, lag));
    }
  }
}

}  // namespace fulmar::sim
