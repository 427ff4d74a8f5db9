#include "core/store/record.h"

#include "core/base/crc32.h"
#include "core/base/marks.h"
#include "core/store/limits.h"

namespace fulmar {

namespace {

// Fixed positions that need no parsing (store.md 2.1).
constexpr size_t kMagicAt = 4, kBodyCrcAt = 8, kPhysicalAt = 28, kSysFlagAt = 36;
constexpr uint64_t kCombineFrom = 512;   // bodies from here on: combining two checksums is cheaper than reading the body again

bool is_v2(std::string_view topic) { return topic.size() > 127; }

size_t bytes_before_body(const Message& m) { return 48 + m.born_host.encoded_bytes() + 8 + m.store_host.encoded_bytes() + 4 + 8 + 4; }

bool needs_pair_end(Bytes properties) { return !properties.empty() && properties.back() != static_cast<uint8_t>(property::kPairEnd); }

// Bytes of properties as stored.
size_t stored_property_bytes(const Message& m, bool with_crc_property) {
  return m.properties.size() + (with_crc_property ? kCrcPropertyBytes + (needs_pair_end(m.properties) ? 1 : 0) : 0);
}

// Of a record without its checksum property, whose body's checksum is known: a long body is not read twice.
uint32_t whole_crc(Bytes record, size_t body_at, size_t body_bytes, uint32_t body_crc) {
  const uint32_t before = crc32(record.first(body_at));
  const uint32_t with_body = body_bytes >= kCombineFrom ? crc32_combine(before, body_crc, body_bytes) : crc32(record.subspan(body_at, body_bytes), before);
  return crc32(record.subspan(body_at + body_bytes), with_body) & 0x7FFFFFFFu;
}

void write_host(Writer& w, const HostAddress& host) {
  w.bytes(Bytes(host.bytes).first(host.address_bytes()));
  w.u32(host.port);
}

HostAddress read_host(Reader& r, bool is_v6) {
  HostAddress host;
  host.is_v6 = is_v6;
  const Bytes bytes = r.bytes(is_v6 ? 16 : 4);
  std::copy(bytes.begin(), bytes.end(), host.bytes.begin());
  host.port = r.u32();
  return host;
}

// Ten digits, least significant first, zero padded (store.md 2.5).
void write_crc_property(MutableBytes into, uint32_t crc) {
  Writer w(into);
  w.text(property::kCrc32);
  w.u8(static_cast<uint8_t>(property::kNameEnd));
  for (int i = 0; i < 10; ++i) {
    w.u8(static_cast<uint8_t>('0' + crc % 10));
    crc /= 10;
  }
  w.u8(static_cast<uint8_t>(property::kPairEnd));
}

std::optional<uint32_t> read_crc_property(Bytes properties) {
  if (properties.size() < kCrcPropertyBytes) return std::nullopt;
  Reader r(properties.last(kCrcPropertyBytes));
  if (r.text(property::kCrc32.size()) != property::kCrc32 || r.u8() != static_cast<uint8_t>(property::kNameEnd)) return std::nullopt;
  uint64_t value = 0, scale = 1;
  for (int i = 0; i < 10; ++i, scale *= 10) {
    const uint8_t digit = r.u8();
    if (digit < '0' || digit > '9') return std::nullopt;
    value += scale * (digit - '0');
  }
  if (r.u8() != static_cast<uint8_t>(property::kPairEnd) || value > 0x7FFFFFFFu) return std::nullopt;
  return static_cast<uint32_t>(value);
}

}  // namespace

Result<uint32_t> record_bytes(const Message& m, bool with_crc_property) {
  if (m.topic.size() > limits::kRetryTopicBytesMax)
    return Error(Errc::RecordTooLarge, fmt::format("the topic has {} bytes, at most {} fit a record", m.topic.size(), limits::kRetryTopicBytesMax));
  const size_t properties = stored_property_bytes(m, with_crc_property);
  const uint32_t properties_max = MUTANT(PropertyLengthUnchecked) ? 65'535 : limits::kPropertyBytesMax;
  if (properties > properties_max)
    return Error(Errc::RecordTooLarge, fmt::format("the properties have {} bytes{}, at most {} are allowed", m.properties.size(),
                                                   with_crc_property ? " (and 20 for the checksum)" : "", limits::kPropertyBytesMax));
  const uint64_t total = bytes_before_body(m) + m.body.size() + (is_v2(m.topic) ? 2 : 1) + m.topic.size() + 2 + properties;
  if (total > INT32_MAX) return Error(Errc::RecordTooLarge, fmt::format("the record would have {} bytes", total));
  return static_cast<uint32_t>(total);
}

void encode_record(MutableBytes into, const Message& m, const Place& place, bool with_crc_property) {
  const uint32_t body_crc = crc32(m.body);
  uint32_t flags = m.sys_flag & ~(sys_flag::kBornHostV6 | sys_flag::kStoreHostV6);
  if (m.born_host.is_v6) flags |= sys_flag::kBornHostV6;
  if (m.store_host.is_v6) flags |= sys_flag::kStoreHostV6;

  Writer w(into);
  w.u32(static_cast<uint32_t>(into.size()));
  w.u32(is_v2(m.topic) ? kMagicV2 : kMagicV1);
  w.u32(body_crc & 0x7FFFFFFFu);
  w.i32(m.queue_id.value());
  w.i32(m.flag);
  w.i64(place.queue.value());
  w.u64(place.physical.value());
  w.u32(flags);
  w.i64(m.born.ms);
  write_host(w, m.born_host);
  w.i64(place.stored.ms);
  write_host(w, m.store_host);
  w.i32(m.reconsume_times);
  w.i64(m.prepared_transaction_offset);
  w.u32(static_cast<uint32_t>(m.body.size()));
  const size_t body_at = w.at();
  w.bytes(m.body);
  if (is_v2(m.topic)) w.u16(static_cast<uint16_t>(m.topic.size()));
  else w.u8(static_cast<uint8_t>(m.topic.size()));
  w.text(m.topic);
  w.u16(static_cast<uint16_t>(stored_property_bytes(m, with_crc_property)));
  w.bytes(m.properties);
  if (with_crc_property) {
    // Always a separator, unlike the reference's batch path (store.md FG-2).
    if (needs_pair_end(m.properties)) w.u8(static_cast<uint8_t>(property::kPairEnd));
    const size_t crc_at = w.at();
    CHECK(into.size() - crc_at == kCrcPropertyBytes, "record of {} bytes, checksum at {}", into.size(), crc_at);
    write_crc_property(into.subspan(crc_at), whole_crc(into.first(crc_at), body_at, m.body.size(), body_crc));
  } else {
    CHECK(w.remaining() == 0, "record of {} bytes, {} left", into.size(), w.remaining());
  }
}

void encode_filler(MutableBytes into, uint32_t bytes_left) {
  Writer w(into);
  w.u32(bytes_left);
  w.u32(kMagicBlank);
}

void encode_filler(MutableBytes into, uint32_t bytes_left, PhysicalOffset at) {
  encode_filler(into.first(kFillerBytes), bytes_left);
  if (into.size() < kStampedFillerBytes) return;
  store_be(into.data() + kFillerBytes, kFillerStamp);
  store_be(into.data() + kFillerBytes + 8, at.value());
}

namespace {

ParsedRecord broken(const char* why) {
  ParsedRecord out;
  out.why = why;
  return out;
}
ParsedRecord cut_short(uint32_t needed) {
  ParsedRecord out = broken("cut short");
  out.is_cut_short = true;
  out.bytes = needed;
  return out;
}

ParsedRecord parse(Bytes from, const PhysicalOffset* at, Verify verify) {
  if (from.size() < kFillerBytes) return cut_short(0);
  const uint32_t total = load_be<uint32_t>(from.data());
  const uint32_t magic = load_be<uint32_t>(from.data() + kMagicAt);
  ParsedRecord out;
  if (total == 0 && magic == 0) {
    out.kind = RecordKind::Nothing;
    return out;
  }
  if (magic == kMagicBlank) {
    if (total < kFillerBytes || total > INT32_MAX) return broken("filler length");
    const bool is_stamped = from.size() >= kStampedFillerBytes && load_be<uint64_t>(from.data() + kFillerBytes) == kFillerStamp;
    if (at != nullptr && is_stamped && load_be<uint64_t>(from.data() + kFillerBytes + 8) != at->value()) return broken("a filler of an earlier life");
    out.kind = RecordKind::Filler;
    out.bytes = total;
    return out;
  }
  if (magic != kMagicV1 && magic != kMagicV2) return broken("magic");
  if (total < kRecordBytesMin || total > INT32_MAX) return broken("total size");
  // The place is checked before the length is believed: a stale record must not make us wait for its bytes.
  if (from.size() < kSysFlagAt + 4) return cut_short(total);
  const PhysicalOffset stored_at{load_be<uint64_t>(from.data() + kPhysicalAt)};
  if (at != nullptr && stored_at != *at && !MUTANT(StaleRecordAccepted)) return broken("physical offset is not its place");
  if (from.size() < total) return cut_short(total);

  Reader r(from.first(total));
  r.skip(kBodyCrcAt);
  RecordView& v = out.record;
  Message& m = v.message;
  v.total_bytes = total;
  v.body_crc = r.u32();
  m.queue_id = QueueId(r.i32());
  m.flag = r.i32();
  v.place.queue = QueueOffset(r.i64());
  v.place.physical = PhysicalOffset(r.u64());
  m.sys_flag = r.u32();
  m.born = Wall{r.i64()};
  m.born_host = read_host(r, (m.sys_flag & sys_flag::kBornHostV6) != 0);
  v.place.stored = Wall{r.i64()};
  m.store_host = read_host(r, (m.sys_flag & sys_flag::kStoreHostV6) != 0);
  m.reconsume_times = r.i32();
  m.prepared_transaction_offset = r.i64();
  const int32_t body_bytes = r.i32();
  if (body_bytes < 0) return broken("body length");
  m.body = r.bytes(static_cast<size_t>(body_bytes));
  // Signed, as the reference reads them.
  const int topic_bytes = magic == kMagicV1 ? static_cast<int8_t>(r.u8()) : r.i16();
  if (topic_bytes < 0) return broken("topic length");
  m.topic = r.text(static_cast<size_t>(topic_bytes));
  const int16_t property_bytes = r.i16();
  if (property_bytes < 0) return broken("properties length");
  m.properties = r.bytes(static_cast<size_t>(property_bytes));
  if (!r.ok()) return broken("lengths add up to more than the total");
  if (r.remaining() != 0) return broken("lengths add up to less than the total");
  const std::optional<uint32_t> property_crc = read_crc_property(m.properties);
  v.has_crc_property = property_crc.has_value();

  if (verify == Verify::Checksums && !MUTANT(ChecksumSkipped)) {
    const uint32_t body_crc = crc32(m.body);
    if ((body_crc & 0x7FFFFFFFu) != v.body_crc) return broken("body checksum");
    const auto body_at = static_cast<size_t>(m.body.data() - from.data());
    if (property_crc && whole_crc(from.first(total - kCrcPropertyBytes), body_at, m.body.size(), body_crc) != *property_crc) return broken("record checksum");
  }
  out.kind = RecordKind::Message;
  out.bytes = total;
  return out;
}

}  // namespace

ParsedRecord parse_record(Bytes from, PhysicalOffset at, Verify verify) { return parse(from, &at, verify); }
ParsedRecord parse_received_record(Bytes from, Verify verify) { return parse(from, nullptr, verify); }

std::string message_id(const HostAddress& store_host, PhysicalOffset at) {
  std::string out;
  write_message_id(out, store_host, at);
  return out;
}

// Every send is answered with one, so no formatting library here: it cost as much as the append.
void write_message_id(std::string& out, const HostAddress& store_host, PhysicalOffset at) {
  std::array<uint8_t, 16 + 4 + 8> bytes{};
  Writer w(bytes);
  w.bytes(Bytes(store_host.bytes).first(store_host.address_bytes()));
  w.u32(store_host.port);
  w.u64(at.value());
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  out.resize(2 * w.at());
  for (size_t i = 0; i < w.at(); ++i) {
    out[2 * i] = kDigits[bytes[i] >> 4];
    out[2 * i + 1] = kDigits[bytes[i] & 0xF];
  }
}

Result<BatchItem> next_batch_item(Bytes& packed) {
  Reader r(packed);
  const int32_t total = r.i32();
  r.skip(8);  // magic and body checksum: zero from clients, recomputed by the broker
  BatchItem item;
  item.flag = r.i32();
  const int32_t body_bytes = r.i32();
  if (!r.ok() || body_bytes < 0) return Error(Errc::HeaderBroken, "a batch item is cut short before its body");
  item.body = r.bytes(static_cast<size_t>(body_bytes));
  if (!r.ok()) return Error(Errc::HeaderBroken, fmt::format("bodyLen {} of a batch item is longer than the batch", body_bytes));
  const int16_t property_bytes = r.i16();
  if (!r.ok() || property_bytes < 0) return Error(Errc::HeaderBroken, "propLen of a batch item is missing or negative");
  item.properties = r.bytes(static_cast<size_t>(property_bytes));
  if (!r.ok()) return Error(Errc::HeaderBroken, fmt::format("propLen {} of a batch item is longer than the batch", property_bytes));
  if (total < 0 || static_cast<size_t>(total) != r.at())
    return Error(Errc::HeaderBroken, fmt::format("totalSize {} of a batch item is not the {} bytes that its fields have", total, r.at()));
  packed = packed.subspan(r.at());
  return item;
}

void append_batch_item(std::vector<uint8_t>& packed, const BatchItem& item) {
  const size_t bytes = 4 + 4 + 4 + 4 + 4 + item.body.size() + 2 + item.properties.size();
  const size_t at = packed.size();
  packed.resize(at + bytes);
  Writer w(MutableBytes(packed).subspan(at));
  w.u32(static_cast<uint32_t>(bytes));
  w.u32(0);
  w.u32(0);
  w.i32(item.flag);
  w.u32(static_cast<uint32_t>(item.body.size()));
  w.bytes(item.body);
  w.u16(static_cast<uint16_t>(item.properties.size()));
  w.bytes(item.properties);
}

}  // namespace fulmar
