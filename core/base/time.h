#pragma once
// Times as values; there is no clock here. Monotonic times everything and never jumps; Wall may jump and is only for stamps.

#include <algorithm>
#include <compare>
#include <cstdint>
#include <limits>

namespace fulmar {

struct Duration {
  int64_t ns = 0;
  static constexpr Duration nanoseconds(int64_t v) { return {v}; }
  static constexpr Duration microseconds(int64_t v) { return {v * 1'000}; }
  static constexpr Duration milliseconds(int64_t v) { return {v * 1'000'000}; }
  static constexpr Duration seconds(int64_t v) { return {v * 1'000'000'000}; }
  constexpr int64_t ms() const { return ns / 1'000'000; }
  friend constexpr auto operator<=>(Duration, Duration) = default;
  friend constexpr Duration operator+(Duration a, Duration b) { return {a.ns + b.ns}; }
  friend constexpr Duration operator-(Duration a, Duration b) { return {a.ns - b.ns}; }
  friend constexpr Duration operator*(Duration a, int64_t k) { return {a.ns * k}; }
  friend constexpr Duration operator/(Duration a, int64_t k) { return {a.ns / k}; }
};

// Nanoseconds since an unspecified start that is the same for the life of a node.
struct Monotonic {
  int64_t ns = 0;
  static constexpr Monotonic never() { return {std::numeric_limits<int64_t>::max()}; }
  friend constexpr auto operator<=>(Monotonic, Monotonic) = default;
  // Saturates at never(), so that "no deadline" plus anything stays "no deadline".
  friend constexpr Monotonic operator+(Monotonic a, Duration d) {
    int64_t out = 0;
    return __builtin_add_overflow(a.ns, d.ns, &out) ? never() : Monotonic{out};
  }
  friend constexpr Duration operator-(Monotonic a, Monotonic b) { return {a.ns - b.ns}; }
};

// Milliseconds since 1970-01-01 UTC, as RocketMQ stamps messages.
struct Wall {
  int64_t ms = 0;
  friend constexpr auto operator<=>(Wall, Wall) = default;
};

}  // namespace fulmar
