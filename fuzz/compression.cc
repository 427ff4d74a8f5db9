// Compressed bodies from strangers. The first byte chooses the flags, the second the bound; the rest is the body. Whatever inflates stays
// below its bound, and comes back from our own compressor.

#include <algorithm>
#include <vector>

#include "core/base/check.h"
#include "core/client/compression.h"

namespace {

using namespace fulmar;

constexpr uint32_t kFlags[] = {0x1, 0x101, 0x201, 0x301, 0x701, 0x0};
constexpr CompressionType kTypes[] = {CompressionType::Zlib, CompressionType::Lz4, CompressionType::Zstd};

void check_round_trip(Bytes body) {
  for (const CompressionType type : kTypes) {
    std::vector<uint8_t> packed, scratch;
    if (!compress(type, 1 + static_cast<int32_t>(body.size() % 9), body, packed)) continue;
    CHECK(packed.size() < body.size());
    const Result<Bytes> plain = plain_body(compression_flags(type), packed, body.size(), scratch);
    CHECK(plain.has_value(), "{}", plain.error().text());
    CHECK(equal(*plain, body));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2 || size > (1u << 16)) return 0;
  const Bytes body(data + 2, size - 2);
  const size_t bytes_max = size_t{1} << (data[1] % 22);
  std::vector<uint8_t> scratch;
  const Result<Bytes> plain = plain_body(kFlags[data[0] % std::size(kFlags)], body, bytes_max, scratch);
  CHECK(scratch.capacity() <= std::max<size_t>(2 * bytes_max + 2, 128u << 10), "{} for {}", scratch.capacity(), bytes_max);
  if (!plain) {
    CHECK(!plain.error().detail.empty());
    return 0;
  }
  CHECK(plain->size() <= bytes_max || data[0] % std::size(kFlags) == 5);
  check_round_trip(*plain);
  return 0;
}
