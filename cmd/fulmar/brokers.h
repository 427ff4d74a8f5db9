#pragma once
// The brokers of a cluster as its name servers know them, for verbs that ask each of them.

#include <string>
#include <vector>

#include "cmd/fulmar/client_host.h"
#include "core/model/ids.h"

namespace fulmar::cmd {

struct BrokerPlace {
  std::string cluster, name;
  BrokerId id;
  Address address;
  std::string version;          // empty when the name server does not tell
  bool is_writable = true;      // false: producers are not sent there (wipe-write)
};

// Every broker that is registered, by cluster, name and id. kNotConnected when no name server answers or none knows a broker: told.
int find_brokers(ClientHost& client, const std::string& name_servers, std::vector<BrokerPlace>& out);
// Those of one topic, with their queues. A status other than kDone has been told.
int find_route(ClientHost& client, const std::string& topic, reply::Route& out);
// The master's place, or nothing when the route names none that parses.
std::optional<BrokerPlace> master_of(const reply::Route& route, const std::string& broker);

}  // namespace fulmar::cmd
