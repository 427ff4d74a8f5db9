// O4c on hand-made histories.

#include "history.h"
#include "sim/oracles/o4c_once.h"

namespace fulmar::sim {
namespace {

TEST(CalmExactlyOnceTest, OnceEach) {
  Heard heard;
  CalmExactlyOnce once(heard, true);
  once.delivered("g", kQueue, {0, 1});
  once.delivered("g", kQueue, {2});
  once.delivered("h", kQueue, {0, 1, 2});
  once.found({7, 1}, 1);
  EXPECT_TRUE(heard.is_silent());
}
TEST(CalmExactlyOnceTest, AGroupGetsItAgain) {
  Heard heard;
  CalmExactlyOnce once(heard, true);
  once.delivered("g", kQueue, {0, 1});
  once.delivered("g", kQueue, {1, 2});
  ASSERT_EQ(heard.said.size(), 1u);
  EXPECT_TRUE(heard.said[0].starts_with("O4c: ")) << heard.said[0];
}
TEST(CalmExactlyOnceTest, AMovedGroupMay) {
  Heard heard;
  CalmExactlyOnce once(heard, true);
  once.delivered("g", kQueue, {0, 1, 2});
  once.moves("g");
  once.delivered("g", kQueue, {1, 2});
  EXPECT_TRUE(heard.is_silent());
}
TEST(CalmExactlyOnceTest, TwoPlaces) {
  Heard heard;
  CalmExactlyOnce once(heard, true);
  once.found({7, 1}, 2);
  EXPECT_FALSE(heard.is_silent());
}
TEST(CalmExactlyOnceTest, DisturbedRunsMay) {
  Heard heard;
  CalmExactlyOnce once(heard, false);
  once.delivered("g", kQueue, {0});
  once.delivered("g", kQueue, {0});
  once.found({7, 1}, 2);
  EXPECT_TRUE(heard.is_silent());
}

}  // namespace
}  // namespace fulmar::sim
