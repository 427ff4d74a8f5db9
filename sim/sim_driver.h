#pragma once
// One life of one node: steps it, carries out its outbox on the simulated disk and network, and holds it to the contract of core/io.
// A broken contract is a failure of oracle "boundary": every ticket is redeemed exactly once by a request of its own, views touch
// prepared or warmed ranges only, stores touch prepared blocks only, slices stay as they are until Sent, a path has one request at a time.

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/io/node.h"
#include "sim/clock.h"
#include "sim/engine.h"
#include "sim/owned_command.h"
#include "sim/range_set.h"
#include "sim/sim_disk.h"
#include "sim/sim_network.h"

namespace fulmar::sim {

// What a host lends to the nodes on it.
struct HostParts { HostId id; SimDisk& disk; HostClock& clock; SimNetwork& network; uint64_t& flush_errors; uint64_t& flush_stalls; Duration& flush_stall; };

// What outlives a life: counters and armed crashes of a node. Owned by the world.
struct NodeAccount {
  uint64_t calls = 0;                                       // I/O calls so far
  std::map<CallKind, uint64_t> calls_of;
  std::map<uint64_t, uint64_t> events_of;                   // by hash of name
  std::map<uint64_t, CrashPoint> crash_points;              // by nth
  int64_t cpu_factor = 1;
};

// How a life reports to the world. Called at the end of a step, never inside.
class DriverOwner {
 public:
  virtual ~DriverOwner() = default;
  virtual void on_halted(Life who, const Error& why) = 0;
  virtual void on_stopped(Life who) = 0;
  virtual void on_crash_point(Life who, const CrashPoint& point, CrashReport& report) = 0;
  virtual void on_counted(Life who, CallKind kind, uint64_t nth) = 0;       // triggers
  virtual void on_counted(Life who, uint64_t event, uint64_t nth) = 0;
};

class SimDriver final : public NetworkUser, public MemoryEye, public TraceSink {
 public:
  SimDriver(Engine& engine, HostParts host, NodeAccount& account, DriverOwner& owner, Life who, const std::string& name, const NodeFactory& factory);
  ~SimDriver() override;        // the node is destroyed; disk operations in flight are abandoned

  // --- from the world ---------------------------------------------------------------------------------------------------------------
  void told(CallId call, const Command& command);           // copied
  void wake(uint64_t generation);                           // a step that was scheduled
  void disk_done(uint64_t op);
  void pause(bool is_paused);
  bool is_paused() const { return is_paused_; }
  size_t tickets_out() const { return tickets_.size(); }
  Files& files() { return files_; }
  uint64_t steps() const { return trace_.step(); }
  std::string recent() const { return trace_.recent(); }

  // --- NetworkUser, MemoryEye, TraceSink --------------------------------------------------------------------------------------------
  void on_listening(Ticket ticket, Result<Address> at) override;
  void on_accepted(uint64_t end, Port port, Peer peer) override;
  void on_dialed(Ticket ticket, uint64_t end, Result<Peer> peer) override;
  void on_received(uint64_t end, Bytes bytes) override;
  void on_closed(uint64_t end, Errc why) override;
  void on_take(uint64_t end, Ticket ticket, uint64_t from, MutableBytes into) override;
  void on_sent(uint64_t end, Ticket ticket, Result<void> outcome) override;
  void on_writable(MappedFile& file, Range range) override;
  void on_view(const MappedFile& file, Range range) override;
  void on_event(const TraceRecord& record) override;

 private:
  struct Queued;
  struct OpenFile;
  struct Operation;
  struct OutgoingSend;
  struct Undo;
  struct Impl;                   // request by request, in sim_driver_files.cc and sim_driver_net.cc

  // members in the implementation's order: see sim_driver.cc
  Engine& engine_;
  std::unique_ptr<Impl> impl_;
  Files files_;
  Trace trace_;
  std::map<Ticket, CallKind> tickets_;
  bool is_paused_ = false;
};

}  // namespace fulmar::sim
