#pragma once
// Commands and replies written out in full, field by field: two of them are the same exactly when their spellings are.

#include <fmt/format.h>

#include <string>

#include "core/model/command.h"

namespace fulmar::test {

inline std::string spelled(Bytes b) { return fmt::format("<{}>", as_text(b)); }
inline std::string spelled(const std::vector<TopicConfig>& topics) {
  std::string out;
  for (const auto& t : topics) out += fmt::format("[{}|{}|{}|{}]", t.name, t.read_queues, t.write_queues, t.perm);
  return out;
}

inline std::string spelled(const std::vector<Subscription>& subscriptions) {
  std::string out;
  for (const auto& s : subscriptions) out += fmt::format("[{}|{}]", s.topic, s.expression);
  return out;
}
inline std::string spelled(const GroupConfig& c) {
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", c.name, c.is_consume_enabled, c.is_from_min_enabled, c.is_broadcast_enabled, c.is_orderly,
                     c.is_notified, c.retry_queues, c.retry_max, c.timeout_minutes, c.sys_flag, c.broker_id, c.slow_broker_id);
}

struct Spell {
  template <class... T>
  std::string line(const T&... fields) const {
    std::string out;
    ((out += fmt::format("{}|", fields)), ...);
    return out;
  }

  std::string operator()(const command::Hello& c) const { return line(c.version, c.features, c.client); }
  std::string operator()(const command::SendMessage& c) const {
    return line(c.topic, c.queue_id, c.flag, c.sys_flag, c.born.ms, c.reconsume_times, spelled(c.properties), spelled(c.body));
  }
  std::string operator()(const command::SendBatch& c) const { return line(c.topic, c.queue_id, c.sys_flag, c.born.ms, spelled(c.packed)); }
  std::string operator()(const command::PullMessages& c) const {
    return line(c.group, c.topic, c.queue_id, c.offset, c.count_max, c.bytes_max, c.suspend_ms, c.subscription);
  }
  std::string operator()(const command::CommitOffset& c) const { return line(c.group, c.topic, c.queue_id, c.offset, c.needs_flush); }
  std::string operator()(const command::QueryOffset& c) const { return line(c.group, c.topic, c.queue_id); }
  std::string operator()(const command::QueryQueue& c) const { return line(c.topic, c.queue_id); }
  std::string operator()(const command::QueryRoute& c) const { return line(c.topic); }
  std::string operator()(const command::CreateTopic& c) const { return line(c.topic, c.read_queues, c.write_queues, c.perm); }
  std::string operator()(const command::DeleteTopic& c) const { return line(c.topic); }
  std::string operator()(const command::ListTopics& c) const { return line(c.after, c.count_max); }
  std::string operator()(const command::DescribeTopic& c) const { return line(c.topic); }
  std::string operator()(const command::QueryMessages& c) const { return line(c.topic, c.key, c.count_max, c.begin.ms, c.end.ms); }
  std::string operator()(const command::ViewMessage& c) const { return line(c.at); }
  std::string operator()(const command::GetStatus&) const { return ""; }
  std::string operator()(const command::RegisterBroker& c) const {
    return line(c.cluster, c.broker_name, c.broker_id, c.host, c.port, c.topics_version, c.is_complete, spelled(c.topics), c.version);
  }
  std::string operator()(const command::UnregisterBroker& c) const { return line(c.cluster, c.broker_name, c.broker_id); }
  std::string operator()(const command::Heartbeat& c) const {
    return line(c.client_id, c.group, c.version, static_cast<int>(c.model), static_cast<int>(c.from), c.from_time.ms, spelled(c.subscriptions), c.generation_known, c.suspend_ms);
  }
  std::string operator()(const command::LeaveGroup& c) const { return line(c.client_id, c.group); }
  std::string operator()(const command::ListGroups& c) const { return line(c.after, c.count_max); }
  std::string operator()(const command::DescribeGroup& c) const { return line(c.group); }
  std::string operator()(const command::CreateGroup& c) const { return spelled(c.config); }
  std::string operator()(const command::DeleteGroup& c) const { return line(c.group); }
  std::string operator()(const command::SearchOffset& c) const { return line(c.topic, c.queue_id, c.stamp.ms); }
  std::string operator()(const command::ResetOffset& c) const {
    return line(c.group, c.topic, c.queue_id, static_cast<int>(c.to), c.stamp.ms, c.offset, c.is_dry_run);
  }
  std::string operator()(const command::QueryCluster&) const { return ""; }
  std::string operator()(const command::WipeWritePerm& c) const { return line(c.broker_name); }
  std::string operator()(const command::AddWritePerm& c) const { return line(c.broker_name); }
  std::string operator()(const command::GetConfig&) const { return ""; }
  std::string operator()(const command::UpdateConfig& c) const { return line(c.key, c.value); }
  std::string operator()(const command::Stop& c) const { return line(c.deadline.ns); }
  std::string operator()(const command::Subscribe& c) const { return line(c.group, c.topic, c.subscription); }
  std::string operator()(const command::Consumed& c) const { return line(c.subscription_call, c.broker, c.queue_id, c.next); }
  std::string operator()(const command::Unsubscribe& c) const { return line(c.subscription_call); }
  std::string operator()(const command::GetMetrics& c) const { return line(c.family, c.group, c.topic, c.samples_max); }
  std::string operator()(const command::GetHealth&) const { return ""; }

  std::string operator()(const Refusal& r) const { return line(static_cast<int32_t>(r.code), r.cause, r.measured, r.retry_after_ms); }
  std::string operator()(const reply::Ok&) const { return ""; }
  std::string operator()(const reply::Hello& r) const { return line(r.version, r.features, r.server, r.frame_bytes_max); }
  std::string operator()(const reply::Sent& r) const {
    return line(static_cast<int32_t>(r.code), r.queue_id, r.queue_offset, r.count, r.physical_offset, r.message_id);
  }
  std::string operator()(const reply::Pulled& r) const {
    return line(static_cast<int32_t>(r.code), r.next, r.min, r.max, r.count, spelled(Bytes(r.records)));
  }
  std::string operator()(const reply::Offset& r) const { return line(r.offset); }
  std::string operator()(const reply::Queue& r) const { return line(r.min, r.max); }
  std::string operator()(const reply::Route& r) const {
    std::string out;
    for (const auto& b : r.brokers) {
      out += line(b.cluster, b.name);
      for (const auto& [id, address] : b.addresses) out += line(id, address);
    }
    for (const auto& q : r.queues) out += line(q.broker, q.read_queues, q.write_queues, q.perm);
    return out;
  }
  std::string operator()(const reply::Topics& r) const { return line(spelled(r.topics), r.has_more); }
  std::string operator()(const reply::Topic& r) const {
    std::string out = spelled(std::vector{r.config});
    for (const auto& q : r.queues) out += line(q.queue_id, q.min, q.max);
    return out;
  }
  std::string operator()(const reply::Messages& r) const { return line(r.count, spelled(Bytes(r.records))); }
  std::string operator()(const reply::Registered& r) const { return line(r.topics_version, r.needs_topics); }
  std::string operator()(const reply::Status& r) const {
    std::string out;
    for (const auto& [name, value] : r.values) out += line(name, value);
    return out;
  }
  std::string operator()(const reply::Members& r) const {
    std::string out = line(r.generation, r.conflict);
    for (const auto& m : r.members) out += line(m);
    for (const auto& a : r.absent) {
      out += line(a.topic);
      for (const uint32_t m : a.members) out += line(m);
    }
    return out;
  }
  std::string operator()(const reply::Groups& r) const {
    std::string out = line(r.has_more);
    for (const auto& g : r.groups) out += line(g.name, static_cast<int>(g.model), g.members, g.is_configured);
    return out;
  }
  std::string operator()(const reply::Group& r) const {
    std::string out = spelled(r.config) + line(r.is_configured, r.conflict);
    for (const auto& m : r.members) out += line(m.client_id, m.address, m.version, static_cast<int>(m.model), static_cast<int>(m.from), spelled(m.subscriptions));
    for (const auto& q : r.queues) out += line(q.topic, q.queue_id, q.committed, q.min, q.max);
    return out;
  }
  std::string operator()(const reply::OffsetsReset& r) const {
    std::string out;
    for (const auto& q : r.queues) out += line(q.queue_id, q.was, q.is);
    return out;
  }
  std::string operator()(const reply::Cluster& r) const {
    std::string out;
    for (const auto& b : r.brokers) out += line(b.cluster, b.name, b.address, b.version, b.broker_id, b.silent_ms, b.topics, b.is_writable);
    return out;
  }
  std::string operator()(const reply::TopicsChanged& r) const { return line(r.count); }
  std::string operator()(const reply::Assigned& r) const { return line(r.generation, r.queues.size()); }
  std::string operator()(const reply::Progress& r) const { return line(r.broker, r.topic, r.queue_id, r.next); }
  std::string operator()(const reply::Metrics& r) const { return line(r.samples.size()); }
  std::string operator()(const reply::Health& r) const { return line(r.wants.size()); }
  std::string operator()(const reply::Delivered& r) const { return line(r.broker, r.topic, r.queue_id, r.first, r.next, r.count); }
};

inline std::string spelled(const Command& c) { return fmt::format("{} {}", name_of(c), std::visit(Spell{}, c)); }
inline std::string spelled(const Reply& r) { return fmt::format("{} {}", r.index(), std::visit(Spell{}, r)); }

}  // namespace fulmar::test
