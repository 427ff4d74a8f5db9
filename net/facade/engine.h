#pragma once
// What stands behind a Client: the loop thread with its client node, the calls that wait for an answer, the bound on what is on its way,
// and the pool. Shared by the client and everything made from it; it lives until the last of them goes.
//
//   caller --take slot--> post to the loop --> node --> on_tell (loop thread) --> answer --> pool: callback --> slot given back
//
// Lock order: none is held while another is taken.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>

#include "core/model/command.h"
#include "fulmar/client.h"
#include "net/facade/pool.h"
#include "net/uv_driver.h"

namespace fulmar::v1 {

using SteadyTime = std::chrono::steady_clock::time_point;

class Stoppable {
 public:
  virtual ~Stoppable() = default;
  virtual Result<void> stop() = 0;
};

class Engine {
 public:
  using OnReply = std::function<void(fulmar::Reply)>;  // on the loop thread: short, and no user code

  explicit Engine(ClientOptions options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const ClientOptions& options() const { return options_; }
  // Why no call can be taken now: after fork(), after stop(), or a bad option.
  std::optional<Refusal> unusable() const;
  bool is_child() const;  // of a fork()

  // --- the bound on sends ---------------------------------------------------------------------------------------------------------------
  // Room for one request of `bytes`, or why there is none. Whoever got it gives it back once.
  std::optional<Refusal> take_slot(size_t bytes, WhenFull when_full);
  void give_slot(size_t bytes);

  // --- calls ----------------------------------------------------------------------------------------------------------------------------
  // `on_reply` is called exactly once, also when the client stops; of a subscription as often as it answers, and no more after forget().
  void post(net::CommandMaker make, OnReply on_reply) { post_as(new_call(), std::move(make), std::move(on_reply), false); }
  // The number names a subscription in Consumed and Unsubscribe.
  uint64_t new_call() { return next_call_.fetch_add(1, std::memory_order_relaxed); }
  void post_as(uint64_t call, net::CommandMaker make, OnReply on_reply, bool is_subscription);
  fulmar::Reply call(net::CommandMaker make);  // waits
  // Waits for the answer until `deadline`; nothing when none came.
  std::optional<fulmar::Reply> call_until(net::CommandMaker make, SteadyTime deadline);
  void forget(uint64_t call);
  void run_on_pool(Pool::Work work) { callbacks_.add(std::move(work)); }
  void complete(Pool::Work work) { completions_.add(std::move(work)); }  // fulfils futures: no user code, never waits for the pool

  // Stopped first by stop(), while the node still takes their last words.
  void add_consumer(std::weak_ptr<Stoppable> consumer);
  bool stop();

 private:
  struct Pending { std::shared_ptr<OnReply> on_reply; bool is_subscription = false; };
  void on_tell(CallId call, fulmar::Reply reply);
  void end_all_calls();

  const ClientOptions options_;
  const unsigned forks_;
  std::optional<Refusal> bad_option_;
  std::unique_ptr<net::UvDriver> driver_;
  std::thread loop_;
  Pool callbacks_, completions_;

  mutable std::mutex calls_mutex_;
  std::unordered_map<uint64_t, Pending> calls_;
  std::vector<std::weak_ptr<Stoppable>> consumers_;
  bool is_loop_gone_ = false;
  std::atomic<uint64_t> next_call_{1};

  std::mutex slots_mutex_;
  std::condition_variable slots_changed_;
  size_t requests_ = 0, bytes_ = 0;

  std::mutex stop_mutex_;
  std::atomic<bool> is_stopping_{false};
  bool is_stopped_ = false, has_drained_ = true;  // under stop_mutex_
};

}  // namespace fulmar::v1
