#pragma once
// The memory into which one turn of a loop reads: Received borrows from it, and the next turn begins at its start again. A read takes as
// much as may come and keeps what came, so a thousand small messages cost a thousand times their own size.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/base/bytes.h"

namespace fulmar::net {

class TurnArena {
 public:
  static constexpr size_t kReadBytesMax = 64 * 1024;  // of one read
  static constexpr size_t kReadBytesMin = 4 * 1024;   // less than this left: the turn is full

  explicit TurnArena(size_t bytes) : bytes_(new uint8_t[bytes]), size_(bytes) {}
  // Room for one read, or empty when the turn is full. Good until keep() or the next take().
  MutableBytes take() const {
    const size_t left = size_ - used_;
    return left < kReadBytesMin ? MutableBytes{} : MutableBytes{bytes_.get() + used_, left < kReadBytesMax ? left : kReadBytesMax};
  }
  // The first `count` bytes of what was taken stay until begin_turn().
  Bytes keep(size_t count) {
    CHECK(count <= size_ - used_, "{} of {}", count, size_ - used_);
    const Bytes kept{bytes_.get() + used_, count};
    used_ += count;
    return kept;
  }
  void begin_turn() { used_ = 0; }

 private:
  std::unique_ptr<uint8_t[]> bytes_;  // left uninitialised, so that a quiet node never makes it resident
  size_t size_;
  size_t used_ = 0;
};

}  // namespace fulmar::net
