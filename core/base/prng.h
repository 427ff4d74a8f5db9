#pragma once
// Seeded generator with our own ranges, ratios and shuffle: std:: distributions differ between libraries. SplitMix64 (Steele, Lea,
// Flood, "Fast splittable pseudorandom number generators", 2014) both as the stream and as the mixer for keyed draws.

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "core/base/check.h"

namespace fulmar {

struct Seed { uint64_t value = 0; friend constexpr auto operator<=>(Seed, Seed) = default; };
struct Ratio { uint32_t numerator = 0, denominator = 1; };

constexpr uint64_t mix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}
constexpr uint64_t mix64(uint64_t a, uint64_t b) { return mix64(mix64(a) ^ (b * 0xD6E8FEB86659FD93u)); }

// FNV-1a, for names that become keys. Fixed constants: the value is part of step hashes.
constexpr uint64_t hash_text(std::string_view text) {
  uint64_t h = 0xCBF29CE484222325u;
  for (char c : text) h = (h ^ static_cast<uint8_t>(c)) * 0x100000001B3u;
  return h;
}

class Prng {
 public:
  explicit Prng(Seed seed) : state_(seed.value) {}
  uint64_t next() { const uint64_t out = mix64(state_); state_ += 0x9E3779B97F4A7C15u; return out; }
  // Uniform in [0, bound); bound > 0. Lemire's multiply-shift with rejection, so that every bound is exact.
  uint64_t below(uint64_t bound) {
    CHECK(bound > 0);
    unsigned __int128 product = static_cast<unsigned __int128>(next()) * bound;
    if (static_cast<uint64_t>(product) < bound) {
      const uint64_t threshold = -bound % bound;
      while (static_cast<uint64_t>(product) < threshold) product = static_cast<unsigned __int128>(next()) * bound;
    }
    return static_cast<uint64_t>(product >> 64);
  }
  // Uniform in [low, high], both included.
  int64_t between(int64_t low, int64_t high) {
    CHECK(low <= high);
    const uint64_t width = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
    if (width == UINT64_MAX) return static_cast<int64_t>(next());
    return static_cast<int64_t>(static_cast<uint64_t>(low) + below(width + 1));
  }
  bool chance(Ratio odds) { return below(odds.denominator) < odds.numerator; }
  // Log-uniform in [low, high]: every power of two is as likely as another. low > 0.
  uint64_t log_between(uint64_t low, uint64_t high) {
    CHECK(low > 0 && low <= high);
    const int low_bit = 63 - __builtin_clzll(low), high_bit = 63 - __builtin_clzll(high);
    const uint64_t bit = static_cast<uint64_t>(between(low_bit, high_bit));
    const uint64_t from = bit == static_cast<uint64_t>(low_bit) ? low : uint64_t{1} << bit;
    const uint64_t to = bit == static_cast<uint64_t>(high_bit) ? high : (uint64_t{1} << (bit + 1)) - 1;
    return static_cast<uint64_t>(from + below(to - from + 1));
  }
  template <class T> void shuffle(std::span<T> items) {
    for (size_t i = items.size(); i > 1; --i) { const size_t j = below(i); std::swap(items[i - 1], items[j]); }
  }

 private:
  uint64_t state_;
};

}  // namespace fulmar
