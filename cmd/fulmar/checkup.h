#pragma once
// What `fulmar doctor` looks at. Each finding that is not good names its cause and what to do about it.

#include <string>
#include <vector>

#include "core/model/config.h"

namespace fulmar::cmd {

struct Finding {
  enum class Level : uint8_t { Good, Notice, Bad } level = Level::Good;
  std::string check;      // "port", "disk", …
  std::string sentence;   // what was found
  std::string fix;        // what to do; empty when good
};
using Findings = std::vector<Finding>;

void check_process_limits(Findings& out);                                // descriptors, memory, mappings, threads
void check_store(const BrokerConfig& config, Findings& out);             // directory, file system, space, format, marker
void check_clock(const BrokerConfig& config, Findings& out);
// The port is free, or this very broker answers at it; `owner`: who holds the store, empty when nobody does.
void check_broker(const BrokerConfig& config, const std::string& owner, Findings& out);
void check_name_servers(const BrokerConfig& config, bool is_live, Findings& out);

}  // namespace fulmar::cmd
