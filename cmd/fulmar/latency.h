#pragma once
// Latencies as HdrHistogram keeps them: a count for every value to three significant digits, so that any percentile can be asked for
// afterwards and recording costs an addition. Buckets double in width with every power of two.

#include <cstdint>
#include <string>
#include <vector>

namespace fulmar::cmd {

class LatencyRecorder {
 public:
  static constexpr uint64_t kMaxNs = 3'600'000'000'000;   // an hour; whatever is longer counts as that

  LatencyRecorder();
  void record(uint64_t ns);
  void reset();

  uint64_t count() const { return count_; }
  uint64_t max_ns() const { return max_; }      // exact
  double mean_ns() const { return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_); }
  // The least value that at least this share of all is not above, e.g. 0.999; 0 when nothing was recorded.
  uint64_t percentile_ns(double share) const;
  // HdrHistogram's text of percentiles: Value (in us), Percentile, TotalCount, 1/(1-Percentile).
  std::string distribution() const;

 private:
  static constexpr int kSubBits = 11;           // 2,048 values a bucket: an error below 0.1 %
  static size_t index_of(uint64_t ns);
  static uint64_t highest_of(size_t index);     // of the values that share this count
  std::vector<uint64_t> counts_;
  uint64_t count_ = 0, sum_ = 0, max_ = 0;
};

}  // namespace fulmar::cmd
