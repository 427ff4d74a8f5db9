// Containers against the plainest model of each.

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include "core/base/ring.h"
#include "core/base/sorted_map.h"
#include "core/base/timers.h"

namespace fulmar {
namespace {

RC_GTEST_PROP(Timers, FireLikeASortedList, ()) {
  struct Armed { int64_t at; uint64_t sequence; uint64_t id; };
  std::vector<Armed> model;
  Timers timers;
  int64_t now = 0;
  uint64_t sequence = 0;
  const auto earlier = [](const Armed& a, const Armed& b) { return std::pair(a.at, a.sequence) < std::pair(b.at, b.sequence); };
  const auto forget = [&](uint64_t id) { std::erase_if(model, [&](const Armed& a) { return a.id == id; }); };
  for (int i = 0, steps = *rc::gen::inRange(0, 100); i < steps; ++i) {
    const uint64_t id = *rc::gen::inRange<uint64_t>(0, 8);
    switch (*rc::gen::inRange(0, 4)) {
      case 0:
      case 1: {
        const int64_t at = now + *rc::gen::inRange(-3, 10);
        forget(id);
        model.push_back({at, sequence++, id});
        timers.set(TimerId(id), Monotonic{at});
        break;
      }
      case 2:
        forget(id);
        timers.cancel(TimerId(id));
        break;
      default: {
        now += *rc::gen::inRange(0, 5);
        for (;;) {
          const auto first = std::min_element(model.begin(), model.end(), earlier);
          const auto popped = timers.pop_due(Monotonic{now});
          if (first == model.end() || first->at > now) { RC_ASSERT(!popped); break; }
          RC_ASSERT(popped == TimerId(first->id));
          model.erase(first);
        }
      }
    }
    const auto first = std::min_element(model.begin(), model.end(), earlier);
    RC_ASSERT(timers.next() == (first == model.end() ? Monotonic::never() : Monotonic{first->at}));
    RC_ASSERT(timers.size() == model.size());
  }
}

RC_GTEST_PROP(Ring, IsABoundedDeque, ()) {
  const size_t capacity = *rc::gen::inRange<size_t>(1, 9);
  Ring<int> ring(capacity);
  std::deque<int> model;
  for (int i = 0, steps = *rc::gen::inRange(0, 200); i < steps; ++i) {
    if (*rc::gen::arbitrary<bool>()) {
      RC_ASSERT(ring.try_push(i) == (model.size() < capacity));
      if (model.size() < capacity) model.push_back(i);
    } else if (!model.empty()) {
      RC_ASSERT(ring.pop() == model.front());
      model.pop_front();
    }
    RC_ASSERT(ring.size() == model.size());
    RC_ASSERT(ring.full() == (model.size() == capacity));
    for (size_t k = 0; k < model.size(); ++k) RC_ASSERT(ring.at(k) == model[k]);
  }
}

RC_GTEST_PROP(SortedMap, IsAMap, (const std::vector<std::tuple<uint8_t, uint8_t, int>>& operations)) {
  SortedMap<int, int> map;
  std::map<int, int> model;
  for (const auto& [what, wide_key, value] : operations) {
    const int key = wide_key % 16;
    if (what % 3 != 0) map[key] = model[key] = value;
    else RC_ASSERT(map.erase(key) == (model.erase(key) == 1));
    RC_ASSERT(map.size() == model.size());
    RC_ASSERT(std::equal(map.begin(), map.end(), model.begin(), model.end(), [](const auto& a, const auto& b) { return a.first == b.first && a.second == b.second; }));
    for (int k = 0; k < 16; ++k) RC_ASSERT(map.contains(k) == model.contains(k));
  }
}

}  // namespace
}  // namespace fulmar
