// Results, ids, times, bytes and checks: the vocabulary of everything else.

#include <gtest/gtest.h>

#include "core/base/bytes.h"
#include "core/base/id.h"
#include "core/base/result.h"
#include "core/base/time.h"

namespace fulmar {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return Error(Errc::InvalidArgument, "odd");
  return n / 2;
}
Result<std::string> quarter_text(int n) {
  FULMAR_TRY(const int first, half(n));
  FULMAR_TRY(const int second, half(first));
  return std::to_string(second);
}
Result<void> check_even(int n) {
  FULMAR_TRY_VOID(half(n));
  return {};
}

TEST(Result, TryPassesValuesAndErrorsUp) {
  EXPECT_EQ(*quarter_text(12), "3");
  ASSERT_FALSE(quarter_text(6));
  EXPECT_EQ(quarter_text(6).code(), Errc::InvalidArgument);
  EXPECT_EQ(quarter_text(6).error().text(), "InvalidArgument: odd");
  EXPECT_TRUE(check_even(2));
  EXPECT_EQ(check_even(3).code(), Errc::InvalidArgument);
}
TEST(Result, AnErrorIsItsCodeForComparison) {
  EXPECT_EQ(Error(Errc::DiskFull, "a"), Error(Errc::DiskFull, "b"));
  EXPECT_EQ(Error(Errc::DiskFull).text(), "DiskFull");
  EXPECT_EQ(to_string(Errc::UnflushedLimit), "UnflushedLimit");
  EXPECT_EQ(to_string(Errc::Internal), "Internal");
}

TEST(CheckDeathTest, NamesExpressionValuesStepAndSeed) {
  crash_context() = {.step = 7, .seed = 42, .node = "broker-a"};
  const int appended = 3, flushed = 4;
  EXPECT_DEATH(CHECK(flushed <= appended, "appended {} flushed {}", appended, flushed),
               "CHECK failed: flushed <= appended at .*values_test.cc:[0-9]+: appended 3 flushed 4 .node broker-a step 7 seed 42");
  CHECK(appended == 3);
  AUDIT(appended == 3);
  crash_context() = {};
}
TEST(CheckDeathTest, CallsTheHookBeforeItAborts) {
  static const char* kHook = "replay with --seed 1";
  crash_context().on_crash = [](const std::string& report, void* arg) {
    std::fprintf(stderr, "%s after %zu\n", static_cast<const char*>(arg), report.find("CHECK"));
  };
  crash_context().arg = const_cast<char*>(kHook);
  EXPECT_DEATH(CHECK(false), "replay with --seed 1 after 0");
  crash_context() = {};
}

using Bytecount = Count<struct BytecountTag>;
using Place = Offset<struct PlaceTag, Bytecount>;
TEST(Ids, AnOffsetIsAPlaceAndACountADistance) {
  const Place at(100);
  EXPECT_EQ((at + Bytecount(20)).value(), 120u);
  EXPECT_EQ((at - Bytecount(20)).value(), 80u);
  EXPECT_EQ(Place(120) - at, Bytecount(20));
  EXPECT_LT(at, Place(101));
  Place moved = at;
  moved += Bytecount(1);
  EXPECT_EQ(moved, Place(101));
  EXPECT_EQ(Bytecount(3) + Bytecount(4) - Bytecount(5), Bytecount(2));
  EXPECT_EQ(fmt::format("{} {:04} {:x}", at, Bytecount(7), Id<struct Hex>(255)), "100 0007 ff");
}
template <class A, class B>
concept Addable = requires(A a, B b) { a + b; };
static_assert(!Addable<Place, Place> && !Addable<Bytecount, Place> && Addable<Place, Bytecount>);
static_assert(!std::is_convertible_v<uint64_t, Place> && !std::is_convertible_v<Bytecount, Place>);

TEST(Times, MonotonicSaturatesAtNever) {
  EXPECT_EQ(Monotonic::never() + Duration::seconds(1), Monotonic::never());
  EXPECT_EQ(Monotonic{5} + Duration::microseconds(1), Monotonic{1005});
  EXPECT_EQ(Monotonic{1'000'000} - Monotonic{1}, Duration{999'999});
  EXPECT_EQ(Duration::seconds(2).ms(), 2000);
  EXPECT_EQ(Duration::milliseconds(3) * 2 / 3, Duration::milliseconds(2));
}

TEST(Reader, ReadsBigEndianAndStopsAtTheEnd) {
  const uint8_t raw[] = {0x01, 0x02, 0x03, 0x04, 0xFF, 0xFE, 'a', 'b', 0x80};
  Reader in(raw);
  EXPECT_EQ(in.u32(), 0x01020304u);
  EXPECT_EQ(in.i16(), -2);
  EXPECT_EQ(in.text(2), "ab");
  EXPECT_EQ(in.remaining(), 1u);
  EXPECT_TRUE(in.ok());
  EXPECT_EQ(in.u16(), 0);  // one byte too many
  EXPECT_FALSE(in.ok());
  EXPECT_EQ(in.u8(), 0);  // and for good, although a byte is left
  EXPECT_EQ(in.remaining(), 0u);
  EXPECT_TRUE(in.bytes(0).empty());
}
TEST(Reader, HugeCountsDoNotWrapAround) {
  const uint8_t raw[] = {1, 2, 3};
  for (const size_t count : {size_t{4}, SIZE_MAX, SIZE_MAX - 2}) {
    Reader in(raw);
    (void)in.u8();
    EXPECT_TRUE(in.bytes(count).empty());
    EXPECT_FALSE(in.ok());
  }
  Reader in(raw);
  in.skip(3);
  EXPECT_TRUE(in.ok());
  in.skip(1);
  EXPECT_FALSE(in.ok());
}
TEST(Writer, WritesInPlaceAndChecksItsRoom) {
  uint8_t raw[8] = {};
  Writer out(raw);
  out.u16(0x0102);
  out.text("xy");
  out.fill(2, 0xEE);
  EXPECT_EQ(out.at(), 6u);
  EXPECT_EQ(out.remaining(), 2u);
  const uint8_t expected[] = {1, 2, 'x', 'y', 0xEE, 0xEE, 0, 0};
  EXPECT_TRUE(equal(raw, expected));
  EXPECT_DEATH(out.u32(1), "write of 4 at 6 of 8");
}
TEST(Bytes, LittleEndianIsOnlyForFrames) {
  uint8_t raw[4];
  store_le<uint32_t>(raw, 0x01020304);
  EXPECT_EQ(raw[0], 4);
  EXPECT_EQ(load_le<uint32_t>(raw), 0x01020304u);
  EXPECT_EQ(load_be<uint32_t>(raw), 0x04030201u);
  EXPECT_FALSE(equal(as_bytes("ab"), as_bytes("abc")));
  EXPECT_TRUE(equal({}, as_bytes("")));
}

}  // namespace
}  // namespace fulmar
