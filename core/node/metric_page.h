#pragma once
// One page of metrics while it is filled: where it began, what it holds, where the next one begins. Samples and looked-at queues both cost,
// so that a page ends after a bounded time whatever it finds.

#include <algorithm>

#include "core/base/marks.h"
#include "core/model/command.h"

namespace fulmar {

class MetricPage {
 public:
  explicit MetricPage(const command::GetMetrics& from)
      : family_(std::max(from.family, 0)), group_(from.group), topic_(from.topic), room_(std::clamp(from.samples_max, 1, kRoomMax)) {}

  int32_t family() const { return family_; }
  const std::string& group() const { return group_; }   // "": the first of the family is yet to come
  const std::string& topic() const { return topic_; }
  bool is_full() const { return room_ <= 0; }

  void label(std::string_view name, std::string value) { page_.common.push_back({name, std::move(value)}); }
  template <class Number>
  void add(const MetricFamily& family, Number value, std::vector<MetricLabel> labels = {}) {
    page_.samples.push_back({&family, std::move(labels), static_cast<int64_t>(value)});
    --room_;
  }
  template <class Counts>
  void add_histogram(const MetricFamily& family, const Counts& counts, uint64_t sum, std::vector<MetricLabel> labels = {}) {
    page_.samples.push_back({&family, std::move(labels), static_cast<int64_t>(sum), {counts.begin(), counts.end()}});
    room_ -= static_cast<int32_t>(page_.samples.back().counts.size());
  }
  // Everything up to this name of the family was looked at, which cost so much beside the samples: this page or the next goes on behind it.
  void passed(std::string group, std::string topic, size_t cost) {
    group_ = std::move(group);
    topic_ = std::move(topic);
    room_ -= static_cast<int32_t>(std::min<size_t>(cost, kRoomMax));
  }
  void end_family() {
    ++family_;
    group_.clear();
    topic_.clear();
  }
  reply::Metrics take(bool has_more) {
    SOMETIMES("metrics: a page ends inside a family", has_more && !(group_.empty() && topic_.empty()));
    if (has_more) page_.next = MetricCursor{family_, group_, topic_};
    return std::move(page_);
  }

 private:
  static constexpr int32_t kRoomMax = 4096;   // some 2 ms
  int32_t family_;
  std::string group_, topic_;
  int32_t room_;
  reply::Metrics page_;
};

}  // namespace fulmar
