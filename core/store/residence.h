#pragma once
// Which bytes of a mapped file may be viewed without a stall, by our own bookkeeping (decision 7): one range that this life prepared or
// stored to, and ranges that were warmed less than a second ago.

#include <algorithm>
#include <vector>

#include "core/base/time.h"
#include "core/io/ids.h"
#include "core/store/limits.h"

namespace fulmar {

class Residence {
 public:
  // Prepared or stored to by this life; ranges that do not touch the former one replace it.
  void own(Range range) {
    if (own_.empty() || range.begin > own_.end || range.end < own_.begin) own_ = range;
    else own_ = {std::min(own_.begin, range.begin), std::max(own_.end, range.end)};
  }
  // What lies below `to` has been given back.
  void cooled(uint64_t to) {
    own_.begin = std::min(std::max(own_.begin, to), own_.end);
    for (Warm& w : warm_) w.range.begin = std::max(w.range.begin, to);
  }
  void warmed(Range range, Monotonic now) {
    std::erase_if(warm_, [&](const Warm& w) { return w.until <= now; });
    if (warm_.size() >= kRangesMax) warm_.erase(warm_.begin());
    warm_.push_back({range, now + limits::kWarmFor});
  }
  // How far the bytes from `at` on are here without a gap; `at` itself when it is not.
  uint64_t reach(uint64_t at, Monotonic now) const {
    uint64_t to = at;
    if (own_.begin <= at && at < own_.end) to = own_.end;
    for (const Warm& w : warm_)
      if (w.until > now && w.range.begin <= at && at < w.range.end) to = std::max(to, w.range.end);
    return to;
  }
  bool covers(Range range, Monotonic now) const { return cover(range, now, *this, *this); }
  // Both together.
  static bool cover(Range range, Monotonic now, const Residence& a, const Residence& b) {
    uint64_t at = range.begin;
    while (at < range.end) {
      const uint64_t to = std::max(a.reach(at, now), b.reach(at, now));
      if (to == at) return false;
      at = to;
    }
    return true;
  }

 private:
  static constexpr size_t kRangesMax = 64;
  struct Warm { Range range; Monotonic until; };
  Range own_;
  std::vector<Warm> warm_;
};

// Whole pages around `range`, within a file of `size` bytes.
inline Range whole_pages(Range range, uint64_t size) {
  const uint64_t page = limits::kPageBytes;
  return {range.begin / page * page, std::min((range.end + page - 1) / page * page, size)};
}

}  // namespace fulmar
