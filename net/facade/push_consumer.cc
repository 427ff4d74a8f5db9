#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "net/facade/convert.h"
#include "net/facade/engine.h"
#include "net/facade/subscription.h"

namespace fulmar::v1 {

using std::chrono::steady_clock;

// One batch of a queue is out at a time (client/consumer.h). Its messages go to the listeners in any order; when all of them succeeded the
// batch is consumed, which commits it and fetches the next one. A message that is to come again waits in `later_`.
class PushImpl : public Stoppable, public std::enable_shared_from_this<PushImpl> {
 public:
  PushImpl(std::shared_ptr<Engine> engine, PushOptions options, PushConsumer::Listener listener)
      : engine_(std::move(engine)), options_(std::move(options)), listener_(std::move(listener)) {}

  Result<void> subscribe(const std::string& topic, const std::string& tags);
  Result<void> stop() override;

 private:
  struct Batch {
    uint64_t subscription = 0;
    std::string broker;
    int32_t queue_id = 0;
    QueueOffset next;                        // behind the whole batch
    std::vector<ReceivedMessage> messages;
    std::vector<bool> is_done;
    size_t open = 0, bytes = 0;
    bool is_lost = false;                    // another member has the queue now
    QueueOffset consumed() const;            // behind the last message before which all are done
  };
  using BatchPtr = std::shared_ptr<Batch>;
  struct Work { BatchPtr batch; size_t index = 0; };

  void on_reply(const std::string& topic, uint64_t subscription, fulmar::Reply reply);
  void take(uint64_t subscription, reply::Delivered delivered);
  void drop_lost(uint64_t subscription, const reply::Assigned& assigned);
  void serve();
  bool next_work(std::unique_lock<std::mutex>& lock, Work& work);
  void finish(const Work& work, ConsumeResult result);
  void acknowledge(const Batch& batch, QueueOffset next);
  std::vector<BatchPtr> take_withheld();     // under mutex_
  bool wait_for_listeners(SteadyTime deadline);

  const std::shared_ptr<Engine> engine_;
  const PushOptions options_;
  const PushConsumer::Listener listener_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<uint64_t> subscriptions_;
  std::set<BatchPtr> batches_;
  std::deque<Work> ready_;
  std::multimap<SteadyTime, Work> later_;
  std::deque<BatchPtr> withheld_;            // done, and not yet acknowledged since too much is cached
  size_t cached_bytes_ = 0, threads_ = 0, idle_ = 0, running_ = 0;
  bool is_stopping_ = false, is_stopped_ = false;
};

QueueOffset PushImpl::Batch::consumed() const {
  for (size_t i = 0; i < messages.size(); ++i)
    if (!is_done[i]) return QueueOffset(messages[i].queue_offset);
  return next;
}

Result<void> PushImpl::subscribe(const std::string& topic, const std::string& tags) {
  if (auto why = engine_->unusable()) return *why;
  if (auto bad = check_subscription(options_.group, topic, options_.batch_messages_max)) return *bad;
  const uint64_t id = engine_->new_call();
  {
    const std::lock_guard lock(mutex_);
    if (is_stopping_) return refusal(Code::ServiceNotAvailable, "this consumer is stopped", "");
    subscriptions_.insert(id);
  }
  const auto on_reply = [weak = weak_from_this(), topic, id](fulmar::Reply reply) {
    if (const auto self = weak.lock()) self->on_reply(topic, id, std::move(reply));
  };
  engine_->post_as(id, subscribe_command(options_.group, topic, tags, options_.from, options_.batch_messages_max), on_reply, true);
  return {};
}

void PushImpl::on_reply(const std::string& topic, uint64_t subscription, fulmar::Reply reply) {
  if (auto* delivered = std::get_if<reply::Delivered>(&reply)) return take(subscription, std::move(*delivered));
  if (const auto* assigned = std::get_if<reply::Assigned>(&reply)) return drop_lost(subscription, *assigned);
  if (!std::holds_alternative<fulmar::Refusal>(reply)) return;
  {
    const std::lock_guard lock(mutex_);
    subscriptions_.erase(subscription);
  }
  engine_->forget(subscription);
  if (!options_.on_refused) return;
  engine_->run_on_pool([on_refused = options_.on_refused, topic, why = refusal(reply)] { on_refused(topic, why); });
}

void PushImpl::take(uint64_t subscription, reply::Delivered delivered) {
  auto batch = std::make_shared<Batch>();
  std::string problem;
  batch->messages = received(delivered.broker, delivered.records, engine_->options().body_bytes_max, problem);
  batch->broker = std::move(delivered.broker);
  batch->queue_id = delivered.queue_id;
  // What does not parse comes again. Brokers compare checksums before they serve, so this was the network.
  batch->next = problem.empty() ? delivered.next : batch->messages.empty() ? delivered.first : QueueOffset(batch->messages.back().queue_offset) + EntryCount(1);
  batch->is_done.assign(batch->messages.size(), false);
  batch->open = batch->messages.size();
  for (const ReceivedMessage& m : batch->messages) batch->bytes += m.body.size();
  size_t new_threads = 0;
  {
    const std::lock_guard lock(mutex_);
    batch->subscription = subscription;
    if (is_stopping_) return;
    batches_.insert(batch);
    cached_bytes_ += batch->bytes;
    for (size_t i = 0; i < batch->messages.size(); ++i) ready_.push_back({batch, i});
    const size_t wanted = ready_.size() > idle_ ? ready_.size() - idle_ : 0;
    new_threads = std::min(wanted, std::max<size_t>(options_.threads, 1) - threads_);
    threads_ += new_threads;
    if (batch->messages.empty()) withheld_.push_back(batch);
  }
  changed_.notify_all();
  for (size_t i = 0; i < new_threads; ++i) start_thread("fulmar-listener", [self = shared_from_this()] { self->serve(); });
  if (batch->messages.empty()) finish({batch, 0}, ConsumeResult::Success);
}

// Messages of a queue that went to another member come to that one; listeners that have begun go on.
void PushImpl::drop_lost(uint64_t subscription, const reply::Assigned& assigned) {
  const std::lock_guard lock(mutex_);
  std::erase_if(batches_, [&](const BatchPtr& batch) {
    if (batch->subscription != subscription) return false;
    const std::pair<std::string, int32_t> queue(batch->broker, batch->queue_id);
    batch->is_lost = std::find(assigned.queues.begin(), assigned.queues.end(), queue) == assigned.queues.end();
    if (batch->is_lost && batch->open > 0) cached_bytes_ -= batch->bytes;
    return batch->is_lost;
  });
  std::erase_if(ready_, [](const Work& work) { return work.batch->is_lost; });
  std::erase_if(later_, [](const auto& entry) { return entry.second.batch->is_lost; });
  std::erase_if(withheld_, [](const BatchPtr& batch) { return batch->is_lost; });
}

bool PushImpl::next_work(std::unique_lock<std::mutex>& lock, Work& work) {
  while (!is_stopping_) {
    const SteadyTime now = steady_clock::now();
    if (!later_.empty() && later_.begin()->first <= now) {
      work = std::move(later_.extract(later_.begin()).mapped());
      return true;
    }
    if (!ready_.empty()) {
      work = std::move(ready_.front());
      ready_.pop_front();
      return true;
    }
    ++idle_;
    if (later_.empty()) changed_.wait(lock);
    else changed_.wait_until(lock, SteadyTime(later_.begin()->first));
    --idle_;
  }
  return false;
}

void PushImpl::serve() {
  std::unique_lock lock(mutex_);
  Work work;
  while (next_work(lock, work)) {
    ++running_;
    lock.unlock();
    ConsumeResult result = ConsumeResult::Later;
    try {
      result = listener_(work.batch->messages[work.index]);
    } catch (...) {  // counts as Later
    }
    finish(work, result);
    lock.lock();
    --running_;
    changed_.notify_all();
  }
  --threads_;
  changed_.notify_all();
}

void PushImpl::finish(const Work& work, ConsumeResult result) {
  Batch& batch = *work.batch;
  std::vector<BatchPtr> done;
  {
    const std::lock_guard lock(mutex_);
    if (batch.is_lost) return;
    if (!batch.messages.empty() && result == ConsumeResult::Later) {
      ++batch.messages[work.index].reconsume_times;
      later_.emplace(steady_clock::now() + options_.retry_delay, work);
      changed_.notify_all();
      return;
    }
    if (!batch.messages.empty()) {
      batch.is_done[work.index] = true;
      if (--batch.open > 0) return;
      withheld_.push_back(work.batch);
    }
    if (is_stopping_) return;  // stop() acknowledges
    cached_bytes_ -= batch.bytes;
    done = take_withheld();
  }
  for (const BatchPtr& each : done) acknowledge(*each, each->next);
}

// Acknowledging fetches more: the first may always, so that nothing stands still.
std::vector<PushImpl::BatchPtr> PushImpl::take_withheld() {
  std::vector<BatchPtr> out;
  if (cached_bytes_ > options_.cached_bytes_max && batches_.size() > withheld_.size()) return out;
  for (BatchPtr& batch : withheld_) {
    batches_.erase(batch);
    out.push_back(std::move(batch));
  }
  withheld_.clear();
  return out;
}

void PushImpl::acknowledge(const Batch& batch, QueueOffset next) {
  auto broker = std::make_shared<const std::string>(batch.broker);
  engine_->post([subscription = batch.subscription, broker, queue = batch.queue_id, next] { return Command(command::Consumed{subscription, *broker, queue, next}); },
                [](const fulmar::Reply&) {});
}

bool PushImpl::wait_for_listeners(SteadyTime deadline) {
  std::unique_lock lock(mutex_);
  is_stopping_ = true;
  changed_.notify_all();
  return changed_.wait_until(lock, deadline, [this] { return threads_ == 0; });
}

Result<void> PushImpl::stop() {
  if (engine_->is_child()) return {};
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_stopped_, true)) return {};
  }
  const SteadyTime deadline = steady_clock::now() + options_.stop_timeout;
  const bool is_quiet = wait_for_listeners(deadline);
  std::set<BatchPtr> batches;
  std::set<uint64_t> subscriptions;
  std::vector<std::pair<BatchPtr, QueueOffset>> consumed;
  {
    const std::lock_guard lock(mutex_);
    batches.swap(batches_);
    subscriptions.swap(subscriptions_);
    for (const BatchPtr& batch : batches) consumed.emplace_back(batch, batch->consumed());
  }
  for (const auto& [batch, next] : consumed) acknowledge(*batch, next);
  std::optional<Refusal> failed;
  for (const uint64_t id : subscriptions) {
    // The last commits have a time-out of their own in the node.
    const SteadyTime by = std::max(deadline, steady_clock::now() + std::chrono::milliseconds(500));
    const std::optional<fulmar::Reply> reply = engine_->call_until([id] { return Command(command::Unsubscribe{id}); }, by);
    engine_->forget(id);
    if (!reply) failed = refusal(Code::ServiceNotAvailable, "the last commits did not end in time; what was not committed comes again", "");
    else if (!std::holds_alternative<reply::Ok>(*reply) && !engine_->unusable()) failed = refusal(*reply);
  }
  if (!is_quiet) return refusal(Code::ServiceNotAvailable, "a listener did not come back in time", "");
  if (failed) return *failed;
  return {};
}

PushConsumer::PushConsumer(Client& client, PushOptions options, Listener listener)
    : impl_(std::make_shared<PushImpl>(client.engine_, std::move(options), std::move(listener))) {
  client.engine_->add_consumer(impl_);
}
PushConsumer::PushConsumer(PushConsumer&&) noexcept = default;
PushConsumer::~PushConsumer() {
  if (impl_ != nullptr) (void)impl_->stop();
}
Result<void> PushConsumer::subscribe(const std::string& topic, const std::string& tags) { return impl_->subscribe(topic, tags); }
Result<void> PushConsumer::stop() { return impl_->stop(); }

}  // namespace fulmar::v1
