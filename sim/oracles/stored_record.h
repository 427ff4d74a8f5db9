#pragma once
// A second reader of stored records, written from the description of the format only (store.md 2.1 to 2.5): nothing here knows the code
// of core/store. Everything that clients receive and every file that fsck looks at is read with it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bytes.h"

namespace fulmar::sim {

struct StoredRecord {
  uint32_t bytes = 0;
  uint32_t magic = 0, body_crc = 0;
  int32_t queue_id = 0, flag = 0;
  int64_t queue_offset = 0, physical = 0;
  uint32_t sys_flag = 0;
  int64_t born_ms = 0, stored_ms = 0;
  int32_t reconsume_times = 0;
  Bytes body;                      // views into what was parsed
  std::string_view topic, properties;
  std::string_view user_properties() const;   // without the CRC pair
  std::optional<std::string_view> property(std::string_view name) const;
};

// CRC-32 with zlib's polynomial, by a table of its own.
uint32_t plain_crc32(Bytes bytes, uint32_t before = 0);
// java.lang.String.hashCode for ASCII, which is all that our tags and keys are made of; others answer nothing.
std::optional<int32_t> ascii_hash(std::string_view text);

// A compressed body of `bytes` bytes, by the libraries' one-call functions; empty when it is none.
Bytes inflated_body(const StoredRecord& record, size_t bytes, std::vector<uint8_t>& into);

struct RecordOutcome {
  enum class Kind : uint8_t { Record, Filler, Zeros, Broken } kind = Kind::Broken;
  StoredRecord record;             // Record
  uint32_t filler_bytes = 0;       // Filler: what is left of the segment
  std::string why;                 // Broken
};
RecordOutcome read_stored_record(Bytes from);

}  // namespace fulmar::sim
