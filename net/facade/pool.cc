#include "net/facade/pool.h"

#include <pthread.h>

#include <thread>
#include <utility>

namespace fulmar::v1 {
namespace {

thread_local bool is_pool_thread = false;

}  // namespace

void start_thread(const std::string& name, std::function<void()> body) {
  std::thread([name = name.substr(0, 15), body = std::move(body)] {
    pthread_setname_np(pthread_self(), name.c_str());
    body();
  }).detach();
}

Pool::Pool(std::string name, size_t threads_max) : name_(std::move(name)), threads_max_(threads_max == 0 ? 1 : threads_max) {}

bool Pool::is_inside() { return is_pool_thread; }

void Pool::add(Work work) {
  bool needs_thread = false;
  {
    const std::lock_guard lock(state_->mutex);
    state_->queue.push_back(std::move(work));
    needs_thread = state_->idle < state_->queue.size() && state_->threads < threads_max_;
    if (needs_thread) ++state_->threads;
    state_->has_work.notify_one();
  }
  if (needs_thread) start_thread(name_, [state = state_] { serve(state); });
}

void Pool::serve(const std::shared_ptr<State>& state) {
  is_pool_thread = true;
  std::unique_lock lock(state->mutex);
  while (true) {
    ++state->idle;
    state->has_work.wait(lock, [&] { return state->is_stopping || !state->queue.empty(); });
    --state->idle;
    if (state->queue.empty()) break;
    Work work = std::move(state->queue.front());
    state->queue.pop_front();
    lock.unlock();
    work();
    work = {};  // what it owns goes before we look for more
    lock.lock();
  }
  --state->threads;
  state->is_done.notify_all();
}

bool Pool::stop(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(state_->mutex);
  state_->is_stopping = true;
  state_->has_work.notify_all();
  return state_->is_done.wait_until(lock, deadline, [&] { return state_->threads == 0 && state_->queue.empty(); });
}

}  // namespace fulmar::v1
