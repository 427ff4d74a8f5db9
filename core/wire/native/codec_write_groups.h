#pragma once
// Typed commands and replies to header fields and tables: groups and the cluster.
// A part of codec.cc, included there and nowhere else.

#include "core/wire/native/codec_out.h"

namespace fulmar::native {
namespace {

void write(Out& out, Request::Builder root, const command::Heartbeat& c) {
  auto b = root.initHeartbeat();
  using B = Heartbeat::Builder;
  out.text("clientId", b, &B::initClientId, c.client_id);
  out.text("group", b, &B::initGroup, c.group);
  out.text("version", b, &B::initVersion, c.version);
  b.setModel(static_cast<uint8_t>(c.model));
  b.setFrom(static_cast<uint8_t>(c.from));
  b.setFromMs(c.from_time.ms);
  auto list = b.initSubscriptions(static_cast<unsigned>(c.subscriptions.size()));
  for (unsigned i = 0; i < list.size(); ++i) {
    auto subscription = list[i];
    out.text("subscriptions.topic", subscription, &Subscription::Builder::initTopic, c.subscriptions[i].topic);
    out.text("subscriptions.expression", subscription, &Subscription::Builder::initExpression, c.subscriptions[i].expression);
  }
  b.setGenerationKnown(c.generation_known);
  b.setSuspendMs(c.suspend_ms);
}
void write(Out& out, Request::Builder root, const command::LeaveGroup& c) {
  auto b = root.initLeaveGroup();
  out.text("clientId", b, &LeaveGroup::Builder::initClientId, c.client_id);
  out.text("group", b, &LeaveGroup::Builder::initGroup, c.group);
}
void write(Out& out, Request::Builder root, const command::ListGroups& c) {
  auto b = root.initListGroups();
  out.text("after", b, &ListTopics::Builder::initAfter, c.after);
  b.setCountMax(c.count_max);
}
void write(Out& out, Request::Builder root, const command::DescribeGroup& c) { write_name(out, root, &Request::Builder::initDescribeGroup, c.group); }
void write(Out& out, Request::Builder root, const command::DeleteGroup& c) { write_name(out, root, &Request::Builder::initDeleteGroup, c.group); }
void write_config(Out& out, GroupConfig::Builder b, const fulmar::GroupConfig& c) {
  out.text("name", b, &GroupConfig::Builder::initName, c.name);
  b.setConsumeEnable(c.is_consume_enabled);
  b.setConsumeFromMinEnable(c.is_from_min_enabled);
  b.setConsumeBroadcastEnable(c.is_broadcast_enabled);
  b.setConsumeMessageOrderly(c.is_orderly);
  b.setNotifyConsumerIdsChangedEnable(c.is_notified);
  b.setRetryQueueNums(c.retry_queues);
  b.setRetryMaxTimes(c.retry_max);
  b.setConsumeTimeoutMinute(c.timeout_minutes);
  b.setGroupSysFlag(c.sys_flag);
  b.setBrokerId(c.broker_id);
  b.setWhichBrokerWhenConsumeSlowly(c.slow_broker_id);
}
void write(Out& out, Request::Builder root, const command::CreateGroup& c) { write_config(out, root.initCreateGroup(), c.config); }
void write(Out& out, Request::Builder root, const command::SearchOffset& c) {
  auto b = root.initSearchOffset();
  out.text("topic", b, &SearchOffset::Builder::initTopic, c.topic);
  b.setQueueId(c.queue_id);
  b.setStampMs(c.stamp.ms);
}
void write(Out& out, Request::Builder root, const command::ResetOffset& c) {
  auto b = root.initResetOffset();
  out.text("group", b, &ResetOffset::Builder::initGroup, c.group);
  out.text("topic", b, &ResetOffset::Builder::initTopic, c.topic);
  b.setQueueId(c.queue_id);
  b.setTo(static_cast<uint8_t>(c.to));
  b.setStampMs(c.stamp.ms);
  b.setOffset(c.offset.value());
  b.setDryRun(c.is_dry_run);
}
void write(Out&, Request::Builder root, const command::QueryCluster&) { root.setQueryCluster(); }
void write(Out& out, Request::Builder root, const command::WipeWritePerm& c) { write_name(out, root, &Request::Builder::initWipeWritePerm, c.broker_name); }
void write(Out& out, Request::Builder root, const command::AddWritePerm& c) { write_name(out, root, &Request::Builder::initAddWritePerm, c.broker_name); }
void write(Out&, Request::Builder root, const command::GetConfig&) { root.setGetConfig(); }
void write(Out& out, Request::Builder root, const command::UpdateConfig& c) {
  auto b = root.initUpdateConfig();
  out.text("name", b, &Pair::Builder::initName, c.key);
  out.text("value", b, &Pair::Builder::initValue, c.value);
}

void write(Out& out, Response::Builder root, const reply::Members& r) {
  auto b = root.initMembers();
  b.setGeneration(r.generation);
  b.setCount(static_cast<uint32_t>(r.members.size()));
  b.setAbsentCount(static_cast<uint32_t>(r.absent.size()));
  out.text("conflict", b, &Members::Builder::initConflict, r.conflict);
  for (const std::string& member : r.members) out.put_text(member);
  for (const reply::Members::Absent& absent : r.absent) {
    out.put_text(absent.topic).put(static_cast<uint32_t>(absent.members.size()));
    for (const uint32_t member : absent.members) out.put(member);
  }
}
void write(Out& out, Response::Builder root, const reply::Groups& r) {
  auto b = root.initGroups();
  b.setCount(static_cast<uint32_t>(r.groups.size()));
  b.setHasMore(r.has_more);
  for (const reply::GroupSummary& group : r.groups)
    out.put_text(group.name).put(static_cast<uint8_t>(group.model)).put(group.members).put(uint8_t{group.is_configured});
}
void write(Out& out, Response::Builder root, const reply::Group& r) {
  auto b = root.initGroup();
  write_config(out, b.initConfig(), r.config);
  b.setIsConfigured(r.is_configured);
  b.setMemberCount(static_cast<uint32_t>(r.members.size()));
  b.setQueueCount(static_cast<uint32_t>(r.queues.size()));
  out.text("conflict", b, &Group::Builder::initConflict, r.conflict);
  for (const reply::GroupMember& member : r.members) {
    if (member.subscriptions.size() > UINT16_MAX) return out.fail(fmt::format("{} subscriptions of a member", member.subscriptions.size()));
    out.put_text(member.client_id).put_text(member.address).put_text(member.version);
    out.put(static_cast<uint8_t>(member.model)).put(static_cast<uint8_t>(member.from)).put(static_cast<uint16_t>(member.subscriptions.size()));
    for (const fulmar::Subscription& subscription : member.subscriptions) out.put_text(subscription.topic).put_text(subscription.expression);
  }
  for (const reply::GroupQueue& queue : r.queues)
    out.put_text(queue.topic).put(queue.queue_id).put(queue.committed.value()).put(queue.min.value()).put(queue.max.value());
}
void write(Out& out, Response::Builder root, const reply::OffsetsReset& r) {
  root.setOffsetsReset(static_cast<uint32_t>(r.queues.size()));
  for (const reply::OffsetReset& queue : r.queues) out.put(queue.queue_id).put(queue.was.value()).put(queue.is.value());
}
void write(Out& out, Response::Builder root, const reply::Cluster& r) {
  root.setCluster(static_cast<uint32_t>(r.brokers.size()));
  for (const reply::ClusterBroker& broker : r.brokers) {
    out.put_text(broker.cluster).put_text(broker.name).put_text(broker.address).put_text(broker.version);
    out.put(broker.broker_id.value()).put(broker.silent_ms).put(broker.topics).put(uint8_t{broker.is_writable});
  }
}
void write(Out&, Response::Builder root, const reply::TopicsChanged& r) { root.setTopicsChanged(r.count); }

}  // namespace
}  // namespace fulmar::native
