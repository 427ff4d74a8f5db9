#pragma once
// Which brokers hold which queues of a topic, as the name servers say. A round asks the name servers in turn, beginning with the one
// that answered last; the end of a round is told through take_settled().
//
//   (no entry) --find--> Asking --route--> Known --every route_refresh_ms, refresh()--> Known (asking again beside it)
//                          |--all say no--> Missing --find after a second--> Asking
//                          |--nobody answers--> Asking, again after a back-off as long as somebody calls find
//
// A Known route stays when the name servers do not answer or only some of them have never heard of the topic: a name server that was
// just started knows nothing yet.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/client/caller.h"
#include "core/model/config.h"

namespace fulmar {

// RocketMQ's key for "any topic that does not exist yet": brokers that create topics by themselves register it (semantics.md 1.3).
inline constexpr std::string_view kAutoCreateTopic = "TBW102";

// "host:port", "[v6]:port". BadAddress with the text. Names are resolved at every dial.
Result<Address> parse_address(std::string_view text);

struct TopicRoute {
  struct Broker {
    std::string name;
    Address master;                             // brokers without a reachable master are left out
    int32_t read_queues = 0, write_queues = 0;  // 0 without the permission; at most kQueuesMax
    friend bool operator==(const Broker&, const Broker&) = default;
  };
  static constexpr int32_t kQueuesMax = 4096;  // of a topic on one broker; a bound on what a stranger may make us keep
  std::vector<Broker> brokers;                 // by name

  explicit TopicRoute(const reply::Route& route);
  TopicRoute() = default;
  const Broker* find(std::string_view broker) const;
  friend bool operator==(const TopicRoute&, const TopicRoute&) = default;
};

class Routes {
 public:
  enum class Knowledge : uint8_t { Asking, Known, Missing, Full };
  struct Found {
    Knowledge knowledge = Knowledge::Asking;
    const TopicRoute* route = nullptr;  // when Known; good until the next call
    Monotonic asked_at;                 // begin of the last finished round, whether or not a name server answered
    Monotonic learned_at;               // begin of the round that brought this route: it is newer than what came before
  };
  static constexpr size_t kTopicsMax = 8192;  // then the longest unused makes room
  static constexpr Duration kMissingKept = Duration::seconds(1);
  static constexpr Duration kRefreshGap = Duration::milliseconds(200);  // between two rounds of a topic, however often it is asked for
  static constexpr Duration kQueryTimeout = Duration::seconds(1);       // one name server
  static constexpr int64_t kRefreshesUnused = 10;                       // then a topic is forgotten

  Routes(uint8_t owner, const ClientConfig& config, Caller& caller);

  // Asks when it has to. Full: kTopicsMax topics are all being asked for.
  Found find(Ctx& ctx, std::string_view topic);
  // Ask soon: a broker of the route failed or has never heard of the topic.
  void refresh(Ctx& ctx, std::string_view topic);
  // A number that grows by one with each call for a topic; the first is drawn, so that producers do not all begin with one queue.
  uint64_t take_turn(Ctx& ctx, std::string_view topic);
  // What came of the last round that ended without a route, for people: "10.0.0.1:9876 TimedOut, 10.0.0.2:9876 TOPIC_NOT_EXIST".
  std::string last_failure(std::string_view topic) const;
  // In the order in which they should be asked now.
  std::vector<Address> name_servers() const;
  void prefer(const Address& name_server);  // it has answered

  void on_reply(Ctx& ctx, uint64_t token, Result<Reply> reply);
  void on_timer(Ctx& ctx, TimerId timer);
  // Topics whose round has ended since the last call, in that order.
  std::vector<std::string> take_settled();
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    uint64_t serial = 0;
    Knowledge knowledge = Knowledge::Asking;
    TopicRoute route;
    bool is_asking = false;
    size_t tried = 0;             // name servers of this round
    size_t first_server = 0;      // where this round began
    bool has_missing = false;     // one of them says that the topic does not exist
    bool has_silent = false;      // one of them did not say anything of use
    std::string failure, last_failure;
    uint32_t failures = 0;        // rounds in a row
    Monotonic round_began, asked_at, learned_at, used_at;
    Monotonic not_before;         // next round, after a failed one
    std::optional<uint64_t> turn;
  };
  Entry* entry_for(Ctx& ctx, std::string_view topic);
  void ask_at(Ctx& ctx, const std::string& topic, Entry& entry, Monotonic at);
  void begin_round(Ctx& ctx, const std::string& topic, Entry& entry);
  void ask_next(Ctx& ctx, const std::string& topic, Entry& entry);
  void note_failure(Entry& entry, std::string_view what);
  void end_round(Ctx& ctx, const std::string& topic, Entry& entry);
  void settle(Ctx& ctx, const std::string& topic, Entry& entry);
  bool make_room(Ctx& ctx);

  uint8_t owner_;
  Duration refresh_;
  Caller& caller_;
  std::vector<Address> servers_;
  size_t preferred_ = 0;
  uint64_t next_serial_ = 1;
  std::map<std::string, Entry, std::less<>> entries_;
  std::map<uint64_t, std::string> topics_;  // by serial
  std::vector<std::string> settled_;
};

}  // namespace fulmar
