// The index against a multimap: any run of keyed records, rounds, queries, power cuts, kills and cut logs.

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "core/base/mutants.h"
#include "tests/unit/store/index_world.h"

namespace fulmar::testing {
namespace {

std::string check(IndexWorld& world, Prng& draw) {
  for (int i = 0; i < 4; ++i) {
    const std::string key = "key" + std::to_string(draw.below(12));
    std::string difference = world.difference("topic", key);
    if (difference.empty() && world.dispatched > 0) {   // a narrow window around one record
      const int64_t stored = world.records[draw.below(world.dispatched)].stored;
      difference = world.difference("topic", key, stored, stored);
    }
    if (!difference.empty()) return difference;
  }
  return {};
}

std::string play(uint64_t seed, int actions) {
  IndexWorld world(Seed{seed}, 1 + seed % 40, 60 + seed % 300);
  Prng draw(Seed{mix64(seed, 1)});
  world.load();
  for (int i = 0; i < actions; ++i) {
    const uint64_t what = draw.below(100);
    const char* where = "alive: ";
    if (what < 35) {
      for (uint64_t count = draw.log_between(1, 60); count > 0; --count) {
        world.driver.advance(Duration::milliseconds(static_cast<int64_t>(draw.below(3000))));
        const uint64_t first = draw.below(12), second = draw.below(12);
        world.append("topic", draw.chance({1, 3}) ? "key" + std::to_string(first) : "", draw.chance({1, 2}) ? "x key" + std::to_string(second) : "");
      }
      world.dispatch();
    } else if (what < 55) {
      if (!world.is_round_running()) world.begin_round();
    } else if (what < 75) {
      for (uint64_t turns = draw.below(30); turns > 0; --turns) if (!world.turn()) break;
    } else if (what < 80) {
      world.driver.advance(Duration::milliseconds(static_cast<int64_t>(draw.below(12'000))));
      world.step([&](Ctx& ctx) { world.index->pump(ctx); });
    } else if (what < 86) {
      const std::string difference = check(world, draw);
      if (!difference.empty() && !world.driver.was_killed()) return where + difference;
    } else if (what < 92) {
      world.driver.arm_kill(1 + draw.below(20));
    } else {
      where = "loaded: ";
      if (draw.chance({1, 2})) world.driver.crash({static_cast<uint32_t>(draw.below(5)), 4});
      else world.driver.kill();
      world.restart(draw.chance({1, 2}) ? UINT64_MAX : draw.below(world.log_end + 1));
    }
    if (world.driver.was_killed()) {
      where = "after a kill: ";
      world.driver.take_kill_image();
      world.restart();
    }
    if (world.index->needs_rebuild()) return "a rebuild is asked for";
    if (where[0] == 'a' && where[1] == 'l') continue;
    const std::string difference = check(world, draw);
    if (!difference.empty()) return where + difference;
  }
  world.driver.arm_kill(0);
  world.settle();
  return check(world, draw);
}

RC_GTEST_PROP(IndexProperty, IsAMultimapThroughEveryCrash, ()) {
  const auto seed = *rc::gen::arbitrary<uint64_t>();
  const std::string wrong = play(seed, 60);
  if (!wrong.empty()) RC_FAIL(fmt::format("seed {}: {}", seed, wrong));
}

void expect_killed(Mutant mutant) {
  mutants::plant(mutant);
  bool is_killed = false;
  for (uint64_t seed = 0; seed < 300 && !is_killed; ++seed) is_killed = !play(seed, 60).empty();
  const uint64_t fired = mutants::fired();
  mutants::plant(Mutant::None);
  EXPECT_TRUE(is_killed) << "planted bug " << static_cast<int>(mutant) << " survives; its branch was taken " << fired << " times";
}

TEST(IndexProperty, FindsASlotBeforeItsEntry) { expect_killed(Mutant::IndexSlotBeforeEntry); }
TEST(IndexProperty, FindsALateBeginTime) { expect_killed(Mutant::IndexBeginSetLate); }
TEST(IndexProperty, FindsARoundDoneBeforeItsFlush) { expect_killed(Mutant::IndexRoundDoneBeforeFlush); }
TEST(IndexProperty, FindsNumbersGivenTwice) { expect_killed(Mutant::IndexNumbersOverUnlinked); }

}  // namespace
}  // namespace fulmar::testing
