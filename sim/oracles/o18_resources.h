#pragma once
// O18  After quiescence a node holds what an idle node holds: there are moments without any ticket out, idle queues have no mapping, and no
// file stays mapped after it was removed.

#include <cstdint>
#include <map>
#include <string>

#include "sim/oracles/facts.h"

namespace fulmar::sim {

class Resources {
 public:
  explicit Resources(Verdicts& verdicts) : verdicts_(verdicts) {}
  void started(const std::string& node) { nodes_[node] = {}; }
  // The node uses a mapped file; said as often as it likes.
  void mapped(const std::string& node, uint64_t file, std::string_view path);
  void unmapped(const std::string& node, uint64_t file);
  // While all is quiet.
  void quiet(const std::string& node, size_t tickets_out);
  // Quiet was long enough.
  void end_quiet(const std::string& node);
  size_t mapped_count(const std::string& node) const;

 private:
  struct Node {
    std::map<uint64_t, std::string> files;
    size_t tickets_min = SIZE_MAX;
  };
  Verdicts& verdicts_;
  std::map<std::string, Node> nodes_;
};

}  // namespace fulmar::sim
