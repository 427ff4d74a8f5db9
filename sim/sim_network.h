#pragma once
// The network: streams, not packets (simulation.md 3.1). A connection is two half-streams; order holds within a half-stream and nowhere
// else. A half accepts bytes while its window (both kernels' buffers) has room, cuts them into segments, delivers each after a latency,
// and gives room back as the reader reads. A node dies silently with its host, and noisily (FIN or RST) with its process.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/io/input.h"
#include "core/io/outbox.h"
#include "sim/engine.h"

namespace fulmar::sim {

// A node's side of the network, implemented by its driver. `end` names one end of a connection, for the life of the world.
class NetworkUser {
 public:
  virtual ~NetworkUser() = default;
  virtual void on_listening(Ticket ticket, Result<Address> at) = 0;
  virtual void on_accepted(uint64_t end, Port port, Peer peer) = 0;
  virtual void on_dialed(Ticket ticket, uint64_t end, Result<Peer> peer) = 0;
  virtual void on_received(uint64_t end, Bytes bytes) = 0;                   // borrowed
  virtual void on_closed(uint64_t end, Errc why) = 0;
  // The next bytes of a send are taken: the driver copies [from, from + count) of it to `into`.
  virtual void on_take(uint64_t end, Ticket ticket, uint64_t from, MutableBytes into) = 0;
  virtual void on_sent(uint64_t end, Ticket ticket, Result<void> outcome) = 0;
};

class SimNetwork : public EventHandler {
 public:
  SimNetwork(Engine& engine, const NetworkProfile& profile);
  ~SimNetwork() override;

  // Hosts are known by name and by an address of their own ("10.0.0.1" and up); "localhost" and 127.x are the asker's.
  void add_host(HostId host, std::string name);
  std::string address_of(HostId host) const;

  // --- asked by drivers; `delay` is what the step cost ------------------------------------------------------------------------------
  void listen(HostId host, Life who, NetworkUser& user, Ticket ticket, Port port, const Address& at);
  void unlisten(Life who, Port port);
  void dial(HostId host, Life who, NetworkUser& user, Ticket ticket, const Address& peer, Duration delay);
  void send(uint64_t end, Ticket ticket, uint64_t bytes, Duration delay);
  void pause(uint64_t end);
  void resume(uint64_t end);
  void close(uint64_t end);                                // pending sends come home Canceled; bytes taken still arrive, then FIN
  // The process is gone: its listeners too; peers hear FIN or RST. With its host: silence.
  void process_gone(Life who, bool is_with_host);

  // --- faults -----------------------------------------------------------------------------------------------------------------------
  void block(HostId from, HostId to, bool is_blocked);     // counted: each block needs its unblock
  void clog(HostId from, HostId to, Duration more);        // added to every latency; zero ends it
  void reset_between(HostId a, HostId b);
  void silence_between(HostId a, HostId b);                // half-open for ever
  void refuse(HostId host, bool is_refusing);
  void slow_receiver(Life who, bool is_slow);
  void host_up(HostId host, bool is_up);

  size_t open_connections() const { return connections_.size(); }
  void on_event(uint64_t what, uint64_t argument) override;

 private:
  enum class What : uint8_t { Take, Arrive, Break, Stall, Silence, Syn, DialEnd };
  struct Connection;
  struct Half;
  struct Listener { HostId host; Life who; NetworkUser* user; Port port; Address at; };
  struct Dialing {
    HostId from;
    Life who;
    NetworkUser* user = nullptr;     // null when its process is gone
    Ticket ticket;
    Address peer;
    Result<Peer> outcome = Errc::TimedOut;
    uint64_t connection = 0;
  };

  std::optional<HostId> resolve(HostId asker, const std::string& name) const;
  Listener* listener_at(HostId host, uint16_t number);
  uint16_t take_port(HostId host);
  Connection* find(uint64_t id);
  Connection& connection_of(uint64_t end);
  bool is_blocked(HostId from, HostId to) const;
  Duration latency(Half& half);
  KeyedStream pair_stream(Domain domain, HostId from, HostId to);
  void syn_arrives(uint64_t id);
  void dial_ends(uint64_t id);
  void open_connection(Dialing& dial, HostId to, const Listener& listener);
  void later(Duration delay, What what, uint64_t argument, Errc why = Errc::Internal);
  void take(Connection& c, int side);
  void accept_bytes(Connection& c, int side, uint64_t count);
  std::vector<uint64_t> cut(Half& half, Bytes bytes);
  void schedule_arrival(Connection& c, int side);
  void arrive(Connection& c, int side);
  void hand_over(Connection& c, int side);
  void arm_stall(Connection& c, int side);
  void stalled(Connection& c, int side);
  void finish(Connection& c, int side);
  void break_end(Connection& c, int side, Errc why);
  void leave(Connection& c, int side, bool is_with_host);
  void drop_if_over(uint64_t id);

  Engine& engine_;
  NetworkProfile profile_;
  std::vector<std::string> hosts_;
  std::vector<uint16_t> next_port_;
  std::vector<bool> is_up_;
  std::vector<uint32_t> refusing_;
  std::map<std::pair<HostId, HostId>, uint32_t> blocked_;
  std::map<std::pair<HostId, HostId>, Duration> clogged_;
  std::set<Life> slow_;
  std::vector<Listener> listeners_;
  std::map<uint64_t, std::unique_ptr<Connection>> connections_;
  std::map<uint64_t, Dialing> dials_;
  std::map<std::pair<HostId, HostId>, uint64_t> opened_;   // per pair: entities of keyed draws
  uint64_t next_connection_ = 1, next_dial_ = 1;
};

}  // namespace fulmar::sim
