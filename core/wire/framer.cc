#include "core/wire/framer.h"

#include <algorithm>

#include "core/base/marks.h"

namespace fulmar {
namespace {
// A connection that once carried a large frame in pieces does not keep its memory: there may be thousands of them.
constexpr size_t kKeptBytesMax = 64u << 10;
}  // namespace

void Framer::feed(Bytes chunk) {
  CHECK(chunk_.empty(), "{} bytes of the last chunk were not looked at", chunk_.size());
  if (!broken_) chunk_ = chunk;
}

void Framer::top_up(size_t bytes) {
  const size_t missing = std::min(bytes - std::min(bytes, buffer_.size()), chunk_.size());
  buffer_.insert(buffer_.end(), chunk_.begin(), chunk_.begin() + static_cast<ptrdiff_t>(missing));
  chunk_ = chunk_.subspan(missing);
}

Result<Bytes> Framer::next() {
  if (broken_) return *broken_;
  if (is_handed_out_) {
    is_handed_out_ = false;
    if (buffer_.capacity() > kKeptBytesMax) buffer_ = {};
    buffer_.clear();
  }
  const auto fail = [this](Error error) -> Result<Bytes> {
    broken_ = std::move(error);
    chunk_ = {};
    buffer_ = {};
    return *broken_;
  };

  if (buffer_.empty()) {
    auto whole = measure_(chunk_, frame_bytes_max_);
    if (!whole) return fail(std::move(whole.error()));
    if (*whole != 0 && *whole <= chunk_.size()) {
      const Bytes frame = chunk_.first(*whole);
      chunk_ = chunk_.subspan(*whole);
      return frame;
    }
    SOMETIMES("wire: a frame is cut inside its length words", !chunk_.empty() && chunk_.size() < kLengthBytes);
    if (MUTANT(FramerForgetsCutHeader) && chunk_.size() < kLengthBytes) chunk_ = {};
    top_up(chunk_.size());
    return Bytes{};
  }

  top_up(kLengthBytes);
  auto whole = measure_(buffer_, frame_bytes_max_);
  if (!whole) return fail(std::move(whole.error()));
  if (*whole == 0) return Bytes{};
  top_up(*whole);
  if (buffer_.size() < *whole) return Bytes{};
  is_handed_out_ = true;
  return Bytes(buffer_);
}

Result<size_t> native::frame_bytes(Bytes start, uint32_t frame_bytes_max) {
  if (start.size() < 4) return size_t{0};
  const uint32_t length = load_le<uint32_t>(start.data());
  if (length > frame_bytes_max)
    return Error(Errc::FrameTooLarge, fmt::format("a frame of {} bytes, at most {}", length, frame_bytes_max));
  if (length < 4) return Error(Errc::FrameBroken, fmt::format("a frame of {} bytes has no room for its header length", length));
  if (start.size() < kLengthBytes) return size_t{0};
  const uint32_t words = load_le<uint32_t>(start.data() + 4);
  if (words > kHeaderWordsMax) return Error(Errc::FrameBroken, fmt::format("a header of {} words, at most {}", words, kHeaderWordsMax));
  if (4 + 8 * uint64_t{words} > length)
    return Error(Errc::FrameBroken, fmt::format("a header of {} words in a frame of {} bytes", words, length));
  return size_t{4} + length;
}

}  // namespace fulmar
