// fulmar group: who consumes in a group, where it stands, and where it shall begin.

#include <fmt/format.h>

#include <charconv>
#include <iostream>
#include <map>

#include "cmd/fulmar/client_host.h"
#include "cmd/fulmar/program.h"

namespace fulmar::cmd {

namespace {

struct GroupOptions {
  std::string name_servers, group, topic, to = "last";
  int32_t queue = -1, retry_max = 16, retry_queues = 1;
  bool is_consume_disabled = false, is_broadcast_disabled = false;
  bool is_json = false, is_dry_run = false, is_yes = false;
};

// A connected client, and the brokers that the name servers know, by name.
struct Cluster {
  explicit Cluster(const std::string& name_servers) : client(name_servers) {}
  // An exit status.
  int connect() {
    if (std::string why; !client.is_reachable(why)) return complain(kNotConnected, why);
    const Reply reply = client.call([] { return Command(command::QueryCluster{}); });
    if (const auto* refusal = std::get_if<Refusal>(&reply)) return complain(kFailed, *refusal);
    const auto* cluster = std::get_if<reply::Cluster>(&reply);
    if (cluster == nullptr) return complain(kFailed, "unexpected answer: " + describe(reply));
    for (const reply::ClusterBroker& b : cluster->brokers)
      if (b.broker_id == BrokerId(0)) brokers.push_back(b.name);
    return brokers.empty() ? complain(kFailed, "no broker is registered") : int{kDone};
  }
  // Of every broker; `take` gets what it answered. A refusal with `passed_over` is no failure. False: a broker failed, which was said.
  template <class Expected, class Make, class Take>
  bool each(Make make, Take take, std::optional<Code> passed_over = {}) {
    bool is_fine = true;
    for (const std::string& broker : brokers) {
      const Reply reply = client.call([make, broker] { return make(broker); });
      if (const auto* expected = std::get_if<Expected>(&reply)) {
        take(broker, *expected);
        continue;
      }
      const auto* refusal = std::get_if<Refusal>(&reply);
      if (refusal != nullptr && passed_over && refusal->code == *passed_over) continue;
      is_fine = false;
      if (refusal != nullptr) complain(kFailed, Refusal{refusal->code, fmt::format("{}: {}", broker, refusal->cause), refusal->measured, refusal->retry_after_ms});
      else complain(kFailed, fmt::format("{}: unexpected answer: {}", broker, describe(reply)));
    }
    return is_fine;
  }
  ClientHost client;
  std::vector<std::string> brokers;
};

bool is_agreed(const GroupOptions& o, std::string_view question) {
  if (o.is_yes) return true;
  fmt::print(stderr, "{} [y/N] ", question);
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "yes";
}

int list_groups(const GroupOptions& o) {
  Cluster cluster(o.name_servers);
  if (const int status = cluster.connect(); status != kDone) return status;
  std::map<std::string, reply::GroupSummary> groups;
  bool is_fine = true;
  for (const std::string& broker : cluster.brokers) {
    std::string after;
    while (true) {
      const Reply reply = cluster.client.call([&after, &broker] { return Command(command::ListGroups{after, 1000, broker}); });
      const auto* page = std::get_if<reply::Groups>(&reply);
      if (page == nullptr) {
        is_fine = false;
        complain(kFailed, fmt::format("{}: {}", broker, describe(reply)));
        break;
      }
      for (const reply::GroupSummary& group : page->groups) {
        reply::GroupSummary& known = groups.try_emplace(group.name, group).first->second;
        if (group.members > known.members) known = group;
        known.is_configured = known.is_configured || group.is_configured;
      }
      if (!page->has_more || page->groups.empty()) break;
      after = page->groups.back().name;
    }
  }
  if (!o.is_json) say("{:<40} {:>8} {:<13} {}\n", "GROUP", "MEMBERS", "MODEL", "CONFIGURED");
  for (const auto& [name, group] : groups) {
    const std::string_view model = group.members > 0 ? to_string(group.model) : "-";
    if (o.is_json) say("{{\"group\":{},\"members\":{},\"messageModel\":{},\"configured\":{}}}\n", json_text(name), group.members, json_text(model), group.is_configured);
    else say("{:<40} {:>8} {:<13} {}\n", name, group.members, model, group.is_configured ? "yes" : "no");
  }
  cluster.client.stop();
  return is_fine ? kDone : kFailed;
}

// --- describe ---------------------------------------------------------------------------------------------------------------------------

struct Description {
  GroupConfig config;
  bool is_configured = false, is_found = false;
  std::string conflict;
  std::map<std::string, reply::GroupMember> members;
  std::vector<std::pair<std::string, reply::GroupQueue>> queues;   // by broker, as they come
};

int64_t lag_of(const reply::GroupQueue& q) { return q.max.value() - std::max(q.committed.value(), q.min.value()); }

void print_json(const std::string& group, const Description& d) {
  std::string out = fmt::format("{{\"group\":{},\"configured\":{},\"consumeEnable\":{},\"retryMaxTimes\":{},\"retryQueueNums\":{},\"conflict\":{},\"members\":[", json_text(group), d.is_configured,
                                d.config.is_consume_enabled, d.config.retry_max, d.config.retry_queues, json_text(d.conflict));
  for (const auto& [id, m] : d.members) {
    out += fmt::format("{}{{\"clientId\":{},\"address\":{},\"version\":{},\"messageModel\":{},\"consumeFromWhere\":{},\"subscriptions\":[", out.ends_with('[') ? "" : ",", json_text(id),
                       json_text(m.address), json_text(m.version), json_text(to_string(m.model)), json_text(to_string(m.from)));
    for (const Subscription& s : m.subscriptions) out += fmt::format("{}{{\"topic\":{},\"expression\":{}}}", out.ends_with('[') ? "" : ",", json_text(s.topic), json_text(s.expression));
    out += "]}";
  }
  out += "],\"queues\":[";
  for (const auto& [broker, q] : d.queues)
    out += fmt::format("{}{{\"topic\":{},\"brokerName\":{},\"queueId\":{},\"committedOffset\":{},\"minOffset\":{},\"maxOffset\":{},\"lag\":{}}}", out.ends_with('[') ? "" : ",", json_text(q.topic),
                       json_text(broker), q.queue_id, q.committed, q.min, q.max, lag_of(q));
  say("{}]}}\n", out);
}

void print_text(const std::string& group, const Description& d) {
  say("group {}  {}  consume {}  retries {}\n", group, d.is_configured ? "configured" : "not configured", d.config.is_consume_enabled ? "enabled" : "disabled", d.config.retry_max);
  if (!d.conflict.empty()) say("conflict: {}\n", d.conflict);
  say("\n{:<32} {:<24} {:<10} {:<13} {}\n", "MEMBER", "ADDRESS", "VERSION", "MODEL", "SUBSCRIPTIONS");
  for (const auto& [id, m] : d.members) {
    std::string what;
    for (const Subscription& s : m.subscriptions) what += fmt::format("{}{} by '{}'", what.empty() ? "" : ", ", s.topic, s.expression);
    say("{:<32} {:<24} {:<10} {:<13} {}\n", id, m.address, m.version, to_string(m.model), what);
  }
  say("\n{:<32} {:<16} {:>5} {:>14} {:>14} {:>14} {:>10}\n", "TOPIC", "BROKER", "QUEUE", "COMMITTED", "MIN", "MAX", "LAG");
  for (const auto& [broker, q] : d.queues)
    say("{:<32} {:<16} {:>5} {:>14} {:>14} {:>14} {:>10}\n", q.topic, broker, q.queue_id, q.committed.value() < 0 ? "-" : fmt::format("{}", q.committed), q.min, q.max, lag_of(q));
}

int describe_group(const GroupOptions& o) {
  Cluster cluster(o.name_servers);
  if (const int status = cluster.connect(); status != kDone) return status;
  Description all;
  const bool is_fine = cluster.each<reply::Group>([&o](const std::string& broker) { return Command(command::DescribeGroup{o.group, broker}); },
                                                  [&all](const std::string& broker, const reply::Group& g) {
                                                    all.is_found = true;
                                                    if (g.is_configured || !all.is_configured) all.config = g.config;
                                                    all.is_configured = all.is_configured || g.is_configured;
                                                    if (all.conflict.empty()) all.conflict = g.conflict;
                                                    for (const reply::GroupMember& m : g.members) all.members.emplace(m.client_id, m);
                                                    for (const reply::GroupQueue& q : g.queues) all.queues.emplace_back(broker, q);
                                                  },
                                                  Code::SubscriptionGroupNotExist);
  cluster.client.stop();
  if (!all.is_found) return is_fine ? complain(kFailed, fmt::format("there is no group '{}'", o.group)) : int{kFailed};
  if (o.is_json) print_json(o.group, all);
  else print_text(o.group, all);
  return is_fine ? kDone : kFailed;
}

// --- create, delete, reset --------------------------------------------------------------------------------------------------------------

// Of a command that goes to every broker by itself.
int change(const GroupOptions& o, net::CommandMaker make, std::string_view done) {
  ClientHost client(o.name_servers);
  if (std::string why; !client.is_reachable(why)) return complain(kNotConnected, why);
  const Reply reply = client.call(std::move(make));
  client.stop();
  if (const auto* refusal = std::get_if<Refusal>(&reply)) return complain(kFailed, *refusal);
  if (!std::holds_alternative<reply::Ok>(reply)) return complain(kFailed, "unexpected answer: " + describe(reply));
  if (o.is_json) say("{{\"group\":{},\"done\":{}}}\n", json_text(o.group), json_text(done));
  else say("group {} {}\n", o.group, done);
  return kDone;
}

int create_group(const GroupOptions& o) {
  GroupConfig config;
  config.name = o.group;
  config.is_consume_enabled = !o.is_consume_disabled;
  config.is_broadcast_enabled = !o.is_broadcast_disabled;
  config.retry_max = o.retry_max;
  config.retry_queues = o.retry_queues;
  return change(o, [config] { return Command(command::CreateGroup{config}); }, "created");
}

int delete_group(const GroupOptions& o) {
  if (o.is_dry_run) {
    say("would delete group {} and all its committed offsets\n", o.group);
    return kDone;
  }
  if (!is_agreed(o, fmt::format("Delete group {} and all its committed offsets?", o.group))) return complain(kFailed, "not deleted");
  return change(o, [&o] { return Command(command::DeleteGroup{o.group}); }, "deleted");
}

// first, last, a number of milliseconds since 1970 behind '@', or an offset.
bool parse_place(const std::string& text, command::ResetOffset& c) {
  using To = command::ResetOffset::To;
  if (text == "first") return c.to = To::First, true;
  if (text == "last") return c.to = To::Last, true;
  const bool is_stamp = text.starts_with('@');
  int64_t number = 0;
  const char* begin = text.data() + (is_stamp ? 1 : 0);
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return false;
  c.to = is_stamp ? To::Timestamp : To::Offset;
  if (is_stamp) c.stamp = Wall{number};
  else c.offset = QueueOffset(number);
  return true;
}

int reset_group(const GroupOptions& o) {
  command::ResetOffset c{.group = o.group, .topic = o.topic, .queue_id = o.queue, .is_dry_run = true};
  (void)parse_place(o.to, c);   // it was checked
  Cluster cluster(o.name_servers);
  if (const int status = cluster.connect(); status != kDone) return status;
  const auto make = [&c](const std::string& broker) {
    command::ResetOffset one = c;
    one.broker = broker;
    return Command(one);
  };
  std::vector<std::pair<std::string, reply::OffsetReset>> queues;
  const auto take = [&queues](const std::string& broker, const reply::OffsetsReset& reset) {
    for (const reply::OffsetReset& q : reset.queues) queues.emplace_back(broker, q);
  };
  // Brokers without the topic have nothing to reset. First what would be, so that nothing is done by halves because of a wrong offset.
  bool is_fine = cluster.each<reply::OffsetsReset>(make, take, Code::TopicNotExist);
  if (is_fine && queues.empty()) return complain(kFailed, fmt::format("there is no topic '{}'", o.topic));
  if (is_fine && !o.is_dry_run) {
    if (!is_agreed(o, fmt::format("Move group {} in {} queues of topic {} to {}?", o.group, queues.size(), o.topic, o.to))) return complain(kFailed, "not moved");
    c.is_dry_run = false;
    queues.clear();
    is_fine = cluster.each<reply::OffsetsReset>(make, take, Code::TopicNotExist);
  }
  cluster.client.stop();
  if (!o.is_json) say("{:<16} {:>5} {:>14} {:>14}{}\n", "BROKER", "QUEUE", "WAS", "IS", o.is_dry_run ? "  (dry run)" : "");
  for (const auto& [broker, q] : queues) {
    if (o.is_json) say("{{\"brokerName\":{},\"queueId\":{},\"was\":{},\"is\":{},\"dryRun\":{}}}\n", json_text(broker), q.queue_id, q.was, q.is, o.is_dry_run);
    else say("{:<16} {:>5} {:>14} {:>14}\n", broker, q.queue_id, q.was.value() < 0 ? "-" : fmt::format("{}", q.was), q.is);
  }
  return is_fine ? kDone : kFailed;
}

CLI::App* add_verb(CLI::App* noun, const char* name, const char* text, const std::shared_ptr<GroupOptions>& options, int (*body)(const GroupOptions&), Run& run) {
  CLI::App* verb = noun->add_subcommand(name, text);
  verb->add_flag("--json", options->is_json, "JSON");
  add_name_servers_option(verb, options->name_servers);
  verb->callback([options, body, &run] { run = [options, body] { return body(*options); }; });
  return verb;
}

}  // namespace

void add_group(CLI::App& app, Run& run) {
  CLI::App* noun = app.add_subcommand("group", "list, describe, create, delete consumer groups, and move them");
  noun->require_subcommand(1);
  auto options = std::make_shared<GroupOptions>();
  const auto with_group = [&options](CLI::App* verb) {
    verb->add_option("group", options->group, "group")->required();
    return verb;
  };
  const auto with_question = [&options](CLI::App* verb) {
    verb->add_flag("--dry-run", options->is_dry_run, "say what would happen");
    verb->add_flag("--yes", options->is_yes, "do not ask");
  };
  add_verb(noun, "list", "groups that were made, have committed something, or have members", options, list_groups, run);
  with_group(add_verb(noun, "describe", "members, subscriptions, and where the group stands", options, describe_group, run));
  CLI::App* create = with_group(add_verb(noun, "create", "create a group, or change its configuration", options, create_group, run));
  create->add_option("--retry-max", options->retry_max, "how often a message is tried again; -1: for ever")->check(CLI::Range(-1, 1'000'000));
  create->add_option("--retry-queues", options->retry_queues, "queues of its retry topic")->check(CLI::Range(0, 1024));
  create->add_flag("--no-consume", options->is_consume_disabled, "its members get nothing");
  create->add_flag("--no-broadcast", options->is_broadcast_disabled, "members that broadcast are refused");
  with_question(with_group(add_verb(noun, "delete", "delete a group without members, and its offsets", options, delete_group, run)));
  CLI::App* reset = with_group(add_verb(noun, "reset", "move a group, online or not; one that nobody has used yet will begin there", options, reset_group, run));
  reset->add_option("topic", options->topic, "topic")->required();
  reset->add_option("--to", options->to, "first, last, @MILLISECONDS since 1970, or an offset")->required()->check([](const std::string& text) -> std::string {
    command::ResetOffset ignored;
    return parse_place(text, ignored) ? "" : "wants first, last, @MILLISECONDS or an offset";
  });
  reset->add_option("--queue", options->queue, "only this queue")->check(CLI::NonNegativeNumber);
  with_question(reset);
}

}  // namespace fulmar::cmd
