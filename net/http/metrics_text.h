#pragma once
// Prometheus' text format, version 0.0.4: pages of metrics as they come, each family headed by its HELP and TYPE.

#include <string>
#include <string_view>

#include "core/model/command.h"

namespace fulmar::net {

inline constexpr const char* kMetricsTextType = "text/plain; version=0.0.4; charset=utf-8";

class MetricsText {
 public:
  // Samples of one family come together, over all pages.
  void add(const reply::Metrics& page);
  // What was written since the last call.
  std::string take() { return std::exchange(text_, {}); }

 private:
  void add_line(const MetricFamily& family, std::string_view suffix, const reply::Metrics& page, const MetricSample& sample, std::string_view le, std::string_view value);
  std::string text_;
  const MetricFamily* last_ = nullptr;
};

// "12", "1.5", "-0.003": `value` in units of 10^-decimals, without zeros at the end.
std::string decimal_text(int64_t value, int decimals);
// A label's value between its quotes. What is not UTF-8 becomes U+FFFD: one stranger's word must not cost the whole page.
std::string escaped_label(std::string_view value);

}  // namespace fulmar::net
