#include "core/base/nearest.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace fulmar {

namespace {

constexpr size_t kNameBytesMax = 256;  // longer ones are nobody's slip, and comparing costs the product of the lengths

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Damerau's distance in its restricted form: a letter changed, added, left out, or swapped with its neighbour costs one.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> two_ago(b.size() + 1), one_ago(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    two_ago.swap(one_ago);
    one_ago.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool is_same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({one_ago[j - 1] + (is_same ? 0 : 1), one_ago[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1])) row[j] = std::min(row[j], two_ago[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view nearest_name(std::string_view given, std::span<const std::string_view> known) {
  std::string_view nearest;
  if (given.empty() || given.size() > kNameBytesMax) return nearest;
  size_t least = kNameBytesMax;
  for (const std::string_view name : known) {
    const size_t distance = edit_distance(given, name);
    const size_t longer = std::max(given.size(), name.size());
    if (distance > std::max<size_t>(1, longer / 3) || distance >= longer || distance >= least) continue;
    least = distance;
    nearest = name;
  }
  return nearest;
}

}  // namespace fulmar
