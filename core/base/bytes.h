#pragma once
// Views of bytes, and bounds-checked big-endian access to them. RocketMQ's files and frames are big-endian throughout (Java's
// ByteBuffer); the native protocol's two length words are the only little-endian integers on a wire.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "core/base/check.h"

namespace fulmar {

using Bytes = std::span<const uint8_t>;
using MutableBytes = std::span<uint8_t>;

inline Bytes as_bytes(std::string_view text) { return {reinterpret_cast<const uint8_t*>(text.data()), text.size()}; }
inline std::string_view as_text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
inline bool equal(Bytes a, Bytes b) { return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0); }

template <class T>
constexpr T byte_swapped(T value) {
  if constexpr (sizeof(T) == 1) return value;
  else if constexpr (sizeof(T) == 2) return static_cast<T>(__builtin_bswap16(static_cast<uint16_t>(value)));
  else if constexpr (sizeof(T) == 4) return static_cast<T>(__builtin_bswap32(static_cast<uint32_t>(value)));
  else return static_cast<T>(__builtin_bswap64(static_cast<uint64_t>(value)));
}

// Unchecked: the caller has measured. `at` needs sizeof(T) readable or writable bytes.
template <class T> T load_be(const uint8_t* at) { T v; std::memcpy(&v, at, sizeof v); return byte_swapped(v); }
template <class T> void store_be(uint8_t* at, T value) { value = byte_swapped(value); std::memcpy(at, &value, sizeof value); }
template <class T> T load_le(const uint8_t* at) { T v; std::memcpy(&v, at, sizeof v); return v; }
template <class T> void store_le(uint8_t* at, T value) { std::memcpy(at, &value, sizeof value); }
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "load_le and store_le copy as they are");

// Reads forward. Past the end it returns zeros and empty views and `ok()` turns false for good, so that a parser checks once.
class Reader {
 public:
  explicit Reader(Bytes bytes) : bytes_(bytes) {}
  template <class T> T be() {
    if (remaining() < sizeof(T)) return fail<T>();
    T v = load_be<T>(bytes_.data() + at_);
    at_ += sizeof(T);
    return v;
  }
  uint8_t u8() { return be<uint8_t>(); }
  uint16_t u16() { return be<uint16_t>(); }
  uint32_t u32() { return be<uint32_t>(); }
  uint64_t u64() { return be<uint64_t>(); }
  int16_t i16() { return be<int16_t>(); }
  int32_t i32() { return be<int32_t>(); }
  int64_t i64() { return be<int64_t>(); }
  Bytes bytes(size_t count) {
    if (remaining() < count) return fail<Bytes>();
    Bytes out = bytes_.subspan(at_, count);
    at_ += count;
    return out;
  }
  std::string_view text(size_t count) { return as_text(bytes(count)); }
  void skip(size_t count) { (void)bytes(count); }
  size_t at() const { return at_; }
  size_t remaining() const { return ok_ ? bytes_.size() - at_ : 0; }
  bool ok() const { return ok_; }

 private:
  template <class T> T fail() { ok_ = false; return T{}; }
  Bytes bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

// Writes forward into a range whose size the caller has computed: running over is our own bug, hence CHECK.
class Writer {
 public:
  explicit Writer(MutableBytes bytes) : bytes_(bytes) {}
  template <class T> void be(T value) { store_be(take(sizeof(T)), value); }
  void u8(uint8_t v) { be(v); }
  void u16(uint16_t v) { be(v); }
  void u32(uint32_t v) { be(v); }
  void u64(uint64_t v) { be(v); }
  void i16(int16_t v) { be(v); }
  void i32(int32_t v) { be(v); }
  void i64(int64_t v) { be(v); }
  void bytes(Bytes b) { if (!b.empty()) std::memcpy(take(b.size()), b.data(), b.size()); }
  void text(std::string_view t) { bytes(as_bytes(t)); }
  void fill(size_t count, uint8_t value) { if (count != 0) std::memset(take(count), value, count); }
  size_t at() const { return at_; }
  size_t remaining() const { return bytes_.size() - at_; }

 private:
  uint8_t* take(size_t count) {
    CHECK(count <= bytes_.size() - at_, "write of {} at {} of {}", count, at_, bytes_.size());
    uint8_t* p = bytes_.data() + at_;
    at_ += count;
    return p;
  }
  MutableBytes bytes_;
  size_t at_ = 0;
};

}  // namespace fulmar
