#include "core/client/rebalance.h"

#include <algorithm>
#include <array>

#include "core/base/marks.h"

namespace fulmar {
namespace {

struct MembersLearned {
  FULMAR_EVENT(MembersLearned, Debug, "generation {:016x} with {} members: {}");
  uint64_t generation, members;
  std::string_view who;
  auto values() const { return std::array{generation, members}; }
  std::string_view text() const { return who; }
};
struct HeartbeatFailed {
  FULMAR_EVENT(HeartbeatFailed, Info, "heartbeat failed {} times in a row: {}");
  uint32_t failures;
  std::string_view what;
  auto values() const { return std::array{uint64_t{failures}}; }
  std::string_view text() const { return what; }
};

}  // namespace

QueueShare average_share(size_t queues, size_t members, size_t me) {
  if (queues == 0 || me >= members) return {};
  const size_t rest = MUTANT(AssignmentDropsRemainder) ? 0 : queues % members;
  const size_t size = queues <= members ? 1 : queues / members + (me < rest ? 1 : 0);
  const size_t shift = me < rest || MUTANT(AssignmentOverlaps) ? 0 : rest;
  const size_t begin = queues <= members ? me : me * size + shift;
  return {std::min(begin, queues), std::min(begin + size, queues)};
}

bool Rebalance::join(Ctx& ctx, std::string_view group, std::string_view topic, Terms terms) {
  auto it = groups_.find(group);
  if (it == groups_.end()) it = groups_.emplace(std::string(group), Group{}).first;
  Group& joined = it->second;
  if (joined.topics.contains(topic)) return false;
  if (!joined.topics.empty() && joined.topics.begin()->second.model != terms.model) return false;
  joined.topics.emplace(std::string(topic), std::move(terms));
  reconcile(ctx, it->first, joined);
  ask_all(ctx, it->first, joined);
  return true;
}

void Rebalance::leave(Ctx& ctx, std::string_view group, std::string_view topic) {
  const auto it = groups_.find(group);
  if (it == groups_.end() || it->second.topics.erase(std::string(topic)) == 0) return;
  if (!it->second.topics.empty()) {
    reconcile(ctx, it->first, it->second);
    return ask_all(ctx, it->first, it->second);
  }
  for (auto& [name, broker] : it->second.brokers) {
    // Not waited for: a broker that does not hear of it notices that we say nothing more.
    const command::LeaveGroup goodbye{.client_id = client_id_, .group = group};
    const bool may_know_us = broker.is_alive || broker.is_asked;
    SOMETIMES("client: a group is left before a broker has answered", may_know_us && !broker.is_alive);
    if (may_know_us) (void)caller_.call(ctx, broker.address, goodbye, owned_id(owner_, next_serial_++), ctx.now.monotonic + limits_.leave_timeout);
    forget(ctx, broker);
  }
  groups_.erase(it);
}

void Rebalance::forget(Ctx& ctx, const Broker& broker) {
  ctx.timers.cancel(TimerId(timer(broker)));
  if (broker.is_asked) calls_.erase(broker.call);
  places_.erase(broker.serial);
}

// Every broker of every topic's route. One that no route names any more is forgotten, unless no route is known just now.
void Rebalance::reconcile(Ctx& ctx, const std::string& name, Group& group) {
  std::map<std::string, Address> wanted;
  bool is_complete = true;
  for (const auto& [topic, terms] : group.topics) {
    const Routes::Found found = routes_.find(ctx, topic);
    if (found.knowledge != Routes::Knowledge::Known) {
      is_complete = false;
      continue;
    }
    for (const TopicRoute::Broker& broker : found.route->brokers)
      if (broker.read_queues > 0) wanted.emplace(broker.name, broker.master);
  }
  for (auto it = group.brokers.begin(); it != group.brokers.end();) {
    const bool is_gone = is_complete && !wanted.contains(it->first);
    if (is_gone) forget(ctx, it->second);
    it = is_gone ? group.brokers.erase(it) : std::next(it);
  }
  for (auto& [broker_name, address] : wanted) {
    auto [it, is_new] = group.brokers.try_emplace(broker_name);
    Broker& broker = it->second;
    const bool has_moved = !is_new && broker.address != address;
    SOMETIMES("client: a broker of a group has moved", has_moved);
    broker.address = address;
    if (is_new) {
      broker.serial = next_serial_++;
      places_.emplace(broker.serial, Place{name, broker_name});
    }
    if (is_new || has_moved) ask(ctx, name, group, broker);
  }
}

void Rebalance::ask_all(Ctx& ctx, const std::string& name, Group& group) {
  for (auto& [broker_name, broker] : group.brokers) ask(ctx, name, group, broker);
}

// A heartbeat that is under way is answered by the broker as soon as this one comes; its answer counts no more.
void Rebalance::ask(Ctx& ctx, const std::string& name, Group& group, Broker& broker) {
  ctx.timers.cancel(TimerId(timer(broker)));
  if (broker.is_asked) calls_.erase(broker.call);
  const Terms& first = group.topics.begin()->second;
  command::Heartbeat c{.client_id = client_id_, .group = name, .version = version_};
  c.model = first.model;
  c.from = first.from;
  c.from_time = first.from_time;
  for (const auto& [topic, terms] : group.topics) c.subscriptions.push_back({topic, terms.expression});
  c.generation_known = broker.is_alive ? broker.members.generation : 0;
  c.suspend_ms = limits_.suspend_ms;
  broker.call = next_serial_++;
  broker.asked_at = ctx.now.monotonic;
  const Monotonic deadline = ctx.now.monotonic + Duration::milliseconds(limits_.suspend_ms) + limits_.call_timeout;
  const Result<void> called = caller_.call(ctx, broker.address, c, owned_id(owner_, broker.call), deadline);
  broker.is_asked = called.has_value();
  if (called) calls_.emplace(broker.call, broker.serial);
  else on_failure(ctx, name, group, broker, called.error());
}

void Rebalance::on_reply(Ctx& ctx, uint64_t token, Result<Reply> reply) {
  const auto call = calls_.find(serial_of(token));
  if (call == calls_.end()) return;
  const Place place = places_.at(call->second);
  calls_.erase(call);
  const auto group = groups_.find(place.group);
  Broker& broker = group->second.brokers.at(place.broker);
  broker.is_asked = false;
  auto* members = reply ? std::get_if<reply::Members>(&*reply) : nullptr;
  if (members == nullptr) return on_failure(ctx, group->first, group->second, broker, reply);
  broker.failures = 0;
  const bool is_news = !broker.is_alive || members->generation != broker.members.generation;
  broker.is_alive = true;
  // The list is left out when the generation is the known one.
  if (!members->members.empty()) broker.members = std::move(*members);
  if (is_news) {
    ctx.trace.note(MembersLearned{broker.members.generation, broker.members.members.size(), fmt::format("{} by {}", place.group, place.broker)});
    changes_.push_back(place.group);
  }
  const Monotonic next = broker.asked_at + limits_.gap_min;
  if (next <= ctx.now.monotonic) ask(ctx, group->first, group->second, broker);
  else ctx.timers.set(TimerId(timer(broker)), next);
}

void Rebalance::on_failure(Ctx& ctx, const std::string& name, Group& group, Broker& broker, const Result<Reply>& reply) {
  const auto* refusal = reply ? std::get_if<Refusal>(&*reply) : nullptr;
  const bool is_final = refusal != nullptr && (refusal->code == Code::InvalidParameter || refusal->code == Code::NoPermission);
  if (is_final) return refusals_.emplace_back(name, *refusal), void();
  const Duration wait = back_off(ctx.prng, limits_.back_off_first, limits_.back_off_max, broker.failures++);
  ctx.trace.note(HeartbeatFailed{broker.failures, reply ? describe(*reply) : reply.error().text()});
  ctx.timers.set(TimerId(timer(broker)), ctx.now.monotonic + wait);
  if (!std::exchange(broker.is_alive, false)) return;
  SOMETIMES("client: the members are asked of another broker", group.brokers.size() > 1);
  changes_.push_back(name);   // another broker's list counts now
  for (const auto& [topic, terms] : group.topics) routes_.refresh(ctx, topic);
}

void Rebalance::on_timer(Ctx& ctx, TimerId timer) {
  const auto place = places_.find(serial_of(timer.value()));
  if (place == places_.end()) return;
  const auto group = groups_.find(place->second.group);
  Broker& broker = group->second.brokers.at(place->second.broker);
  if (!broker.is_asked) ask(ctx, group->first, group->second, broker);
}

void Rebalance::on_route(Ctx& ctx, std::string_view topic) {
  for (auto& [name, group] : groups_)
    if (group.topics.contains(topic)) reconcile(ctx, name, group);
}

const Rebalance::Broker* Rebalance::first_alive(const Group& group, const TopicRoute& route) const {
  for (const TopicRoute::Broker& candidate : route.brokers) {
    const auto found = group.brokers.find(candidate.name);
    if (found != group.brokers.end() && found->second.is_alive) return &found->second;
  }
  return nullptr;
}

std::optional<Rebalance::Share> Rebalance::share(std::string_view group_name, std::string_view topic, const TopicRoute& route) const {
  const auto found = groups_.find(group_name);
  if (found == groups_.end()) return std::nullopt;
  const Broker* broker = first_alive(found->second, route);
  if (broker == nullptr) return std::nullopt;
  Share out;
  out.generation = broker->members.generation;
  out.conflict = broker->members.conflict;
  for (const TopicRoute::Broker& b : route.brokers)
    for (int32_t queue = 0; queue < b.read_queues; ++queue) out.queues.emplace_back(b.name, queue);
  const auto terms = found->second.topics.find(topic);
  if (terms == found->second.topics.end()) return std::nullopt;
  const std::vector<std::string>& all = broker->members.members;
  const auto absent = std::find_if(broker->members.absent.begin(), broker->members.absent.end(), [&](const auto& a) { return a.topic == topic; });
  size_t members = 0, me = SIZE_MAX;
  for (uint32_t i = 0; i < all.size(); ++i) {
    // Whoever does not subscribe to this topic would leave its share of it lying.
    if (absent != broker->members.absent.end() && std::binary_search(absent->members.begin(), absent->members.end(), i)) continue;
    if (all[i] == client_id_) me = members;
    ++members;
  }
  out.is_alone = members <= 1;
  if (terms->second.model == GroupModel::Broadcasting) return out;
  const QueueShare mine = average_share(out.queues.size(), members, me);
  out.queues.erase(out.queues.begin() + static_cast<ptrdiff_t>(mine.end), out.queues.end());
  out.queues.erase(out.queues.begin(), out.queues.begin() + static_cast<ptrdiff_t>(mine.begin));
  return out;
}

}  // namespace fulmar
