#pragma once
// A client node on a thread of its own, for verbs that talk to a cluster: calls that wait, calls with an answer later, subscriptions.

#include <CLI/CLI.hpp>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/model/command.h"
#include "core/model/config.h"
#include "net/uv_driver.h"

namespace fulmar::cmd {

// Where clients look for name servers when -n is not given.
std::string default_name_servers();   // $NAMESRV_ADDR, else 127.0.0.1:9876
std::string host_name();
void add_name_servers_option(CLI::App* verb, std::string& into);

class ClientHost {
 public:
  using OnReply = std::function<void(Reply)>;  // on the client's thread; may be called many times for a subscription

  // `name_servers`: host:port joined by ';'. `client_id`: empty for one that nobody else has.
  explicit ClientHost(const std::string& name_servers, std::string client_id = {});
  ~ClientHost();

  // False when none of the name servers takes a connection within a second: `sentence` says so.
  bool is_reachable(std::string& sentence) const;
  // Waits for the answer; a Refusal with code SYSTEM_ERROR when none comes within `limit_ms`.
  Reply call(net::CommandMaker make, int64_t limit_ms = 10'000);
  // The answer comes to `on_reply`. The id names a subscription in Consumed and Unsubscribe.
  uint64_t post(net::CommandMaker make, OnReply on_reply, bool is_subscription = false);
  void forget(uint64_t call);
  // Stops the node in order (last commits) and waits.
  void stop();

 private:
  void on_tell(CallId call, Reply reply);
  struct Waiting { OnReply on_reply; bool is_subscription; };
  std::vector<std::string> name_servers_;
  std::unique_ptr<net::UvDriver> driver_;
  std::thread thread_;
  std::mutex mutex_;
  std::map<uint64_t, Waiting> waiting_;
  uint64_t next_call_ = 1;
};

}  // namespace fulmar::cmd
