#pragma once
// Outgoing connections: one per address, dialled when first needed and again, with back-off, when next needed. Every call ends exactly
// once: with a reply, or with TimedOut, Canceled (its time ran out before it had left), Refused, Reset, PeerClosed, Unreachable,
// BadAddress, or, when the peer's answer makes no sense, FrameBroken, FrameTooLarge, HeaderBroken.
//
//   Idle --call--> Dialing --Dialed--> Open --Closed--> Backoff --its end--> Idle, or Dialing when somebody waits
//                     ^---- failed: Backoff, all that wait end with its error
//
// A call with patience (Deadline) waits on while its connection brings bytes: that one is slow, not dead.
// A call that times out on a connection that has been silent since it was made closes that connection: the peer may have died without a
// word, and calls must not go on vanishing there. The others on it end with TimedOut, too.

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/client/caller.h"
#include "core/io/node.h"
#include "core/io/tickets.h"
#include "core/wire/framer.h"
#include "core/wire/native/codec.h"

namespace fulmar {

class ReplyHandler {
 public:
  virtual ~ReplyHandler() = default;
  // `token` as given to call(). The reply is the handler's to keep. New calls may be made from here.
  virtual void on_reply(Ctx& ctx, uint64_t token, Result<Reply> reply) = 0;
  // A connection to `to` ended, or could not be made: whoever answers there next may have forgotten what was not durable, also towards
  // those who had no call under way. Comes before the replies of the calls that ended with it.
  virtual void on_link_lost(Ctx& ctx, const Address& to) { (void)ctx, (void)to; }
};

struct LinkLimits {
  uint32_t calls_in_flight_max = 16'384;        // over all links; above: Full
  uint64_t queued_bytes_max = 32u << 20;        // per link, encoded and not yet Sent; above: Full
  uint32_t links_max = 1024;                    // addresses; above: Full, and idle ones are forgotten
  Duration dial_timeout = Duration::seconds(3);
  Duration backoff_first = Duration::milliseconds(50), backoff_max = Duration::seconds(1);
};

struct LinkCounters {
  uint64_t calls = 0, replies = 0, late_replies = 0, timed_out = 0, dials = 0, failed_dials = 0, lost = 0, silent = 0;
};

class Links {
 public:
  Links(uint8_t owner, std::string client_name, LinkLimits limits = {});
  ~Links();
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  // Encodes at once (the command is borrowed) and sends with the end of this step, or as soon as the link is open; during a back-off
  // that is after it. on_reply never runs inside call(). InvalidArgument: the command cannot be encoded; Full: see LinkLimits. Then the
  // token is not used.
  Result<void> call(Ctx& ctx, const Address& to, const Command& command, uint64_t token, Deadline deadline);
  Result<void> call_one_way(Ctx& ctx, const Address& to, const Command& command);  // no on_reply; lost when the link is
  bool is_open(const Address& to) const;
  size_t calls_in_flight() const { return calls_.size(); }
  const LinkCounters& counters() const { return counters_; }

  // Inputs; each answers whether the event was ours.
  bool on_dialed(Ctx& ctx, const Dialed& dialed, ReplyHandler& handler);
  bool on_received(Ctx& ctx, const Received& received, ReplyHandler& handler);
  bool on_closed(Ctx& ctx, const Closed& closed, ReplyHandler& handler);
  bool on_sent(Ctx& ctx, const Sent& sent);
  void on_timer(Ctx& ctx, ReplyHandler& handler);        // TimerId(owner << 56): deadlines of calls, dials and back-offs
  void flush(Ctx& ctx);                                  // end of step: one send per link
  // The end of the node: connections are closed, calls in flight are forgotten without a word, nothing is dialled any more.
  void close_all(Ctx& ctx);

 private:
  struct Link;
  static constexpr uint64_t kNotSent = UINT64_MAX;
  struct Call {
    uint64_t token = 0;
    Monotonic deadline;
    Link* link = nullptr;
    uint64_t heard = kNotSent;  // how often its connection had brought bytes when it was made, or last waited on; kNotSent: it had none yet
    Duration timeout;
    Monotonic patient_until;
    size_t begin = 0, end = 0;  // of its frame among what waits for the connection
  };
  struct InFlight { Link* link = nullptr; ConnId conn; uint64_t bytes = 0; };  // a dial (no bytes) or a send
  using Calls = std::map<uint32_t, Call>;                                       // by opaque number
  using Deadlines = std::set<std::pair<Monotonic, uint32_t>>;

  Result<Link*> link_to(const Address& to);
  Result<void> encode(Ctx& ctx, const Address& to, const Command& command, uint32_t opaque, bool is_one_way, Link** link);
  uint32_t new_opaque();
  void add_call(uint32_t opaque, const Call& call);
  void add_deadline(uint32_t opaque, Monotonic deadline);
  bool wait_on(uint32_t opaque, Call& call, Monotonic now);
  Call take_call(Calls::iterator at);
  void dial(Ctx& ctx, Link& link);
  void take_back(const Call& call);
  void enter_open(Link& link, ConnId conn);
  void enter_backoff(Ctx& ctx, Link& link, const Error& why, ReplyHandler& handler);
  bool read_frame(Ctx& ctx, Link& link, Bytes frame, ReplyHandler& handler);
  void read_welcome(Ctx& ctx, Link& link, const Reply& reply, ReplyHandler& handler);
  void lose(Ctx& ctx, Link& link, const Error& why, ReplyHandler& handler);
  void wake_by(Ctx& ctx, Monotonic at);
  void touch(Link& link);

  uint8_t owner_;
  std::string client_name_;
  LinkLimits limits_;
  LinkCounters counters_;
  native::Codec codec_;
  TicketBook<InFlight> tickets_;
  std::map<Address, std::unique_ptr<Link>> links_;
  std::map<ConnId, Link*> by_conn_;
  Calls calls_;
  Deadlines deadlines_;
  std::vector<Calls::node_type> spare_calls_;          // so that a warm link does not allocate
  std::vector<Deadlines::node_type> spare_deadlines_;
  std::vector<Link*> touched_;
  uint32_t last_opaque_ = 0;                           // 0 itself is the hello's
  Monotonic armed_ = Monotonic::never();
  bool is_closed_ = false;
};

}  // namespace fulmar
