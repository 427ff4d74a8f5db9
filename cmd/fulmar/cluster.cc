// fulmar cluster list, status, broker status / config / wipe-write / add-write: who is there, what each says, what may change while it runs.

#include <fmt/format.h>

#include "cmd/fulmar/brokers.h"
#include "cmd/fulmar/client_host.h"
#include "cmd/fulmar/probe.h"
#include "cmd/fulmar/program.h"
#include "core/client/routes.h"

namespace fulmar::cmd {

namespace {

struct ClusterOptions {
  std::string name_servers, broker, key, value;
  bool is_json = false, is_yes = false, is_dry_run = false;
};

int list_cluster(const ClusterOptions& o) {
  ClientHost client(o.name_servers);
  if (std::string why; !client.is_reachable(why)) return complain(kNotConnected, why);
  std::vector<BrokerPlace> brokers;
  if (const int status = find_brokers(client, o.name_servers, brokers); status != kDone) return status;
  client.stop();
  int status = kDone;
  if (!o.is_json) say("{:<20} {:<20} {:>4} {:<22} {:<11} {:>7} {:>14} {:>14}  {}\n", "CLUSTER", "BROKER", "ID", "ADDRESS", "STATE", "TOPICS", "TAKEN", "GIVEN", "DISK");
  for (const BrokerPlace& broker : brokers) {
    const Result<Reply> reply = ask_server(broker.address, command::GetStatus{});
    const auto* said = reply ? std::get_if<reply::Status>(&*reply) : nullptr;
    const reply::Status none;
    const reply::Status& values = said != nullptr ? *said : none;
    const auto value = [&values](std::string_view name) { return std::string(status_value(values, name)); };
    const std::string state = said == nullptr ? "no answer" : broker.is_writable ? value("brokerState") : "no writes";
    if (o.is_json)
      say("{{\"cluster\":{},\"broker\":{},\"brokerId\":{},\"address\":{},\"state\":{},\"version\":{},\"writable\":{},\"topics\":{},\"messagesTaken\":{},\"messagesGiven\":{},\"disk\":{}}}\n", json_text(broker.cluster), json_text(broker.name), broker.id,
          json_text(broker.address.text()), json_text(state), json_text(broker.version), broker.is_writable, json_text(value("topics")), json_text(value("msgPutTotalTodayNow")), json_text(value("msgGetTotalTodayNow")), json_text(value("commitLogDisk")));
    else
      say("{:<20} {:<20} {:>4} {:<22} {:<11} {:>7} {:>14} {:>14}  {}\n", broker.cluster, broker.name, broker.id, broker.address.text(), state, value("topics"), value("msgPutTotalTodayNow"), value("msgGetTotalTodayNow"),
          value("commitLogDisk").substr(0, value("commitLogDisk").find(';')));
    if (said == nullptr) status = complain(kFailed, fmt::format("{} is registered and does not answer: {}", broker.name, reply ? describe(*reply) : reply.error().detail));
  }
  return status;
}

// The broker or name server that was named, by its name or its address; without a name the first broker known.
int find_server(const ClusterOptions& o, Address& out) {
  if (const Result<Address> given = parse_address(o.broker); !o.broker.empty() && o.broker.find(':') != std::string::npos && given) {
    out = *given;
    return kDone;
  }
  ClientHost client(o.name_servers);
  if (std::string why; !client.is_reachable(why)) return complain(kNotConnected, why);
  std::vector<BrokerPlace> brokers;
  if (const int status = find_brokers(client, o.name_servers, brokers); status != kDone) return status;
  std::string names;
  for (const BrokerPlace& broker : brokers) {
    if (o.broker.empty() || broker.name == o.broker) {
      out = broker.address;
      return kDone;
    }
    names += (names.empty() ? "" : ", ") + broker.name;
  }
  return complain(kFailed, fmt::format("there is no broker '{}'; there are: {}", o.broker, names));
}

int show_values(const ClusterOptions& o, const Result<Reply>& reply) {
  if (!reply) return complain(kNotConnected, reply.error().detail);
  if (const auto* refusal = std::get_if<Refusal>(&*reply)) return complain(kFailed, *refusal);
  const auto* status = std::get_if<reply::Status>(&*reply);
  if (status == nullptr) return complain(kFailed, "unexpected answer: " + describe(*reply));
  std::string out = o.is_json ? "{" : "";
  for (size_t i = 0; i < status->values.size(); ++i) {
    const auto& [name, value] = status->values[i];
    out += o.is_json ? fmt::format("{}{}:{}", i == 0 ? "" : ",", json_text(name), json_text(value)) : fmt::format("{:<32} {}\n", name, value);
  }
  say("{}{}", out, o.is_json ? "}\n" : "");
  return kDone;
}

int show_status(const ClusterOptions& o) {
  Address address;
  if (const int status = find_server(o, address); status != kDone) return status;
  return show_values(o, ask_server(address, command::GetStatus{}));
}

int show_config(const ClusterOptions& o) {
  Address address;
  if (const int status = find_server(o, address); status != kDone) return status;
  return show_values(o, ask_server(address, command::GetConfig{}));
}

int set_config(const ClusterOptions& o) {
  Address address;
  if (const int status = find_server(o, address); status != kDone) return status;
  if (o.is_dry_run) {
    say("would set {}={} at {} until it stops\n", o.key, o.value, address.text());
    return kDone;
  }
  const Result<Reply> reply = ask_server(address, command::UpdateConfig{o.key, o.value});
  if (!reply) return complain(kNotConnected, reply.error().detail);
  if (const auto* refusal = std::get_if<Refusal>(&*reply)) return complain(kFailed, *refusal);
  say("{}={} at {} until it stops; its configuration file is yours to change\n", o.key, o.value, address.text());
  return kDone;
}

// Every name server is told.
int change_writes(const ClusterOptions& o, bool is_writable) {
  if (o.is_dry_run) {
    say("would {} broker {}\n", is_writable ? "let producers come again to" : "send producers elsewhere than to", o.broker);
    return kDone;
  }
  if (!is_writable && !is_confirmed(o.is_yes, fmt::format("Send producers elsewhere than to broker {}?", o.broker))) return complain(kFailed, "not changed");
  ClientHost client(o.name_servers);
  if (std::string why; !client.is_reachable(why)) return complain(kNotConnected, why);
  const Reply reply = client.call([&o, is_writable] { return is_writable ? Command(command::AddWritePerm{o.broker}) : Command(command::WipeWritePerm{o.broker}); });
  client.stop();
  if (const auto* refusal = std::get_if<Refusal>(&reply)) return complain(kFailed, *refusal);
  const auto* changed = std::get_if<reply::TopicsChanged>(&reply);
  if (changed == nullptr) return complain(kFailed, "unexpected answer: " + describe(reply));
  if (o.is_json) say("{{\"broker\":{},\"writable\":{},\"topics\":{}}}\n", json_text(o.broker), is_writable, changed->count);
  else say("broker {}: producers {} ({} topics)\n", o.broker, is_writable ? "come again" : "are sent elsewhere", changed->count);
  return kDone;
}

int wipe_write(const ClusterOptions& o) { return change_writes(o, false); }
int add_write(const ClusterOptions& o) { return change_writes(o, true); }

CLI::App* add_verb(CLI::App* noun, const char* name, const char* text, const std::shared_ptr<ClusterOptions>& options, int (*body)(const ClusterOptions&), Run& run) {
  CLI::App* verb = noun->add_subcommand(name, text);
  verb->add_flag("--json", options->is_json, "JSON");
  add_name_servers_option(verb, options->name_servers);
  verb->callback([options, verb, body, &run] { if (verb->get_subcommands().empty()) run = [options, body] { return body(*options); }; });
  return verb;
}

}  // namespace

void add_cluster(CLI::App& app, Run& run) {
  CLI::App* noun = app.add_subcommand("cluster", "the brokers that the name servers know");
  noun->require_subcommand(1);
  auto options = std::make_shared<ClusterOptions>();
  add_verb(noun, "list", "every broker: where it lives, its state, what it took and gave, its disk; exit 1 when one does not answer", options, list_cluster, run);
}

namespace {
constexpr const char* kServerText = "a broker by its name, or any server as HOST:PORT; default: the first broker known";
}  // namespace

void add_status(CLI::App& app, Run& run) {
  auto options = std::make_shared<ClusterOptions>();
  add_verb(&app, "status", "what a server says about itself", options, show_status, run)->add_option("server", options->broker, kServerText);
}

void add_broker_verbs(CLI::App* broker, Run& run) {
  auto options = std::make_shared<ClusterOptions>();
  add_verb(broker, "status", "what a running broker says about itself", options, show_status, run)->add_option("server", options->broker, kServerText);
  CLI::App* config = add_verb(broker, "config", "the configuration that a running broker has", options, show_config, run);
  config->add_option("--broker", options->broker, kServerText);
  CLI::App* set = add_verb(config, "set", "change a key of a running broker until it stops", options, set_config, run);
  set->add_option("key", options->key, "one that may change while it runs: what may, a refusal says")->required();
  set->add_option("value", options->value, "its new value")->required();
  set->add_option("--broker", options->broker, kServerText);
  set->add_flag("--dry-run", options->is_dry_run, "say what would happen");
  CLI::App* wipe = add_verb(broker, "wipe-write", "send producers elsewhere, until add-write or a restart of the name servers; consumers go on", options, wipe_write, run);
  wipe->add_option("name", options->broker, "brokerName")->required();
  wipe->add_flag("--dry-run", options->is_dry_run, "say what would happen");
  wipe->add_flag("--yes", options->is_yes, "do not ask");
  CLI::App* add = add_verb(broker, "add-write", "let producers come again", options, add_write, run);
  add->add_option("name", options->broker, "brokerName")->required();
  add->add_flag("--dry-run", options->is_dry_run, "say what would happen");
  add->add_flag("--yes", options->is_yes, "as of wipe-write; nothing is asked here");
}

}  // namespace fulmar::cmd
