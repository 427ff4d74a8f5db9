#include "cmd/fulmar/latency.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace fulmar::cmd {

// Below 2^11 every value has its own count. Above, each power of two is cut into 2^10 parts.
size_t LatencyRecorder::index_of(uint64_t ns) {
  const int bits = std::bit_width(ns);
  if (bits <= kSubBits) return static_cast<size_t>(ns);
  const int shift = bits - kSubBits;
  constexpr size_t kHalf = size_t{1} << (kSubBits - 1);
  return kHalf * static_cast<size_t>(shift + 1) + static_cast<size_t>((ns >> shift) - kHalf);
}

uint64_t LatencyRecorder::highest_of(size_t index) {
  constexpr size_t kHalf = size_t{1} << (kSubBits - 1);
  if (index < 2 * kHalf) return index;
  const size_t shift = index / kHalf - 1;
  const uint64_t part = index % kHalf + kHalf;
  return ((part + 1) << shift) - 1;
}

LatencyRecorder::LatencyRecorder() : counts_(index_of(kMaxNs) + 1) {}

void LatencyRecorder::record(uint64_t ns) {
  ns = std::min(ns, kMaxNs);
  ++counts_[index_of(ns)];
  ++count_;
  sum_ += ns;
  max_ = std::max(max_, ns);
}

void LatencyRecorder::reset() {
  std::fill(counts_.begin(), counts_.end(), 0);
  count_ = sum_ = max_ = 0;
}

uint64_t LatencyRecorder::percentile_ns(double share) const {
  const auto wanted = std::max<uint64_t>(1, static_cast<uint64_t>(std::ceil(std::clamp(share, 0.0, 1.0) * static_cast<double>(count_) - 1e-9)));
  uint64_t seen = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (seen >= wanted) return std::min(highest_of(i), max_);
  }
  return max_;
}

std::string LatencyRecorder::distribution() const {
  std::string out = fmt::format("{:>12} {:>14} {:>10} {:>14}\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
  // Five steps for every halving of what is left, as HdrHistogram's own tools print.
  double share = 0;
  for (double rest = 1; count_ > 0 && share < 1; rest /= 2) {
    for (int step = 0; step < 5 && share < 1; ++step) {
      share = 1 - rest * (1 - step / 10.0);
      if (rest * static_cast<double>(count_) < 1) share = 1;
      const uint64_t value = percentile_ns(share);
      const auto total = static_cast<uint64_t>(std::ceil(share * static_cast<double>(count_)));
      out += fmt::format("{:>12.3f} {:>14.12f} {:>10} {:>14}\n", static_cast<double>(value) / 1000, share, total, share < 1 ? fmt::format("{:.2f}", 1 / (1 - share)) : "inf");
    }
  }
  out += fmt::format("#[Mean = {:.3f}, Max = {:.3f}, Total count = {}]\n", mean_ns() / 1000, static_cast<double>(max_) / 1000, count_);
  return out;
}

}  // namespace fulmar::cmd
