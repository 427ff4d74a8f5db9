#include "core/node/client.h"

#include <fmt/format.h>

#include <array>

#include "core/base/marks.h"
#include "core/model/version.h"

namespace fulmar {
namespace {

enum Owner : uint8_t { kLinks = 1, kRoutes, kProducer, kConsumer, kForwarder, kNode, kRebalance };
constexpr size_t kStopCallsMax = 16;

struct ClientStopping {
  FULMAR_EVENT(ClientStopping, Info, "client stopping with {} sends and {} requests in flight");
  uint64_t sends, requests;
  auto values() const { return std::array{sends, requests}; }
};
struct ClientStopped {
  FULMAR_EVENT(ClientStopped, Info, "client stopped");
  auto values() const { return std::array<uint64_t, 0>{}; }
};

}  // namespace

Client::Client(ClientConfig config, Seed seed, Files& files, Trace& trace)
    : files_(files),
      trace_(trace),
      prng_(seed),
      links_(kLinks, config.client_id),
      routes_(kRoutes, config, *this),
      producer_(kProducer, config, routes_, *this),
      rebalance_(kRebalance, config.client_id, std::string(kProgramVersion), routes_, *this),
      consumer_(kConsumer, routes_, rebalance_, *this),
      forwarder_(kForwarder, routes_, *this) {}

void Client::step(const Moment& now, std::span<const Input> inputs, Outbox& out) {
  Ctx ctx{now, out, files_, timers_, prng_, trace_};
  for (const Input& input : inputs) {
    on_input(ctx, input);
    tell_news(ctx);
  }
  fire_timers(ctx);
  if (state_ == State::Draining) end_when_drained(ctx);
  links_.flush(ctx);
}

void Client::on_input(Ctx& ctx, const Input& input) {
  bool is_ours = true;
  if (const auto* received = std::get_if<Received>(&input)) links_.on_received(ctx, *received, *this);
  else if (const auto* sent = std::get_if<Sent>(&input)) is_ours = links_.on_sent(ctx, *sent);
  else if (const auto* told = std::get_if<Told>(&input)) on_told(ctx, *told);
  else if (const auto* dialed = std::get_if<Dialed>(&input)) is_ours = links_.on_dialed(ctx, *dialed, *this);
  else if (const auto* closed = std::get_if<Closed>(&input)) links_.on_closed(ctx, *closed, *this);
  else is_ours = false;
  CHECK(is_ours, "input {} answers nothing that a client asks", input.index());
}

void Client::fire_timers(Ctx& ctx) {
  while (const auto due = timers_.pop_due(ctx.now.monotonic)) {
    switch (owner_of(due->value())) {
      case kLinks: links_.on_timer(ctx, *this); break;
      case kRoutes: routes_.on_timer(ctx, *due); break;
      case kProducer: producer_.on_timer(ctx, *due); break;
      case kConsumer: consumer_.on_timer(ctx, *due); break;
      case kForwarder: forwarder_.on_timer(ctx, *due); break;
      case kRebalance: rebalance_.on_timer(ctx, *due); break;
      case kNode: break;  // the deadline of Stop: step() looks
      default: CHECK(false, "timer {:x}", due->value());
    }
    tell_news(ctx);
  }
}

// Ends: a round that fails at once waits for its back-off before the next one.
void Client::tell_news(Ctx& ctx) {
  while (true) {
    const auto settled = routes_.take_settled();
    const auto refusals = rebalance_.take_refusals();
    const auto changes = rebalance_.take_changes();
    if (settled.empty() && refusals.empty() && changes.empty()) return;
    for (const std::string& topic : settled) {
      producer_.on_route(ctx, topic);
      rebalance_.on_route(ctx, topic);
      consumer_.on_route(ctx, topic);
      forwarder_.on_route(ctx, topic);
    }
    for (const auto& [group, why] : refusals) consumer_.on_group_refused(ctx, group, why);
    for (const std::string& group : changes) consumer_.on_members(ctx, group);
  }
}

Result<void> Client::call(Ctx& ctx, const Address& to, const Command& command, uint64_t token, Deadline deadline) {
  return links_.call(ctx, to, command, token, deadline);
}

void Client::on_reply(Ctx& ctx, uint64_t token, Result<Reply> reply) {
  switch (owner_of(token)) {
    case kRoutes: return routes_.on_reply(ctx, token, std::move(reply));
    case kProducer: return producer_.on_reply(ctx, token, std::move(reply));
    case kConsumer: return consumer_.on_reply(ctx, token, std::move(reply));
    case kForwarder: return forwarder_.on_reply(ctx, token, std::move(reply));
    case kRebalance: return rebalance_.on_reply(ctx, token, std::move(reply));
    default: CHECK(false, "token {:x}", token);
  }
}

void Client::on_told(Ctx& ctx, const Told& told) {
  const Command& command = told.command;
  if (const auto* stop = std::get_if<command::Stop>(&command)) return begin_stop(ctx, told.call, stop->deadline);
  if (const auto* c = std::get_if<command::Consumed>(&command)) return consumer_.consumed(ctx, told.call, *c);
  if (const auto* c = std::get_if<command::Unsubscribe>(&command)) return consumer_.unsubscribe(ctx, told.call, *c);
  if (state_ != State::Running) return on_told_draining(ctx, told);
  if (const auto* c = std::get_if<command::Subscribe>(&command)) return consumer_.subscribe(ctx, told.call, *c);
  if (std::holds_alternative<command::SendMessage>(command) || std::holds_alternative<command::SendBatch>(command)) {
    return producer_.send(ctx, told.call, command);
  }
  if (Forwarder::takes(command)) return forwarder_.forward(ctx, told.call, command);
  const std::string got = fmt::format("got {}", name_of(command));
  ctx.out.tell(told.call, Refusal{Code::RequestCodeNotSupported, "a client node does not do this", got, 0});
}

void Client::on_told_draining(Ctx& ctx, const Told& told) {
  const std::string got = fmt::format("got {}", name_of(told.command));
  ctx.out.tell(told.call, Refusal{Code::ServiceNotAvailable, "the client is stopping", got, 0});
}

void Client::begin_stop(Ctx& ctx, CallId call, Duration deadline) {
  if (state_ == State::Stopped || stop_calls_.size() >= kStopCallsMax) return ctx.out.tell(call, reply::Ok{});
  stop_calls_.push_back(call);
  if (state_ == State::Draining) return;  // the first deadline holds
  state_ = State::Draining;
  stop_by_ = ctx.now.monotonic + deadline;
  ctx.trace.note(ClientStopping{producer_.in_flight(), forwarder_.in_flight()});
  timers_.set(TimerId(owned_id(kNode, 0)), stop_by_);
  producer_.stop(ctx, stop_by_);
  consumer_.stop(ctx, stop_by_);
  forwarder_.stop(ctx, stop_by_);
}

void Client::end_when_drained(Ctx& ctx) {
  const bool is_drained = producer_.in_flight() == 0 && forwarder_.in_flight() == 0 && consumer_.is_idle();
  // All three end by themselves at the deadline, in this very step at the latest.
  ALWAYS("client: drained by the deadline", is_drained || ctx.now.monotonic < stop_by_);
  if (!is_drained) return;
  state_ = State::Stopped;
  timers_.cancel(TimerId(owned_id(kNode, 0)));
  links_.close_all(ctx);
  ctx.trace.note(ClientStopped{});
  for (const CallId call : stop_calls_) ctx.out.tell(call, reply::Ok{});
  ctx.out.stopped();
}

}  // namespace fulmar
