#pragma once
// "Did you mean …?": the known name that a mistyped one is nearest to, when it is near at all.

#include <span>
#include <string_view>

namespace fulmar {

// Letters are compared without case. Empty when none is near: more than a third of the letters would have to change, or the names differ
// so much that a suggestion would only puzzle. Of equally near ones the first.
std::string_view nearest_name(std::string_view given, std::span<const std::string_view> known);

}  // namespace fulmar
