#pragma once
// Accepted connections: which protocol a peer speaks (decision 16), its framer, its opaque numbers, and one gathered send per
// connection and step. Both codecs are called here and in link.h, and nowhere else.
//
//   Accepted -> Greeting --preamble--> Native --broken frame, wrong hello--> Closing --replies out, or time-out--> closed
//                        --0 or 1--> Remoting --broken frame or header--------^
//                        --anything else--> one line of text, counted ---------^
//
// A request of RocketMQ's protocol may become several commands, or none; it is answered once, when all of them are, by the last or by the
// first refusal.
//
// A connection in Closing is gone for everybody else: nothing is read from it, and replies to it are dropped.
//
// Requests are small and answers may be large, so every request is read only while there is room for answers: of the connection, of all
// connections, and of this step. What came behind it waits undecoded (the backlog) and is read by read_on() in a later step.

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/io/node.h"
#include "core/io/tickets.h"
#include "core/wire/framer.h"
#include "core/wire/native/codec.h"
#include "core/wire/remoting/commands.h"

namespace fulmar {

// Where a reply goes.
struct RequestRef {
  ConnId conn;
  uint32_t opaque = 0;         // of a remoting request: its place among the connection's unanswered ones
  bool is_one_way = false;
  bool is_remoting = false;
};

class RequestHandler {
 public:
  virtual ~RequestHandler() = default;
  // `command` is borrowed. Answer now or later through Endpoint::reply; an answer to a one-way request or to a closed connection is
  // dropped there.
  virtual void on_request(Ctx& ctx, const RequestRef& from, const Command& command) = 0;
  // Once for each connection that made a request after its hello, unless drain() closed it.
  virtual void on_connection_closed(Ctx& ctx, ConnId conn) = 0;
};

struct EndpointLimits {
  uint32_t connections_max = 20'000;
  uint32_t requests_in_flight_max = 4096;            // per connection; above: reading pauses until half are answered
  uint64_t queued_slice_bytes_max = 1u << 20;        // per connection, file slices handed to the driver and not yet Sent
  uint64_t queued_bytes_max = 4u << 20;              // per connection, copied reply bytes not yet Sent; above: reading pauses
  uint64_t queued_bytes_total_max = 128u << 20;      // over all connections; above: the one that owes most reading is closed
  uint64_t step_bytes_max = 16u << 20;               // copied reply bytes of one step; above: the next step reads on
  uint64_t partial_bytes_max = 256u << 20;           // over all connections, unfinished frames; above: the newest is closed
  Duration greeting_timeout = Duration::seconds(10);
  Duration drain_timeout = Duration::seconds(2);     // for a peer to read its last answers when we stop
};

struct EndpointCounters {
  uint64_t accepted = 0, closed = 0, requests = 0, replies = 0, refused_protocol = 0, refused_full = 0, broken_frames = 0,
           broken_headers = 0, pushes = 0, too_slow = 0, sends = 0, pauses = 0, deaf = 0;
};

class Endpoint {
 public:
  Endpoint(uint8_t owner, std::string server_name, EndpointLimits limits = {});
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // Inputs, routed by the node. on_received decodes every whole frame and calls the handler for each; Hello is answered here.
  void on_accepted(Ctx& ctx, const Accepted& accepted);
  void on_received(Ctx& ctx, const Received& received, RequestHandler& handler);
  void on_closed(Ctx& ctx, const Closed& closed, RequestHandler& handler);
  void on_sent(Ctx& ctx, const Sent& sent);
  void on_timer(Ctx& ctx);                               // TimerId(owner << 56)
  // Once a step, behind the inputs: requests that waited for room, and the end of connections that read nothing of what they asked for.
  void read_on(Ctx& ctx, RequestHandler& handler);

  // Encodes into the connection's buffer of this step. A reply that cannot be encoded becomes a refusal. Each request that is not one-way
  // is answered once.
  void reply(const RequestRef& to, const Reply& reply);
  // `slices` follow the header as attachment, pinned until Sent.
  void reply_with_slices(const RequestRef& to, const Reply& reply, std::span<const FileSlice> slices);
  // Room for `bytes` more of slices on this connection? A pull that finds none waits (on_sent makes room). An empty connection has
  // room for anything, so that a message above the bound still leaves.
  bool has_room_for_slices(ConnId conn, uint64_t bytes) const;
  // Tells a client of RocketMQ's protocol that a group of it has other members now. Dropped when the connection is gone or another's.
  void tell_group_changed(ConnId conn, std::string_view group);
  // Null when the connection is gone or about to be closed.
  const Peer* peer(ConnId conn) const;
  bool is_open(ConnId conn) const { return peer(conn) != nullptr; }

  // End of step: one send per connection that has something to say.
  void flush(Ctx& ctx);
  // No more requests are read; open() connections are closed once their replies are out, or were not read in time. Returns how many
  // are still draining.
  size_t drain(Ctx& ctx);

  const EndpointCounters& counters() const { return counters_; }
  size_t connection_count() const { return connections_.size(); }

 private:
  struct Connection;
  struct InFlight { ConnId conn; uint64_t bytes = 0, slice_bytes = 0; };  // of one send

  Connection* find(ConnId conn) const;
  void read_greeting(Ctx& ctx, ConnId id, Connection& c, Bytes& chunk);
  void read_frames(Ctx& ctx, ConnId id, Connection& c, Bytes chunk, RequestHandler& handler);
  // False when the connection is closing now.
  bool read_request(Ctx& ctx, ConnId id, Connection& c, Bytes frame, RequestHandler& handler);
  bool read_remoting(Ctx& ctx, ConnId id, Connection& c, Bytes frame, RequestHandler& handler);
  bool read_hello(Ctx& ctx, ConnId id, Connection& c, const native::DecodedRequest& request, RequestHandler& handler);
  bool refuse_header(Ctx& ctx, ConnId id, Connection& c, const native::DecodeFailure& failure, RequestHandler& handler);
  void limit_partial_bytes(Ctx& ctx, RequestHandler& handler);
  void limit_queued_bytes(Ctx& ctx, RequestHandler& handler);
  bool has_room_for_answers(const Connection& c) const;
  void set_backlog(ConnId id, Connection& c, Bytes rest);

  // `ask`: of a remoting request, whose opaque number it knows.
  void answer(ConnId id, Connection& c, uint32_t opaque, const Reply& reply, std::span<const FileSlice> slices, const remoting::Ask* ask = nullptr);
  void answer_part(const RequestRef& to, Connection& c, const Reply& reply, std::span<const FileSlice> slices);
  void refuse_protocol(Ctx& ctx, ConnId id, Connection& c, std::string_view why);
  void touch(ConnId id, Connection& c);
  void send(Ctx& ctx, ConnId id, Connection& c);
  void adjust_reading(Ctx& ctx, ConnId id, Connection& c);
  void set_deadline(Ctx& ctx, ConnId id, Connection& c, Monotonic at);
  void arm_timer(Ctx& ctx);
  void note_partial(Connection& c);
  void enter_closing(Ctx& ctx, ConnId id, Connection& c, RequestHandler* handler);
  void close_now(Ctx& ctx, ConnId id, Errc why);
  void forget(Ctx& ctx, ConnId id);

  uint8_t owner_;
  std::string server_name_;
  EndpointLimits limits_;
  EndpointCounters counters_;
  native::Codec codec_;
  remoting::Codec remoting_codec_;
  int32_t next_push_ = 1;                             // opaque number of what we ask of RocketMQ's clients
  TicketBook<InFlight> sends_;
  std::map<ConnId, std::unique_ptr<Connection>> connections_;
  std::set<std::pair<Monotonic, ConnId>> deadlines_;  // greetings and closings
  std::vector<ConnId> touched_;                       // have something to say, or less to do, in this step
  std::vector<Piece> pieces_;                         // of the send being made; kept for its memory
  uint64_t partial_bytes_ = 0;
  uint64_t queued_bytes_ = 0, step_bytes_ = 0;        // copied reply bytes: with the driver, and said in this step
  std::set<ConnId> backlogged_;
  ConnId last_read_on_;                               // who had the last turn
  bool is_draining_ = false;
  Monotonic drain_by_ = Monotonic::never();
};

}  // namespace fulmar
