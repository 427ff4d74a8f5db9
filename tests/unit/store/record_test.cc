#include "core/store/record.h"

#include <gtest/gtest.h>

#include "core/base/crc32.h"

namespace fulmar {
namespace {

Message small_message() {
  Message m;
  m.topic = "orders";
  m.queue_id = QueueId(3);
  m.flag = 7;
  m.born = Wall{1'700'000'000'123};
  m.born_host = *HostAddress::parse("10.1.2.3", 5555);
  m.store_host = *HostAddress::parse("127.0.0.1", 10911);
  m.properties = as_bytes("TAGS\1TagA\2KEYS\1k1 k2\2");
  m.body = as_bytes("hello");
  return m;
}
constexpr Place kPlace{PhysicalOffset(4096), QueueOffset(12), Wall{1'700'000'000'456}};

std::vector<uint8_t> encoded(const Message& m, bool with_crc, Place place = kPlace) {
  std::vector<uint8_t> out(*record_bytes(m, with_crc));
  encode_record(out, m, place, with_crc);
  return out;
}

TEST(Record, CarriesEveryField) {
  for (const bool with_crc : {false, true}) {
    const Message m = small_message();
    const std::vector<uint8_t> bytes = encoded(m, with_crc);
    const ParsedRecord parsed = parse_record(bytes, kPlace.physical, Verify::Checksums);
    ASSERT_EQ(parsed.kind, RecordKind::Message) << parsed.why;
    EXPECT_EQ(parsed.bytes, bytes.size());
    const RecordView& v = parsed.record;
    EXPECT_EQ(v.message.topic, m.topic);
    EXPECT_EQ(v.message.queue_id, m.queue_id);
    EXPECT_EQ(v.message.flag, m.flag);
    EXPECT_EQ(v.message.born, m.born);
    EXPECT_EQ(v.message.born_host, m.born_host);
    EXPECT_EQ(v.message.store_host, m.store_host);
    EXPECT_TRUE(equal(v.message.body, m.body));
    EXPECT_EQ(property::find(v.message.properties, "TAGS"), "TagA");
    EXPECT_EQ(v.place.physical, kPlace.physical);
    EXPECT_EQ(v.place.queue, kPlace.queue);
    EXPECT_EQ(v.place.stored, kPlace.stored);
    EXPECT_EQ(v.has_crc_property, with_crc);
  }
}

TEST(Record, SizesAreThoseOfTheFormat) {
  Message m = small_message();
  m.properties = {};
  EXPECT_EQ(*record_bytes(m, false), 91 + 5 + 6);
  EXPECT_EQ(*record_bytes(m, true), 91 + 5 + 6 + 20);
  m.born_host = *HostAddress::parse("::1", 1);
  EXPECT_EQ(*record_bytes(m, false), 91 + 5 + 6 + 12);
  const std::string long_topic = "%RETRY%" + std::string(130, 'g');
  m = small_message();
  m.topic = long_topic;
  m.properties = {};
  EXPECT_EQ(*record_bytes(m, false), 92 + 5 + long_topic.size());
  const std::vector<uint8_t> v2 = encoded(m, true);
  EXPECT_EQ(load_be<uint32_t>(v2.data() + 4), kMagicV2);
  EXPECT_EQ(parse_record(v2, kPlace.physical, Verify::Checksums).record.message.topic, long_topic);
}

TEST(Record, AMissingSeparatorIsInsertedBeforeTheChecksum) {
  Message m = small_message();
  m.properties = as_bytes("TAGS\1TagA");
  const std::vector<uint8_t> bytes = encoded(m, true);
  const ParsedRecord parsed = parse_record(bytes, kPlace.physical, Verify::Checksums);
  ASSERT_EQ(parsed.kind, RecordKind::Message) << parsed.why;
  EXPECT_TRUE(parsed.record.has_crc_property);
  EXPECT_EQ(property::find(parsed.record.message.properties, "TAGS"), "TagA");
}

TEST(Record, PropertiesAreBounded) {
  Message m = small_message();
  const std::string just_fits = "K\1" + std::string(32'767 - 3 - 20, 'v') + "\2";
  m.properties = as_bytes(just_fits);
  EXPECT_TRUE(record_bytes(m, true).has_value());
  const std::string too_long = just_fits + "x";
  m.properties = as_bytes(too_long);
  const Result<uint32_t> refused = record_bytes(m, true);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.code(), Errc::RecordTooLarge);
  EXPECT_NE(refused.error().detail.find("32767"), std::string::npos);
  EXPECT_TRUE(record_bytes(m, false).has_value());
}

TEST(Record, EveryFlippedBitIsSeenWithTheChecksumProperty) {
  const std::vector<uint8_t> good = encoded(small_message(), true);
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::vector<uint8_t> bad = good;
    bad[bit / 8] = static_cast<uint8_t>(bad[bit / 8] ^ (1u << (bit % 8)));
    const ParsedRecord parsed = parse_record(bad, kPlace.physical, Verify::Checksums);
    // A flip inside the checksum property's own name makes it an ordinary property: the record then counts as one without.
    const bool is_in_property = bit / 8 >= good.size() - kCrcPropertyBytes;
    EXPECT_TRUE(parsed.kind != RecordKind::Message || (is_in_property && !parsed.record.has_crc_property)) << "bit " << bit;
  }
}

TEST(Record, ARecordOfAnotherPlaceIsNotTaken) {
  const std::vector<uint8_t> bytes = encoded(small_message(), true);
  EXPECT_EQ(parse_record(bytes, PhysicalOffset(4095), Verify::Structure).kind, RecordKind::Broken);
  EXPECT_EQ(parse_received_record(bytes, Verify::Checksums).kind, RecordKind::Message);
}

TEST(Record, EveryPrefixIsCutShortAndNeverRead) {
  const std::vector<uint8_t> bytes = encoded(small_message(), true);
  for (size_t n = 0; n < bytes.size(); ++n) {
    const std::vector<uint8_t> prefix(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(n));  // its own allocation: asan watches the end
    const ParsedRecord parsed = parse_record(prefix, kPlace.physical, Verify::Checksums);
    EXPECT_EQ(parsed.kind, RecordKind::Broken);
    EXPECT_TRUE(parsed.is_cut_short);
    if (n >= 40) { EXPECT_EQ(parsed.bytes, bytes.size()); }
  }
}

TEST(Record, LargeBodiesTakeTheCombinedChecksum) {
  const std::string body(100'000, 'b');
  Message m = small_message();
  m.body = as_bytes(body);
  std::vector<uint8_t> bytes = encoded(m, true);
  EXPECT_EQ(parse_record(bytes, kPlace.physical, Verify::Checksums).kind, RecordKind::Message);
  bytes[90'000] ^= 1;
  EXPECT_EQ(parse_record(bytes, kPlace.physical, Verify::Checksums).kind, RecordKind::Broken);
}

TEST(Record, FillerAndNothing) {
  std::vector<uint8_t> bytes(16);
  EXPECT_EQ(parse_record(bytes, PhysicalOffset(0), Verify::Checksums).kind, RecordKind::Nothing);
  encode_filler(MutableBytes(bytes).first(8), 1000);
  const ParsedRecord filler = parse_record(bytes, PhysicalOffset(0), Verify::Checksums);
  EXPECT_EQ(filler.kind, RecordKind::Filler);
  EXPECT_EQ(filler.bytes, 1000u);
}

TEST(Record, MessageIds) {
  EXPECT_EQ(message_id(*HostAddress::parse("127.0.0.1", 10911), PhysicalOffset(0x1234)), "7F00000100002A9F0000000000001234");
  EXPECT_EQ(message_id(*HostAddress::parse("::1", 10911), PhysicalOffset(1)).size(), 56u);
}

TEST(Batch, ItemsComeBackInOrder) {
  std::vector<uint8_t> packed;
  append_batch_item(packed, {1, as_bytes("A\1b\2"), as_bytes("one")});
  append_batch_item(packed, {2, {}, as_bytes("two")});
  Bytes rest = packed;
  const Result<BatchItem> first = next_batch_item(rest);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->flag, 1);
  EXPECT_EQ(as_text(first->body), "one");
  const Result<BatchItem> second = next_batch_item(rest);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(as_text(second->body), "two");
  EXPECT_TRUE(rest.empty());
}

TEST(Batch, LiesAreNamed) {
  std::vector<uint8_t> packed;
  append_batch_item(packed, {1, {}, as_bytes("one")});
  for (size_t n = 0; n < packed.size(); ++n) {
    const std::vector<uint8_t> prefix(packed.begin(), packed.begin() + static_cast<ptrdiff_t>(n));
    Bytes rest = prefix;
    EXPECT_FALSE(next_batch_item(rest).has_value()) << n;
  }
  packed[3] ^= 1;
  Bytes rest = packed;
  const Result<BatchItem> bad = next_batch_item(rest);
  ASSERT_FALSE(bad.has_value());
  EXPECT_NE(bad.error().detail.find("totalSize"), std::string::npos);
}

}  // namespace
}  // namespace fulmar
