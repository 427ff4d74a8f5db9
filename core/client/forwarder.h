#pragma once
// The host's plain questions, each sent once to whoever can answer: no resend, one deadline, one answer.
//
//   PullMessages, CommitOffset, QueryOffset, QueryQueue, QueryMessages,
//   SearchOffset, ResetOffset                                            the broker named, else the first (by name) of the topic's route
//   DescribeTopic                                                        the first broker of the topic's route
//   ViewMessage, GetStatus, ListGroups, DescribeGroup, GetConfig,
//   UpdateConfig                                                         the broker named, else the first one known
//   CreateTopic, DeleteTopic, CreateGroup, DeleteGroup                   every master known: route of the topic, and brokers known
//   QueryRoute, ListTopics, QueryCluster                                 the name servers in turn, until one answers
//   WipeWritePerm, AddWritePerm                                          every name server
//
// "Brokers known" are those in the routes of TBW102 (brokers that create topics by themselves), of our own system topic and of the
// default cluster's name.
// A request that a route does not cover waits for one newer answer of the name servers, then it is refused.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/client/caller.h"
#include "core/client/owned_command.h"
#include "core/client/routes.h"

namespace fulmar {

// RocketMQ's default cluster name; a broker registers its cluster's name as a topic (clusterTopicEnable).
inline constexpr std::string_view kDefaultClusterTopic = "DefaultCluster";

struct ForwarderLimits {
  size_t requests_max = 4096;                            // then SYSTEM_BUSY
  size_t brokers_max = 1024;                             // of one CreateTopic or DeleteTopic
  Duration timeout = Duration::seconds(3);               // PullMessages: and suspend_ms
  Duration patience = Duration::seconds(30);             // beyond it, for answers that carry records over a slow connection
  Duration name_server_timeout = Duration::seconds(1);   // each
};

class Forwarder {
 public:
  Forwarder(uint8_t owner, Routes& routes, Caller& caller, ForwarderLimits limits = {});

  static bool takes(const Command& command);
  static bool carries_records(const Command& command);   // its answer does
  // Tells `call` exactly once: the answer as it came, or a Refusal. Of what goes to all: what they said when every one did it (or had nothing
  // to delete), else the first refusal with those that failed and those that did it in `measured`. A lost answer to something that changes
  // the broker: kOutcomeUnknown.
  void forward(Ctx& ctx, CallId call, const Command& command);
  void on_route(Ctx& ctx, std::string_view topic);
  void on_reply(Ctx& ctx, uint64_t token, Result<Reply> reply);
  void on_timer(Ctx& ctx, TimerId timer);
  // Held pulls are refused now, everything else ends by `deadline`.
  void stop(Ctx& ctx, Monotonic deadline);
  size_t in_flight() const { return requests_.size(); }

 private:
  enum class To : uint8_t { OneBroker, AllBrokers, NameServers, AllNameServers };
  struct Target { std::string name; Address address; };
  struct Request {
    uint64_t serial = 0;
    CallId call;
    OwnedCommand command;
    To to = To::OneBroker;
    std::string topic, broker;           // may be empty
    std::vector<std::string> lookups;    // topics whose routes may name the broker, in order of preference
    std::string waits_for;               // topic, until targets are known
    Monotonic began, deadline;
    std::vector<Target> targets;
    size_t next_target = 0;              // NameServers
    size_t outstanding = 0;
    bool is_outcome_unknown = false;
    std::optional<Reply> answer;         // the last good one
    std::optional<Refusal> refusal;      // the first
    std::string failures, done;          // of what goes to all: who did not and who did it, for people
    std::optional<Refusal> missing;      // of a broker that had nothing to delete
  };
  uint64_t token(const Request& request, size_t target) const { return owned_id(owner_, request.serial << 12 | target); }
  static constexpr size_t kTargetsMax = 4096;

  void advance(Ctx& ctx, Request& request);
  bool find_one(Ctx& ctx, Request& request);             // false: it waits, or has been answered
  bool find_all(Ctx& ctx, Request& request);
  void wait_for(Ctx& ctx, Request& request, const std::string& topic);
  void refuse_without_broker(Ctx& ctx, Request& request, bool is_topic_missing);
  void call_targets(Ctx& ctx, Request& request);
  void call_name_server(Ctx& ctx, Request& request);
  void note_failure(Request& request, size_t target, std::string_view what);
  void finish_all(Ctx& ctx, Request& request);
  void finish_without_answer(Ctx& ctx, Request& request, std::string_view what);
  void finish(Ctx& ctx, Request& request, Reply reply);

  uint8_t owner_;
  Routes& routes_;
  Caller& caller_;
  ForwarderLimits limits_;
  uint64_t next_serial_ = 1;
  std::map<uint64_t, Request> requests_;                 // by serial
  std::set<std::pair<std::string, uint64_t>> waiting_;   // (topic, serial)
};

}  // namespace fulmar
