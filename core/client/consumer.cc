#include "core/client/consumer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/base/marks.h"
#include "core/model/message.h"

namespace fulmar {
namespace {

struct QueueStarted {
  FULMAR_EVENT(QueueStarted, Debug, "subscription {} follows queue {} from {} on {}");
  uint64_t subscription;
  int32_t queue_id;
  QueueOffset from;
  std::string_view broker;
  auto values() const { return std::array{subscription, static_cast<uint64_t>(queue_id), static_cast<uint64_t>(from.value())}; }
  std::string_view text() const { return broker; }
};
struct QueueMoved {
  FULMAR_EVENT(QueueMoved, Warning, "subscription {}: queue {} moved from {} to {} on {}");
  uint64_t subscription;
  int32_t queue_id;
  QueueOffset from, to;
  std::string_view broker;
  auto values() const {
    return std::array{subscription, static_cast<uint64_t>(queue_id), static_cast<uint64_t>(from.value()), static_cast<uint64_t>(to.value())};
  }
  std::string_view text() const { return broker; }
};
struct QueueFailed {
  FULMAR_EVENT(QueueFailed, Info, "subscription {}: queue {} failed {} times in a row: {}");
  uint64_t subscription;
  int32_t queue_id;
  uint32_t failures;
  std::string_view what;
  auto values() const { return std::array{subscription, static_cast<uint64_t>(queue_id), uint64_t{failures}}; }
  std::string_view text() const { return what; }
};

std::string problem_of(const Result<Reply>& reply) {
  if (!reply) return std::string(to_string(reply.code()));
  if (const auto* refusal = std::get_if<Refusal>(&*reply)) return fmt::format("{} ({})", to_string(refusal->code), refusal->cause);
  return "answered something else than was asked";
}

}  // namespace

Consumer::Consumer(uint8_t owner, Routes& routes, Caller& caller, ConsumerLimits limits)
    : owner_(owner), routes_(routes), caller_(caller), limits_(limits) {}

// ---------------------------------------------------------------------------------------------------------- the host's words

void Consumer::subscribe(Ctx& ctx, CallId call, const command::Subscribe& subscribe) {
  const auto refuse = [&](Code code, std::string cause, std::string measured) {
    ctx.out.tell(call, Refusal{code, std::move(cause), std::move(measured), 0});
  };
  if (const Result<void> name = check_topic_name(subscribe.topic); !name) return refuse(Code::InvalidParameter, name.error().detail, "topic");
  if (const Result<void> name = check_group_name(subscribe.group); !name) return refuse(Code::InvalidParameter, name.error().detail, "group");
  if (subscribe.count_max <= 0) return refuse(Code::InvalidParameter, "count_max must be positive", fmt::format("{}", subscribe.count_max));
  if (subscriptions_.size() >= limits_.subscriptions_max) {
    return refuse(Code::SystemBusy, "too many subscriptions in this client", fmt::format("at most {}", limits_.subscriptions_max));
  }
  if (subscriptions_.contains(call.value())) return;  // its words go on
  Subscription& made = subscriptions_[call.value()];
  made.serial = next_serial_++;
  made.call = call;
  made.group = subscribe.group;
  made.topic = subscribe.topic;
  made.expression = subscribe.subscription;
  made.from = subscribe.from;
  made.count_max = subscribe.count_max;
  calls_.emplace(made.serial, call.value());
  reconcile(ctx, made);
}

void Consumer::consumed(Ctx& ctx, CallId call, const command::Consumed& consumed) {
  const auto refuse = [&](std::string cause) {
    const std::string measured = fmt::format("subscription {}, broker {}, queue {}, next {}", consumed.subscription_call, consumed.broker,
                                             consumed.queue_id, consumed.next);
    ctx.out.tell(call, Refusal{Code::InvalidParameter, std::move(cause), measured, 0});
  };
  const auto it = subscriptions_.find(consumed.subscription_call);
  if (it == subscriptions_.end()) return refuse("no such subscription");
  const auto found = it->second.queues.find(Key(std::string(consumed.broker), consumed.queue_id));
  if (found == it->second.queues.end() || !found->second.held) return refuse("no batch of that queue is out");
  Queue& queue = found->second;
  if (consumed.next < queue.held->first || consumed.next > queue.held->next) return refuse("next is not inside the batch that is out");
  ctx.out.tell(call, reply::Ok{});
  queue.position = consumed.next;
  queue.consumed = consumed.next;
  queue.held.reset();
  const At at{&it->second, &found->first, &queue};
  commit_or_resolve(ctx, at);
  if (queue.step == Step::Holding) walk(ctx, at);
  else finish_if_left(ctx, it->second);
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

// Queues are added, never dropped: one that the route does not list any more may belong to a broker that is away.
void Consumer::reconcile(Ctx& ctx, Subscription& subscription) {
  const Routes::Found found = routes_.find(ctx, subscription.topic);
  if (found.knowledge != Routes::Knowledge::Known) {
    ctx.timers.set(TimerId(id(Kind::Subscription, subscription.serial)), ctx.now.monotonic + Duration::seconds(1));
    return;
  }
  const TopicRoute route = *found.route;  // walking asks for routes, too
  for (const TopicRoute::Broker& broker : route.brokers) {
    for (int32_t queue_id = 0; queue_id < broker.read_queues; ++queue_id) {
      Key key(broker.name, queue_id);
      if (subscription.queues.contains(key)) continue;
      if (places_.size() >= limits_.queues_max) return;
      SOMETIMES("client: queue found after the start", !subscription.queues.empty() && queue_id == 0);
      if (MUTANT(ConsumerKeepsItsFirstBroker) && !subscription.queues.empty() && subscription.queues.begin()->first.first != broker.name) continue;
      const auto made = subscription.queues.emplace(key, Queue{}).first;
      made->second.serial = next_serial_++;
      places_.emplace(made->second.serial, Place{subscription.call.value(), std::move(key)});
      walk(ctx, At{&subscription, &made->first, &made->second});
    }
  }
}

Consumer::At Consumer::at(uint64_t serial) {
  const auto place = places_.find(serial);
  if (place == places_.end()) return {};
  Subscription& subscription = subscriptions_.at(place->second.call);
  const auto queue = subscription.queues.find(place->second.key);
  return {&subscription, &queue->first, &queue->second};
}

// -------------------------------------------------------------------------------------------------------------- the walk

void Consumer::walk(Ctx& ctx, At at) {
  const Subscription& s = *at.subscription;
  Queue& queue = *at.queue;
  const auto& [broker, queue_id] = *at.key;
  if (!queue.has_position || queue.is_in_doubt) {
    return call_or_back_off(ctx, at, Step::FindingOffset, command::QueryOffset{.group = s.group, .topic = s.topic, .queue_id = queue_id, .broker = {}},
                            limits_.call_timeout);
  }
  if (s.is_leaving) {
    queue.step = Step::Left;
    return;
  }
  queue.pulled_at = ctx.now.monotonic;
  const command::PullMessages pull{.group = s.group, .topic = s.topic, .queue_id = queue_id, .offset = queue.position, .count_max = s.count_max,
                                   .suspend_ms = limits_.suspend_ms, .subscription = s.expression, .broker = {}};
  call_or_back_off(ctx, at, Step::Pulling, pull, limits_.call_timeout + Duration::milliseconds(limits_.suspend_ms), limits_.patience);
}

void Consumer::call_or_back_off(Ctx& ctx, At at, Step step, const Command& command, Duration timeout, Duration patience) {
  const Routes::Found found = routes_.find(ctx, at.subscription->topic);
  const TopicRoute::Broker* broker = found.route == nullptr ? nullptr : found.route->find(at.key->first);
  if (broker == nullptr) return walk_failed(ctx, at, "the route does not name this broker");
  at.queue->step = step;
  at.queue->asked = broker->master;
  const Monotonic now = ctx.now.monotonic;
  const Result<void> called = caller_.call(ctx, broker->master, command, id(Kind::Walk, at.queue->serial, ++at.queue->generation),
                                           {now + timeout, now + timeout + patience});
  if (!called) walk_failed(ctx, at, to_string(called.code()));
}

void Consumer::on_reply(Ctx& ctx, uint64_t token, Result<Reply> reply) {
  const At where = at(bare(token));
  if (where.queue == nullptr) return;
  const uint64_t call = where.subscription->call.value();
  if (!reply) on_link_lost(where.queue->asked);
  if (kind_of(token) == Kind::Commit) on_commit_reply(ctx, where, reply);
  else if (generation_of(token) == where.queue->generation) on_walk_reply(ctx, where, std::move(reply));
  const auto it = subscriptions_.find(call);
  if (it != subscriptions_.end()) finish_if_left(ctx, it->second);
}

void Consumer::on_walk_reply(Ctx& ctx, At at, Result<Reply> reply) {
  if (!reply) return walk_failed(ctx, at, to_string(reply.code()));
  switch (at.queue->step) {
    case Step::FindingOffset: return on_offset(ctx, at, *reply);
    case Step::FindingEdge: return on_edge(ctx, at, *reply);
    case Step::Pulling:
      if (auto* pulled = std::get_if<reply::Pulled>(&*reply)) return on_pulled(ctx, at, std::move(*pulled));
      if (const auto* refusal = std::get_if<Refusal>(&*reply); refusal != nullptr && refusal->code == Code::SubscriptionParseFailed) {
        ctx.out.tell(at.subscription->call, *refusal);  // no broker will ever understand it
        return end(ctx, at.subscription->call.value());
      }
      return walk_failed(ctx, at, problem_of(reply));
    case Step::Holding:
    case Step::BackingOff:
    case Step::Left: NEVER("client: an answer to nobody");
  }
}

void Consumer::on_offset(Ctx& ctx, At at, const Reply& reply) {
  Queue& queue = *at.queue;
  const auto* refusal = std::get_if<Refusal>(&reply);
  const auto* stored = std::get_if<reply::Offset>(&reply);
  const bool is_not_found = refusal != nullptr && refusal->code == Code::QueryNotFound;
  if (stored == nullptr && !is_not_found) return walk_failed(ctx, at, problem_of(reply));
  queue.failures = 0;
  if (!queue.has_position && is_not_found && !at.subscription->is_leaving) {
    return call_or_back_off(ctx, at, Step::FindingEdge,
                            command::QueryQueue{.topic = at.subscription->topic, .queue_id = at.key->second, .broker = {}}, limits_.call_timeout);
  }
  if (stored != nullptr && !queue.has_position) {
    queue.has_position = true;
    queue.position = stored->offset;
    queue.committed = stored->offset;
    queue.began = queue.position;
    ctx.trace.note(QueueStarted{at.subscription->call.value(), at.key->second, queue.position, at.key->first});
  } else if (stored != nullptr && stored->offset < queue.position) {
    // What was consumed and not committed may have been lost with the end of the queue, and its offsets given again: only what the
    // broker knows to be consumed is safe to pass over.
    SOMETIMES("client: the broker lost a committed offset", queue.committed && stored->offset < *queue.committed);
    SOMETIMES("client: went back to the stored offset after a doubt", true);
    ctx.trace.note(QueueMoved{at.subscription->call.value(), at.key->second, queue.position, stored->offset, at.key->first});
    queue.position = stored->offset;
    queue.committed = stored->offset;
    queue.consumed.reset();
  }
  if (is_not_found && queue.has_position) {  // nothing is stored, or not any more: from the beginning of this walk
    const bool was_stored = queue.committed.has_value();
    SOMETIMES("client: the broker lost every offset of a queue", was_stored);
    if (queue.position > queue.began) {
      ctx.trace.note(QueueMoved{at.subscription->call.value(), at.key->second, queue.position, queue.began, at.key->first});
      queue.position = queue.began;
    }
    queue.committed.reset();
    queue.consumed.reset();
    // Where the group stood must not be forgotten: it would begin elsewhere next time.
    if (was_stored || at.subscription->from == command::Subscribe::From::Last) queue.consumed = queue.began;
  }
  queue.is_in_doubt = false;
  commit_if_due(ctx, at);
  walk(ctx, at);
}

void Consumer::on_edge(Ctx& ctx, At at, const Reply& reply) {
  const auto* edge = std::get_if<reply::Queue>(&reply);
  if (edge == nullptr) return walk_failed(ctx, at, problem_of(reply));
  Queue& queue = *at.queue;
  queue.failures = 0;
  queue.has_position = true;
  queue.is_in_doubt = false;
  const bool is_first = at.subscription->from == command::Subscribe::From::First;
  if (MUTANT(ConsumerStartsAtTheEnd)) queue.position = edge->max;
  else queue.position = is_first ? edge->min : edge->max;
  // Where a group that began at the end began must not be forgotten: it would begin at another end next time.
  if (!is_first) queue.consumed = queue.position;
  queue.began = queue.position;
  ctx.trace.note(QueueStarted{at.subscription->call.value(), at.key->second, queue.position, at.key->first});
  commit_if_due(ctx, at);
  walk(ctx, at);
}

void Consumer::on_pulled(Ctx& ctx, At at, reply::Pulled pulled) {
  Queue& queue = *at.queue;
  queue.failures = 0;
  const bool is_forward = pulled.next > queue.position;
  if (pulled.code == Code::Success && pulled.count > 0 && is_forward) {
    queue.step = Step::Holding;
    queue.held = Held{queue.position, pulled.next};
    if (MUTANT(ConsumerCommitsDeliveries)) {
      queue.consumed = pulled.next;
      commit_if_due(ctx, at);
    }
    ctx.out.tell(at.subscription->call, reply::Delivered{at.key->first, at.subscription->topic, at.key->second, queue.position, pulled.next,
                                                         pulled.count, std::move(pulled.records)});
    return;
  }
  if (pulled.code == Code::PullOffsetMoved && pulled.next != queue.position) {
    SOMETIMES("client: pull offset moved forward", is_forward);
    SOMETIMES("client: pull offset moved back", !is_forward);
    ctx.trace.note(QueueMoved{at.subscription->call.value(), at.key->second, queue.position, pulled.next, at.key->first});
    if (MUTANT(ConsumerJumpsToMaxWhenMoved)) queue.position = pulled.max;
    else queue.position = pulled.next;
    queue.consumed = queue.position;
    commit_if_due(ctx, at);
    return walk(ctx, at);
  }
  if ((pulled.code == Code::Success || pulled.code == Code::PullRetryImmediately) && is_forward) {
    // Everything up to `next` was filtered away, and everything before it was consumed, since no batch is out.
    SOMETIMES("client: a pull was filtered away", true);
    queue.position = pulled.next;
    queue.consumed = pulled.next;
    commit_if_due(ctx, at);
    return walk(ctx, at);
  }
  pull_later(ctx, at, queue.pulled_at + limits_.pull_gap);
}

void Consumer::pull_later(Ctx& ctx, At at, Monotonic when) {
  if (when <= ctx.now.monotonic) return walk(ctx, at);
  at.queue->step = Step::BackingOff;
  ctx.timers.set(TimerId(id(Kind::Walk, at.queue->serial)), when);
}

void Consumer::walk_failed(Ctx& ctx, At at, std::string_view what) {
  Queue& queue = *at.queue;
  const Duration wait = back_off(ctx.prng, limits_.back_off_first, limits_.back_off_max, queue.failures++);
  ctx.trace.note(QueueFailed{at.subscription->call.value(), at.key->second, queue.failures, what});
  routes_.refresh(ctx, at.subscription->topic);
  queue.step = Step::BackingOff;
  ctx.timers.set(TimerId(id(Kind::Walk, queue.serial)), ctx.now.monotonic + wait);
}

// Also queues without a call under way: a batch may be out with the host while the broker loses its end and gives the offsets again.
void Consumer::on_link_lost(const Address& to) {
  for (auto& [call, subscription] : subscriptions_) {
    for (auto& [key, queue] : subscription.queues) {
      if (queue.asked != to || !queue.has_position) continue;
      SOMETIMES("client: a queue is in doubt while its batch is out", queue.held.has_value());
      if (!MUTANT(ConsumerDoubtsOnlyItsCalls) || queue.step == Step::Pulling || queue.committing) queue.is_in_doubt = true;
    }
  }
}

void Consumer::on_timer(Ctx& ctx, TimerId timer) {
  const uint64_t serial = bare(timer.value());
  if (kind_of(timer.value()) == Kind::Subscription) {
    const auto known = calls_.find(serial);
    if (known == calls_.end()) return;
    Subscription& subscription = subscriptions_.at(known->second);
    if (!subscription.is_leaving) return reconcile(ctx, subscription);
    return end(ctx, known->second);
  }
  const At where = at(serial);
  if (where.queue == nullptr) return;
  const uint64_t call = where.subscription->call.value();
  if (kind_of(timer.value()) == Kind::Commit) commit_or_resolve(ctx, where);
  else if (where.queue->step == Step::BackingOff) walk(ctx, where);
  const auto it = subscriptions_.find(call);
  if (it != subscriptions_.end()) finish_if_left(ctx, it->second);
}

// --------------------------------------------------------------------------------------------------------------- commits

void Consumer::commit_if_due(Ctx& ctx, At at) {
  Queue& queue = *at.queue;
  if (!queue.wants_commit() || queue.committing || queue.is_in_doubt) return;
  const TimerId timer(id(Kind::Commit, queue.serial));
  if (ctx.now.monotonic < queue.commit_not_before) return ctx.timers.set(timer, queue.commit_not_before);
  const Subscription& s = *at.subscription;
  const Routes::Found found = routes_.find(ctx, s.topic);
  const TopicRoute::Broker* broker = found.route == nullptr ? nullptr : found.route->find(at.key->first);
  const Duration pause = s.is_leaving ? Duration::milliseconds(200) : limits_.commit_interval;
  queue.commit_not_before = ctx.now.monotonic + pause;
  if (broker != nullptr) {
    const command::CommitOffset commit{.group = s.group, .topic = s.topic, .queue_id = at.key->second, .offset = *queue.consumed, .broker = {}};
    queue.asked = broker->master;
    const Result<void> called =
        caller_.call(ctx, broker->master, commit, id(Kind::Commit, queue.serial), ctx.now.monotonic + limits_.call_timeout);
    if (called) {
      queue.committing = queue.consumed;
      return;
    }
  }
  ctx.timers.set(timer, queue.commit_not_before);
}

void Consumer::on_commit_reply(Ctx& ctx, At at, const Result<Reply>& reply) {
  Queue& queue = *at.queue;
  const std::optional<QueueOffset> sent = std::exchange(queue.committing, std::nullopt);
  if (reply && std::holds_alternative<reply::Ok>(*reply)) {
    queue.committed = sent;
  } else {
    SOMETIMES("client: a commit failed", true);
    ctx.trace.note(QueueFailed{at.subscription->call.value(), at.key->second, 1, problem_of(reply)});
    routes_.refresh(ctx, at.subscription->topic);
  }
  commit_or_resolve(ctx, at);
}

void Consumer::commit_or_resolve(Ctx& ctx, At at) {
  const Queue& queue = *at.queue;
  if (queue.is_in_doubt && queue.step == Step::Left && queue.wants_commit() && !queue.committing) walk(ctx, at);
  else commit_if_due(ctx, at);
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
    queue.step = Step::Left;
    queue.commit_not_before = ctx.now.monotonic;
    commit_or_resolve(ctx, At{&subscription, &key, &queue});
  }
  finish_if_left(ctx, subscription);
}

bool Consumer::finish_if_left(Ctx& ctx, Subscription& subscription) {
  if (!subscription.is_leaving) return false;
  for (const auto& [key, queue] : subscription.queues)
    if (queue.wants_commit() || queue.committing) return false;
  end(ctx, subscription.call.value());
  return true;
}

void Consumer::end(Ctx& ctx, uint64_t call) {
  const auto it = subscriptions_.find(call);
  size_t uncommitted = 0;
  for (const auto& [key, queue] : it->second.queues) {
    uncommitted += queue.wants_commit() ? 1 : 0;
    ctx.timers.cancel(TimerId(id(Kind::Walk, queue.serial)));
    ctx.timers.cancel(TimerId(id(Kind::Commit, queue.serial)));
    places_.erase(queue.serial);
  }
  ctx.timers.cancel(TimerId(id(Kind::Subscription, it->second.serial)));
  if (it->second.leaving_call && uncommitted == 0) ctx.out.tell(*it->second.leaving_call, reply::Ok{});
  else if (it->second.leaving_call)
    ctx.out.tell(*it->second.leaving_call, Refusal{Code::ServiceNotAvailable, "the last commits did not succeed in time; what was not committed comes again",
                                                   fmt::format("{} of {} queues uncommitted", uncommitted, it->second.queues.size()), 0});
  calls_.erase(it->second.serial);
  subscriptions_.erase(it);
}

}  // namespace fulmar
