#pragma once
// A peer that speaks the native protocol straight to brokers, as no client node does: it sends without asking for an answer, and asks far
// more than a connection may have in flight before it asks one thing more.
//
//   Told SendMessage, SendBatch: sent one-way to the broker `broker` names; Ok when it is on its way, a Refusal when it never left.
//   Told PullMessages: kFlood long polls at the end of that queue, and behind them a question; Ok when the question is answered.

#include <map>

#include "core/node/link.h"

namespace fulmar::sim {

class RawPeer final : public Node, private ReplyHandler {
 public:
  RawPeer(Seed seed, Files& files, Trace& trace);
  void step(const Moment& now, std::span<const Input> inputs, Outbox& out) override;
  Monotonic next_deadline() const override { return timers_.next(); }

  static constexpr uint32_t kFlood = 4'400;                 // above what an endpoint takes before it stops reading
  static constexpr uint16_t kBrokerPort = 10'911;

 private:
  enum class Asked : uint8_t { Edge, Flood, Question };
  struct Flooding { CallId call; Address to; std::string topic; int32_t queue_id = 0; uint32_t suspend_ms = 0; };
  void on_told(Ctx& ctx, const Told& told);
  void on_reply(Ctx& ctx, uint64_t token, Result<Reply> reply) override;
  void flood(Ctx& ctx, uint64_t serial, QueueOffset end);
  void ask(Ctx& ctx, uint64_t serial, Asked what);
  void end(Ctx& ctx, uint64_t serial, Reply answer);

  Files& files_;
  Trace& trace_;
  Prng prng_;
  Timers timers_;
  Links links_;
  std::map<uint64_t, Flooding> floods_;    // by serial
  uint64_t next_serial_ = 1;
};

}  // namespace fulmar::sim
