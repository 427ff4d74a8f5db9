#include "sim/oracles/o18_resources.h"

#include <fmt/format.h>

#include <algorithm>

namespace fulmar::sim {

void Resources::mapped(const std::string& node, uint64_t file, std::string_view path) {
  Node& n = nodes_[node];
  if (n.files.contains(file)) return;
  for (const auto& [other, name] : n.files) {
    if (name == path) verdicts_.violated("O18", fmt::format("{} maps {} twice", node, path));
  }
  n.files[file] = path;
}

void Resources::unmapped(const std::string& node, uint64_t file) { nodes_[node].files.erase(file); }

void Resources::quiet(const std::string& node, size_t tickets_out) {
  Node& n = nodes_[node];
  n.tickets_min = std::min(n.tickets_min, tickets_out);
}

void Resources::end_quiet(const std::string& node) {
  Node& n = nodes_[node];
  if (n.tickets_min != SIZE_MAX && n.tickets_min > 0) {
    verdicts_.violated("O18", fmt::format("{} never has fewer than {} tickets out although nobody asks it for anything", node, n.tickets_min));
  }
  for (const auto& [file, path] : n.files) {
    if (path.find("/consumequeue/") == std::string::npos) continue;
    verdicts_.violated("O18", fmt::format("{} keeps {} mapped although its queue is idle", node, path));
    break;
  }
  n.tickets_min = SIZE_MAX;
}

size_t Resources::mapped_count(const std::string& node) const {
  const auto it = nodes_.find(node);
  return it == nodes_.end() ? 0 : it->second.files.size();
}

}  // namespace fulmar::sim
