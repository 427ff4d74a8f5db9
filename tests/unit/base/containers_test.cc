// Ring, SortedMap and Timers: full is a case, what is walked is ordered, every tie is broken.

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "core/base/ring.h"
#include "core/base/sorted_map.h"
#include "core/base/timers.h"

namespace fulmar {
namespace {

TEST(Ring, RefusesWhenFullAndKeepsOrder) {
  Ring<int> ring(2);
  EXPECT_TRUE(ring.empty());
  EXPECT_TRUE(ring.try_push(1));
  EXPECT_TRUE(ring.try_push(2));
  EXPECT_TRUE(ring.full());
  EXPECT_FALSE(ring.try_push(3));
  EXPECT_EQ(ring.pop(), 1);
  EXPECT_TRUE(ring.try_push(3));  // wraps
  EXPECT_EQ(ring.front(), 2);
  EXPECT_EQ(ring.at(1), 3);
  EXPECT_EQ(ring.capacity(), 2u);
}
TEST(Ring, LetsGoOfWhatItGaveAway) {
  Ring<std::shared_ptr<int>> ring(2);
  auto value = std::make_shared<int>(5);
  ASSERT_TRUE(ring.try_push(value));
  EXPECT_EQ(*ring.pop(), 5);
  EXPECT_EQ(value.use_count(), 1);
}
TEST(RingDeathTest, EmptyIsOurOwnBug) {
  Ring<int> ring(1);
  EXPECT_DEATH(ring.pop(), "size_ > 0");
  EXPECT_DEATH(ring.at(0), "index < size_");
}

TEST(SortedMap, IsWalkedInOrderOfKeys) {
  SortedMap<std::string, int> map;
  map["b"] = 2;
  map["c"] = 3;
  map["a"] = 1;
  map["b"] += 10;
  std::string walked;
  for (const auto& [key, value] : map) walked += key + std::to_string(value) + " ";
  EXPECT_EQ(walked, "a1 b12 c3 ");
  EXPECT_TRUE(map.contains(std::string_view("a")));  // no copy made to look up
  EXPECT_EQ(map.find("d"), nullptr);
  EXPECT_TRUE(map.erase("b"));
  EXPECT_FALSE(map.erase("b"));
  EXPECT_EQ(map.erase_if([](const auto& item) { return item.second == 3; }), 1u);
  EXPECT_EQ(map.size(), 1u);
}

TEST(Timers, FireByTimeThenByTheOrderInWhichTheyWereSet) {
  Timers timers;
  timers.set(TimerId(9), Monotonic{10});
  timers.set(TimerId(1), Monotonic{10});
  timers.set(TimerId(5), Monotonic{5});
  EXPECT_EQ(timers.next(), Monotonic{5});
  EXPECT_EQ(timers.pop_due(Monotonic{4}), std::nullopt);
  EXPECT_EQ(timers.pop_due(Monotonic{10}), TimerId(5));
  EXPECT_EQ(timers.pop_due(Monotonic{10}), TimerId(9));
  EXPECT_EQ(timers.pop_due(Monotonic{10}), TimerId(1));
  EXPECT_EQ(timers.pop_due(Monotonic{10}), std::nullopt);
  EXPECT_EQ(timers.next(), Monotonic::never());
}
TEST(Timers, SettingAgainMovesAndNeverDisarms) {
  Timers timers;
  timers.set(TimerId(1), Monotonic{10});
  timers.set(TimerId(2), Monotonic{10});
  timers.set(TimerId(1), Monotonic{10});  // now after 2
  EXPECT_EQ(timers.size(), 2u);
  EXPECT_EQ(timers.pop_due(Monotonic{10}), TimerId(2));
  timers.set(TimerId(1), Monotonic::never());
  EXPECT_EQ(timers.size(), 0u);
  timers.cancel(TimerId(1));  // cancelling what is not armed is nothing
  EXPECT_EQ(timers.pop_due(Monotonic::never()), std::nullopt);
}

}  // namespace
}  // namespace fulmar
