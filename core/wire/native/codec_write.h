#pragma once
// Typed commands and replies to header fields.
// A part of codec.cc, included there and nowhere else.

#include "core/wire/native/codec_out.h"
#include "core/wire/native/codec_write_groups.h"

namespace fulmar::native {
namespace {

void write(Out& out, Request::Builder root, const command::Hello& c) {
  auto b = root.initHello();
  b.setVersion(c.version);
  b.setFeatures(c.features);
  out.text("client", b, &Hello::Builder::initClient, c.client);
}
void write(Out& out, Request::Builder root, const command::SendMessage& c) {
  auto b = root.initSend();
  using B = Send::Builder;
  out.text("topic", b, &B::initTopic, c.topic);
  b.setQueueId(c.queue_id);
  b.setFlag(c.flag);
  b.setSysFlag(c.sys_flag);
  b.setBornMs(c.born.ms);
  b.setReconsumeTimes(c.reconsume_times);
  if (c.properties.size() > 8 * size_t{kHeaderWordsMax})
    return out.fail(fmt::format("properties of {} bytes do not fit a header", c.properties.size()));
  if (!c.properties.empty()) b.setProperties(kj::ArrayPtr<const kj::byte>(c.properties.data(), c.properties.size()));
  out.attach(c.body);
}
void write(Out& out, Request::Builder root, const command::SendBatch& c) {
  auto b = root.initSendBatch();
  out.text("topic", b, &SendBatch::Builder::initTopic, c.topic);
  b.setQueueId(c.queue_id);
  b.setSysFlag(c.sys_flag);
  b.setBornMs(c.born.ms);
  out.attach(c.packed);
}
void write(Out& out, Request::Builder root, const command::PullMessages& c) {
  auto b = root.initPull();
  using B = Pull::Builder;
  out.text("group", b, &B::initGroup, c.group);
  out.text("topic", b, &B::initTopic, c.topic);
  b.setQueueId(c.queue_id);
  b.setOffset(c.offset.value());
  b.setCountMax(c.count_max);
  b.setBytesMax(c.bytes_max);
  b.setSuspendMs(c.suspend_ms);
  out.text("subscription", b, &B::initSubscription, c.subscription);
}
void write(Out& out, Request::Builder root, const command::CommitOffset& c) {
  auto b = root.initCommitOffset();
  out.text("group", b, &CommitOffset::Builder::initGroup, c.group);
  out.text("topic", b, &CommitOffset::Builder::initTopic, c.topic);
  b.setQueueId(c.queue_id);
  b.setOffset(c.offset.value());
  b.setNeedsFlush(c.needs_flush);
}
void write(Out& out, Request::Builder root, const command::QueryOffset& c) {
  auto b = root.initQueryOffset();
  out.text("group", b, &QueryOffset::Builder::initGroup, c.group);
  out.text("topic", b, &QueryOffset::Builder::initTopic, c.topic);
  b.setQueueId(c.queue_id);
}
void write(Out& out, Request::Builder root, const command::QueryQueue& c) {
  auto b = root.initQueryQueue();
  out.text("topic", b, &QueryQueue::Builder::initTopic, c.topic);
  b.setQueueId(c.queue_id);
}
void write(Out& out, Request::Builder root, const command::QueryRoute& c) {
  write_name(out, root, &Request::Builder::initQueryRoute, c.topic);
}
void write(Out& out, Request::Builder root, const command::DeleteTopic& c) {
  write_name(out, root, &Request::Builder::initDeleteTopic, c.topic);
}
void write(Out& out, Request::Builder root, const command::DescribeTopic& c) {
  write_name(out, root, &Request::Builder::initDescribeTopic, c.topic);
}
void write(Out& out, Request::Builder root, const command::CreateTopic& c) {
  auto b = root.initCreateTopic();
  out.text("name", b, &TopicConfig::Builder::initName, c.topic);
  b.setReadQueues(c.read_queues);
  b.setWriteQueues(c.write_queues);
  b.setPerm(c.perm);
}
void write(Out& out, Request::Builder root, const command::ListTopics& c) {
  auto b = root.initListTopics();
  out.text("after", b, &ListTopics::Builder::initAfter, c.after);
  b.setCountMax(c.count_max);
}
void write(Out& out, Request::Builder root, const command::QueryMessages& c) {
  auto b = root.initQueryMessages();
  out.text("topic", b, &QueryMessages::Builder::initTopic, c.topic);
  out.text("key", b, &QueryMessages::Builder::initKey, c.key);
  b.setCountMax(c.count_max);
  b.setBeginMs(c.begin.ms);
  b.setEndMs(c.end.ms);
}
void write(Out&, Request::Builder root, const command::ViewMessage& c) { root.setViewMessage(static_cast<int64_t>(c.at.value())); }
void write(Out&, Request::Builder root, const command::GetStatus&) { root.setStatus(); }
void write(Out& out, Request::Builder root, const command::RegisterBroker& c) {
  auto b = root.initRegisterBroker();
  using B = RegisterBroker::Builder;
  out.text("cluster", b, &B::initCluster, c.cluster);
  out.text("brokerName", b, &B::initBrokerName, c.broker_name);
  b.setBrokerId(c.broker_id.value());
  out.text("host", b, &B::initHost, c.host);
  b.setPort(c.port);
  b.setTopicsVersion(c.topics_version);
  b.setIsComplete(c.is_complete);
  b.setTopicCount(static_cast<uint32_t>(c.topics.size()));
  out.text("version", b, &B::initVersion, c.version);
  out.attach(c.topics);
}
void write(Out& out, Request::Builder root, const command::UnregisterBroker& c) {
  auto b = root.initUnregisterBroker();
  out.text("cluster", b, &UnregisterBroker::Builder::initCluster, c.cluster);
  out.text("brokerName", b, &UnregisterBroker::Builder::initBrokerName, c.broker_name);
  b.setBrokerId(c.broker_id.value());
}
template <class HostOnly>
void write(Out& out, Request::Builder, const HostOnly&) { out.fail("only the host may say this"); }

void write(Out& out, Response::Builder root, const fulmar::Refusal& r) {
  auto b = root.initRefusal();
  b.setCode(static_cast<int32_t>(r.code));
  out.text("cause", b, &Refusal::Builder::initCause, r.cause);
  out.text("measured", b, &Refusal::Builder::initMeasured, r.measured);
  b.setRetryAfterMs(r.retry_after_ms);
}
void write(Out&, Response::Builder root, const reply::Ok&) { root.setOk(); }
void write(Out& out, Response::Builder root, const reply::Hello& r) {
  auto b = root.initHello();
  b.setVersion(r.version);
  b.setFeatures(r.features);
  out.text("server", b, &HelloReply::Builder::initServer, r.server);
  b.setFrameBytesMax(r.frame_bytes_max);
}
void write(Out& out, Response::Builder root, const reply::Sent& r) {
  auto b = root.initSent();
  b.setCode(static_cast<int32_t>(r.code));
  b.setQueueId(r.queue_id);
  b.setQueueOffset(r.queue_offset.value());
  b.setCount(r.count);
  b.setPhysicalOffset(static_cast<int64_t>(r.physical_offset.value()));
  out.text("messageId", b, &Sent::Builder::initMessageId, r.message_id);
}
void write(Out& out, Response::Builder root, const reply::Pulled& r) {
  auto b = root.initPulled();
  b.setCode(static_cast<int32_t>(r.code));
  b.setNext(r.next.value());
  b.setMin(r.min.value());
  b.setMax(r.max.value());
  b.setCount(r.count);
  out.attach(r.records);
}
void write(Out&, Response::Builder root, const reply::Offset& r) { root.setOffset(r.offset.value()); }
void write(Out&, Response::Builder root, const reply::Queue& r) {
  auto b = root.initQueue();
  b.setMin(r.min.value());
  b.setMax(r.max.value());
}
void write(Out& out, Response::Builder root, const reply::Route& r) {
  auto b = root.initRoute();
  auto brokers = b.initBrokers(static_cast<unsigned>(r.brokers.size()));
  for (unsigned i = 0; i < brokers.size(); ++i) {
    auto broker = brokers[i];
    out.text("brokers.cluster", broker, &RouteBroker::Builder::initCluster, r.brokers[i].cluster);
    out.text("brokers.name", broker, &RouteBroker::Builder::initName, r.brokers[i].name);
    auto addresses = broker.initAddresses(static_cast<unsigned>(r.brokers[i].addresses.size()));
    for (unsigned j = 0; j < addresses.size(); ++j) {
      auto address = addresses[j];
      address.setBrokerId(r.brokers[i].addresses[j].first.value());
      out.text("brokers.addresses.address", address, &RouteAddress::Builder::initAddress, r.brokers[i].addresses[j].second);
    }
  }
  auto queues = b.initQueues(static_cast<unsigned>(r.queues.size()));
  for (unsigned i = 0; i < queues.size(); ++i) {
    auto q = queues[i];
    out.text("queues.broker", q, &RouteQueues::Builder::initBroker, r.queues[i].broker);
    q.setReadQueues(r.queues[i].read_queues);
    q.setWriteQueues(r.queues[i].write_queues);
    q.setPerm(r.queues[i].perm);
  }
}
void write(Out& out, Response::Builder root, const reply::Topics& r) {
  auto b = root.initTopics();
  b.setCount(static_cast<uint32_t>(r.topics.size()));
  b.setHasMore(r.has_more);
  out.attach(r.topics);
}
void write(Out& out, Response::Builder root, const reply::Topic& r) {
  auto b = root.initTopic();
  auto config = b.initConfig();
  out.text("config.name", config, &TopicConfig::Builder::initName, r.config.name);
  config.setReadQueues(r.config.read_queues);
  config.setWriteQueues(r.config.write_queues);
  config.setPerm(r.config.perm);
  auto queues = b.initQueues(static_cast<unsigned>(r.queues.size()));
  for (unsigned i = 0; i < queues.size(); ++i) {
    auto q = queues[i];
    q.setQueueId(r.queues[i].queue_id);
    q.setMin(r.queues[i].min.value());
    q.setMax(r.queues[i].max.value());
  }
}
void write(Out& out, Response::Builder root, const reply::Messages& r) {
  root.setMessages(r.count);
  out.attach(r.records);
}
void write(Out&, Response::Builder root, const reply::Registered& r) {
  auto b = root.initRegistered();
  b.setTopicsVersion(r.topics_version);
  b.setNeedsTopics(r.needs_topics);
}
void write(Out& out, Response::Builder root, const reply::Status& r) {
  auto list = root.initStatus(static_cast<unsigned>(r.values.size()));
  for (unsigned i = 0; i < list.size(); ++i) {
    auto pair = list[i];
    out.text("status.name", pair, &Pair::Builder::initName, r.values[i].first);
    out.text("status.value", pair, &Pair::Builder::initValue, r.values[i].second);
  }
}
template <class HostOnly>
void write(Out& out, Response::Builder, const HostOnly&) { out.fail("only the host is told this"); }

}  // namespace
}  // namespace fulmar::native
