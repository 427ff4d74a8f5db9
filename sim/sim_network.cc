#include "sim/sim_network.h"

#include <algorithm>

#include "sim/connection.h"

namespace fulmar::sim {

SimNetwork::SimNetwork(Engine& engine, const NetworkProfile& profile) : EventHandler(hash_text("network")), engine_(engine), profile_(profile) {}
SimNetwork::~SimNetwork() = default;

// --- hosts ----------------------------------------------------------------------------------------------------------------------------

void SimNetwork::add_host(HostId host, std::string name) {
  CHECK(host.value() == hosts_.size());
  hosts_.push_back(std::move(name));
  next_port_.push_back(32768);
  is_up_.push_back(true);
  refusing_.push_back(0);
}

std::string SimNetwork::address_of(HostId host) const { return fmt::format("10.0.{}.{}", host.value() / 250, host.value() % 250 + 1); }

std::optional<HostId> SimNetwork::resolve(HostId asker, const std::string& name) const {
  if (name == "localhost" || name == "0.0.0.0" || name == "::" || name == "::1" || name.rfind("127.", 0) == 0) return asker;
  for (uint32_t i = 0; i < hosts_.size(); ++i) {
    if (name == hosts_[i] || name == address_of(HostId(i))) return HostId(i);
  }
  return std::nullopt;
}

SimNetwork::Listener* SimNetwork::listener_at(HostId host, uint16_t number) {
  for (Listener& l : listeners_) {
    if (l.host == host && l.at.port == number) return &l;
  }
  return nullptr;
}

uint16_t SimNetwork::take_port(HostId host) {
  uint16_t& next = next_port_[host.value()];
  do next = next >= 60999 ? uint16_t{32768} : static_cast<uint16_t>(next + 1);
  while (listener_at(host, next) != nullptr);
  return next;
}

void SimNetwork::later(Duration delay, What what, uint64_t argument, Errc why) {
  engine_.schedule.add(engine_.now() + delay, EventClass::Network, *this, static_cast<uint64_t>(what) | static_cast<uint64_t>(why) << 8, argument);
}

void SimNetwork::on_event(uint64_t what, uint64_t argument) {
  const auto kind = static_cast<What>(what & 0xFF);
  if (kind == What::Syn) return syn_arrives(argument);
  if (kind == What::DialEnd) return dial_ends(argument);
  const uint64_t id = argument / 2;
  const int side = static_cast<int>(argument % 2);
  Connection* c = find(id);
  if (c == nullptr) return;
  switch (kind) {
    case What::Take:
      c->halves[side].is_take_due = false;
      take(*c, side);
      break;
    case What::Arrive:
      c->halves[side].is_arrival_due = false;
      arrive(*c, side);
      break;
    case What::Break: break_end(*c, side, static_cast<Errc>(what >> 8)); break;
    case What::Stall: stalled(*c, side); break;
    case What::Silence:
      c->is_silent = true;
      engine_.faults.fired(FaultClass::HalfOpen);
      break;
    case What::Syn:
    case What::DialEnd: break;
  }
  drop_if_over(id);
}

// --- listen and dial ------------------------------------------------------------------------------------------------------------------

void SimNetwork::listen(HostId host, Life who, NetworkUser& user, Ticket ticket, Port port, const Address& at) {
  const std::optional<HostId> here = at.host.empty() ? host : resolve(host, at.host);
  if (here != host) return user.on_listening(ticket, Error(Errc::BadAddress, at.text()));
  if (at.port != 0 && listener_at(host, at.port) != nullptr) return user.on_listening(ticket, Error(Errc::AddressInUse, at.text()));
  Address real = at;
  if (real.port == 0) real.port = take_port(host);
  listeners_.push_back({host, who, &user, port, real});
  user.on_listening(ticket, real);
}

void SimNetwork::unlisten(Life who, Port port) {
  std::erase_if(listeners_, [&](const Listener& l) { return l.who == who && l.port == port; });
}

KeyedStream SimNetwork::pair_stream(Domain domain, HostId from, HostId to) {
  const uint64_t pair = mix64(from.value(), to.value());
  return KeyedStream(engine_.seed, domain, mix64(pair, opened_[{from, to}]));
}

void SimNetwork::dial(HostId host, Life who, NetworkUser& user, Ticket ticket, const Address& peer, Duration delay) {
  const uint64_t id = next_dial_++;
  dials_.emplace(id, Dialing{host, who, &user, ticket, peer, Errc::TimedOut, 0});
  Duration travel = delay;
  if (const std::optional<HostId> to = resolve(host, peer.host)) {
    ++opened_[{host, *to}];
    KeyedStream draws = pair_stream(Domain::Dial, host, *to);
    travel = travel + profile_.link.draw(draws);
  }
  later(travel, What::Syn, id);
}

void SimNetwork::syn_arrives(uint64_t id) {
  Dialing& dial = dials_.at(id);
  if (dial.user == nullptr) {
    dials_.erase(id);
    return;
  }
  const std::optional<HostId> to = resolve(dial.from, dial.peer.host);
  if (!to || dial.peer.port == 0) {
    dial.outcome = Error(Errc::BadAddress, dial.peer.text());
    return later({}, What::DialEnd, id);
  }
  if (!is_up_[to->value()] || is_blocked(dial.from, *to) || is_blocked(*to, dial.from)) {
    dial.outcome = Error(Errc::TimedOut, dial.peer.text());
    return later(profile_.connect_timeout, What::DialEnd, id);
  }
  KeyedStream draws = pair_stream(Domain::LinkFault, dial.from, *to);
  const Listener* listener = listener_at(*to, dial.peer.port);
  const bool is_unlucky = profile_.refuse.numerator > 0 && draws.chance(profile_.refuse);
  if (listener == nullptr || refusing_[to->value()] > 0 || is_unlucky) {
    if (listener != nullptr) engine_.faults.fired(FaultClass::Refuse, true);
    dial.outcome = Error(Errc::Refused, dial.peer.text());
  } else {
    open_connection(dial, *to, *listener);
  }
  later(profile_.link.draw(draws), What::DialEnd, id);
}

void SimNetwork::open_connection(Dialing& dial, HostId to, const Listener& listener) {
  const uint64_t id = next_connection_++;
  Connection& c = *connections_.emplace(id, std::make_unique<Connection>()).first->second;
  c.id = id;
  c.sides[0] = {dial.from, dial.who, dial.user, true, false, false, false};
  c.sides[1] = {to, listener.who, listener.user, true, true, false, false};
  for (int side = 0; side < 2; ++side) {
    Half& half = c.halves[side];
    half.from = c.sides[side].host;
    half.to = c.sides[1 - side].host;
    const uint64_t entity = mix64(mix64(mix64(dial.from.value(), to.value()), opened_[{dial.from, to}]), static_cast<uint64_t>(side));
    half.latency_draws = KeyedStream(engine_.seed, Domain::LinkLatency, entity);
    half.cut_draws = KeyedStream(engine_.seed, Domain::Chunking, entity);
    uint64_t sum = 0;
    for (const uint32_t weight : profile_.chunking_weights) sum += weight;
    uint64_t at = sum == 0 ? 0 : half.cut_draws.below(sum);
    for (size_t i = 0; sum != 0 && i < kChunkings; ++i) {
      half.chunking = static_cast<Chunking>(i);
      if (at < profile_.chunking_weights[i]) break;
      at -= profile_.chunking_weights[i];
    }
    half.window_bytes = half.cut_draws.log_between(profile_.window_bytes_min, profile_.window_bytes_max);
  }
  const Address from{address_of(dial.from), take_port(dial.from)}, there{address_of(to), dial.peer.port};
  dial.outcome = Peer{there, from, false, {}};
  dial.connection = id;
  listener.user->on_accepted(c.end(1), listener.port, Peer{from, there, false, {}});
  Half& first = c.halves[0];
  if (profile_.half_open.numerator > 0 && first.latency_draws.chance(profile_.half_open)) {
    later(Duration{static_cast<int64_t>(first.latency_draws.below(static_cast<uint64_t>(profile_.half_open_after.ns) + 1))}, What::Silence, c.end(0));
  }
}

void SimNetwork::dial_ends(uint64_t id) {
  const Dialing dial = std::move(dials_.extract(id).mapped());
  if (dial.user == nullptr) return;  // its side left with the process
  if (dial.connection == 0) return dial.user->on_dialed(dial.ticket, 0, dial.outcome);
  Connection* c = find(dial.connection);
  if (c == nullptr || !c->sides[0].is_open) {
    dial.user->on_dialed(dial.ticket, 0, Error(Errc::Reset, dial.peer.text()));
    return drop_if_over(dial.connection);
  }
  c->sides[0].is_established = true;
  dial.user->on_dialed(dial.ticket, c->end(0), dial.outcome);
  hand_over(*c, 1);
  drop_if_over(dial.connection);
}

// --- asked by drivers -----------------------------------------------------------------------------------------------------------------

SimNetwork::Connection* SimNetwork::find(uint64_t id) {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : found->second.get();
}

SimNetwork::Connection& SimNetwork::connection_of(uint64_t end) {
  Connection* c = find(end / 2);
  CHECK(c != nullptr && c->sides[end % 2].is_open, "end {}", end);
  return *c;
}

void SimNetwork::send(uint64_t end, Ticket ticket, uint64_t bytes, Duration delay) {
  Connection& c = connection_of(end);
  Half& half = c.halves[end % 2];
  half.sends.push_back({ticket, bytes, 0});
  if (!half.is_take_due) {
    half.is_take_due = true;
    later(delay, What::Take, end);
  }
}

void SimNetwork::pause(uint64_t end) { connection_of(end).sides[end % 2].is_paused = true; }

void SimNetwork::resume(uint64_t end) {
  Connection& c = connection_of(end);
  c.sides[end % 2].is_paused = false;
  hand_over(c, static_cast<int>(1 - end % 2));
  drop_if_over(end / 2);
}

void SimNetwork::close(uint64_t end) {
  Connection& c = connection_of(end);
  const int side = static_cast<int>(end % 2);
  Half& half = c.halves[side];
  while (!half.sends.empty()) {
    const Ticket ticket = half.sends.front().ticket;
    half.sends.pop_front();
    c.sides[side].user->on_sent(end, ticket, Errc::Canceled);
  }
  leave(c, side, false);
  drop_if_over(c.id);
}

// The process of this side has no use for the connection any more. Closing with unread bytes is answered by RST, as kernels do.
void SimNetwork::leave(Connection& c, int side, bool is_with_host) {
  Half& out = c.halves[side];
  Half& in = c.halves[1 - side];
  Connection::Side& mine = c.sides[side];
  mine.is_open = false;
  mine.user = nullptr;
  out.sends.clear();
  if (is_with_host) {
    mine.is_host_lost = true;
    uint64_t lost = 0;
    for (const Half::Segment& s : out.flying) lost += s.bytes;
    out.data.resize(out.data.size() - lost);
    out.flying.clear();
    return;
  }
  if (in.unread() > 0 && out.latency_draws.chance({1, 2})) {
    const Duration travel = latency(out);
    return later(travel, What::Break, c.end(1 - side), Errc::Reset);
  }
  finish(c, side);
}

void SimNetwork::finish(Connection& c, int side) {
  Half& half = c.halves[side];
  half.is_finished = true;
  const Duration travel = latency(half);
  half.last_at = std::max(half.last_at, engine_.now() + travel);
  schedule_arrival(c, side);
}

void SimNetwork::process_gone(Life who, bool is_with_host) {
  std::erase_if(listeners_, [&](const Listener& l) { return l.who == who; });
  for (auto& [id, dial] : dials_) {
    if (dial.who == who) dial.user = nullptr;
  }
  std::vector<uint64_t> ids;
  for (const auto& [id, c] : connections_) ids.push_back(id);
  for (const uint64_t id : ids) {
    Connection& c = *connections_.at(id);
    for (int side = 0; side < 2; ++side) {
      if (c.sides[side].who != who || !c.sides[side].is_open) continue;
      if (!is_with_host && c.halves[side].latency_draws.chance({1, 3})) {  // RST at once: what was on its way is dropped by the peer
        const Duration travel = latency(c.halves[side]);
        c.sides[side].is_open = false;
        c.sides[side].user = nullptr;
        c.halves[side].sends.clear();
        later(travel, What::Break, c.end(1 - side), Errc::Reset);
      } else {
        leave(c, side, is_with_host);
      }
    }
    drop_if_over(id);
  }
  slow_.erase(who);
}

// --- faults ---------------------------------------------------------------------------------------------------------------------------

bool SimNetwork::is_blocked(HostId from, HostId to) const {
  const auto found = blocked_.find({from, to});
  return found != blocked_.end() && found->second > 0;
}

void SimNetwork::block(HostId from, HostId to, bool is_now_blocked) {
  uint32_t& count = blocked_[{from, to}];
  if (!is_now_blocked && count == 0) return;
  count += is_now_blocked ? 1u : UINT32_MAX;
  if (is_now_blocked) return engine_.faults.fired(FaultClass::OneWayPartition);
  if (count > 0) return;
  for (auto& [id, c] : connections_) {
    for (int side = 0; side < 2; ++side) {
      Half& half = c->halves[side];
      if (half.from != from || half.to != to || (half.flying.empty() && !half.is_finished)) continue;
      // What waited is sent again when its retransmission timer says so.
      const SimTime again = engine_.now() + latency(half) + Duration{static_cast<int64_t>(half.latency_draws.below(200'000'000))};
      half.last_at = std::max(half.last_at, again);
      for (Half::Segment& s : half.flying) s.at = std::max(s.at, again);
      schedule_arrival(*c, side);
    }
  }
}

void SimNetwork::clog(HostId from, HostId to, Duration more) {
  clogged_[{from, to}] = more;
  if (more > Duration{}) engine_.faults.fired(FaultClass::Clog);
}

void SimNetwork::reset_between(HostId a, HostId b) {
  for (auto& [id, c] : connections_) {
    const bool is_theirs = (c->sides[0].host == a && c->sides[1].host == b) || (c->sides[0].host == b && c->sides[1].host == a);
    if (!is_theirs) continue;
    engine_.faults.mattered(FaultClass::Reset);
    for (int side = 0; side < 2; ++side) {
      const Duration travel = latency(c->halves[1 - side]);
      later(travel, What::Break, c->end(side), Errc::Reset);
    }
  }
}

void SimNetwork::silence_between(HostId a, HostId b) {
  for (auto& [id, c] : connections_) {
    const bool is_theirs = (c->sides[0].host == a && c->sides[1].host == b) || (c->sides[0].host == b && c->sides[1].host == a);
    if (!is_theirs || c->is_silent) continue;
    c->is_silent = true;
    engine_.faults.fired(FaultClass::HalfOpen);
  }
}

void SimNetwork::refuse(HostId host, bool is_refusing) {
  uint32_t& count = refusing_[host.value()];
  if (is_refusing) ++count;
  else if (count > 0) --count;
}

void SimNetwork::slow_receiver(Life who, bool is_slow) {
  if (is_slow) {
    slow_.insert(who);
    return;
  }
  if (slow_.erase(who) == 0) return;
  std::vector<uint64_t> over;
  for (auto& [id, c] : connections_) {
    for (int side = 0; side < 2; ++side) {
      if (c->sides[side].who == who) hand_over(*c, 1 - side);
    }
    over.push_back(id);
  }
  for (const uint64_t id : over) drop_if_over(id);
}

void SimNetwork::host_up(HostId host, bool is_up) {
  is_up_[host.value()] = is_up;
  if (!is_up) return;
  for (auto& [id, c] : connections_) {
    for (int side = 0; side < 2; ++side) {
      // Retransmissions now meet a kernel that knows nothing of the connection.
      if (c->sides[side].host == host && !c->halves[1 - side].flying.empty()) schedule_arrival(*c, 1 - side);
    }
  }
}

void SimNetwork::drop_if_over(uint64_t id) {
  const Connection* c = find(id);
  if (c != nullptr && !c->sides[0].is_open && !c->sides[1].is_open) connections_.erase(id);
}

}  // namespace fulmar::sim
