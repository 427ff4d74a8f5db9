#include "sim/world.h"

#include "sim/world_parts.h"

namespace fulmar::sim {

World::World(Seed seed, const Profile& profile) : parts_(std::make_unique<Parts>(*this, seed, profile)) {}
World::~World() = default;

HostId World::add_host(HostSpec spec) {
  const HostId id(static_cast<uint32_t>(parts_->hosts.size()));
  if (spec.clock.skew_ppb != 0) parts_->engine.faults.fired(FaultClass::ClockSkew, true);
  parts_->network.add_host(id, spec.name);
  parts_->hosts.push_back(std::make_unique<Host>(parts_->engine, id, std::move(spec)));
  return id;
}

NodeId World::add_node(NodeSpec spec) {
  CHECK(spec.host.value() < parts_->hosts.size());
  const NodeId id(static_cast<uint32_t>(parts_->slots.size()));
  parts_->slots.push_back(std::make_unique<Slot>(*parts_, id, std::move(spec)));
  return id;
}

void World::observe(WorldObserver& observer) { parts_->engine.observers.push_back(&observer); }

// --- time -----------------------------------------------------------------------------------------------------------------------------

SimTime World::now() const { return parts_->engine.now(); }

void World::at(SimTime when, std::function<void()> what) {
  const uint64_t id = parts_->next_callback++;
  parts_->callbacks.emplace(id, std::move(what));
  parts_->engine.schedule.add(when, EventClass::Callback, *parts_, 0, id);
}

void World::Parts::on_event(uint64_t, uint64_t argument) {
  const auto callback = callbacks.extract(argument);
  if (!callback.empty()) callback.mapped()();
}

bool World::run_until(SimTime until) {
  while (!has_failed() && parts_->engine.schedule.run_one(until)) {}
  return !has_failed();
}

bool World::run_while(const std::function<bool()>& condition, SimTime until) {
  while (!has_failed() && condition() && parts_->engine.schedule.run_one(until)) {}
  return !has_failed();
}

uint64_t World::events_run() const { return parts_->engine.schedule.events_run(); }

// --- lives ----------------------------------------------------------------------------------------------------------------------------

void World::start(NodeId node) { parts_->slot(node).start(); }

void World::stop(NodeId node, Duration deadline) {
  Slot& slot = parts_->slot(node);
  if (!slot.is_alive()) return;
  parts_->engine.faults.fired(FaultClass::Stop);
  slot.driver_->told(CallId(parts_->next_call++), command::Stop{deadline});
}

void World::kill(NodeId node, std::optional<Duration> restart_after) {
  Slot& slot = parts_->slot(node);
  if (slot.is_alive()) parts_->kill(slot, {}, restart_after);
}

void World::power_loss(HostId host, CrashKind kind, std::optional<Duration> restart_after) { parts_->power_loss(host, kind, {}, restart_after); }

void World::pause(NodeId node, Duration span) {
  Slot& slot = parts_->slot(node);
  if (slot.state_ != NodeState::Up) return;
  slot.pause(true);
  slot.after(span, Slot::Event::Resume);
}

void World::set_factory(NodeId node, NodeFactory factory) { parts_->slot(node).spec_.factory = std::move(factory); }
void World::crash_at(const CrashPoint& point) { parts_->slot(point.node).account_.crash_points[point.nth] = point; }
void World::inject(const Fault& fault) { parts_->faults.add(fault); }
void World::heal() { parts_->faults.heal(); }

bool World::tell(NodeId node, CallId call, const Command& command) {
  Slot& slot = parts_->slot(node);
  if (!slot.is_alive()) return false;
  slot.driver_->told(call, command);
  return true;
}

// --- questions ------------------------------------------------------------------------------------------------------------------------

NodeState World::state(NodeId node) const { return parts_->slot(node).state_; }
Life World::life(NodeId node) const { return parts_->slot(node).life(); }
uint64_t World::calls(NodeId node) const { return parts_->slot(node).account_.calls; }
const std::string& World::name(NodeId node) const { return parts_->slot(node).spec_.name; }
HostId World::host_of(NodeId node) const { return parts_->slot(node).spec_.host; }
size_t World::node_count() const { return parts_->slots.size(); }
size_t World::host_count() const { return parts_->hosts.size(); }
SimDisk& World::disk(HostId host) { return parts_->host(host).disk; }
HostClock& World::clock(HostId host) { return parts_->host(host).clock; }
std::string World::address_of(HostId host) const { return parts_->network.address_of(host); }
SimNetwork& World::network() { return parts_->network; }
size_t World::tickets_out(NodeId node) const {
  const Slot& slot = parts_->slot(node);
  return slot.driver_ != nullptr ? slot.driver_->tickets_out() : 0;
}
std::string World::recent_events(NodeId node) const {
  const Slot& slot = parts_->slot(node);
  return slot.driver_ != nullptr ? slot.driver_->recent() : std::string();
}
Seed World::seed() const { return parts_->engine.seed; }
uint64_t World::hash() const { return parts_->engine.hash; }
const FaultCounts& World::faults() const { return parts_->engine.faults; }
FaultCounts& World::faults() { return parts_->engine.faults; }
void World::fail(std::string_view oracle, std::string sentence) { parts_->engine.fail(oracle, std::move(sentence)); }
const std::vector<Failure>& World::failures() const { return parts_->engine.failures; }

}  // namespace fulmar::sim
