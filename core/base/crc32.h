#pragma once
// CRC-32 with zlib's polynomial, as java.util.zip.CRC32 computes it, over libdeflate (SIMD with a portable twin chosen at run time).

#include <cstdint>

#include "core/base/bytes.h"

namespace fulmar {

// crc32(b, crc32(a)) is the checksum of a followed by b. Start with 0.
uint32_t crc32(Bytes bytes, uint32_t before = 0);
// The checksum of a followed by b, from the checksums of both and the length of b: O(log bytes), no bytes needed. Source: zlib's
// crc32_combine method (matrix squaring over GF(2)), implemented from its mathematical definition.
uint32_t crc32_combine(uint32_t a, uint32_t b, uint64_t b_bytes);
// As RocketMQ stores it: the top bit cleared.
inline uint32_t record_crc(Bytes bytes) { return crc32(bytes) & 0x7FFFFFFFu; }

}  // namespace fulmar
