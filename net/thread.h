#pragma once
// Threads with small stacks, and the pools that do what may block. A pool starts a thread when work comes and none is idle, so that an
// idle node pays nothing for pools it never needed.

#include <pthread.h>
#include <signal.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace fulmar::net {

// A function called at most once in its life; unlike std::function it may own what cannot be copied.
template <class Signature> class Once;
template <class R, class... Args>
class Once<R(Args...)> {
 public:
  Once() = default;
  template <class F> requires(!std::is_same_v<std::decay_t<F>, Once>)
  Once(F&& f) : body_(std::make_unique<Holder<std::decay_t<F>>>(std::forward<F>(f))) {}  // NOLINT: a lambda is one
  R operator()(Args... args) { return body_->call(std::forward<Args>(args)...); }

 private:
  struct Body {
    virtual ~Body() = default;
    virtual R call(Args... args) = 0;
  };
  template <class F> struct Holder : Body {
    explicit Holder(F f) : function(std::move(f)) {}
    R call(Args... args) override { return function(std::forward<Args>(args)...); }
    F function;
  };
  std::unique_ptr<Body> body_;
};

inline constexpr size_t kPoolStackBytes = 256 * 1024;
inline constexpr size_t kNodeStackBytes = 2 * 1024 * 1024;

// Runs `body` on a thread of its own; the destructor joins.
class Thread {
 public:
  Thread(const std::string& name, size_t stack_bytes, std::function<void()> body);
  ~Thread() { join(); }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;
  void join();
  void send_signal(int number) { pthread_kill(thread_, number); }

 private:
  static void* enter(void* self);
  std::function<void()> body_;
  std::string name_;
  pthread_t thread_{};
  bool is_joined_ = false;
};

// First in, first started. The queue is bounded by what a node can have in flight: each job holds a ticket of it.
class WorkPool {
 public:
  using Work = Once<void(size_t worker)>;  // worker: [0, threads_max), never two at once with the same

  WorkPool(std::string name, size_t threads_max) : name_(std::move(name)), threads_max_(threads_max) {}
  ~WorkPool() { stop(); }
  void add(Work work);
  // Work not yet begun is dropped, work begun is finished.
  void stop();

 private:
  void serve(size_t worker);
  const std::string name_;
  const size_t threads_max_;
  std::mutex mutex_;
  std::condition_variable has_work_;
  std::deque<Work> queue_;
  size_t idle_ = 0;
  bool is_stopping_ = false;
  std::vector<std::unique_ptr<Thread>> threads_;  // touched by the loop thread only
};

}  // namespace fulmar::net
