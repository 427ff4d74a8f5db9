#pragma once
// Sends the host's messages: chooses a queue, tries again elsewhere, and answers once.
//
//   send --> AwaitingRoute --route--> Calling --Sent--> told reply::Sent
//               ^                       |--refused for good--> told Refusal
//               '------- BackingOff <---'--busy, lost, refused for now (while attempts and time last)
//
// One time-out (sendMsgTimeout) spans everything; an attempt may use what is left divided by the attempts that are left, so a silent
// broker cannot eat all of it, and the last attempt has the whole rest. Errors that are tried again: SYSTEM_ERROR, SYSTEM_BUSY,
// SERVICE_NOT_AVAILABLE, TOPIC_NOT_EXIST (after asking for the route anew) and every failed call. Any Sent is passed on as it is,
// FLUSH_DISK_TIMEOUT too.
//
// A broker that is started again is away for a second or two. So a call that certainly never left uses up no resend (unless resends are
// off): it is made again, with back-off, as long as there is time; and the last of several resends waits for half of what is left.
//
// A message with the property __SHARDINGKEY goes to queue hash(key) mod n of all n writable queues, brokers by name, as RocketMQ's
// selector does, and never to another one, also when its broker fails. Order is kept while the route stays the same.
//
// Bodies of compressMsgBodyOverHowmuch bytes and more are compressed when that makes them smaller; batches never are.
//
// One-way (kOneWay in its sysFlag): one attempt, and `call` is told Ok when the connection has taken the message over, or the Refusal that kept it here.
//
// Contract: when an answer is lost, the message may have been stored, and a resend may store it twice. A failure is told as a Refusal
// whose cause begins with kOutcomeUnknown when any attempt may have been stored; every other refusal means that none was.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "core/client/broker_health.h"
#include "core/client/caller.h"
#include "core/client/owned_command.h"
#include "core/client/routes.h"

namespace fulmar {

// The host's word in sysFlag of SendMessage and SendBatch; taken out before anything leaves.
inline constexpr uint32_t kOneWay = 0x8000'0000;
// RocketMQ's property of the key that chooses the queue.
inline constexpr std::string_view kShardingKeyProperty = "__SHARDINGKEY";

struct ProducerLimits {
  size_t sends_in_flight_max = 4096;        // then SYSTEM_BUSY
  size_t bytes_in_flight_max = 64u << 20;   // copies kept for resends
  Duration back_off_first = Duration::milliseconds(50), back_off_max = Duration::seconds(1);
};

class Producer {
 public:
  Producer(uint8_t owner, const ClientConfig& config, Routes& routes, Caller& caller, ProducerLimits limits = {});

  // SendMessage or SendBatch. queue_id and broker, when given, are kept to in every attempt. born 0 becomes now. Tells `call` exactly
  // once: Sent with the broker filled in, or Refusal; Ok instead of Sent when it goes one way.
  void send(Ctx& ctx, CallId call, const Command& command);
  void on_route(Ctx& ctx, std::string_view topic);
  void on_reply(Ctx& ctx, uint64_t token, Result<Reply> reply);
  void on_timer(Ctx& ctx, TimerId timer);
  // What is in flight ends by `deadline`; new sends are the node's to refuse.
  void stop(Ctx& ctx, Monotonic deadline);
  size_t in_flight() const { return sends_.size(); }

 private:
  enum class Step : uint8_t { AwaitingRoute, Calling, BackingOff };
  struct Send {
    uint64_t serial = 0;
    CallId call;
    OwnedCommand command;
    std::string topic, broker;        // broker: the one that the host or the sharding key asks for, or empty
    int32_t queue_id = -1;            // the same
    std::optional<int32_t> shard;     // hash of the sharding key, until it has chosen a queue
    std::optional<int32_t> guessed;   // the same, when it chose by the queues that a topic would have that nobody knew yet
    bool is_one_way = false;
    Monotonic began, deadline;
    Step step = Step::AwaitingRoute;
    std::string waits_for;            // topic, in AwaitingRoute
    Monotonic route_not_before;       // a route that was asked for earlier is not good enough
    int32_t attempts = 0;             // that may have reached a broker
    uint32_t failures = 0;            // attempts that came to nothing, all of them
    std::string target;               // broker of the running or last attempt
    Monotonic attempt_began;
    bool is_outcome_unknown = false;
    std::optional<Refusal> last;      // of the last attempt that was refused
    Monotonic wakes_at;               // in BackingOff
    std::string tried;                // one phrase per attempt
  };
  struct Place { std::string broker; Address address; int32_t queue_id = -1; };
  struct WaitFor { std::string topic; };
  using Choice = std::variant<Place, WaitFor, Refusal>;

  // A refusal that needs no broker, or nothing.
  std::optional<Refusal> flaw_of(std::string_view topic, size_t payload_bytes) const;   // nobody need be asked
  std::optional<Refusal> find_room(size_t bytes) const;                                 // for one send more
  // `c` with its body in `scratch_`, when that makes it smaller.
  void compress_body(command::SendMessage& c);
  void advance(Ctx& ctx, Send& send);
  Choice choose(Ctx& ctx, Send& send);
  Choice choose_auto_create(Ctx& ctx, Send& send);
  static std::optional<Refusal> denied_by(const TopicRoute& route, const Send& send);
  // A place on the route; brokers that fail, and the one that this send failed at, only when there is no other.
  bool pick(Ctx& ctx, const TopicRoute& route, Send& send, bool is_auto_create, Place& place);
  bool pick_by_shard(const TopicRoute& route, Send& send, bool is_auto_create, Place& place);
  void attempt(Ctx& ctx, Send& send, const Place& place);
  void attempt_one_way(Ctx& ctx, Send& send, const Place& place);
  void wait_for(Ctx& ctx, Send& send, std::string topic);
  void attempt_failed(Ctx& ctx, Send& send, std::string_view what, uint32_t retry_after_ms);
  void note_failure(Ctx& ctx, Send& send, std::string_view what);
  Duration wait_after(Ctx& ctx, const Send& send, uint32_t retry_after_ms) const;
  void give_up(Ctx& ctx, Send& send, Refusal refusal);
  void give_up_trying(Ctx& ctx, Send& send);
  void finish(Ctx& ctx, Send& send, Reply reply);
  int32_t attempts_max() const { return 1 + resends_; }

  uint8_t owner_;
  Duration timeout_;
  int32_t resends_;
  Duration attempt_timeout_;
  uint32_t body_bytes_max_, compress_over_bytes_;
  int32_t compress_level_;
  CompressionType compress_type_;
  Routes& routes_;
  Caller& caller_;
  ProducerLimits limits_;
  BrokerHealth health_;
  std::vector<uint8_t> scratch_;
  uint64_t next_serial_ = 1;
  size_t bytes_ = 0;
  std::map<uint64_t, Send> sends_;                       // by serial
  std::set<std::pair<std::string, uint64_t>> waiting_;   // (topic, serial)
};

}  // namespace fulmar
