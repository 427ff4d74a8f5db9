#pragma once
// A node on a thread of its own: waits until an event says that it listens or serves, and gives its end as a sentence.

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "core/node/make.h"
#include "net/host.h"
#include "net/uv_driver.h"

namespace fulmar::cmd {

class ServedNode : public TraceSink {
 public:
  // `serving_event` and `listening_event` are names of trace events; the first value of the latter is the port.
  ServedNode(std::string name, NodeKind kind, std::string config, Level least, std::string listening_event, std::string serving_event);
  ~ServedNode() override;

  struct Counters {
    net::DriverCounters driver;                                            // as of the last answer to ask()
    std::map<std::pair<Level, std::string_view>, uint64_t> events;         // warnings and errors, by name
  };

  const std::string& name() const { return name_; }
  void start();
  // True when it serves; false when it ended before, or `limit_ms` passed.
  bool wait_until_serving(int64_t limit_ms);
  uint16_t port() const;
  // Asks for an orderly stop.
  void request_stop(Duration deadline);
  // Waits for the end of the thread.
  net::Outcome join();
  bool has_ended() const;
  // Asks the node. Any thread, also before start(). Nothing: it has not answered within the limit, does not run, or very many wait already.
  std::optional<Reply> ask(net::CommandMaker make, int64_t limit_ms);
  Counters counters() const;
  // Calls `on_end` on the node's thread when it has ended, whatever the reason.
  void set_on_end(std::function<void()> on_end) { on_end_ = std::move(on_end); }

  void on_event(const TraceRecord& record) override;

 private:
  void on_tell(CallId call, Reply reply);
  const std::string name_, config_, listening_event_, serving_event_;
  const NodeKind kind_;
  net::LogSink log_;
  std::unique_ptr<net::UvDriver> driver_;
  std::thread thread_;
  std::function<void()> on_end_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint16_t port_ = 0;
  bool is_listening_ = false, is_serving_ = false, has_started_ = false, has_ended_ = false;
  struct Asked { std::optional<Reply> reply; bool is_given_up = false; };
  std::map<uint64_t, Asked> asked_;   // by call; who gives up leaves it to the answer, so that a stuck loop is asked a bounded number of times
  uint64_t next_call_ = 1;
  Counters counters_;
  net::Outcome outcome_;
};

}  // namespace fulmar::cmd
