// Records, client batches and properties from strangers. The first byte chooses:
//   0  the rest is a record        1  a packed client batch        2  encoded properties
// Whatever parses must lie inside its input, and its canonical form must come back from the encoder byte for byte.

#include <cstdlib>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "core/store/limits.h"
#include "core/store/record.h"

namespace {

using namespace fulmar;

constexpr size_t kBytesMax = 1u << 16;

void check_inside(Bytes view, Bytes input, const char* what) {
  CHECK(view.empty() || (view.data() >= input.data() && view.data() + view.size() <= input.data() + input.size()), "{} lies outside", what);
}

void check_equal(const Message& a, const Message& b) {
  CHECK(a.topic == b.topic && a.queue_id == b.queue_id && a.flag == b.flag && a.born.ms == b.born.ms && a.reconsume_times == b.reconsume_times);
  CHECK(a.born_host == b.born_host && a.store_host == b.store_host && a.prepared_transaction_offset == b.prepared_transaction_offset);
  CHECK(a.sys_flag == b.sys_flag && equal(a.body, b.body));
}

// Encodes what was understood; what comes out is canonical, so it parses, with all its checksums, and encodes to itself.
std::vector<uint8_t> encode(Message message, const Place& place, bool with_crc) {
  const Result<uint32_t> bytes = record_bytes(message, with_crc);
  if (!bytes) {
    CHECK(bytes.error().code == Errc::RecordTooLarge && !bytes.error().detail.empty());
    return {};
  }
  std::vector<uint8_t> out(*bytes);
  encode_record(out, message, place, with_crc);
  return out;
}

Bytes without_crc(const RecordView& record) {
  const Bytes properties = record.message.properties;
  return record.has_crc_property ? properties.first(properties.size() - kCrcPropertyBytes) : properties;
}

void check_round_trip(const RecordView& record, Bytes original, bool has_checksums) {
  Message message = record.message;
  message.properties = without_crc(record);
  const std::vector<uint8_t> again = encode(message, record.place, record.has_crc_property);
  if (again.empty()) return;
  const ParsedRecord parsed = parse_record(again, record.place.physical, Verify::Checksums);
  CHECK(parsed.kind == RecordKind::Message, "our own record: {}", parsed.why);
  CHECK(parsed.bytes == again.size());
  check_equal(parsed.record.message, record.message);
  CHECK(parsed.record.place.queue == record.place.queue && parsed.record.place.stored.ms == record.place.stored.ms);
  // A record without a checksum of its own may end with properties that look like one once they stand in ours.
  Message second = parsed.record.message;
  second.properties = without_crc(parsed.record);
  CHECK(encode(second, parsed.record.place, parsed.record.has_crc_property) == again);
  // Canonical: the checksums hold, the version is that of the topic's length, a separator stands before the checksum.
  const bool is_v2 = load_be<uint32_t>(original.data() + 4) == kMagicV2;
  const bool has_separator = !record.has_crc_property || message.properties.empty() || message.properties.back() == static_cast<uint8_t>(property::kPairEnd);
  if (has_checksums && is_v2 == (message.topic.size() > 127) && has_separator) CHECK(equal(original, again), "{} bytes", again.size());
}

void fuzz_record(Bytes input) {
  const ParsedRecord loose = parse_received_record(input, Verify::Structure), strict = parse_received_record(input, Verify::Checksums);
  const PhysicalOffset stored_at(input.size() >= 36 ? load_be<uint64_t>(input.data() + 28) : 0);
  for (const Verify verify : {Verify::Structure, Verify::Checksums}) {
    const ParsedRecord placed = parse_record(input, stored_at, verify), &received = verify == Verify::Structure ? loose : strict;
    CHECK(placed.kind == received.kind && placed.bytes == received.bytes && placed.is_cut_short == received.is_cut_short, "{} {}", placed.why, received.why);
    CHECK(parse_record(input, stored_at + ByteCount(1), verify).kind != RecordKind::Message);
  }
  CHECK((loose.kind == RecordKind::Broken) == (loose.why[0] != 0));
  CHECK(!loose.is_cut_short || loose.bytes == 0 || loose.bytes > input.size(), "cut short, {} of {}", input.size(), loose.bytes);
  if (loose.kind != RecordKind::Message) {
    CHECK(strict.kind == loose.kind);
    return;
  }
  CHECK(loose.bytes <= input.size() && loose.bytes >= kRecordBytesMin && loose.record.total_bytes == loose.bytes);
  const Bytes original = input.first(loose.bytes);
  const Message& message = loose.record.message;
  check_inside(as_bytes(message.topic), original, "the topic");
  check_inside(message.properties, original, "the properties");
  check_inside(message.body, original, "the body");
  for (const size_t cut : {size_t{0}, size_t{7}, size_t{8}, size_t{39}, size_t{40}, original.size() / 2, original.size() - 1}) {
    const ParsedRecord part = parse_received_record(original.first(std::min(cut, original.size() - 1)), Verify::Checksums);
    CHECK(part.is_cut_short && (part.bytes == 0 || part.bytes == original.size()));
  }
  (void)message_id(message.store_host, loose.record.place.physical);
  check_round_trip(loose.record, original, strict.kind == RecordKind::Message);
}

void fuzz_batch(Bytes input) {
  Bytes rest = input;
  while (!rest.empty()) {
    const Bytes before = rest;
    const Result<BatchItem> item = next_batch_item(rest);
    if (!item) {
      CHECK(item.error().code == Errc::HeaderBroken && !item.error().detail.empty() && rest.size() == before.size());
      return;
    }
    CHECK(rest.size() < before.size());
    const Bytes taken = before.first(before.size() - rest.size());
    check_inside(item->properties, taken, "the properties");
    check_inside(item->body, taken, "the body");
    std::vector<uint8_t> again;
    append_batch_item(again, *item);
    // Magic and checksum are zero from clients; whatever stands there is passed over.
    CHECK(again.size() == taken.size() && equal(Bytes(again).first(4), taken.first(4)) && equal(Bytes(again).subspan(12), taken.subspan(12)));
  }
}

void fuzz_properties(Bytes input) {
  std::string again;
  property::for_each(input, [&](std::string_view name, std::string_view value) {
    check_inside(as_bytes(name), input, "a name");
    check_inside(as_bytes(value), input, "a value");
    CHECK(!name.empty() && !value.empty() && name.find(property::kNameEnd) == name.npos && value.find(property::kPairEnd) == value.npos);
    const auto found = property::find(input, name);
    CHECK(found.has_value() && !found->empty());
    check_inside(as_bytes(*found), input, "a found value");
    const size_t length = again.size();
    const Result<void> added = property::add(again, name, value);
    CHECK(added.has_value() || again.size() == length);
    if (added) CHECK(again.substr(length) == std::string(name) + property::kNameEnd + std::string(value) + property::kPairEnd);
  });
  CHECK(!property::find(input, "no such name, since it holds \x02"));
  std::string third;
  property::for_each(as_bytes(again), [&](std::string_view name, std::string_view value) { CHECK(property::add(third, name, value).has_value()); });
  CHECK(third == again);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > kBytesMax) return 0;
  const Bytes rest(data + 1, size - 1);
  if (data[0] % 3 == 0) fuzz_record(rest);
  else if (data[0] % 3 == 1) fuzz_batch(rest);
  else fuzz_properties(rest);
  return 0;
}
