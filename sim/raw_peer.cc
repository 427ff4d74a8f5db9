#include "sim/raw_peer.h"

#include "core/client/caller.h"

namespace fulmar::sim {
namespace {

constexpr uint8_t kLinksOwner = 1, kOwnTimers = 2;
constexpr Duration kPatience = Duration::seconds(12);          // of a question
constexpr Duration kBehindTheFlood = Duration::milliseconds(300);

}  // namespace

RawPeer::RawPeer(Seed seed, Files& files, Trace& trace) : files_(files), trace_(trace), prng_(seed), links_(kLinksOwner, "raw peer") {}

void RawPeer::step(const Moment& now, std::span<const Input> inputs, Outbox& out) {
  Ctx ctx{now, out, files_, timers_, prng_, trace_};
  for (const Input& input : inputs) {
    if (const auto* told = std::get_if<Told>(&input)) on_told(ctx, *told);
    else if (const auto* dialed = std::get_if<Dialed>(&input)) (void)links_.on_dialed(ctx, *dialed, *this);
    else if (const auto* received = std::get_if<Received>(&input)) (void)links_.on_received(ctx, *received, *this);
    else if (const auto* closed = std::get_if<Closed>(&input)) (void)links_.on_closed(ctx, *closed, *this);
    else if (const auto* sent = std::get_if<Sent>(&input)) (void)links_.on_sent(ctx, *sent);
  }
  while (const auto due = timers_.pop_due(now.monotonic)) {
    if (owner_of(due->value()) == kLinksOwner) links_.on_timer(ctx, *this);
    else ask(ctx, due->value() & 0xFFFFFFFF, Asked::Question);
  }
  links_.flush(ctx);
}

void RawPeer::on_told(Ctx& ctx, const Told& told) {
  const auto send = [&](const auto& command) {
    const Result<void> sent = links_.call_one_way(ctx, {std::string(command.broker), kBrokerPort}, told.command);
    if (sent) ctx.out.tell(told.call, reply::Ok{});
    else ctx.out.tell(told.call, Refusal{Code::ServiceNotAvailable, sent.error().text(), "", 0});
  };
  if (const auto* one = std::get_if<command::SendMessage>(&told.command)) return send(*one);
  if (const auto* batch = std::get_if<command::SendBatch>(&told.command)) return send(*batch);
  if (const auto* pull = std::get_if<command::PullMessages>(&told.command)) {
    const uint64_t serial = next_serial_++;
    floods_[serial] = {told.call, {std::string(pull->broker), kBrokerPort}, std::string(pull->topic), pull->queue_id, pull->suspend_ms};
    return ask(ctx, serial, Asked::Edge);
  }
  ctx.out.stopped();   // the only other thing it is told is to stop
}

void RawPeer::ask(Ctx& ctx, uint64_t serial, Asked what) {
  const auto it = floods_.find(serial);
  if (it == floods_.end()) return;
  const command::QueryQueue query{.topic = it->second.topic, .queue_id = it->second.queue_id, .broker = {}};
  const uint64_t token = owned_id(static_cast<uint8_t>(what), serial);
  if (const auto asked = links_.call(ctx, it->second.to, query, token, ctx.now.monotonic + kPatience); !asked) {
    end(ctx, serial, Refusal{Code::ServiceNotAvailable, asked.error().text(), "", 0});
  }
}

void RawPeer::flood(Ctx& ctx, uint64_t serial, QueueOffset end_of_queue) {
  const Flooding& f = floods_.at(serial);
  const command::PullMessages pull{.group = "flood", .topic = f.topic, .queue_id = f.queue_id, .offset = end_of_queue, .count_max = 1,
                                   .suspend_ms = f.suspend_ms, .subscription = "*", .broker = {}};
  for (uint32_t i = 0; i < kFlood; ++i) {
    if (!links_.call(ctx, f.to, pull, owned_id(static_cast<uint8_t>(Asked::Flood), serial), ctx.now.monotonic + kPatience)) break;
  }
  timers_.set(TimerId(owned_id(kOwnTimers, serial)), ctx.now.monotonic + kBehindTheFlood);
}

void RawPeer::on_reply(Ctx& ctx, uint64_t token, Result<Reply> reply) {
  const uint64_t serial = token & 0xFFFFFFFF;
  const auto what = static_cast<Asked>(owner_of(token));
  if (what == Asked::Flood || !floods_.contains(serial)) return;
  if (!reply) return end(ctx, serial, Refusal{Code::ServiceNotAvailable, reply.error().text(), "", 0});
  if (what == Asked::Question) return end(ctx, serial, reply::Ok{});
  if (const auto* edge = std::get_if<reply::Queue>(&*reply)) return flood(ctx, serial, edge->max);
  end(ctx, serial, Refusal{Code::ServiceNotAvailable, describe(*reply), "", 0});
}

void RawPeer::end(Ctx& ctx, uint64_t serial, Reply answer) {
  ctx.out.tell(floods_.at(serial).call, std::move(answer));
  floods_.erase(serial);
}

}  // namespace fulmar::sim
