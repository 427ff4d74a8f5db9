#pragma once
// Who waits for an answer: a request of a connection, or the host's call. What waiting machines keep instead of a closure.

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/check.h"
#include "core/io/ids.h"

namespace fulmar {

struct Asker {
  ConnId conn;
  uint32_t opaque = 0;
  bool is_one_way = false;
  bool is_host = false;   // then `call` counts, and conn and opaque do not
  CallId call;
  bool is_remoting = false;   // a client of RocketMQ's: it is told of changes of its groups, and beats every 30 s only
};

// Things that wait, found again by a token: an index and a generation, no search. Bounded: add() says when it is full.
template <class T>
class SlotBook {
 public:
  explicit SlotBook(uint32_t capacity) : capacity_(capacity) {}
  bool full() const { return count_ == capacity_; }
  size_t size() const { return count_; }
  std::optional<uint64_t> add(T what) {
    if (full()) return std::nullopt;
    uint32_t slot = static_cast<uint32_t>(slots_.size());
    if (free_.empty()) {
      slots_.emplace_back();
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    slots_[slot].what = std::move(what);
    ++count_;
    return uint64_t{slots_[slot].generation} << 32 | slot;
  }
  // Null when nothing waits under that token any more.
  T* find(uint64_t token) {
    const uint32_t slot = static_cast<uint32_t>(token);
    return slot < slots_.size() && slots_[slot].what && slots_[slot].generation == token >> 32 ? &*slots_[slot].what : nullptr;
  }
  T take(uint64_t token) {
    CHECK(find(token) != nullptr, "token {:x}", token);
    Slot& slot = slots_[static_cast<uint32_t>(token)];
    T out = std::move(*slot.what);
    slot.what.reset();
    ++slot.generation;
    --count_;
    free_.push_back(static_cast<uint32_t>(token));
    return out;
  }
  // visit(token, what), in order of slots.
  template <class Visit> void for_each(Visit visit) {
    for (uint32_t i = 0; i < slots_.size(); ++i)
      if (slots_[i].what) visit(uint64_t{slots_[i].generation} << 32 | i, *slots_[i].what);
  }

 private:
  struct Slot { std::optional<T> what; uint32_t generation = 1; };
  uint32_t capacity_;
  size_t count_ = 0;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
};

}  // namespace fulmar
