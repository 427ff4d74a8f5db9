#pragma once
// Load over the native protocol from one thread: pipelined sends, or pulls, on many connections over one epoll loop. It is cheap so that it
// measures the broker and not itself: frames are encoded once, an answer costs a decode and an addition.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cmd/fulmar/latency.h"
#include "core/base/bytes.h"
#include "core/base/result.h"
#include "core/io/ids.h"

namespace fulmar::cmd {

struct LoadOptions {
  struct Target { Address address; int32_t queues = 0; };   // a broker and its queues of the topic; at least one each
  std::string topic;
  std::vector<Target> targets;       // connections take them in turn
  int connections = 16;
  int in_flight = 256;               // requests a connection
  size_t body_bytes = 128;
  double rate = 0;                   // messages a second over all connections: open loop; 0: closed loop
  int pull_count = 0;                // 0: sends; else pulls of so many messages, each connection reading one queue again and again
  bool has_key = true;               // UNIQ_KEY and WAIT, as every client of RocketMQ adds them
};

class Load {
 public:
  struct Counts { uint64_t messages = 0, refused = 0, body_bytes = 0; };

  // Dials all connections. The sentence names the broker that takes none.
  static Result<std::unique_ptr<Load>> open(LoadOptions options);
  ~Load();

  // Goes on until `is_over` says so, asked every few milliseconds; requests in flight stay so from phase to phase. With a rate the schedule
  // begins anew. In an open loop latencies count from the moment when a request was due, not from when it could be sent.
  Result<void> run(const std::function<bool()>& is_over);

  const Counts& counts() const { return counts_; }
  const std::string& first_refusal() const { return first_refusal_; }
  LatencyRecorder& latencies() { return latencies_; }

 private:
  struct Connection;
  explicit Load(LoadOptions options);
  Result<void> dial(int index);
  Result<void> turn(uint64_t wake_ns);
  Result<void> read(Connection& c);
  Result<void> take(Connection& c, Bytes frame);
  Result<void> fill(Connection& c);
  Result<void> flush(Connection& c);
  Result<void> encode_frames();
  void send(Connection& c, uint64_t begun);
  Result<void> pull(Connection& c);
  void begin(Connection& c, uint64_t begun);
  uint64_t due_ns(const Connection& c) const;

  LoadOptions options_;
  int epoll_ = -1;
  struct Codec;
  std::unique_ptr<Codec> codec_;
  std::vector<uint8_t> body_, buffer_;
  std::vector<std::vector<std::vector<uint8_t>>> frames_;   // by target, by queue
  std::vector<std::unique_ptr<Connection>> connections_;
  LatencyRecorder latencies_;
  Counts counts_;
  std::string first_refusal_;
  uint64_t now_ = 0, phase_began_ = 0;
};

// CPU seconds that a process has used, all its threads, also those that have ended. NotFound: there is no such process.
Result<double> process_cpu_seconds(int pid);

}  // namespace fulmar::cmd
