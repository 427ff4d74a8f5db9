#include "core/node/endpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/base/marks.h"

namespace fulmar {
namespace {

constexpr size_t kKeptBytesMax = 64u << 10;  // of a reply buffer between two steps: there may be thousands of connections

struct ProtocolRefused {
  FULMAR_EVENT(ProtocolRefused, Info, "connection {} refused: {}");
  ConnId conn;
  std::string_view why;
  auto values() const { return std::array{conn.value()}; }
  std::string_view text() const { return why; }
};
struct FrameRefused {
  FULMAR_EVENT(FrameRefused, Info, "connection {} closed: {}");
  ConnId conn;
  std::string_view why;
  auto values() const { return std::array{conn.value()}; }
  std::string_view text() const { return why; }
};
struct PeerWasTooSlow {
  FULMAR_EVENT(PeerWasTooSlow, Info, "connection {} closed: no greeting, or it does not read");
  ConnId conn;
  auto values() const { return std::array{conn.value()}; }
};

Refusal refusal(Code code, std::string cause, std::string measured = {}) {
  Refusal r;
  r.code = code;
  r.cause = std::move(cause);
  r.measured = std::move(measured);
  return r;
}

}  // namespace

struct Endpoint::Connection {
  enum class State : uint8_t { Greeting, Native, Remoting, Closing };
  struct Part { bool is_slice = false; size_t begin = 0, end = 0; FileSlice slice; };  // bytes [begin, end) of `out`, or a slice

  // A remoting request that waits for the replies to its parts.
  struct Pending {
    remoting::Ask ask;
    uint32_t parts_left = 0;              // 0: nobody waits at this place
    std::unique_ptr<Refusal> refused;     // the first refusal of a part
  };

  State state = State::Greeting;
  Peer peer;
  std::array<uint8_t, native::kPreamble.size()> preamble{};
  size_t preamble_bytes = 0;
  bool has_said_hello = false, is_known_to_handler = false;
  Framer framer{native::kFrameBytesMaxRequest, native::frame_bytes};
  uint64_t partial_bytes = 0;           // what the framer and the backlog held when we last looked
  std::vector<uint8_t> backlog;         // came in and was not looked at, for want of room for answers
  Monotonic deadline = Monotonic::never();

  std::vector<uint8_t> out;             // replies of this step
  std::vector<Part> parts;              // order of bytes and slices; bytes behind the last part are not in it yet
  uint64_t out_slice_bytes = 0;
  bool is_touched = false;

  std::vector<Pending> pending;         // by RequestRef::opaque; at most as many as were ever in flight at once
  std::vector<uint32_t> free_places;
  uint32_t newest_opaque = 0;
  uint32_t requests_in_flight = 0;
  uint64_t queued_bytes = 0, queued_slice_bytes = 0;  // handed to the driver, not yet Sent
  uint32_t sends_out = 0;
  bool is_paused = false;

  bool is_open() const { return state == State::Native || state == State::Remoting; }
  bool is_quiet() const { return sends_out == 0 && out.empty() && parts.empty(); }
  uint32_t keep(const remoting::Ask& ask, uint32_t parts_left) {
    uint32_t place = static_cast<uint32_t>(pending.size());
    if (free_places.empty()) {
      pending.emplace_back();
    } else {
      place = free_places.back();
      free_places.pop_back();
    }
    pending[place] = {ask, parts_left, nullptr};
    return place;
  }
};

Endpoint::Endpoint(uint8_t owner, std::string server_name, EndpointLimits limits)
    : owner_(owner), server_name_(std::move(server_name)), limits_(limits), sends_(owner) {}
Endpoint::~Endpoint() = default;

Endpoint::Connection* Endpoint::find(ConnId conn) const {
  const auto found = connections_.find(conn);
  return found == connections_.end() ? nullptr : found->second.get();
}

const Peer* Endpoint::peer(ConnId conn) const {
  const Connection* c = find(conn);
  return c == nullptr || c->state == Connection::State::Closing ? nullptr : &c->peer;
}

// --- inputs -----------------------------------------------------------------------------------------------------------------------------

void Endpoint::on_accepted(Ctx& ctx, const Accepted& accepted) {
  ++counters_.accepted;
  if (is_draining_) return ctx.out.close(accepted.conn, Errc::Stopping);
  if (connections_.size() >= limits_.connections_max) {
    SOMETIMES("node: too many connections", true);
    ++counters_.refused_full;
    return ctx.out.close(accepted.conn, Errc::Full);
  }
  auto& c = connections_[accepted.conn];
  CHECK(c == nullptr, "connection {} was accepted twice", accepted.conn);
  c = std::make_unique<Connection>();
  c->peer = accepted.peer;
  set_deadline(ctx, accepted.conn, *c, ctx.now.monotonic + limits_.greeting_timeout);
}

void Endpoint::on_received(Ctx& ctx, const Received& received, RequestHandler& handler) {
  Connection* c = find(received.conn);
  if (c == nullptr || is_draining_) return;
  Bytes chunk = received.bytes;
  if (c->state == Connection::State::Greeting) read_greeting(ctx, received.conn, *c, chunk);
  if (c->is_open() && !chunk.empty()) {
    if (c->backlog.empty()) {
      read_frames(ctx, received.conn, *c, chunk, handler);
    } else {
      c->backlog.insert(c->backlog.end(), chunk.begin(), chunk.end());
      note_partial(*c);
    }
  }
  touch(received.conn, *c);
  limit_partial_bytes(ctx, handler);
}

// Takes the preamble off the front of `chunk`; RocketMQ's frames begin at once. The first byte that differs decides (decision 16).
void Endpoint::read_greeting(Ctx& ctx, ConnId id, Connection& c, Bytes& chunk) {
  constexpr size_t kNameBytes = 6;
  while (!chunk.empty() && c.preamble_bytes < c.preamble.size()) {
    const uint8_t byte = chunk.front();
    if (c.preamble_bytes < kNameBytes && byte != native::kPreamble[c.preamble_bytes]) {
      const bool is_first = c.preamble_bytes == 0;
      if (is_first && byte <= 0x01) {
        c.state = Connection::State::Remoting;
        c.framer = Framer(remoting::kFrameBytesMax, remoting::frame_bytes);
        return;
      }
      if (is_first && byte == 0x16) return refuse_protocol(ctx, id, c, "TLS is not served here");
      return refuse_protocol(ctx, id, c, "these bytes belong to another one");
    }
    c.preamble[c.preamble_bytes++] = byte;
    chunk = chunk.subspan(1);
  }
  if (c.preamble_bytes < c.preamble.size()) return;
  const auto version = load_be<uint16_t>(c.preamble.data() + kNameBytes);
  if (version != native::kVersion)
    return refuse_protocol(ctx, id, c, fmt::format("the client speaks version {}, the server version {}", version, native::kVersion));
  c.state = Connection::State::Native;
}

void Endpoint::refuse_protocol(Ctx& ctx, ConnId id, Connection& c, std::string_view why) {
  ++counters_.refused_protocol;
  ctx.trace.note(ProtocolRefused{id, why});
  const std::string line = fmt::format("fulmar speaks its native protocol and RocketMQ's on this port; {}\r\n", why);
  c.out.insert(c.out.end(), line.begin(), line.end());
  touch(id, c);
  enter_closing(ctx, id, c, nullptr);
}

void Endpoint::read_frames(Ctx& ctx, ConnId id, Connection& c, Bytes chunk, RequestHandler& handler) {
  c.framer.feed(chunk);
  while (true) {
    if (!has_room_for_answers(c)) {
      set_backlog(id, c, c.framer.take_rest());
      break;
    }
    const auto frame = c.framer.next();
    if (!frame) {
      ++counters_.broken_frames;
      ctx.trace.note(FrameRefused{id, frame.error().detail});
      enter_closing(ctx, id, c, &handler);
      break;
    }
    if (frame->empty() || !read_request(ctx, id, c, *frame, handler)) break;
  }
  note_partial(c);
}

bool Endpoint::has_room_for_answers(const Connection& c) const {
  return c.requests_in_flight <= limits_.requests_in_flight_max && c.queued_bytes + c.out.size() <= limits_.queued_bytes_max &&
         queued_bytes_ + step_bytes_ <= limits_.queued_bytes_total_max && step_bytes_ <= limits_.step_bytes_max;
}

void Endpoint::set_backlog(ConnId id, Connection& c, Bytes rest) {
  if (rest.empty()) return;
  SOMETIMES("node: requests wait for room for their answers", true);
  c.backlog.assign(rest.begin(), rest.end());
  backlogged_.insert(id);
}

void Endpoint::read_on(Ctx& ctx, RequestHandler& handler) {
  limit_queued_bytes(ctx, handler);
  for (size_t turns = backlogged_.size(); turns > 0 && !is_draining_; --turns) {
    auto next = backlogged_.upper_bound(last_read_on_);   // in turn, so that the room of a step is not always the same one's
    if (next == backlogged_.end()) next = backlogged_.begin();
    const ConnId id = last_read_on_ = *next;
    Connection& c = *find(id);
    if (!has_room_for_answers(c)) continue;
    backlogged_.erase(next);
    const std::vector<uint8_t> waited = std::exchange(c.backlog, {});
    read_frames(ctx, id, c, waited, handler);
    touch(id, c);
  }
}

bool Endpoint::read_request(Ctx& ctx, ConnId id, Connection& c, Bytes frame, RequestHandler& handler) {
  if (c.state == Connection::State::Remoting) return read_remoting(ctx, id, c, frame, handler);
  const auto request = codec_.decode_request(frame);
  if (!request) return refuse_header(ctx, id, c, request.error(), handler);
  ++counters_.requests;
  if (!c.has_said_hello || std::holds_alternative<command::Hello>(request->command)) return read_hello(ctx, id, c, *request, handler);
  c.newest_opaque = request->opaque;
  c.is_known_to_handler = true;
  if (!request->is_one_way) ++c.requests_in_flight;
  handler.on_request(ctx, RequestRef{id, request->opaque, request->is_one_way}, request->command);
  return true;
}

bool Endpoint::read_remoting(Ctx& ctx, ConnId id, Connection& c, Bytes frame, RequestHandler& handler) {
  const auto request = remoting_codec_.decode_request(frame);
  if (!request) {
    ++counters_.broken_headers;
    ctx.trace.note(FrameRefused{id, request.error().detail});
    enter_closing(ctx, id, c, &handler);
    return false;
  }
  ++counters_.requests;
  SOMETIMES("node: a connection of RocketMQ's protocol", !c.has_said_hello);
  if (!std::exchange(c.has_said_hello, true)) set_deadline(ctx, id, c, Monotonic::never());
  const bool is_one_way = request->is_one_way;
  if (request->answer && !is_one_way) answer(id, c, 0, *request->answer, {}, &request->ask);
  if (request->parts.empty()) return true;
  c.is_known_to_handler = true;
  uint32_t place = 0;
  if (!is_one_way) {
    const auto loud = std::count_if(request->parts.begin(), request->parts.end(), [](const auto& part) { return !part.is_silent; });
    place = c.keep(request->ask, static_cast<uint32_t>(loud));
    ++c.requests_in_flight;
  }
  for (const remoting::Request::Part& part : request->parts)
    handler.on_request(ctx, RequestRef{id, place, is_one_way || part.is_silent, true}, part.command);
  return true;
}

bool Endpoint::read_hello(Ctx& ctx, ConnId id, Connection& c, const native::DecodedRequest& request, RequestHandler& handler) {
  const auto* hello = std::get_if<command::Hello>(&request.command);
  Reply reply;
  bool is_welcome = false;
  if (hello == nullptr) {
    reply = refusal(Code::InvalidParameter, "hello is the first request of a connection", fmt::format("got {}", name_of(request.command)));
  } else if (hello->version != native::kVersion) {
    reply = refusal(Code::VersionNotSupported, "this version of the native protocol is not supported",
                    fmt::format("the client speaks version {}, the server version {}", hello->version, native::kVersion));
  } else {
    is_welcome = true;
    reply::Hello welcome;
    welcome.version = native::kVersion;
    welcome.server = server_name_;
    welcome.frame_bytes_max = native::kFrameBytesMaxRequest;
    reply = std::move(welcome);
  }
  if (!request.is_one_way) answer(id, c, request.opaque, reply, {});
  if (is_welcome) {
    c.has_said_hello = true;
    set_deadline(ctx, id, c, Monotonic::never());
  } else {
    enter_closing(ctx, id, c, &handler);
  }
  return is_welcome;
}

// A header that does not parse harms only its own request, as long as we can tell which one it was and the peer is a known one.
bool Endpoint::refuse_header(Ctx& ctx, ConnId id, Connection& c, const native::DecodeFailure& failure, RequestHandler& handler) {
  ++counters_.broken_headers;
  const bool is_unknown = failure.error.code == Errc::Unsupported;
  if (failure.has_opaque && !failure.is_one_way) {
    answer(id, c, failure.opaque, refusal(is_unknown ? Code::RequestCodeNotSupported : Code::InvalidParameter, failure.error.detail), {});
  }
  if (failure.has_opaque && c.has_said_hello) return true;
  ctx.trace.note(FrameRefused{id, failure.error.detail});
  enter_closing(ctx, id, c, &handler);
  return false;
}

void Endpoint::on_closed(Ctx& ctx, const Closed& closed, RequestHandler& handler) {
  Connection* c = find(closed.conn);
  if (c == nullptr) return;
  const bool tell = c->is_known_to_handler && c->state != Connection::State::Closing;
  forget(ctx, closed.conn);
  if (tell) handler.on_connection_closed(ctx, closed.conn);
}

void Endpoint::on_sent(Ctx& ctx, const Sent& sent) {
  const InFlight what = sends_.redeem(sent.ticket);
  Connection* c = find(what.conn);
  if (c == nullptr) return;
  queued_bytes_ -= what.bytes;
  c->queued_bytes -= what.bytes;
  c->queued_slice_bytes -= what.slice_bytes;
  --c->sends_out;
  if (c->state == Connection::State::Closing && c->is_quiet()) return close_now(ctx, what.conn, Errc::Canceled);
  adjust_reading(ctx, what.conn, *c);
}

void Endpoint::on_timer(Ctx& ctx) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= ctx.now.monotonic) {
    const ConnId id = deadlines_.begin()->second;
    ++counters_.too_slow;
    ctx.trace.note(PeerWasTooSlow{id});
    SOMETIMES("node: a peer is too slow to greet or to read", true);
    close_now(ctx, id, Errc::PeerTooSlow);
  }
  arm_timer(ctx);
}

// For the earliest deadline; one that has passed for draining is the node's to act on, once.
void Endpoint::arm_timer(Ctx& ctx) {
  Monotonic next = deadlines_.empty() ? Monotonic::never() : deadlines_.begin()->first;
  if (drain_by_ > ctx.now.monotonic) next = std::min(next, drain_by_);
  if (next != Monotonic::never()) ctx.timers.set(TimerId(uint64_t{owner_} << 56), next);
}

// --- replies ----------------------------------------------------------------------------------------------------------------------------

void Endpoint::reply(const RequestRef& to, const Reply& reply) { reply_with_slices(to, reply, {}); }

void Endpoint::reply_with_slices(const RequestRef& to, const Reply& reply, std::span<const FileSlice> slices) {
  Connection* c = find(to.conn);
  if (c == nullptr || c->state == Connection::State::Closing) return;
  if (to.is_one_way && (to.is_remoting || !MUTANT(EndpointAnswersOneWay))) return;
  if (to.is_remoting) return answer_part(to, *c, reply, slices);
  if (!to.is_one_way) {
    CHECK(c->requests_in_flight > 0, "request {} of connection {} was answered twice", to.opaque, to.conn);
    --c->requests_in_flight;
  }
  answer(to.conn, *c, MUTANT(EndpointAnswersNewestOpaque) ? c->newest_opaque : to.opaque, reply, slices);
}

void Endpoint::answer_part(const RequestRef& to, Connection& c, const Reply& reply, std::span<const FileSlice> slices) {
  CHECK(to.opaque < c.pending.size() && c.pending[to.opaque].parts_left > 0, "place {} of connection {} was answered twice", to.opaque, to.conn);
  Connection::Pending& pending = c.pending[to.opaque];
  const auto* refusal = std::get_if<Refusal>(&reply);
  if (--pending.parts_left > 0) {
    SOMETIMES("node: a part of a request is refused", refusal != nullptr);
    if (refusal != nullptr && pending.refused == nullptr && !MUTANT(RemotingForgetsRefusedPart)) pending.refused = std::make_unique<Refusal>(*refusal);
    return;
  }
  --c.requests_in_flight;
  const remoting::Ask ask = pending.ask;
  const std::unique_ptr<Refusal> refused = std::move(pending.refused);
  c.free_places.push_back(to.opaque);
  if (refused != nullptr) answer(to.conn, c, 0, *refused, {}, &ask);
  else answer(to.conn, c, 0, reply, slices, &ask);
}

void Endpoint::tell_group_changed(ConnId id, std::string_view group) {
  Connection* c = find(id);
  if (c == nullptr || c->state != Connection::State::Remoting) return;
  touch(id, *c);
  ++counters_.pushes;
  const size_t before = c->out.size();
  remoting::Codec::encode_group_changed(next_push_, group, c->out);
  next_push_ = next_push_ == INT32_MAX ? 1 : next_push_ + 1;
  step_bytes_ += c->out.size() - before;
}

void Endpoint::answer(ConnId id, Connection& c, uint32_t opaque, const Reply& reply, std::span<const FileSlice> slices, const remoting::Ask* ask) {
  const auto encode = [&](const Reply& r, uint64_t following_bytes) {
    return ask != nullptr ? remoting::Codec::encode_reply(*ask, r, following_bytes, c.out) : codec_.encode_response(opaque, r, following_bytes, c.out);
  };
  uint64_t slice_bytes = 0;
  for (const FileSlice& slice : slices) slice_bytes += slice.range.size();
  touch(id, c);
  ++counters_.replies;
  const size_t before = c.out.size();
  if (auto encoded = encode(reply, slice_bytes); !encoded) {
    SOMETIMES("node: a reply cannot be encoded", true);
    encoded = encode(refusal(Code::SystemError, "the answer does not fit a frame", encoded.error().detail), 0);
    CHECK(encoded.has_value(), "{}", encoded.error().text());
    step_bytes_ += c.out.size() - before;
    return;
  }
  step_bytes_ += c.out.size() - before;
  if (slices.empty()) return;
  c.parts.push_back({false, c.parts.empty() ? 0 : c.parts.back().end, c.out.size(), {}});
  for (const FileSlice& slice : slices) c.parts.push_back({true, c.out.size(), c.out.size(), slice});
  c.out_slice_bytes += slice_bytes;
}

bool Endpoint::has_room_for_slices(ConnId conn, uint64_t bytes) const {
  const Connection* c = find(conn);
  if (c == nullptr) return true;  // the reply will be dropped
  const uint64_t queued = c->queued_slice_bytes + c->out_slice_bytes;
  return queued == 0 || queued + bytes <= limits_.queued_slice_bytes_max;
}

// --- end of step ------------------------------------------------------------------------------------------------------------------------

void Endpoint::touch(ConnId id, Connection& c) {
  if (c.is_touched) return;
  c.is_touched = true;
  touched_.push_back(id);
}

void Endpoint::flush(Ctx& ctx) {
  for (const ConnId id : touched_) {
    Connection* c = find(id);
    if (c == nullptr) continue;
    c->is_touched = false;
    if (!c->out.empty()) send(ctx, id, *c);
    if (c->state == Connection::State::Closing && c->is_quiet()) close_now(ctx, id, Errc::Canceled);
    else adjust_reading(ctx, id, *c);
  }
  touched_.clear();
  // Those whom only this step's limit stopped, or who wait for somebody to be closed, hear of nothing else.
  if (!backlogged_.empty() && (step_bytes_ > limits_.step_bytes_max || queued_bytes_ > limits_.queued_bytes_total_max)) ctx.out.step_again();
  step_bytes_ = 0;
}

void Endpoint::send(Ctx& ctx, ConnId id, Connection& c) {
  const Bytes out(c.out);
  InFlight what{id, out.size(), c.out_slice_bytes};
  pieces_.clear();
  for (const Connection::Part& part : c.parts) {
    if (part.is_slice) pieces_.emplace_back(part.slice);
    else pieces_.emplace_back(out.subspan(part.begin, part.end - part.begin));
  }
  const size_t rest = c.parts.empty() ? 0 : c.parts.back().end;
  if (rest < out.size()) pieces_.emplace_back(out.subspan(rest));
  c.queued_bytes += what.bytes;
  queued_bytes_ += what.bytes;
  c.queued_slice_bytes += what.slice_bytes;
  ++c.sends_out;
  ++counters_.sends;
  ctx.out.send(sends_.issue(what), id, pieces_);
  if (c.out.capacity() > kKeptBytesMax) c.out = {};
  c.out.clear();
  c.parts.clear();
  c.out_slice_bytes = 0;
}

// Reading stops above a bound and starts again at half of it, so that it does not flap.
void Endpoint::adjust_reading(Ctx& ctx, ConnId id, Connection& c) {
  if (c.state == Connection::State::Closing || is_draining_) return;
  const uint64_t bytes = c.queued_bytes + c.out.size();
  const bool is_behind = !c.backlog.empty();
  if (!c.is_paused && (is_behind || c.requests_in_flight > limits_.requests_in_flight_max || bytes > limits_.queued_bytes_max)) {
    SOMETIMES("node: a connection is paused", true);
    c.is_paused = true;
    ++counters_.pauses;
    ctx.out.pause(id);
  } else if (c.is_paused && !is_behind && c.requests_in_flight <= limits_.requests_in_flight_max / 2 && bytes <= limits_.queued_bytes_max / 2) {
    if (MUTANT(EndpointNeverResumes)) return;
    c.is_paused = false;
    ctx.out.resume(id);
  }
}

size_t Endpoint::drain(Ctx& ctx) {
  if (!is_draining_) {
    is_draining_ = true;
    drain_by_ = ctx.now.monotonic + limits_.drain_timeout;
    arm_timer(ctx);
    for (auto& [id, c] : connections_) {
      if (!c->is_paused) ctx.out.pause(id);
      c->is_paused = true;
    }
  }
  for (auto next = connections_.begin(); next != connections_.end();) {
    const auto& [id, c] = *next++;  // closing erases it
    const bool is_answered = !c->is_open() || c->requests_in_flight == 0;
    const bool is_late = ctx.now.monotonic >= drain_by_;
    SOMETIMES("node: a peer does not read its last answers", is_answered && is_late && !c->is_quiet());
    if (is_answered && (is_late || c->is_quiet())) close_now(ctx, id, is_late ? Errc::PeerTooSlow : Errc::Stopping);
  }
  return connections_.size();
}

// --- the end of a connection ------------------------------------------------------------------------------------------------------------

void Endpoint::enter_closing(Ctx& ctx, ConnId id, Connection& c, RequestHandler* handler) {
  CHECK(c.state != Connection::State::Closing);
  c.state = Connection::State::Closing;
  c.backlog = {};
  backlogged_.erase(id);
  if (!c.is_paused) ctx.out.pause(id);
  c.is_paused = true;
  touch(id, c);
  set_deadline(ctx, id, c, ctx.now.monotonic + limits_.greeting_timeout);  // a peer that does not read
  if (handler != nullptr && c.is_known_to_handler) handler->on_connection_closed(ctx, id);
}

void Endpoint::close_now(Ctx& ctx, ConnId id, Errc why) {
  ctx.out.close(id, why);
  forget(ctx, id);
}

void Endpoint::forget(Ctx& ctx, ConnId id) {
  Connection& c = *find(id);
  set_deadline(ctx, id, c, Monotonic::never());
  partial_bytes_ -= c.partial_bytes;
  queued_bytes_ -= c.queued_bytes;
  backlogged_.erase(id);
  ++counters_.closed;
  connections_.erase(id);
}

void Endpoint::set_deadline(Ctx& ctx, ConnId id, Connection& c, Monotonic at) {
  if (c.deadline != Monotonic::never()) deadlines_.erase({c.deadline, id});
  c.deadline = at;
  if (at == Monotonic::never()) return;
  deadlines_.emplace(at, id);
  if (deadlines_.begin()->second == id) arm_timer(ctx);
}

void Endpoint::note_partial(Connection& c) {
  partial_bytes_ -= c.partial_bytes;
  c.partial_bytes = c.state == Connection::State::Closing ? 0 : c.framer.buffered_bytes() + c.backlog.size();
  partial_bytes_ += c.partial_bytes;
}

// The newest connection gives way: whoever was there first has the older right to the memory.
void Endpoint::limit_partial_bytes(Ctx& ctx, RequestHandler& handler) {
  while (partial_bytes_ > limits_.partial_bytes_max) {
    SOMETIMES("node: too many unfinished frames", true);
    auto newest = connections_.rbegin();
    while (newest->second->partial_bytes == 0) ++newest;
    const ConnId id = newest->first;
    const bool tell = newest->second->is_known_to_handler;
    close_now(ctx, id, Errc::Full);
    if (tell) handler.on_connection_closed(ctx, id);
  }
}

// Whoever owes most gives way: it asks and does not read.
void Endpoint::limit_queued_bytes(Ctx& ctx, RequestHandler& handler) {
  while (queued_bytes_ > limits_.queued_bytes_total_max) {
    SOMETIMES("node: too many answers wait for peers that do not read", true);
    const auto worst = std::max_element(connections_.begin(), connections_.end(),
                                        [](const auto& a, const auto& b) { return a.second->queued_bytes < b.second->queued_bytes; });
    const ConnId id = worst->first;
    const bool tell = worst->second->is_known_to_handler && worst->second->state != Connection::State::Closing;
    ++counters_.deaf;
    ctx.trace.note(PeerWasTooSlow{id});
    close_now(ctx, id, Errc::PeerTooSlow);
    if (tell) handler.on_connection_closed(ctx, id);
  }
}

}  // namespace fulmar
