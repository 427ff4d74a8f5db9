#pragma once
// A world: hosts with a disk and a clock, nodes with lives, one network, one heap of events, one hash. Everything that happens in it is
// a function of its seed, its profile and the calls made on it; two worlds in one process know nothing of each other.
//
//   World world(Seed{7}, profile);
//   const HostId host = world.add_host({"broker-a", {}, disk_profile});
//   const NodeId node = world.add_node({"broker-a", host, factory});
//   world.start(node);
//   world.inject(fault);
//   world.run_for(Duration::seconds(30));

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/io/node.h"
#include "sim/clock.h"
#include "sim/engine.h"
#include "sim/fault.h"
#include "sim/observer.h"
#include "sim/profile.h"
#include "sim/sim_disk.h"

namespace fulmar::sim {

class SimDriver;
class SimNetwork;

struct HostSpec { std::string name; ClockSpec clock; DiskProfile disk; };
struct NodeSpec {
  std::string name;
  HostId host;
  NodeFactory factory;
  std::optional<Duration> restart_after_halt;     // nothing: a halted node stays down
};
enum class NodeState : uint8_t { Down, Up, Paused, Stopped, Halted };

class World {
 public:
  World(Seed seed, const Profile& profile);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  HostId add_host(HostSpec spec);
  NodeId add_node(NodeSpec spec);
  void observe(WorldObserver& observer);                        // borrowed for the life of the world

  // --- time -------------------------------------------------------------------------------------------------------------------------
  SimTime now() const;
  void at(SimTime when, std::function<void()> what);            // on the heap, class Callback
  // Each answers false as soon as an oracle failed.
  bool run_until(SimTime until);
  bool run_for(Duration span) { return run_until(now() + span); }
  bool run_while(const std::function<bool()>& condition, SimTime until);   // ends when the condition is false; true also at `until`
  uint64_t events_run() const;

  // --- lives ------------------------------------------------------------------------------------------------------------------------
  // All take effect between steps (never call them from an observer); a node that is not in the state for it ignores them.
  void start(NodeId node);
  void stop(NodeId node, Duration deadline);                    // Told Stop; ends in Stopped, unless something else comes first
  void kill(NodeId node, std::optional<Duration> restart_after = {});
  void power_loss(HostId host, CrashKind kind, std::optional<Duration> restart_after = {});   // Panic or PowerLoss
  void pause(NodeId node, Duration span);
  void set_factory(NodeId node, NodeFactory factory);           // for its next life
  void crash_at(const CrashPoint& point);
  // Carried out when its trigger comes. Its own draws are keyed by fault.id.
  void inject(const Fault& fault);
  // Ends what lasts (partitions, clogs, refusals, slow receivers, full disks, pauses, slow CPUs) and disarms crash points and triggers
  // that have not fired. Nodes that are down stay down; timed faults still to come still come.
  void heal();

  // --- the host's word ----------------------------------------------------------------------------------------------------------------
  // The command is copied. Lost when the node is not up (false). Replies reach observers (on_reply). CallIds from 2^63 on are the world's.
  bool tell(NodeId node, CallId call, const Command& command);

  // --- questions ----------------------------------------------------------------------------------------------------------------------
  NodeState state(NodeId node) const;
  Life life(NodeId node) const;
  uint64_t calls(NodeId node) const;                            // I/O calls so far, over all lives: ordinals for crash_at
  const std::string& name(NodeId node) const;
  HostId host_of(NodeId node) const;
  size_t node_count() const;
  size_t host_count() const;
  SimDisk& disk(HostId host);
  HostClock& clock(HostId host);
  std::string address_of(HostId host) const;                    // "10.0.0.1"; names work too
  SimNetwork& network();
  size_t tickets_out(NodeId node) const;
  std::string recent_events(NodeId node) const;                 // of the present or last life, one a line
  Seed seed() const;
  uint64_t hash() const;
  const FaultCounts& faults() const;
  FaultCounts& faults();
  // The last I/O calls and inputs before a failure are the observer's to keep.
  void fail(std::string_view oracle, std::string sentence);
  const std::vector<Failure>& failures() const;
  bool has_failed() const { return !failures().empty(); }

 private:
  struct Host;
  class Slot;
  class Faults;
  struct Parts;
  friend struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace fulmar::sim
