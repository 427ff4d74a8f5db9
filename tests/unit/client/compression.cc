#include "core/client/compression.h"

#include <gtest/gtest.h>
#include <libdeflate.h>
#include <lz4frame.h>
#include <zstd.h>

#include <string>

#include "core/base/prng.h"

namespace fulmar {
namespace {

constexpr size_t kMax = 4u << 20;
constexpr CompressionType kAll[] = {CompressionType::Zlib, CompressionType::Lz4, CompressionType::Zstd};

std::string words(size_t bytes) {
  Prng prng(Seed{3});
  std::string out;
  while (out.size() < bytes) out += "word-" + std::to_string(prng.below(40)) + ' ';
  out.resize(bytes);
  return out;
}

TEST(Compression, ComesBackFromEachFormatAndLevel) {
  for (const CompressionType type : kAll) {
    for (const int32_t level : {1, 5, 9}) {
      for (const size_t bytes : {size_t{64}, size_t{4096}, size_t{100'000}, kMax}) {
        const std::string body = words(bytes);
        std::vector<uint8_t> packed, scratch;
        ASSERT_TRUE(compress(type, level, as_bytes(body), packed)) << bytes;
        const Result<Bytes> plain = plain_body(compression_flags(type), packed, kMax, scratch);
        ASSERT_TRUE(plain.has_value()) << plain.error().text();
        EXPECT_EQ(as_text(*plain), body);
      }
    }
  }
}

TEST(Compression, TheFlagsAreRocketMqs) {
  EXPECT_EQ(compression_flags(CompressionType::Lz4), 0x101u);
  EXPECT_EQ(compression_flags(CompressionType::Zstd), 0x201u);
  EXPECT_EQ(compression_flags(CompressionType::Zlib), 0x301u);
}

TEST(Compression, ClientsThatNameNoFormatMeanZlib) {
  const std::string body = words(5000);
  std::vector<uint8_t> packed, scratch;
  ASSERT_TRUE(compress(CompressionType::Zlib, 5, as_bytes(body), packed));
  EXPECT_EQ(packed[0], 0x78);  // RFC 1950
  const Result<Bytes> plain = plain_body(0x1, packed, kMax, scratch);
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(as_text(*plain), body);
}

TEST(Compression, RandomBytesAreNotWorthIt) {
  Prng prng(Seed{5});
  std::vector<uint8_t> body(8192), packed;
  for (uint8_t& b : body) b = static_cast<uint8_t>(prng.below(256));
  for (const CompressionType type : kAll) EXPECT_FALSE(compress(type, 5, body, packed));
}

TEST(Compression, APlainBodyIsItself) {
  std::vector<uint8_t> scratch;
  const std::string body = "plain";
  const Result<Bytes> plain = plain_body(0x300, as_bytes(body), 1, scratch);  // the type bits alone mean nothing
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(plain->data(), as_bytes(body).data());
}

TEST(Compression, ALyingFlagIsTold) {
  const std::string body = words(5000);
  std::vector<uint8_t> scratch;
  for (const uint32_t flags : {0x1u, 0x101u, 0x201u, 0x301u}) {
    const Result<Bytes> plain = plain_body(flags, as_bytes(body), kMax, scratch);
    ASSERT_FALSE(plain.has_value());
    EXPECT_EQ(plain.error().code, Errc::RecordBroken);
    EXPECT_EQ(plain_body(flags, {}, kMax, scratch).error().code, Errc::RecordBroken) << flags;
  }
  EXPECT_EQ(plain_body(0x701, as_bytes(body), kMax, scratch).error().code, Errc::Unsupported);
}

TEST(Compression, CutShortOrLengthenedIsTold) {
  const std::string body = words(50'000);
  for (const CompressionType type : kAll) {
    std::vector<uint8_t> packed, scratch;
    ASSERT_TRUE(compress(type, 5, as_bytes(body), packed));
    for (const size_t bytes : {size_t{1}, packed.size() / 2, packed.size() - 1}) {
      EXPECT_EQ(plain_body(compression_flags(type), Bytes(packed).first(bytes), kMax, scratch).error().code, Errc::RecordBroken) << bytes;
    }
    packed.push_back(0);
    EXPECT_EQ(plain_body(compression_flags(type), packed, kMax, scratch).error().code, Errc::RecordBroken);
  }
}

// A bomb: 64 MiB of zeros in a few KiB.
TEST(Compression, NeverInflatesBeyondTheBound) {
  const std::vector<uint8_t> zeros(64u << 20);
  for (const CompressionType type : kAll) {
    std::vector<uint8_t> packed, scratch;
    ASSERT_TRUE(compress(type, 5, zeros, packed));
    const Result<Bytes> plain = plain_body(compression_flags(type), packed, kMax, scratch);
    ASSERT_FALSE(plain.has_value());
    EXPECT_EQ(plain.error().code, Errc::RecordTooLarge);
    EXPECT_LE(scratch.capacity(), 2 * kMax);
  }
}

TEST(Compression, ExactlyTheBoundIsFine) {
  const std::string body = words(10'000);
  for (const CompressionType type : kAll) {
    std::vector<uint8_t> packed, scratch;
    ASSERT_TRUE(compress(type, 5, as_bytes(body), packed));
    EXPECT_TRUE(plain_body(compression_flags(type), packed, 10'000, scratch).has_value());
    EXPECT_EQ(plain_body(compression_flags(type), packed, 9'999, scratch).error().code, Errc::RecordTooLarge);
  }
}

}  // namespace
}  // namespace fulmar
