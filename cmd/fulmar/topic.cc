// fulmar topic, message, status: ask and administer a running cluster.

#include <fmt/format.h>

#include <cstdio>
#include <iostream>

#include "cmd/fulmar/client_host.h"
#include "cmd/fulmar/program.h"
#include "cmd/fulmar/records.h"

namespace fulmar::cmd {

namespace {

struct TopicOptions {
  std::string name_servers, topic, key;
  int32_t queues = 8, count = 32;
  uint32_t perm = 6;
  uint64_t at = 0;
  bool is_json = false, is_dry_run = false, is_yes = false;
};

// Runs one call and hands the reply of the expected kind to `show`.
template <class Expected, class Show>
int ask(const TopicOptions& options, net::CommandMaker make, Show show) {
  ClientHost client(options.name_servers);
  if (std::string why; !client.is_reachable(why)) return complain(kNotConnected, why);
  const Reply reply = client.call(std::move(make));
  client.stop();
  if (const auto* refusal = std::get_if<Refusal>(&reply)) return complain(kFailed, *refusal);
  const auto* expected = std::get_if<Expected>(&reply);
  if (expected == nullptr) return complain(kFailed, "unexpected answer: " + describe(reply));
  return show(*expected);
}

int create_topic(const TopicOptions& o) {
  return ask<reply::Ok>(o, [&o] { return Command(command::CreateTopic{o.topic, o.queues, o.queues, o.perm}); }, [&](const reply::Ok&) {
    if (o.is_json) say("{{\"topic\":{},\"readQueueNums\":{},\"writeQueueNums\":{},\"perm\":{}}}\n", json_text(o.topic), o.queues, o.queues, o.perm);
    else say("topic {} with {} queues, perm {}\n", o.topic, o.queues, o.perm);
    return int{kDone};
  });
}

int delete_topic(const TopicOptions& o) {
  if (o.is_dry_run) {
    say("would delete topic {} and make its messages unreadable\n", o.topic);
    return kDone;
  }
  if (!o.is_yes) {
    fmt::print(stderr, "Delete topic {} and make its messages unreadable? [y/N] ", o.topic);
    std::string answer;
    std::getline(std::cin, answer);
    if (answer != "y" && answer != "yes") return complain(kFailed, "not deleted");
  }
  return ask<reply::Ok>(o, [&o] { return Command(command::DeleteTopic{o.topic}); }, [&](const reply::Ok&) {
    say("topic {} deleted\n", o.topic);
    return int{kDone};
  });
}

void print_topic(const TopicConfig& t, bool is_json) {
  if (is_json) say("{{\"topic\":{},\"readQueueNums\":{},\"writeQueueNums\":{},\"perm\":{}}}\n", json_text(t.name), t.read_queues, t.write_queues, t.perm);
  else say("{:<40} {:>6} {:>6} {:>4}\n", t.name, t.read_queues, t.write_queues, t.perm);
}

int list_topics(const TopicOptions& o) {
  ClientHost client(o.name_servers);
  if (std::string why; !client.is_reachable(why)) return complain(kNotConnected, why);
  if (!o.is_json) say("{:<40} {:>6} {:>6} {:>4}\n", "TOPIC", "READ", "WRITE", "PERM");
  std::string after;
  while (true) {
    const Reply reply = client.call([after] { return Command(command::ListTopics{after, 1000}); });
    if (const auto* refusal = std::get_if<Refusal>(&reply)) return complain(kFailed, *refusal);
    const auto* page = std::get_if<reply::Topics>(&reply);
    if (page == nullptr) return complain(kFailed, "unexpected answer: " + describe(reply));
    for (const TopicConfig& topic : page->topics) print_topic(topic, o.is_json);
    if (!page->has_more || page->topics.empty()) break;
    after = page->topics.back().name;
  }
  client.stop();
  return kDone;
}

int describe_topic(const TopicOptions& o) {
  return ask<reply::Topic>(o, [&o] { return Command(command::DescribeTopic{o.topic}); }, [&](const reply::Topic& t) {
    if (o.is_json) {
      say("{{\"topic\":{},\"readQueueNums\":{},\"writeQueueNums\":{},\"perm\":{},\"queues\":[", json_text(t.config.name), t.config.read_queues, t.config.write_queues, t.config.perm);
      for (size_t i = 0; i < t.queues.size(); ++i)
        say("{}{{\"queueId\":{},\"minOffset\":{},\"maxOffset\":{}}}", i == 0 ? "" : ",", t.queues[i].queue_id, t.queues[i].min, t.queues[i].max);
      say("]}}\n");
    } else {
      say("topic {}  read queues {}  write queues {}  perm {}\n{:>6} {:>16} {:>16}\n", t.config.name, t.config.read_queues, t.config.write_queues, t.config.perm, "QUEUE", "MIN", "MAX");
      for (const reply::TopicQueue& q : t.queues) say("{:>6} {:>16} {:>16}\n", q.queue_id, q.min, q.max);
    }
    return int{kDone};
  });
}

int show_messages(const TopicOptions& o, const reply::Messages& found) {
  const bool is_whole = for_each_record(found.records, [&](const RecordView& r) {
    if (o.is_json)
      say("{{\"msgId\":\"{}\",\"topic\":{},\"queueId\":{},\"queueOffset\":{},\"storeTimestamp\":{},\"body\":{}}}\n", message_id(r.message.store_host, r.place.physical), json_text(r.message.topic),
                 r.message.queue_id, r.place.queue, r.place.stored.ms, json_text(as_text(r.message.body)));
    else
      say("{} {} queue {} offset {} {}\n", message_id(r.message.store_host, r.place.physical), r.message.topic, r.message.queue_id, r.place.queue, as_text(r.message.body));
  });
  return is_whole ? int{kDone} : complain(kFailed, "a record does not parse or has a wrong checksum");
}

int query_messages(const TopicOptions& o) {
  return ask<reply::Messages>(o, [&o] { return Command(command::QueryMessages{o.topic, o.key, o.count, Wall{0}, Wall{INT64_MAX}, {}}); },
                              [&](const reply::Messages& found) {
                                if (found.records.empty()) complain(kDone, fmt::format("nothing is found for key '{}' in topic {}", o.key, o.topic));
                                return show_messages(o, found);
                              });
}

int view_message(const TopicOptions& o) {
  return ask<reply::Messages>(o, [&o] { return Command(command::ViewMessage{PhysicalOffset(o.at), {}}); }, [&](const reply::Messages& found) { return show_messages(o, found); });
}

int show_status(const TopicOptions& o) {
  return ask<reply::Status>(o, [] { return Command(command::GetStatus{}); }, [&](const reply::Status& status) {
    std::string out = o.is_json ? "{" : "";
    for (size_t i = 0; i < status.values.size(); ++i) {
      const auto& [name, value] = status.values[i];
      out += o.is_json ? fmt::format("{}{}:{}", i == 0 ? "" : ",", json_text(name), json_text(value)) : fmt::format("{:<28} {}\n", name, value);
    }
    say("{}{}", out, o.is_json ? "}\n" : "");
    return int{kDone};
  });
}

CLI::App* add_verb(CLI::App* noun, const char* name, const char* text, const std::shared_ptr<TopicOptions>& options, int (*body)(const TopicOptions&), Run& run) {
  CLI::App* verb = noun->add_subcommand(name, text);
  verb->add_flag("--json", options->is_json, "JSON");
  add_name_servers_option(verb, options->name_servers);
  verb->callback([options, body, &run] { run = [options, body] { return body(*options); }; });
  return verb;
}

}  // namespace

void add_topic(CLI::App& app, Run& run) {
  CLI::App* noun = app.add_subcommand("topic", "create, list, describe, delete topics");
  noun->require_subcommand(1);
  auto options = std::make_shared<TopicOptions>();
  CLI::App* create = add_verb(noun, "create", "create a topic, or change its queues and permissions", options, create_topic, run);
  create->add_option("topic", options->topic, "topic")->required();
  create->add_option("-q,--queues", options->queues, "read and write queues")->check(CLI::Range(1, 1024));
  create->add_option("--perm", options->perm, "2 write, 4 read, 6 both")->check(CLI::IsMember({2, 4, 6}));
  add_verb(noun, "list", "all topics", options, list_topics, run);
  add_verb(noun, "describe", "queues and offsets of a topic", options, describe_topic, run)->add_option("topic", options->topic, "topic")->required();
  CLI::App* remove = add_verb(noun, "delete", "delete a topic", options, delete_topic, run);
  remove->add_option("topic", options->topic, "topic")->required();
  remove->add_flag("--dry-run", options->is_dry_run, "say what would happen");
  remove->add_flag("--yes", options->is_yes, "do not ask");
}

void add_message(CLI::App& app, Run& run) {
  CLI::App* noun = app.add_subcommand("message", "find stored messages");
  noun->require_subcommand(1);
  auto options = std::make_shared<TopicOptions>();
  CLI::App* query = add_verb(noun, "query", "messages of a topic by key or unique id", options, query_messages, run);
  query->add_option("topic", options->topic, "topic")->required();
  query->add_option("key", options->key, "key")->required();
  query->add_option("--count", options->count, "at most")->check(CLI::Range(1, 64));
  add_verb(noun, "view", "the message at a physical offset", options, view_message, run)->add_option("offset", options->at, "physical offset")->required();
}

void add_status(CLI::App& app, Run& run) {
  CLI::App* verb = app.add_subcommand("status", "what a broker says about itself");
  auto options = std::make_shared<TopicOptions>();
  verb->add_flag("--json", options->is_json, "JSON");
  add_name_servers_option(verb, options->name_servers);
  verb->callback([options, &run] { run = [options] { return show_status(*options); }; });
}

}  // namespace fulmar::cmd
