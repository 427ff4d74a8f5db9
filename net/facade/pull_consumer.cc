#include <algorithm>
#include <deque>
#include <map>
#include <thread>

#include "net/facade/convert.h"
#include "net/facade/engine.h"
#include "net/facade/subscription.h"

namespace fulmar::v1 {

using std::chrono::steady_clock;

namespace {

constexpr uint32_t kSuspendMs = 15'000;                       // how long a broker may hold a pull; polls come and go meanwhile
constexpr std::chrono::seconds kCommitInterval{1};

// The node believes for a second that a topic does not exist (client/routes.h), also of one that was made meanwhile.
fulmar::Reply ask_patiently(Engine& engine, const net::CommandMaker& make) {
  const SteadyTime deadline = steady_clock::now() + std::chrono::milliseconds(1500);
  for (;;) {
    fulmar::Reply reply = engine.call(make);
    const auto* refused = std::get_if<fulmar::Refusal>(&reply);
    if (refused == nullptr || refused->code != fulmar::Code::TopicNotExist || steady_clock::now() >= deadline) return reply;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

}  // namespace

// Subscribed queues are followed by the node (client/consumer.h): one batch of each is out at a time. Assigned ones are pulled from here:
// one pull of each is out at a time, its answer waits until a poll takes it.
class PullImpl : public Stoppable, public std::enable_shared_from_this<PullImpl> {
 public:
  PullImpl(std::shared_ptr<Engine> engine, PullOptions options) : engine_(std::move(engine)), options_(std::move(options)) {}

  Result<void> subscribe(const std::string& topic, const std::string& tags);
  Result<void> assign(const std::vector<Queue>& queues, const std::string& tags);
  Result<void> seek(const Queue& queue, int64_t offset);
  Result<std::vector<ReceivedMessage>> poll(std::chrono::milliseconds timeout);
  Result<void> commit();
  Result<QueueRange> range(const Queue& queue);
  Result<std::optional<int64_t>> committed(const Queue& queue);
  Result<void> stop() override;

 private:
  struct Assigned {
    int64_t position = 0;                     // next pull
    uint64_t pull = 0;                        // number of the one that is out; 0: none
    std::optional<fulmar::Reply> answer;
    SteadyTime not_before{};
    // Behind what polls have returned; what of it is consumed; what we know to be stored.
    std::optional<int64_t> returned, consumed, committed;
  };
  struct Returned { uint64_t subscription = 0; std::string broker; int32_t queue_id = 0; QueueOffset next; };
  using AssignedAt = std::map<Queue, Assigned>::iterator;

  Result<int64_t> start_of(const Queue& queue);
  void on_delivered(uint64_t subscription, fulmar::Reply reply);
  void start_pulls();                          // under mutex_
  void start_pull(const Queue& queue, Assigned& assigned);
  bool take_delivered(std::vector<ReceivedMessage>& out);
  bool take_answer(AssignedAt at, std::vector<ReceivedMessage>& out);
  bool take_any(std::vector<ReceivedMessage>& out);
  SteadyTime next_wake(SteadyTime deadline) const;
  void acknowledge_returned();                 // all of it is consumed
  Result<void> commit_assigned(bool waits);

  const std::shared_ptr<Engine> engine_;
  const PullOptions options_;
  std::mutex user_mutex_;                      // one caller at a time; taken before mutex_

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<uint64_t> subscriptions_;
  std::deque<std::pair<uint64_t, reply::Delivered>> delivered_;
  std::vector<Returned> unacknowledged_;
  std::map<Queue, Assigned> assigned_;
  Queue last_;                                 // whose turn it was
  std::string tags_;
  uint64_t next_pull_ = 1;
  SteadyTime committed_at_{};
  std::optional<Refusal> trouble_;             // the last, since this poll began
  bool is_stopped_ = false;
};

// --- which queues -----------------------------------------------------------------------------------------------------------------------

Result<void> PullImpl::subscribe(const std::string& topic, const std::string& tags) {
  const std::lock_guard user(user_mutex_);
  if (auto why = engine_->unusable()) return *why;
  if (auto bad = check_subscription(options_.group, topic, options_.batch_messages_max)) return *bad;
  const uint64_t id = engine_->new_call();
  {
    const std::lock_guard lock(mutex_);
    if (is_stopped_ || !assigned_.empty()) return refusal(Code::InvalidParameter, "this consumer is stopped, or has queues assigned", "");
    subscriptions_.push_back(id);
  }
  const auto on_reply = [weak = weak_from_this(), id](fulmar::Reply reply) {
    if (const auto self = weak.lock()) self->on_delivered(id, std::move(reply));
  };
  engine_->post_as(id, subscribe_command(options_.group, topic, tags, options_.from, options_.batch_messages_max), on_reply, true);
  return {};
}

void PullImpl::on_delivered(uint64_t subscription, fulmar::Reply reply) {
  const std::lock_guard lock(mutex_);
  if (auto* delivered = std::get_if<reply::Delivered>(&reply)) delivered_.emplace_back(subscription, std::move(*delivered));
  else if (std::holds_alternative<fulmar::Refusal>(reply)) trouble_ = refusal(reply);
  changed_.notify_all();
}

Result<void> PullImpl::assign(const std::vector<Queue>& queues, const std::string& tags) {
  const std::lock_guard user(user_mutex_);
  if (auto why = engine_->unusable()) return *why;
  std::map<Queue, Assigned> made;
  for (const Queue& queue : queues) {
    if (auto bad = check_subscription(options_.group, queue.topic, options_.batch_messages_max)) return *bad;
    const Result<int64_t> start = start_of(queue);
    if (!start) return start.refusal();
    made[queue].position = *start;
  }
  const std::lock_guard lock(mutex_);
  if (is_stopped_ || !subscriptions_.empty()) return refusal(Code::InvalidParameter, "this consumer is stopped, or has subscribed", "");
  assigned_ = std::move(made);
  tags_ = tags;
  return {};
}

Result<int64_t> PullImpl::start_of(const Queue& queue) {
  const Result<std::optional<int64_t>> stored = committed(queue);
  if (!stored) return stored.refusal();
  if (*stored) return **stored;
  const Result<QueueRange> there = range(queue);
  if (!there) return there.refusal();
  return options_.from == From::First ? there->min : there->max;
}

Result<QueueRange> PullImpl::range(const Queue& queue) {
  if (auto why = engine_->unusable()) return *why;
  auto owned = std::make_shared<const Queue>(queue);
  const fulmar::Reply reply = ask_patiently(*engine_, [owned] { return Command(command::QueryQueue{.topic = owned->topic, .queue_id = owned->id, .broker = owned->broker}); });
  if (const auto* there = std::get_if<reply::Queue>(&reply)) return QueueRange{there->min.value(), there->max.value()};
  return refusal(reply);
}

Result<std::optional<int64_t>> PullImpl::committed(const Queue& queue) {
  if (auto why = engine_->unusable()) return *why;
  auto owned = std::make_shared<const std::pair<Queue, std::string>>(queue, options_.group);
  const fulmar::Reply reply = ask_patiently(*engine_, [owned] {
    return Command(command::QueryOffset{.group = owned->second, .topic = owned->first.topic, .queue_id = owned->first.id, .broker = owned->first.broker});
  });
  if (const auto* stored = std::get_if<reply::Offset>(&reply)) return std::optional<int64_t>(stored->offset.value());
  const auto* refused = std::get_if<fulmar::Refusal>(&reply);
  if (refused != nullptr && refused->code == fulmar::Code::QueryNotFound) return std::optional<int64_t>();
  return refusal(reply);
}

Result<void> PullImpl::seek(const Queue& queue, int64_t offset) {
  const std::lock_guard user(user_mutex_);
  const std::lock_guard lock(mutex_);
  const auto at = assigned_.find(queue);
  if (at == assigned_.end()) return refusal(Code::InvalidParameter, "that queue is not assigned", fmt::format("{}/{}/{}", queue.broker, queue.topic, queue.id));
  if (offset < 0) return refusal(Code::InvalidParameter, "an offset is not negative", fmt::format("{}", offset));
  at->second.position = offset;
  at->second.pull = 0;  // what is out comes too late
  at->second.answer.reset();
  at->second.returned = at->second.consumed = offset;
  return {};
}

// --- polling ----------------------------------------------------------------------------------------------------------------------------

Result<std::vector<ReceivedMessage>> PullImpl::poll(std::chrono::milliseconds timeout) {
  const std::lock_guard user(user_mutex_);
  if (auto why = engine_->unusable()) return *why;
  if (options_.is_auto_commit) {
    acknowledge_returned();
    (void)commit_assigned(false);
  }
  const SteadyTime deadline = steady_clock::now() + timeout;
  std::vector<ReceivedMessage> out;
  std::unique_lock lock(mutex_);
  trouble_.reset();
  for (;;) {
    if (is_stopped_) return refusal(Code::ServiceNotAvailable, "this consumer is stopped", "");
    if (take_any(out)) return out;
    start_pulls();
    if (steady_clock::now() >= deadline) break;
    changed_.wait_until(lock, next_wake(deadline));
  }
  if (trouble_) return *trouble_;
  return out;
}

SteadyTime PullImpl::next_wake(SteadyTime deadline) const {
  for (const auto& [queue, assigned] : assigned_)
    if (assigned.pull == 0 && !assigned.answer) deadline = std::min(deadline, assigned.not_before);
  return deadline;
}

bool PullImpl::take_any(std::vector<ReceivedMessage>& out) {
  if (!delivered_.empty() && take_delivered(out)) return true;
  // In turn, from the one behind the last.
  auto at = assigned_.upper_bound(last_);
  for (size_t i = 0; i < assigned_.size(); ++i, ++at) {
    if (at == assigned_.end()) at = assigned_.begin();
    if (at->second.answer && take_answer(at, out)) {
      last_ = at->first;
      return true;
    }
  }
  return false;
}

bool PullImpl::take_delivered(std::vector<ReceivedMessage>& out) {
  auto [subscription, batch] = std::move(delivered_.front());
  delivered_.pop_front();
  std::string problem;
  out = received(batch.broker, batch.records, engine_->options().body_bytes_max, problem);
  QueueOffset next = batch.next;
  if (!problem.empty()) next = out.empty() ? batch.first : QueueOffset(out.back().queue_offset + 1);
  unacknowledged_.push_back({subscription, batch.broker, batch.queue_id, next});
  return !out.empty();
}

bool PullImpl::take_answer(AssignedAt at, std::vector<ReceivedMessage>& out) {
  Assigned& a = at->second;
  const fulmar::Reply reply = *std::exchange(a.answer, std::nullopt);
  const auto* pulled = std::get_if<reply::Pulled>(&reply);
  if (pulled == nullptr) {
    trouble_ = refusal(reply);
    a.not_before = steady_clock::now() + std::max(trouble_->retry_after, std::chrono::milliseconds(200));
    return false;
  }
  const bool has_moved = pulled->code == fulmar::Code::PullOffsetMoved;
  if (pulled->code == fulmar::Code::Success && pulled->count > 0) {
    std::string problem;
    out = received(at->first.broker, pulled->records, engine_->options().body_bytes_max, problem);
    a.position = problem.empty() ? pulled->next.value() : out.empty() ? a.position : out.back().queue_offset + 1;
    a.returned = a.position;
  } else if (has_moved || pulled->next.value() > a.position) {
    a.position = pulled->next.value();  // filtered away, or not there any more
    a.returned = a.position;
  } else {
    a.not_before = steady_clock::now() + std::chrono::milliseconds(20);
  }
  return !out.empty();
}

void PullImpl::start_pulls() {
  const SteadyTime now = steady_clock::now();
  for (auto& [queue, assigned] : assigned_)
    if (assigned.pull == 0 && !assigned.answer && assigned.not_before <= now) start_pull(queue, assigned);
}

// The lock is let go: an engine that is stopped answers at once, on this thread.
void PullImpl::start_pull(const Queue& queue, Assigned& assigned) {
  struct Texts { Queue queue; std::string group, tags; };
  auto owned = std::make_shared<const Texts>(Texts{queue, options_.group, tags_});
  const uint64_t number = assigned.pull = next_pull_++;
  const auto make = [owned, offset = assigned.position, count = options_.batch_messages_max] {
    return Command(command::PullMessages{.group = owned->group, .topic = owned->queue.topic, .queue_id = owned->queue.id, .offset = QueueOffset(offset),
                                         .count_max = count, .suspend_ms = kSuspendMs, .subscription = owned->tags, .broker = owned->queue.broker});
  };
  const auto on_reply = [weak = weak_from_this(), owned, number](fulmar::Reply reply) {
    const auto self = weak.lock();
    if (self == nullptr) return;
    const std::lock_guard lock(self->mutex_);
    const auto at = self->assigned_.find(owned->queue);
    if (at == self->assigned_.end() || at->second.pull != number) return;
    at->second.pull = 0;
    at->second.answer = std::move(reply);
    self->changed_.notify_all();
  };
  mutex_.unlock();
  engine_->post(make, on_reply);
  mutex_.lock();
}

// --- progress ---------------------------------------------------------------------------------------------------------------------------

void PullImpl::acknowledge_returned() {
  std::vector<Returned> done;
  {
    const std::lock_guard lock(mutex_);
    done.swap(unacknowledged_);
    for (auto& [queue, a] : assigned_) a.consumed = a.returned;
  }
  for (const Returned& each : done) {
    auto broker = std::make_shared<const std::string>(each.broker);
    engine_->post([each, broker] { return Command(command::Consumed{each.subscription, *broker, each.queue_id, each.next}); }, [](const fulmar::Reply&) {});
  }
}

Result<void> PullImpl::commit_assigned(bool waits) {
  struct Commit { Queue queue; std::string group; int64_t offset; };
  std::vector<std::shared_ptr<const Commit>> commits;
  {
    const std::lock_guard lock(mutex_);
    const SteadyTime now = steady_clock::now();
    if (!waits && now < committed_at_ + kCommitInterval) return {};
    committed_at_ = now;
    for (auto& [queue, a] : assigned_) {
      if (!a.consumed || a.consumed == a.committed) continue;
      commits.push_back(std::make_shared<const Commit>(Commit{queue, options_.group, *a.consumed}));
      a.committed = a.consumed;
    }
  }
  Result<void> outcome;
  for (const auto& c : commits) {
    const auto make = [c] { return Command(command::CommitOffset{.group = c->group, .topic = c->queue.topic, .queue_id = c->queue.id, .offset = QueueOffset(c->offset), .broker = c->queue.broker}); };
    // One that fails is made again with the next.
    const auto note = [weak = weak_from_this(), c](const fulmar::Reply& reply) {
      const auto self = weak.lock();
      if (self == nullptr || std::holds_alternative<reply::Ok>(reply)) return;
      const std::lock_guard lock(self->mutex_);
      if (const auto at = self->assigned_.find(c->queue); at != self->assigned_.end() && at->second.committed == c->offset) at->second.committed.reset();
    };
    if (!waits) {
      engine_->post(make, note);
      continue;
    }
    const fulmar::Reply reply = engine_->call(make);
    note(reply);
    if (!std::holds_alternative<reply::Ok>(reply)) outcome = refusal(reply);
  }
  return outcome;
}

Result<void> PullImpl::commit() {
  const std::lock_guard user(user_mutex_);
  if (auto why = engine_->unusable()) return *why;
  acknowledge_returned();
  return commit_assigned(true);
}

// What the last poll returned counts only if commit() said so.
Result<void> PullImpl::stop() {
  if (engine_->is_child()) return {};
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_stopped_, true)) return {};
    changed_.notify_all();
  }
  const std::lock_guard user(user_mutex_);  // whoever polls comes back now
  Result<void> outcome = commit_assigned(true);
  std::vector<uint64_t> subscriptions;
  {
    const std::lock_guard lock(mutex_);
    subscriptions.swap(subscriptions_);
    assigned_.clear();
    delivered_.clear();
  }
  for (const uint64_t id : subscriptions) {
    const auto reply = engine_->call_until([id] { return Command(command::Unsubscribe{id}); }, steady_clock::now() + std::chrono::seconds(4));
    engine_->forget(id);
    if (!reply) outcome = refusal(Code::ServiceNotAvailable, "the last commits did not end in time; what was not committed comes again", "");
    else if (!std::holds_alternative<reply::Ok>(*reply)) outcome = refusal(*reply);
  }
  return outcome;
}

PullConsumer::PullConsumer(Client& client, PullOptions options) : impl_(std::make_shared<PullImpl>(client.engine_, std::move(options))) {
  client.engine_->add_consumer(impl_);
}
PullConsumer::PullConsumer(PullConsumer&&) noexcept = default;
PullConsumer::~PullConsumer() {
  if (impl_ != nullptr) (void)impl_->stop();
}
Result<void> PullConsumer::subscribe(const std::string& topic, const std::string& tags) { return impl_->subscribe(topic, tags); }
Result<void> PullConsumer::assign(const std::vector<Queue>& queues, const std::string& tags) { return impl_->assign(queues, tags); }
Result<void> PullConsumer::seek(const Queue& queue, int64_t offset) { return impl_->seek(queue, offset); }
Result<void> PullConsumer::seek_to_begin(const Queue& queue) {
  const Result<QueueRange> there = impl_->range(queue);
  return there ? impl_->seek(queue, there->min) : Result<void>(there.refusal());
}
Result<void> PullConsumer::seek_to_end(const Queue& queue) {
  const Result<QueueRange> there = impl_->range(queue);
  return there ? impl_->seek(queue, there->max) : Result<void>(there.refusal());
}
Result<std::vector<ReceivedMessage>> PullConsumer::poll(std::chrono::milliseconds timeout) { return impl_->poll(timeout); }
Result<void> PullConsumer::commit() { return impl_->commit(); }
Result<QueueRange> PullConsumer::range(const Queue& queue) { return impl_->range(queue); }
Result<std::optional<int64_t>> PullConsumer::committed(const Queue& queue) { return impl_->committed(queue); }

}  // namespace fulmar::v1
