#include "core/store/record_search.h"

#include <algorithm>
#include <cstring>

namespace fulmar {

SearchStep search_window(Bytes window, uint64_t at, uint64_t file_end) {
  CHECK(window.size() >= kRecordBytesMin && at + window.size() <= file_end, "{} bytes at {} of a file up to {}", window.size(), at, file_end);
  const bool is_last = at + window.size() == file_end;
  // Every record's magic begins with 0xDA, four bytes in.
  const auto* hit = static_cast<const uint8_t*>(std::memchr(window.data() + 4, 0xDA, window.size() - 4));
  if (hit == nullptr) return {false, is_last ? file_end : at + window.size() - 4, kRecordBytesMin, {}};
  const uint64_t candidate = at + static_cast<uint64_t>(hit - window.data()) - 4;
  const ParsedRecord parsed = parse_record(window.subspan(candidate - at), PhysicalOffset(candidate), Verify::Checksums);
  if (parsed.kind == RecordKind::Message) return {true, candidate, 0, parsed};
  const uint64_t needed = std::max<uint64_t>(parsed.bytes, kRecordBytesMin);
  if (parsed.is_cut_short && candidate + needed <= file_end && !is_last) return {false, candidate, needed, {}};
  return {false, candidate + 1, kRecordBytesMin, {}};
}

}  // namespace fulmar
