#pragma once
// Names of the things that cross the boundary.

#include <cstdint>
#include <string>

#include "core/base/id.h"

namespace fulmar {

using ConnId = Id<struct ConnTag>;            // given by the driver, rising, never used twice in the life of a node
using Port = Id<struct PortTag, uint8_t>;     // a listener, named by the node that asks for it
using FileId = Id<struct FileTag>;            // given by the driver, never used twice in the life of a node
using CallId = Id<struct CallTag>;            // given by the host with Told; tell() answers to it

// A request's receipt, made by the asker: owner (which machine), slot and generation. Redeemed exactly once.
class Ticket {
 public:
  constexpr Ticket() = default;
  constexpr Ticket(uint8_t owner, uint32_t slot, uint32_t generation)
      : value_(uint64_t{owner} << 56 | uint64_t{slot & 0xFFFFFFu} << 32 | generation) {}
  constexpr uint8_t owner() const { return static_cast<uint8_t>(value_ >> 56); }
  constexpr uint32_t slot() const { return static_cast<uint32_t>(value_ >> 32) & 0xFFFFFFu; }
  constexpr uint32_t generation() const { return static_cast<uint32_t>(value_); }
  constexpr uint64_t value() const { return value_; }
  friend constexpr auto operator<=>(Ticket, Ticket) = default;

 private:
  uint64_t value_ = 0;
};

struct Address {
  std::string host;  // a name, or a numeric IPv4 or IPv6 address without brackets
  uint16_t port = 0;
  friend auto operator<=>(const Address&, const Address&) = default;
  std::string text() const;  // "127.0.0.1:10911", "[::1]:10911"
};

// Bytes [begin, end) of a file.
struct Range {
  uint64_t begin = 0, end = 0;
  constexpr uint64_t size() const { return end - begin; }
  constexpr bool empty() const { return begin >= end; }
  friend constexpr auto operator<=>(Range, Range) = default;
};

}  // namespace fulmar
