#include "core/node/make.h"

#include "core/model/config.h"
#include "core/node/name_server.h"

namespace fulmar {

Result<std::unique_ptr<Node>> make_node(NodeKind kind, std::string_view config, Seed seed, Files& files, Trace& trace) {
  switch (kind) {
    case NodeKind::NameServer: {
      FULMAR_TRY(NameServerConfig parsed, parse_name_server_config(config, nullptr));
      return std::unique_ptr<Node>(std::make_unique<NameServer>(std::move(parsed), seed, files, trace));
    }
    case NodeKind::Broker: return Errc::Unsupported;
    case NodeKind::Client: return Errc::Unsupported;
  }
  return Errc::Unsupported;
}

}  // namespace fulmar
