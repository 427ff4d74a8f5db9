// fulmar message: find stored messages.

#include <fmt/format.h>

#include "cmd/fulmar/client_host.h"
#include "cmd/fulmar/program.h"
#include "cmd/fulmar/records.h"

namespace fulmar::cmd {

namespace {

struct MessageOptions {
  std::string name_servers, topic, key, broker;
  int32_t count = 32;
  uint64_t at = 0;
  bool is_json = false;
};

int show_messages(const MessageOptions& o, net::CommandMaker make) {
  ClientHost client(o.name_servers);
  if (std::string why; !client.is_reachable(why)) return complain(kNotConnected, why);
  const Reply reply = client.call(std::move(make));
  client.stop();
  if (const auto* refusal = std::get_if<Refusal>(&reply)) return complain(kFailed, *refusal);
  const auto* found = std::get_if<reply::Messages>(&reply);
  if (found == nullptr) return complain(kFailed, "unexpected answer: " + describe(reply));
  if (found->records.empty() && !o.key.empty()) complain(kDone, fmt::format("nothing is found for key '{}' in topic {}", o.key, o.topic));
  const bool is_whole = for_each_record(found->records, [&](const RecordView& r) {
    if (o.is_json)
      say("{{\"msgId\":\"{}\",\"topic\":{},\"queueId\":{},\"queueOffset\":{},\"storeTimestamp\":{},\"body\":{}}}\n", message_id(r.message.store_host, r.place.physical), json_text(r.message.topic),
                 r.message.queue_id, r.place.queue, r.place.stored.ms, json_text(as_text(r.message.body)));
    else
      say("{} {} queue {} offset {} {}\n", message_id(r.message.store_host, r.place.physical), r.message.topic, r.message.queue_id, r.place.queue, as_text(r.message.body));
  });
  return is_whole ? int{kDone} : complain(kFailed, "a record does not parse or has a wrong checksum");
}

int query_messages(const MessageOptions& o) {
  return show_messages(o, [&o] { return Command(command::QueryMessages{o.topic, o.key, o.count, Wall{0}, Wall{INT64_MAX}, o.broker}); });
}

int view_message(const MessageOptions& o) {
  return show_messages(o, [&o] { return Command(command::ViewMessage{PhysicalOffset(o.at), o.broker}); });
}

CLI::App* add_verb(CLI::App* noun, const char* name, const char* text, const std::shared_ptr<MessageOptions>& options, int (*body)(const MessageOptions&), Run& run) {
  CLI::App* verb = noun->add_subcommand(name, text);
  verb->add_option("--broker", options->broker, "name of the broker to ask; default: the first");
  verb->add_flag("--json", options->is_json, "one JSON object a line");
  add_name_servers_option(verb, options->name_servers);
  verb->callback([options, body, &run] { run = [options, body] { return body(*options); }; });
  return verb;
}

}  // namespace

void add_message(CLI::App& app, Run& run) {
  CLI::App* noun = app.add_subcommand("message", "find stored messages");
  noun->require_subcommand(1);
  auto options = std::make_shared<MessageOptions>();
  CLI::App* query = add_verb(noun, "query", "messages of a topic by key or unique id", options, query_messages, run);
  query->add_option("topic", options->topic, "topic")->required();
  query->add_option("key", options->key, "key: one of KEYS, or the unique id")->required();
  query->add_option("--count", options->count, "at most")->check(CLI::Range(1, 64))->capture_default_str();
  add_verb(noun, "view", "the message at a physical offset", options, view_message, run)->add_option("offset", options->at, "physical offset")->required();
}

}  // namespace fulmar::cmd
