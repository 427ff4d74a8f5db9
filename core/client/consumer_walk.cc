// The walk of a queue: where it begins, its pulls, its commits.

#include <fmt/format.h>

#include <algorithm>

#include "core/base/marks.h"
#include "core/client/consumer.h"
#include "core/client/consumer_events.h"

namespace fulmar {
namespace {

std::string problem_of(const Result<Reply>& reply) {
  if (!reply) return std::string(to_string(reply.code()));
  if (const auto* refusal = std::get_if<Refusal>(&*reply)) return fmt::format("{} ({})", to_string(refusal->code), refusal->cause);
  return "answered something else than was asked";
}

}  // namespace

void Consumer::walk(Ctx& ctx, At at) {
  Subscription& s = *at.subscription;
  Queue& queue = *at.queue;
  const auto& [broker, queue_id] = *at.key;
  if (!queue.has_position || queue.is_in_doubt) {
    if (s.model == GroupModel::Broadcasting) return find_start(ctx, at);
    if (!queue.out.empty()) {
      queue.step = Step::Holding;   // what it brings would come between
      return;
    }
    return call_or_back_off(ctx, at, Step::FindingOffset, command::QueryOffset{.group = s.group, .topic = s.topic, .queue_id = queue_id, .broker = {}},
                            limits_.call_timeout);
  }
  if (s.is_leaving || queue.is_revoked) {
    queue.step = Step::Left;
    return;
  }
  if (!has_room(s, queue)) {
    queue.step = Step::Holding;
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
  forget_if_settled(ctx, bare(token));
  finish_if_left(ctx, call);
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
  if (!queue.has_position && is_not_found && !at.subscription->is_leaving && !queue.is_revoked) return find_start(ctx, at);
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
    // The edge at which it began may have been lost as well, and offsets below it given again.
    const bool is_followed = !at.subscription->is_leaving && !queue.is_revoked;
    if (queue.has_begun_at_edge && is_followed && !MUTANT(ConsumerTrustsItsBegin)) return find_start(ctx, at);
    // Where the group stood must not be forgotten: it would begin elsewhere next time.
    if (was_stored || at.subscription->from != StartFrom::First) queue.consumed = queue.began;
  }
  queue.is_in_doubt = false;
  commit_if_due(ctx, at);
  walk(ctx, at);
}

// Nothing is committed: at what the host kept (broadcasting), or where `from` says.
void Consumer::find_start(Ctx& ctx, At at) {
  const Subscription& s = *at.subscription;
  if (const auto kept = s.positions.find(*at.key); kept != s.positions.end()) return begin_at(ctx, at, kept->second, true, true);
  const bool is_by_time = s.from == StartFrom::Timestamp && !at.queue->is_new;
  // A broker of which the first route knew nothing may be new, or may have been away: what was sent to it since we began is what we are due.
  // A broker that forgot where we began may have lost its end: what was sent to it since is found by its time.
  const bool is_again = at.queue->has_begun_at_edge;
  const bool is_since_begin = s.from == StartFrom::Last && (at.queue->is_on_new_broker || (is_again && !at.queue->is_new));
  SOMETIMES("client: a group begins at a time", is_by_time);
  SOMETIMES("client: a broker joins a topic that is followed from its end", is_since_begin && !is_again);
  if (is_by_time || is_since_begin) {
    const Wall stamp = is_by_time ? s.from_time : Wall{s.began.ms - limits_.new_broker_margin.ms()};
    const command::SearchOffset search{.topic = s.topic, .queue_id = at.key->second, .stamp = stamp, .broker = {}};
    return call_or_back_off(ctx, at, Step::FindingEdge, search, limits_.call_timeout);
  }
  call_or_back_off(ctx, at, Step::FindingEdge, command::QueryQueue{.topic = s.topic, .queue_id = at.key->second, .broker = {}}, limits_.call_timeout);
}

void Consumer::on_edge(Ctx& ctx, At at, const Reply& reply) {
  const StartFrom from = at.subscription->from;
  const bool is_first = from == StartFrom::First || at.queue->is_new;
  SOMETIMES("client: a queue that is new begins at its minimum", at.queue->is_new && from == StartFrom::Last);
  if (const auto* searched = std::get_if<reply::Offset>(&reply)) return begin_at(ctx, at, searched->offset, false);
  const auto* edge = std::get_if<reply::Queue>(&reply);
  if (edge == nullptr) return walk_failed(ctx, at, problem_of(reply));
  const QueueOffset begin = is_first && !MUTANT(ConsumerStartsAtTheEnd) ? edge->min : edge->max;
  begin_at(ctx, at, begin, from == StartFrom::First);
}

void Consumer::begin_at(Ctx& ctx, At at, QueueOffset offset, bool is_found_again, bool is_kept) {
  Queue& queue = *at.queue;
  queue.failures = 0;
  queue.has_position = true;
  queue.is_in_doubt = false;
  SOMETIMES("client: a broker lost the edge at which a group began", queue.has_begun_at_edge && offset < queue.began);
  if (queue.has_begun_at_edge) offset = std::min(offset, queue.began);
  queue.has_begun_at_edge = !is_kept && at.subscription->model == GroupModel::Clustering;
  queue.position = queue.began = offset;
  // Where a group began that would begin elsewhere next time must not be forgotten.
  if (!is_found_again) queue.consumed = offset;
  ctx.trace.note(QueueStarted{at.subscription->call.value(), at.key->second, queue.position, at.key->first});
  commit_if_due(ctx, at);
  walk(ctx, at);
}

void Consumer::on_pulled(Ctx& ctx, At at, reply::Pulled pulled) {
  Queue& queue = *at.queue;
  queue.failures = 0;
  if (std::exchange(queue.is_taken_over, false) && MUTANT(ConsumerTakesOverAtTheEnd)) {
    queue.consumed = queue.position = pulled.max;
    return walk(ctx, at);
  }
  const bool is_forward = pulled.next > queue.position;
  if (pulled.code == Code::Success && pulled.count > 0 && is_forward) {
    const Batch batch{queue.position, pulled.next, pulled.count, pulled.records.size(), true};
    SOMETIMES("client: several batches of a queue are out", !queue.out.empty());
    queue.out.push_back(batch);
    queue.messages_out += batch.count, at.subscription->messages_out += batch.count;
    queue.bytes_out += batch.bytes, at.subscription->bytes_out += batch.bytes;
    queue.position = pulled.next;
    if (pulled.count > 1 && MUTANT(ConsumerPullsItsLastAgain)) queue.position = QueueOffset(pulled.next.value() - 1);
    if (MUTANT(ConsumerCommitsDeliveries)) {
      queue.consumed = pulled.next;
      commit_if_due(ctx, at);
    }
    ctx.out.tell(at.subscription->call, reply::Delivered{at.key->first, at.subscription->topic, at.key->second, batch.first, batch.next,
                                                         batch.count, std::move(pulled.records)});
    return walk(ctx, at);
  }
  if (pulled.code == Code::PullOffsetMoved && pulled.next != queue.position) {
    SOMETIMES("client: pull offset moved forward", is_forward);
    SOMETIMES("client: pull offset moved back", !is_forward);
    ctx.trace.note(QueueMoved{at.subscription->call.value(), at.key->second, queue.position, pulled.next, at.key->first});
    if (MUTANT(ConsumerJumpsToMaxWhenMoved)) queue.position = pulled.max;
    else queue.position = pulled.next;
    SOMETIMES("client: a queue is moved while batches are out", !queue.out.empty());
    drop_batches(at);
    queue.consumed = queue.position;
    commit_if_due(ctx, at);
    return walk(ctx, at);
  }
  if ((pulled.code == Code::Success || pulled.code == Code::PullRetryImmediately) && is_forward) {
    // Everything up to `next` was filtered away; it is consumed when everything before it is.
    SOMETIMES("client: a pull was filtered away", true);
    if (queue.out.empty()) queue.consumed = pulled.next;
    else if (!queue.out.back().is_told) queue.out.back().next = pulled.next;
    else queue.out.push_back({queue.position, pulled.next, 0, 0, false});
    queue.position = pulled.next;
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
    if (subscription.model == GroupModel::Broadcasting) continue;   // the broker keeps nothing for us that we could compare
    for (auto& [key, queue] : subscription.queues) {
      if (queue.asked != to || !queue.has_position) continue;
      SOMETIMES("client: a queue is in doubt while its batch is out", !queue.out.empty());
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
  switch (kind_of(timer.value())) {
    case Kind::Commit: commit_or_resolve(ctx, where); break;
    case Kind::Leave: forget_queue(ctx, where); break;
    case Kind::Walk:
      if (where.queue->step == Step::BackingOff) walk(ctx, where);
      break;
    case Kind::Subscription: break;
  }
  forget_if_settled(ctx, serial);
  finish_if_left(ctx, call);
}

// --------------------------------------------------------------------------------------------------------------- commits

void Consumer::commit_if_due(Ctx& ctx, At at) {
  Queue& queue = *at.queue;
  if (!queue.wants_commit() || queue.committing || queue.is_in_doubt) return;
  if (at.subscription->model == GroupModel::Broadcasting) return tell_progress(ctx, at);
  const TimerId timer(id(Kind::Commit, queue.serial));
  if (ctx.now.monotonic < queue.commit_not_before) return ctx.timers.set(timer, queue.commit_not_before);
  const Subscription& s = *at.subscription;
  const Routes::Found found = routes_.find(ctx, s.topic);
  const TopicRoute::Broker* broker = found.route == nullptr ? nullptr : found.route->find(at.key->first);
  const Duration pause = s.is_leaving || queue.is_revoked ? Duration::milliseconds(200) : limits_.commit_interval;
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

// Nobody but the host keeps what a broadcasting member has consumed.
void Consumer::tell_progress(Ctx& ctx, At at) {
  Queue& queue = *at.queue;
  if (ctx.now.monotonic < queue.commit_not_before) return ctx.timers.set(TimerId(id(Kind::Commit, queue.serial)), queue.commit_not_before);
  queue.commit_not_before = ctx.now.monotonic + limits_.commit_interval;
  queue.committed = queue.consumed;
  ctx.out.tell(at.subscription->call, reply::Progress{at.key->first, at.subscription->topic, at.key->second, *queue.consumed});
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

// A queue that was given up: what there was to commit is committed.
void Consumer::forget_if_settled(Ctx& ctx, uint64_t serial) {
  const At where = at(serial);
  if (where.queue == nullptr || !where.queue->is_revoked) return;
  if (where.queue->step == Step::Left && !where.queue->wants_commit() && !where.queue->committing) forget_queue(ctx, where);
}

void Consumer::commit_or_resolve(Ctx& ctx, At at) {
  const Queue& queue = *at.queue;
  if (queue.is_in_doubt && queue.step == Step::Left && queue.wants_commit() && !queue.committing) walk(ctx, at);
  else commit_if_due(ctx, at);
}

}  // namespace fulmar
