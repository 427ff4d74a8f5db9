// What is written comes back, what is combined equals what is walked, and no text breaks a reader.

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <zlib.h>

#include <algorithm>

#include "core/base/bytes.h"
#include "core/base/crc32.h"
#include "core/base/json.h"
#include "core/base/prng.h"

namespace fulmar {
namespace {

RC_GTEST_PROP(Crc32, IsZlibsAndCombines, (const std::vector<uint8_t>& a, const std::vector<uint8_t>& b)) {
  std::vector<uint8_t> both = a;
  both.insert(both.end(), b.begin(), b.end());
  const uint32_t whole = crc32(both);
  RC_ASSERT(whole == ::crc32(0, both.data() == nullptr ? reinterpret_cast<const Bytef*>("") : both.data(), static_cast<uInt>(both.size())));
  RC_ASSERT(crc32(b, crc32(a)) == whole);
  RC_ASSERT(crc32_combine(crc32(a), crc32(b), b.size()) == whole);
}
RC_GTEST_PROP(Crc32, CombinesOverAnyLengthLikeZlib, (uint32_t a, uint32_t b, uint32_t bytes)) {
  RC_ASSERT(crc32_combine(a, b, bytes) == static_cast<uint32_t>(::crc32_combine(a, b, static_cast<z_off_t>(bytes))));
}

RC_GTEST_PROP(Writer, IsReadBack, (uint8_t a, uint16_t b, uint32_t c, uint64_t d, int16_t e, int32_t f, int64_t g, const std::string& text)) {
  std::vector<uint8_t> raw(29 + text.size());
  Writer out(raw);
  out.u8(a); out.u16(b); out.u32(c); out.u64(d); out.i16(e); out.i32(f); out.i64(g); out.text(text);
  RC_ASSERT(out.remaining() == 0u);
  Reader in(raw);
  RC_ASSERT(in.u8() == a); RC_ASSERT(in.u16() == b); RC_ASSERT(in.u32() == c); RC_ASSERT(in.u64() == d);
  RC_ASSERT(in.i16() == e); RC_ASSERT(in.i32() == f); RC_ASSERT(in.i64() == g); RC_ASSERT(in.text(text.size()) == text);
  RC_ASSERT(in.ok() && in.remaining() == 0u);
}
RC_GTEST_PROP(Reader, NeverLeavesItsBytes, (const std::vector<uint8_t>& raw, const std::vector<uint8_t>& script)) {
  Reader in(raw);
  bool was_ok = true;
  for (const uint8_t what : script) {
    switch (what % 5) {
      case 0: (void)in.u8(); break;
      case 1: (void)in.u16(); break;
      case 2: (void)in.u32(); break;
      case 3: (void)in.u64(); break;
      default: RC_ASSERT(in.bytes(what).size() <= raw.size());
    }
    RC_ASSERT(in.at() + in.remaining() <= raw.size());
    RC_ASSERT(was_ok || !in.ok());
    was_ok = in.ok();
  }
}

RC_GTEST_PROP(Prng, StaysInItsRanges, (uint64_t seed, int64_t a, int64_t b)) {
  const int64_t low = std::min(a, b), high = std::max(a, b);
  Prng prng(Seed{seed});
  const int64_t between = prng.between(low, high);
  RC_ASSERT(low <= between && between <= high);
  if (low > 0) {
    const uint64_t value = prng.log_between(static_cast<uint64_t>(low), static_cast<uint64_t>(high));
    RC_ASSERT(static_cast<uint64_t>(low) <= value && value <= static_cast<uint64_t>(high));
  }
}

RC_GTEST_PROP(Json, OffsetTablesComeBack, (const std::map<std::string, std::map<int32_t, int64_t>>& table, bool is_pretty)) {
  // Any key bytes below 0x80: what is not UTF-8 is refused, and names are ASCII.
  JsonWriter out(is_pretty ? JsonWriter::Layout::Pretty : JsonWriter::Layout::Compact);
  const auto ascii = [](std::string key) { for (char& c : key) c = static_cast<char>(c & 0x7F); return key; };
  out.begin_object();
  for (const auto& [key, queues] : table) {
    out.key(ascii(key)).begin_object();
    for (const auto& [queue, offset] : queues) out.key(queue).value(offset);
    out.end_object();
  }
  out.end_object();
  const auto in = Json::parse(out.take());
  RC_ASSERT(in.has_value());
  RC_ASSERT(in->members().size() == table.size());
  size_t at = 0;
  for (const auto& [key, queues] : table) {
    const auto& [read_key, read_queues] = in->members()[at++];
    RC_ASSERT(read_key == ascii(key));
    RC_ASSERT(read_queues.members().size() == queues.size());
    for (const auto& [queue, offset] : queues) RC_ASSERT(read_queues.find(fmt::format("{}", queue))->as_int64() == offset);
  }
}
RC_GTEST_PROP(Json, NoTextBreaksTheReader, ()) {
  const auto text = *rc::gen::container<std::string>(rc::gen::elementOf(std::string("{}[],:\"\\0123456789-+.eE truefalsn\n\x7F\xC3\xA9")));
  (void)Json::parse(text, {1000, 20, 100});
}

}  // namespace
}  // namespace fulmar
