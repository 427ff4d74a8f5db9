#pragma once
// Header fields to typed commands and replies.
// A part of codec.cc, included there and nowhere else.

#include "core/wire/native/codec_fields.h"
#include "core/wire/native/codec_read_groups.h"

namespace fulmar::native {
namespace {

// --- requests ---------------------------------------------------------------------------------------------------------------------------

command::SendMessage read(Fields& f, Send::Reader r) {
  command::SendMessage c;
  c.topic = f.at("topic").text(r.getTopic());
  c.queue_id = r.getQueueId();
  c.flag = r.getFlag();
  c.sys_flag = r.getSysFlag();
  c.born = Wall{r.getBornMs()};
  c.reconsume_times = r.getReconsumeTimes();
  c.properties = f.at("properties").data(r.getProperties());
  c.body = f.attachment();
  return c;
}

command::SendBatch read(Fields& f, SendBatch::Reader r) {
  command::SendBatch c;
  c.topic = f.at("topic").text(r.getTopic());
  c.queue_id = r.getQueueId();
  c.sys_flag = r.getSysFlag();
  c.born = Wall{r.getBornMs()};
  c.packed = f.attachment();
  return c;
}

command::PullMessages read(Fields& f, Pull::Reader r) {
  command::PullMessages c;
  c.group = f.at("group").text(r.getGroup());
  c.topic = f.at("topic").text(r.getTopic());
  c.queue_id = r.getQueueId();
  c.offset = QueueOffset(r.getOffset());
  c.count_max = f.at("countMax").count(r.getCountMax());
  c.bytes_max = f.at("bytesMax").count(r.getBytesMax());
  c.suspend_ms = r.getSuspendMs();
  c.subscription = f.at("subscription").text(r.getSubscription());
  return c;
}

command::CommitOffset read(Fields& f, CommitOffset::Reader r) {
  command::CommitOffset c;
  c.group = f.at("group").text(r.getGroup());
  c.topic = f.at("topic").text(r.getTopic());
  c.queue_id = r.getQueueId();
  c.offset = QueueOffset(r.getOffset());
  c.needs_flush = r.getNeedsFlush();
  return c;
}

command::QueryMessages read(Fields& f, QueryMessages::Reader r) {
  command::QueryMessages c;
  c.topic = f.at("topic").text(r.getTopic());
  c.key = f.at("key").text(r.getKey());
  c.count_max = f.at("countMax").count(r.getCountMax());
  c.begin = Wall{r.getBeginMs()};
  c.end = Wall{r.getEndMs()};
  return c;
}

command::RegisterBroker read(Fields& f, RegisterBroker::Reader r) {
  command::RegisterBroker c;
  c.cluster = f.at("cluster").text(r.getCluster());
  c.broker_name = f.at("brokerName").text(r.getBrokerName());
  c.broker_id = BrokerId(r.getBrokerId());
  c.host = f.at("host").text(r.getHost());
  c.port = r.getPort();
  c.topics_version = r.getTopicsVersion();
  c.is_complete = r.getIsComplete();
  c.version = f.at("version").text(r.getVersion());
  c.topics = f.topic_table(r.getTopicCount());
  return c;
}

Command read(Fields& f, Request::Reader root) {
  switch (root.which()) {
    case Request::HELLO: {
      const auto r = f.of("hello").struct_of(root.getHello());
      command::Hello c;
      c.version = r.getVersion();
      c.features = r.getFeatures();
      c.client = f.at("client").text(r.getClient());
      return c;
    }
    case Request::SEND: return read(f, f.of("send").struct_of(root.getSend()));
    case Request::SEND_BATCH: return read(f, f.of("sendBatch").struct_of(root.getSendBatch()));
    case Request::PULL: return read(f, f.of("pull").struct_of(root.getPull()));
    case Request::COMMIT_OFFSET: return read(f, f.of("commitOffset").struct_of(root.getCommitOffset()));
    case Request::QUERY_OFFSET: {
      const auto r = f.of("queryOffset").struct_of(root.getQueryOffset());
      command::QueryOffset c;
      c.group = f.at("group").text(r.getGroup());
      c.topic = f.at("topic").text(r.getTopic());
      c.queue_id = r.getQueueId();
      return c;
    }
    case Request::QUERY_QUEUE: {
      const auto r = f.of("queryQueue").struct_of(root.getQueryQueue());
      command::QueryQueue c;
      c.topic = f.at("topic").text(r.getTopic());
      c.queue_id = r.getQueueId();
      return c;
    }
    case Request::QUERY_ROUTE: return command::QueryRoute{f.of("queryRoute").text(root.getQueryRoute())};
    case Request::CREATE_TOPIC: {
      const auto r = f.of("createTopic").struct_of(root.getCreateTopic());
      command::CreateTopic c;
      c.topic = f.at("name").text(r.getName());
      c.read_queues = f.at("readQueues").count(r.getReadQueues());
      c.write_queues = f.at("writeQueues").count(r.getWriteQueues());
      c.perm = r.getPerm();
      return c;
    }
    case Request::DELETE_TOPIC: return command::DeleteTopic{f.of("deleteTopic").text(root.getDeleteTopic())};
    case Request::LIST_TOPICS: {
      const auto r = f.of("listTopics").struct_of(root.getListTopics());
      command::ListTopics c;
      c.after = f.at("after").text(r.getAfter());
      c.count_max = f.at("countMax").count(r.getCountMax());
      return c;
    }
    case Request::DESCRIBE_TOPIC: return command::DescribeTopic{f.of("describeTopic").text(root.getDescribeTopic())};
    case Request::QUERY_MESSAGES: return read(f, f.of("queryMessages").struct_of(root.getQueryMessages()));
    case Request::VIEW_MESSAGE: {
      command::ViewMessage c;
      c.at = PhysicalOffset(f.of("viewMessage").place_in_log(root.getViewMessage()));
      return c;
    }
    case Request::STATUS: f.of("status"); return command::GetStatus{};
    case Request::REGISTER_BROKER: return read(f, f.of("registerBroker").struct_of(root.getRegisterBroker()));
    case Request::UNREGISTER_BROKER: {
      const auto r = f.of("unregisterBroker").struct_of(root.getUnregisterBroker());
      command::UnregisterBroker c;
      c.cluster = f.at("cluster").text(r.getCluster());
      c.broker_name = f.at("brokerName").text(r.getBrokerName());
      c.broker_id = BrokerId(r.getBrokerId());
      return c;
    }
    case Request::HEARTBEAT: return read(f, f.of("heartbeat").struct_of(root.getHeartbeat()));
    case Request::LEAVE_GROUP: {
      const auto r = f.of("leaveGroup").struct_of(root.getLeaveGroup());
      command::LeaveGroup c;
      c.client_id = f.at("clientId").text(r.getClientId());
      c.group = f.at("group").text(r.getGroup());
      return c;
    }
    case Request::LIST_GROUPS: {
      const auto r = f.of("listGroups").struct_of(root.getListGroups());
      command::ListGroups c;
      c.after = f.at("after").text(r.getAfter());
      c.count_max = f.at("countMax").count(r.getCountMax());
      return c;
    }
    case Request::DESCRIBE_GROUP: return command::DescribeGroup{f.of("describeGroup").text(root.getDescribeGroup())};
    case Request::CREATE_GROUP: return command::CreateGroup{read(f, f.of("createGroup").struct_of(root.getCreateGroup()))};
    case Request::DELETE_GROUP: return command::DeleteGroup{f.of("deleteGroup").text(root.getDeleteGroup())};
    case Request::SEARCH_OFFSET: {
      const auto r = f.of("searchOffset").struct_of(root.getSearchOffset());
      command::SearchOffset c;
      c.topic = f.at("topic").text(r.getTopic());
      c.queue_id = r.getQueueId();
      c.stamp = Wall{r.getStampMs()};
      return c;
    }
    case Request::RESET_OFFSET: return read(f, f.of("resetOffset").struct_of(root.getResetOffset()));
    case Request::QUERY_CLUSTER: f.of("queryCluster"); return command::QueryCluster{};
    case Request::WIPE_WRITE_PERM: return command::WipeWritePerm{f.of("wipeWritePerm").text(root.getWipeWritePerm())};
    case Request::ADD_WRITE_PERM: return command::AddWritePerm{f.of("addWritePerm").text(root.getAddWritePerm())};
    case Request::GET_CONFIG: f.of("getConfig"); return command::GetConfig{};
    case Request::UPDATE_CONFIG: {
      const auto r = f.of("updateConfig").struct_of(root.getUpdateConfig());
      command::UpdateConfig c;
      c.key = f.at("name").text(r.getName());
      c.value = f.at("value").text(r.getValue());
      return c;
    }
  }
  CHECK(false, "method {}", static_cast<int>(root.which()));  // decode_request has looked
  return command::GetStatus{};
}

// --- replies ----------------------------------------------------------------------------------------------------------------------------

reply::Route read(Fields& f, Route::Reader r) {
  reply::Route out;
  for (const auto broker : f.at("brokers").struct_of(r.getBrokers())) {
    reply::RouteBroker b;
    b.cluster = f.at("brokers.cluster").owned(broker.getCluster());
    b.name = f.at("brokers.name").owned(broker.getName());
    for (const auto address : f.at("brokers.addresses").struct_of(broker.getAddresses())) {
      b.addresses.emplace_back(BrokerId(address.getBrokerId()), f.at("brokers.addresses.address").owned(address.getAddress()));
    }
    out.brokers.push_back(std::move(b));
  }
  for (const auto queues : f.at("queues").struct_of(r.getQueues())) {
    reply::RouteQueues q;
    q.broker = f.at("queues.broker").owned(queues.getBroker());
    q.read_queues = f.at("queues.readQueues").count(queues.getReadQueues());
    q.write_queues = f.at("queues.writeQueues").count(queues.getWriteQueues());
    q.perm = queues.getPerm();
    out.queues.push_back(std::move(q));
  }
  return out;
}

reply::Topic read(Fields& f, Topic::Reader r) {
  reply::Topic out;
  const auto config = f.at("config").struct_of(r.getConfig());
  out.config.name = f.at("config.name").owned(config.getName());
  out.config.read_queues = f.at("config.readQueues").count(config.getReadQueues());
  out.config.write_queues = f.at("config.writeQueues").count(config.getWriteQueues());
  out.config.perm = config.getPerm();
  for (const auto queue : f.at("queues").struct_of(r.getQueues())) {
    out.queues.push_back({queue.getQueueId(), QueueOffset(queue.getMin()), QueueOffset(queue.getMax())});
  }
  return out;
}

reply::Sent read(Fields& f, Sent::Reader r) {
  reply::Sent out;
  out.code = static_cast<Code>(r.getCode());
  out.queue_id = r.getQueueId();
  out.queue_offset = QueueOffset(r.getQueueOffset());
  out.count = f.at("count").count(r.getCount());
  out.physical_offset = PhysicalOffset(f.at("physicalOffset").place_in_log(r.getPhysicalOffset()));
  out.message_id = f.at("messageId").owned(r.getMessageId());
  return out;
}

reply::Pulled read(Fields& f, Pulled::Reader r) {
  reply::Pulled out;
  out.code = static_cast<Code>(r.getCode());
  out.next = QueueOffset(r.getNext());
  out.min = QueueOffset(r.getMin());
  out.max = QueueOffset(r.getMax());
  out.count = f.at("count").count(r.getCount());
  out.records = f.owned_attachment();
  return out;
}

Reply read(Fields& f, Response::Reader root) {
  switch (root.which()) {
    case Response::REFUSAL: {
      const auto r = f.of("refusal").struct_of(root.getRefusal());
      fulmar::Refusal out;
      out.code = static_cast<Code>(r.getCode());
      out.cause = f.at("cause").owned(r.getCause());
      out.measured = f.at("measured").owned(r.getMeasured());
      out.retry_after_ms = r.getRetryAfterMs();
      return out;
    }
    case Response::OK: f.of("ok"); return reply::Ok{};
    case Response::HELLO: {
      const auto r = f.of("hello").struct_of(root.getHello());
      reply::Hello out;
      out.version = r.getVersion();
      out.features = r.getFeatures();
      out.server = f.at("server").owned(r.getServer());
      out.frame_bytes_max = f.at("frameBytesMax").count(r.getFrameBytesMax());
      return out;
    }
    case Response::SENT: return read(f, f.of("sent").struct_of(root.getSent()));
    case Response::PULLED: return read(f, f.of("pulled").struct_of(root.getPulled()));
    case Response::OFFSET: f.of("offset"); return reply::Offset{QueueOffset(root.getOffset())};
    case Response::QUEUE: {
      const auto r = f.of("queue").struct_of(root.getQueue());
      return reply::Queue{QueueOffset(r.getMin()), QueueOffset(r.getMax())};
    }
    case Response::ROUTE: return read(f, f.of("route").struct_of(root.getRoute()));
    case Response::TOPICS: {
      const auto r = f.of("topics").struct_of(root.getTopics());
      return reply::Topics{f.topic_table(r.getCount()), r.getHasMore()};
    }
    case Response::TOPIC: return read(f, f.of("topic").struct_of(root.getTopic()));
    case Response::MESSAGES: {
      reply::Messages out;
      out.count = f.of("messages").count(root.getMessages());
      out.records = f.owned_attachment();
      return out;
    }
    case Response::REGISTERED: {
      const auto r = f.of("registered").struct_of(root.getRegistered());
      return reply::Registered{r.getTopicsVersion(), r.getNeedsTopics()};
    }
    case Response::STATUS: {
      reply::Status out;
      for (const auto pair : f.of("status").struct_of(root.getStatus())) {
        std::string name = f.at("name").owned(pair.getName());
        out.values.emplace_back(std::move(name), f.at("value").owned(pair.getValue()));
      }
      return out;
    }
    case Response::MEMBERS: return read(f, f.of("members").struct_of(root.getMembers()));
    case Response::GROUPS: return read(f, f.of("groups").struct_of(root.getGroups()));
    case Response::GROUP: return read(f, f.of("group").struct_of(root.getGroup()));
    case Response::OFFSETS_RESET: return read_offsets_reset(f.of("offsetsReset"), root.getOffsetsReset());
    case Response::CLUSTER: return read_cluster(f.of("cluster"), root.getCluster());
    case Response::TOPICS_CHANGED: return reply::TopicsChanged{f.of("topicsChanged").count(root.getTopicsChanged())};
  }
  CHECK(false, "reply {}", static_cast<int>(root.which()));
  return reply::Ok{};
}

}  // namespace
}  // namespace fulmar::native
