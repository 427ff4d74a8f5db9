#pragma once
// The name server's view of brokers: who lives, where, and with which topics. A pure machine: it is told the time and asks for nothing.
// A broker is a name and an id; id 0 is the master. It lives as long as it says so: expiry is measured on the monotonic clock, so that a
// wall clock that jumps neither buries nor revives anybody. All answers are in the order of names, then ids.
//
//   unknown --registers with topics--> alive --heartbeat of the same version--> alive --silence of `expiry`, or unregisters--> unknown
//
// One name and id is one broker. A second one that claims them from another address is refused while the first is alive: heard within
// `expiry`, and its connection still there. One address is one id of a name: what had it before goes.
//
// Full is a refusal: SYSTEM_BUSY.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/time.h"
#include "core/io/ids.h"
#include "core/model/command.h"

namespace fulmar {

struct RegistryLimits {
  size_t brokers_max = 256;              // names and ids together: a route to all of them still fits a header
  size_t topics_max = 200'000;           // entries in the tables of all brokers together
  size_t name_bytes_max = 255;           // cluster, broker name, host
  Duration expiry = Duration::seconds(10);
};

class Registry {
 public:
  struct Gone { std::string broker_name; BrokerId broker_id; std::string address; };
  // What a registration came to, beside its answer: news for the log.
  enum class News : uint8_t { None, NewBroker, NewTable, Refused };
  struct Outcome { Reply reply; News news = News::None; };

  explicit Registry(RegistryLimits limits = {}) : limits_(limits) {}

  // `peer_host`: where the registration came from, used when the broker names no host. Answers Registered, with needs_topics when this
  // was a heartbeat for a table or an address that we do not know; else a refusal: INVALID_PARAMETER, NO_PERMISSION, SYSTEM_BUSY.
  // `from`: the connection that it came on. A refusal is news once, however often the same broker tries again.
  Outcome register_broker(const command::RegisterBroker& c, std::string_view peer_host, Monotonic now, ConnId from = {});
  // False when nobody of that name and id was there, or was heard of on a younger connection: the goodbye of a broker's former life may
  // come when the present one is known already.
  bool unregister_broker(const command::UnregisterBroker& c, ConnId from = {});
  // Who was last heard on it may have moved: its name is free for another address.
  void on_connection_closed(ConnId conn);
  // Takes out everybody whose last word is at least `expiry` old, and names them.
  std::vector<Gone> expire(Monotonic now);
  // When expire() will next find somebody; never() when there is nobody.
  Monotonic next_expiry() const;

  // Route, or a refusal TOPIC_NOT_EXIST. The queues of a broker name are those of its lowest id that has the topic.
  Reply route(std::string_view topic) const;
  // Everybody, by name, then id.
  reply::Cluster cluster(Monotonic now) const;
  // Takes the write permission out of the routes of a broker name, or puts it back. It stays out whatever the broker registers, also when
  // the broker goes and comes back, until it is put back or this name server ends. Nothing when nobody of that name is known.
  std::optional<reply::TopicsChanged> set_writable(std::string_view broker_name, bool is_writable);
  // In name order, from the first name above `after`; of each topic the configuration of the first broker that has it.
  reply::Topics topics(std::string_view after, int32_t count_max) const;

  size_t broker_count() const { return broker_count_; }
  size_t topic_count() const { return topics_.size(); }

 private:
  struct Instance {
    std::string address, version;         // "host:port"
    Monotonic last_word;
    ConnId from;                          // the youngest connection that it was heard on
    bool is_connected = true;             // `from` is open
    std::string contender;                // address of the broker that was last refused this name and id
    uint64_t topics_version = 0;
    std::vector<TopicConfig> topics;      // by name, each once
  };
  struct Broker { std::string cluster; std::map<BrokerId, Instance> instances; };

  Instance* find(std::string_view broker_name, BrokerId id);
  static void hear(Instance& instance, Monotonic now, ConnId from);
  static bool is_same_broker(const Instance& known, std::string_view address, ConnId from);
  bool is_alive(const Instance& instance, Monotonic now) const { return instance.is_connected && now < instance.last_word + limits_.expiry; }
  Outcome refuse_contender(Instance& known, const command::RegisterBroker& c, std::string address) const;
  void drop_former_ids(Broker& broker, BrokerId but, std::string_view address);
  void set_topics(Instance& instance, std::vector<TopicConfig> topics);
  void remove(std::map<std::string, Broker, std::less<>>::iterator broker, std::map<BrokerId, Instance>::iterator instance);

  RegistryLimits limits_;
  std::map<std::string, Broker, std::less<>> brokers_;      // by broker name; none without instances
  std::set<std::string, std::less<>> wiped_;                // broker names without write permission; at most brokers_max
  std::map<std::string, uint32_t, std::less<>> topics_;     // how many tables have it; none with 0
  size_t broker_count_ = 0, entry_count_ = 0;
};

}  // namespace fulmar
