#include "core/base/crc32.h"

#include <libdeflate.h>

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
}  // namespace

uint32_t crc32_combine(uint32_t a, uint32_t b, uint64_t b_bytes) {
  // Appending n bytes multiplies the first checksum by x^(8n): square and multiply.
  uint32_t power = 1u << 31;     // x^0
  uint32_t square = 1u << 23;    // x^8
  for (uint64_t n = b_bytes; n != 0; n >>= 1) {
    if ((n & 1) != 0) power = multiply(square, power);
    square = multiply(square, square);
  }
  return multiply(power, a) ^ b;
}

}  // namespace fulmar
