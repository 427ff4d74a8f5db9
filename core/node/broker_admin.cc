// Topics, routes, status, and the registration with name servers.

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "core/base/marks.h"
#include "core/model/version.h"
#include "core/node/broker.h"
#include "core/node/broker_events.h"
#include "core/store/owners.h"

namespace fulmar {

namespace {
constexpr TimerId kRegisterTimer{uint64_t{owner::kNode} << 56 | 2};
constexpr uint64_t kUnregisterBit = 1ull << 32;
constexpr std::string_view kDefaultTopic = "TBW102";   // RocketMQ's template of topics that are made by themselves
constexpr uint32_t kPermInherit = 1;
// What takes effect at once when it changes in the broker's own copy of the configuration.
constexpr std::string_view kLiveKeys[] = {"autoCreateTopicEnable", "defaultTopicQueueNums", "maxMessageSize", "registerNameServerPeriod", "syncFlushTimeout"};
struct ConfigChanged {
  FULMAR_EVENT(ConfigChanged, Info, "configuration changed: {}");
  std::string_view what;
  auto values() const { return std::array<uint64_t, 0>{}; }
  std::string_view text() const { return what; }
};

// What every name server hears of beside the topics of the log. By the route of the first a client finds every broker, also one that
// has no topic yet.
std::vector<TopicConfig> own_topics(const BrokerConfig& config) {
  std::vector<TopicConfig> out{{std::string(kMetaTopic), 1, 1, kPermRead}};
  if (config.is_topic_auto_created)
    out.push_back({std::string(kDefaultTopic), config.default_topic_queues, config.default_topic_queues, kPermRead | kPermWrite | kPermInherit});
  return out;
}

Refusal no_topic(std::string_view topic) { return {Code::TopicNotExist, fmt::format("there is no topic '{}'", topic.substr(0, 255)), "", 0}; }
}  // namespace

// --- topics -------------------------------------------------------------------------------------------------------------------------

// Consumers ask for the read queues: what lies in a queue behind them, nobody would ever get. Write queues may always be fewer.
std::optional<Refusal> Broker::check_no_queue_is_hidden(const command::CreateTopic& c) {
  const TopicConfig* before = store_.meta().topic(c.topic);
  if (before == nullptr) return std::nullopt;
  constexpr int32_t kNamedMax = 8;
  std::string named;
  int32_t holding = 0;
  for (int32_t queue = c.read_queues; queue < std::max(before->read_queues, before->write_queues); ++queue) {
    const QueueRange range = store_.queues().range(c.topic, QueueId(queue));
    if (range.max <= range.min) continue;
    if (++holding <= kNamedMax) named += fmt::format("{}queue {} holds {}", named.empty() ? "" : ", ", queue, range.max - range.min);
  }
  SOMETIMES("broker: a topic may not lose queues that hold messages", holding > 0);
  if (holding == 0) return std::nullopt;
  if (holding > kNamedMax) named += fmt::format(" and {} more", holding - kNamedMax);
  return Refusal{Code::InvalidParameter, fmt::format("with {} read queues topic '{}' would hide messages: make the write queues fewer, and the read queues when those are gone", c.read_queues, c.topic),
                 named, 0};
}

void Broker::on_create_topic(Ctx& ctx, const Asker& asker, const command::CreateTopic& c) {
  if (const auto name = check_topic_name(c.topic); !name) return refuse(ctx, asker, {Code::InvalidParameter, name.error().detail, "", 0});
  if (is_system_topic(c.topic) || c.topic == kDefaultTopic) return refuse(ctx, asker, {Code::NoPermission, fmt::format("topic '{}' belongs to the broker", c.topic), "", 0});
  const auto is_count = [](int32_t queues) { return queues >= 0 && queues <= limits::kTopicQueuesMax; };
  if (!is_count(c.read_queues) || !is_count(c.write_queues) || c.read_queues + c.write_queues == 0)
    return refuse(ctx, asker, {Code::InvalidParameter, "the number of queues is out of range", fmt::format("read {}, write {}, allowed 1 to {}", c.read_queues, c.write_queues, limits::kTopicQueuesMax), 0});
  if (c.perm > (kPermRead | kPermWrite | kPermInherit)) return refuse(ctx, asker, {Code::InvalidParameter, "the permission is out of range", fmt::format("perm {}, allowed 0 to 7", c.perm), 0});
  if (auto refusal = check_no_queue_is_hidden(c)) return refuse(ctx, asker, std::move(*refusal));
  if (auto refusal = check_gate(flush_gate_)) return refuse(ctx, asker, std::move(*refusal));
  const Result<Appended> appended = store_.meta().set_topic(ctx, TopicConfig{std::string(c.topic), c.read_queues, c.write_queues, c.perm});
  if (!appended) return refuse(ctx, asker, store_.refusal(appended.error()));
  answer_when_flushed(ctx, asker, appended->end);
}

void Broker::on_delete_topic(Ctx& ctx, const Asker& asker, const command::DeleteTopic& c) {
  if (store_.meta().topic(c.topic) == nullptr) return refuse(ctx, asker, no_topic(c.topic));
  if (auto refusal = check_gate(flush_gate_)) return refuse(ctx, asker, std::move(*refusal));
  const std::string topic(c.topic);
  const Result<Appended> appended = store_.meta().remove_topic(ctx, topic);
  if (!appended) return refuse(ctx, asker, store_.refusal(appended.error()));
  traffic_.forget(topic);
  answer_when_flushed(ctx, asker, appended->end);
  std::vector<PullRequest> held;
  long_poll_.take_topic(topic, held);
  for (const PullRequest& request : held) refuse(ctx, request.asker, {Code::TopicNotExist, fmt::format("topic '{}' was deleted", topic), "", 0});
}

void Broker::on_list_topics(Ctx& ctx, const Asker& asker, const command::ListTopics& c) {
  const size_t count = static_cast<size_t>(std::clamp(c.count_max, 1, limits::kTopicPageMax));
  reply::Topics topics;
  topics.topics = store_.meta().topics(c.after, count + 1);
  topics.has_more = topics.topics.size() > count;
  if (topics.has_more) topics.topics.pop_back();
  answer(ctx, asker, std::move(topics));
}

void Broker::on_describe_topic(Ctx& ctx, const Asker& asker, const command::DescribeTopic& c) {
  const TopicConfig* config = store_.meta().topic(c.topic);
  if (config == nullptr) return refuse(ctx, asker, no_topic(c.topic));
  reply::Topic topic;
  topic.config = *config;
  for (int32_t queue = 0; queue < std::max(config->read_queues, config->write_queues); ++queue) {
    const QueueRange range = store_.queues().range(c.topic, QueueId(queue));
    topic.queues.push_back({queue, range.min, range.max});
  }
  answer(ctx, asker, std::move(topic));
}

// --- routes -------------------------------------------------------------------------------------------------------------------------

// So that a client can live without a name server: this broker only, at the address at which the connection reached it.
void Broker::on_query_route(Ctx& ctx, const Asker& asker, const command::QueryRoute& c) {
  TopicConfig config;
  const std::vector<TopicConfig> own = own_topics(config_);
  const auto same = std::find_if(own.begin(), own.end(), [&c](const TopicConfig& t) { return t.name == c.topic; });
  if (const TopicConfig* found = store_.meta().topic(c.topic)) {
    config = *found;
  } else if (same != own.end()) {
    config = *same;
  } else {
    // A topic that the first send would make has the route that it will get.
    const bool is_makeable = config_.is_topic_auto_created && check_topic_name(c.topic) && !is_system_topic(c.topic);
    if (!is_makeable) return refuse(ctx, asker, no_topic(c.topic));
    config = {std::string(c.topic), config_.default_topic_queues, config_.default_topic_queues, kPermRead | kPermWrite};
  }
  Address address{config_.broker_ip, listening_.port};
  if (address.host.empty()) {
    const Peer* peer = asker.is_host ? nullptr : endpoint_.peer(asker.conn);
    if (peer != nullptr) address = peer->local;
    else address.host = "127.0.0.1";
  }
  reply::Route route;
  route.brokers.push_back({config_.cluster, config_.broker_name, {{BrokerId(config_.broker_id), address.text()}}});
  route.queues.push_back({config_.broker_name, config.read_queues, config.write_queues, config.perm});
  answer(ctx, asker, std::move(route));
}

// --- status -------------------------------------------------------------------------------------------------------------------------

void Broker::on_get_status(Ctx& ctx, const Asker& asker) {
  const auto number = [](auto v) { return fmt::format("{}", v); };
  reply::Status status;
  auto& out = status.values;
  out.emplace_back("brokerClusterName", config_.cluster);
  out.emplace_back("brokerName", config_.broker_name);
  out.emplace_back("brokerId", number(config_.broker_id));
  out.emplace_back("brokerVersionDesc", std::string(kProgramVersion));
  out.emplace_back("brokerState", state_ == State::Stopping ? "stopping" : is_serving_ ? "serving" : "recovering");
  out.emplace_back("listenAddress", listening_.text());
  out.emplace_back("bootTimestamp", number(booted_.ms));
  out.emplace_back("msgPutTotalTodayNow", number(totals_.put_messages));
  out.emplace_back("msgGetTotalTodayNow", number(totals_.got_messages));
  out.emplace_back("putMessageTimesTotal", number(totals_.put_messages));
  out.emplace_back("putMessageSizeTotal", number(totals_.put_bytes));
  out.emplace_back("putMessageAverageSize", number(totals_.put_messages == 0 ? 0 : totals_.put_bytes / totals_.put_messages));
  out.emplace_back("getMessageSizeTotal", number(totals_.got_bytes));
  for (auto& value : store_.status(ctx.now)) out.push_back(std::move(value));
  out.emplace_back("acknowledgedTotal", number(totals_.acked));
  out.emplace_back("flushDiskTimeoutTotal", number(totals_.late));
  out.emplace_back("sendsWaiting", number(gate_.size()));
  out.emplace_back("pullsHeld", number(long_poll_.size()));
  out.emplace_back("pullsWaitingForDisk", number(pulls_.waiting_count()));
  out.emplace_back("pullsWaitingForRoom", number(room_count_));
  out.emplace_back("queriesWaiting", number(queries_.waiting_count()));
  out.emplace_back("commitsWaiting", number(commits_.waiting_count()));
  out.emplace_back("nameServersRegistered", fmt::format("{} of {}", registered_count(), name_servers_.size()));
  for (const NameServer& server : name_servers_)
    if (server.is_failing) out.emplace_back("registrationFailure", server.failure);
  out.emplace_back("searchesWaiting", number(searches_.waiting_count()));
  out.emplace_back("consumerGroups", number(groups_.group_count()));
  out.emplace_back("consumerMembers", number(groups_.members_total()));
  out.emplace_back("heartbeatsHeld", number(groups_.held_count()));
  out.emplace_back("offsetResetsPending", number(resets_.size()));
  const EndpointCounters& counters = endpoint_.counters();
  out.emplace_back("connections", number(endpoint_.connection_count()));
  out.emplace_back("connectionsAcceptedTotal", number(counters.accepted));
  out.emplace_back("connectionsRefusedProtocolTotal", number(counters.refused_protocol));
  out.emplace_back("brokenFramesTotal", number(counters.broken_frames));
  out.emplace_back("brokenHeadersTotal", number(counters.broken_headers));
  out.emplace_back("requestsTotal", number(totals_.requests));
  out.emplace_back("refusedTotal", number(totals_.refused));
  for (const auto& [code, count] : refused_) out.emplace_back(fmt::format("refusedTotal_{}", to_string(code)), number(count));
  answer(ctx, asker, std::move(status));
}

// --- configuration ------------------------------------------------------------------------------------------------------------------

void Broker::on_get_config(Ctx& ctx, const Asker& asker) {
  reply::Status status;
  const std::string text = serialise(config_);
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (const size_t split = line.find('='); split != std::string_view::npos) status.values.emplace_back(line.substr(0, split), line.substr(split + 1));
  }
  answer(ctx, asker, std::move(status));
}

// Until the broker stops: the file it was started with is the operator's.
void Broker::on_update_config(Ctx& ctx, const Asker& asker, const command::UpdateConfig& c) {
  if (std::find(std::begin(kLiveKeys), std::end(kLiveKeys), c.key) == std::end(kLiveKeys))
    return refuse(ctx, asker, {Code::InvalidParameter, fmt::format("'{}' cannot be changed while the broker runs", c.key.substr(0, 255)), fmt::format("can be: {}", fmt::join(kLiveKeys, ", ")), 0});
  if (c.value.find('\n') != std::string_view::npos) return refuse(ctx, asker, {Code::InvalidParameter, "a value is one line", "", 0});
  std::vector<ConfigNote> notes;
  const Result<BrokerConfig> changed = parse_broker_config(fmt::format("{}{}={}\n", serialise(config_), c.key, c.value), &notes);
  if (!changed) return refuse(ctx, asker, {Code::InvalidParameter, changed.error().detail, "", 0});
  ctx.trace.note(ConfigChanged{fmt::format("{}={}", c.key, c.value)});
  config_ = *changed;
  for (NameServer& server : name_servers_) server.needs_topics = true;   // what the broker makes by itself may have changed
  answer(ctx, asker, reply::Ok{});
}

// --- registration -------------------------------------------------------------------------------------------------------------------

void Broker::pump_registration(Ctx& ctx) {
  if (name_servers_.empty() || state_ != State::Running || listening_.port == 0) return;
  Monotonic next = Monotonic::never();
  for (size_t i = 0; i < name_servers_.size(); ++i) {
    NameServer& server = name_servers_[i];
    const bool is_news = server.version_known != store_.meta().topics_version() && !server.needs_topics && !server.is_failing;
    if (!server.is_asked && (is_news || server.next <= ctx.now.monotonic)) register_with(ctx, i);
    if (!server.is_asked) next = std::min(next, server.next);
  }
  ctx.timers.set(kRegisterTimer, next);
}

// The whole table when it is wanted or has changed, otherwise a heartbeat.
void Broker::register_with(Ctx& ctx, size_t index) {
  NameServer& server = name_servers_[index];
  const Duration interval = Duration::milliseconds(config_.register_interval_ms);
  command::RegisterBroker c;
  c.cluster = config_.cluster;
  c.broker_name = config_.broker_name;
  c.broker_id = BrokerId(config_.broker_id);
  c.host = config_.broker_ip;
  c.port = listening_.port;
  c.version = kProgramVersion;
  c.topics_version = store_.meta().topics_version();
  c.is_complete = server.needs_topics || server.version_known != c.topics_version;
  if (c.is_complete) {
    c.topics = store_.meta().topics("", store_.meta().topic_count());
    for (TopicConfig& own : own_topics(config_)) c.topics.push_back(std::move(own));
  }
  server.version_sent = c.topics_version;
  server.next = ctx.now.monotonic + interval;
  const Result<void> called = links_.call(ctx, server.address, c, index, ctx.now.monotonic + std::max(interval, Duration::seconds(3)));
  server.is_asked = called.has_value();
  if (called) return;
  server.failure = called.error().text();
  if (!std::exchange(server.is_failing, true)) ctx.trace.note(NameServerLost{server.failure});
}

void Broker::on_reply(Ctx& ctx, uint64_t token, Result<Reply> result) {
  if ((token & kUnregisterBit) != 0) {
    --unregistering_;
    return;
  }
  NameServer& server = name_servers_[token];
  server.is_asked = false;
  const auto* registered = result ? std::get_if<reply::Registered>(&*result) : nullptr;
  if (registered == nullptr) {
    const std::string why = fmt::format("{}: {}", server.address.text(), result ? describe(*result) : result.error().text());
    if (!std::exchange(server.is_failing, true)) ctx.trace.note(NameServerLost{why});
    server.failure = why;
    server.needs_topics = true;   // it may have been another life of it
    return;
  }
  SOMETIMES("broker: a name server wants the topics", registered->needs_topics);
  const bool is_first = server.needs_topics || server.is_failing;
  server.is_failing = false;
  server.version_known = server.version_sent;   // ours, not what it says: a wrong echo must not make us register without end
  server.needs_topics = registered->needs_topics;
  if (server.needs_topics) server.next = ctx.now.monotonic;
  else if (is_first) ctx.trace.note(NameServerKnowsUs{server.version_known, server.address.text()});
}

void Broker::unregister(Ctx& ctx) {
  const Monotonic deadline = std::min(stop_deadline_, ctx.now.monotonic + limits::kUnregisterPatience);
  const command::UnregisterBroker c{config_.cluster, config_.broker_name, BrokerId(config_.broker_id)};
  for (size_t i = 0; i < name_servers_.size(); ++i)
    if (links_.is_open(name_servers_[i].address) && links_.call(ctx, name_servers_[i].address, c, i | kUnregisterBit, deadline)) ++unregistering_;
}

}  // namespace fulmar
