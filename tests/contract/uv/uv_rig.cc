// The promises of the boundary, kept by the libuv driver on a real disk and the loopback network.

#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "net/uv_driver.h"
#include "tests/contract/boundary_cases.h"

namespace fulmar::contract {

namespace {

// Fires once when its time is over, unless it is destroyed before.
class Watchdog {
 public:
  Watchdog(Duration limit, std::function<void()> bark)
      : thread_("watchdog", net::kPoolStackBytes, [this, limit, bark = std::move(bark)] {
          std::unique_lock lock(mutex_);
          if (!is_called_off_.wait_for(lock, std::chrono::nanoseconds(limit.ns), [this] { return is_over_; })) bark();
        }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    is_called_off_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable is_called_off_;
  bool is_over_ = false;
  net::Thread thread_;
};

class KeepingSink : public TraceSink {
 public:
  void on_event(const TraceRecord& record) override {
    const std::lock_guard lock(mutex_);
    lines_.push_back(record.describe());
  }
  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

class UvRig {
 public:
  enum class End { Stopped, Halted, TimedOut };

  UvRig() {
    const char* base = std::getenv("TMPDIR");
    root_ = std::string(base != nullptr ? base : "/tmp") + "/fulmar-contract-XXXXXX";
    CHECK(::mkdtemp(root_.data()) != nullptr, "{}", root_);
  }
  ~UvRig() { std::filesystem::remove_all(root_); }

  std::string root() { return root_; }
  std::string host() { return "127.0.0.1"; }
  void say(CallId call, Command command) { said_.emplace_back(call, std::move(command)); }
  std::vector<std::pair<CallId, Reply>> replies() { return replies_; }
  std::vector<std::string> log() { return sink_.lines(); }

  End run(NodeFactory factory, Duration limit) {
    net::UvDriver driver(std::move(factory), options("a"));
    for (auto& [call, command] : std::exchange(said_, {})) CHECK(driver.post(call, [c = command] { return c; }));
    const Watchdog watchdog(limit, [&driver] { driver.abandon(); });
    return to_end(driver.run());
  }

  End run_pair(NodeFactory a, NodeFactory b, Duration limit) {
    net::UvDriver first(std::move(a), options("a")), second(std::move(b), options("b"));
    const Watchdog watchdog(limit, [&] { first.abandon(); second.abandon(); });
    std::optional<End> end;
    net::Thread other("node-b", net::kNodeStackBytes, [&] { end = to_end(second.run()); });
    const End own = to_end(first.run());
    other.join();
    return own == End::Stopped ? *end : own;
  }

 private:
  net::UvOptions options(std::string name) {
    net::UvOptions options;
    options.name = std::move(name);
    options.sink = &sink_;
    options.on_tell = [this](CallId call, Reply reply) { replies_.emplace_back(call, std::move(reply)); };
    return options;
  }
  static End to_end(const net::Outcome& outcome) {
    switch (outcome.kind) {
      case net::Outcome::Kind::Stopped: return End::Stopped;
      case net::Outcome::Kind::Halted: return End::Halted;
      case net::Outcome::Kind::Abandoned: return End::TimedOut;
    }
    return End::TimedOut;
  }

  std::string root_;
  KeepingSink sink_;
  std::vector<std::pair<CallId, Command>> said_;
  std::vector<std::pair<CallId, Reply>> replies_;
};

}  // namespace

INSTANTIATE_TYPED_TEST_SUITE_P(Uv, Boundary, UvRig);

}  // namespace fulmar::contract
