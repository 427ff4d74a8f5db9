#pragma once
// Keyed draws: every random decision is a pure function of (seed, domain, entity, counter). A link's nth latency does not depend on what
// other links did, so removing one fault or one client leaves the rest of a run as it was; that is what shrinking stands on.

#include <cstdint>
#include <string_view>

#include "core/base/prng.h"

namespace fulmar::sim {

// What a draw is for. The values are part of every recorded hash: append only.
enum class Domain : uint32_t {
  TieBreak = 1,
  NodeSeed,
  Clock,
  Batch,
  Cost,
  DiskLatency,
  DiskFault,
  WriteBack,
  CrashImage,
  CrashWords,
  ListOrder,
  LinkLatency,
  Chunking,
  LinkFault,
  Dial,
  Journal,
  Restart,
  Scenario = 1000,  // and above: for scenario makers and workloads
};

// Draws of workloads (0 to 29) and of oracles that sample (30 and above): part by part, append only.
constexpr Domain load_domain(uint32_t part) { return static_cast<Domain>(static_cast<uint32_t>(Domain::Scenario) + 20 + part); }

constexpr uint64_t draw(Seed seed, Domain domain, uint64_t entity, uint64_t counter) {
  return mix64(mix64(mix64(seed.value, static_cast<uint64_t>(domain)), entity), counter);
}

// The stream of all draws of one entity in one domain: a Prng of its own.
class KeyedStream : public Prng {
 public:
  KeyedStream(Seed seed, Domain domain, uint64_t entity) : Prng(Seed{mix64(mix64(seed.value, static_cast<uint64_t>(domain)), entity)}) {}
  KeyedStream(Seed seed, Domain domain, std::string_view entity) : KeyedStream(seed, domain, hash_text(entity)) {}
};

}  // namespace fulmar::sim
