#pragma once
// Header fields and tables to typed commands and replies: groups and the cluster.
// A part of codec.cc, included there and nowhere else.

#include "core/wire/native/codec_fields.h"

namespace fulmar::native {
namespace {

command::Heartbeat read(Fields& f, Heartbeat::Reader r) {
  command::Heartbeat c;
  c.client_id = f.at("clientId").text(r.getClientId());
  c.group = f.at("group").text(r.getGroup());
  c.version = f.at("version").text(r.getVersion());
  c.model = f.at("model").one_of(r.getModel(), GroupModel::Broadcasting);
  c.from = f.at("from").one_of(r.getFrom(), StartFrom::Timestamp);
  c.from_time = Wall{r.getFromMs()};
  for (const auto subscription : f.at("subscriptions").struct_of(r.getSubscriptions())) {
    std::string topic = f.at("subscriptions.topic").owned(subscription.getTopic());
    c.subscriptions.push_back({std::move(topic), f.at("subscriptions.expression").owned(subscription.getExpression())});
  }
  c.generation_known = r.getGenerationKnown();
  c.suspend_ms = r.getSuspendMs();
  return c;
}

fulmar::GroupConfig read(Fields& f, GroupConfig::Reader r) {
  fulmar::GroupConfig c;
  c.name = f.at("name").owned(r.getName());
  c.is_consume_enabled = r.getConsumeEnable();
  c.is_from_min_enabled = r.getConsumeFromMinEnable();
  c.is_broadcast_enabled = r.getConsumeBroadcastEnable();
  c.is_orderly = r.getConsumeMessageOrderly();
  c.is_notified = r.getNotifyConsumerIdsChangedEnable();
  c.retry_queues = f.at("retryQueueNums").count(r.getRetryQueueNums());
  c.retry_max = r.getRetryMaxTimes();
  c.timeout_minutes = r.getConsumeTimeoutMinute();
  c.sys_flag = r.getGroupSysFlag();
  c.broker_id = r.getBrokerId();
  c.slow_broker_id = r.getWhichBrokerWhenConsumeSlowly();
  return c;
}

command::ResetOffset read(Fields& f, ResetOffset::Reader r) {
  command::ResetOffset c;
  c.group = f.at("group").text(r.getGroup());
  c.topic = f.at("topic").text(r.getTopic());
  c.queue_id = r.getQueueId();
  c.to = f.at("to").one_of(r.getTo(), command::ResetOffset::To::Offset);
  c.stamp = Wall{r.getStampMs()};
  c.offset = QueueOffset(r.getOffset());
  c.is_dry_run = r.getDryRun();
  return c;
}

reply::Members read(Fields& f, Members::Reader r) {
  reply::Members out;
  out.generation = r.getGeneration();
  out.conflict = f.at("conflict").owned(r.getConflict());
  Reader in(f.attachment());
  f.at("member table");
  out.members = f.table<std::string>(in, r.getCount(), 2, [&f](Reader& from) { return f.table_text(from); });
  out.absent = f.table<reply::Members::Absent>(in, r.getAbsentCount(), 6, [&](Reader& from) {
    reply::Members::Absent absent{f.table_text(from), {}};
    absent.members = f.table<uint32_t>(from, from.u32(), 4, [&](Reader& index) {
      const uint32_t member = index.u32();
      if (member >= out.members.size()) f.fail(fmt::format("names member {} of {}", member, out.members.size()));
      return member;
    });
    return absent;
  });
  f.finish(in);
  return out;
}

reply::Groups read(Fields& f, Groups::Reader r) {
  Reader in(f.attachment());
  f.at("group table");
  reply::Groups out;
  out.has_more = r.getHasMore();
  out.groups = f.table<reply::GroupSummary>(in, r.getCount(), 8, [&f](Reader& from) {
    reply::GroupSummary group;
    group.name = f.table_text(from);
    group.model = f.one_of(from.u8(), GroupModel::Broadcasting);
    group.members = f.count(from.i32());
    group.is_configured = from.u8() != 0;
    return group;
  });
  f.finish(in);
  return out;
}

reply::Group read(Fields& f, Group::Reader r) {
  reply::Group out;
  out.config = read(f, f.at("config").struct_of(r.getConfig()));
  out.is_configured = r.getIsConfigured();
  out.conflict = f.at("conflict").owned(r.getConflict());
  Reader in(f.attachment());
  f.at("member table");
  out.members = f.table<reply::GroupMember>(in, r.getMemberCount(), 10, [&f](Reader& from) {
    reply::GroupMember member;
    member.client_id = f.table_text(from);
    member.address = f.table_text(from);
    member.version = f.table_text(from);
    member.model = f.one_of(from.u8(), GroupModel::Broadcasting);
    member.from = f.one_of(from.u8(), StartFrom::Timestamp);
    member.subscriptions = f.table<fulmar::Subscription>(from, from.u16(), 4, [&f](Reader& at) {
      std::string topic = f.table_text(at);
      return fulmar::Subscription{std::move(topic), f.table_text(at)};
    });
    return member;
  });
  f.at("queue table");
  out.queues = f.table<reply::GroupQueue>(in, r.getQueueCount(), 30, [&f](Reader& from) {
    reply::GroupQueue queue;
    queue.topic = f.table_text(from);
    queue.queue_id = from.i32();
    queue.committed = QueueOffset(from.i64());
    queue.min = QueueOffset(from.i64());
    queue.max = QueueOffset(from.i64());
    return queue;
  });
  f.finish(in);
  return out;
}

reply::OffsetsReset read_offsets_reset(Fields& f, uint32_t count) {
  Reader in(f.attachment());
  f.at("queue table");
  reply::OffsetsReset out;
  out.queues = f.table<reply::OffsetReset>(in, count, 20, [](Reader& from) {
    reply::OffsetReset queue;
    queue.queue_id = from.i32();
    queue.was = QueueOffset(from.i64());
    queue.is = QueueOffset(from.i64());
    return queue;
  });
  f.finish(in);
  return out;
}

reply::Cluster read_cluster(Fields& f, uint32_t count) {
  Reader in(f.attachment());
  f.at("broker table");
  reply::Cluster out;
  out.brokers = f.table<reply::ClusterBroker>(in, count, 29, [&f](Reader& from) {
    reply::ClusterBroker broker;
    broker.cluster = f.table_text(from);
    broker.name = f.table_text(from);
    broker.address = f.table_text(from);
    broker.version = f.table_text(from);
    broker.broker_id = BrokerId(from.i64());
    broker.silent_ms = from.i64();
    broker.topics = f.count(from.i32());
    broker.is_writable = from.u8() != 0;
    return broker;
  });
  f.finish(in);
  return out;
}

}  // namespace
}  // namespace fulmar::native
