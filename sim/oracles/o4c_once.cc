#include "sim/oracles/o4c_once.h"

#include <fmt/format.h>

namespace fulmar::sim {

void CalmExactlyOnce::delivered(const std::string& group, const QueueKey& queue, const std::vector<int64_t>& offsets) {
  if (!is_calm_ || moved_.contains(group)) return;
  std::set<int64_t>& before = delivered_[{group, queue}];
  for (const int64_t offset : offsets) {
    if (before.insert(offset).second) continue;
    return verdicts_.violated("O4c", fmt::format("group {} gets {} offset {} again although nothing disturbs this run", group, queue.text(), offset));
  }
}

void CalmExactlyOnce::found(MessageId id, uint64_t places) {
  if (is_calm_ && places > 1) verdicts_.violated("O4c", fmt::format("message {} is stored at {} places although nothing disturbs this run", to_text(id), places));
}

}  // namespace fulmar::sim
