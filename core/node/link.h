#pragma once
// Outgoing connections: one per address, dialled when first needed and again, with back-off, when next needed. Every call ends exactly
// once: with a reply, or with TimedOut, Refused, Reset, PeerClosed, Unreachable, BadAddress, Full.
//
//   Idle --call--> Dialing --Dialed--> Open --Closed--> Backoff --call after it--> Dialing

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/io/node.h"
#include "core/io/tickets.h"
#include "core/wire/framer.h"
#include "core/wire/native/codec.h"

namespace fulmar {

class ReplyHandler {
 public:
  virtual ~ReplyHandler() = default;
  // `token` as given to call(). The reply is the handler's to keep.
  virtual void on_reply(Ctx& ctx, uint64_t token, Result<Reply> reply) = 0;
};

struct LinkLimits {
  uint32_t calls_in_flight_max = 16'384;   // over all links; above: Full
  Duration dial_timeout = Duration::seconds(3);
  Duration backoff_first = Duration::milliseconds(50), backoff_max = Duration::seconds(3);
};

class Links {
 public:
  Links(uint8_t owner, std::string client_name, LinkLimits limits = {});

  // Encodes at once (the command is borrowed) and sends with the end of this step, or as soon as the link is open. on_reply never runs
  // inside call(). InvalidArgument: the command cannot be encoded; Full: too many calls in flight; the token is then not used.
  Result<void> call(Ctx& ctx, const Address& to, const Command& command, uint64_t token, Monotonic deadline);
  Result<void> call_one_way(Ctx& ctx, const Address& to, const Command& command);  // no on_reply
  bool is_open(const Address& to) const;

  // Inputs; each answers whether the event was ours.
  bool on_dialed(Ctx& ctx, const Dialed& dialed, ReplyHandler& handler);
  bool on_received(Ctx& ctx, const Received& received, ReplyHandler& handler);
  bool on_closed(Ctx& ctx, const Closed& closed, ReplyHandler& handler);
  bool on_sent(Ctx& ctx, const Sent& sent);
  void on_timer(Ctx& ctx, ReplyHandler& handler);        // TimerId(owner << 56): deadlines of calls, dials and back-offs
  void flush(Ctx& ctx);                                  // end of step: one send per link
  void close_all(Ctx& ctx);

 private:
  struct Link;
  uint8_t owner_;
  std::string client_name_;
  LinkLimits limits_;
  std::map<Address, std::unique_ptr<Link>> links_;
};

}  // namespace fulmar
