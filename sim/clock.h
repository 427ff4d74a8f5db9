#pragma once
// The clock of a host: skewed against the world's time, and with a wall of its own that may be stepped.

#include "core/io/moment.h"
#include "sim/schedule.h"

namespace fulmar::sim {

struct ClockSpec {
  int64_t skew_ppb = 0;                       // monotonic runs at 1 + skew_ppb / 1e9; |skew_ppb| <= 1'000'000
  Monotonic start{1'000'000'000};             // monotonic reading at SimTime 0
  Wall wall_start{1'700'000'000'000};         // wall reading at SimTime 0
  int32_t zone_s = 0;
};

class HostClock {
 public:
  explicit HostClock(ClockSpec spec = {}) : spec_(spec) {}
  Monotonic monotonic(SimTime at) const {
    const __int128 skew = static_cast<__int128>(at.ns) * spec_.skew_ppb / 1'000'000'000;
    return spec_.start + Duration{at.ns + static_cast<int64_t>(skew)};
  }
  // The first moment at which monotonic() has reached `reading`; never() stays never().
  SimTime when(Monotonic reading) const {
    if (reading == Monotonic::never()) return SimTime::never();
    const int64_t elapsed = (reading - spec_.start).ns;
    if (elapsed <= 0) return {0};
    SimTime guess{static_cast<int64_t>(static_cast<__int128>(elapsed) * 1'000'000'000 / (1'000'000'000 + spec_.skew_ppb))};
    while (monotonic(guess) < reading) ++guess.ns;
    return guess;
  }
  Wall wall(SimTime at) const { return {spec_.wall_start.ms + (monotonic(at) - spec_.start).ms() + stepped_ms_}; }
  Moment moment(SimTime at) const { return {monotonic(at), wall(at), spec_.zone_s}; }
  void step_wall(int64_t ms) { stepped_ms_ += ms; }
  int64_t stepped_ms() const { return stepped_ms_; }
  const ClockSpec& spec() const { return spec_; }

 private:
  ClockSpec spec_;
  int64_t stepped_ms_ = 0;
};

}  // namespace fulmar::sim
