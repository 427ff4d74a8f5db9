#pragma once
// java.lang.String.hashCode over UTF-16 code units, for tag codes and index keys: h = 31 h + unit, wrapping at 32 bits, signed.

#include <cstdint>
#include <cstring>
#include <string_view>

namespace fulmar {

// `text` is UTF-8. Malformed sequences hash as U+FFFD per bad byte, as Java's decoder replaces them.
inline int32_t java_hash(std::string_view text) {
  uint32_t h = 0;
  const auto unit = [&h](uint32_t u) { h = h * 31 + u; };
  size_t i = 0;
  const auto at = [&](size_t k) { return static_cast<uint8_t>(text[k]); };
  const auto follows = [&](size_t k) { return k < text.size() && (at(k) & 0xC0) == 0x80; };
  while (i < text.size()) {
    // Eight plain bytes at once: the chain of multiplications is what costs.
    if (i + 8 <= text.size()) {
      uint64_t eight = 0;
      std::memcpy(&eight, text.data() + i, 8);
      if ((eight & 0x8080808080808080u) == 0) {
        constexpr uint32_t p2 = 31u * 31, p3 = p2 * 31, p4 = p3 * 31, p5 = p4 * 31, p6 = p5 * 31, p7 = p6 * 31, p8 = p7 * 31;
        h = h * p8 + (at(i) * p7 + at(i + 1) * p6 + at(i + 2) * p5 + at(i + 3) * p4) + (at(i + 4) * p3 + at(i + 5) * p2 + at(i + 6) * 31u + at(i + 7));
        i += 8;
        continue;
      }
    }
    const uint32_t c = at(i);
    if (c < 0x80) { unit(c); i += 1; }
    else if (c >= 0xC2 && c < 0xE0 && follows(i + 1)) { unit(((c & 0x1F) << 6) | (at(i + 1) & 0x3Fu)); i += 2; }
    else if (c >= 0xE0 && c < 0xF0 && follows(i + 1) && follows(i + 2) && !(c == 0xE0 && at(i + 1) < 0xA0) && !(c == 0xED && at(i + 1) >= 0xA0)) {
      unit(((c & 0x0F) << 12) | ((at(i + 1) & 0x3Fu) << 6) | (at(i + 2) & 0x3Fu));
      i += 3;
    } else if (c >= 0xF0 && c < 0xF5 && follows(i + 1) && follows(i + 2) && follows(i + 3) && !(c == 0xF0 && at(i + 1) < 0x90) && !(c == 0xF4 && at(i + 1) >= 0x90)) {
      const uint32_t point = (((c & 0x07) << 18) | ((at(i + 1) & 0x3Fu) << 12) | ((at(i + 2) & 0x3Fu) << 6) | (at(i + 3) & 0x3Fu)) - 0x10000;
      unit(0xD800 + (point >> 10));
      unit(0xDC00 + (point & 0x3FF));
      i += 4;
    } else { unit(0xFFFD); i += 1; }
  }
  return static_cast<int32_t>(h);
}

}  // namespace fulmar
