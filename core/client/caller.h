#pragma once
// What the client's machines ask of the node that carries them: one request to one address. node/link.h keeps the promise.

#include <cstdint>

#include "core/io/node.h"

namespace fulmar {

// When a call is given up. `patient_until`, when later: the call waits on up to there, one more time-out at a time, while its connection
// brings bytes. For answers that may be long: over a slow line, giving one up does not stop it from coming, and what is asked instead
// queues behind it, so that in the end nothing gets through.
struct Deadline {
  Monotonic at, patient_until;
  Deadline(Monotonic when, Monotonic last = {}) : at(when), patient_until(last) {}
};

class Caller {
 public:
  virtual ~Caller() = default;
  // The reply comes to the machine whose owner byte leads `token`, exactly once, never inside this call and at the latest at
  // `deadline.at` (TimedOut). An error here (InvalidArgument: cannot be encoded; Full: too many calls) means that no reply will come.
  virtual Result<void> call(Ctx& ctx, const Address& to, const Command& command, uint64_t token, Deadline deadline) = 0;
  // No reply comes, and nobody learns whether it arrived. An error means that it was not sent.
  virtual Result<void> call_one_way(Ctx& ctx, const Address& to, const Command& command) = 0;
};

// Tokens and timers carry their owner in the top byte and a serial number of the owner's below.
constexpr uint64_t owned_id(uint8_t owner, uint64_t serial) { return uint64_t{owner} << 56 | serial; }
constexpr uint8_t owner_of(uint64_t id) { return static_cast<uint8_t>(id >> 56); }
constexpr uint64_t serial_of(uint64_t id) { return id & ((uint64_t{1} << 56) - 1); }

// A failed call whose request certainly never left: nobody has acted on it. Of every other failure the outcome is unknown.
constexpr bool was_never_sent(Errc why) {
  return why == Errc::Refused || why == Errc::Canceled || why == Errc::BadAddress || why == Errc::Full || why == Errc::InvalidArgument;
}

// Begins the cause of a refusal when the request may have been carried out all the same: its answer was lost.
inline constexpr std::string_view kOutcomeUnknown = "outcome unknown: ";
inline bool is_outcome_unknown(const Refusal& refusal) { return refusal.cause.starts_with(kOutcomeUnknown); }

// Begins the cause of a refusal when nobody was there to ask: no broker is known, or none that is takes a connection.
inline constexpr std::string_view kNotConnected = "could not connect: ";
inline bool is_not_connected(const Refusal& refusal) { return refusal.cause.starts_with(kNotConnected); }

// base * 2^failures, at most `max`, of which a random half is taken off so that many clients do not come back at once. One draw.
inline Duration back_off(Prng& prng, Duration base, Duration max, uint32_t failures) {
  const Duration whole = std::min(max, base * (int64_t{1} << std::min<uint32_t>(failures, 20)));
  return Duration{prng.between(whole.ns / 2, whole.ns)};
}

}  // namespace fulmar
