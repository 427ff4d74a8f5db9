#include "core/base/nearest.h"

#include <gtest/gtest.h>

#include <array>

namespace fulmar {
namespace {

TEST(NearestName, NamesTheOneThatWasMeant) {
  constexpr std::array<std::string_view, 5> known{"list", "describe", "delete", "create", "status"};
  EXPECT_EQ(nearest_name("lst", known), "list");
  EXPECT_EQ(nearest_name("DELTE", known), "delete");
  EXPECT_EQ(nearest_name("craete", known), "create");
  EXPECT_EQ(nearest_name("describ", known), "describe");
}

TEST(NearestName, IsSilentWhenNoneIsNear) {
  constexpr std::array<std::string_view, 4> known{"list", "brokerIP1", "n", "flushDiskType"};
  EXPECT_EQ(nearest_name("", known), "");
  EXPECT_EQ(nearest_name("completelyOther", known), "");
  EXPECT_EQ(nearest_name("q", known), "");              // one letter for another is no slip
  EXPECT_EQ(nearest_name("last", known), "list");
  EXPECT_EQ(nearest_name(std::string(5000, 'x'), known), "");
}

TEST(NearestName, OfEquallyNearOnesTheFirst) {
  constexpr std::array<std::string_view, 2> known{"cat", "cut"};
  EXPECT_EQ(nearest_name("cot", known), "cat");
}

}  // namespace
}  // namespace fulmar
