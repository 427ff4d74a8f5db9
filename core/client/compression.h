#pragma once
// Compressed bodies as RocketMQ's clients make and read them (remoting.md 3.4): a zlib stream (RFC 1950), an LZ4 frame or a zstd frame, named
// by the sysFlag. Brokers store what comes; only clients look inside. Pure functions of their input and of the libraries' versions.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/result.h"
#include "core/model/config.h"
#include "core/model/message.h"

namespace fulmar {

// How a compressed body is packed, beside sys_flag::kCompressed; 0 means zlib, too.
namespace sys_flag {
inline constexpr uint32_t kCompressionMask = 0x700;
inline constexpr uint32_t kLz4 = 0x100;
inline constexpr uint32_t kZstd = 0x200;
inline constexpr uint32_t kZlib = 0x300;
}  // namespace sys_flag

// What sysFlag must say of a body compressed so.
constexpr uint32_t compression_flags(CompressionType type) {
  return sys_flag::kCompressed | (type == CompressionType::Zlib ? sys_flag::kZlib : type == CompressionType::Lz4 ? sys_flag::kLz4 : sys_flag::kZstd);
}

// False when nothing is won (random bytes, no memory): the body is then sent as it is. `out` is replaced; `level` 1 to 9.
bool compress(CompressionType type, int32_t level, Bytes body, std::vector<uint8_t>& out);

// What a consumer sees of a body with that sysFlag: `body` itself when it is not compressed, else a view of `scratch`.
// RecordBroken: it is not what the flag says, or has bytes behind its end. RecordTooLarge: it inflates to more than `bytes_max`; at most
// that much is ever allocated. Unsupported: a flag of a later version.
Result<Bytes> plain_body(uint32_t flags, Bytes body, size_t bytes_max, std::vector<uint8_t>& scratch);

}  // namespace fulmar
