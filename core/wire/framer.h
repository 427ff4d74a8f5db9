#pragma once
// Stream bytes to whole frames of the native protocol, bounded. Frames that lie whole in one chunk are handed out in place; only the
// unfinished rest of a chunk is copied. Memory grows with bytes that arrived, never with lengths that were claimed.

#include <cstdint>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/result.h"

namespace fulmar::native {

inline constexpr uint32_t kFrameBytesMaxRequest = 8u << 20;   // room to refuse a body of 4 MiB + 1 with a sentence
inline constexpr uint32_t kFrameBytesMaxResponse = 16u << 20;
inline constexpr uint32_t kHeaderWordsMax = 8192;             // 64 KiB

class Framer {
 public:
  explicit Framer(uint32_t frame_bytes_max) : frame_bytes_max_(frame_bytes_max) {}
  // Takes the next chunk. Then call next() until it says nothing: `chunk` is borrowed until that moment.
  void feed(Bytes chunk);
  // A whole frame, length words included, good until the next call of next() or feed(); an empty view when there is none yet.
  // FrameTooLarge, FrameBroken (header longer than the frame): the stream cannot be trusted any more.
  Result<Bytes> next();
  size_t buffered_bytes() const { return buffer_.size() - buffer_at_; }

 private:
  uint32_t frame_bytes_max_;
  Bytes chunk_;                   // not yet looked at
  std::vector<uint8_t> buffer_;   // an unfinished frame
  size_t buffer_at_ = 0;
};

}  // namespace fulmar::native
