// The bytes of a stored record, written out by hand from the format's definition (RocketMQ 5.3.4 CommitLog, as described in the manual):
// nothing here is computed by the code under test, except that the two checksums were taken from Python's zlib.crc32.

#include <gtest/gtest.h>

#include "core/store/record.h"

namespace fulmar {
namespace {

std::string hex(Bytes bytes) {
  std::string out;
  for (const uint8_t b : bytes) out += fmt::format("{:02x}", b);
  return out;
}

Message golden_message() {
  Message m;
  m.topic = "T";
  m.queue_id = QueueId(2);
  m.flag = 5;
  m.born = Wall{0x018BCFE56800};
  m.born_host = *HostAddress::parse("10.0.0.1", 1234);
  m.store_host = *HostAddress::parse("10.0.0.2", 10911);
  m.reconsume_times = 1;
  m.prepared_transaction_offset = 0;
  m.properties = as_bytes("TAGS\1A\2");
  m.body = as_bytes("hi");
  return m;
}
constexpr Place kPlace{PhysicalOffset(0x100000), QueueOffset(7), Wall{0x018BCFE56801}};

// clang-format off
const char* kWithoutChecksum =
    "00000065"          // totalSize 101 = 91 + body 2 + topic 1 + properties 7
    "daa320a7"          // magic, version 1
    "58932aac"          // bodyCRC: crc32("hi") = 0xd8932aac with the top bit cleared
    "00000002"          // queueId
    "00000005"          // flag
    "0000000000000007"  // queueOffset
    "0000000000100000"  // physicalOffset
    "00000000"          // sysFlag
    "0000018bcfe56800"  // bornTimestamp
    "0a000001" "000004d2"  // bornHost 10.0.0.1, port in four bytes
    "0000018bcfe56801"  // storeTimestamp
    "0a000002" "00002a9f"  // storeHost 10.0.0.2:10911
    "00000001"          // reconsumeTimes
    "0000000000000000"  // preparedTransactionOffset
    "00000002" "6869"   // body "hi"
    "01" "54"           // topic "T"
    "0007" "54414753014102";  // properties TAGS 0x01 A 0x02
// clang-format on

TEST(RecordGolden, WithoutChecksumProperty) {
  const Message m = golden_message();
  std::vector<uint8_t> bytes(*record_bytes(m, false));
  encode_record(bytes, m, kPlace, false);
  EXPECT_EQ(hex(bytes), kWithoutChecksum);
}

TEST(RecordGolden, WithChecksumProperty) {
  const Message m = golden_message();
  std::vector<uint8_t> bytes(*record_bytes(m, true));
  encode_record(bytes, m, kPlace, true);
  std::string expected = kWithoutChecksum;
  expected.replace(0, 8, "00000079");                                  // 20 bytes longer
  expected.replace(expected.size() - 18, 4, "001b");                   // properties 27
  expected += "5f5f435243333223" "01" "32353133303632313331" "02";                 // "__CRC32#" 0x01, ten digits, least significant first, 0x02
  EXPECT_EQ(hex(bytes), expected);
}

TEST(RecordGolden, Filler) {
  std::vector<uint8_t> bytes(8);
  encode_filler(bytes, 0x01020304);
  EXPECT_EQ(hex(bytes), "01020304cbd43194");
}

}  // namespace
}  // namespace fulmar
