#pragma once
// The way back into a log behind a place that holds no good record: by magic, then by place and checksum.

#include "core/store/record.h"

namespace fulmar {

struct SearchStep {
  bool is_found = false;
  uint64_t at = 0;          // found: where the record begins; else where to go on
  uint64_t wanted = 0;      // bytes that the next window must have at least, when it was not found
  ParsedRecord parsed;      // when found: a Message whose checksums hold and whose stored offset is its place
};

// One look through `window`, which begins at log byte `at` and must not cross the end of its file; at least kRecordBytesMin bytes.
SearchStep search_window(Bytes window, uint64_t at, uint64_t file_end);

}  // namespace fulmar
