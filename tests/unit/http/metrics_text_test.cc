// Prometheus' text format, byte for byte.

#include "net/http/metrics_text.h"

#include <gtest/gtest.h>

namespace fulmar::net {
namespace {

constexpr MetricFamily kGauge{"things", "How many \\ there are\nnow"};
constexpr MetricFamily kCounter{"things_total", "All of them", MetricKind::Counter, {}, 3};
constexpr int64_t kBounds[] = {1'000, 2'500};
constexpr MetricFamily kHistogram{"waits", "Milliseconds", MetricKind::Histogram, kBounds, 3};

TEST(MetricsText, HeadsEachFamilyOnceOverAllPages) {
  MetricsText text;
  text.add({{{"cluster", "c"}}, {{&kGauge, {}, -3}, {&kGauge, {{"topic", "t"}}, 4}}, {}});
  text.add({{{"cluster", "c"}}, {{&kGauge, {{"topic", "u"}}, 5}, {&kCounter, {}, 1500}}, {}});
  EXPECT_EQ(text.take(),
            "# HELP things How many \\\\ there are\\nnow\n"
            "# TYPE things gauge\n"
            "things{cluster=\"c\"} -3\n"
            "things{cluster=\"c\",topic=\"t\"} 4\n"
            "things{cluster=\"c\",topic=\"u\"} 5\n"
            "# HELP things_total All of them\n"
            "# TYPE things_total counter\n"
            "things_total{cluster=\"c\"} 1.5\n");
  EXPECT_EQ(text.take(), "");
}

TEST(MetricsText, BucketsAreCumulativeAndEndAtInfinity) {
  MetricsText text;
  text.add({{}, {{&kHistogram, {{"topic", "t"}}, 12'345, {3, 0, 4}}}, {}});
  EXPECT_EQ(text.take(),
            "# HELP waits Milliseconds\n"
            "# TYPE waits histogram\n"
            "waits_bucket{topic=\"t\",le=\"1\"} 3\n"
            "waits_bucket{topic=\"t\",le=\"2.5\"} 3\n"
            "waits_bucket{topic=\"t\",le=\"+Inf\"} 7\n"
            "waits_sum{topic=\"t\"} 12.345\n"
            "waits_count{topic=\"t\"} 7\n");
}

TEST(MetricsText, AValueWithoutLabelsHasNoBraces) {
  MetricsText text;
  text.add({{}, {{&kGauge, {}, 1}}, {}});
  EXPECT_TRUE(text.take().ends_with("\nthings 1\n"));
}

TEST(MetricsText, EscapesWhatALabelMayHold) {
  EXPECT_EQ(escaped_label("plain %RETRY%g"), "plain %RETRY%g");
  EXPECT_EQ(escaped_label("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
  EXPECT_EQ(escaped_label("gr\xC3\xBC\xC3\x9F \xE2\x82\xAC \xF0\x9F\x90\xA6"), "gr\xC3\xBC\xC3\x9F \xE2\x82\xAC \xF0\x9F\x90\xA6");
  const std::string lost = "\xEF\xBF\xBD";
  EXPECT_EQ(escaped_label("\xFFx"), lost + "x");
  EXPECT_EQ(escaped_label("\xC3"), lost);                            // cut
  EXPECT_EQ(escaped_label("\xC0\xAF"), lost + lost);                 // overlong
  EXPECT_EQ(escaped_label("\xED\xA0\x80"), lost + lost + lost);      // half of a pair
  EXPECT_EQ(escaped_label("\xF4\x90\x80\x80"), lost + lost + lost + lost);   // above Unicode
}

TEST(MetricsText, WritesDecimals) {
  EXPECT_EQ(decimal_text(0, 0), "0");
  EXPECT_EQ(decimal_text(0, 3), "0");
  EXPECT_EQ(decimal_text(1200, 0), "1200");
  EXPECT_EQ(decimal_text(1200, 3), "1.2");
  EXPECT_EQ(decimal_text(7, 3), "0.007");
  EXPECT_EQ(decimal_text(-7, 3), "-0.007");
  EXPECT_EQ(decimal_text(30'000, 3), "30");
  EXPECT_EQ(decimal_text(INT64_MIN, 0), "-9223372036854775808");
}

}  // namespace
}  // namespace fulmar::net
