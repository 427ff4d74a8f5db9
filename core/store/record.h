#pragma once
// A message on disk: encode in place, parse, verify. Layout (big-endian) from store.md 2.1, RocketMQ 5.3.4:
//
//   0 totalSize 4 · magic 4 · bodyCRC 4 · queueId 4 · flag 4 · 20 queueOffset 8 · 28 physicalOffset 8 · 36 sysFlag 4 · 40 bornTimestamp 8
//   48 bornHost 8|20 · storeTimestamp 8 · storeHost 8|20 · reconsumeTimes 4 · preparedTransactionOffset 8 · bodyLength 4 · body
//   topicLength 1 (V1) | 2 (V2) · topic · propertiesLength 2 · properties
//
// With the CRC property (store.md 2.5) the last 20 bytes of the properties are "__CRC32#" 0x01, ten decimal digits, least significant
// first, 0x02: the CRC-32 (top bit cleared) of the whole record except those 20 bytes.

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/result.h"
#include "core/model/ids.h"
#include "core/model/message.h"

namespace fulmar {

inline constexpr uint32_t kMagicV1 = 0xDAA320A7u, kMagicV2 = 0xDAA320ABu, kMagicBlank = 0xCBD43194u;
inline constexpr uint32_t kFillerBytes = 8;        // int bytes left in the segment, int kMagicBlank
// Where a segment leaves room for it a filler of ours goes on with 8 bytes "FULMFILL" and its own physical offset: a recycled segment may
// show a filler of its earlier life, which says nothing. RocketMQ does not look at what stands behind the first 8 bytes.
inline constexpr uint32_t kStampedFillerBytes = 24;
inline constexpr uint64_t kFillerStamp = 0x46554C4D46494C4C;
inline constexpr uint32_t kRecordBytesMin = 91;    // V1, IPv4 hosts, no body, topic or properties
inline constexpr uint32_t kCrcPropertyBytes = 20;

struct Place { PhysicalOffset physical; QueueOffset queue; Wall stored; };

struct RecordView {
  uint32_t total_bytes = 0;
  Message message;            // views into the record
  Place place;
  uint32_t body_crc = 0;
  bool has_crc_property = false;
};

// Bytes of the record that encode_record will write. RecordTooLarge: properties (with the CRC suffix) over 32,767 bytes, or a topic
// over 255; the sentence names the field, its size and the limit.
Result<uint32_t> record_bytes(const Message& message, bool with_crc_property);

// Fills `into`, whose size is record_bytes(). Adds the missing 0x02 before the CRC property.
void encode_record(MutableBytes into, const Message& message, const Place& place, bool with_crc_property);

void encode_filler(MutableBytes into, uint32_t bytes_left);                       // 8 bytes
void encode_filler(MutableBytes into, uint32_t bytes_left, PhysicalOffset at);    // stamped, when `into` has kStampedFillerBytes

enum class Verify : uint8_t {
  Structure,  // lengths add up, fields in range
  Checksums,  // and body CRC and CRC property, where present
};
enum class RecordKind : uint8_t { Message, Filler, Nothing, Broken };
struct ParsedRecord {
  RecordKind kind = RecordKind::Broken;
  uint32_t bytes = 0;          // Message: total size; Filler: bytes left in the segment, this filler included
  RecordView record;           // Message
  const char* why = "";        // Broken: which check failed
  bool is_cut_short = false;   // Broken only because `from` ends too early: `bytes` says how many are needed (0: at least 8)
};
// Parses what stands at the start of `from`. `at` is the place in the log; a stored physical offset that differs is Broken (a record
// of an earlier life). Nothing: the first 8 bytes are zero.
ParsedRecord parse_record(Bytes from, PhysicalOffset at, Verify verify);
// The same without a known place (records received by a client): the stored physical offset is believed.
ParsedRecord parse_received_record(Bytes from, Verify verify);

// Offset message id: upper-case hex of store host and physical offset, 32 or 56 digits (store.md 2.6).
std::string message_id(const HostAddress& store_host, PhysicalOffset at);
void write_message_id(std::string& out, const HostAddress& store_host, PhysicalOffset at);   // reuses the memory of `out`

// RocketMQ's client batch (store.md 2.7), one item at a time.
struct BatchItem { int32_t flag = 0; Bytes properties, body; };
// Takes one item off the front of `packed`. HeaderBroken: lengths do not add up, with the item's field.
Result<BatchItem> next_batch_item(Bytes& packed);
void append_batch_item(std::vector<uint8_t>& packed, const BatchItem& item);

}  // namespace fulmar
