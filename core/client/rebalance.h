#pragma once
// Who owns which queues of a group. This client says to every broker of its topics' routes what it consumes, and learns from each who else
// does; of a topic the list of the first broker, by name, that answers counts. Every member computes its own share from that list.
//
//   a broker:  Asking --Members--> Alive, asked again at once (the broker holds the question until something changes)
//                     --refused, lost, silent--> Silent --back-off--> Asking
//
// A member that hears of a change stops pulling what it loses and commits it; one that gains a queue waits `start_delay` for that commit.
// Nobody decides for all: for a moment two members may own one queue, or none; what was not committed then comes twice.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/client/caller.h"
#include "core/client/routes.h"

namespace fulmar {

// RocketMQ's average algorithm (AllocateMessageQueueAveragely): of n queues in order, member `me` of m in order owns [begin, end).
struct QueueShare { size_t begin = 0, end = 0; };
QueueShare average_share(size_t queues, size_t members, size_t me);

struct RebalanceLimits {
  uint32_t suspend_ms = 1000;                                // how long a broker may hold a heartbeat
  Duration call_timeout = Duration::seconds(2);              // beyond that
  Duration gap_min = Duration::milliseconds(100);            // between two heartbeats to one broker
  Duration back_off_first = Duration::milliseconds(100), back_off_max = Duration::seconds(2);
  Duration leave_timeout = Duration::seconds(1);
};

class Rebalance {
 public:
  using Queue = std::pair<std::string, int32_t>;             // broker, queue id
  struct Terms { std::string expression; GroupModel model = GroupModel::Clustering; StartFrom from = StartFrom::First; Wall from_time = {}; };
  struct Share {
    uint64_t generation = 0;
    std::vector<Queue> queues;                               // by broker name, then id
    bool is_alone = false;                                   // nobody else has had them lately, as far as we know
    std::string conflict;
  };

  Rebalance(uint8_t owner, std::string client_id, std::string version, Routes& routes, Caller& caller, RebalanceLimits limits = {})
      : owner_(owner), client_id_(std::move(client_id)), version_(std::move(version)), routes_(routes), caller_(caller), limits_(limits) {}

  // This client consumes `topic` in `group`. False: it does already, or consumes other topics of the group by another model.
  bool join(Ctx& ctx, std::string_view group, std::string_view topic, Terms terms);
  void leave(Ctx& ctx, std::string_view group, std::string_view topic);
  // Our share of the readable queues of the route; nothing as long as no broker has said who is there.
  std::optional<Share> share(std::string_view group, std::string_view topic, const TopicRoute& route) const;

  void on_route(Ctx& ctx, std::string_view topic);
  void on_reply(Ctx& ctx, uint64_t token, Result<Reply> reply);
  void on_timer(Ctx& ctx, TimerId timer);
  // Groups of which something may be shared otherwise now, and groups that no broker will ever let us join, since the last call.
  std::vector<std::string> take_changes() { return std::exchange(changes_, {}); }
  std::vector<std::pair<std::string, Refusal>> take_refusals() { return std::exchange(refusals_, {}); }

 private:
  struct Broker {
    uint64_t serial = 0;
    Address address;
    bool is_asked = false, is_alive = false;
    uint64_t call = 0;                                       // serial of the heartbeat that counts
    Monotonic asked_at;
    uint32_t failures = 0;
    reply::Members members;                                  // its last word
  };
  struct Group {
    std::map<std::string, Terms, std::less<>> topics;
    std::map<std::string, Broker> brokers;                   // by name
  };
  struct Place { std::string group, broker; };

  uint64_t timer(const Broker& broker) const { return owned_id(owner_, broker.serial); }
  void reconcile(Ctx& ctx, const std::string& name, Group& group);
  void ask(Ctx& ctx, const std::string& name, Group& group, Broker& broker);
  void ask_all(Ctx& ctx, const std::string& name, Group& group);
  void on_failure(Ctx& ctx, const std::string& name, Group& group, Broker& broker, const Result<Reply>& reply);
  void forget(Ctx& ctx, const Broker& broker);
  const Broker* first_alive(const Group& group, const TopicRoute& route) const;

  uint8_t owner_;
  std::string client_id_, version_;
  Routes& routes_;
  Caller& caller_;
  RebalanceLimits limits_;
  uint64_t next_serial_ = 1;
  std::map<std::string, Group, std::less<>> groups_;
  std::map<uint64_t, Place> places_;                         // by serial of the broker
  std::map<uint64_t, uint64_t> calls_;                       // serial of a heartbeat under way: serial of its broker
  std::vector<std::string> changes_;
  std::vector<std::pair<std::string, Refusal>> refusals_;
};

}  // namespace fulmar
