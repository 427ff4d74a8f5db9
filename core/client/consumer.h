#pragma once
// Follows every readable queue of a topic on every broker for a group. One consumer takes all queues: there is no rebalance yet.
//
//   queue:  FindingOffset --stored--> Pulling --records--> Holding --Consumed--> Pulling
//              |  QUERY_NOT_FOUND       ^ | '--refused, lost--> BackingOff --> (FindingOffset | Pulling)
//              '--> FindingEdge --------' '--moved, filtered away, nothing there--> Pulling
//
// One batch per queue is out at a time. What is consumed is what the host says with Consumed; only that is committed, at most once a
// second per queue, and at Unsubscribe and Stop. At-least-once: after a crash of the client the batches since the last commit come again.
//
// A broker that came back may have lost the end of a queue (ASYNC_FLUSH), and its offsets are clamped to what is left. So after a
// connection to a broker was lost, its queues are in doubt: the stored offset is read again, and when it is lower than the position,
// the consumer goes back to it. While in doubt it commits nothing, for that would hide the gap.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "core/client/caller.h"
#include "core/client/routes.h"

namespace fulmar {

struct ConsumerLimits {
  size_t subscriptions_max = 256;
  size_t queues_max = 16'384;                                // over all subscriptions
  uint32_t suspend_ms = 15'000;                              // how long a broker may hold a pull
  Duration call_timeout = Duration::seconds(3);              // beyond suspend_ms for pulls
  Duration patience = Duration::seconds(30);                 // in all, for a pull whose connection is slow
  Duration commit_interval = Duration::seconds(1);           // per queue
  Duration pull_gap = Duration::milliseconds(20);            // between two pulls that brought nothing
  Duration back_off_first = Duration::milliseconds(100), back_off_max = Duration::seconds(3);
  Duration leave_timeout = Duration::seconds(3);             // last commits at Unsubscribe
};

class Consumer {
 public:
  Consumer(uint8_t owner, Routes& routes, Caller& caller, ConsumerLimits limits = {});

  // Tells `call` a Delivered per batch, and a Refusal once when the subscription is impossible: that is its end and its last word.
  void subscribe(Ctx& ctx, CallId call, const command::Subscribe& subscribe);
  // Tells `call` Ok when it is noted (not yet committed), InvalidParameter when no such batch is out. `next` may lie inside the batch;
  // the rest comes again. subscription_call: the value of the CallId of Subscribe.
  void consumed(Ctx& ctx, CallId call, const command::Consumed& consumed);
  // Tells `call` Ok after the last commit, SERVICE_NOT_AVAILABLE when that did not succeed in leave_timeout. No further Delivered.
  void unsubscribe(Ctx& ctx, CallId call, const command::Unsubscribe& unsubscribe);

  void on_route(Ctx& ctx, std::string_view topic);
  void on_reply(Ctx& ctx, uint64_t token, Result<Reply> reply);
  void on_link_lost(const Address& to);
  void on_timer(Ctx& ctx, TimerId timer);
  // All subscriptions leave: last commits until `deadline`, then idle.
  void stop(Ctx& ctx, Monotonic deadline);
  bool is_idle() const { return subscriptions_.empty(); }

 private:
  enum class Step : uint8_t { FindingOffset, FindingEdge, Pulling, Holding, BackingOff, Left };
  struct Held { QueueOffset first, next; };
  struct Queue {
    uint64_t serial = 0;
    Step step = Step::BackingOff;
    uint8_t generation = 0;                          // of the walk's calls: the answer of one that is given up is not taken for another's
    bool has_position = false;
    QueueOffset position;                            // next pull
    QueueOffset began;                               // where the walk of this queue began
    std::optional<Held> held;                        // the batch that the host has
    std::optional<QueueOffset> consumed, committed;  // what we want stored; what we know to be stored
    std::optional<QueueOffset> committing;           // on its way
    Monotonic commit_not_before;
    bool is_in_doubt = false;
    uint32_t failures = 0;
    Monotonic pulled_at;
    Address asked;                                   // whose memory our position relies on
    bool wants_commit() const { return consumed.has_value() && consumed != committed; }
  };
  using Key = std::pair<std::string, int32_t>;  // broker, queue id
  struct Subscription {
    uint64_t serial = 0;
    CallId call;
    std::string group, topic, expression;
    command::Subscribe::From from = command::Subscribe::From::First;
    int32_t count_max = 0;
    std::map<Key, Queue> queues;
    bool is_leaving = false;
    Monotonic leave_by;
    std::optional<CallId> leaving_call;
  };
  struct Place { uint64_t call = 0; Key key; };
  struct At { Subscription* subscription = nullptr; const Key* key = nullptr; Queue* queue = nullptr; };
  // Kinds of token and timer, in the byte below the owner's; then the generation of a walk, then the serial number.
  enum class Kind : uint8_t { Walk, Commit, Subscription };

  uint64_t id(Kind kind, uint64_t serial, uint8_t generation = 0) const {
    return owned_id(owner_, uint64_t{static_cast<uint8_t>(kind)} << 48 | uint64_t{generation} << 40 | serial);
  }
  static Kind kind_of(uint64_t id) { return static_cast<Kind>((id >> 48) & 0xFF); }
  static uint8_t generation_of(uint64_t id) { return static_cast<uint8_t>(id >> 40); }
  static uint64_t bare(uint64_t id) { return id & ((uint64_t{1} << 40) - 1); }
  At at(uint64_t serial);

  void reconcile(Ctx& ctx, Subscription& subscription);
  void walk(Ctx& ctx, At at);                        // what the queue needs next: its offset, or records
  void call_or_back_off(Ctx& ctx, At at, Step step, const Command& command, Duration timeout, Duration patience = {});
  void on_walk_reply(Ctx& ctx, At at, Result<Reply> reply);
  void on_offset(Ctx& ctx, At at, const Reply& reply);
  void on_edge(Ctx& ctx, At at, const Reply& reply);
  void on_pulled(Ctx& ctx, At at, reply::Pulled pulled);
  void walk_failed(Ctx& ctx, At at, std::string_view what);
  void pull_later(Ctx& ctx, At at, Monotonic when);
  void commit_if_due(Ctx& ctx, At at);
  void commit_or_resolve(Ctx& ctx, At at);           // as above; a queue that has left but is in doubt asks first
  void on_commit_reply(Ctx& ctx, At at, const Result<Reply>& reply);
  void leave(Ctx& ctx, Subscription& subscription, Monotonic deadline);
  bool finish_if_left(Ctx& ctx, Subscription& subscription);  // true: it is gone
  void end(Ctx& ctx, uint64_t call);

  uint8_t owner_;
  Routes& routes_;
  Caller& caller_;
  ConsumerLimits limits_;
  uint64_t next_serial_ = 1;
  std::map<uint64_t, Subscription> subscriptions_;  // by CallId
  std::map<uint64_t, Place> places_;                // by serial of the queue
  std::map<uint64_t, uint64_t> calls_;              // by serial of the subscription
};

}  // namespace fulmar
