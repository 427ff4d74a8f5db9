#pragma once
// What of an input or a request enters the step hash: its kind, its arguments and a digest of what it carries.

#include "core/io/input.h"
#include "core/io/outbox.h"

namespace fulmar::sim {

uint64_t digest(const Input& input);       // of Told only the call: its command has a digest of its own
uint64_t digest(const Request& request, const Outbox& outbox);

}  // namespace fulmar::sim
