#pragma once
// Deadlines ordered by (time, sequence): two timers due at one moment fire in the order in which they were set.

#include <cstdint>
#include <map>
#include <optional>

#include "core/base/id.h"
#include "core/base/time.h"

namespace fulmar {

using TimerId = Id<struct TimerIdTag>;  // chosen by whoever sets it: owner in the top byte

class Timers {
 public:
  // Arms `id`; a second set moves it. Monotonic::never() disarms.
  void set(TimerId id, Monotonic at);
  void cancel(TimerId id);
  // The earliest timer that is due, disarmed by this call.
  std::optional<TimerId> pop_due(Monotonic now);
  // never() when nothing is armed.
  Monotonic next() const;
  size_t size() const { return keys_.size(); }

 private:
  struct Key { Monotonic at; uint64_t sequence; friend auto operator<=>(const Key&, const Key&) = default; };
  std::map<Key, TimerId> due_;
  std::map<TimerId, Key> keys_;
  uint64_t sequence_ = 0;
};

}  // namespace fulmar
