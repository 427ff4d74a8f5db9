#include "core/client/producer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/base/marks.h"
#include "core/model/message.h"

namespace fulmar {
namespace {

struct SendTriedAgain {
  FULMAR_EVENT(SendTriedAgain, Debug, "call {}: attempt {} failed after {} ms: {}");
  uint64_t call;
  int64_t attempt, ms;
  std::string_view what;
  auto values() const { return std::array{call, static_cast<uint64_t>(attempt), static_cast<uint64_t>(ms)}; }
  std::string_view text() const { return what; }
};
struct SendGivenUp {
  FULMAR_EVENT(SendGivenUp, Info, "call {} given up after {} attempts: {}");
  uint64_t call;
  int64_t attempts;
  std::string_view why;
  auto values() const { return std::array{call, static_cast<uint64_t>(attempts)}; }
  std::string_view text() const { return why; }
};

bool is_tried_again(Code code) {
  return code == Code::SystemError || code == Code::SystemBusy || code == Code::ServiceNotAvailable || code == Code::TopicNotExist;
}

std::string joined(const std::vector<Address>& servers) {
  std::string out;
  for (const Address& server : servers) out += (out.empty() ? "" : ", ") + server.text();
  return out;
}

template <class C> Bytes payload(const C& c) {
  if constexpr (requires { c.body; }) return c.body;
  else return c.packed;
}

}  // namespace

Producer::Producer(uint8_t owner, const ClientConfig& config, Routes& routes, Caller& caller, ProducerLimits limits)
    : owner_(owner),
      timeout_(Duration::milliseconds(config.send_timeout_ms)),
      resends_(std::max(config.resends, 0)),
      body_bytes_max_(config.body_bytes_max),
      routes_(routes),
      caller_(caller),
      limits_(limits) {}

void Producer::send(Ctx& ctx, CallId call, const Command& command) {
  Send send{.serial = next_serial_, .call = call, .command = OwnedCommand(command), .topic = {}, .broker = {}, .began = ctx.now.monotonic,
            .deadline = ctx.now.monotonic + timeout_, .waits_for = {}, .route_not_before = {std::numeric_limits<int64_t>::min()}, .target = {},
            .attempt_began = {}, .last = {}, .wakes_at = {}, .tried = {}};
  size_t payload_bytes = 0;
  const auto take = [&](auto& c) {
    send.topic = c.topic;
    send.broker = c.broker;
    send.queue_id = c.queue_id;
    if (c.born.ms == 0) c.born = ctx.now.wall;
    payload_bytes = payload(c).size();
  };
  if (auto* one = std::get_if<command::SendMessage>(&send.command.get())) take(*one);
  else take(std::get<command::SendBatch>(send.command.get()));
  if (refuse_locally(ctx, call, send.topic, payload_bytes, send.command.bytes())) return;
  bytes_ += send.command.bytes();
  const uint64_t serial = next_serial_++;
  advance(ctx, sends_.emplace(serial, std::move(send)).first->second);
}

bool Producer::refuse_locally(Ctx& ctx, CallId call, std::string_view topic, size_t payload_bytes, size_t copy_bytes) {
  Refusal refusal;
  if (const Result<void> name = check_topic_name(topic); !name) {
    refusal = {Code::MessageIllegal, name.error().detail, fmt::format("topic of {} bytes", topic.size()), 0};
  } else if (payload_bytes > body_bytes_max_) {
    refusal = {Code::MessageIllegal, "the body is larger than maxMessageSize",
               fmt::format("body {} bytes, at most {} bytes", payload_bytes, body_bytes_max_), 0};
  } else if (sends_.size() >= limits_.sends_in_flight_max || bytes_ + copy_bytes > limits_.bytes_in_flight_max) {
    SOMETIMES("client: producer full", true);
    refusal = {Code::SystemBusy, "too many sends are in flight in this client",
               fmt::format("{} sends of {} bytes in flight, at most {} of {}", sends_.size(), bytes_, limits_.sends_in_flight_max,
                           limits_.bytes_in_flight_max),
               100};
  } else {
    return false;
  }
  ctx.out.tell(call, std::move(refusal));
  return true;
}

void Producer::advance(Ctx& ctx, Send& send) {
  if (ctx.now.monotonic >= send.deadline) return give_up_trying(ctx, send);
  Choice choice = choose(ctx, send);
  if (auto* place = std::get_if<Place>(&choice)) attempt(ctx, send, *place);
  else if (auto* wait = std::get_if<WaitFor>(&choice)) wait_for(ctx, send, std::move(wait->topic));
  else give_up(ctx, send, std::move(std::get<Refusal>(choice)));
}

Producer::Choice Producer::choose(Ctx& ctx, Send& send) {
  const Routes::Found found = routes_.find(ctx, send.topic);
  if (found.knowledge == Routes::Knowledge::Full) return Refusal{Code::SystemBusy, "too many topics are being looked up", "", 1000};
  if (found.knowledge == Routes::Knowledge::Asking) return WaitFor{send.topic};
  if (found.asked_at < send.route_not_before) {
    routes_.refresh(ctx, send.topic);
    return WaitFor{send.topic};
  }
  if (found.knowledge == Routes::Knowledge::Missing) return choose_auto_create(ctx, send);
  Place place;
  if (pick(ctx, *found.route, send, false, place)) return place;
  if (found.learned_at >= send.began) {
    if (auto refusal = denied_by(*found.route, send)) return *std::move(refusal);
  }
  send.tried += send.tried.empty() ? "no writable queue in the route; " : "";
  routes_.refresh(ctx, send.topic);
  return WaitFor{send.topic};
}

// Perhaps the route is old, perhaps the broker is away for a moment: only what a fresh route denies is refused at once.
std::optional<Refusal> Producer::denied_by(const TopicRoute& route, const Send& send) {
  int32_t queues = 0;   // of the broker that has most
  size_t brokers = 0;
  for (const TopicRoute::Broker& broker : route.brokers) {
    if (!send.broker.empty() && broker.name != send.broker) continue;
    ++brokers;
    queues = std::max(queues, broker.write_queues);
  }
  if (brokers == 0) return std::nullopt;
  const std::string where = send.broker.empty() ? "" : " on " + send.broker;
  if (queues == 0)
    return Refusal{Code::NoPermission, fmt::format("topic {} takes no messages{}", send.topic, where), fmt::format("{} brokers in the route, none with write queues and permission", brokers), 0};
  if (send.queue_id < queues) return std::nullopt;
  return Refusal{Code::InvalidParameter, fmt::format("topic {} has no queue {}{}", send.topic, send.queue_id, where),
                 fmt::format("queue {}, write queues {}", send.queue_id, queues), 0};
}

Producer::Choice Producer::choose_auto_create(Ctx& ctx, Send& send) {
  const Routes::Found fallback = routes_.find(ctx, kAutoCreateTopic);
  if (fallback.knowledge == Routes::Knowledge::Full) return Refusal{Code::SystemBusy, "too many topics are being looked up", "", 1000};
  if (fallback.knowledge == Routes::Knowledge::Asking) return WaitFor{std::string(kAutoCreateTopic)};
  Place place;
  if (fallback.knowledge == Routes::Knowledge::Known && pick(ctx, *fallback.route, send, true, place)) {
    SOMETIMES("client: first send to a topic that a broker creates", true);
    return place;
  }
  return Refusal{Code::TopicNotExist, fmt::format("topic {} does not exist, and no broker creates topics by itself", send.topic),
                 fmt::format("name servers asked: {}", joined(routes_.name_servers())), 1000};
}

bool Producer::pick(Ctx& ctx, const TopicRoute& route, const Send& send, bool is_auto_create, Place& place) {
  const auto places_of = [&](const TopicRoute::Broker& b, std::string_view avoided) -> uint64_t {
    if ((!send.broker.empty() && b.name != send.broker) || b.write_queues == 0 || b.name == avoided) return 0;
    if (is_auto_create) return 1;  // the broker chooses the queue: it alone knows how many it will make
    if (send.queue_id < 0) return static_cast<uint64_t>(b.write_queues);
    return send.queue_id < b.write_queues ? 1 : 0;
  };
  const auto total = [&](std::string_view avoided) {
    uint64_t sum = 0;
    for (const TopicRoute::Broker& b : route.brokers) sum += places_of(b, avoided);
    return sum;
  };
  std::string_view avoided = send.target;
  uint64_t count = total(avoided);
  if (count == 0) count = total(avoided = {});
  if (count == 0) return false;
  SOMETIMES("client: resend to another broker", !avoided.empty() && avoided == send.target);
  uint64_t index = 0;
  if (count > 1) index = routes_.take_turn(ctx, send.topic) % count;
  for (const TopicRoute::Broker& b : route.brokers) {
    const uint64_t places = places_of(b, avoided);
    if (index >= places) {
      index -= places;
      continue;
    }
    const bool is_free_choice = send.queue_id < 0 && !is_auto_create;
    place = {b.name, b.master, is_free_choice ? static_cast<int32_t>(index) : send.queue_id};
    return true;
  }
  return false;
}

void Producer::attempt(Ctx& ctx, Send& send, const Place& place) {
  std::visit([&place](auto& c) { if constexpr (requires { c.born; c.queue_id; }) c.queue_id = place.queue_id; }, send.command.get());
  const int32_t attempts_left = attempts_max() - send.attempts;
  const Duration cap = (send.deadline - ctx.now.monotonic) / std::max(attempts_left, 1);
  ++send.attempts;
  send.step = Step::Calling;
  send.target = place.broker;
  send.attempt_began = ctx.now.monotonic;
  ctx.timers.cancel(TimerId(owned_id(owner_, send.serial)));
  const Result<void> called = caller_.call(ctx, place.address, send.command.get(), owned_id(owner_, send.serial), ctx.now.monotonic + cap);
  if (called) return;
  if (called.code() == Errc::InvalidArgument) {
    return give_up(ctx, send, Refusal{Code::MessageIllegal, called.error().text(), fmt::format("{} bytes", send.command.bytes()), 0});
  }
  attempt_failed(ctx, send, to_string(called.code()), 0);
}

void Producer::wait_for(Ctx& ctx, Send& send, std::string topic) {
  send.step = Step::AwaitingRoute;
  waiting_.emplace(topic, send.serial);
  send.waits_for = std::move(topic);
  ctx.timers.set(TimerId(owned_id(owner_, send.serial)), send.deadline);
}

void Producer::on_route(Ctx& ctx, std::string_view topic) {
  std::vector<uint64_t> ready;
  const std::string name(topic);
  for (auto it = waiting_.lower_bound({name, 0}); it != waiting_.end() && it->first == name; it = waiting_.erase(it)) ready.push_back(it->second);
  for (const uint64_t serial : ready) {
    const auto it = sends_.find(serial);
    if (it != sends_.end()) advance(ctx, it->second);
  }
}

void Producer::on_reply(Ctx& ctx, uint64_t token, Result<Reply> reply) {
  const auto it = sends_.find(serial_of(token));
  if (it == sends_.end() || it->second.step != Step::Calling) return;  // given up by stop()
  Send& send = it->second;
  if (!reply) {
    // From here on nobody may say that the message is nowhere.
    if (MUTANT(ProducerTakesSilenceForNo)) send.is_outcome_unknown = false;
    else send.is_outcome_unknown = send.is_outcome_unknown || !was_never_sent(reply.code());
    routes_.refresh(ctx, send.topic);
    return attempt_failed(ctx, send, to_string(reply.code()), 0);
  }
  if (auto* sent = std::get_if<reply::Sent>(&*reply)) {
    sent->broker = send.target;
    SOMETIMES("client: resend succeeded", send.attempts > 1);
    const Routes::Found found = routes_.find(ctx, send.topic);
    if (found.knowledge != Routes::Knowledge::Known) routes_.refresh(ctx, send.topic);  // it exists now
    return finish(ctx, send, std::move(*reply));
  }
  auto* refusal = std::get_if<Refusal>(&*reply);
  if (refusal == nullptr) {
    send.is_outcome_unknown = true;
    return attempt_failed(ctx, send, "answered something that is no answer to a send", 0);
  }
  if (send.attempts > 1 && MUTANT(ProducerAcksRefusedResend)) {
    reply::Sent lie;
    lie.broker = send.target;
    return finish(ctx, send, std::move(lie));
  }
  send.last = *refusal;
  if (!is_tried_again(refusal->code)) return give_up(ctx, send, std::move(*refusal));
  if (refusal->code == Code::TopicNotExist) send.route_not_before = ctx.now.monotonic;
  attempt_failed(ctx, send, fmt::format("{} ({})", to_string(refusal->code), refusal->cause), refusal->retry_after_ms);
}

void Producer::attempt_failed(Ctx& ctx, Send& send, std::string_view what, uint32_t retry_after_ms) {
  const int64_t ms = (ctx.now.monotonic - send.attempt_began).ms();
  send.tried += fmt::format("attempt {} {} {} after {} ms; ", send.attempts, send.target, what, ms);
  ctx.trace.note(SendTriedAgain{send.call.value(), send.attempts, ms, what});
  if (send.attempts >= attempts_max()) return give_up_trying(ctx, send);
  const Duration own = back_off(ctx.prng, limits_.back_off_first, limits_.back_off_max, static_cast<uint32_t>(send.attempts - 1));
  // The broker's advice counts as far as it leaves time for the attempts that are left.
  const Duration share = (send.deadline - ctx.now.monotonic) / (attempts_max() - send.attempts + 1);
  const Duration wait = std::max(own, std::min(Duration::milliseconds(retry_after_ms), share));
  send.step = Step::BackingOff;
  send.wakes_at = std::min(ctx.now.monotonic + wait, send.deadline);
  ctx.timers.set(TimerId(owned_id(owner_, send.serial)), send.wakes_at);
}

void Producer::on_timer(Ctx& ctx, TimerId timer) {
  const auto it = sends_.find(serial_of(timer.value()));
  if (it == sends_.end()) return;
  Send& send = it->second;
  switch (send.step) {
    case Step::BackingOff: return advance(ctx, send);
    case Step::AwaitingRoute: return give_up_trying(ctx, send);
    case Step::Calling:  // only stop() sets a timer here
      send.is_outcome_unknown = true;
      send.tried += fmt::format("attempt {} {} not answered when the client stopped; ", send.attempts, send.target);
      return give_up_trying(ctx, send);
  }
}

void Producer::stop(Ctx& ctx, Monotonic deadline) {
  for (auto& [serial, send] : sends_) {
    if (send.deadline <= deadline) continue;
    send.deadline = deadline;
    const Monotonic wakes_at = send.step == Step::BackingOff ? std::min(send.wakes_at, deadline) : deadline;
    ctx.timers.set(TimerId(owned_id(owner_, serial)), wakes_at);
  }
}

void Producer::give_up_trying(Ctx& ctx, Send& send) {
  const int64_t ms = (ctx.now.monotonic - send.began).ms();
  Refusal refusal;
  refusal.code = send.last ? send.last->code : Code::ServiceNotAvailable;
  refusal.cause = fmt::format("topic {} not sent in {} attempts and {} ms", send.topic, send.attempts, ms);
  if (send.last) refusal.cause += fmt::format("; last refusal: {} {}", to_string(send.last->code), send.last->cause);
  if (send.step == Step::AwaitingRoute) refusal.cause += fmt::format("; waiting for the route of {}: {}", send.waits_for, routes_.last_failure(send.waits_for));
  if (send.last) refusal.measured = send.last->measured;
  refusal.retry_after_ms = send.last ? send.last->retry_after_ms : 100;   // 0: the broker sees no use in it
  give_up(ctx, send, std::move(refusal));
}

void Producer::give_up(Ctx& ctx, Send& send, Refusal refusal) {
  if (!send.tried.empty()) {
    send.tried.resize(send.tried.size() - 2);
    refusal.measured += (refusal.measured.empty() ? "" : "; ") + send.tried;
  }
  if (send.is_outcome_unknown) refusal.cause.insert(0, kOutcomeUnknown);
  SOMETIMES("client: send with unknown outcome", send.is_outcome_unknown);
  SOMETIMES("client: send refused for certain", !send.is_outcome_unknown);
  ctx.trace.note(SendGivenUp{send.call.value(), send.attempts, refusal.cause});
  finish(ctx, send, std::move(refusal));
}

void Producer::finish(Ctx& ctx, Send& send, Reply reply) {
  if (send.attempts > 1 && MUTANT(ProducerAnswersResendsTwice)) ctx.out.tell(send.call, reply);
  ctx.out.tell(send.call, std::move(reply));
  ctx.timers.cancel(TimerId(owned_id(owner_, send.serial)));
  waiting_.erase({send.waits_for, send.serial});
  bytes_ -= send.command.bytes();
  const uint64_t serial = send.serial;
  sends_.erase(serial);
}

}  // namespace fulmar
