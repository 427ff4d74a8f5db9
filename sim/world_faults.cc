// Injected faults: their triggers, what they do, how they end.

#include <algorithm>

#include "sim/media.h"
#include "sim/world_parts.h"

namespace fulmar::sim {

void World::Faults::add(const Fault& fault) {
  const size_t index = faults_.size();
  faults_.push_back(fault);
  const Trigger& t = fault.trigger;
  if (t.nth == 0) {
    parts_.engine.schedule.add(t.at, EventClass::Fault, *this, 0, index);
    return;
  }
  Slot& slot = parts_.slot(t.node);
  slot.triggers_.push_back({t, index});
  if (t.event != 0) slot.account_.is_event_watched = true;
}

void World::Faults::trigger(size_t index, Duration delay) {
  parts_.engine.schedule.add(parts_.engine.now() + delay, EventClass::Fault, *this, 0, index);
}

void World::Faults::on_event(uint64_t what, uint64_t argument) {
  if (what == 0) return begin(argument);
  if (active_.erase(argument) != 0) end(argument);
}

void World::Faults::lasts(size_t index, Duration span) {
  active_.insert(index);
  if (span > Duration{}) parts_.engine.schedule.add(parts_.engine.now() + span, EventClass::Fault, *this, 1, index);
}

void World::Faults::begin(size_t index) {
  const Fault fault = faults_[index];
  Engine& engine = parts_.engine;
  engine.mix(mix64(fault.id, static_cast<uint64_t>(fault.kind)));
  engine.tell_observers([&](WorldObserver& o) { o.on_fault(engine.world, fault); });
  switch (fault.kind) {
    case FaultKind::StaleTail: return leave_stale_tail_at(fault);
    case FaultKind::Crash:
    case FaultKind::Stop:
    case FaultKind::Pause:
    case FaultKind::SlowCpu:
    case FaultKind::SlowReceiver: return begin_on_node(fault, index);
    case FaultKind::OneWayPartition:
      parts_.network.block(fault.host, fault.other, true);
      return lasts(index, fault.duration);
    case FaultKind::Clog:
      parts_.network.clog(fault.host, fault.other, Duration{fault.amount});
      return lasts(index, fault.duration);
    case FaultKind::Reset:
      engine.faults.fired(FaultClass::Reset);
      return parts_.network.reset_between(fault.host, fault.other);
    case FaultKind::HalfOpen: return parts_.network.silence_between(fault.host, fault.other);
    case FaultKind::Refuse:
      parts_.network.refuse(fault.host, true);
      return lasts(index, fault.duration);
    case FaultKind::DiskFull: lasts(index, fault.duration); return begin_on_host(fault);
    case FaultKind::FreeDisk:
    case FaultKind::FlushError:
    case FaultKind::FlushStall:
    case FaultKind::UnreadablePage:
    case FaultKind::BitRot:
    case FaultKind::WallStep: return begin_on_host(fault);
  }
}

void World::Faults::begin_on_node(const Fault& fault, size_t index) {
  Slot& slot = parts_.slot(fault.node);
  Engine& engine = parts_.engine;
  if (fault.kind == FaultKind::Crash && fault.calls > 0) {
    engine.world.crash_at({fault.node, slot.account_.calls + fault.calls, fault.crash_kind, fault.restart_after});
    return;
  }
  if (fault.kind == FaultKind::Crash && fault.crash_kind != CrashKind::Kill) {
    return parts_.power_loss(slot.spec_.host, fault.crash_kind, {}, fault.restart_after);
  }
  if (!slot.is_alive()) return;
  if (fault.kind == FaultKind::Crash) {
    parts_.kill(slot, {}, fault.restart_after);
  } else if (fault.kind == FaultKind::Stop) {
    engine.world.stop(fault.node, fault.duration);
    slot.stop_restart_ = fault.restart_after;
  } else if (fault.kind == FaultKind::Pause) {
    engine.faults.fired(FaultClass::Pause, true);
    if (slot.state_ == NodeState::Up) slot.pause(true);
    lasts(index, fault.duration);
  } else if (fault.kind == FaultKind::SlowCpu) {
    engine.faults.fired(FaultClass::SlowCpu, fault.amount > 1);
    slot.account_.cpu_factor = std::max<int64_t>(1, fault.amount);
    lasts(index, fault.duration);
  } else {
    engine.faults.fired(FaultClass::SlowReceiver);
    parts_.network.slow_receiver(slot.life(), true);
    lasts(index, fault.duration);
  }
}

void World::Faults::leave_stale_tail_at(const Fault& fault) {
  Host& host = parts_.host_of(parts_.slot(fault.node));
  if (!host.is_up) return;
  parts_.power_loss(parts_.slot(fault.node).spec_.host, CrashKind::PowerLoss, {}, fault.restart_after);
  KeyedStream draws(parts_.engine.seed, Domain::DiskFault, mix64(fault.id, 0x57A1E));
  const bool has_left = leave_stale_tail(host.disk, draws);
  parts_.engine.faults.fired(FaultClass::StaleTail, has_left);
  parts_.engine.mix(host.disk.digest());
}

void World::Faults::begin_on_host(const Fault& fault) {
  Host& host = parts_.host(fault.host);
  Engine& engine = parts_.engine;
  KeyedStream draws(engine.seed, Domain::DiskFault, mix64(fault.id, 0xFA));
  if (fault.kind == FaultKind::DiskFull) {
    const uint64_t own = host.disk.space().used - std::min(host.disk.space().used, host.disk.used_by_others());
    const uint64_t taken = own + static_cast<uint64_t>(fault.amount);
    const uint64_t capacity = host.disk.profile().capacity_bytes;
    host.disk.set_used_by_others(capacity > taken ? capacity - taken : 0);
    engine.faults.fired(FaultClass::DiskFull);
  } else if (fault.kind == FaultKind::FreeDisk) {
    host.disk.set_used_by_others(0);
  } else if (fault.kind == FaultKind::FlushError) {
    host.parts.flush_errors += static_cast<uint64_t>(std::max<int64_t>(1, fault.amount));
  } else if (fault.kind == FaultKind::FlushStall) {
    host.parts.flush_stalls += static_cast<uint64_t>(std::max<int64_t>(1, fault.amount));
    host.parts.flush_stall = fault.duration;
  } else if (fault.kind == FaultKind::UnreadablePage) {
    (void)host.disk.make_unreadable(fault.text, draws);
  } else if (fault.kind == FaultKind::BitRot) {
    host.disk.rot(fault.text, draws);
  } else if (fault.kind == FaultKind::WallStep) {
    host.clock.step_wall(fault.amount);
    engine.faults.fired(FaultClass::WallStep, fault.amount != 0);
  }
}

void World::Faults::end(size_t index) {
  const Fault& fault = faults_[index];
  parts_.engine.mix(mix64(fault.id, 0x100 + static_cast<uint64_t>(fault.kind)));
  if (fault.kind == FaultKind::OneWayPartition) return parts_.network.block(fault.host, fault.other, false);
  if (fault.kind == FaultKind::Clog) return parts_.network.clog(fault.host, fault.other, {});
  if (fault.kind == FaultKind::Refuse) return parts_.network.refuse(fault.host, false);
  if (fault.kind == FaultKind::DiskFull) return parts_.host(fault.host).disk.set_used_by_others(0);
  Slot& slot = parts_.slot(fault.node);
  if (fault.kind == FaultKind::SlowCpu) slot.account_.cpu_factor = 1;
  if (fault.kind == FaultKind::SlowReceiver) parts_.network.slow_receiver(slot.life(), false);
  if (fault.kind == FaultKind::Pause && slot.state_ == NodeState::Paused) slot.pause(false);
}

void World::Faults::heal() {
  const std::set<size_t> active = std::move(active_);
  active_.clear();
  for (const size_t index : active) end(index);
  for (const auto& host : parts_.hosts) {
    host->disk.set_used_by_others(0);
    host->parts.flush_errors = host->parts.flush_stalls = 0;
  }
  for (const auto& slot : parts_.slots) {
    if (slot->state_ == NodeState::Paused) slot->pause(false);
    if (slot->is_alive()) slot->driver_->heal_flushes();
    slot->account_.crash_points.clear();
    slot->triggers_.clear();
  }
}

}  // namespace fulmar::sim
