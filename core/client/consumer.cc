#include "core/client/consumer.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/marks.h"
#include "core/client/consumer_events.h"
#include "core/model/message.h"

namespace fulmar {

Consumer::Consumer(uint8_t owner, Routes& routes, Rebalance& rebalance, Caller& caller, ConsumerLimits limits)
    : owner_(owner), routes_(routes), rebalance_(rebalance), caller_(caller), limits_(limits) {}

// ---------------------------------------------------------------------------------------------------------- the host's words

void Consumer::subscribe(Ctx& ctx, CallId call, const command::Subscribe& c) {
  const auto refuse = [&](Code code, std::string cause, std::string measured) {
    ctx.out.tell(call, Refusal{code, std::move(cause), std::move(measured), 0});
  };
  if (const Result<void> name = check_topic_name(c.topic); !name) return refuse(Code::InvalidParameter, name.error().detail, "topic");
  if (const Result<void> name = check_group_name(c.group); !name) return refuse(Code::InvalidParameter, name.error().detail, "group");
  if (c.count_max <= 0) return refuse(Code::InvalidParameter, "count_max must be positive", fmt::format("{}", c.count_max));
  if (c.queue_messages_max < 0 || c.messages_max <= 0 || c.queue_bytes_max == 0 || c.bytes_max == 0)
    return refuse(Code::InvalidParameter, "the limits of what may be out must be positive",
                  fmt::format("{} messages and {} bytes a queue, {} and {} in all", c.queue_messages_max, c.queue_bytes_max, c.messages_max, c.bytes_max));
  if (subscriptions_.size() >= limits_.subscriptions_max) {
    return refuse(Code::SystemBusy, "too many subscriptions in this client", fmt::format("at most {}", limits_.subscriptions_max));
  }
  if (subscriptions_.contains(call.value())) return;  // its words go on
  if (!rebalance_.join(ctx, c.group, c.topic, {std::string(c.subscription), c.model, c.from, c.from_time}))
    return refuse(Code::InvalidParameter, "this client consumes the topic in this group already, or the group by another model",
                  fmt::format("group '{}', topic '{}', {}", c.group, c.topic, to_string(c.model)));
  Subscription& made = subscriptions_[call.value()];
  made.serial = next_serial_++;
  made.call = call;
  made.group = c.group;
  made.topic = c.topic;
  made.expression = c.subscription;
  made.from = c.from;
  made.from_time = c.from_time;
  made.began = ctx.now.wall;
  made.model = c.model;
  made.count_max = c.count_max;
  made.queue_messages_max = c.queue_messages_max;
  made.queue_bytes_max = c.queue_bytes_max;
  made.messages_max = c.messages_max;
  made.bytes_max = c.bytes_max;
  for (const command::Subscribe::Position& position : c.positions) made.positions.emplace(Key(position.broker, position.queue_id), position.next);
  calls_.emplace(made.serial, call.value());
  reconcile(ctx, made);
}

void Consumer::consumed(Ctx& ctx, CallId call, const command::Consumed& c) {
  const auto refuse = [&](std::string cause) {
    const std::string measured = fmt::format("subscription {}, broker {}, queue {}, next {}", c.subscription_call, c.broker, c.queue_id, c.next);
    ctx.out.tell(call, Refusal{Code::InvalidParameter, std::move(cause), measured, 0});
  };
  const auto it = subscriptions_.find(c.subscription_call);
  if (it == subscriptions_.end()) return refuse("no such subscription");
  const auto found = it->second.queues.find(Key(std::string(c.broker), c.queue_id));
  if (found == it->second.queues.end() || found->second.out.empty()) return refuse("no batch of that queue is out");
  const At at{&it->second, &found->first, &found->second};
  Queue& queue = found->second;
  const auto batch = std::find_if(queue.out.begin(), queue.out.end(), [&c](const Batch& b) { return b.is_told && b.next == c.next; });
  const Batch& oldest = queue.out.front();
  if (batch == queue.out.end() && (c.next < oldest.first || c.next > oldest.next))
    return refuse("next neither ends a batch that is out nor lies inside the oldest");
  ctx.out.tell(call, reply::Ok{});
  if (batch != queue.out.end()) {
    take_batches(at, static_cast<size_t>(batch - queue.out.begin()) + 1);
  } else {
    drop_batches(at);
    queue.consumed = queue.position = c.next;
    if (queue.step == Step::Pulling) {
      ++queue.generation;   // it brings what lies behind the part that comes again
      queue.step = Step::Holding;
    }
  }
  commit_or_resolve(ctx, at);
  if (queue.step == Step::Holding) walk(ctx, at);
  feed_starved(ctx, it->second);
  finish_if_left(ctx, c.subscription_call);
}

void Consumer::take_batches(At at, size_t count) {
  Queue& queue = *at.queue;
  queue.consumed = queue.out[count - 1].next;
  if (queue.out.size() > count && MUTANT(ConsumerCommitsWhatIsOut)) queue.consumed = queue.out.back().next;
  while (count < queue.out.size() && !queue.out[count].is_told) queue.consumed = queue.out[count++].next;   // filtered away behind it
  for (size_t i = 0; i < count; ++i) {
    queue.messages_out -= queue.out[i].count, at.subscription->messages_out -= queue.out[i].count;
    queue.bytes_out -= queue.out[i].bytes, at.subscription->bytes_out -= queue.out[i].bytes;
  }
  queue.out.erase(queue.out.begin(), queue.out.begin() + static_cast<ptrdiff_t>(count));
}

void Consumer::drop_batches(At at) {
  at.subscription->messages_out -= std::exchange(at.queue->messages_out, 0);
  at.subscription->bytes_out -= std::exchange(at.queue->bytes_out, 0);
  at.queue->out.clear();
}

// A queue that finds no room in the whole subscription gets its turn when there is some.
bool Consumer::has_room(Subscription& s, Queue& queue) {
  const bool is_full = s.queue_messages_max == 0 ? !queue.out.empty() : queue.messages_out >= s.queue_messages_max || queue.bytes_out >= s.queue_bytes_max;
  if (is_full) return false;
  if (s.messages_out < s.messages_max && s.bytes_out < s.bytes_max) return true;
  SOMETIMES("client: a queue waits for room in the whole subscription", true);
  if (!std::exchange(queue.is_starved, true)) s.starved.push_back(queue.serial);
  return false;
}

void Consumer::feed_starved(Ctx& ctx, Subscription& s) {
  for (size_t left = s.starved.size(); left > 0 && s.messages_out < s.messages_max && s.bytes_out < s.bytes_max; --left) {
    const At at = this->at(s.starved.front());
    s.starved.pop_front();
    if (at.queue == nullptr || !std::exchange(at.queue->is_starved, false)) continue;
    if (at.queue->step == Step::Holding) walk(ctx, at);
  }
}

void Consumer::unsubscribe(Ctx& ctx, CallId call, const command::Unsubscribe& unsubscribe) {
  const auto it = subscriptions_.find(unsubscribe.subscription_call);
  if (it == subscriptions_.end() || it->second.is_leaving) {
    const std::string measured = fmt::format("subscription {}", unsubscribe.subscription_call);
    ctx.out.tell(call, Refusal{Code::SubscriptionNotExist, "no such subscription, or it is leaving already", measured, 0});
    return;
  }
  it->second.leaving_call = call;
  leave(ctx, it->second, ctx.now.monotonic + limits_.leave_timeout);
}

void Consumer::stop(Ctx& ctx, Monotonic deadline) {
  std::vector<uint64_t> calls;
  for (const auto& [call, subscription] : subscriptions_) calls.push_back(call);
  for (const uint64_t call : calls) leave(ctx, subscriptions_.at(call), deadline);
}

// ------------------------------------------------------------------------------------------------------------ which queues

void Consumer::on_route(Ctx& ctx, std::string_view topic) {
  for (auto& [call, subscription] : subscriptions_)
    if (subscription.topic == topic && !subscription.is_leaving) reconcile(ctx, subscription);
}

void Consumer::on_members(Ctx& ctx, std::string_view group) {
  for (auto& [call, subscription] : subscriptions_)
    if (subscription.group == group && !subscription.is_leaving) reconcile(ctx, subscription);
}

void Consumer::on_group_refused(Ctx& ctx, std::string_view group, const Refusal& why) {
  std::vector<uint64_t> calls;
  for (const auto& [call, subscription] : subscriptions_)
    if (subscription.group == group) calls.push_back(call);
  for (const uint64_t call : calls) {
    ctx.out.tell(CallId(call), why);
    end(ctx, call);
  }
}

void Consumer::reconcile(Ctx& ctx, Subscription& subscription) {
  const Routes::Found found = routes_.find(ctx, subscription.topic);
  if (found.knowledge != Routes::Knowledge::Known) {
    ctx.timers.set(TimerId(id(Kind::Subscription, subscription.serial)), ctx.now.monotonic + Duration::seconds(1));
    return;
  }
  const TopicRoute route = *found.route;  // walking asks for routes, too
  if (!subscription.first_queues) {
    subscription.first_queues.emplace();
    for (const TopicRoute::Broker& broker : route.brokers) subscription.first_queues->emplace(broker.name, broker.read_queues);
  }
  const std::optional<Rebalance::Share> share = rebalance_.share(subscription.group, subscription.topic, route);
  if (share) take_queues(ctx, subscription, route, *share);
}

// Queues that the route does not list are kept: their broker may be away.
void Consumer::take_queues(Ctx& ctx, Subscription& subscription, const TopicRoute& route, const Rebalance::Share& share) {
  std::vector<uint64_t> lost;
  for (const auto& [key, queue] : subscription.queues) {
    const TopicRoute::Broker* broker = route.find(key.first);
    const bool is_listed = broker != nullptr && key.second < broker->read_queues;
    if (is_listed && !queue.is_revoked && !std::binary_search(share.queues.begin(), share.queues.end(), key)) lost.push_back(queue.serial);
  }
  for (const uint64_t serial : lost)
    if (!MUTANT(ConsumerKeepsRevokedQueues)) revoke(ctx, at(serial));
  for (const Key& key : share.queues) {
    if (subscription.queues.contains(key)) continue;   // or about to be gone: then we come by again
    if (places_.size() >= limits_.queues_max) break;
    SOMETIMES("client: queue found after the start", !subscription.queues.empty() && key.second == 0);
    if (MUTANT(ConsumerKeepsItsFirstBroker) && !subscription.queues.empty() && subscription.queues.begin()->first.first != key.first) continue;
    add_queue(ctx, subscription, key, share.is_alone);
  }
  tell_assigned(ctx, subscription, share);
}

void Consumer::add_queue(Ctx& ctx, Subscription& subscription, const Key& key, bool is_alone) {
  const auto made = subscription.queues.emplace(key, Queue{}).first;
  Queue& queue = made->second;
  queue.serial = next_serial_++;
  places_.emplace(queue.serial, Place{subscription.call.value(), key});
  const auto first = subscription.first_queues->find(key.first);
  queue.is_on_new_broker = first == subscription.first_queues->end();
  queue.is_new = !queue.is_on_new_broker && key.second >= first->second;
  const At at{&subscription, &made->first, &queue};
  const bool may_be_committed = subscription.is_told && !is_alone && subscription.model == GroupModel::Clustering;
  queue.is_taken_over = may_be_committed;
  if (!may_be_committed) return walk(ctx, at);
  pull_later(ctx, at, ctx.now.monotonic + limits_.start_delay);
}

void Consumer::revoke(Ctx& ctx, At at) {
  Queue& queue = *at.queue;
  SOMETIMES("client: a queue is given up while batches are out", !queue.out.empty());
  ctx.trace.note(QueueRevoked{at.subscription->call.value(), at.key->second, queue.out.size(), at.key->first});
  ctx.timers.cancel(TimerId(id(Kind::Walk, queue.serial)));
  ++queue.generation;  // whatever is out comes too late
  drop_batches(at);    // they come again, to whoever owns it now
  queue.step = Step::Left;
  queue.is_revoked = true;
  queue.leave_by = ctx.now.monotonic + limits_.leave_timeout;
  queue.commit_not_before = ctx.now.monotonic;
  ctx.timers.set(TimerId(id(Kind::Leave, queue.serial)), queue.leave_by);
  commit_or_resolve(ctx, at);
  forget_if_settled(ctx, queue.serial);
}

void Consumer::tell_assigned(Ctx& ctx, Subscription& subscription, const Rebalance::Share& share) {
  reply::Assigned now;
  now.conflict = share.conflict;
  for (const auto& [key, queue] : subscription.queues)
    if (!queue.is_revoked) now.queues.push_back(key);
  const bool is_same = subscription.is_told && now.queues == subscription.told.queues && now.conflict == subscription.told.conflict;
  subscription.is_told = true;
  now.generation = share.generation;
  if (is_same) return;
  subscription.told = now;
  ctx.trace.note(QueuesAssigned{subscription.call.value(), now.queues.size(), now.generation, subscription.group});
  ctx.out.tell(subscription.call, std::move(now));
}

Consumer::At Consumer::at(uint64_t serial) {
  const auto place = places_.find(serial);
  if (place == places_.end()) return {};
  Subscription& subscription = subscriptions_.at(place->second.call);
  const auto queue = subscription.queues.find(place->second.key);
  return {&subscription, &queue->first, &queue->second};
}

// --------------------------------------------------------------------------------------------------------------- leaving

void Consumer::leave(Ctx& ctx, Subscription& subscription, Monotonic deadline) {
  if (subscription.is_leaving && deadline >= subscription.leave_by) return;
  const bool is_first = !std::exchange(subscription.is_leaving, true);
  subscription.leave_by = deadline;
  ctx.timers.set(TimerId(id(Kind::Subscription, subscription.serial)), deadline);
  if (!is_first) return;
  for (auto& [key, queue] : subscription.queues) {
    ctx.timers.cancel(TimerId(id(Kind::Walk, queue.serial)));
    ++queue.generation;  // whatever is out comes too late
    const At at{&subscription, &key, &queue};
    queue.step = Step::Left;
    queue.commit_not_before = ctx.now.monotonic;
    commit_or_resolve(ctx, at);
  }
  finish_if_left(ctx, subscription.call.value());
}

void Consumer::finish_if_left(Ctx& ctx, uint64_t call) {
  const auto it = subscriptions_.find(call);
  if (it == subscriptions_.end() || !it->second.is_leaving) return;
  for (const auto& [key, queue] : it->second.queues)
    if (queue.wants_commit() || queue.committing) return;
  end(ctx, call);
}

// A queue that was given up and is committed, or could not be in time.
void Consumer::forget_queue(Ctx& ctx, At at) {
  Subscription& subscription = *at.subscription;
  for (const Kind kind : {Kind::Walk, Kind::Commit, Kind::Leave}) ctx.timers.cancel(TimerId(id(kind, at.queue->serial)));
  SOMETIMES("client: a queue is given up without its last commit", at.queue->wants_commit());
  places_.erase(at.queue->serial);
  const Key key = *at.key;
  subscription.queues.erase(key);
  // It may be ours again by now.
  if (!subscription.is_leaving) ctx.timers.set(TimerId(id(Kind::Subscription, subscription.serial)), ctx.now.monotonic);
}

void Consumer::end(Ctx& ctx, uint64_t call) {
  const auto it = subscriptions_.find(call);
  size_t uncommitted = 0;
  for (const auto& [key, queue] : it->second.queues) {
    uncommitted += queue.wants_commit() ? 1 : 0;
    for (const Kind kind : {Kind::Walk, Kind::Commit, Kind::Leave}) ctx.timers.cancel(TimerId(id(kind, queue.serial)));
    places_.erase(queue.serial);
  }
  ctx.timers.cancel(TimerId(id(Kind::Subscription, it->second.serial)));
  if (it->second.leaving_call && uncommitted == 0) ctx.out.tell(*it->second.leaving_call, reply::Ok{});
  else if (it->second.leaving_call)
    ctx.out.tell(*it->second.leaving_call, Refusal{Code::ServiceNotAvailable, "the last commits did not succeed in time; what was not committed comes again",
                                                   fmt::format("{} of {} queues uncommitted", uncommitted, it->second.queues.size()), 0});
  rebalance_.leave(ctx, it->second.group, it->second.topic);   // behind the last commits, so that who takes over finds them
  calls_.erase(it->second.serial);
  subscriptions_.erase(it);
}

}  // namespace fulmar
