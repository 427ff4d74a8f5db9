#pragma once
// A set of byte ranges, joined where they touch.

#include <algorithm>
#include <cstdint>
#include <map>

#include "core/io/ids.h"

namespace fulmar::sim {

class RangeSet {
 public:
  void add(Range r) {
    if (r.empty()) return;
    auto it = ends_.upper_bound(r.begin);
    if (it != ends_.begin() && std::prev(it)->second >= r.begin) --it;
    while (it != ends_.end() && it->first <= r.end) {
      r.begin = std::min(r.begin, it->first);
      r.end = std::max(r.end, it->second);
      it = ends_.erase(it);
    }
    ends_[r.begin] = r.end;
  }
  void subtract(Range r) {
    if (r.empty()) return;
    auto it = ends_.upper_bound(r.begin);
    if (it != ends_.begin()) --it;
    while (it != ends_.end() && it->first < r.end) {
      const Range old{it->first, it->second};
      if (old.end <= r.begin) { ++it; continue; }
      it = ends_.erase(it);
      if (old.begin < r.begin) ends_[old.begin] = r.begin;
      if (old.end > r.end) { ends_[r.end] = old.end; break; }
    }
  }
  bool contains(Range r) const {
    if (r.empty()) return true;
    auto it = ends_.upper_bound(r.begin);
    return it != ends_.begin() && std::prev(it)->second >= r.end;
  }
  bool intersects(Range r) const {
    if (r.empty()) return false;
    auto it = ends_.lower_bound(r.end);
    return it != ends_.begin() && std::prev(it)->second > r.begin;
  }
  bool empty() const { return ends_.empty(); }

 private:
  std::map<uint64_t, uint64_t> ends_;  // begin -> end
};

}  // namespace fulmar::sim
