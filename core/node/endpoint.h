#pragma once
// Accepted connections: which protocol a peer speaks (decision 16), its framer, its opaque numbers, and one gathered send per
// connection and step. Both codecs are called here and in link.h, and nowhere else.
//
//   Accepted -> Greeting --preamble--> Native --…--> closed
//                        --anything else--> one line of text, closed, counted

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/io/node.h"
#include "core/io/tickets.h"
#include "core/wire/framer.h"
#include "core/wire/native/codec.h"

namespace fulmar {

// Where a reply goes.
struct RequestRef {
  ConnId conn;
  uint32_t opaque = 0;
  bool is_one_way = false;
};

class RequestHandler {
 public:
  virtual ~RequestHandler() = default;
  // `command` is borrowed. Answer now or later through Endpoint::reply; an answer to a one-way request or to a closed connection is
  // dropped there.
  virtual void on_request(Ctx& ctx, const RequestRef& from, const Command& command) = 0;
  virtual void on_connection_closed(Ctx& ctx, ConnId conn) = 0;
};

struct EndpointLimits {
  uint32_t connections_max = 20'000;
  uint32_t requests_in_flight_max = 4096;            // per connection; above: reading pauses until half are answered
  uint64_t queued_slice_bytes_max = 1u << 20;        // per connection, file slices handed to the driver and not yet Sent
  uint64_t queued_bytes_max = 4u << 20;              // per connection, copied reply bytes not yet Sent; above: reading pauses
  uint64_t partial_bytes_max = 256u << 20;           // over all connections, unfinished frames; above: the newest is closed
  Duration greeting_timeout = Duration::seconds(10);
};

struct EndpointCounters {
  uint64_t accepted = 0, closed = 0, requests = 0, replies = 0, refused_protocol = 0, broken_frames = 0, broken_headers = 0, sends = 0;
};

class Endpoint {
 public:
  Endpoint(uint8_t owner, std::string server_name, EndpointLimits limits = {});

  // Inputs, routed by the node. on_received decodes every whole frame and calls the handler for each; Hello is answered here.
  void on_accepted(Ctx& ctx, const Accepted& accepted);
  void on_received(Ctx& ctx, const Received& received, RequestHandler& handler);
  void on_closed(Ctx& ctx, const Closed& closed, RequestHandler& handler);
  void on_sent(Ctx& ctx, const Sent& sent);
  void on_timer(Ctx& ctx);                               // TimerId(owner << 56)

  // Encodes into the connection's buffer of this step. A reply that cannot be encoded becomes a refusal.
  void reply(const RequestRef& to, const Reply& reply);
  // `slices` follow the header as attachment, pinned until Sent.
  void reply_with_slices(const RequestRef& to, const Reply& reply, std::span<const FileSlice> slices);
  // Room for `bytes` more of slices on this connection? A pull that finds none waits (on_sent makes room).
  bool has_room_for_slices(ConnId conn, uint64_t bytes) const;
  // Null when the connection is gone.
  const Peer* peer(ConnId conn) const;
  bool is_open(ConnId conn) const { return peer(conn) != nullptr; }

  // End of step: one send per connection that has something to say.
  void flush(Ctx& ctx);
  // No more requests are read; open() connections are closed once their replies are out. Returns how many are still draining.
  size_t drain(Ctx& ctx);

  const EndpointCounters& counters() const { return counters_; }
  size_t connection_count() const { return connections_.size(); }

 private:
  struct Connection;
  uint8_t owner_;
  std::string server_name_;
  EndpointLimits limits_;
  EndpointCounters counters_;
  std::map<ConnId, std::unique_ptr<Connection>> connections_;
};

}  // namespace fulmar
