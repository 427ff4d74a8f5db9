#pragma once
// The event heap. Order: (time, class, keyed tie-break, sequence). Integer nanoseconds, no ticks; the tie-break is keyed by the handler
// that asked, so that two events of one instant keep their order when a third is removed.

#include <compare>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/base/time.h"
#include "sim/keyed.h"

namespace fulmar::sim {

// The world's own time, which no node sees: ns since the beginning of the run.
struct SimTime {
  int64_t ns = 0;
  static constexpr SimTime never() { return {std::numeric_limits<int64_t>::max()}; }
  friend constexpr auto operator<=>(SimTime, SimTime) = default;
  friend constexpr SimTime operator+(SimTime a, Duration d) {
    int64_t out = 0;
    return __builtin_add_overflow(a.ns, d.ns, &out) ? never() : SimTime{out};
  }
  friend constexpr Duration operator-(SimTime a, SimTime b) { return {a.ns - b.ns}; }
};

// At one instant faults come first, then what arrives, then steps (which so see all of it).
enum class EventClass : uint8_t { Fault, Disk, Network, Callback, Step };

class EventHandler {
 public:
  explicit EventHandler(uint64_t entity) : entity_(entity) {}
  virtual ~EventHandler() = default;
  virtual void on_event(uint64_t what, uint64_t argument) = 0;

 private:
  friend class Schedule;
  uint64_t entity_;
  uint64_t scheduled_ = 0;
};

class Schedule {
 public:
  explicit Schedule(Seed seed) : seed_(seed) {}
  SimTime now() const { return now_; }
  // `at` before now() means now. The handler outlives the schedule; what has lost its meaning by then is the handler's to ignore.
  void add(SimTime at, EventClass kind, EventHandler& handler, uint64_t what, uint64_t argument = 0);
  // Runs the next event if it is due by `until` (then now() is its time); else now() becomes `until` and the answer is false.
  bool run_one(SimTime until);
  SimTime next() const { return heap_.empty() ? SimTime::never() : heap_.front().at; }
  uint64_t events_run() const { return events_run_; }
  size_t size() const { return heap_.size(); }

 private:
  struct Event {
    SimTime at;
    EventClass kind;
    uint64_t tie, sequence;
    EventHandler* handler;
    uint64_t what, argument;
  };
  static bool later(const Event& a, const Event& b);
  Seed seed_;
  SimTime now_;
  std::vector<Event> heap_;
  uint64_t sequence_ = 0, events_run_ = 0;
};

}  // namespace fulmar::sim
