#include "cmd/fulmar/served_node.h"

#include <pthread.h>

namespace fulmar::cmd {

namespace {
constexpr size_t kAskedMax = 128;
}

ServedNode::ServedNode(std::string name, NodeKind kind, std::string config, Level least, std::string listening_event, std::string serving_event)
    : name_(std::move(name)),
      config_(std::move(config)),
      listening_event_(std::move(listening_event)),
      serving_event_(std::move(serving_event)),
      kind_(kind),
      log_(name_, least) {}

ServedNode::~ServedNode() {
  if (driver_ != nullptr && thread_.joinable()) {
    driver_->abandon();
    thread_.join();
  }
}

void ServedNode::start() {
  net::UvOptions options;
  options.name = name_;
  options.seed = net::random_seed();
  options.sink = this;
  options.on_tell = [this](CallId call, Reply reply) { on_tell(call, std::move(reply)); };
  driver_ = std::make_unique<net::UvDriver>(
      [this](Seed seed, Files& files, Trace& trace) {
        Result<std::unique_ptr<Node>> node = make_node(kind_, config_, seed, files, trace);
        if (!node) log_.say(Level::Error, node.error().text());
        return node ? std::move(*node) : nullptr;
      },
      std::move(options));
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), name_.substr(0, 15).c_str());   // for whoever looks which loop is busy
    net::Outcome outcome = driver_->run();
    {
      const std::lock_guard lock(mutex_);
      outcome_ = outcome;
      has_ended_ = true;
    }
    changed_.notify_all();
    if (on_end_) on_end_();
  });
  const std::lock_guard lock(mutex_);
  has_started_ = true;
}

bool ServedNode::wait_until_serving(int64_t limit_ms) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::milliseconds(limit_ms), [this] { return has_ended_ || (is_listening_ && is_serving_); });
  return is_listening_ && is_serving_ && !has_ended_;
}

uint16_t ServedNode::port() const {
  const std::lock_guard lock(mutex_);
  return port_;
}

bool ServedNode::has_ended() const {
  const std::lock_guard lock(mutex_);
  return has_ended_;
}

void ServedNode::request_stop(Duration deadline) { driver_->request_stop(CallId(UINT64_MAX), deadline); }

std::optional<Reply> ServedNode::ask(net::CommandMaker make, int64_t limit_ms) {
  std::unique_lock lock(mutex_);
  if (!has_started_ || has_ended_ || asked_.size() >= kAskedMax) return {};
  const uint64_t call = next_call_++;
  asked_[call];
  lock.unlock();
  const bool is_posted = driver_->post(CallId(call), std::move(make)).has_value();
  lock.lock();
  Asked& asked = asked_[call];
  if (is_posted) changed_.wait_for(lock, std::chrono::milliseconds(limit_ms), [&] { return asked.reply.has_value() || has_ended_; });
  std::optional<Reply> reply = std::move(asked.reply);
  if (reply || !is_posted || has_ended_) asked_.erase(call);
  else asked.is_given_up = true;
  return reply;
}

void ServedNode::on_tell(CallId call, Reply reply) {
  {
    const std::lock_guard lock(mutex_);
    counters_.driver = driver_->counters();
    const auto found = asked_.find(call.value());
    if (found == asked_.end()) return;   // the end of a stop
    if (found->second.is_given_up) asked_.erase(found);
    else found->second.reply = std::move(reply);
  }
  changed_.notify_all();
}

ServedNode::Counters ServedNode::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

net::Outcome ServedNode::join() {
  if (thread_.joinable()) thread_.join();
  return outcome_;
}

void ServedNode::on_event(const TraceRecord& record) {
  log_.on_event(record);
  const bool is_listening = listening_event_ == record.info->name;
  const bool is_serving = serving_event_ == record.info->name;
  const bool is_counted = record.info->level >= Level::Warning;
  if (!is_listening && !is_serving && !is_counted) return;
  {
    const std::lock_guard lock(mutex_);
    if (is_counted) ++counters_.events[{record.info->level, record.info->name}];
    if (is_listening) {
      is_listening_ = true;
      port_ = static_cast<uint16_t>(record.values[0]);
    }
    is_serving_ |= is_serving;
  }
  changed_.notify_all();
}

}  // namespace fulmar::cmd
