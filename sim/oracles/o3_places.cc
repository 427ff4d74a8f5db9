#include "sim/oracles/o3_places.h"

#include <fmt/format.h>

namespace fulmar::sim {

void Places::read(const Seen& seen, const SentMessage& m) {
  if (!m.is_one_way && m.sharding_key.empty()) return;
  const auto [it, is_new] = places_.emplace(m.id, Place{seen.queue, seen.queue_offset});
  if (is_new) return;
  const Place& first = it->second;
  if (m.is_one_way && (first.queue != seen.queue || first.offset != seen.queue_offset)) {
    verdicts_.violated("O3", fmt::format("message {} went one way, once, and stands at {} offset {} and at {} offset {}", to_text(m.id), first.queue.text(), first.offset,
                                         seen.queue.text(), seen.queue_offset));
  } else if (first.queue != seen.queue) {
    verdicts_.violated("O3", fmt::format("message {} has sharding key {} and stands in {} and in {}", to_text(m.id), m.sharding_key, first.queue.text(), seen.queue.text()));
  }
}

}  // namespace fulmar::sim
