#pragma once
// Listen, dial, read, gathered write: the network of one node on one loop. What happens is appended to the driver's inputs; what the
// node asks is carried out at once, except sends, which are gathered per connection until end_of_outbox() and leave in one write,
// straight from the mapped files. Nothing here blocks; names are resolved on libuv's threads.

#include <sys/socket.h>
#include <uv.h>

#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/io/input.h"
#include "core/io/outbox.h"
#include "net/mapped_files.h"
#include "net/turn_arena.h"

namespace fulmar::net {

struct StreamCounters {
  uint64_t accepted = 0, refused_for_descriptors = 0, dialed = 0, closed = 0;
  uint64_t bytes_in = 0, bytes_out = 0, reads = 0, writes = 0, writes_queued = 0;
};

// Kept for files, whatever the crowd: three for each of 1,024 queue files that may be mapped at a time, and the log.
inline constexpr int kFileDescriptors = 3 * 1024 + 512;

class UvStreams {
 public:
  UvStreams(uv_loop_t& loop, size_t read_arena_bytes, MappedFiles& files, std::vector<Input>& inputs);
  ~UvStreams();  // after shut_down() and a turn of the loop in which every handle closed

  // Received inputs of the turn before are gone from here on.
  void begin_turn();
  void carry_out(const request::Listen& r);
  void carry_out(const request::Unlisten& r);
  void carry_out(const request::Dial& r);
  void carry_out(const request::Send& r, const Outbox& outbox);
  void carry_out(const request::Pause& r);
  void carry_out(const request::Resume& r);
  void carry_out(const request::Close& r);
  void end_of_outbox();
  void shut_down();

  const StreamCounters& counters() const { return counters_; }
  size_t connection_count() const { return connections_.size(); }

 private:
  struct Connection;
  struct Listener;
  struct Dialing;
  struct Resolving;
  struct Writing;
  using Addresses = std::vector<sockaddr_storage>;
  using OnResolved = std::function<void(int status, Addresses addresses)>;

  void resolve(const Address& address, OnResolved then);
  void listen_at(Ticket ticket, Port port, const sockaddr_storage& at, const std::string& text);
  void accept_from(Listener& listener, int status);
  void dial_next(Dialing& dialing);
  void on_connected(Dialing& dialing, int status);
  void open(Connection& connection);
  void start_reading(Connection& connection);
  void on_read(Connection& connection, ssize_t count);
  void write_batch(Connection& connection);
  void queue_rest(Connection& connection, size_t written);
  void on_written(Writing& writing, int status);
  // Redeems every send with `why`, tells the node when it did not ask for this, and closes the handle.
  void finish(Connection& connection, const Error& why, bool is_news);
  Connection* find(ConnId id);
  Peer peer_of(const Connection& connection) const;
  void keep_spare_descriptor();

  uv_loop_t& loop_;
  TurnArena arena_;
  MappedFiles& files_;
  std::vector<Input>& inputs_;
  StreamCounters counters_;
  std::unordered_map<uint64_t, Connection*> connections_;  // open ones; each is deleted by its close callback
  std::map<Port, Listener*> listeners_;
  std::unordered_set<Dialing*> dialings_;
  std::unordered_set<Resolving*> resolvings_;
  std::vector<ConnId> dirty_;  // connections with a batch
  uint64_t next_conn_ = 1, turn_ = 0;
  int descriptors_max_ = 0;
  int spare_descriptor_ = -1;
  bool is_down_ = false;
};

}  // namespace fulmar::net
