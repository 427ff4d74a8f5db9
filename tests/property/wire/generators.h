#pragma once
// Random commands and replies within the bounds of the native protocol. What they borrow is kept in a Pool.

#include <deque>
#include <string>
#include <vector>

#include "core/base/prng.h"
#include "core/model/command.h"

namespace fulmar::test {

class Generator {
 public:
  explicit Generator(uint64_t seed) : prng_(Seed{seed}) {}

  std::string_view text(uint64_t bytes_max = 40) {
    std::string out;
    for (uint64_t left = prng_.below(bytes_max + 1); left > 0; --left) out += static_cast<char>(1 + prng_.below(255));
    return keep_.emplace_back(std::move(out));
  }
  std::string owned(uint64_t bytes_max = 40) { return std::string(text(bytes_max)); }
  Bytes bytes(uint64_t count_max) {
    std::string out;
    for (uint64_t left = prng_.below(count_max + 1); left > 0; --left) out += static_cast<char>(prng_.below(256));
    return as_bytes(keep_.emplace_back(std::move(out)));
  }
  std::vector<uint8_t> owned_bytes(uint64_t count_max) { const Bytes b = bytes(count_max); return {b.begin(), b.end()}; }
  uint64_t u64() { return prng_.next(); }
  uint32_t u32() { return static_cast<uint32_t>(prng_.next()); }
  int64_t i64() { return static_cast<int64_t>(prng_.next()); }
  int32_t i32() { return static_cast<int32_t>(prng_.next()); }
  int32_t count() { return static_cast<int32_t>(prng_.below(1u << 31)); }
  bool flag() { return prng_.below(2) == 1; }
  uint64_t below(uint64_t bound) { return prng_.below(bound); }

  std::vector<TopicConfig> topics() {
    std::vector<TopicConfig> out;
    for (uint64_t left = below(6); left > 0; --left) {
      TopicConfig topic;
      topic.name = owned(130);
      topic.read_queues = count();
      topic.write_queues = count();
      topic.perm = u32();
      out.push_back(std::move(topic));
    }
    return out;
  }

  static constexpr uint64_t kCommands = 30;
  Command command(uint64_t kind) {
    switch (kind) {
      case 0: { command::Hello c; c.version = static_cast<uint16_t>(u32()); c.features = u64(); c.client = text(); return c; }
      case 1: {
        command::SendMessage c;
        c.topic = text();
        c.queue_id = i32();
        c.flag = i32();
        c.sys_flag = u32();
        c.born.ms = i64();
        c.reconsume_times = i32();
        c.properties = bytes(300);
        c.body = bytes(2000);
        return c;
      }
      case 2: {
        command::SendBatch c;
        c.topic = text();
        c.queue_id = i32();
        c.sys_flag = u32();
        c.born.ms = i64();
        c.packed = bytes(2000);
        return c;
      }
      case 3: {
        command::PullMessages c;
        c.group = text();
        c.topic = text();
        c.queue_id = i32();
        c.offset = QueueOffset(i64());
        c.count_max = count();
        c.bytes_max = count();
        c.suspend_ms = u32();
        c.subscription = text(200);
        return c;
      }
      case 4: {
        command::CommitOffset c;
        c.group = text();
        c.topic = text();
        c.queue_id = i32();
        c.offset = QueueOffset(i64());
        c.needs_flush = flag();
        return c;
      }
      case 5: { command::QueryOffset c; c.group = text(); c.topic = text(); c.queue_id = i32(); return c; }
      case 6: { command::QueryQueue c; c.topic = text(); c.queue_id = i32(); return c; }
      case 7: return command::QueryRoute{text()};
      case 8: { command::CreateTopic c; c.topic = text(); c.read_queues = count(); c.write_queues = count(); c.perm = u32(); return c; }
      case 9: return command::DeleteTopic{text()};
      case 10: { command::ListTopics c; c.after = text(); c.count_max = count(); return c; }
      case 11: return command::DescribeTopic{text()};
      case 12: {
        command::QueryMessages c;
        c.topic = text();
        c.key = text();
        c.count_max = count();
        c.begin.ms = i64();
        c.end.ms = i64();
        return c;
      }
      case 13: { command::ViewMessage c; c.at = PhysicalOffset(u64() >> 1); return c; }
      case 14: return command::GetStatus{};
      case 15: {
        command::RegisterBroker c;
        c.cluster = text();
        c.broker_name = text();
        c.broker_id = BrokerId(i64());
        c.host = text();
        c.port = static_cast<uint16_t>(u32());
        c.topics_version = u64();
        c.is_complete = flag();
        c.topics = topics();
        c.version = text();
        return c;
      }
      case 16: { command::UnregisterBroker c; c.cluster = text(); c.broker_name = text(); c.broker_id = BrokerId(i64()); return c; }
      case 17: {
        command::Heartbeat c;
        c.client_id = text();
        c.group = text();
        c.version = text();
        c.model = model();
        c.from = from();
        c.from_time.ms = i64();
        c.subscriptions = subscriptions();
        c.generation_known = u64();
        c.suspend_ms = u32();
        return c;
      }
      case 18: { command::LeaveGroup c; c.client_id = text(); c.group = text(); return c; }
      case 19: { command::ListGroups c; c.after = text(); c.count_max = count(); return c; }
      case 20: return command::DescribeGroup{text()};
      case 21: return command::CreateGroup{group_config()};
      case 22: return command::DeleteGroup{text()};
      case 23: { command::SearchOffset c; c.topic = text(); c.queue_id = i32(); c.stamp.ms = i64(); return c; }
      case 24: {
        command::ResetOffset c;
        c.group = text();
        c.topic = text();
        c.queue_id = i32();
        c.to = static_cast<command::ResetOffset::To>(below(4));
        c.stamp.ms = i64();
        c.offset = QueueOffset(i64());
        c.is_dry_run = flag();
        return c;
      }
      case 25: return command::QueryCluster{};
      case 26: return command::WipeWritePerm{text()};
      case 27: return command::AddWritePerm{text()};
      case 28: return command::GetConfig{};
      default: { command::UpdateConfig c; c.key = text(); c.value = text(); return c; }
    }
  }

  GroupModel model() { return static_cast<GroupModel>(below(2)); }
  StartFrom from() { return static_cast<StartFrom>(below(3)); }
  std::vector<Subscription> subscriptions() {
    std::vector<Subscription> out;
    for (uint64_t left = below(4); left > 0; --left) { std::string topic = owned(); out.push_back({std::move(topic), owned()}); }
    return out;
  }
  GroupConfig group_config() {
    GroupConfig c;
    c.name = owned();
    c.is_consume_enabled = flag();
    c.is_from_min_enabled = flag();
    c.is_broadcast_enabled = flag();
    c.is_orderly = flag();
    c.is_notified = flag();
    c.retry_queues = count();
    c.retry_max = i32();
    c.timeout_minutes = i32();
    c.sys_flag = i32();
    c.broker_id = i64();
    c.slow_broker_id = i64();
    return c;
  }

  static constexpr uint64_t kReplies = 19;
  Reply reply(uint64_t kind) {
    switch (kind) {
      case 0: {
        Refusal r;
        r.code = static_cast<Code>(i32());
        r.cause = owned(300);
        r.measured = owned(300);
        r.retry_after_ms = u32();
        return r;
      }
      case 1: return reply::Ok{};
      case 2: {
        reply::Hello r;
        r.version = static_cast<uint16_t>(u32());
        r.features = u64();
        r.server = owned();
        r.frame_bytes_max = count();
        return r;
      }
      case 3: {
        reply::Sent r;
        r.code = static_cast<Code>(i32());
        r.queue_id = i32();
        r.queue_offset = QueueOffset(i64());
        r.count = count();
        r.physical_offset = PhysicalOffset(u64() >> 1);
        r.message_id = owned(56);
        return r;
      }
      case 4: {
        reply::Pulled r;
        r.code = static_cast<Code>(i32());
        r.next = QueueOffset(i64());
        r.min = QueueOffset(i64());
        r.max = QueueOffset(i64());
        r.count = count();
        r.records = owned_bytes(3000);
        return r;
      }
      case 5: return reply::Offset{QueueOffset(i64())};
      case 6: { reply::Queue r; r.min = QueueOffset(i64()); r.max = QueueOffset(i64()); return r; }
      case 7: {
        reply::Route r;
        for (uint64_t left = below(4); left > 0; --left) {
          reply::RouteBroker broker;
          broker.cluster = owned();
          broker.name = owned();
          for (uint64_t n = below(3); n > 0; --n) { const BrokerId id(i64()); broker.addresses.emplace_back(id, owned()); }
          r.brokers.push_back(std::move(broker));
        }
        for (uint64_t left = below(4); left > 0; --left) {
          reply::RouteQueues q;
          q.broker = owned();
          q.read_queues = count();
          q.write_queues = count();
          q.perm = u32();
          r.queues.push_back(std::move(q));
        }
        return r;
      }
      case 8: { reply::Topics r; r.topics = topics(); r.has_more = flag(); return r; }
      case 9: {
        reply::Topic r;
        r.config.name = owned();
        r.config.read_queues = count();
        r.config.write_queues = count();
        r.config.perm = u32();
        for (uint64_t left = below(5); left > 0; --left) {
          reply::TopicQueue q;
          q.queue_id = i32();
          q.min = QueueOffset(i64());
          q.max = QueueOffset(i64());
          r.queues.push_back(q);
        }
        return r;
      }
      case 10: { reply::Messages r; r.count = count(); r.records = owned_bytes(3000); return r; }
      case 11: { reply::Registered r; r.topics_version = u64(); r.needs_topics = flag(); return r; }
      case 12: {
        reply::Status r;
        for (uint64_t left = below(6); left > 0; --left) { std::string name = owned(); r.values.emplace_back(std::move(name), owned()); }
        return r;
      }
      case 13: {
        reply::Members r;
        r.generation = u64();
        r.conflict = owned(200);
        for (uint64_t left = below(6); left > 0; --left) r.members.push_back(owned());
        for (uint64_t left = r.members.empty() ? 0 : below(3); left > 0; --left) {
          reply::Members::Absent absent{owned(), {}};
          for (uint64_t n = below(4); n > 0; --n) absent.members.push_back(static_cast<uint32_t>(below(r.members.size())));
          r.absent.push_back(std::move(absent));
        }
        return r;
      }
      case 14: {
        reply::Groups r;
        r.has_more = flag();
        for (uint64_t left = below(6); left > 0; --left) {
          reply::GroupSummary group;
          group.name = owned();
          group.model = model();
          group.members = count();
          group.is_configured = flag();
          r.groups.push_back(std::move(group));
        }
        return r;
      }
      case 15: return group();
      case 16: {
        reply::OffsetsReset r;
        for (uint64_t left = below(6); left > 0; --left) {
          reply::OffsetReset queue;
          queue.queue_id = i32();
          queue.was = QueueOffset(i64());
          queue.is = QueueOffset(i64());
          r.queues.push_back(queue);
        }
        return r;
      }
      case 17: {
        reply::Cluster r;
        for (uint64_t left = below(5); left > 0; --left) {
          reply::ClusterBroker broker;
          broker.cluster = owned();
          broker.name = owned();
          broker.address = owned();
          broker.version = owned();
          broker.broker_id = BrokerId(i64());
          broker.silent_ms = i64();
          broker.topics = count();
          broker.is_writable = flag();
          r.brokers.push_back(std::move(broker));
        }
        return r;
      }
      default: return reply::TopicsChanged{count()};
    }
  }

  reply::Group group() {
    reply::Group r;
    r.config = group_config();
    r.is_configured = flag();
    r.conflict = owned(100);
    for (uint64_t left = below(4); left > 0; --left) {
      reply::GroupMember member;
      member.client_id = owned();
      member.address = owned();
      member.version = owned();
      member.model = model();
      member.from = from();
      member.subscriptions = subscriptions();
      r.members.push_back(std::move(member));
    }
    for (uint64_t left = below(5); left > 0; --left) {
      reply::GroupQueue queue;
      queue.topic = owned();
      queue.queue_id = i32();
      queue.committed = QueueOffset(i64());
      queue.min = QueueOffset(i64());
      queue.max = QueueOffset(i64());
      r.queues.push_back(std::move(queue));
    }
    return r;
  }

 private:
  Prng prng_;
  std::deque<std::string> keep_;
};

}  // namespace fulmar::test
