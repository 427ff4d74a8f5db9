#pragma once
// Stored records as a client gets them: one after the other.

#include <vector>

#include "cmd/fulmar/program.h"
#include "core/client/compression.h"
#include "core/store/record.h"

namespace fulmar::cmd {

// As much as the largest maxMessageSize allows.
inline constexpr size_t kPlainBodyBytesMax = 128u << 20;

// Calls visit(record) for each whole record of `bytes`, compressed bodies inflated; false when something does not parse. A body that is not
// what its flag says is told on stderr and visited as it is stored.
template <class Visit>
bool for_each_record(Bytes bytes, Visit visit) {
  std::vector<uint8_t> scratch;
  while (!bytes.empty()) {
    ParsedRecord parsed = parse_received_record(bytes, Verify::Checksums);
    if (parsed.kind != RecordKind::Message) return false;
    Message& message = parsed.record.message;
    if (const Result<Bytes> plain = plain_body(message.sys_flag, message.body, kPlainBodyBytesMax, scratch)) message.body = *plain;
    else complain(kDone, fmt::format("{} queue {} offset {}: {}", message.topic, message.queue_id, parsed.record.place.queue, plain.error().text()));
    visit(parsed.record);
    bytes = bytes.subspan(parsed.bytes);
  }
  return true;
}

// 32 upper-case hex digits: what RocketMQ's clients put into UNIQ_KEY.
std::string make_unique_key();

}  // namespace fulmar::cmd
