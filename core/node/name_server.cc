#include "core/node/name_server.h"

#include <fmt/format.h>

#include <array>

#include "core/base/marks.h"

namespace fulmar {
namespace {

constexpr uint8_t kEndpointOwner = 1, kListenOwner = 2;
constexpr Port kPort{1};
constexpr TimerId kEndpointTimer{uint64_t{kEndpointOwner} << 56};
constexpr TimerId kExpiryTimer{uint64_t{3} << 56};
constexpr TimerId kStopTimer{uint64_t{4} << 56};

struct NameServerListening {
  FULMAR_EVENT(NameServerListening, Info, "name server listening on port {} at {}");
  uint16_t port;
  std::string_view at;
  auto values() const { return std::array{port}; }
  std::string_view text() const { return at; }
};
struct BrokerRegistered {
  FULMAR_EVENT(BrokerRegistered, Info, "broker id {} registered table {} of {} topics: {}");
  BrokerId id;
  uint64_t version, topics;
  std::string_view who;
  auto values() const { return std::array{static_cast<uint64_t>(id.value()), version, topics}; }
  std::string_view text() const { return who; }
};
struct BrokerRefused {
  FULMAR_EVENT(BrokerRefused, Warning, "broker id {} was refused: {}");
  BrokerId id;
  std::string_view why;
  auto values() const { return std::array{id.value()}; }
  std::string_view text() const { return why; }
};
struct BrokerUnregistered {
  FULMAR_EVENT(BrokerUnregistered, Info, "broker id {} unregistered: {}");
  BrokerId id;
  std::string_view who;
  auto values() const { return std::array{id.value()}; }
  std::string_view text() const { return who; }
};
struct BrokerExpired {
  FULMAR_EVENT(BrokerExpired, Warning, "broker id {} was silent too long: {}");
  BrokerId id;
  std::string_view who;
  auto values() const { return std::array{id.value()}; }
  std::string_view text() const { return who; }
};
struct WritePermChanged {
  FULMAR_EVENT(WritePermChanged, Info, "write permission set to {}: {}");
  bool is_writable;
  std::string_view broker;
  auto values() const { return std::array{uint64_t{is_writable}}; }
  std::string_view text() const { return broker; }
};
struct NameServerStopped {
  FULMAR_EVENT(NameServerStopped, Info, "name server stopped with {} connections cut");
  uint64_t cut;
  auto values() const { return std::array{cut}; }
};

RegistryLimits limits_of(const NameServerConfig& config) {
  RegistryLimits limits;
  limits.expiry = Duration::milliseconds(config.broker_expiry_ms);
  return limits;
}

}  // namespace

NameServer::NameServer(NameServerConfig config, Seed seed, Files& files, Trace& trace)
    : config_(std::move(config)),
      files_(files),
      trace_(trace),
      prng_(seed),
      endpoint_(kEndpointOwner, "fulmar name server"),
      registry_(limits_of(config_)) {}

Monotonic NameServer::next_deadline() const {
  if (state_ == State::Created) return Monotonic{};  // the first step asks for the port
  return timers_.next();
}

void NameServer::step(const Moment& now, std::span<const Input> inputs, Outbox& out) {
  Ctx ctx{now, out, files_, timers_, prng_, trace_};
  if (state_ == State::Created) {
    state_ = State::Starting;
    started_ = now.monotonic;
    out.listen(Ticket(kListenOwner, 0, 1), kPort, Address{config_.listen_host, config_.listen_port});
  }
  for (const Input& input : inputs) on_input(ctx, input);
  endpoint_.read_on(ctx, *this);
  fire_timers(ctx);
  if (state_ == State::Draining) drain(ctx);
  endpoint_.flush(ctx);
}

void NameServer::on_input(Ctx& ctx, const Input& input) {
  if (const auto* received = std::get_if<Received>(&input)) endpoint_.on_received(ctx, *received, *this);
  else if (const auto* sent = std::get_if<Sent>(&input)) endpoint_.on_sent(ctx, *sent);
  else if (const auto* accepted = std::get_if<Accepted>(&input)) endpoint_.on_accepted(ctx, *accepted);
  else if (const auto* closed = std::get_if<Closed>(&input)) endpoint_.on_closed(ctx, *closed, *this);
  else if (const auto* told = std::get_if<Told>(&input)) on_told(ctx, *told);
  else if (const auto* listening = std::get_if<Listening>(&input)) on_listening(ctx, *listening);
  else CHECK(false, "input {} answers nothing that a name server asks", input.index());
}

void NameServer::on_listening(Ctx& ctx, const Listening& listening) {
  if (!listening.at) {
    const std::string wanted = Address{config_.listen_host, config_.listen_port}.text();
    return ctx.out.halt(listening.at.error().code, fmt::format("cannot listen on {}: {}", wanted, listening.at.error().text()));
  }
  address_ = listening.at->text();
  ctx.trace.note(NameServerListening{listening.at->port, address_});
  if (state_ == State::Starting) state_ = State::Serving;
}

void NameServer::on_told(Ctx& ctx, const Told& told) {
  if (std::holds_alternative<command::GetHealth>(told.command)) return ctx.out.tell(told.call, health());
  if (const auto* c = std::get_if<command::GetMetrics>(&told.command)) return ctx.out.tell(told.call, metrics(ctx.now, *c));
  const auto* stop = std::get_if<command::Stop>(&told.command);
  if (stop == nullptr) return ctx.out.tell(told.call, answer(ctx, told.command, {}, {}));
  if (state_ == State::Draining || state_ == State::Stopped) return ctx.out.tell(told.call, reply::Ok{});
  state_ = State::Draining;
  stop_call_ = told.call;
  ctx.out.unlisten(kPort);
  timers_.set(kStopTimer, ctx.now.monotonic + stop->deadline);
}

void NameServer::fire_timers(Ctx& ctx) {
  while (const auto due = timers_.pop_due(ctx.now.monotonic)) {
    if (*due == kEndpointTimer) endpoint_.on_timer(ctx);
    else if (*due == kExpiryTimer) expire(ctx);
    else if (*due == kStopTimer) is_past_deadline_ = true;
  }
}

void NameServer::expire(Ctx& ctx) {
  Monotonic now = ctx.now.monotonic;
  if (MUTANT(RegistryExpiresByWallClock)) now = Monotonic{ctx.now.wall.ms * 1'000'000};
  for (const Registry::Gone& gone : registry_.expire(now)) {
    ++expired_;
    ctx.trace.note(BrokerExpired{gone.broker_id, fmt::format("{} at {}", gone.broker_name, gone.address)});
  }
  timers_.set(kExpiryTimer, registry_.next_expiry());
}

void NameServer::drain(Ctx& ctx) {
  const size_t left = endpoint_.drain(ctx);
  if (left != 0 && !is_past_deadline_) return;
  state_ = State::Stopped;
  timers_.cancel(kStopTimer);
  ctx.trace.note(NameServerStopped{left});
  ctx.out.tell(stop_call_, reply::Ok{});
  ctx.out.stopped();
}

// --- requests ---------------------------------------------------------------------------------------------------------------------------

void NameServer::on_request(Ctx& ctx, const RequestRef& from, const Command& command) {
  const Peer* peer = endpoint_.peer(from.conn);
  CHECK(peer != nullptr);
  endpoint_.reply(from, answer(ctx, command, peer->remote.host, from.conn));
}

Reply NameServer::answer(Ctx& ctx, const Command& command, std::string_view peer_host, ConnId from) {
  if (const auto* c = std::get_if<command::QueryRoute>(&command)) return registry_.route(c->topic);
  if (const auto* c = std::get_if<command::RegisterBroker>(&command)) return register_broker(ctx, *c, peer_host, from);
  if (const auto* c = std::get_if<command::ListTopics>(&command)) return registry_.topics(c->after, std::min(c->count_max, 1000));
  if (std::holds_alternative<command::GetStatus>(command)) return status(ctx.now);
  if (const auto* c = std::get_if<command::UnregisterBroker>(&command)) {
    if (registry_.unregister_broker(*c, from)) ctx.trace.note(BrokerUnregistered{c->broker_id, c->broker_name});
    return reply::Ok{};
  }
  if (std::holds_alternative<command::QueryCluster>(command)) return registry_.cluster(ctx.now.monotonic);
  if (const auto* c = std::get_if<command::WipeWritePerm>(&command)) return set_writable(ctx, c->broker_name, false);
  if (const auto* c = std::get_if<command::AddWritePerm>(&command)) return set_writable(ctx, c->broker_name, true);
  Refusal refusal;
  refusal.code = Code::RequestCodeNotSupported;
  refusal.cause = "a name server does not do this";
  refusal.measured = fmt::format("got {}", name_of(command));
  return refusal;
}

Reply NameServer::register_broker(Ctx& ctx, const command::RegisterBroker& c, std::string_view peer_host, ConnId from) {
  ++registrations_;
  Registry::Outcome outcome = registry_.register_broker(c, peer_host, ctx.now.monotonic, from);
  switch (outcome.news) {
    case Registry::News::None: break;
    case Registry::News::NewBroker:
    case Registry::News::NewTable: {
      const std::string who = fmt::format("{} of {}", c.broker_name, c.cluster);
      ctx.trace.note(BrokerRegistered{c.broker_id, c.topics_version, c.topics.size(), who});
      break;
    }
    case Registry::News::Refused: ctx.trace.note(BrokerRefused{c.broker_id, describe(outcome.reply)}); break;
  }
  // Armed once and moved when it rings: a heartbeat costs nothing here.
  if (outcome.news == Registry::News::NewBroker) timers_.set(kExpiryTimer, registry_.next_expiry());
  return std::move(outcome.reply);
}

Reply NameServer::set_writable(Ctx& ctx, std::string_view broker_name, bool is_writable) {
  const std::optional<reply::TopicsChanged> changed = registry_.set_writable(broker_name, is_writable);
  if (!changed) return Refusal{Code::InvalidParameter, fmt::format("there is no broker '{}'", broker_name.substr(0, 255)), fmt::format("{} brokers are registered", registry_.broker_count()), 0};
  ctx.trace.note(WritePermChanged{is_writable, broker_name});
  return *changed;
}

reply::Status NameServer::status(const Moment& now) const {
  const EndpointCounters& net = endpoint_.counters();
  reply::Status out;
  const auto add = [&out](std::string_view name, auto value) { out.values.emplace_back(name, fmt::format("{}", value)); };
  add("role", "nameserver");
  add("listenAddress", address_);
  add("runtimeMs", (now.monotonic - started_).ms());
  add("brokers", registry_.broker_count());
  add("topics", registry_.topic_count());
  add("registrations", registrations_);
  add("expiredBrokers", expired_);
  add("connections", endpoint_.connection_count());
  add("acceptedConnections", net.accepted);
  add("requests", net.requests);
  add("replies", net.replies);
  add("refusedProtocols", net.refused_protocol);
  add("refusedConnections", net.refused_full);
  add("brokenFrames", net.broken_frames);
  add("brokenHeaders", net.broken_headers);
  add("slowPeers", net.too_slow);
  return out;
}

}  // namespace fulmar
