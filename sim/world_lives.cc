// How nodes live and die.

#include "sim/world_parts.h"

namespace fulmar::sim {

// --- one node -------------------------------------------------------------------------------------------------------------------------

void World::Slot::start() {
  if (is_alive()) return;
  Host& host = parts_.host_of(*this);
  if (!host.is_up) {
    host.is_up = true;
    parts_.network.host_up(spec_.host, true);
  }
  ++life_;
  stop_restart_.reset();
  state_ = NodeState::Up;
  parts_.note_life(*this, LifeChange::Started, nullptr);
  driver_ = std::make_unique<SimDriver>(parts_.engine, parts_.network, host.parts, account_, *this, life(), spec_.name, spec_.factory);
}

void World::Slot::after(Duration delay, Event event) {
  parts_.engine.schedule.add(parts_.engine.now() + delay, EventClass::Fault, *this, static_cast<uint64_t>(event) | uint64_t{life_} << 8);
}

void World::Slot::schedule(Life who, SimTime at, EventClass kind, Timer timer, uint64_t argument) {
  parts_.engine.schedule.add(at, kind, *this, static_cast<uint64_t>(timer) | uint64_t{who.life} << 8, argument);
}

void World::Slot::on_event(uint64_t what, uint64_t argument) {
  if (what >> 8 != life_) return;  // meant for a life that is over
  const uint64_t kind = what & 0xFF;
  if (kind < static_cast<uint64_t>(Event::Restart)) {
    if (is_alive()) driver_->on_timer(static_cast<Timer>(kind), argument);
  } else if (static_cast<Event>(kind) == Event::Restart) {
    start();
  } else if (static_cast<Event>(kind) == Event::Resume) {
    if (state_ == NodeState::Paused) pause(false);
  }
}

void World::Slot::pause(bool is_paused) {
  state_ = is_paused ? NodeState::Paused : NodeState::Up;
  parts_.note_life(*this, is_paused ? LifeChange::Paused : LifeChange::Resumed, nullptr);
  driver_->pause(is_paused);
  parts_.network.slow_receiver(life(), is_paused);
}

void World::Slot::restart_after(std::optional<Duration> delay) {
  if (delay) after(*delay, Event::Restart);
}

// The process ends; its kernel lives on.
void World::Slot::halt_life(NodeState state, LifeChange change, const Error* why) {
  state_ = state;
  driver_->end(false);
  parts_.network.process_gone(life(), false);
  parts_.host_of(*this).disk.process_gone();
  parts_.commit_names_later(spec_.host);
  parts_.note_life(*this, change, why);
}

void World::Slot::on_halted(Life, const Error& why) {
  halt_life(NodeState::Halted, LifeChange::Halted, &why);
  restart_after(spec_.restart_after_halt);
}

void World::Slot::on_stopped(Life) {
  parts_.engine.faults.mattered(FaultClass::Stop);
  halt_life(NodeState::Stopped, LifeChange::Stopped, nullptr);
  restart_after(std::exchange(stop_restart_, std::nullopt));
}

void World::Slot::on_crash_point(Life, const CrashPoint& point, const CrashReport& report) {
  if (point.kind == CrashKind::Kill) parts_.kill(*this, report, point.restart_after);
  else parts_.power_loss(spec_.host, point.kind, report, point.restart_after);
}

void World::Slot::on_call_counted(Life, CallKind kind, uint64_t nth) {
  for (size_t i = 0; i < triggers_.size(); ++i) {
    const Trigger& t = triggers_[i].first;
    const bool is_hit = t.event == 0 && (t.call == CallKind::Any ? account_.calls == t.nth : t.call == kind && t.nth == nth);
    if (is_hit) parts_.faults.trigger(triggers_[i].second, t.delay);
  }
}

void World::Slot::on_event_counted(Life, uint64_t event, uint64_t nth) {
  for (size_t i = 0; i < triggers_.size(); ++i) {
    const Trigger& t = triggers_[i].first;
    if (t.event == event && t.nth == nth) parts_.faults.trigger(triggers_[i].second, t.delay);
  }
}

// --- crashes --------------------------------------------------------------------------------------------------------------------------

void World::Parts::note_life(const Slot& s, LifeChange change, const Error* why) {
  engine.mix(mix64(static_cast<uint64_t>(engine.now().ns), uint64_t{s.id_.value()} << 40 | uint64_t{s.life_} << 8 | static_cast<uint64_t>(change)));
  engine.tell_observers([&](WorldObserver& o) { o.on_life(engine.world, s.life(), change, why); });
}

void World::Parts::kill(Slot& s, CrashReport report, std::optional<Duration> restart_after) {
  report.kind = CrashKind::Kill;
  report.host = s.spec_.host;
  report.nodes = {s.id_};
  engine.faults.fired(FaultClass::Kill, s.driver_->tickets_out() > 0);
  SimDisk& disk = host_of(s).disk;
  engine.tell_observers([&](WorldObserver& o) { o.on_crash(engine.world, report, disk); });
  s.halt_life(NodeState::Down, LifeChange::Killed, nullptr);
  engine.tell_observers([&](WorldObserver& o) { o.on_crashed(engine.world, report, disk); });
  s.restart_after(restart_after);
}

void World::Parts::power_loss(HostId host_id, CrashKind kind, CrashReport report, std::optional<Duration> restart_after) {
  Host& victim = host(host_id);
  if (!victim.is_up) return;
  report.kind = kind;
  report.host = host_id;
  std::vector<Slot*> dead;
  for (const auto& s : slots) {
    if (s->spec_.host != host_id || !s->is_alive()) continue;
    dead.push_back(s.get());
    report.nodes.push_back(s->id_);
  }
  engine.tell_observers([&](WorldObserver& o) { o.on_crash(engine.world, report, victim.disk); });
  victim.is_up = false;
  network.host_up(host_id, false);
  for (Slot* s : dead) {
    s->state_ = NodeState::Down;
    s->driver_->end(true);
    network.process_gone(s->life(), true);
  }
  KeyedStream image(engine.seed, Domain::CrashImage, mix64(host_id.value(), ++victim.crashes));
  victim.disk.crash(kind, image, report);
  engine.mix(victim.disk.digest());
  const bool has_mattered = report.pages_kept < report.pages_undurable || report.pages_torn > 0 || report.names_lost > 0;
  engine.faults.fired(kind == CrashKind::Panic ? FaultClass::Panic : FaultClass::PowerLoss, has_mattered);
  for (Slot* s : dead) note_life(*s, LifeChange::Killed, nullptr);
  engine.tell_observers([&](WorldObserver& o) { o.on_crashed(engine.world, report, victim.disk); });
  for (Slot* s : dead) s->restart_after(restart_after);
}

// Names that a dead process left pending: the file system's journal makes them durable some time later.
void World::Parts::commit_names_later(HostId host_id) {
  Host& h = host(host_id);
  for (const DiskOp op : h.disk.pending_names()) {
    const uint64_t within = static_cast<uint64_t>(h.spec.disk.journal_commit_max.ns) + 1;
    const uint64_t wait = draw(engine.seed, Domain::Journal, host_id.value(), ++journal_draws) % within;
    engine.world.at(engine.now() + Duration{static_cast<int64_t>(wait)}, [&h, op] { h.disk.commit(op); });
  }
}

}  // namespace fulmar::sim
