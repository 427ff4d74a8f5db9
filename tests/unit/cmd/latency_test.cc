#include "cmd/fulmar/latency.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace fulmar::cmd {
namespace {

TEST(LatencyRecorder, KeepsThreeDigitsOfEveryValue) {
  std::mt19937_64 random(1);
  std::vector<uint64_t> values;
  LatencyRecorder recorder;
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t value = random() >> (random() % 40 + 24);   // of all sizes
    values.push_back(std::min(value, LatencyRecorder::kMaxNs));
    recorder.record(value);
  }
  std::sort(values.begin(), values.end());
  EXPECT_EQ(recorder.count(), values.size());
  EXPECT_EQ(recorder.max_ns(), values.back());
  for (const double share : {0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const uint64_t exact = values[std::min(values.size() - 1, static_cast<size_t>(share * static_cast<double>(values.size()) + 0.999999) - 1)];
    const uint64_t found = recorder.percentile_ns(share);
    EXPECT_GE(found, exact) << share;
    EXPECT_LE(found - exact, exact / 1000 + 1) << share;
  }
}

TEST(LatencyRecorder, EdgesAreWhatTheyAre) {
  LatencyRecorder recorder;
  EXPECT_EQ(recorder.percentile_ns(0.5), 0u);
  for (const uint64_t value : {uint64_t{0}, uint64_t{1}, uint64_t{2047}, uint64_t{2048}, uint64_t{2049}, uint64_t{4095}, uint64_t{4096}, UINT64_MAX}) {
    recorder.reset();
    recorder.record(value);
    EXPECT_EQ(recorder.percentile_ns(0.5), std::min(value, LatencyRecorder::kMaxNs));
    EXPECT_EQ(recorder.percentile_ns(1), recorder.max_ns());
  }
}

TEST(LatencyRecorder, PrintsTheDistributionToItsEnd) {
  LatencyRecorder recorder;
  for (uint64_t i = 1; i <= 1000; ++i) recorder.record(i * 1000);
  const std::string text = recorder.distribution();
  EXPECT_NE(text.find("0.500000000000        500           2.00"), std::string::npos) << text;
  EXPECT_NE(text.find("1.000000000000       1000            inf"), std::string::npos) << text;
  EXPECT_NE(text.find("Total count = 1000"), std::string::npos) << text;
}

}  // namespace
}  // namespace fulmar::cmd
