#pragma once
// One life of one node: steps it, carries out its outbox on the simulated disk and network, and holds it to the contract of core/io.
// A broken contract is a failure of oracle "boundary": every ticket is redeemed exactly once by a request of its own, views touch
// prepared or warmed ranges only, stores touch prepared blocks only, slices stay as they are until Sent, a path has one request at a time.

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
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

// What a host lends to the nodes on it. The counts are flush faults that were injected and wait for a flush.
struct HostParts {
  HostId id;
  SimDisk& disk;
  HostClock& clock;
  uint64_t flush_errors = 0, flush_stalls = 0;
  Duration flush_stall;
};

// What outlives a life: counters and armed crashes of a node. Owned by the world.
struct NodeAccount {
  uint64_t calls = 0;                                       // I/O calls so far
  std::array<uint64_t, 16> calls_of{};                      // by CallKind
  std::map<uint64_t, uint64_t> events_of;                   // by hash of name; counted only while is_event_watched
  std::map<uint64_t, CrashPoint> crash_points;              // by nth
  bool is_event_watched = false;
  int64_t cpu_factor = 1;
};

// How a life reaches its world.
class DriverOwner {
 public:
  enum class Timer : uint8_t { Step, Disk };
  virtual ~DriverOwner() = default;
  // Brings back on_timer(timer, argument) of this life, if it still lives.
  virtual void schedule(Life who, SimTime at, EventClass kind, Timer timer, uint64_t argument) = 0;
  // The three ends that a life finds by itself. The driver does nothing afterwards but wait for its destruction.
  virtual void on_halted(Life who, const Error& why) = 0;
  virtual void on_stopped(Life who) = 0;
  virtual void on_crash_point(Life who, const CrashPoint& point, const CrashReport& report) = 0;
  // For triggers; they fire through the schedule, never at once.
  virtual void on_call_counted(Life who, CallKind kind, uint64_t nth) = 0;
  virtual void on_event_counted(Life who, uint64_t event, uint64_t nth) = 0;
};

class SimDriver final : public NetworkUser, public MemoryEye, public TraceSink {
 public:
  SimDriver(Engine& engine, SimNetwork& network, HostParts& host, NodeAccount& account, DriverOwner& owner, Life who, const std::string& name,
            const NodeFactory& factory);
  ~SimDriver() override;

  void told(CallId call, const Command& command);           // copied
  void on_timer(DriverOwner::Timer timer, uint64_t argument);
  void pause(bool is_paused);
  // Destroys the node. Without its host the kernel lives on: operations in flight are abandoned and files closed.
  void end(bool is_with_host);
  bool has_ended() const { return node_ == nullptr; }
  // A flush on its way that was to fail succeeds: the disk is well again, however long a stall holds the answer back.
  void heal_flushes();
  size_t tickets_out() const { return tickets_.size(); }
  uint64_t steps() const { return trace_.step(); }
  std::string recent() const { return trace_.recent(); }

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
  struct Queued {                       // an input that waits, with what it borrows
    Input input;
    std::vector<uint8_t> bytes;
    std::unique_ptr<OwnedCommand> owned;
    uint64_t digest = 0;
  };
  struct OpenFile {
    Inode inode;
    std::string path;
    RangeSet warm;                      // what may be viewed
    uint32_t pins = 0, slices = 0;      // tickets out that name it; sends among them
  };
  struct Operation { CallKind kind; Ticket ticket; FileId file; DiskOp op; Request request; Result<void> outcome; Inode inode = {}; };
  struct Outgoing { ConnId conn; std::vector<Outbox::StoredPiece> pieces; std::vector<uint8_t> arena; };
  struct Conn { uint64_t end = 0; bool is_lost = false; };
  struct Undo { FileId file; Range range; std::vector<uint8_t> before; };

  // sim_driver.cc: steps
  void queue(Input input, std::vector<uint8_t> bytes = {}, std::unique_ptr<OwnedCommand> owned = {});
  void request_step(SimTime at);
  void run_step();
  void take_inputs();
  void redeem(Ticket ticket, size_t input_kind);
  bool carry_out();
  bool is_crashing(CallKind kind, uint64_t nth);
  void finish_crash();
  uint64_t count_call(const IoCall& call);
  void fail(std::string sentence);
  void check_prepares(FileId file, Range range);
  void check_undeclared();

  // sim_driver_files.cc
  void start(const Request& request, Duration delay);       // or wait its turn
  void begin(const Request& request, Duration delay);
  void start_map(const request::Map& r, Duration delay);
  void start_flush(const request::Flush& r, Duration delay);
  static void settle(Operation& operation, Result<DiskOp> begun);
  void add_operation(Operation operation, const Latency& latency, Duration delay);
  void disk_done(uint64_t id);
  Result<FileId> open_file(const request::Map& r, const Operation& operation);
  Result<void> finish_flush(const request::Flush& r, Operation& operation);
  void unmap(FileId file);
  bool must_wait(const Request& request) const;
  void run_deferred();
  OpenFile* open_at(FileId file) { return file.value() != 0 && file.value() <= open_.size() ? open_[file.value() - 1].get() : nullptr; }
  OpenFile* checked(FileId file, Range range, const char* call);   // null, and a failure, when the request is broken
  void pin(Ticket ticket, FileId file);
  void unpin(FileId file);
  void take_path(const std::string& path, const char* call);

  // sim_driver_net.cc
  void start_send(const request::Send& r, Duration delay);
  void finish_send(Ticket ticket);
  void pause_conn(ConnId conn, bool is_paused);
  void close(ConnId conn);
  void check_slices(FileId file, Range range, const char* call);

  Engine& engine_;
  SimNetwork& network_;
  HostParts& host_;
  NodeAccount& account_;
  DriverOwner& owner_;
  Life who_;
  std::string name_;
  KeyedStream batch_draws_, cost_draws_, disk_draws_, fault_draws_, order_draws_;

  std::deque<Queued> inbox_;
  std::vector<Queued> taken_;            // of the step that runs
  std::vector<Input> inputs_;
  SimTime step_at_ = SimTime::never(), busy_until_;
  uint64_t step_generation_ = 0;
  bool is_paused_ = false, is_in_step_ = false, is_over_ = false;

  std::map<Ticket, size_t> tickets_;     // out, with the index of the input that must redeem it
  std::map<Ticket, std::vector<FileId>> pinned_by_;
  std::vector<std::unique_ptr<OpenFile>> open_;
  std::set<Inode> failed_;               // a flush failed: so do all others of this life
  std::set<std::string> busy_paths_;
  std::map<uint64_t, Operation> operations_;
  std::vector<Request> deferred_;
  uint64_t next_operation_ = 1;

  std::map<ConnId, Conn> conns_;
  std::map<uint64_t, ConnId> conn_of_;
  std::map<Ticket, Outgoing> outgoing_;
  uint64_t next_conn_ = 1;

  std::optional<CrashPoint> crashing_;   // hit inside this step
  Undo crash_range_;
  std::optional<std::vector<uint8_t>> crash_after_;   // what the crash leaves of that range
  std::vector<Undo> undo_;
  CrashReport crash_report_;

  Outbox outbox_;
  Files files_;
  Trace trace_;
  std::unique_ptr<Node> node_;
};

}  // namespace fulmar::sim
