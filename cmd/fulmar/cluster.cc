// fulmar cluster list, status: who is there, and what each says about itself.

#include <fmt/format.h>

#include "cmd/fulmar/brokers.h"
#include "cmd/fulmar/client_host.h"
#include "cmd/fulmar/probe.h"
#include "cmd/fulmar/program.h"
#include "core/client/routes.h"

namespace fulmar::cmd {

namespace {

struct ClusterOptions {
  std::string name_servers, broker;
  bool is_json = false;
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
    const std::string state = said != nullptr ? value("brokerState") : "no answer";
    if (o.is_json)
      say("{{\"cluster\":{},\"broker\":{},\"brokerId\":{},\"address\":{},\"state\":{},\"topics\":{},\"messagesTaken\":{},\"messagesGiven\":{},\"disk\":{}}}\n", json_text(broker.cluster), json_text(broker.name), broker.id,
          json_text(broker.address.text()), json_text(state), json_text(value("topics")), json_text(value("msgPutTotalTodayNow")), json_text(value("msgGetTotalTodayNow")), json_text(value("commitLogDisk")));
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

int show_status(const ClusterOptions& o) {
  Address address;
  if (const int status = find_server(o, address); status != kDone) return status;
  const Result<Reply> reply = ask_server(address, command::GetStatus{});
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

}  // namespace

void add_cluster(CLI::App& app, Run& run) {
  CLI::App* noun = app.add_subcommand("cluster", "the brokers that the name servers know");
  noun->require_subcommand(1);
  auto options = std::make_shared<ClusterOptions>();
  CLI::App* list = noun->add_subcommand("list", "every broker: where it lives, its state, what it took and gave, its disk; exit 1 when one does not answer");
  list->add_flag("--json", options->is_json, "one JSON object a line");
  add_name_servers_option(list, options->name_servers);
  list->callback([options, &run] { run = [options] { return list_cluster(*options); }; });
}

void add_status(CLI::App& app, Run& run) {
  CLI::App* verb = app.add_subcommand("status", "what a server says about itself");
  auto options = std::make_shared<ClusterOptions>();
  verb->add_option("server", options->broker, "a broker by its name, or any server as HOST:PORT; default: the first broker known");
  verb->add_flag("--json", options->is_json, "one JSON object");
  add_name_servers_option(verb, options->name_servers);
  verb->callback([options, &run] { run = [options] { return show_status(*options); }; });
}

}  // namespace fulmar::cmd
