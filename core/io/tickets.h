#pragma once
// What a machine remembers about its requests in flight. issue() makes a ticket, redeem() gives back what was remembered: an index and
// a generation check, no search. One book per owner byte.

#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/io/ids.h"

namespace fulmar {

template <class T>
class TicketBook {
 public:
  explicit TicketBook(uint8_t owner) : owner_(owner) {}

  Ticket issue(T what) {
    uint32_t slot;
    if (free_.empty()) {
      slot = static_cast<uint32_t>(slots_.size());
      CHECK(slot < (1u << 24), "tickets in flight");
      slots_.push_back({});
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    Slot& s = slots_[slot];
    s.what = std::move(what);
    s.is_out = true;
    ++out_;
    return Ticket(owner_, slot, s.generation);
  }

  // The driver redeems each ticket exactly once, so an unknown one is a bug of ours or of the driver's.
  T redeem(Ticket ticket) {
    T* found = peek(ticket);
    CHECK(found != nullptr, "ticket {:x} is not out", ticket.value());
    Slot& s = slots_[ticket.slot()];
    s.is_out = false;
    ++s.generation;
    --out_;
    free_.push_back(ticket.slot());
    return std::move(s.what);
  }

  // Null when the ticket is not out.
  T* peek(Ticket ticket) {
    if (ticket.owner() != owner_ || ticket.slot() >= slots_.size()) return nullptr;
    Slot& s = slots_[ticket.slot()];
    return s.is_out && s.generation == ticket.generation() ? &s.what : nullptr;
  }

  size_t out_count() const { return out_; }

 private:
  struct Slot { T what{}; uint32_t generation = 1; bool is_out = false; };
  uint8_t owner_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  size_t out_ = 0;
};

}  // namespace fulmar
