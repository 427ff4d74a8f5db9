#pragma once
// One loop, one thread, one Node: collect what arrived during a turn, step once, carry out the outbox.
//
//   turn:  uv_run (waits unless something is ready) -> inputs -> Node::step -> requests carried out -> next turn
//
// A step comes when there is input, when the node's deadline is there, or when it asked for step_again. An idle node costs nothing: the
// thread sleeps in the kernel until a descriptor, a pool or the deadline wakes it.

#include <uv.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/io/node.h"
#include "net/uv_streams.h"

namespace fulmar::net {

// Makes a command on the loop thread. Its views may point into what the function owns, which lives until the step is over.
using CommandMaker = std::function<Command()>;

struct UvOptions {
  std::string name = "node";          // in crash reports
  Seed seed;
  TraceSink* sink = nullptr;          // outlives the driver
  std::function<void(CallId, Reply)> on_tell;  // on the loop thread
  size_t read_arena_bytes = 1u << 20;  // what one turn reads at most
  size_t posts_max = 65'536;           // commands waiting for the loop
};

struct Outcome {
  enum class Kind : uint8_t { Stopped, Halted, Abandoned } kind = Kind::Stopped;
  Error error{Errc::Internal};  // why, when halted
};

struct DriverCounters {
  uint64_t turns = 0, steps = 0, inputs = 0;
  uint64_t major_faults = 0;  // of the loop thread since run() began: pages nobody had warmed
};

class UvDriver {
 public:
  UvDriver(NodeFactory factory, UvOptions options);
  ~UvDriver();
  UvDriver(const UvDriver&) = delete;
  UvDriver& operator=(const UvDriver&) = delete;

  // Runs the node on the calling thread until it has stopped or halted, or abandon() was called; once in the life of a driver. The node
  // is destroyed before this returns. A factory that returns null ends it at once: Halted, NotReady.
  Outcome run();

  // --- any thread, also before run() ----------------------------------------------------------------------------------------------
  // Full: posts_max commands wait already. Stopping: the node is gone.
  Result<void> post(CallId call, CommandMaker make);
  // The node gets command::Stop{deadline}. If it has not stopped a second after the deadline, run() ends with Halted, TimedOut.
  void request_stop(CallId call, Duration deadline);
  // run() returns without the node's consent: to the node this is kill -9.
  void abandon();

  // --- the loop thread: in on_tell, in the sink, or after run() -------------------------------------------------------------------
  const StreamCounters& stream_counters() const { return streams_->counters(); }
  DriverCounters counters() const;
  const Trace& trace() const { return trace_; }

 private:
  struct Posted { CallId call; CommandMaker make; };
  bool turn();       // false when there is nothing to step for
  void collect();
  std::unique_ptr<Outcome> step();  // null: go on
  void carry_out();
  void arm_timer(Monotonic deadline);
  void tear_down();

  const NodeFactory factory_;
  const UvOptions options_;
  Files file_table_;
  Trace trace_;
  Outbox outbox_;
  std::vector<Input> inputs_, stepping_;
  uv_loop_t loop_{};
  uv_async_t wake_{};
  uv_timer_t timer_{};
  std::unique_ptr<MappedFiles> files_;
  std::unique_ptr<UvStreams> streams_;
  std::unique_ptr<Node> node_;
  Moment now_;
  Monotonic deadline_ = Monotonic::never(), armed_for_ = Monotonic::never(), stop_by_ = Monotonic::never();
  bool is_step_due_ = true;
  DriverCounters counters_;
  uint64_t faults_before_ = 0;

  std::mutex post_mutex_;
  std::vector<Posted> posted_, taken_;
  Monotonic posted_stop_by_ = Monotonic::never();  // under post_mutex_
  bool is_gone_ = false;                           // under post_mutex_
  std::atomic<bool> is_abandoned_{false};
};

}  // namespace fulmar::net
