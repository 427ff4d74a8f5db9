#include "cmd/fulmar/brokers.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "cmd/fulmar/program.h"
#include "core/client/routes.h"
#include "core/model/message.h"

namespace fulmar::cmd {

namespace {

// Every broker announces our own system topic, also one that has no other.
Reply ask_by_route(ClientHost& client, std::vector<BrokerPlace>& out) {
  Reply reply = client.call([] { return Command(command::QueryRoute{kMetaTopic}); });
  if (const auto* route = std::get_if<reply::Route>(&reply))
    for (const reply::RouteBroker& broker : route->brokers)
      for (const auto& [id, text] : broker.addresses)
        if (const Result<Address> address = parse_address(text)) out.push_back({broker.cluster, broker.name, id, *address, "", true});
  return reply;
}

}  // namespace

int find_brokers(ClientHost& client, const std::string& name_servers, std::vector<BrokerPlace>& out) {
  Reply reply = client.call([] { return Command(command::QueryCluster{}); });
  if (const auto* cluster = std::get_if<reply::Cluster>(&reply)) {
    for (const reply::ClusterBroker& broker : cluster->brokers)
      if (const Result<Address> address = parse_address(broker.address)) out.push_back({broker.cluster, broker.name, broker.broker_id, *address, broker.version, broker.is_writable});
  } else if (const auto* refusal = std::get_if<Refusal>(&reply); refusal != nullptr && refusal->code == Code::RequestCodeNotSupported) {
    reply = ask_by_route(client, out);   // an older name server
  }
  if (const auto* refusal = std::get_if<Refusal>(&reply); refusal != nullptr && refusal->code != Code::TopicNotExist) return complain(kFailed, *refusal);
  if (out.empty()) return complain(kNotConnected, fmt::format("no broker is registered with the name servers {}; start one with `fulmar broker -n {}`", name_servers, name_servers));
  std::sort(out.begin(), out.end(), [](const BrokerPlace& a, const BrokerPlace& b) { return std::tie(a.cluster, a.name, a.id) < std::tie(b.cluster, b.name, b.id); });
  return kDone;
}

int find_route(ClientHost& client, const std::string& topic, reply::Route& out) {
  Reply reply = client.call([&topic] { return Command(command::QueryRoute{topic}); });
  if (const auto* refusal = std::get_if<Refusal>(&reply)) return complain(kFailed, *refusal);
  if (!std::holds_alternative<reply::Route>(reply)) return complain(kFailed, "unexpected answer: " + describe(reply));
  out = std::get<reply::Route>(std::move(reply));
  return kDone;
}

std::optional<BrokerPlace> master_of(const reply::Route& route, const std::string& broker) {
  for (const reply::RouteBroker& one : route.brokers) {
    if (one.name != broker) continue;
    for (const auto& [id, text] : one.addresses)
      if (const Result<Address> address = parse_address(text); address && id == BrokerId(0)) return BrokerPlace{one.cluster, one.name, id, *address, "", true};
  }
  return {};
}

}  // namespace fulmar::cmd
