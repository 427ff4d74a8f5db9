#pragma once
// Fixed-capacity queue. Full is a case: try_push says so.

#include <cstddef>
#include <vector>

#include "core/base/check.h"

namespace fulmar {

template <class T>
class Ring {
 public:
  explicit Ring(size_t capacity) : slots_(capacity) { CHECK(capacity > 0); }
  [[nodiscard]] bool try_push(T value) {
    if (full()) return false;
    slots_[(first_ + size_) % slots_.size()] = std::move(value);
    ++size_;
    return true;
  }
  T pop() {
    CHECK(size_ > 0);
    T out = std::move(slots_[first_]);
    slots_[first_] = T{};
    first_ = (first_ + 1) % slots_.size();
    --size_;
    return out;
  }
  T& front() { CHECK(size_ > 0); return slots_[first_]; }
  const T& front() const { CHECK(size_ > 0); return slots_[first_]; }
  T& at(size_t index) { CHECK(index < size_); return slots_[(first_ + index) % slots_.size()]; }
  const T& at(size_t index) const { CHECK(index < size_); return slots_[(first_ + index) % slots_.size()]; }
  bool empty() const { return size_ == 0; }
  bool full() const { return size_ == slots_.size(); }
  size_t size() const { return size_; }
  size_t capacity() const { return slots_.size(); }

 private:
  std::vector<T> slots_;
  size_t first_ = 0, size_ = 0;
};

}  // namespace fulmar
