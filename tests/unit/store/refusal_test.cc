// What a client is told when the store takes nothing.

#include <gtest/gtest.h>

#include "tests/unit/store/store_harness.h"

namespace fulmar::testing {
namespace {

TEST(StoreRefusal, AReachedBoundIsBusyNamesItselfAndMayPass) {
  StoreHarness h{Seed{1}};
  ASSERT_TRUE(h.run_until(Store::State::Serving));
  const Refusal refusal = h.store->refusal(Error(Errc::Full, "the broker holds 7 topics, its limit"));
  EXPECT_EQ(refusal.code, Code::SystemBusy);
  EXPECT_EQ(refusal.cause, "the broker holds 7 topics, its limit");
  EXPECT_EQ(refusal.measured, "0 topics, 0 committed offsets");
  EXPECT_EQ(refusal.retry_after_ms, 1000u);
}

TEST(StoreRefusal, WhoServesTakesTheFirstAppend) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    StoreHarness h{Seed{seed}};
    ASSERT_TRUE(h.run_until(Store::State::Serving));
    const Result<Appended> first = h.append("t", 0, "the first message after the ready line");
    EXPECT_TRUE(first.has_value()) << "seed " << seed << ": " << first.error().text();
    h.kill();
    ASSERT_TRUE(h.run_until(Store::State::Serving));
    EXPECT_TRUE(h.append("t", 0, "and after the next").has_value()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace fulmar::testing
