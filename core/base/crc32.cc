#include "core/base/crc32.h"

#include <libdeflate.h>

#include <array>

namespace fulmar {

// libdeflate answers a null pointer with the initial value, so an empty view is not for it.
uint32_t crc32(Bytes bytes, uint32_t before) { return bytes.empty() ? before : libdeflate_crc32(before, bytes.data(), bytes.size()); }

namespace {
constexpr uint32_t kPolynomial = 0xEDB88320u;  // reflected

// Product of two polynomials modulo kPolynomial, both reflected: bit 31 is x^0.
constexpr uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = 1u << 31; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b & 1) != 0 ? (b >> 1) ^ kPolynomial : b >> 1;
  }
  return product;
}
// Appending 2^k zero bytes, as a linear map of the 32 bits of a checksum: one table for each four of them.
using Shift = std::array<std::array<uint32_t, 16>, 8>;
constexpr size_t kShifts = 24;

constexpr std::array<Shift, kShifts> make_shifts() {
  std::array<Shift, kShifts> out{};
  uint32_t power = 1u << 23;     // x^8, then its square, and so on
  for (Shift& shift : out) {
    for (uint32_t nibble = 0; nibble < 8; ++nibble)
      for (uint32_t value = 0; value < 16; ++value) shift[nibble][value] = multiply(power, value << (4 * nibble));
    power = multiply(power, power);
  }
  return out;
}
constexpr std::array<Shift, kShifts> kShiftTables = make_shifts();

uint32_t apply(const Shift& shift, uint32_t crc) {
  uint32_t out = 0;
  for (uint32_t nibble = 0; nibble < 8; ++nibble) out ^= shift[nibble][crc >> (4 * nibble) & 0xF];
  return out;
}
}  // namespace

uint32_t crc32_combine(uint32_t a, uint32_t b, uint64_t b_bytes) {
  for (size_t k = 0; k < kShifts; ++k)
    if ((b_bytes >> k & 1) != 0) a = apply(kShiftTables[k], a);
  // What nobody has: bodies of 16 MiB and more. Appending n bytes multiplies the first checksum by x^(8n): square and multiply.
  uint32_t square = kShiftTables[kShifts - 1][7][8];   // what becomes of bit 31, x^0: x^(8 * 2^23)
  for (uint64_t n = b_bytes >> kShifts; n != 0; n >>= 1) {
    square = multiply(square, square);
    if ((n & 1) != 0) a = multiply(square, a);
  }
  return a ^ b;
}

}  // namespace fulmar
