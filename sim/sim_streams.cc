// The bytes of a connection on their way: taken, cut, delayed, delivered, read; or stalled, or broken.

#include <algorithm>

#include "sim/connection.h"

namespace fulmar::sim {

namespace {

constexpr uint64_t kSingleBytesMax = 64;  // one-byte reads per take: enough for every header, bounded in events

}  // namespace

Duration SimNetwork::latency(Half& half) {
  Duration out = profile_.link.draw(half.latency_draws);
  if (const auto found = clogged_.find({half.from, half.to}); found != clogged_.end() && found->second > Duration{}) {
    out = out + found->second;
    engine_.faults.mattered(FaultClass::Clog);
  }
  return out;
}

void SimNetwork::take(Connection& c, int side) {
  Half& half = c.halves[side];
  Connection::Side& mine = c.sides[side];
  while (mine.is_open && !half.sends.empty()) {
    Half::Sending& sending = half.sends.front();
    const uint64_t room = half.window_bytes - std::min(half.window_bytes, half.unread());
    const uint64_t count = std::min(room, sending.bytes - sending.taken);
    if (count == 0 && sending.taken < sending.bytes) {
      engine_.faults.fired(FaultClass::FullWindow, true);
      return;
    }
    if (count > 0) accept_bytes(c, side, count);
    if (sending.taken < sending.bytes) continue;
    const Ticket ticket = sending.ticket;
    half.sends.pop_front();
    mine.user->on_sent(c.end(side), ticket, {});
    if (profile_.reset_per_send.numerator > 0 && half.latency_draws.chance(profile_.reset_per_send)) {
      engine_.faults.fired(FaultClass::Reset, true);
      for (int end = 0; end < 2; ++end) {
        const Duration travel = latency(c.halves[1 - end]);
        later(travel, What::Break, c.end(end), Errc::Reset);
      }
    }
  }
}

void SimNetwork::accept_bytes(Connection& c, int side, uint64_t count) {
  Half& half = c.halves[side];
  Half::Sending& sending = half.sends.front();
  const size_t at = half.data.size();
  half.data.resize(at + count);
  c.sides[side].user->on_take(c.end(side), sending.ticket, sending.taken, MutableBytes(half.data).subspan(at));
  sending.taken += count;
  const std::vector<uint64_t> sizes = cut(half, Bytes(half.data).subspan(at));
  half.last_at = std::max(half.last_at, engine_.now() + latency(half));
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i > 0) half.last_at = half.last_at + Duration{static_cast<int64_t>(half.cut_draws.below(20'000))};
    half.flying.push_back({half.last_at, sizes[i]});
  }
  if (sizes.size() > 1) engine_.faults.fired(FaultClass::CutFrames, true);
  schedule_arrival(c, side);
}

// Sizes of segments, in order. FrameEdges cuts in and around the two length words and at the ends of native frames, as far as the bytes
// look like frames.
std::vector<uint64_t> SimNetwork::cut(Half& half, Bytes bytes) {
  const uint64_t n = bytes.size();
  std::vector<uint64_t> places;
  switch (half.chunking) {
    case Chunking::Whole: break;
    case Chunking::RandomCuts:
      for (uint64_t left = half.cut_draws.below(6); left > 0; --left) places.push_back(half.cut_draws.below(n));
      break;
    case Chunking::OneByte:
      for (uint64_t i = 1; i < std::min(n, kSingleBytesMax); ++i) places.push_back(i);
      break;
    case Chunking::FrameEdges:
      for (uint64_t at = 0, frames = 0; at + 8 <= n && frames < 16; ++frames) {
        for (const uint64_t more : {uint64_t{1}, uint64_t{3}, uint64_t{4}, uint64_t{5}, uint64_t{7}, uint64_t{8}, uint64_t{9}}) {
          if (half.cut_draws.chance({1, 3})) places.push_back(at + more);
        }
        const uint64_t frame_bytes = load_le<uint32_t>(bytes.data() + at);
        if (frame_bytes < 8 || frame_bytes > n - at) break;
        at += frame_bytes;
        if (half.cut_draws.chance({1, 2})) places.push_back(at - 1);
        if (half.cut_draws.chance({1, 2})) places.push_back(at);
        if (half.cut_draws.chance({1, 2})) places.push_back(at + 1);
      }
      break;
  }
  std::sort(places.begin(), places.end());
  places.push_back(n);
  std::vector<uint64_t> sizes;
  uint64_t before = 0;
  for (const uint64_t place : places) {
    if (place <= before || place > n) continue;
    sizes.push_back(place - before);
    before = place;
  }
  return sizes;
}

void SimNetwork::schedule_arrival(Connection& c, int side) {
  Half& half = c.halves[side];
  if (half.is_arrival_due || (half.flying.empty() && (!half.is_finished || half.is_fin_here))) return;
  half.is_arrival_due = true;
  const SimTime at = half.flying.empty() ? half.last_at : half.flying.front().at;
  engine_.schedule.add(at, EventClass::Network, *this, static_cast<uint64_t>(What::Arrive), c.end(side));
}

void SimNetwork::arrive(Connection& c, int side) {
  Half& half = c.halves[side];
  Connection::Side& reader = c.sides[1 - side];
  const bool is_cut = is_blocked(half.from, half.to);
  if (is_cut) engine_.faults.mattered(FaultClass::OneWayPartition);
  if (c.is_silent) engine_.faults.mattered(FaultClass::HalfOpen);
  if (is_cut || c.is_silent || !is_up_[half.to.value()]) return arm_stall(c, side);
  if (!reader.is_open) {  // nobody there: RST to the sender
    const Duration travel = latency(c.halves[1 - side]);
    return later(travel, What::Break, c.end(side), Errc::Reset);
  }
  while (!half.flying.empty() && half.flying.front().at <= engine_.now()) {
    half.arrived.push_back(half.flying.front().bytes);
    half.flying.pop_front();
    ++half.progress;
  }
  if (half.flying.empty() && half.is_finished && half.last_at <= engine_.now()) half.is_fin_here = true;
  hand_over(c, side);
  schedule_arrival(c, side);
}

// Gives what has arrived from `side` to the node at the other side, unless that does not read just now.
void SimNetwork::hand_over(Connection& c, int side) {
  Half& half = c.halves[side];
  Connection::Side& reader = c.sides[1 - side];
  if (!reader.is_open || !reader.is_established || reader.is_paused) return;
  if (!slow_.empty() && slow_.count(reader.who) != 0) {
    if (!half.arrived.empty()) engine_.faults.mattered(FaultClass::SlowReceiver);
    return;
  }
  if (half.arrived.size() > 1 && profile_.coalesce.numerator > 0 && half.cut_draws.chance(profile_.coalesce)) {
    uint64_t sum = 0;
    for (const uint64_t bytes : half.arrived) sum += bytes;
    half.arrived.assign(1, sum);
  }
  const bool has_read = !half.arrived.empty();
  while (!half.arrived.empty()) {
    const uint64_t bytes = half.arrived.front();
    half.arrived.pop_front();
    reader.user->on_received(c.end(1 - side), Bytes(half.data).subspan(half.read, bytes));
    half.read += bytes;
  }
  if (half.read == half.data.size()) {
    half.data.clear();
    half.read = 0;
  } else if (half.read > half.window_bytes) {
    half.data.erase(half.data.begin(), half.data.begin() + static_cast<ptrdiff_t>(half.read));
    half.read = 0;
  }
  if (has_read && !half.sends.empty() && !half.is_take_due) {  // the window opens when the acknowledgement is back
    half.is_take_due = true;
    later(latency(c.halves[1 - side]), What::Take, c.end(side));
  }
  if (half.is_fin_here) break_end(c, 1 - side, Errc::PeerClosed);
}

void SimNetwork::arm_stall(Connection& c, int side) {
  Half& half = c.halves[side];
  if (half.is_stall_armed || !c.sides[side].is_open) return;
  half.is_stall_armed = true;
  half.stall_progress = half.progress;
  later(profile_.transmit_timeout, What::Stall, c.end(side));
}

void SimNetwork::stalled(Connection& c, int side) {
  Half& half = c.halves[side];
  half.is_stall_armed = false;
  if (half.flying.empty()) return;
  if (half.progress == half.stall_progress) return break_end(c, side, Errc::TimedOut);
  if (half.flying.front().at <= engine_.now()) arm_stall(c, side);
}

// The node at `side` loses this end: its sends first, then the last word.
void SimNetwork::break_end(Connection& c, int side, Errc why) {
  Connection::Side& mine = c.sides[side];
  if (!mine.is_open) return;
  mine.is_open = false;
  NetworkUser* user = std::exchange(mine.user, nullptr);
  auto& sends = c.halves[side].sends;
  if (mine.is_established) {
    for (const Half::Sending& sending : sends) user->on_sent(c.end(side), sending.ticket, why);
    user->on_closed(c.end(side), why);
  }
  sends.clear();
  // After an orderly end the kernel closes our direction too; what we sent still arrives.
  if (why == Errc::PeerClosed && c.sides[1 - side].is_open) finish(c, side);
}

}  // namespace fulmar::sim
