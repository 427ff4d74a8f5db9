#pragma once
// What the parts of a world share: schedule, hash, counters, observers and the list of failures. No globals: two engines in one process
// know nothing of each other.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/fault.h"
#include "sim/observer.h"
#include "sim/profile.h"
#include "sim/schedule.h"

namespace fulmar::sim {

struct Failure { std::string oracle; std::string sentence; SimTime at; uint64_t event = 0; };

struct Engine {
  Engine(World& owner, Seed run_seed, const Profile& run_profile) : world(owner), seed(run_seed), profile(run_profile), schedule(run_seed), hash(mix64(run_seed.value)) {}

  World& world;
  Seed seed;
  Profile profile;
  Schedule schedule;
  uint64_t hash;
  FaultCounts faults;
  std::vector<WorldObserver*> observers;
  std::vector<Failure> failures;

  SimTime now() const { return schedule.now(); }
  void mix(uint64_t value) { hash = mix64(hash, value); }
  void mix(std::string_view text) { hash = mix64(hash, hash_text(text)); }
  void mix_bytes(Bytes bytes);     // length and CRC-32
  void fail(std::string_view oracle, std::string sentence);
  template <class Call> void tell_observers(Call call) {
    for (WorldObserver* observer : observers) call(*observer);
  }
};

}  // namespace fulmar::sim
