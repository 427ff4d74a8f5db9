// Sends: what is refused, what is stored, and when it is acknowledged.

#include "core/base/marks.h"
#include "core/node/broker.h"
#include "core/node/broker_events.h"

namespace fulmar {

// In one pass.
Broker::Wishes Broker::wishes_of(Bytes properties) {
  Wishes out;
  property::for_each(properties, [&](std::string_view name, std::string_view value) {
    if (name.front() == 'W' && name == property::kWait) out.waits = value != "false";
    if (name.front() == '_' && name == "__SHARDINGKEY") out.is_fifo = true;
    if (name.front() != 'D' && name.front() != 'T') return;
    if ((name == "DELAY" && value != "0") || name == "TIMER_DELAY_SEC" || name == "TIMER_DELAY_MS" || name == "TIMER_DELIVER_MS") out.delay = name;
  });
  return out;
}

namespace {
// Numeric addresses are the rule; a name (of a test, or of a socket that has none) is written as zeros.
HostAddress host_of(const Address& address) {
  const Result<HostAddress> parsed = HostAddress::parse(address.host, address.port);
  if (parsed) return *parsed;
  HostAddress none;
  none.port = address.port;
  return none;
}
}  // namespace

// --- what is refused ----------------------------------------------------------------------------------------------------------------

std::optional<Refusal> Broker::find_target(Ctx& ctx, std::string_view topic, int32_t queue_id, uint32_t sys_flag, Target& target) {
  if (const auto name = check_topic_name(topic); !name) return Refusal{Code::InvalidParameter, name.error().detail, fmt::format("{} bytes", topic.size()), 0};
  if (is_system_topic(topic) || topic == "TBW102") return Refusal{Code::NoPermission, fmt::format("topic '{}' belongs to the broker", topic), "", 0};
  if ((sys_flag & sys_flag::kTransactionMask) != 0)
    return Refusal{Code::MessageIllegal, "transactional messages are not supported by this version", fmt::format("sysFlag 0x{:x}", sys_flag), 0};
  target.topic = store_.meta().topic(topic);
  if (target.topic == nullptr) {
    if (!config_.is_topic_auto_created) return Refusal{Code::TopicNotExist, fmt::format("there is no topic '{}', and this broker creates none by itself", topic), "autoCreateTopicEnable=false", 0};
    const TopicConfig made{std::string(topic), config_.default_topic_queues, config_.default_topic_queues, kPermRead | kPermWrite};
    if (const auto appended = store_.meta().set_topic(ctx, made); !appended) return store_.refusal(appended.error());
    SOMETIMES("broker: a topic is made by a send", true);
    target.topic = store_.meta().topic(topic);
  }
  const TopicConfig& config = *target.topic;
  if ((config.perm & kPermWrite) == 0) return Refusal{Code::NoPermission, fmt::format("topic '{}' takes no messages", topic), fmt::format("perm {}", config.perm), 0};
  const int32_t queues = std::max(config.read_queues, config.write_queues);
  if (queue_id >= queues) return Refusal{Code::InvalidParameter, fmt::format("topic '{}' has no queue {}", topic, queue_id), fmt::format("{} queues", queues), 0};
  if (queue_id < 0 && config.write_queues <= 0) return Refusal{Code::NoPermission, fmt::format("topic '{}' has no queue to write to", topic), "writeQueueNums 0", 0};
  target.queue_id = queue_id;
  target.traffic = &traffic_.of(config.name);
  return std::nullopt;
}

std::optional<Refusal> Broker::check_message(Bytes body, Bytes properties, Wishes& wishes) const {
  if (body.empty()) return Refusal{Code::MessageIllegal, "the body is empty", "body 0 bytes", 0};
  if (body.size() > config_.body_bytes_max)
    return Refusal{Code::MessageIllegal, "the body is too large", fmt::format("body {} bytes, maxMessageSize {}", body.size(), config_.body_bytes_max), 0};
  if (properties.size() > limits::kPropertyBytesMax)
    return Refusal{Code::MessageIllegal, "the properties are too large", fmt::format("properties {} bytes, at most {}", properties.size(), limits::kPropertyBytesMax), 0};
  wishes = wishes_of(properties);
  if (wishes.delay)
    return Refusal{Code::MessageIllegal, "delayed messages are not supported by this version", fmt::format("property {}", *wishes.delay), 0};
  return std::nullopt;
}

std::optional<Refusal> Broker::check_gate(const AckGate& gate) const {
  if (!gate.full()) return std::nullopt;
  SOMETIMES("broker: a gate is full", true);
  return Refusal{Code::SystemBusy, "too many requests wait for the disk",
                 fmt::format("{} wait, appended {}, flushed {}", gate.size(), store_.watermarks().appended, store_.watermarks().flushed), 100};
}

// --- what is stored -----------------------------------------------------------------------------------------------------------------

void Broker::on_send(Ctx& ctx, const Asker& asker, const command::SendMessage& c) {
  Target target;
  Wishes wishes;
  if (auto refusal = check_message(c.body, c.properties, wishes)) return refuse(ctx, asker, std::move(*refusal));
  if (auto refusal = check_gate(gate_)) return refuse(ctx, asker, std::move(*refusal));
  if (auto refusal = find_target(ctx, c.topic, c.queue_id, c.sys_flag, target)) return refuse(ctx, asker, std::move(*refusal));
  Message message = message_for(asker, target, c.sys_flag, c.born);
  message.flag = c.flag;
  message.reconsume_times = c.reconsume_times;
  message.properties = c.properties;
  message.body = c.body;
  const Result<Appended> appended = store_.append(ctx, message);
  if (!appended) return refuse(ctx, asker, store_.refusal(appended.error()));
  totals_.put_bytes += c.body.size();
  on_stored(ctx, asker, *appended, message, 1, target, wishes);
}

void Broker::on_send_batch(Ctx& ctx, const Asker& asker, const command::SendBatch& c) {
  if (c.packed.empty()) return refuse(ctx, asker, {Code::MessageIllegal, "the batch is empty", "0 bytes", 0});
  if (c.packed.size() > config_.body_bytes_max)
    return refuse(ctx, asker, {Code::MessageIllegal, "the batch is too large", fmt::format("{} bytes, maxMessageSize {}", c.packed.size(), config_.body_bytes_max), 0});
  if (c.topic.starts_with("%RETRY%")) return refuse(ctx, asker, {Code::MessageIllegal, "a batch may not go to a retry topic", std::string(c.topic.substr(0, 127)), 0});
  batch_.clear();
  Wishes shared;   // somebody waits; a batch is what its last message is
  shared.waits = false;
  uint64_t body_bytes = 0;
  for (Bytes rest = c.packed; !rest.empty();) {
    Result<BatchItem> item = next_batch_item(rest);
    if (!item) return refuse(ctx, asker, {Code::MessageIllegal, item.error().detail, fmt::format("item {}", batch_.size()), 0});
    Wishes wishes;
    if (auto refusal = check_message(item->body, item->properties, wishes)) {
      refusal->measured += fmt::format(", item {}", batch_.size());
      return refuse(ctx, asker, std::move(*refusal));
    }
    shared.waits = shared.waits || wishes.waits;
    shared.is_fifo = wishes.is_fifo;
    body_bytes += item->body.size();
    batch_.push_back(*item);
  }
  Target target;
  if (auto refusal = check_gate(gate_)) return refuse(ctx, asker, std::move(*refusal));
  if (auto refusal = find_target(ctx, c.topic, c.queue_id, c.sys_flag, target)) return refuse(ctx, asker, std::move(*refusal));
  const Message message = message_for(asker, target, c.sys_flag, c.born);
  const Result<Appended> appended = store_.append_batch(ctx, message, batch_);
  if (!appended) return refuse(ctx, asker, store_.refusal(appended.error()));
  totals_.put_bytes += body_bytes;
  on_stored(ctx, asker, *appended, message, static_cast<int32_t>(batch_.size()), target, shared);
}

// Everything but what differs from message to message. A negative queue id: the next in turn.
Message Broker::message_for(const Asker& asker, const Target& target, uint32_t sys_flag, Wall born) {
  Message message;
  message.topic = target.topic->name;
  int32_t queue = target.queue_id;
  if (queue < 0) queue = static_cast<int32_t>(target.traffic->next_queue++ % static_cast<uint32_t>(target.topic->write_queues));
  message.queue_id = QueueId(queue);
  const Hosts& hosts = hosts_of(asker);
  message.born_host = hosts.born;
  message.store_host = hosts.store;
  message.sys_flag = sys_flag & ~(sys_flag::kBornHostV6 | sys_flag::kStoreHostV6);
  if (hosts.born.is_v6) message.sys_flag |= sys_flag::kBornHostV6;
  if (hosts.store.is_v6) message.sys_flag |= sys_flag::kStoreHostV6;
  message.born = born;
  return message;
}

// Parsed once a connection. The store host is the address at which it reached us: a message id made of it can be dialled by that client. The
// port is always the broker's own: whoever came by the VIP port is not the only one who reads the record.
const Broker::Hosts& Broker::hosts_of(const Asker& asker) {
  const auto found = hosts_.find(asker.conn);   // the host's own: under connection 0, which no driver gives away
  if (found != hosts_.end()) return found->second;
  Hosts hosts;
  if (const Peer* peer = asker.is_host ? nullptr : endpoint_.peer(asker.conn)) {
    hosts.born = host_of(peer->remote);
    hosts.store = host_of(Address{peer->local.host, listening_.port});
  } else {
    hosts.born = host_of(Address{"127.0.0.1", 0});
    hosts.store = host_of(Address{"127.0.0.1", listening_.port});
  }
  return hosts_.emplace(asker.conn, hosts).first->second;
}

// --- when it is acknowledged --------------------------------------------------------------------------------------------------------

void Broker::on_stored(Ctx& ctx, const Asker& asker, const Appended& appended, const Message& message, int32_t count, const Target& target, const Wishes& wishes) {
  totals_.put_messages += static_cast<uint64_t>(count);
  Traffic::stored(*target.traffic, wishes.is_fifo ? MessageType::Fifo : MessageType::Normal, static_cast<uint64_t>(count), (appended.end - appended.begin).value());
  if (asker.is_one_way) return;
  const HeldSend held{asker, message.queue_id.value(), count, appended.queue_offset, appended.begin, appended.end, message.store_host, ctx.now.monotonic};
  if (!wishes.waits) return acknowledge(ctx, held, false, false);   // property WAIT=false: its sender does not care for the disk
  const auto token = sends_.add(held);
  CHECK(token.has_value() && gate_.hold(held.end, ctx.now.monotonic + Duration::milliseconds(config_.sync_flush_timeout_ms), *token));
}

void Broker::acknowledge(Ctx& ctx, const HeldSend& held, bool is_late, bool needs_flush) {
  const bool is_success = !is_late || MUTANT(LateFlushSaysSuccess);
  SOMETIMES("broker: a send is answered FLUSH_DISK_TIMEOUT", is_late);
  ++(is_success ? totals_.acked : totals_.late);
  SendTimes& times = send_times_[is_success ? 0 : 1];
  const int64_t took_us = (ctx.now.monotonic - held.asked).ns / 1000;
  size_t bucket = 0;
  while (bucket < std::size(kSendTimeBounds) && took_us > kSendTimeBounds[bucket]) ++bucket;
  ++times.counts[bucket];
  times.microseconds += static_cast<uint64_t>(took_us);
  ctx.trace.note(MessageAcked{held.begin, held.end, held.queue_id, held.queue_offset, held.count, needs_flush && is_success});
  auto& sent = std::get<reply::Sent>(sent_reply_);
  sent.code = is_success ? Code::Success : Code::FlushDiskTimeout;
  sent.queue_id = held.queue_id;
  sent.queue_offset = held.queue_offset;
  sent.count = held.count;
  sent.physical_offset = held.begin;
  write_message_id(sent.message_id, held.store_host, held.begin);
  answer(ctx, held.asker, sent_reply_);
}

void Broker::answer_when_flushed(Ctx& ctx, const Asker& asker, PhysicalOffset end) {
  if (asker.is_one_way) return;
  if (MUTANT(TopicChangeNotFlushed)) return answer(ctx, asker, reply::Ok{});
  const auto token = flush_waiters_.add(asker);
  if (!token) return refuse(ctx, asker, {Code::FlushDiskTimeout, "stored, but too many requests wait to hear that it is durable", fmt::format("{} wait", flush_waiters_.size()), 100});
  CHECK(flush_gate_.hold(end, ctx.now.monotonic + Duration::milliseconds(config_.sync_flush_timeout_ms), *token));
  store_.want_flushed(ctx, end);
}

void Broker::pump_gates(Ctx& ctx) {
  released_.clear();
  gate_.release(store_.ack_mark(), ctx.now.monotonic, released_);
  const bool needs_flush = config_.flush_disk_type == FlushDiskType::Sync;
  for (const AckGate::Released& one : released_) acknowledge(ctx, sends_.take(one.token), one.is_late, needs_flush);
  released_.clear();
  flush_gate_.release(store_.watermarks().flushed, ctx.now.monotonic, released_);
  for (const AckGate::Released& one : released_) {
    const Asker asker = flush_waiters_.take(one.token);
    if (!one.is_late) answer(ctx, asker, reply::Ok{});
    else refuse(ctx, asker, {Code::FlushDiskTimeout, "stored, but not known to be durable", fmt::format("flushed {}, appended {}", store_.watermarks().flushed, store_.watermarks().appended), 0});
  }
}

}  // namespace fulmar
