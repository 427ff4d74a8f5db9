#include <gtest/gtest.h>

#include "sim/keyed.h"
#include "sim/owned_command.h"
#include "sim/profile.h"
#include "sim/range_set.h"
#include "sim/schedule.h"

namespace fulmar::sim {
namespace {

struct Recording : EventHandler {
  Recording(uint64_t entity, std::vector<uint64_t>& log) : EventHandler(entity), log_(log) {}
  void on_event(uint64_t what, uint64_t) override { log_.push_back(what); }
  std::vector<uint64_t>& log_;
};

TEST(Schedule, OrdersByTimeThenClass) {
  std::vector<uint64_t> log;
  Schedule schedule(Seed{1});
  Recording handler(1, log);
  schedule.add(SimTime{20}, EventClass::Fault, handler, 4);
  schedule.add(SimTime{10}, EventClass::Step, handler, 3);
  schedule.add(SimTime{10}, EventClass::Fault, handler, 1);
  schedule.add(SimTime{10}, EventClass::Network, handler, 2);
  while (schedule.run_one(SimTime{15})) {}
  EXPECT_EQ(log, (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_EQ(schedule.now(), SimTime{15});
}

// The order of two events of one instant does not depend on what a third handler does.
TEST(Schedule, TiesAreKeyedByHandler) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<uint64_t> with, without;
    for (std::vector<uint64_t>* log : {&with, &without}) {
      Schedule schedule(Seed{seed});
      Recording a(1, *log), b(2, *log), c(3, *log);
      if (log == &with) schedule.add(SimTime{5}, EventClass::Network, c, 9);
      schedule.add(SimTime{5}, EventClass::Network, a, 1);
      schedule.add(SimTime{5}, EventClass::Network, b, 2);
      while (schedule.run_one(SimTime{5})) {}
    }
    std::erase(with, uint64_t{9});
    EXPECT_EQ(with, without);
  }
}

TEST(Keyed, StreamsOfEntitiesAreIndependent) {
  KeyedStream a(Seed{1}, Domain::LinkLatency, uint64_t{1}), b(Seed{1}, Domain::LinkLatency, uint64_t{2}), again(Seed{1}, Domain::LinkLatency, uint64_t{1});
  const uint64_t first = a.next();
  EXPECT_NE(first, b.next());
  EXPECT_EQ(first, again.next());
  EXPECT_NE(draw(Seed{1}, Domain::Cost, 1, 1), draw(Seed{1}, Domain::Cost, 1, 2));
}

TEST(Latency, HasItsMean) {
  const Latency latency{Duration::microseconds(10), Duration::microseconds(100), {}, {}};
  Prng prng(Seed{4});
  int64_t sum = 0;
  for (int i = 0; i < 10'000; ++i) sum += latency.draw(prng).ns;
  EXPECT_NEAR(static_cast<double>(sum) / 10'000, 110'000, 4'000);
}

TEST(RangeSet, JoinsAndSubtracts) {
  RangeSet set;
  set.add({0, 10});
  set.add({20, 30});
  EXPECT_FALSE(set.contains({5, 25}));
  set.add({10, 20});
  EXPECT_TRUE(set.contains({0, 30}));
  set.subtract({5, 8});
  EXPECT_FALSE(set.contains({0, 6}));
  EXPECT_TRUE(set.contains({8, 30}));
  EXPECT_TRUE(set.intersects({4, 6}));
  EXPECT_FALSE(set.intersects({5, 8}));
}

TEST(OwnedCommand, KeepsWhatItBorrows) {
  std::string topic = "orders", body = "hello";
  OwnedCommand owned{command::SendMessage{topic, 3, 0, 0, Wall{1}, 0, {}, as_bytes(body), {}}};
  const uint64_t digest = owned.digest();
  topic = "xxxxxx";
  body = "yyyyy";
  const OwnedCommand moved = std::move(owned);
  const auto& send = std::get<command::SendMessage>(moved.command());
  EXPECT_EQ(send.topic, "orders");
  EXPECT_EQ(as_text(send.body), "hello");
  EXPECT_EQ(moved.digest(), digest);
}

}  // namespace
}  // namespace fulmar::sim
