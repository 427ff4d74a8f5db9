#pragma once
// The inside of a world; only world*.cc include it.

#include <map>
#include <set>

#include "sim/sim_driver.h"
#include "sim/world.h"

namespace fulmar::sim {

struct World::Host {
  Host(Engine& engine, HostId host, HostSpec host_spec)
      : spec(std::move(host_spec)), disk(spec.disk, engine.seed, host.value(), &engine.faults), clock(spec.clock), parts{host, disk, clock, 0, 0, {}} {}
  HostSpec spec;
  SimDisk disk;
  HostClock clock;
  HostParts parts;
  uint64_t crashes = 0;
  bool is_up = true;
};

// A node over all its lives.
class World::Slot final : public EventHandler, public DriverOwner {
 public:
  enum class Event : uint8_t { Timer = 0, Restart = 2, Resume = 3 };  // Timer: two values, one per DriverOwner::Timer

  Slot(Parts& parts, NodeId id, NodeSpec spec) : EventHandler(mix64(hash_text("node"), id.value())), parts_(parts), id_(id), spec_(std::move(spec)) {}
  void on_event(uint64_t what, uint64_t argument) override;

  void start();
  void halt_life(NodeState state, LifeChange change, const Error* why);
  void restart_after(std::optional<Duration> delay);
  void after(Duration delay, Event event);
  void pause(bool is_paused);
  bool is_alive() const { return state_ == NodeState::Up || state_ == NodeState::Paused; }
  Life life() const { return {id_, life_}; }

  void schedule(Life who, SimTime at, EventClass kind, Timer timer, uint64_t argument) override;
  void on_halted(Life who, const Error& why) override;
  void on_stopped(Life who) override;
  void on_crash_point(Life who, const CrashPoint& point, const CrashReport& report) override;
  void on_call_counted(Life who, CallKind kind, uint64_t nth) override;
  void on_event_counted(Life who, uint64_t event, uint64_t nth) override;

  Parts& parts_;
  NodeId id_;
  NodeSpec spec_;
  NodeState state_ = NodeState::Down;
  uint32_t life_ = 0;
  NodeAccount account_;
  std::optional<Duration> stop_restart_;           // after the stop that was asked for
  std::unique_ptr<SimDriver> driver_;              // of the last life; has ended when the node is not alive
  std::vector<std::pair<Trigger, size_t>> triggers_;  // that wait for calls or events of this node, with the fault's index
};

class World::Faults final : public EventHandler {
 public:
  explicit Faults(Parts& parts) : EventHandler(hash_text("faults")), parts_(parts) {}
  void add(const Fault& fault);
  void on_event(uint64_t what, uint64_t argument) override;   // what: 0 begin, 1 end; argument: index
  void trigger(size_t index, Duration delay);
  void heal();

 private:
  void begin(size_t index);
  void begin_on_node(const Fault& fault, size_t index);
  void begin_on_host(const Fault& fault);
  void leave_stale_tail_at(const Fault& fault);
  void end(size_t index);
  void lasts(size_t index, Duration span);

  Parts& parts_;
  std::vector<Fault> faults_;
  std::set<size_t> active_;
};

struct World::Parts : public EventHandler {
  Parts(World& world, Seed seed, const Profile& profile)
      : EventHandler(hash_text("callbacks")), engine(world, seed, profile), network(engine, profile.network), faults(*this) {}
  void on_event(uint64_t what, uint64_t argument) override;   // a callback of World::at

  Host& host(HostId id) { CHECK(id.value() < hosts.size()); return *hosts[id.value()]; }
  Slot& slot(NodeId id) { CHECK(id.value() < slots.size()); return *slots[id.value()]; }
  Host& host_of(const Slot& s) { return host(s.spec_.host); }
  void kill(Slot& s, CrashReport report, std::optional<Duration> restart_after);
  void power_loss(HostId host, CrashKind kind, CrashReport report, std::optional<Duration> restart_after);
  void commit_names_later(HostId host);
  void note_life(const Slot& s, LifeChange change, const Error* why);

  Engine engine;
  SimNetwork network;
  Faults faults;
  std::vector<std::unique_ptr<Host>> hosts;
  std::vector<std::unique_ptr<Slot>> slots;
  std::map<uint64_t, std::function<void()>> callbacks;
  uint64_t next_callback = 0;
  uint64_t next_call = uint64_t{1} << 63;
  uint64_t journal_draws = 0;
};

}  // namespace fulmar::sim
