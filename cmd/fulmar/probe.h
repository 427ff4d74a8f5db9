#pragma once
// One question to one address over the native protocol, without a client node: for verbs that want this very server.

#include "core/io/ids.h"
#include "core/model/command.h"

namespace fulmar::cmd {

// The answer, a Refusal too. Refused, TimedOut, BadAddress: nobody is there; the sentence names the address. FrameBroken: whoever listens
// there does not speak our protocol.
Result<Reply> ask_server(const Address& to, const Command& command, int limit_ms = 2000);

// A value of GetStatus by its name; empty when it is not there.
std::string_view status_value(const reply::Status& status, std::string_view name);

}  // namespace fulmar::cmd
