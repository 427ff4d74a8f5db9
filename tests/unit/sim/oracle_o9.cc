// O9 by hand-made histories.

#include "history.h"
#include "sim/oracles/o9_ownership.h"

namespace fulmar::sim {
namespace {

struct OwnershipTest : testing::Test {
  Heard heard;
  Ownership oracle{heard};
  const std::vector<Ownership::Queue> queues{{"a", 0}, {"a", 1}, {"b", 0}};
  void demand() { oracle.demand("g", queues, "now"); }
};
TEST_F(OwnershipTest, EachQueueHasOneOwner) {
  oracle.assigned("g", 1, {{"a", 0}, {"a", 1}});
  oracle.assigned("g", 2, {{"b", 0}});
  demand();
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(OwnershipTest, WhatAMemberWasToldLastCounts) {
  oracle.assigned("g", 1, queues);
  oracle.assigned("g", 1, {{"a", 0}});
  oracle.assigned("g", 2, {{"a", 1}, {"b", 0}});
  demand();
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(OwnershipTest, MembersWithoutQueuesAreFine) {
  oracle.assigned("g", 1, queues);
  oracle.assigned("g", 2, {});
  oracle.assigned("another", 3, queues);
  demand();
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(OwnershipTest, NobodyOwnsIt) {
  oracle.assigned("g", 1, {{"a", 0}, {"a", 1}});
  demand();
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(OwnershipTest, ItsOwnerIsGone) {
  oracle.assigned("g", 1, queues);
  oracle.gone("g", 1);
  demand();
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(OwnershipTest, TwoOwnIt) {
  oracle.assigned("g", 1, queues);
  oracle.assigned("g", 2, {{"b", 0}});
  demand();
  EXPECT_EQ(heard.said.size(), 1u);
}

}  // namespace
}  // namespace fulmar::sim
