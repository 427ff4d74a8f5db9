// fulmar topic: make, list, look at, change and delete topics of a running cluster.

#include <fmt/format.h>

#include <iostream>

#include "cmd/fulmar/brokers.h"
#include "cmd/fulmar/client_host.h"
#include "cmd/fulmar/probe.h"
#include "cmd/fulmar/program.h"

namespace fulmar::cmd {

namespace {

struct TopicOptions {
  std::string name_servers, topic;
  int32_t queues = 8, read_queues = 0, write_queues = 0;
  uint32_t perm = 6;
  bool is_json = false, is_dry_run = false, is_yes = false;
  int32_t reads() const { return read_queues > 0 ? read_queues : queues; }
  int32_t writes() const { return write_queues > 0 ? write_queues : queues; }
};

std::string perm_text(uint32_t perm) { return fmt::format("{}{}{}", (perm & kPermRead) != 0 ? "R" : "-", (perm & kPermWrite) != 0 ? "W" : "-", (perm & 1) != 0 ? "X" : "-"); }

int create_topic(const TopicOptions& o) {
  if (o.is_dry_run) {
    say("would make topic {} with {} read and {} write queues, perm {}, on every broker, or change it to that\n", o.topic, o.reads(), o.writes(), o.perm);
    return kDone;
  }
  ClientHost client(o.name_servers);
  if (std::string why; !client.is_reachable(why)) return complain(kNotConnected, why);
  const Reply reply = client.call([&o] { return Command(command::CreateTopic{o.topic, o.reads(), o.writes(), o.perm}); });
  client.stop();
  if (const auto* refusal = std::get_if<Refusal>(&reply)) return complain(kFailed, *refusal);
  if (o.is_json) say("{{\"topic\":{},\"readQueueNums\":{},\"writeQueueNums\":{},\"perm\":{}}}\n", json_text(o.topic), o.reads(), o.writes(), o.perm);
  else if (o.reads() == o.writes()) say("topic {} with {} queues, perm {}\n", o.topic, o.reads(), o.perm);
  else say("topic {} with {} read queues, {} write queues, perm {}\n", o.topic, o.reads(), o.writes(), o.perm);
  return kDone;
}

int delete_topic(const TopicOptions& o) {
  ClientHost client(o.name_servers);
  if (std::string why; !client.is_reachable(why)) return complain(kNotConnected, why);
  if (o.is_dry_run) {
    reply::Route route;
    if (const int status = find_route(client, o.topic, route); status != kDone) return status;
    for (const reply::RouteQueues& queues : route.queues) say("would delete topic {} on {} and make its messages there unreadable\n", o.topic, queues.broker);
    return kDone;
  }
  if (!is_confirmed(o.is_yes, fmt::format("Delete topic {} and make its messages unreadable?", o.topic))) return complain(kFailed, "not deleted");
  const Reply reply = client.call([&o] { return Command(command::DeleteTopic{o.topic}); });
  client.stop();
  if (const auto* refusal = std::get_if<Refusal>(&reply)) return complain(kFailed, *refusal);
  if (o.is_json) say("{{\"topic\":{},\"deleted\":true}}\n", json_text(o.topic));
  else say("topic {} deleted\n", o.topic);
  return kDone;
}

int list_topics(const TopicOptions& o) {
  ClientHost client(o.name_servers);
  if (std::string why; !client.is_reachable(why)) return complain(kNotConnected, why);
  std::string after, out;
  size_t count = 0;
  while (true) {
    const Reply reply = client.call([after] { return Command(command::ListTopics{after, 1000}); });
    if (const auto* refusal = std::get_if<Refusal>(&reply)) return complain(kFailed, *refusal);
    const auto* page = std::get_if<reply::Topics>(&reply);
    if (page == nullptr) return complain(kFailed, "unexpected answer: " + describe(reply));
    for (const TopicConfig& t : page->topics) {
      if (count++ == 0 && !o.is_json) say("{:<40} {:>6} {:>6} {:>4}\n", "TOPIC", "READ", "WRITE", "PERM");
      if (o.is_json) say("{{\"topic\":{},\"readQueueNums\":{},\"writeQueueNums\":{},\"perm\":{}}}\n", json_text(t.name), t.read_queues, t.write_queues, t.perm);
      else say("{:<40} {:>6} {:>6} {:>4}\n", t.name, t.read_queues, t.write_queues, t.perm);
    }
    if (!page->has_more || page->topics.empty()) break;
    after = page->topics.back().name;
  }
  // A broker has topics of its own: a name server without any knows no broker.
  std::vector<BrokerPlace> brokers;
  return count > 0 ? int{kDone} : find_brokers(client, o.name_servers, brokers);
}

int show_route(const TopicOptions& o) {
  ClientHost client(o.name_servers);
  if (std::string why; !client.is_reachable(why)) return complain(kNotConnected, why);
  reply::Route route;
  if (const int status = find_route(client, o.topic, route); status != kDone) return status;
  if (!o.is_json) say("{:<24} {:<24} {:>6} {:>6} {:>6}  {}\n", "CLUSTER", "BROKER", "READ", "WRITE", "PERM", "ADDRESSES");
  for (const reply::RouteQueues& queues : route.queues) {
    std::string cluster, addresses;
    for (const reply::RouteBroker& broker : route.brokers) {
      if (broker.name != queues.broker) continue;
      cluster = broker.cluster;
      for (const auto& [id, address] : broker.addresses)
        addresses += o.is_json ? fmt::format("{}{{\"brokerId\":{},\"address\":{}}}", addresses.empty() ? "" : ",", id, json_text(address)) : fmt::format("{}{}={}", addresses.empty() ? "" : " ", id, address);
    }
    if (o.is_json)
      say("{{\"cluster\":{},\"broker\":{},\"readQueueNums\":{},\"writeQueueNums\":{},\"perm\":{},\"addresses\":[{}]}}\n", json_text(cluster), json_text(queues.broker), queues.read_queues, queues.write_queues, queues.perm, addresses);
    else say("{:<24} {:<24} {:>6} {:>6} {:>6}  {}\n", cluster, queues.broker, queues.read_queues, queues.write_queues, perm_text(queues.perm), addresses);
  }
  return kDone;
}

// Asks each broker of the topic; `visit` gets the broker's name and its answer, and says whether it was the right one.
template <class Visit>
int for_each_broker(const TopicOptions& o, Visit visit) {
  ClientHost client(o.name_servers);
  if (std::string why; !client.is_reachable(why)) return complain(kNotConnected, why);
  reply::Route route;
  if (const int status = find_route(client, o.topic, route); status != kDone) return status;
  client.stop();
  int status = kDone;
  for (const reply::RouteQueues& queues : route.queues) {
    const std::optional<BrokerPlace> master = master_of(route, queues.broker);
    if (!master) status = complain(kFailed, fmt::format("broker {} has no master", queues.broker));
    else if (const int one = visit(queues, *master); one != kDone) status = one;
  }
  return status;
}

// Of each broker in turn: its configuration of the topic and where its queues begin and end.
int describe_topic(const TopicOptions& o) {
  bool is_first = true;
  return for_each_broker(o, [&](const reply::RouteQueues&, const BrokerPlace& broker) {
    const Result<Reply> reply = ask_server(broker.address, command::DescribeTopic{o.topic});
    if (!reply) return complain(kNotConnected, fmt::format("{}: {}", broker.name, reply.error().detail));
    if (const auto* refusal = std::get_if<Refusal>(&*reply)) return complain(kFailed, *refusal);
    const auto* t = std::get_if<reply::Topic>(&*reply);
    if (t == nullptr) return complain(kFailed, "unexpected answer: " + describe(*reply));
    if (o.is_json) {
      std::string queues;
      for (const reply::TopicQueue& q : t->queues) queues += fmt::format("{}{{\"queueId\":{},\"minOffset\":{},\"maxOffset\":{}}}", queues.empty() ? "" : ",", q.queue_id, q.min, q.max);
      say("{{\"topic\":{},\"broker\":{},\"readQueueNums\":{},\"writeQueueNums\":{},\"perm\":{},\"queues\":[{}]}}\n", json_text(t->config.name), json_text(broker.name), t->config.read_queues, t->config.write_queues, t->config.perm, queues);
      return int{kDone};
    }
    if (!std::exchange(is_first, false)) say("\n");
    say("topic {} on {}: {} read queues, {} write queues, perm {}\n{:>6} {:>16} {:>16} {:>16}\n", t->config.name, broker.name, t->config.read_queues, t->config.write_queues, t->config.perm, "QUEUE", "MIN", "MAX", "MESSAGES");
    for (const reply::TopicQueue& q : t->queues)
      say("{:>6} {:>16} {:>16} {:>16}{}\n", q.queue_id, q.min, q.max, (q.max - q.min).value(), q.queue_id >= t->config.read_queues ? "  write only" : q.queue_id >= t->config.write_queues ? "  read only" : "");
    return int{kDone};
  });
}

// Each broker keeps the numbers of queues that it has.
int set_perm(const TopicOptions& o) {
  return for_each_broker(o, [&](const reply::RouteQueues& queues, const BrokerPlace& broker) {
    if (o.is_dry_run) {
      say("would change perm of {} on {} from {} to {}\n", o.topic, broker.name, queues.perm, o.perm);
      return int{kDone};
    }
    const Result<Reply> reply = ask_server(broker.address, command::CreateTopic{o.topic, queues.read_queues, queues.write_queues, o.perm}, 10'000);
    if (!reply) return complain(kNotConnected, fmt::format("{}: {}", broker.name, reply.error().detail));
    if (const auto* refusal = std::get_if<Refusal>(&*reply)) return complain(kFailed, *refusal);
    if (o.is_json) say("{{\"topic\":{},\"broker\":{},\"perm\":{}}}\n", json_text(o.topic), json_text(broker.name), o.perm);
    else say("{} on {}: perm {}\n", o.topic, broker.name, o.perm);
    return int{kDone};
  });
}

CLI::App* add_verb(CLI::App* noun, const char* name, const char* text, const std::shared_ptr<TopicOptions>& options, int (*body)(const TopicOptions&), Run& run, bool has_topic = true) {
  CLI::App* verb = noun->add_subcommand(name, text);
  if (has_topic) verb->add_option("topic", options->topic, "topic")->required();
  verb->add_flag("--json", options->is_json, "one JSON object a line");
  add_name_servers_option(verb, options->name_servers);
  verb->callback([options, body, &run] { run = [options, body] { return body(*options); }; });
  return verb;
}

}  // namespace

void add_topic(CLI::App& app, Run& run) {
  CLI::App* noun = app.add_subcommand("topic", "make, list, look at, change and delete topics");
  noun->require_subcommand(1);
  auto options = std::make_shared<TopicOptions>();
  const CLI::Range queue_range(1, 1024);
  CLI::App* create = add_verb(noun, "create", "make a topic on every broker, or change its queues and permissions", options, create_topic, run);
  create->add_option("-q,--queues", options->queues, "read and write queues on each broker")->check(queue_range)->capture_default_str();
  create->add_option("-r,--read-queues", options->read_queues, "read queues, where they differ; queues that hold messages stay readable")->check(queue_range);
  create->add_option("-w,--write-queues", options->write_queues, "write queues, where they differ: make these fewer first")->check(queue_range);
  create->add_option("--perm", options->perm, "2 write, 4 read, 6 both")->check(CLI::IsMember({2, 4, 6}))->capture_default_str();
  create->add_flag("--dry-run", options->is_dry_run, "say what would happen");
  add_verb(noun, "list", "all topics", options, list_topics, run, false);
  add_verb(noun, "describe", "configuration, queues and offsets of a topic on each broker", options, describe_topic, run)->alias("status");
  add_verb(noun, "route", "which brokers have a topic, and where they live", options, show_route, run);
  CLI::App* perm = add_verb(noun, "perm", "change the permissions of a topic on every broker that has it", options, set_perm, run);
  perm->add_option("perm", options->perm, "2 write, 4 read, 6 both")->required()->check(CLI::IsMember({2, 4, 6}));
  perm->add_flag("--dry-run", options->is_dry_run, "say what would happen");
  CLI::App* remove = add_verb(noun, "delete", "delete a topic on every broker", options, delete_topic, run);
  remove->add_flag("--dry-run", options->is_dry_run, "say what would happen");
  remove->add_flag("--yes", options->is_yes, "do not ask");
}

}  // namespace fulmar::cmd
