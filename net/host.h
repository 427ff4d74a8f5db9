#pragma once
// What a process gives its nodes: clocks, a seed, the lock on a store directory, the end by signal, a log.

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/prng.h"
#include "core/base/result.h"
#include "core/io/moment.h"
#include "core/io/trace.h"
#include "net/file_work.h"
#include "net/thread.h"

namespace fulmar::net {

// Once, before any other thread: SIGPIPE and SIGXFSZ ignored (both come back as errors), the three standard streams open, so that no file
// of a store is taken for one, descriptors up to the hard limit (a store with 20,000 connections needs them), few malloc arenas and
// resolver threads (decision 2). When memory ends, the process says so and ends. An error: too few descriptors to run at all.
Result<void> prepare_process();
// A server wants more of them: an error names the limit.
Result<void> check_descriptors_for_serving();

// CLOCK_MONOTONIC, CLOCK_REALTIME and the offset of the local zone (looked up again when the minute changes). Any thread.
Moment read_moment();
Seed random_seed();

// Holds the lock on `<store>/lock` (byte 0, as RocketMQ's FileLock does, so that a Java broker is kept out too) until it is destroyed
// or the process ends. Taken before the node is made (decision 11).
class StoreLock {
 public:
  // Makes the directory. Locked: the sentence names the owner's pid.
  static Result<StoreLock> take(const std::string& store_directory);

 private:
  explicit StoreLock(Descriptor file) : file_(std::move(file)) {}
  Descriptor file_;
};

// Who holds that lock: "process 4711". Nothing when nobody does, or there is no store.
std::optional<std::string> lock_owner(const std::string& store_directory);

// SIGTERM and SIGINT. The first calls `on_stop` (on a thread of its own) with the signal; the second says so and ends the process with
// status 1. SIGHUP: a terminal that goes away stops as SIGTERM does; otherwise `on_hangup` hears of it, where given. Under nohup it stays
// ignored. Make it before any other thread, so that all of them leave these signals to it.
class StopSignals {
 public:
  explicit StopSignals(std::function<void(int signal)> on_stop, std::function<void()> on_hangup = {});
  ~StopSignals();

 private:
  std::function<void(int)> on_stop_;
  std::function<void()> on_hangup_;
  std::atomic<bool> is_over_{false};
  std::unique_ptr<Thread> thread_;
};

// Prints events, one line each, whole lines from any thread: "2026-03-01T10:11:12.345Z warning broker LogTruncated: log cut at …".
class LogSink : public TraceSink {
 public:
  // `node` goes on every line. `descriptor` is stderr by default.
  LogSink(std::string node, Level least, int descriptor = 2) : node_(std::move(node)), least_(least), descriptor_(descriptor) {}
  void on_event(const TraceRecord& record) override;
  // For what the host itself has to say.
  void say(Level level, std::string_view text);

 private:
  void print(Level level, std::string_view name, std::string_view text);
  const std::string node_;
  const Level least_;
  const int descriptor_;
};

}  // namespace fulmar::net
