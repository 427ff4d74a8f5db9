#include "core/client/producer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/base/java_hash.h"
#include "core/base/marks.h"
#include "core/client/compression.h"
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

constexpr size_t kTriedBytesMax = 1024;

bool is_tried_again(Code code) {
  return code == Code::SystemError || code == Code::SystemBusy || code == Code::ServiceNotAvailable || code == Code::TopicNotExist;
}

std::string joined(const std::vector<Address>& servers) {
  std::string out;
  for (const Address& server : servers) out += (out.empty() ? "" : ", ") + server.text();
  return out;
}

}  // namespace

Producer::Producer(uint8_t owner, const ClientConfig& config, Routes& routes, Caller& caller, ProducerLimits limits)
    : owner_(owner),
      timeout_(Duration::milliseconds(config.send_timeout_ms)),
      resends_(std::max(config.resends, 0)),
      attempt_timeout_(config.attempt_timeout_ms > 0 ? Duration::milliseconds(config.attempt_timeout_ms) : timeout_),
      body_bytes_max_(config.body_bytes_max),
      compress_over_bytes_(config.compress_over_bytes),
      compress_level_(config.compress_level),
      compress_type_(config.compress_type),
      routes_(routes),
      caller_(caller),
      limits_(limits),
      health_(config.is_latency_judged) {}

void Producer::send(Ctx& ctx, CallId call, const Command& command) {
  const auto* one = std::get_if<command::SendMessage>(&command);
  const size_t payload_bytes = one != nullptr ? one->body.size() : std::get<command::SendBatch>(command).packed.size();
  const std::string_view topic = one != nullptr ? one->topic : std::get<command::SendBatch>(command).topic;
  if (auto flaw = flaw_of(topic, payload_bytes)) return ctx.out.tell(call, std::move(*flaw));
  if (auto full = find_room(0)) return ctx.out.tell(call, std::move(*full));   // before anything is compressed for nothing
  Command smaller;
  if (one != nullptr) compress_body(smaller.emplace<command::SendMessage>(*one));
  Send send{.serial = next_serial_, .call = call, .command = OwnedCommand(one != nullptr ? smaller : command), .topic = std::string(topic), .broker = {}, .shard = {}, .guessed = {},
            .began = ctx.now.monotonic, .deadline = ctx.now.monotonic + timeout_, .waits_for = {}, .route_not_before = {std::numeric_limits<int64_t>::min()},
            .target = {}, .attempt_began = {}, .last = {}, .wakes_at = {}, .tried = {}};
  if (auto full = find_room(send.command.bytes())) return ctx.out.tell(call, std::move(*full));
  const auto take = [&](auto& c) {
    send.broker = c.broker;
    send.queue_id = c.queue_id;
    send.is_one_way = (c.sys_flag & kOneWay) != 0;
    c.sys_flag &= ~kOneWay;
    if (c.born.ms == 0) c.born = ctx.now.wall;
  };
  if (auto* owned = std::get_if<command::SendMessage>(&send.command.get())) {
    take(*owned);
    const auto key = property::find(owned->properties, kShardingKeyProperty);
    if (key && send.queue_id < 0 && send.broker.empty()) send.shard = java_hash(*key);
  } else {
    take(std::get<command::SendBatch>(send.command.get()));
  }
  bytes_ += send.command.bytes();
  const uint64_t serial = next_serial_++;
  advance(ctx, sends_.emplace(serial, std::move(send)).first->second);
}

void Producer::compress_body(command::SendMessage& c) {
  if (compress_over_bytes_ == 0 || c.body.size() < compress_over_bytes_ || (c.sys_flag & sys_flag::kCompressed) != 0) return;
  if (!compress(compress_type_, compress_level_, c.body, scratch_)) return;
  SOMETIMES("client: a body was compressed", true);
  c.body = Bytes(scratch_);
  if (!MUTANT(CompressedFlagDropped)) c.sys_flag = (c.sys_flag & ~sys_flag::kCompressionMask) | compression_flags(compress_type_);
}

std::optional<Refusal> Producer::flaw_of(std::string_view topic, size_t payload_bytes) const {
  if (const Result<void> name = check_topic_name(topic); !name) return Refusal{Code::MessageIllegal, name.error().detail, fmt::format("topic of {} bytes", topic.size()), 0};
  if (payload_bytes > body_bytes_max_)
    return Refusal{Code::MessageIllegal, "the body is larger than maxMessageSize", fmt::format("body {} bytes, at most {} bytes", payload_bytes, body_bytes_max_), 0};
  return std::nullopt;
}

std::optional<Refusal> Producer::find_room(size_t bytes) const {
  if (sends_.size() < limits_.sends_in_flight_max && bytes_ + bytes <= limits_.bytes_in_flight_max) return std::nullopt;
  SOMETIMES("client: producer full", true);
  return Refusal{Code::SystemBusy, "too many sends are in flight in this client",
                 fmt::format("{} sends of {} bytes in flight, at most {} of {}", sends_.size(), bytes_, limits_.sends_in_flight_max, limits_.bytes_in_flight_max), 100};
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

bool Producer::pick(Ctx& ctx, const TopicRoute& route, Send& send, bool is_auto_create, Place& place) {
  if (send.shard) return pick_by_shard(route, send, is_auto_create, place);
  enum class Avoid : uint8_t { Failing, Last, Nobody };
  const auto places_of = [&](const TopicRoute::Broker& b, Avoid avoid) -> uint64_t {
    if ((!send.broker.empty() && b.name != send.broker) || b.write_queues == 0) return 0;
    if (avoid != Avoid::Nobody && b.name == send.target) return 0;
    if (avoid == Avoid::Failing && health_.is_avoided(ctx.now.monotonic, b.name)) return 0;
    if (is_auto_create) return 1;  // the broker chooses the queue: it alone knows how many it will make
    if (send.queue_id < 0) return static_cast<uint64_t>(b.write_queues);
    return send.queue_id < b.write_queues ? 1 : 0;
  };
  for (const Avoid avoid : {Avoid::Failing, Avoid::Last, Avoid::Nobody}) {
    uint64_t count = 0;
    for (const TopicRoute::Broker& b : route.brokers) count += places_of(b, avoid);
    if (count == 0) continue;
    SOMETIMES("client: resend to another broker", avoid != Avoid::Nobody && !send.target.empty());
    SOMETIMES("client: a failing broker is avoided", avoid == Avoid::Failing && std::any_of(route.brokers.begin(), route.brokers.end(), [&](const auto& b) {
                return health_.is_avoided(ctx.now.monotonic, b.name);
              }));
    uint64_t index = count > 1 ? routes_.take_turn(ctx, send.topic) % count : 0;
    for (const TopicRoute::Broker& b : route.brokers) {
      const uint64_t places = places_of(b, avoid);
      if (index >= places) {
        index -= places;
        continue;
      }
      const bool is_free_choice = send.queue_id < 0 && !is_auto_create;
      place = {b.name, b.master, is_free_choice ? static_cast<int32_t>(index) : send.queue_id};
      return true;
    }
  }
  return false;
}

// The route of a topic that a broker is about to create says how many queues it will have, unless it was just made with fewer.
bool Producer::pick_by_shard(const TopicRoute& route, Send& send, bool is_auto_create, Place& place) {
  int64_t count = 0;
  for (const TopicRoute::Broker& b : route.brokers) count += b.write_queues;
  if (count == 0) return false;
  int64_t index = std::abs(int64_t{*send.shard} % count);
  for (const TopicRoute::Broker& b : route.brokers) {
    if (index >= b.write_queues) {
      index -= b.write_queues;
      continue;
    }
    place = {b.name, b.master, static_cast<int32_t>(index)};
    break;
  }
  if (MUTANT(ShardKeyRetriesElsewhere)) {
    ++*send.shard;
    return true;
  }
  send.broker = place.broker;
  send.queue_id = place.queue_id;
  send.guessed = is_auto_create ? send.shard : std::nullopt;
  send.shard.reset();
  return true;
}

void Producer::attempt(Ctx& ctx, Send& send, const Place& place) {
  std::visit([&place](auto& c) { if constexpr (requires { c.born; c.queue_id; }) c.queue_id = place.queue_id; }, send.command.get());
  if (send.is_one_way) return attempt_one_way(ctx, send, place);
  const int32_t attempts_left = attempts_max() - send.attempts;
  const Duration cap = std::min(attempt_timeout_, (send.deadline - ctx.now.monotonic) / std::max(attempts_left, 1));
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
  if (resends_ > 0) --send.attempts;
  attempt_failed(ctx, send, to_string(called.code()), 0);
}

// Sent at most once: what the connection has taken over may have been stored, and nobody will say.
void Producer::attempt_one_way(Ctx& ctx, Send& send, const Place& place) {
  ++send.attempts;
  send.target = place.broker;
  const Result<void> sent = caller_.call_one_way(ctx, place.address, send.command.get());
  if (sent && MUTANT(OneWayIsSentTwice)) (void)caller_.call_one_way(ctx, place.address, send.command.get());
  SOMETIMES("client: a one-way send is on its way", sent.has_value());
  if (sent) return finish(ctx, send, reply::Ok{});
  const Code code = sent.code() == Errc::InvalidArgument ? Code::MessageIllegal : Code::SystemBusy;
  give_up(ctx, send, Refusal{code, sent.error().text(), fmt::format("{} bytes", send.command.bytes()), code == Code::SystemBusy ? 100u : 0u});
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
    health_.failed(ctx.now.monotonic, send.target);
    if (was_never_sent(reply.code()) && resends_ > 0) --send.attempts;
    routes_.refresh(ctx, send.topic);
    return attempt_failed(ctx, send, to_string(reply.code()), 0);
  }
  health_.answered(ctx.now.monotonic, send.target, ctx.now.monotonic - send.attempt_began);
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
  if (refusal->code == Code::InvalidParameter && send.guessed && !send.is_outcome_unknown) {
    send.shard = std::exchange(send.guessed, std::nullopt);  // it is nowhere yet, so it may choose again, by what name servers say now
    send.broker.clear();
    send.queue_id = -1;
    send.route_not_before = ctx.now.monotonic;
    return attempt_failed(ctx, send, "the topic has fewer queues", 0);
  }
  if (!is_tried_again(refusal->code)) return give_up(ctx, send, std::move(*refusal));
  if (refusal->code == Code::TopicNotExist) send.route_not_before = ctx.now.monotonic;
  else health_.refused_for_now(ctx.now.monotonic, send.target, Duration::milliseconds(refusal->retry_after_ms));
  attempt_failed(ctx, send, fmt::format("{} ({})", to_string(refusal->code), refusal->cause), refusal->retry_after_ms);
}

void Producer::note_failure(Ctx& ctx, Send& send, std::string_view what) {
  const int64_t ms = (ctx.now.monotonic - send.attempt_began).ms();
  ++send.failures;
  ctx.trace.note(SendTriedAgain{send.call.value(), send.failures, ms, what});
  // The first ones and the last say enough: there may be thousands in a long time-out.
  if (send.tried.size() < kTriedBytesMax) send.tried += fmt::format("attempt {} {} {} after {} ms; ", send.failures, send.target, what, ms);
}

void Producer::attempt_failed(Ctx& ctx, Send& send, std::string_view what, uint32_t retry_after_ms) {
  note_failure(ctx, send, what);
  if (send.attempts >= attempts_max()) return give_up_trying(ctx, send);
  SOMETIMES("client: a connection that was refused uses up no resend", send.failures > static_cast<uint32_t>(send.attempts));
  send.step = Step::BackingOff;
  send.wakes_at = std::min(ctx.now.monotonic + wait_after(ctx, send, retry_after_ms), send.deadline);
  ctx.timers.set(TimerId(owned_id(owner_, send.serial)), send.wakes_at);
}

Duration Producer::wait_after(Ctx& ctx, const Send& send, uint32_t retry_after_ms) const {
  const Duration own = back_off(ctx.prng, limits_.back_off_first, limits_.back_off_max, send.failures - 1);
  const Duration left = send.deadline - ctx.now.monotonic;
  const int32_t attempts_left = attempts_max() - send.attempts;
  // The broker's advice counts as far as it leaves time for the attempts that are left.
  const Duration advised = std::min(Duration::milliseconds(retry_after_ms), left / (attempts_left + 1));
  const bool is_last_of_several = attempts_left == 1 && send.attempts > 1;
  return std::max({own, advised, is_last_of_several ? left / 2 : Duration{}});
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
      send.tried += fmt::format("attempt {} {} not answered when the client stopped; ", send.failures + 1, send.target);
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
  refusal.cause = fmt::format("topic {} not sent in {} attempts and {} ms", send.topic, send.failures, ms);
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
  ctx.trace.note(SendGivenUp{send.call.value(), send.failures, refusal.cause});
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
