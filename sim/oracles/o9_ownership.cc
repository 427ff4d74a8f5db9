#include "sim/oracles/o9_ownership.h"

#include <fmt/format.h>

namespace fulmar::sim {

void Ownership::assigned(const std::string& group, uint64_t member, const std::vector<Queue>& queues) {
  owned_[group][member] = std::set<Queue>(queues.begin(), queues.end());
}

void Ownership::gone(const std::string& group, uint64_t member) { owned_[group].erase(member); }

std::string Ownership::complaint(const std::string& group, const std::vector<Queue>& queues) const {
  const auto found = owned_.find(group);
  std::string all;
  if (found != owned_.end()) {
    for (const auto& [member, mine] : found->second) all += fmt::format(" {}:{}", member, mine.size());
  }
  for (const Queue& queue : queues) {
    std::vector<uint64_t> owners;
    if (found != owned_.end()) {
      for (const auto& [member, mine] : found->second)
        if (mine.contains(queue)) owners.push_back(member);
    }
    if (owners.size() == 1) continue;
    if (owners.empty()) return fmt::format("queue {} of {} belongs to no member of group {} (members and how many they own:{})", queue.second, queue.first, group, all);
    return fmt::format("queue {} of {} belongs to members {} and {} of group {} (members and how many they own:{})", queue.second, queue.first, owners[0], owners[1], group, all);
  }
  return {};
}

void Ownership::demand(const std::string& group, const std::vector<Queue>& queues, std::string_view when) {
  if (const std::string what = complaint(group, queues); !what.empty()) verdicts_.violated("O9", fmt::format("{}: {}", when, what));
}

size_t Ownership::owned(const std::string& group, uint64_t member) const {
  const auto found = owned_.find(group);
  if (found == owned_.end()) return 0;
  const auto mine = found->second.find(member);
  return mine == found->second.end() ? 0 : mine->second.size();
}

}  // namespace fulmar::sim
