#pragma once
// Stored records as a client gets them: one after the other.

#include "core/store/record.h"

namespace fulmar::cmd {

// Calls visit(record) for each whole record of `bytes`; false when something does not parse.
template <class Visit>
bool for_each_record(Bytes bytes, Visit visit) {
  while (!bytes.empty()) {
    const ParsedRecord parsed = parse_received_record(bytes, Verify::Checksums);
    if (parsed.kind != RecordKind::Message) return false;
    visit(parsed.record);
    bytes = bytes.subspan(parsed.bytes);
  }
  return true;
}

// 32 upper-case hex digits: what RocketMQ's clients put into UNIQ_KEY.
std::string make_unique_key();

}  // namespace fulmar::cmd
