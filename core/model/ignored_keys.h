#pragma once
// Keys that RocketMQ's broker.conf and namesrv.conf know and that have no effect here, each with its reason: a file written for
// RocketMQ is accepted as it is, and says once at start what it asked for in vain. A key whose other values would promise something
// that we do not do (a replica, an access check) is accepted with its harmless value only.
// Source of the names: store.md 20 and the sections before it, semantics.md 22, performance.md.

#include <span>
#include <string_view>

namespace fulmar {

struct IgnoredKeys {
  std::string_view names;     // separated by blanks
  std::string_view accepted;  // values that change nothing, separated by blanks; empty: any value
  std::string_view reason;    // what we do instead; with `accepted`, also what is missing
};

std::span<const IgnoredKeys> ignored_broker_keys();
std::span<const IgnoredKeys> ignored_name_server_keys();

}  // namespace fulmar
