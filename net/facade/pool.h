#pragma once
// Threads for what users wrote. Unlike net::WorkPool it may be left behind: a callback that does not come back keeps its thread and the
// pool's state alive, and nobody else waits for it.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "net/thread.h"

namespace fulmar::v1 {

class Pool {
 public:
  using Work = net::Once<void()>;

  Pool(std::string name, size_t threads_max);
  ~Pool() { (void)stop(std::chrono::steady_clock::now()); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // The queue's bound is its user's: each work holds a slot of the engine.
  void add(Work work);
  // Runs what waits and ends the threads. False: something did not come back by the deadline; it is left alone.
  bool stop(std::chrono::steady_clock::time_point deadline);
  // On a thread of any pool.
  static bool is_inside();

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable has_work, is_done;
    std::deque<Work> queue;
    size_t idle = 0, threads = 0;
    bool is_stopping = false;
  };
  static void serve(const std::shared_ptr<State>& state);
  const std::string name_;
  const size_t threads_max_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// A detached thread with a name.
void start_thread(const std::string& name, std::function<void()> body);

}  // namespace fulmar::v1
