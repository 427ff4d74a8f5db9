// How a start comes to its end: by what comes home, never by a timer that was meant for something else.

#include <gtest/gtest.h>

#include "tests/unit/store/store_harness.h"

namespace fulmar::testing {
namespace {

void append(StoreHarness& store, int count) {
  for (int i = 0; i < count; ++i) {
    while (!store.append("t", 0, std::string(1000, 'x'))) store.run(5);
  }
}
void run_for(StoreHarness& store, Duration time) {
  const Monotonic end = store.driver.now.monotonic + time;
  while (store.driver.now.monotonic < end) store.run(1);
}

// The table of queues is behind what is derived: cold segments are fed again, and no round follows that would wake anybody.
TEST(Start, EndsWithTheLastRecordThatIsFed) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {   // what is under way comes home in another order each time
    StoreHarness store{Seed{seed}};
    ASSERT_TRUE(store.run_until(Store::State::Serving));
    append(store, 1);
    run_for(store, Duration::seconds(12));
    append(store, 200);
    run_for(store, Duration::seconds(3));
    store.kill();
    const Monotonic begin = store.driver.now.monotonic;
    ASSERT_TRUE(store.run_until(Store::State::Serving));
    EXPECT_LT((store.driver.now.monotonic - begin).ns, Duration::milliseconds(500).ns) << seed;
    EXPECT_EQ(store.store->queues().range("t", QueueId(0)).max, QueueOffset(201));
  }
}

// Killed on a disk that has no block left: what is there can be read, and is not waited for with the marker, which the killed life left.
TEST(Start, OnAFullDiskServesWhatIsThere) {
  StoreHarness store{Seed{3}};
  ASSERT_TRUE(store.run_until(Store::State::Serving));
  append(store, 20);
  run_for(store, Duration::seconds(2));
  store.kill();
  store.driver.is_disk_full = true;
  ASSERT_TRUE(store.run_until(Store::State::Serving, 2000));
  EXPECT_TRUE(store.driver.is_disk_full);
  const auto bodies = store.read_queue("t", 0);
  ASSERT_TRUE(bodies.has_value());
  EXPECT_EQ(bodies->size(), 20u);
  EXPECT_FALSE(store.append("t", 0, "one more").has_value());
}

}  // namespace
}  // namespace fulmar::testing
