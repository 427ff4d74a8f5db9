#include "core/node/broker.h"

#include <charconv>

#include "core/base/marks.h"
#include "core/node/broker_events.h"
#include "core/store/owners.h"

namespace fulmar {

namespace {
constexpr Port kPort{1}, kVipPort{2};
enum ListenFor : int { kMain, kVip };                // what tickets_ remembers
constexpr uint8_t kTimerGate = 1, kTimerStop = 3;   // 2: registration, in broker_admin.cc
constexpr TimerId timer_id(uint8_t what) { return TimerId(uint64_t{owner::kNode} << 56 | what); }

// "host:port", "[::1]:port". An address that does not parse fails at the dial, as a name that does not resolve does.
Address parse_address(std::string_view text) {
  Address out;
  const size_t split = text.rfind(':');
  std::string_view host = text.substr(0, split);
  if (split != std::string_view::npos) std::from_chars(text.data() + split + 1, text.data() + text.size(), out.port);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  out.host = host;
  return out;
}
}  // namespace

Broker::Broker(BrokerConfig config, Seed seed, Files& files, Trace& trace)
    : config_(std::move(config)),
      files_(files),
      trace_(trace),
      prng_(seed),
      tickets_(owner::kNode),
      endpoint_(owner::kEndpoint, "fulmar broker " + config_.broker_name),
      links_(owner::kLinks, "broker " + config_.broker_name),
      store_(config_),
      pulls_(store_.queues(), store_.log(), store_.watermarks()),
      queries_(store_.index(), store_.log(), store_.watermarks()),
      searches_(store_.queues(), store_.log(), store_.watermarks()),
      commits_(store_.meta()) {
  for (const std::string& address : config_.name_servers) name_servers_.emplace_back().address = parse_address(address);
}

void Broker::step(const Moment& now, std::span<const Input> inputs, Outbox& out) {
  Ctx ctx{now, out, files_, timers_, prng_, trace_};
  if (state_ == State::Created) start(ctx);
  for (const Input& input : inputs) route(ctx, input);
  endpoint_.read_on(ctx, *this);
  while (const auto timer = timers_.pop_due(now.monotonic)) fire(ctx, *timer);
  pump(ctx);
}

void Broker::start(Ctx& ctx) {
  state_ = State::Running;
  booted_ = ctx.now.wall;
  ctx.out.listen(tickets_.issue(kMain), kPort, Address{config_.listen_host, config_.listen_port});
  store_.start(ctx);
}

// In the order given: the top byte of a ticket names its owner, a connection is the links' or the endpoint's.
void Broker::route(Ctx& ctx, const Input& input) {
  if (const auto* received = std::get_if<Received>(&input)) {
    if (!links_.on_received(ctx, *received, *this)) endpoint_.on_received(ctx, *received, *this);
  } else if (const auto* accepted = std::get_if<Accepted>(&input)) {
    endpoint_.on_accepted(ctx, *accepted);
  } else if (const auto* closed = std::get_if<Closed>(&input)) {
    if (!links_.on_closed(ctx, *closed, *this)) endpoint_.on_closed(ctx, *closed, *this);
  } else if (const auto* told = std::get_if<Told>(&input)) {
    Asker asker;
    asker.is_host = true;
    asker.call = told->call;
    on_command(ctx, asker, told->command);
  } else if (const auto* sent = std::get_if<Sent>(&input)) {
    is_room_made_ = true;
    if (sent->ticket.owner() == owner::kLinks) links_.on_sent(ctx, *sent);
    else endpoint_.on_sent(ctx, *sent);
  } else if (const auto* dialed = std::get_if<Dialed>(&input)) {
    links_.on_dialed(ctx, *dialed, *this);
  } else if (const auto* listening = std::get_if<Listening>(&input)) {
    on_listening(ctx, *listening);
  } else {
    store_.on_input(ctx, input);   // everything else is about files
  }
}

void Broker::on_listening(Ctx& ctx, const Listening& listening) {
  if (tickets_.redeem(listening.ticket) == kVip) {
    // Somebody else may have it, another broker at a neighbouring port for one; nearly nobody misses it.
    SOMETIMES("broker: the VIP port is taken", !listening.at);
    if (!listening.at) ctx.trace.note(VipPortNotFree{listening_.port, listening.at.error().text()});
    return;
  }
  if (!listening.at)
    return ctx.out.halt(listening.at.error().code, fmt::format("cannot listen on {}: {}", Address{config_.listen_host, config_.listen_port}.text(), listening.at.error().text()));
  listening_ = *listening.at;
  ctx.trace.note(BrokerListening{listening_.port, listening_.text()});
  if (config_.is_vip_enabled && listening_.port > 2)
    ctx.out.listen(tickets_.issue(kVip), kVipPort, Address{config_.listen_host, static_cast<uint16_t>(listening_.port - 2)});
}

void Broker::fire(Ctx& ctx, TimerId timer) {
  const uint8_t who = static_cast<uint8_t>(timer.value() >> 56);
  if (who == owner::kEndpoint) return endpoint_.on_timer(ctx);
  if (who == owner::kLinks) return links_.on_timer(ctx, *this);
  if (owner::is_store(who)) return store_.on_timer(ctx, timer);
  if (timer == timer_id(kTimerGate)) gate_armed_ = Monotonic::never();
  // Everything else only wakes the node: the pumps look at the time themselves.
}

void Broker::pump(Ctx& ctx) {
  if (state_ == State::Stopped || ctx.out.halted() != nullptr) return;
  if (store_.can_read()) {
    store_.meta().settle(ctx);
    commits_.pump(ctx);        // before the store: what is appended here is flushed with this step's sends
  }
  store_.pump(ctx);
  if (ctx.out.halted() != nullptr) return;
  if (!is_serving_ && store_.can_read()) {
    is_serving_ = true;
    groups_.begin(ctx.now);
    const Watermarks& marks = store_.watermarks();
    ctx.trace.note(BrokerServing{marks.begin.value(), marks.appended.value(), store_.meta().topic_count(), store_.state() == Store::State::Damaged ? "read-only: damaged" : "read-write"});
  }
  if (is_serving_) {
    pump_pulls(ctx);
    pump_groups(ctx);
    pump_commits(ctx);
    pump_gates(ctx);
    pump_registration(ctx);
  }
  const Monotonic gate_due = std::min(gate_.next_deadline(), flush_gate_.next_deadline());
  if (gate_due != gate_armed_) ctx.timers.set(timer_id(kTimerGate), gate_armed_ = gate_due);
  pump_stop(ctx);
  endpoint_.flush(ctx);
  links_.flush(ctx);
}

// --- requests -----------------------------------------------------------------------------------------------------------------------

void Broker::on_request(Ctx& ctx, const RequestRef& from, const Command& command) {
  on_command(ctx, Asker{from.conn, from.opaque, from.is_one_way, false, {}, from.is_remoting}, command);
}

void Broker::on_connection_closed(Ctx& ctx, ConnId conn) {
  hosts_.erase(conn);
  groups_.on_closed(ctx, conn);
  searches_.drop(conn);
  pulls_.drop(conn);
  queries_.drop(conn);
  long_poll_.drop(conn);
  if (const auto found = room_.find(conn); found != room_.end()) {
    room_count_ -= static_cast<uint32_t>(found->second.size());
    room_.erase(found);
  }
  // Sends and commits that wait are stored whatever becomes of their connection; the endpoint drops their answers.
}

void Broker::on_command(Ctx& ctx, const Asker& asker, const Command& any) {
  if (asker.is_host) {   // whatever the state, and no request of a client
    if (std::holds_alternative<command::GetHealth>(any)) return answer(ctx, asker, health(ctx));
    if (const auto* c = std::get_if<command::GetMetrics>(&any)) return on_get_metrics(ctx, asker, *c);
  }
  ++totals_.requests;
  if (const auto* stop = std::get_if<command::Stop>(&any)) return on_stop(ctx, asker, *stop);
  if (std::holds_alternative<command::GetStatus>(any)) return on_get_status(ctx, asker);
  if (state_ != State::Running) return refuse(ctx, asker, store_.refusal(Error(Errc::Stopping, "the broker is stopping")));
  if (!is_serving_) return refuse(ctx, asker, store_.refusal(Error(Errc::NotReady, "the store is recovering")));
  std::visit(
      [&](const auto& c) {
        using C = std::decay_t<decltype(c)>;
        if constexpr (std::is_same_v<C, command::SendMessage>) on_send(ctx, asker, c);
        else if constexpr (std::is_same_v<C, command::SendBatch>) on_send_batch(ctx, asker, c);
        else if constexpr (std::is_same_v<C, command::PullMessages>) on_pull(ctx, asker, c);
        else if constexpr (std::is_same_v<C, command::CommitOffset>) on_commit(ctx, asker, c);
        else if constexpr (std::is_same_v<C, command::QueryOffset>) {
          if (auto refusal = find_queue(c.topic, c.queue_id)) return refuse(ctx, asker, std::move(*refusal));
          const auto offset = store_.meta().offset(OffsetKey{std::string(c.group), std::string(c.topic), c.queue_id});
          if (!offset) return refuse(ctx, asker, {Code::QueryNotFound, fmt::format("group '{}' has committed no offset of queue {} of topic '{}'", c.group.substr(0, 255), c.queue_id, c.topic), "", 0});
          answer(ctx, asker, reply::Offset{*offset});
        } else if constexpr (std::is_same_v<C, command::QueryQueue>) {
          if (auto refusal = find_queue(c.topic, c.queue_id)) return refuse(ctx, asker, std::move(*refusal));
          const QueueRange range = store_.queues().range(c.topic, QueueId(c.queue_id));
          answer(ctx, asker, reply::Queue{range.min, range.max});
        } else if constexpr (std::is_same_v<C, command::QueryRoute>) on_query_route(ctx, asker, c);
        else if constexpr (std::is_same_v<C, command::CreateTopic>) on_create_topic(ctx, asker, c);
        else if constexpr (std::is_same_v<C, command::DeleteTopic>) on_delete_topic(ctx, asker, c);
        else if constexpr (std::is_same_v<C, command::ListTopics>) on_list_topics(ctx, asker, c);
        else if constexpr (std::is_same_v<C, command::DescribeTopic>) on_describe_topic(ctx, asker, c);
        else if constexpr (std::is_same_v<C, command::Heartbeat>) on_heartbeat(ctx, asker, c);
        else if constexpr (std::is_same_v<C, command::LeaveGroup>) groups_.on_leave(ctx, asker, c);
        else if constexpr (std::is_same_v<C, command::ListGroups>) on_list_groups(ctx, asker, c);
        else if constexpr (std::is_same_v<C, command::DescribeGroup>) on_describe_group(ctx, asker, c);
        else if constexpr (std::is_same_v<C, command::CreateGroup>) on_create_group(ctx, asker, c);
        else if constexpr (std::is_same_v<C, command::DeleteGroup>) on_delete_group(ctx, asker, c);
        else if constexpr (std::is_same_v<C, command::SearchOffset>) on_search_offset(ctx, asker, c);
        else if constexpr (std::is_same_v<C, command::ResetOffset>) on_reset_offset(ctx, asker, c);
        else if constexpr (std::is_same_v<C, command::GetConfig>) on_get_config(ctx, asker);
        else if constexpr (std::is_same_v<C, command::UpdateConfig>) on_update_config(ctx, asker, c);
        else if constexpr (std::is_same_v<C, command::QueryMessages>) {
          if (store_.meta().topic(c.topic) == nullptr) return refuse(ctx, asker, {Code::TopicNotExist, fmt::format("there is no topic '{}'", c.topic.substr(0, 255)), "", 0});
          if (!config_.is_index_enabled) return refuse(ctx, asker, {Code::ServiceNotAvailable, "this broker keeps no key index", "messageIndexEnable=false", 0});
          MessageQuery query;
          query.topic = c.topic;
          query.key = c.key;
          query.begin = c.begin;
          query.end = c.end.ms > 0 ? c.end : Wall{INT64_MAX};   // 0: no end
          query.count_max = std::clamp(c.count_max, 1, limits::kQueryCountMax);
          query.asker = asker;
          on_query(ctx, asker, std::move(query));
        } else if constexpr (std::is_same_v<C, command::ViewMessage>) {
          MessageQuery query;
          query.at = c.at;
          query.count_max = 1;
          query.asker = asker;
          on_query(ctx, asker, std::move(query));
        } else {
          refuse(ctx, asker, {Code::RequestCodeNotSupported, fmt::format("a broker does not answer {}", name_of(any)), "", 0});
        }
      },
      any);
}

void Broker::answer(Ctx& ctx, const Asker& asker, const Reply& reply) {
  if (asker.is_host) return ctx.out.tell(asker.call, reply);
  endpoint_.reply(RequestRef{asker.conn, asker.opaque, asker.is_one_way, asker.is_remoting}, reply);
}

void Broker::refuse(Ctx& ctx, const Asker& asker, Refusal refusal) {
  ++totals_.refused;
  ++refused_[refusal.code];
  ctx.trace.note(RequestRefused{static_cast<int32_t>(refusal.code), refusal.cause});
  answer(ctx, asker, std::move(refusal));
}

// --- stop ---------------------------------------------------------------------------------------------------------------------------

void Broker::on_stop(Ctx& ctx, const Asker& asker, const command::Stop& c) {
  if (!asker.is_host) return refuse(ctx, asker, {Code::NoPermission, "only the host stops a broker", "", 0});
  if (state_ == State::Stopping) answer(ctx, Asker{{}, 0, false, true, stop_call_}, reply::Ok{});   // a later word replaces the earlier
  stop_call_ = asker.call;
  stop_deadline_ = ctx.now.monotonic + c.deadline;
  ctx.timers.set(timer_id(kTimerStop), stop_deadline_);
  if (state_ == State::Stopping) return;
  state_ = State::Stopping;
  ctx.trace.note(BrokerStopping{sends_.size(), long_poll_.size() + pulls_.waiting_count()});
  if (is_serving_) refuse_waiting(ctx);
  commits_.hurry(ctx);
  unregister(ctx);
}

bool Broker::is_answered() const {
  return gate_.size() == 0 && flush_gate_.size() == 0 && commits_.waiting_count() == 0 && pulls_.waiting_count() == 0 && queries_.waiting_count() == 0 &&
         searches_.waiting_count() == 0;
}

void Broker::pump_stop(Ctx& ctx) {
  if (state_ != State::Stopping) return;
  if (commits_.waiting_count() > 0 && !store_.can_read()) commits_.pump(ctx);   // they are refused
  if (!is_store_stopping_ && commits_.waiting_count() == 0) {
    is_store_stopping_ = true;
    store_.begin_stop(ctx);
    ctx.out.step_again();
  }
  const bool is_persisted = store_.state() == Store::State::Stopped;
  const size_t draining = is_store_stopping_ && is_answered() ? endpoint_.drain(ctx) : endpoint_.connection_count();
  if (is_persisted && draining == 0 && is_answered() && unregistering_ == 0) {
    state_ = State::Stopped;
    links_.close_all(ctx);
    ctx.trace.note(BrokerStopped{totals_.put_messages, totals_.got_messages});
    ctx.out.tell(stop_call_, reply::Ok{});
    return ctx.out.stopped();
  }
  if (ctx.now.monotonic < stop_deadline_) return;
  SOMETIMES("broker: the deadline of a stop passes", true);
  ctx.out.halt(Errc::TimedOut, fmt::format("could not stop in time: store {}, {} connections drain, {} sends and {} commits wait; the next start recovers",
                                           is_persisted ? "persisted" : "not persisted", draining, gate_.size(), commits_.waiting_count()));
}

}  // namespace fulmar
