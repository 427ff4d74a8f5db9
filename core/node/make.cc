#include "core/node/make.h"

#include "core/model/config.h"
#include "core/node/broker.h"
#include "core/node/client.h"
#include "core/node/name_server.h"

namespace fulmar {

Result<std::unique_ptr<Node>> make_node(NodeKind kind, std::string_view config, Seed seed, Files& files, Trace& trace) {
  switch (kind) {
    case NodeKind::NameServer: {
      FULMAR_TRY(NameServerConfig parsed, parse_name_server_config(config, nullptr));
      return std::unique_ptr<Node>(std::make_unique<NameServer>(std::move(parsed), seed, files, trace));
    }
    case NodeKind::Broker: {
      FULMAR_TRY(BrokerConfig parsed, parse_broker_config(config, nullptr));
      return std::unique_ptr<Node>(std::make_unique<Broker>(std::move(parsed), seed, files, trace));
    }
    case NodeKind::Client: {
      FULMAR_TRY(ClientConfig parsed, parse_client_config(config, nullptr));
      return std::unique_ptr<Node>(std::make_unique<Client>(std::move(parsed), seed, files, trace));
    }
  }
  return Errc::Unsupported;
}

}  // namespace fulmar
