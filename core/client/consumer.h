#pragma once
// Follows the queues of a topic that this member of a group owns: its share (client/rebalance.h), or all of them in broadcasting.
//
//   queue:  FindingOffset --stored--> Pulling --records--> told; Pulling again, or Holding while enough is out --Consumed--> Pulling
//              |  QUERY_NOT_FOUND       ^ | '--refused, lost--> BackingOff --> (FindingOffset | Pulling)
//              '--> FindingEdge --------' '--moved, filtered away, nothing there--> Pulling
//           any --another member's now--> Left --committed, or not in time--> gone
//
// Several batches of a queue may be out, as flow control allows. What is consumed is what the host says with Consumed; only that is
// committed, at most once a second per queue, when the queue is given up, and at Unsubscribe and Stop. At-least-once: after a crash of the
// client the batches since the last commit come again. In broadcasting nothing is committed: the host is told Progress and keeps it.
//
// A queue that joins a topic while it is followed begins at its minimum: what was sent before we heard of it is not passed over.
//
// A broker that came back may have lost the end of a queue (ASYNC_FLUSH), and its offsets are clamped to what is left. So after a
// connection to a broker was lost, its queues are in doubt: once no batch is out, the stored offset is read again, and when it is lower than
// the position, the consumer goes back to it. While in doubt it commits nothing, for that would hide the gap.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/client/caller.h"
#include "core/client/rebalance.h"
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
  Duration leave_timeout = Duration::seconds(3);             // last commits at Unsubscribe, and of a queue that is given up
  Duration start_delay = Duration::milliseconds(200);        // of a queue that another member may be about to commit
  Duration new_broker_margin = Duration::seconds(60);        // clocks of clients and brokers differ by less
};

class Consumer {
 public:
  Consumer(uint8_t owner, Routes& routes, Rebalance& rebalance, Caller& caller, ConsumerLimits limits = {});

  // Tells `call` Assigned with each change of what it owns, a Delivered per batch, and a Refusal once when the subscription is impossible:
  // that is its end and its last word.
  void subscribe(Ctx& ctx, CallId call, const command::Subscribe& subscribe);
  // Tells `call` Ok when it is noted (not yet committed), InvalidParameter when no such batch is out, also because the queue is another
  // member's now or was moved. subscription_call: the value of the CallId of Subscribe.
  void consumed(Ctx& ctx, CallId call, const command::Consumed& consumed);
  // Tells `call` Ok after the last commit, SERVICE_NOT_AVAILABLE when that did not succeed in leave_timeout. No further Delivered.
  void unsubscribe(Ctx& ctx, CallId call, const command::Unsubscribe& unsubscribe);

  void on_route(Ctx& ctx, std::string_view topic);
  void on_members(Ctx& ctx, std::string_view group);                             // what Rebalance::take_changes() names
  void on_group_refused(Ctx& ctx, std::string_view group, const Refusal& why);   // and take_refusals()
  void on_reply(Ctx& ctx, uint64_t token, Result<Reply> reply);
  void on_link_lost(const Address& to);
  void on_timer(Ctx& ctx, TimerId timer);
  // All subscriptions leave: last commits until `deadline`, then idle.
  void stop(Ctx& ctx, Monotonic deadline);
  bool is_idle() const { return subscriptions_.empty(); }

 private:
  enum class Step : uint8_t { FindingOffset, FindingEdge, Pulling, Holding, BackingOff, Left };
  // Told and not consumed; or a stretch that was filtered away behind such a batch, which is consumed with it.
  struct Batch { QueueOffset first, next; int32_t count = 0; uint64_t bytes = 0; bool is_told = true; };
  struct Queue {
    uint64_t serial = 0;
    Step step = Step::BackingOff;
    uint8_t generation = 0;                          // of the walk's calls: the answer of one that is given up is not taken for another's
    bool has_position = false;
    QueueOffset position;                            // next pull
    QueueOffset began;                               // where the walk of this queue began …
    bool has_begun_at_edge = false;                  // … because the broker said where its queue begins or ends, not from a stored offset
    std::vector<Batch> out;                          // oldest first
    int64_t messages_out = 0;
    uint64_t bytes_out = 0;
    bool is_starved = false;                         // waits for room of the whole subscription
    bool is_new = false;                             // joined the topic while we followed it, on a broker that we knew
    bool is_on_new_broker = false;
    bool is_taken_over = false;                      // from another member
    bool is_revoked = false;                         // another member's: committed, then gone
    Monotonic leave_by;
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
    Wall from_time, began;
    GroupModel model = GroupModel::Clustering;
    int32_t count_max = 0, queue_messages_max = 0, messages_max = 0;
    uint64_t queue_bytes_max = 0, bytes_max = 0;
    std::map<Key, QueueOffset> positions;            // broadcasting: what the host gave us
    std::optional<std::map<std::string, int32_t>> first_queues;  // of the first route: readable queues by broker
    reply::Assigned told;
    bool is_told = false;
    int64_t messages_out = 0;
    uint64_t bytes_out = 0;
    std::deque<uint64_t> starved;                    // serials of queues
    std::map<Key, Queue> queues;
    bool is_leaving = false;
    Monotonic leave_by;
    std::optional<CallId> leaving_call;
  };
  struct Place { uint64_t call = 0; Key key; };
  struct At { Subscription* subscription = nullptr; const Key* key = nullptr; Queue* queue = nullptr; };
  // Kinds of token and timer, in the byte below the owner's; then the generation of a walk, then the serial number.
  enum class Kind : uint8_t { Walk, Commit, Subscription, Leave };

  uint64_t id(Kind kind, uint64_t serial, uint8_t generation = 0) const {
    return owned_id(owner_, uint64_t{static_cast<uint8_t>(kind)} << 48 | uint64_t{generation} << 40 | serial);
  }
  static Kind kind_of(uint64_t id) { return static_cast<Kind>((id >> 48) & 0xFF); }
  static uint8_t generation_of(uint64_t id) { return static_cast<uint8_t>(id >> 40); }
  static uint64_t bare(uint64_t id) { return id & ((uint64_t{1} << 40) - 1); }
  At at(uint64_t serial);

  void reconcile(Ctx& ctx, Subscription& subscription);
  void take_queues(Ctx& ctx, Subscription& subscription, const TopicRoute& route, const Rebalance::Share& share);
  void add_queue(Ctx& ctx, Subscription& subscription, const Key& key, bool is_alone);
  void revoke(Ctx& ctx, At at);
  void tell_assigned(Ctx& ctx, Subscription& subscription, const Rebalance::Share& share);
  bool has_room(Subscription& subscription, Queue& queue);
  void take_batches(At at, size_t count);            // the oldest are consumed
  void drop_batches(At at);                          // they come again, or never
  void feed_starved(Ctx& ctx, Subscription& subscription);
  void walk(Ctx& ctx, At at);                        // what the queue needs next: its offset, or records
  void call_or_back_off(Ctx& ctx, At at, Step step, const Command& command, Duration timeout, Duration patience = {});
  void on_walk_reply(Ctx& ctx, At at, Result<Reply> reply);
  void on_offset(Ctx& ctx, At at, const Reply& reply);
  void find_start(Ctx& ctx, At at);
  void on_edge(Ctx& ctx, At at, const Reply& reply);
  void begin_at(Ctx& ctx, At at, QueueOffset offset, bool is_found_again, bool is_kept = false);   // is_kept: the host said so
  void on_pulled(Ctx& ctx, At at, reply::Pulled pulled);
  void walk_failed(Ctx& ctx, At at, std::string_view what);
  void pull_later(Ctx& ctx, At at, Monotonic when);
  void commit_if_due(Ctx& ctx, At at);
  void commit_or_resolve(Ctx& ctx, At at);           // as above; a queue that has left but is in doubt asks first
  void tell_progress(Ctx& ctx, At at);
  void on_commit_reply(Ctx& ctx, At at, const Result<Reply>& reply);
  void leave(Ctx& ctx, Subscription& subscription, Monotonic deadline);
  // What has left and is committed goes. The subscription, too, when that is true of all its queues.
  void finish_if_left(Ctx& ctx, uint64_t call);
  void forget_if_settled(Ctx& ctx, uint64_t serial);
  void forget_queue(Ctx& ctx, At at);
  void end(Ctx& ctx, uint64_t call);

  uint8_t owner_;
  Routes& routes_;
  Rebalance& rebalance_;
  Caller& caller_;
  ConsumerLimits limits_;
  uint64_t next_serial_ = 1;
  std::map<uint64_t, Subscription> subscriptions_;  // by CallId
  std::map<uint64_t, Place> places_;                // by serial of the queue
  std::map<uint64_t, uint64_t> calls_;              // by serial of the subscription
};

}  // namespace fulmar
