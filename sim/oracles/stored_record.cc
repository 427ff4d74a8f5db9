#include "sim/oracles/stored_record.h"

#include <fmt/format.h>
#include <lz4frame.h>
#include <zlib.h>
#include <zstd.h>

#include <array>

namespace fulmar::sim {
namespace {

constexpr std::string_view kCrcName = "__CRC32#\x01";
constexpr size_t kCrcPairBytes = 20;

consteval std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c & 1) != 0 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
    table[i] = c;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = crc_table();

bool ends_with_crc(std::string_view properties) {
  if (properties.size() < kCrcPairBytes) return false;
  const std::string_view tail = properties.substr(properties.size() - kCrcPairBytes);
  return tail.starts_with(kCrcName) && tail.back() == 2;
}

RecordOutcome broken(std::string why) {
  RecordOutcome out;
  out.why = std::move(why);
  return out;
}

// Ten decimal digits, the least significant one first.
uint64_t reversed_number(std::string_view digits) {
  uint64_t value = 0;
  for (size_t i = digits.size(); i > 0; --i) value = value * 10 + static_cast<uint64_t>(digits[i - 1] - '0');
  return value;
}

}  // namespace

uint32_t plain_crc32(Bytes bytes, uint32_t before) {
  uint32_t c = ~before;
  for (const uint8_t byte : bytes) c = kTable[(c ^ byte) & 0xFF] ^ (c >> 8);
  return ~c;
}

std::optional<int32_t> ascii_hash(std::string_view text) {
  uint32_t h = 0;
  for (const char c : text) {
    if (static_cast<uint8_t>(c) >= 0x80) return std::nullopt;
    h = h * 31 + static_cast<uint8_t>(c);
  }
  return static_cast<int32_t>(h);
}

std::string_view StoredRecord::user_properties() const {
  return ends_with_crc(properties) ? properties.substr(0, properties.size() - kCrcPairBytes) : properties;
}

std::optional<std::string_view> StoredRecord::property(std::string_view name) const {
  std::string_view rest = properties;
  while (!rest.empty()) {
    const size_t end = rest.find('\x02');
    const std::string_view pair = rest.substr(0, end);
    const size_t split = pair.find('\x01');
    if (split != std::string_view::npos && pair.substr(0, split) == name && split + 1 < pair.size()) return pair.substr(split + 1);
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  return std::nullopt;
}

Bytes inflated_body(const StoredRecord& record, size_t bytes, std::vector<uint8_t>& into) {
  into.assign(bytes + 1, 0);
  size_t made = 0;
  if ((record.sys_flag & 0x700) == 0x200) {
    made = ZSTD_decompress(into.data(), into.size(), record.body.data(), record.body.size());
  } else if ((record.sys_flag & 0x700) == 0x100) {
    LZ4F_dctx* context = nullptr;
    size_t taken = record.body.size();
    made = into.size();
    LZ4F_createDecompressionContext(&context, LZ4F_VERSION);
    if (LZ4F_decompress(context, into.data(), &made, record.body.data(), &taken, nullptr) != 0 || taken != record.body.size()) made = 0;
    LZ4F_freeDecompressionContext(context);
  } else {
    uLongf length = into.size();
    made = uncompress(into.data(), &length, record.body.data(), record.body.size()) == Z_OK ? length : 0;
  }
  return made == bytes ? Bytes(into).first(bytes) : Bytes{};
}

RecordOutcome read_stored_record(Bytes from) {
  if (from.size() < 8) return broken("fewer than 8 bytes are left");
  const uint32_t total = load_be<uint32_t>(from.data());
  const uint32_t magic = load_be<uint32_t>(from.data() + 4);
  RecordOutcome out;
  if (total == 0 && magic == 0) return out.kind = RecordOutcome::Kind::Zeros, out;
  if (magic == 0xCBD43194u) {
    out.kind = RecordOutcome::Kind::Filler;
    out.filler_bytes = total;
    return out;
  }
  if (magic != 0xDAA320A7u && magic != 0xDAA320ABu) return broken(fmt::format("magic {:08x}", magic));
  if (total < 91 || total > from.size()) return broken(fmt::format("size {} of {} bytes", total, from.size()));
  Reader in(from.first(total));
  StoredRecord& r = out.record;
  r.bytes = in.u32();
  r.magic = in.u32();
  r.body_crc = in.u32();
  r.queue_id = in.i32();
  r.flag = in.i32();
  r.queue_offset = in.i64();
  r.physical = in.i64();
  r.sys_flag = in.u32();
  r.born_ms = in.i64();
  in.skip((r.sys_flag & 0x10) != 0 ? 20 : 8);
  r.stored_ms = in.i64();
  in.skip((r.sys_flag & 0x20) != 0 ? 20 : 8);
  r.reconsume_times = in.i32();
  in.skip(8);
  const int32_t body_bytes = in.i32();
  if (body_bytes < 0) return broken(fmt::format("body of {} bytes", body_bytes));
  r.body = in.bytes(static_cast<size_t>(body_bytes));
  const int32_t topic_bytes = magic == 0xDAA320A7u ? static_cast<int8_t>(in.u8()) : in.i16();
  if (topic_bytes < 0) return broken(fmt::format("topic of {} bytes", topic_bytes));
  r.topic = in.text(static_cast<size_t>(topic_bytes));
  const int16_t property_bytes = in.i16();
  if (property_bytes < 0) return broken(fmt::format("properties of {} bytes", property_bytes));
  r.properties = in.text(static_cast<size_t>(property_bytes));
  if (!in.ok() || in.remaining() != 0) return broken("the lengths inside do not add up to the size");
  if ((plain_crc32(r.body) & 0x7FFFFFFFu) != r.body_crc) return broken("the body's checksum differs");
  if (ends_with_crc(r.properties)) {
    const std::string_view digits = r.properties.substr(r.properties.size() - 11, 10);
    const uint32_t crc = plain_crc32(from.first(total - kCrcPairBytes)) & 0x7FFFFFFFu;
    if (reversed_number(digits) != crc) return broken("the record's checksum differs");
  }
  out.kind = RecordOutcome::Kind::Record;
  return out;
}

}  // namespace fulmar::sim
