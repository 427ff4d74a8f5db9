#pragma once
// What the writers of derived files have in common to say.

#include <array>
#include <cstdint>
#include <string_view>

#include "core/io/trace.h"

namespace fulmar {

// Once, until it goes on.
struct RoundBlocked {
  FULMAR_EVENT(RoundBlocked, Warning, "queues or index cannot be written; tried again every second: {}");
  std::string_view why;
  std::array<uint64_t, 0> values() const { return {}; }
  std::string_view text() const { return why; }
};

}  // namespace fulmar
