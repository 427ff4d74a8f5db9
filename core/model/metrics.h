#pragma once
// Metrics and health of a node: what only its host asks, by Told, and what it is answered. No protocol carries them. A part of command.h,
// which everybody includes instead.
//
// Metrics come in pages, so that no step walks a hundred thousand queues. The order is that of families, and within a family of topics and
// groups: whoever puts the pages together may write each of them out before asking for the next.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fulmar {

enum class MetricKind : uint8_t { Counter, Gauge, Histogram };

// A constant of the core: good for ever, and the same address for each of its samples.
struct MetricFamily {
  std::string_view name, help;             // help: one line, no full stop
  MetricKind kind = MetricKind::Gauge;
  std::span<const int64_t> bounds = {};    // Histogram: upper bounds of the buckets, rising, the last bucket not among them
  int decimals = 0;                        // values are in units of 10^-decimals
};
struct MetricLabel {
  std::string_view name;                   // a constant
  std::string value;
  friend bool operator==(const MetricLabel&, const MetricLabel&) = default;
};
struct MetricSample {
  const MetricFamily* family = nullptr;
  std::vector<MetricLabel> labels;         // beside those that all samples of the page share
  int64_t value = 0;                       // Histogram: the sum of what was observed
  std::vector<uint64_t> counts = {};       // Histogram: of each bucket alone, one more than there are bounds
};
// Where a page ends and the next begins. The strings are names of the last sample; what they name may be gone when the next page is asked for.
struct MetricCursor { int32_t family = 0; std::string group, topic; };

namespace command {
// A part of all samples, behind the cursor; at most samples_max, and no more work than a step has room for: it may be empty.
struct GetMetrics { int32_t family = 0; std::string_view group = {}, topic = {}; int32_t samples_max = 1000; };
struct GetHealth {};
}  // namespace command

namespace reply {
struct Metrics {
  std::vector<MetricLabel> common;         // of every sample
  std::vector<MetricSample> samples;       // those of a family together
  std::optional<MetricCursor> next;        // nothing: that was all
};
// Why the node does not do all that it is there for, a sentence each; none: it is ready. Who answers is alive.
struct Health { std::vector<std::string> wants; };
}  // namespace reply

}  // namespace fulmar
