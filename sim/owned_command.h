#pragma once
// A command that owns what it borrows, so that it can wait for the step that delivers it.

#include <deque>
#include <string>

#include "core/model/command.h"

namespace fulmar::sim {

class OwnedCommand {
 public:
  explicit OwnedCommand(const Command& command);
  OwnedCommand(OwnedCommand&&) = default;
  OwnedCommand& operator=(OwnedCommand&&) = default;
  const Command& command() const { return command_; }
  uint64_t digest() const;       // of its name and everything it borrows

 private:
  std::deque<std::string> kept_;  // elements stay where they are when the deque is moved
  Command command_;
};

}  // namespace fulmar::sim
