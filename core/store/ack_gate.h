#pragma once
// Replies waiting for the flushed or the confirm offset. Released in log order; late ones get their time-out code; bounded.

#include <cstdint>
#include <deque>
#include <vector>

#include "core/base/ring.h"
#include "core/io/node.h"
#include "core/model/ids.h"

namespace fulmar {

class AckGate {
 public:
  struct Held { PhysicalOffset end; Monotonic deadline; uint64_t token; };
  struct Released { uint64_t token; bool is_late; };   // is_late: stored, not known to be durable (FLUSH_DISK_TIMEOUT)

  explicit AckGate(uint32_t capacity) : held_(capacity) {}
  bool full() const { return held_.full(); }
  // `end` never falls from call to call: replies are held in append order.
  [[nodiscard]] bool hold(PhysicalOffset end, Monotonic deadline, uint64_t token);
  // Everything whose end is covered by `durable_to`, and everything past its deadline, in order.
  void release(PhysicalOffset durable_to, Monotonic now, std::vector<Released>& out);
  Monotonic next_deadline() const;
  size_t size() const { return held_.size(); }

 private:
  Ring<Held> held_;
};

}  // namespace fulmar
