#pragma once
// Bounds of the native protocol that both directions of the codec keep.

#include <cstddef>

namespace fulmar::native {

// No name, address or sentence is longer: what was encoded also decodes.
inline constexpr size_t kTextBytesMax = 8192;
inline constexpr size_t kTableEntryBytesMin = 2 + 4 + 4 + 4;  // of a topic table: an entry without its name

}  // namespace fulmar::native
