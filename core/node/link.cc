#include "core/node/link.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/base/marks.h"

namespace fulmar {
namespace {

constexpr size_t kKeptBytesMax = 256u << 10;
constexpr uint32_t kHelloOpaque = 0;

struct LinkOpened {
  FULMAR_EVENT(LinkOpened, Info, "connection {} leads to {}");
  ConnId conn;
  std::string_view to;
  auto values() const { return std::array{conn.value()}; }
  std::string_view text() const { return to; }
};
struct LinkFailed {
  FULMAR_EVENT(LinkFailed, Warning, "{} calls ended, next dial in {} ms: {}");
  uint64_t calls;
  int64_t backoff_ms;
  std::string_view why;
  auto values() const { return std::array<uint64_t, 2>{calls, static_cast<uint64_t>(backoff_ms)}; }
  std::string_view text() const { return why; }
};

}  // namespace

struct Links::Link {
  enum class State : uint8_t { Idle, Dialing, Open, Backoff };

  Address to;
  State state = State::Idle;
  Ticket dial_ticket;                 // Dialing
  Monotonic wake = Monotonic::never();  // Dialing: when we stop waiting; Backoff: when we may dial again
  ConnId conn;                        // Open
  native::Framer framer{native::kFrameBytesMaxResponse};
  Duration backoff;
  std::vector<uint8_t> out;           // encoded, waits for the end of the step or for the link
  uint64_t queued_bytes = 0;          // handed to the driver, not yet Sent
  uint32_t tickets_out = 0;
  uint64_t heard = 0;                 // how often bytes came, over all connections
  uint32_t calls = 0;
  bool is_touched = false;
  std::vector<Range> taken_back;      // of `out`: calls whose time ran out before the link was open

  // Of a call that was never answered.
  bool is_silent_since(const Call& call) const { return state == State::Open && call.heard == heard; }
  bool is_idle() const {
    return (state == State::Idle || state == State::Backoff) && tickets_out == 0 && calls == 0 && out.empty() && !is_touched;
  }
};

Links::Links(uint8_t owner, std::string client_name, LinkLimits limits)
    : owner_(owner), client_name_(std::move(client_name)), limits_(limits), tickets_(owner) {}
Links::~Links() = default;

bool Links::is_open(const Address& to) const {
  const auto found = links_.find(to);
  return found != links_.end() && found->second->state == Link::State::Open;
}

// --- calls ------------------------------------------------------------------------------------------------------------------------------

Result<Links::Link*> Links::link_to(const Address& to) {
  if (const auto found = links_.find(to); found != links_.end()) return found->second.get();
  if (links_.size() >= limits_.links_max) return Error(Errc::Full, fmt::format("{} addresses are in use", links_.size()));
  auto& link = links_[to];
  link = std::make_unique<Link>();
  link->to = to;
  link->backoff = limits_.backoff_first;
  return link.get();
}

Result<void> Links::encode(Ctx& ctx, const Address& to, const Command& command, uint32_t opaque, bool is_one_way, Link** out) {
  if (is_closed_) return Errc::Stopping;
  FULMAR_TRY(Link* const link, link_to(to));
  if (link->queued_bytes + link->out.size() > limits_.queued_bytes_max)
    return Error(Errc::Full, fmt::format("{} does not read", to.text()));
  FULMAR_TRY_VOID(codec_.encode_request(opaque, is_one_way, command, link->out));
  if (link->state == Link::State::Idle) dial(ctx, *link);
  touch(*link);
  *out = link;
  return {};
}

Result<void> Links::call(Ctx& ctx, const Address& to, const Command& command, uint64_t token, Deadline deadline) {
  if (calls_.size() >= limits_.calls_in_flight_max) return Error(Errc::Full, fmt::format("{} calls are in flight", calls_.size()));
  const uint32_t opaque = new_opaque();
  const auto known = links_.find(to);
  const size_t begin = known == links_.end() ? 0 : known->second->out.size();
  Link* link = nullptr;
  FULMAR_TRY_VOID(encode(ctx, to, command, opaque, false, &link));
  add_call(opaque, {token, deadline.at, link, link->state == Link::State::Open ? link->heard : kNotSent, deadline.at - ctx.now.monotonic,
                    deadline.patient_until, begin, link->out.size()});
  wake_by(ctx, deadline.at);
  ++counters_.calls;
  return {};
}

Result<void> Links::call_one_way(Ctx& ctx, const Address& to, const Command& command) {
  Link* link = nullptr;
  const uint32_t opaque = new_opaque();
  return encode(ctx, to, command, opaque, true, &link);
}

// Numbers come round after 2^32 calls; a call that is still out then keeps its own.
uint32_t Links::new_opaque() {
  do { ++last_opaque_; } while (last_opaque_ == kHelloOpaque || calls_.contains(last_opaque_));
  return last_opaque_;
}

void Links::add_call(uint32_t opaque, const Call& call) {
  ++call.link->calls;
  if (spare_calls_.empty()) {
    calls_.emplace(opaque, call);
  } else {
    auto node = std::move(spare_calls_.back());
    spare_calls_.pop_back();
    node.key() = opaque;
    node.mapped() = call;
    calls_.insert(std::move(node));
  }
  if (call.deadline != Monotonic::never()) add_deadline(opaque, call.deadline);
}

void Links::add_deadline(uint32_t opaque, Monotonic deadline) {
  if (spare_deadlines_.empty()) {
    deadlines_.emplace(deadline, opaque);
  } else {
    auto node = std::move(spare_deadlines_.back());
    spare_deadlines_.pop_back();
    node.value() = {deadline, opaque};
    deadlines_.insert(std::move(node));
  }
}

Links::Call Links::take_call(Calls::iterator at) {
  const uint32_t opaque = at->first;
  const Call call = at->second;
  --call.link->calls;
  spare_calls_.push_back(calls_.extract(at));
  if (auto node = deadlines_.extract(std::pair{call.deadline, opaque})) spare_deadlines_.push_back(std::move(node));
  return call;
}

// --- the life of a link -----------------------------------------------------------------------------------------------------------------

void Links::dial(Ctx& ctx, Link& link) {
  CHECK(link.state == Link::State::Idle || link.state == Link::State::Backoff);
  link.state = Link::State::Dialing;
  link.dial_ticket = tickets_.issue({&link, {}, 0});
  ++link.tickets_out;
  ++counters_.dials;
  ctx.out.dial(link.dial_ticket, link.to);
  link.wake = ctx.now.monotonic + limits_.dial_timeout;
  wake_by(ctx, link.wake);
}

// The greeting goes in front of whatever waits; the answers need not be waited for.
// What a call asked must not leave behind its back: whoever asked has been told that it never did.
void Links::take_back(const Call& call) { call.link->taken_back.push_back({call.begin, call.end}); }

void Links::enter_open(Link& link, ConnId conn) {
  CHECK(link.state == Link::State::Dialing);
  std::sort(link.taken_back.begin(), link.taken_back.end());
  size_t kept = 0, from = 0;
  uint8_t* const out = link.out.data();
  for (const Range& gone : link.taken_back) {
    std::memmove(out + kept, out + from, gone.begin - from);
    kept += gone.begin - from;
    from = gone.end;
  }
  link.out.erase(link.out.begin() + static_cast<ptrdiff_t>(kept), link.out.begin() + static_cast<ptrdiff_t>(from));
  link.taken_back.clear();
  link.state = Link::State::Open;
  link.wake = Monotonic::never();
  link.conn = conn;
  link.framer = native::Framer(native::kFrameBytesMaxResponse);
  by_conn_[conn] = &link;
  std::vector<uint8_t> greeting(native::kPreamble.begin(), native::kPreamble.end());
  command::Hello hello;
  hello.version = native::kVersion;
  hello.client = client_name_;
  const auto encoded = codec_.encode_request(kHelloOpaque, false, hello, greeting);
  CHECK(encoded.has_value(), "{}", encoded.error().text());
  link.out.insert(link.out.begin(), greeting.begin(), greeting.end());
  touch(link);
}

void Links::enter_backoff(Ctx& ctx, Link& link, const Error& why, ReplyHandler& handler) {
  CHECK(link.state == Link::State::Dialing || link.state == Link::State::Open);
  if (link.state == Link::State::Open) by_conn_.erase(link.conn);
  link.state = Link::State::Backoff;
  link.out.clear();
  link.taken_back.clear();
  // Up to a quarter later, so that the clients of a broker that comes back do not come all at once.
  const Duration wait =
      link.backoff + Duration::nanoseconds(static_cast<int64_t>(ctx.prng.below(static_cast<uint64_t>(link.backoff.ns / 4) + 1)));
  link.wake = ctx.now.monotonic + wait;
  link.backoff = std::min(link.backoff * 2, limits_.backoff_max);
  wake_by(ctx, link.wake);

  std::vector<uint64_t> ended;  // handlers make new calls, so first everything of the old ones is put away
  for (auto at = calls_.begin(); at != calls_.end();) {
    const auto next = std::next(at);
    if (at->second.link == &link) ended.push_back(take_call(at).token);
    at = next;
  }
  SOMETIMES("node: a link is lost under calls", !ended.empty());
  ctx.trace.note(LinkFailed{ended.size(), wait.ms(), fmt::format("{}: {}", link.to.text(), why.text())});
  handler.on_link_lost(ctx, link.to);
  if (MUTANT(LinkForgetsCallsOfLostConnection)) return;
  for (const uint64_t token : ended) handler.on_reply(ctx, token, why);
}

void Links::lose(Ctx& ctx, Link& link, const Error& why, ReplyHandler& handler) {
  ctx.out.close(link.conn, why.code);
  enter_backoff(ctx, link, why, handler);
}

// --- inputs -----------------------------------------------------------------------------------------------------------------------------

bool Links::on_dialed(Ctx& ctx, const Dialed& dialed, ReplyHandler& handler) {
  if (dialed.ticket.owner() != owner_) return false;
  Link& link = *tickets_.redeem(dialed.ticket).link;
  --link.tickets_out;
  const bool is_wanted = link.state == Link::State::Dialing && link.dial_ticket == dialed.ticket;
  if (!is_wanted) {
    SOMETIMES("node: a dial succeeds after its time-out", dialed.link.has_value());
    if (dialed.link) ctx.out.close(dialed.link->conn, Errc::Canceled);
    return true;
  }
  if (!dialed.link) {
    ++counters_.failed_dials;
    enter_backoff(ctx, link, dialed.link.error(), handler);
    return true;
  }
  enter_open(link, dialed.link->conn);
  ctx.trace.note(LinkOpened{link.conn, link.to.text()});
  return true;
}

bool Links::on_received(Ctx& ctx, const Received& received, ReplyHandler& handler) {
  const auto found = by_conn_.find(received.conn);
  if (found == by_conn_.end()) return false;
  Link& link = *found->second;
  ++link.heard;
  link.framer.feed(received.bytes);
  // A handler or a broken frame may end the connection.
  while (link.state == Link::State::Open && link.conn == received.conn) {
    const auto frame = link.framer.next();
    if (!frame) {
      lose(ctx, link, frame.error(), handler);
      break;
    }
    if (frame->empty() || !read_frame(ctx, link, *frame, handler)) break;
  }
  return true;
}

// False when the link is gone.
bool Links::read_frame(Ctx& ctx, Link& link, Bytes frame, ReplyHandler& handler) {
  auto decoded = codec_.decode_response(frame);
  if (!decoded && !decoded.error().has_opaque) {
    lose(ctx, link, decoded.error().error, handler);
    return false;
  }
  const uint32_t opaque = decoded ? decoded->opaque : decoded.error().opaque;
  if (opaque == kHelloOpaque) {
    if (decoded) read_welcome(ctx, link, decoded->reply, handler);
    else lose(ctx, link, decoded.error().error, handler);
    return link.state == Link::State::Open;
  }
  auto call = calls_.find(opaque);
  if (MUTANT(LinkAnswersOldestCall) && call != calls_.end()) call = calls_.begin();
  if (call == calls_.end() || call->second.link != &link) {
    SOMETIMES("node: a reply comes after its time-out", true);
    ++counters_.late_replies;
    return true;
  }
  ++counters_.replies;
  const uint64_t token = take_call(call).token;
  if (decoded) handler.on_reply(ctx, token, std::move(decoded->reply));
  else handler.on_reply(ctx, token, std::move(decoded.error().error));
  return true;
}

void Links::read_welcome(Ctx& ctx, Link& link, const Reply& reply, ReplyHandler& handler) {
  if (const auto* refusal = std::get_if<Refusal>(&reply)) {
    return lose(ctx, link, Error(Errc::Refused, fmt::format("{}: {} ({})", link.to.text(), refusal->cause, refusal->measured)), handler);
  }
  link.backoff = limits_.backoff_first;  // somebody lives there
}

bool Links::on_closed(Ctx& ctx, const Closed& closed, ReplyHandler& handler) {
  const auto found = by_conn_.find(closed.conn);
  if (found == by_conn_.end()) return false;
  ++counters_.lost;
  enter_backoff(ctx, *found->second, closed.why, handler);
  return true;
}

bool Links::on_sent(Ctx&, const Sent& sent) {
  if (sent.ticket.owner() != owner_) return false;
  const InFlight what = tickets_.redeem(sent.ticket);
  --what.link->tickets_out;
  what.link->queued_bytes -= what.bytes;
  return true;
}

void Links::on_timer(Ctx& ctx, ReplyHandler& handler) {
  armed_ = Monotonic::never();
  const Monotonic now = ctx.now.monotonic;
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const auto call = calls_.find(deadlines_.begin()->second);
    CHECK(call != calls_.end());
    if (wait_on(call->first, call->second, now)) continue;
    ++counters_.timed_out;
    SOMETIMES("node: a call times out", true);
    const Call ended = take_call(call);
    if (ended.heard == kNotSent && ended.link->state != Link::State::Open) {
      SOMETIMES("node: a call never left", true);
      take_back(ended);
      handler.on_reply(ctx, ended.token, Error(Errc::Canceled));
      continue;
    }
    const bool is_silent = ended.link->is_silent_since(ended);
    SOMETIMES("node: a silent connection is given up", is_silent);
    if (is_silent) {
      ++counters_.silent;
      lose(ctx, *ended.link, Error(Errc::TimedOut, "nothing came since the call"), handler);
    }
    handler.on_reply(ctx, ended.token, Error(Errc::TimedOut));
  }
  // Handlers may add links meanwhile: std::map keeps the walk valid, and a new one is not due.
  for (auto& [to, link] : links_) {
    if (link->wake > now) continue;
    link->wake = Monotonic::never();
    if (link->state == Link::State::Dialing) {
      ++counters_.failed_dials;
      enter_backoff(ctx, *link, Error(Errc::TimedOut, "no connection in time"), handler);
    } else if (link->state == Link::State::Backoff) {
      if (link->out.empty()) link->state = Link::State::Idle;
      else dial(ctx, *link);
    }
  }
  if (!deadlines_.empty()) wake_by(ctx, deadlines_.begin()->first);
  for (const auto& [to, link] : links_) wake_by(ctx, link->wake);
}

// True: the call has patience left and its connection has brought something since it last looked.
bool Links::wait_on(uint32_t opaque, Call& call, Monotonic now) {
  const bool has_brought = call.link->state == Link::State::Open && call.heard != call.link->heard;
  if (now >= call.patient_until || !has_brought || MUTANT(LinkHasNoPatience)) return false;
  SOMETIMES("node: a call waits on over a slow connection", true);
  if (auto node = deadlines_.extract(std::pair{call.deadline, opaque})) spare_deadlines_.push_back(std::move(node));
  call.heard = call.link->heard;
  call.deadline = std::min(now + call.timeout, call.patient_until);
  add_deadline(opaque, call.deadline);
  return true;
}

// The timer may ring for a call that has long ended: cheaper than moving it with each call.
void Links::wake_by(Ctx& ctx, Monotonic at) {
  if (at >= armed_ || is_closed_) return;
  armed_ = at;
  ctx.timers.set(TimerId(uint64_t{owner_} << 56), at);
}

void Links::touch(Link& link) {
  if (link.is_touched) return;
  link.is_touched = true;
  touched_.push_back(&link);
}

void Links::flush(Ctx& ctx) {
  for (Link* link : touched_) {
    link->is_touched = false;
    if (link->state != Link::State::Open || link->out.empty()) continue;
    ctx.out.send(tickets_.issue({link, link->conn, link->out.size()}), link->conn, Bytes(link->out));
    ++link->tickets_out;
    link->queued_bytes += link->out.size();
    if (link->out.capacity() > kKeptBytesMax) link->out = {};
    link->out.clear();
  }
  touched_.clear();
  // Here nobody holds a link, so idle ones may go.
  if (links_.size() >= limits_.links_max) std::erase_if(links_, [](const auto& entry) { return entry.second->is_idle(); });
}

void Links::close_all(Ctx& ctx) {
  is_closed_ = true;
  ctx.timers.cancel(TimerId(uint64_t{owner_} << 56));
  for (auto& [to, link] : links_) {
    if (link->state == Link::State::Open) ctx.out.close(link->conn, Errc::Canceled);
    link->state = Link::State::Idle;
    link->wake = Monotonic::never();
    link->out.clear();
    link->taken_back.clear();
    link->calls = 0;
  }
  by_conn_.clear();
  calls_.clear();
  deadlines_.clear();
}

}  // namespace fulmar
