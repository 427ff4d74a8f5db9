// Metrics in RocketMQ 5's names where they mean the same, others with the prefix fulmar_; and health. (RocketMQ 5.3: BrokerMetricsConstant,
// DefaultStoreMetricsConstant, RemotingMetricsConstant.)

#include <algorithm>

#include "core/base/marks.h"
#include "core/model/version.h"
#include "core/node/broker.h"
#include "core/node/metric_page.h"

namespace fulmar {

namespace {

// In the order of pages. The values of the node itself come in one piece, all others topic by topic or group by group.
enum Family : int32_t { kNode, kIn, kInBytes, kInSizes, kOut, kOutBytes, kLag, kInflight, kReady, kConsumers, kFamilies };

using enum MetricKind;
constexpr MetricFamily kMessagesIn{"rocketmq_messages_in_total", "Messages that were stored", Counter};
constexpr MetricFamily kThroughputIn{"rocketmq_throughput_in_total", "Bytes of messages that were stored, as they are stored", Counter};
constexpr MetricFamily kMessageSize{"rocketmq_message_size", "Bytes of a message as it is stored", Histogram, kMessageSizeBounds};
constexpr MetricFamily kMessagesOut{"rocketmq_messages_out_total", "Messages that were given to consumers", Counter};
constexpr MetricFamily kThroughputOut{"rocketmq_throughput_out_total", "Bytes of messages that were given to consumers", Counter};
constexpr MetricFamily kLagMessages{"rocketmq_consumer_lag_messages", "Messages between what a group has committed and the end of its queues"};
constexpr MetricFamily kInflightMessages{"rocketmq_consumer_inflight_messages", "Messages given to a group and not yet committed by it"};
constexpr MetricFamily kReadyMessages{"rocketmq_consumer_ready_messages", "Messages that a group has not been given yet"};
constexpr MetricFamily kConsumerConnections{"rocketmq_consumer_connections", "Members of a group"};
constexpr MetricFamily kProducerConnections{"rocketmq_producer_connections", "Connections that have sent"};
constexpr MetricFamily kPermission{"rocketmq_broker_permission", "4 reads, 2 writes: what the broker does just now"};
constexpr MetricFamily kTopics{"rocketmq_topic_number", "Topics"};
constexpr MetricFamily kWatermark{"rocketmq_processor_watermark", "Requests that wait inside the broker"};
constexpr MetricFamily kStorageSize{"rocketmq_storage_size", "Bytes used of the disk under the store"};
constexpr MetricFamily kFlushBehind{"rocketmq_storage_flush_behind_bytes", "Bytes appended and not yet flushed"};
constexpr MetricFamily kDispatchBehind{"rocketmq_storage_dispatch_behind_bytes", "Bytes that consumers might see and that are not in queues yet"};

constexpr MetricFamily kInfo{"fulmar_broker_info", "1; the labels say what runs"};
constexpr MetricFamily kBoot{"fulmar_boot_time_seconds", "When this broker began, in seconds since 1970", Gauge, {}, 3};
constexpr MetricFamily kIsReady{"fulmar_broker_ready", "1 when /readyz says so"};
constexpr MetricFamily kRequests{"fulmar_requests_total", "Requests, whatever came of them", Counter};
constexpr MetricFamily kRefusals{"fulmar_refusals_total", "Requests that were refused", Counter};
constexpr MetricFamily kAcknowledged{"fulmar_sends_acknowledged_total", "Sends answered SEND_OK; a batch is one", Counter};
constexpr MetricFamily kLate{"fulmar_sends_late_total", "Sends answered FLUSH_DISK_TIMEOUT: stored, not known to be durable", Counter};
constexpr MetricFamily kFlushes{"fulmar_flushes_total", "Flushes of the commit log that were asked for", Counter};
constexpr MetricFamily kPullsHeld{"fulmar_pulls_held", "Pulls that wait for a message"};
constexpr MetricFamily kMembers{"fulmar_consumer_members", "Members of all groups"};
constexpr MetricFamily kResets{"fulmar_offset_resets_pending", "Queues of groups that were moved and have not pulled since"};
constexpr MetricFamily kConnections{"fulmar_connections", "Open connections"};
constexpr MetricFamily kAccepted{"fulmar_connections_accepted_total", "Connections that were accepted", Counter};
constexpr MetricFamily kConnectionsRefused{"fulmar_connections_refused_total", "Connections that were closed for what their peer did", Counter};
constexpr MetricFamily kLogBytes{"fulmar_commit_log_bytes", "Bytes of the commit log, from its begin to its end"};
constexpr MetricFamily kAppendedBytes{"fulmar_commit_log_end_bytes", "The physical offset of the end of the commit log"};
constexpr MetricFamily kSegments{"fulmar_commit_log_segments", "Files of the commit log, those ahead of the writer among them"};
constexpr MetricFamily kSegmentsAhead{"fulmar_commit_log_segments_ahead", "Files ahead of the writer"};
constexpr MetricFamily kRecycled{"fulmar_commit_log_segments_recycled_total", "Segments that went on under a new name", Counter};
constexpr MetricFamily kRemoved{"fulmar_commit_log_segments_removed_total", "Segments that were removed", Counter};
constexpr MetricFamily kQueues{"fulmar_consume_queues", "Consume queues"};
constexpr MetricFamily kQueueEntries{"fulmar_consume_queue_entries", "Messages that can be read"};
constexpr MetricFamily kBrokenQueues{"fulmar_broken_queues", "Queues that give nothing from some offset on, until the next start builds them again"};
constexpr MetricFamily kIndexEntries{"fulmar_index_entries", "Entries of the key index"};
constexpr MetricFamily kIsDiskFull{"fulmar_disk_refusing", "1 while sends are refused because the disk is full"};
constexpr MetricFamily kDiskFree{"fulmar_disk_free_bytes", "Bytes free on the disk under the store, our own reserve among them"};
constexpr MetricFamily kNameServers{"fulmar_name_servers", "Name servers that the broker was told of"};
constexpr MetricFamily kRegistered{"fulmar_name_servers_registered", "Name servers that know the broker"};

const char* word(bool is_so) { return is_so ? "true" : "false"; }
bool is_system(std::string_view topic, std::string_view group) { return is_system_topic(topic) || group.starts_with("CID_RMQ_SYS_"); }

}  // namespace

void Broker::on_get_metrics(Ctx& ctx, const Asker& asker, const command::GetMetrics& c) {
  MetricPage page(c);
  page.label("cluster", config_.cluster);
  page.label("node_type", "broker");
  page.label("node_id", config_.broker_name);
  // Before the store can be read there is only the node.
  const int32_t end = is_serving_ ? kFamilies : kNode + 1;
  while (page.family() < end && !page.is_full()) {
    const bool is_whole = page.family() == kNode        ? add_node_metrics(ctx, page)
                          : page.family() <= kInSizes   ? add_topic_metrics(page)
                          : page.family() <= kOutBytes  ? add_given_metrics(page)
                          : page.family() <= kReady     ? add_backlog_metrics(page)
                                                        : add_member_metrics(page);
    if (is_whole) page.end_family();
  }
  const bool has_more = page.family() < end;
  answer(ctx, asker, page.take(has_more));
}

bool Broker::add_node_metrics(Ctx& ctx, MetricPage& page) {
  const Watermarks& marks = store_.watermarks();
  const EndpointCounters& net = endpoint_.counters();
  const bool can_write = state_ == State::Running && store_.can_write(ctx).has_value();
  const std::vector<MetricLabel> disk{{"storage_type", "local"}, {"storage_medium", "disk"}};
  page.add(kInfo, 1, {{"version", std::string(kProgramVersion)}, {"flush_disk_type", config_.flush_disk_type == FlushDiskType::Sync ? "SYNC_FLUSH" : "ASYNC_FLUSH"}});
  page.add(kBoot, booted_.ms);
  page.add(kIsReady, health(ctx).wants.empty());
  page.add(kPermission, (is_serving_ && state_ == State::Running ? kPermRead : 0) | (can_write ? kPermWrite : 0));
  page.add(kRequests, totals_.requests);
  for (const auto& [code, count] : refused_) page.add(kRefusals, count, {{"code", std::string(to_string(code))}});
  page.add(kAcknowledged, totals_.acked);
  page.add(kLate, totals_.late);
  static constexpr MetricFamily kRpcLatency{"rocketmq_rpc_latency", "Milliseconds from a send to its answer", Histogram, kSendTimeBounds, 3};
  const auto send_times = [&](const SendTimes& times, const char* response) {
    page.add_histogram(kRpcLatency, times.counts, times.microseconds, {{"protocol_type", "native"}, {"request_code", "send_message"}, {"response_code", response}});
  };
  send_times(send_times_[0], "success");
  if (totals_.late > 0) send_times(send_times_[1], "flush_disk_timeout");
  page.add(kFlushes, store_.flush_count());
  page.add(kProducerConnections, hosts_.size() - hosts_.count(ConnId{}));
  page.add(kMembers, groups_.members_total());
  page.add(kPullsHeld, long_poll_.size());
  page.add(kResets, resets_.size());
  page.add(kWatermark, gate_.size(), {{"processor", "send"}});
  page.add(kWatermark, pulls_.waiting_count() + room_count_, {{"processor", "pull"}});
  page.add(kWatermark, queries_.waiting_count() + searches_.waiting_count(), {{"processor", "query_message"}});
  page.add(kWatermark, commits_.waiting_count(), {{"processor", "consumer_manager"}});
  page.add(kWatermark, flush_gate_.size(), {{"processor", "admin"}});
  page.add(kConnections, endpoint_.connection_count());
  page.add(kAccepted, net.accepted);
  page.add(kConnectionsRefused, net.refused_protocol, {{"why", "protocol"}});
  page.add(kConnectionsRefused, net.refused_full, {{"why", "full"}});
  page.add(kConnectionsRefused, net.broken_frames, {{"why", "broken_frame"}});
  page.add(kConnectionsRefused, net.broken_headers, {{"why", "broken_header"}});
  page.add(kConnectionsRefused, net.too_slow, {{"why", "slow"}});
  page.add(kConnectionsRefused, net.deaf, {{"why", "deaf"}});
  page.add(kFlushBehind, (marks.appended - marks.flushed).value(), disk);
  page.add(kDispatchBehind, store_.visible().value() - std::min(store_.visible(), marks.dispatched).value(), disk);
  if (const std::optional<DiskSpace>& space = store_.disk_space()) {
    page.add(kStorageSize, space->used, disk);
    page.add(kDiskFree, space->free);
  }
  page.add(kIsDiskFull, store_.is_disk_full());
  const FileSequence& files = store_.log().files();
  page.add(kLogBytes, (marks.appended - marks.begin).value());
  page.add(kAppendedBytes, marks.appended.value());
  page.add(kSegments, files.files().size());
  page.add(kSegmentsAhead, files.files_behind(marks.appended.value()));
  page.add(kRecycled, files.recycled_count());
  page.add(kRemoved, files.removed_count());
  page.add(kTopics, store_.meta().topic_count());
  page.add(kQueues, store_.queues().queue_count());
  page.add(kQueueEntries, store_.queues().entry_count());
  page.add(kBrokenQueues, store_.queues().broken_count());
  page.add(kIndexEntries, store_.index().entry_count());
  page.add(kNameServers, name_servers_.size());
  page.add(kRegistered, registered_count());
  return true;
}

// Only topics that something came into: those that rest cost nobody anything.
bool Broker::add_topic_metrics(MetricPage& page) {
  const auto& topics = traffic_.topics();
  for (auto it = topics.upper_bound(page.topic()); it != topics.end(); ++it) {
    if (page.is_full()) return false;
    const auto& [name, traffic] = *it;
    for (size_t type = 0; type < traffic.in.size(); ++type) {
      const Traffic::In& in = traffic.in[type];
      const uint64_t messages = in.messages();
      if (messages == 0) continue;
      std::vector<MetricLabel> labels{{"topic", name}, {"message_type", std::string(kMessageTypeNames[type])}, {"is_system", word(is_system(name, {}))}};
      if (page.family() == kIn) page.add(kMessagesIn, messages, std::move(labels));
      else if (page.family() == kInBytes) page.add(kThroughputIn, in.bytes, std::move(labels));
      else page.add_histogram(kMessageSize, in.sizes, in.bytes, std::move(labels));
    }
    page.passed({}, name, 1);
    if (MUTANT(MetricsPageSkipsTopic) && page.is_full() && std::next(it) != topics.end()) page.passed({}, std::next(it)->first, 0);
  }
  return true;
}

bool Broker::add_given_metrics(MetricPage& page) {
  const auto& topics = traffic_.topics();
  // A page may have ended inside a topic, and at the group without a name: behind it there is one more thing in the same place.
  for (auto topic = topics.lower_bound(page.topic()); topic != topics.end(); ++topic) {
    const auto& [name, traffic] = *topic;
    const bool is_going_on = !page.topic().empty() && name == page.topic();
    for (auto it = is_going_on ? traffic.out.upper_bound(page.group()) : traffic.out.begin(); it != traffic.out.end(); ++it) {
      if (page.is_full()) return false;
      const auto& [group, out] = *it;
      if (out.messages > 0) {
        std::vector<MetricLabel> labels{{"topic", name}, {"consumer_group", group}, {"is_system", word(is_system(name, group))}};
        page.add(page.family() == kOut ? kMessagesOut : kThroughputOut, page.family() == kOut ? out.messages : out.bytes, std::move(labels));
      }
      page.passed(group, name, 1);
    }
    if (page.is_full()) return false;
    // Where the page before ended costs nothing again: else a small page would end there, too.
    page.passed(traffic.out.empty() ? std::string() : traffic.out.rbegin()->first, name, is_going_on ? 0 : 1);
  }
  return true;
}

// --- what groups have before them ---------------------------------------------------------------------------------------------------------

// The next pair of a group and a topic, in order, of which the group has committed something or which a member subscribes to.
bool Broker::next_consumed(std::string& group, std::string& topic, Subscribed& known) {
  const auto& offsets = store_.meta().all_offsets();
  const auto committed = offsets.upper_bound(OffsetKey{group, topic, INT32_MAX});
  std::optional<std::pair<std::string, std::string>> next;
  if (committed != offsets.end()) next.emplace(committed->first.group, committed->first.topic);
  std::string of = group, after = topic;
  while (true) {
    if (known.group != of || !known.is_known) known = {of, groups_.topics(of), true};
    const auto subscribed = std::upper_bound(known.topics.begin(), known.topics.end(), after);
    if (subscribed != known.topics.end()) {
      if (!next || std::pair(of, *subscribed) < *next) next.emplace(of, *subscribed);
      break;
    }
    const std::string* other = groups_.next_group(of);
    if (other == nullptr || (next && *other > next->first)) break;
    of = *other;
    after.clear();
  }
  if (!next) return false;
  std::tie(group, topic) = *std::move(next);
  return true;
}

// As RocketMQ counts: to the end of the queues; and only what can still be read. A queue of which nothing is committed is all before a group
// that begins at the first message, and nothing of it before one that begins at the last. A group whose members are gone, and that has
// committed something of the topic, is taken for one of the former, as retention does when it counts who loses unread messages.
Broker::Backlog Broker::backlog(const std::string& group, const TopicConfig& topic) {
  Backlog out;
  const auto& offsets = store_.meta().all_offsets();
  auto own = offsets.lower_bound(OffsetKey{group, topic.name, INT32_MIN});
  const Traffic::Out* given = traffic_.out(topic.name, group);
  const bool has_committed = own != offsets.end() && own->first.group == group && own->first.topic == topic.name;
  const bool begins_at_first = groups_.has_members(group) ? groups_.begins_at_first(group) : has_committed;
  out.queues = std::max(topic.read_queues, topic.write_queues);
  for (int32_t queue = 0; queue < out.queues; ++queue) {
    const QueueRange range = store_.queues().range(topic.name, QueueId(queue));
    const OffsetKey key{group, topic.name, queue};
    while (own != offsets.end() && own->first < key) ++own;
    const bool is_committed = own != offsets.end() && own->first == key;
    const QueueOffset from = is_committed ? own->second.offset : begins_at_first ? range.min : range.max;
    const QueueOffset consumed = std::clamp(from, range.min, range.max);
    QueueOffset pulled = consumed;
    if (given != nullptr && static_cast<size_t>(queue) < given->pulled.size()) pulled = std::clamp(given->pulled[static_cast<size_t>(queue)], consumed, range.max);
    out.lag += MUTANT(MetricsLagFromBegin) ? consumed.value() - range.min.value() : range.max.value() - consumed.value();
    out.ready += range.max.value() - pulled.value();
  }
  return out;
}

bool Broker::add_backlog_metrics(MetricPage& page) {
  std::string group = page.group(), topic = page.topic();
  Subscribed known;
  while (next_consumed(group, topic, known)) {
    if (page.is_full()) return false;
    size_t cost = 1 + groups_.member_count(group) / 16;
    if (const TopicConfig* config = store_.meta().topic(topic)) {
      const Backlog before = backlog(group, *config);
      const int64_t value = page.family() == kLag ? before.lag : page.family() == kInflight ? before.lag - before.ready : before.ready;
      const MetricFamily& family = page.family() == kLag ? kLagMessages : page.family() == kInflight ? kInflightMessages : kReadyMessages;
      page.add(family, value, {{"consumer_group", group}, {"topic", topic}, {"is_retry", word(topic.starts_with("%RETRY%"))}, {"is_system", word(is_system(topic, group))}});
      cost += static_cast<size_t>(before.queues) / 4;
    }
    page.passed(group, topic, cost);
  }
  return true;
}

bool Broker::add_member_metrics(MetricPage& page) {
  for (const std::string* group = groups_.next_group(page.group()); group != nullptr; group = groups_.next_group(page.group())) {
    if (page.is_full()) return false;
    std::map<std::string, int64_t, std::less<>> versions;
    groups_.for_each_version(*group, [&versions](std::string_view version) {
      const auto found = versions.find(version);
      if (found != versions.end()) ++found->second;
      else versions.emplace(std::string(version), 1);
    });
    for (const auto& [version, count] : versions)
      page.add(kConsumerConnections, count, {{"consumer_group", *group}, {"version", version}, {"consume_mode", "push"}, {"is_system", word(is_system({}, *group))}});
    page.passed(*group, {}, groups_.member_count(*group) / 16);
  }
  return true;
}

// --- health -----------------------------------------------------------------------------------------------------------------------------

size_t Broker::registered_count() const {
  return static_cast<size_t>(std::count_if(name_servers_.begin(), name_servers_.end(), [](const NameServer& server) { return !server.is_failing && !server.needs_topics; }));
}

reply::Health Broker::health(Ctx& ctx) const {
  reply::Health out;
  if (state_ != State::Running) {
    out.wants.emplace_back("the broker is stopping");
    return out;
  }
  if (listening_.port == 0) out.wants.emplace_back("the broker does not listen yet");
  if (const Result<void> can_write = store_.can_write(ctx); !can_write) {
    const Refusal refusal = store_.refusal(can_write.error());
    out.wants.push_back(refusal.measured.empty() ? refusal.cause : fmt::format("{} ({})", refusal.cause, refusal.measured));
  } else if (!is_serving_) {
    out.wants.emplace_back("the store is recovering");
  }
  if (is_serving_ && !name_servers_.empty() && registered_count() == 0) {
    const auto failing = std::find_if(name_servers_.begin(), name_servers_.end(), [](const NameServer& server) { return server.is_failing; });
    out.wants.push_back(fmt::format("registered with none of {} name servers{}", name_servers_.size(), failing == name_servers_.end() ? "" : ": " + failing->failure));
  }
  return out;
}

}  // namespace fulmar
