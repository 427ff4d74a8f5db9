#pragma once
// Which bytes may be viewed without a stall, and which must be given back, by our own bookkeeping (decisions 2 and 7). Ordered, disjoint
// ranges of one line of bytes, joined where they touch and are of one kind:
//
//   fetching   a fetch is under way. Not viewed, unless warm or owned already; not cooled.
//   warm       fetched less than limits::kWarmFor ago
//   owned      prepared or stored to by this life: warm until released
//   cold       none of these, but maybe still resident
//
// Whatever was ever fetched, owned or released is in the set until take_cold() hands it out to be cooled: nothing is forgotten uncooled.
// At most kRangesMax ranges wait for their time; beyond that the oldest are handed out early. Ranges under fetch and owned ones are
// bounded by their callers.

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/base/time.h"
#include "core/io/ids.h"
#include "core/store/limits.h"

namespace fulmar {

class WarmRanges {
 public:
  static constexpr size_t kRangesMax = 1024;
  // The kernel maps neighbours of a page it faults in: up to 64 KiB around it, and all of a large folio.
  static constexpr uint64_t kMappedAround = 2ull << 20;

  void fetching(Range range);                                  // once for each fetch that is asked for
  void fetched(Range range, bool is_here, Monotonic now);      // … and once when it has come home; not here: what came of it is cold
  void own(Range range);
  void release(Range range, Monotonic now);                    // what was not fetched lately is cold now, whether it was in the set or not

  // How far the bytes from `at` on are warm or owned without a gap; `at` itself when it is not.
  uint64_t reach(uint64_t at, Monotonic now) const;
  bool covers(Range range, Monotonic now) const { return reach(range.begin, now) >= range.end; }

  bool is_over() const { return by_age_.size() > kRangesMax; }
  bool empty() const { return ranges_.empty(); }
  size_t size() const { return ranges_.size(); }
  // What is to be cooled, all of it and now, for it has left the set: ascending, disjoint, widened by kMappedAround as far as the set
  // holds nothing there. The caller cuts it to what is mapped.
  std::vector<Range> take_cold(Monotonic now);

 private:
  struct Kind {
    Monotonic until;        // never(): owned
    uint32_t fetches = 0;   // under way
    friend bool operator==(const Kind&, const Kind&) = default;
  };
  struct Held { uint64_t end; Kind kind; };
  using Map = std::map<uint64_t, Held>;   // by begin

  template <class Change> void change(Range range, const Change& change);   // every byte of the range, those without a kind too
  void split(uint64_t at);
  void join(Range range);
  static bool waits(const Kind& kind) { return kind.fetches == 0 && kind.until != Monotonic::never(); }
  void index(Map::iterator it) { if (waits(it->second.kind)) by_age_.insert({it->second.kind.until, it->first}); }
  void unindex(Map::iterator it) { by_age_.erase({it->second.kind.until, it->first}); }

  Map ranges_;
  std::set<std::pair<Monotonic, uint64_t>> by_age_;   // until, begin of those that wait for their time
};

// Whole pages around `range`, within a file of `size` bytes.
inline Range whole_pages(Range range, uint64_t size) {
  const uint64_t page = limits::kPageBytes;
  return {range.begin / page * page, std::min((range.end + page - 1) / page * page, size)};
}

// The pages of which nothing lies outside of `range`; a file's last page may be a part of one.
inline Range inner_pages(Range range, uint64_t size) {
  const uint64_t page = limits::kPageBytes;
  return {(range.begin + page - 1) / page * page, range.end >= size ? size : range.end / page * page};
}

}  // namespace fulmar
