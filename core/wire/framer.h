#pragma once
// Stream bytes to whole frames, bounded. Frames that lie whole in one chunk are handed out in place; only the unfinished rest of a chunk
// is copied. Memory grows with bytes that arrived, never with lengths that were claimed. Both protocols begin a frame with two length
// words of four bytes, which each reads in its own way: native below, RocketMQ's in remoting/frame.h.

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/result.h"

namespace fulmar {

inline constexpr size_t kLengthBytes = 8;                     // the two length words in front of every frame

class Framer {
 public:
  // Of the frame that begins with `start` (which may be cut anywhere): its whole length with its length words, or 0 while too little of it
  // is known. FrameTooLarge, FrameBroken.
  using Measure = Result<size_t> (*)(Bytes start, uint32_t frame_bytes_max);

  Framer(uint32_t frame_bytes_max, Measure measure) : frame_bytes_max_(frame_bytes_max), measure_(measure) {}
  // Takes the next chunk. Then call next() until it says nothing: `chunk` is borrowed until that moment.
  void feed(Bytes chunk);
  // A whole frame, length words included, good until the next call of next() or feed(); an empty view when there is none yet.
  // What the measure says is wrong: the stream cannot be trusted any more, and every later call says so again.
  Result<Bytes> next();
  // What of the chunk was not looked at yet; the framer forgets it. Who reads on later feeds it again.
  Bytes take_rest() { return std::exchange(chunk_, {}); }
  // Bytes of an unfinished frame that are kept from chunk to chunk.
  size_t buffered_bytes() const { return is_handed_out_ ? 0 : buffer_.size(); }

 private:
  void top_up(size_t bytes);

  uint32_t frame_bytes_max_;
  Measure measure_;
  Bytes chunk_;                   // not yet looked at
  std::vector<uint8_t> buffer_;   // the frame that the last chunk left unfinished
  bool is_handed_out_ = false;    // buffer_ is the frame that next() gave out last
  std::optional<Error> broken_;
};

namespace native {

using fulmar::kLengthBytes;
inline constexpr uint32_t kFrameBytesMaxRequest = 8u << 20;   // room to refuse a body of 4 MiB + 1 with a sentence
inline constexpr uint32_t kFrameBytesMaxResponse = 16u << 20;
inline constexpr uint32_t kHeaderWordsMax = 8192;             // 64 KiB

// FrameBroken: the header is longer than the frame.
Result<size_t> frame_bytes(Bytes start, uint32_t frame_bytes_max);

class Framer : public fulmar::Framer {
 public:
  explicit Framer(uint32_t frame_bytes_max) : fulmar::Framer(frame_bytes_max, frame_bytes) {}
};

}  // namespace native
}  // namespace fulmar
