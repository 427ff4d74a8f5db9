#include "net/thread.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace fulmar::net {

Thread::Thread(const std::string& name, size_t stack_bytes, std::function<void()> body)
    : body_(std::move(body)), name_(name.substr(0, 15)) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack_bytes);
  const int failed = pthread_create(&thread_, &attributes, &Thread::enter, this);
  pthread_attr_destroy(&attributes);
  if (failed == 0) return;
  // Nothing that is stored depends on an orderly end: the next start recovers.
  std::fprintf(stderr, "fulmar: cannot start thread %s: %s; raise the limits of processes (ulimit -u, TasksMax) and memory (ulimit -v)\n", name_.c_str(), std::strerror(failed));
  std::_Exit(1);
}

void* Thread::enter(void* self) {
  auto* thread = static_cast<Thread*>(self);
  pthread_setname_np(pthread_self(), thread->name_.c_str());
  thread->body_();
  return nullptr;
}

void Thread::join() {
  if (std::exchange(is_joined_, true)) return;
  pthread_join(thread_, nullptr);
}

void WorkPool::add(Work work) {
  bool needs_thread = false;
  {
    const std::lock_guard lock(mutex_);
    if (is_stopping_) return;
    queue_.push_back(std::move(work));
    needs_thread = idle_ < queue_.size() && threads_.size() < threads_max_;
  }
  has_work_.notify_one();
  if (!needs_thread) return;
  const size_t worker = threads_.size();
  threads_.push_back(std::make_unique<Thread>(name_, kPoolStackBytes, [this, worker] { serve(worker); }));
}

void WorkPool::serve(size_t worker) {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    has_work_.wait(lock, [this] { return is_stopping_ || !queue_.empty(); });
    --idle_;
    if (is_stopping_) return;
    Work work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work(worker);
    work = {};  // what it owns goes before we look for more
    lock.lock();
  }
}

void WorkPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    queue_.clear();
  }
  has_work_.notify_all();
  threads_.clear();
}

}  // namespace fulmar::net
