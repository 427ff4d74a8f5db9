#pragma once
// The one abstract class. A node is stepped: the driver hands it what happened and the time; it changes its own memory and leaves
// requests in the outbox; the driver carries them out after the step.

#include <functional>
#include <memory>
#include <span>

#include "core/base/prng.h"
#include "core/base/timers.h"
#include "core/io/input.h"
#include "core/io/mapped_file.h"
#include "core/io/moment.h"
#include "core/io/outbox.h"
#include "core/io/trace.h"

namespace fulmar {

class Node {  // made by node/make.h; destroying one is a crash
 public:
  virtual ~Node() = default;
  virtual void step(const Moment& now, std::span<const Input> inputs, Outbox& out) = 0;
  virtual Monotonic next_deadline() const = 0;  // step me by then even if nothing happens
};

// How a driver makes (and after a crash makes again) its node.
using NodeFactory = std::function<std::unique_ptr<Node>(Seed, Files&, Trace&)>;

// What inner machines are given for the length of a step.
struct Ctx {
  const Moment& now;
  Outbox& out;
  Files& files;
  Timers& timers;
  Prng& prng;
  Trace& trace;
};

}  // namespace fulmar
