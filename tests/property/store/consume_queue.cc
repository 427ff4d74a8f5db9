// Queues against vectors: any run of appends, rounds, reads, power cuts, kills and cut logs, on a disk that answers in any order.

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "core/base/mutants.h"
#include "tests/unit/store/queue_world.h"

namespace fulmar::testing {
namespace {

// Plays one life after another; says what went wrong, or nothing.
std::string play(uint64_t seed, int actions) {
  QueueWorld world(Seed{seed}, 20 * (50 + seed % 400));
  Prng draw(Seed{mix64(seed, 1)});
  world.load();
  const char* const tags[] = {"", "TagA", "polygenelubricants", "b"};
  for (int i = 0; i < actions; ++i) {
    const uint64_t what = draw.below(100);
    if (what < 40) {
      const uint64_t count = draw.log_between(1, 200);
      for (uint64_t k = 0; k < count && world.has_room(); ++k) {
        const std::string topic = "topic" + std::to_string(draw.below(2));
        const auto queue = static_cast<int32_t>(draw.below(3));
        const uint32_t flag = draw.chance({1, 10}) ? sys_flag::kPrepared : draw.chance({1, 10}) ? sys_flag::kCommit : 0;
        const uint64_t tag = draw.below(4);
        world.append(topic, queue, tags[tag], flag, flag == sys_flag::kPrepared ? 0 : -1);
      }
      if (world.dispatched > 0 && draw.chance({1, 4})) --world.dispatched;   // offered again: something else derived was full
      world.dispatch(draw.chance({1, 2}) ? SIZE_MAX : 1 + draw.below(count));
    } else if (what < 55) {
      if (!world.is_round_running()) world.begin_round();
    } else if (what < 75) {
      for (uint64_t turns = draw.below(30); turns > 0; --turns) if (!world.turn()) break;
    } else if (what < 80) {
      world.driver.advance(Duration::milliseconds(static_cast<int64_t>(draw.below(12'000))));
      world.step([&](Ctx& ctx) { world.queues->pump(ctx); });
    } else if (what < 88) {
      const std::string difference = world.difference(world.dispatched);
      if (!difference.empty() && !world.driver.was_killed()) return "alive: " + difference;
    } else if (what < 92) {
      world.driver.arm_kill(1 + draw.below(20));
    } else {
      if (draw.chance({1, 2})) world.driver.crash({static_cast<uint32_t>(draw.below(5)), 4});
      else world.driver.kill();
      world.restart(draw.chance({1, 2}) ? UINT64_MAX : draw.below(world.log_end + 1));
      if (world.queues->needs_rebuild()) return "a rebuild is asked for";
      const std::string difference = world.difference(world.dispatched);
      if (!difference.empty()) return "loaded: " + difference;
    }
    if (world.driver.was_killed()) {
      world.driver.take_kill_image();
      world.restart();
      if (world.queues->needs_rebuild()) return "a rebuild is asked for after a kill";
      const std::string difference = world.difference(world.dispatched);
      if (!difference.empty()) return "after a kill: " + difference;
    }
    if (world.driver.halted()) return "halted: " + world.driver.halted()->text();
  }
  world.driver.arm_kill(0);
  world.dispatch();
  world.settle();
  const std::string difference = world.difference(world.records.size());
  return difference.empty() ? "" : "at the end: " + difference;
}

RC_GTEST_PROP(ConsumeQueueProperty, IsAVectorThroughEveryCrash, ()) {
  const auto seed = *rc::gen::arbitrary<uint64_t>();
  const std::string wrong = play(seed, 80);
  if (!wrong.empty()) RC_FAIL(fmt::format("seed {}: {}", seed, wrong));
}

// Each planted bug must be found by the same run within a few hundred seeds.
void expect_killed(Mutant mutant) {
  Planted planted(mutant);
  for (uint64_t seed = 0; seed < 400; ++seed)
    if (!play(seed, 80).empty()) return;
  ADD_FAILURE() << "planted bug " << static_cast<int>(mutant) << " survives; its branch was taken " << mutants::fired() << " times";
}

TEST(ConsumeQueueProperty, FindsEntriesTakenTwice) { expect_killed(Mutant::QueueTakesDuplicates); }
TEST(ConsumeQueueProperty, FindsARoundDoneBeforeItsFlush) { expect_killed(Mutant::QueueRoundDoneBeforeFlush); }
TEST(ConsumeQueueProperty, FindsAPrepareOfLiveEntries) { expect_killed(Mutant::QueuePreparesWholePage); }
TEST(ConsumeQueueProperty, FindsAnEndThatIsNotVerified) { expect_killed(Mutant::QueueEndNotVerified); }

}  // namespace
}  // namespace fulmar::testing
