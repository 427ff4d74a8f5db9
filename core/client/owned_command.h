#pragma once
// A command that outlives the input it came in: its texts and bytes are copied into one block of its own.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/model/command.h"

namespace fulmar {

class OwnedCommand {
 public:
  explicit OwnedCommand(const Command& command);
  OwnedCommand(OwnedCommand&&) = default;
  OwnedCommand& operator=(OwnedCommand&&) = default;
  const Command& get() const { return command_; }
  // For changing numbers; views that are put in must outlive this.
  Command& get() { return command_; }
  size_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<uint8_t[]> block_;  // never moves, so a moved OwnedCommand keeps its views
  size_t bytes_ = 0;
  Command command_;
};

}  // namespace fulmar
