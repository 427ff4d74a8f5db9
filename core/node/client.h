#pragma once
// The client node: producers, consumers and the host's plain questions over one set of connections. It listens nowhere and keeps nothing
// on disk. The host says Told, the answers come by Outbox::tell:
//
//   SendMessage, SendBatch              one Sent or Refusal; one-way: Ok or Refusal (client/producer.h)
//   Subscribe, Consumed, Unsubscribe    Delivered as long as the subscription lives (client/consumer.h)
//   questions                           one answer as the broker or the name server gave it, or a Refusal (client/forwarder.h)
//   Stop                                sends and questions end, what was consumed is committed, all by the deadline; then Ok and stopped()
//
// Running --Stop--> Draining --everything answered, or the deadline--> Stopped

#include <string>
#include <vector>

#include "core/client/consumer.h"
#include "core/client/forwarder.h"
#include "core/client/producer.h"
#include "core/client/rebalance.h"
#include "core/client/routes.h"
#include "core/io/node.h"
#include "core/model/config.h"
#include "core/node/link.h"

namespace fulmar {

class Client final : public Node, private ReplyHandler, private Caller {
 public:
  Client(ClientConfig config, Seed seed, Files& files, Trace& trace);

  void step(const Moment& now, std::span<const Input> inputs, Outbox& out) override;
  Monotonic next_deadline() const override { return timers_.next(); }

 private:
  enum class State : uint8_t { Running, Draining, Stopped };

  void on_input(Ctx& ctx, const Input& input);
  void on_told(Ctx& ctx, const Told& told);
  void on_told_draining(Ctx& ctx, const Told& told);
  void begin_stop(Ctx& ctx, CallId call, Duration deadline);
  void end_when_drained(Ctx& ctx);
  void fire_timers(Ctx& ctx);
  void tell_news(Ctx& ctx);     // routes and members that were learned
  void on_reply(Ctx& ctx, uint64_t token, Result<Reply> reply) override;
  void on_link_lost(Ctx&, const Address& to) override { consumer_.on_link_lost(to); }
  Result<void> call(Ctx& ctx, const Address& to, const Command& command, uint64_t token, Deadline deadline) override;
  Result<void> call_one_way(Ctx& ctx, const Address& to, const Command& command) override { return links_.call_one_way(ctx, to, command); }

  Files& files_;
  Trace& trace_;
  Prng prng_;
  Timers timers_;
  Links links_;
  Routes routes_;
  Producer producer_;
  Rebalance rebalance_;
  Consumer consumer_;
  Forwarder forwarder_;
  State state_ = State::Running;
  std::vector<CallId> stop_calls_;
  Monotonic stop_by_;
};

}  // namespace fulmar
