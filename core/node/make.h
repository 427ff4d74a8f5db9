#pragma once
// The only way to a Node.

#include <memory>
#include <string_view>

#include "core/base/result.h"
#include "core/io/node.h"

namespace fulmar {

enum class NodeKind : uint8_t { Broker, NameServer, Client };
inline constexpr uint32_t kIoVersion = 1;  // of core/io: recorded inputs of another version are refused

// `config` is the serialised form of model/config.h for that kind. `files` and `trace` outlive the node. The host holds the lock on the
// store directory before it makes a broker. InvalidArgument: the first line of the configuration that is wrong.
Result<std::unique_ptr<Node>> make_node(NodeKind kind, std::string_view config, Seed seed, Files& files, Trace& trace);

}  // namespace fulmar
