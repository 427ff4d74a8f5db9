// Groups of several members, after everything is healed: each queue has one owner, also after one of them dies or vanishes; a group that is
// moved begins anew; a broker whose write permission is wiped loses it, and gets it back.

#include <fmt/format.h>

#include <algorithm>

#include "sim/workload.h"

namespace fulmar::sim {

std::vector<Ownership::Queue> Workload::all_queues() const {
  std::vector<Ownership::Queue> out;
  for (const auto& broker : court_.brokers())
    for (int32_t queue = 0; queue < plan_.queues; ++queue) out.emplace_back(broker.geometry.name, queue);
  return out;
}

std::string Workload::sharing_complaint() const {
  for (const Group& group : groups_)
    if (std::string what = court_.ownership().complaint(group.label, all_queues()); !what.empty()) return what;
  return {};
}

void Workload::demand_sharing(std::string_view when) {
  for (const Group& group : groups_) court_.ownership().demand(group.label, all_queues(), when);
}

std::optional<NodeId> Workload::lose_a_client() {
  for (const NodeId client : clients_) {
    // Whoever asks or sends goes on doing so, and is owed answers.
    const auto is_busy = [client](const auto& one) { return one.client == client; };
    if (client == reader_client() || std::any_of(producers_.begin(), producers_.end(), is_busy) || std::any_of(committers_.begin(), committers_.end(), is_busy)) continue;
    const auto is_of = [client](const Member& m) { return m.client == client && m.is_subscribed; };
    // Somebody must be left to take over.
    const bool has_heirs = std::all_of(groups_.begin(), groups_.end(), [&](const Group& g) {
      return std::any_of(g.members.begin(), g.members.end(), [&](const Member& m) { return m.is_subscribed && m.client != client; });
    });
    const bool owns = std::any_of(groups_.begin(), groups_.end(), [&](const Group& g) {
      return std::any_of(g.members.begin(), g.members.end(), [&](const Member& m) { return is_of(m) && court_.ownership().owned(g.label, m.call.value()) > 0; });
    });
    if (!has_heirs || !owns) continue;
    for (const Group& g : groups_)
      for (const Member& m : g.members)
        if (is_of(m)) court_.ownership().gone(g.label, m.call.value());
    return client;
  }
  return std::nullopt;
}

// Everything that was consumed comes again, and nobody has to stop for it.
void Workload::begin_reset() {
  const Group& group = groups_.front();
  court_.once().moves(group.label);
  is_resetting_ = true;
  for (const auto& broker : court_.brokers()) {
    ++resets_open_;
    ask_until(
        reader_client(),
        [&group, name = broker.geometry.name] {
          return Command(command::ResetOffset{.group = group.name, .topic = group.topic, .to = command::ResetOffset::To::First, .broker = name});
        },
        [this, &group, name = broker.geometry.name](const Reply& reply) {
          const auto* reset = std::get_if<reply::OffsetsReset>(&reply);
          if (reset == nullptr) return false;
          --resets_open_;
          for (const reply::OffsetReset& queue : reset->queues) {
            const QueueKey key{name, group.topic, queue.queue_id};
            // What a filter passes over is not told.
            if (!group.tags.empty() || court_.order().end_of(key) <= queue.is.value() || reset_to_.contains({group.label, key})) continue;
            if (began_since_reset_[{group.label, key}].contains(queue.is.value())) continue;
            reset_to_[{group.label, key}] = queue.is.value();
            ++resets_open_;
          }
          return true;
        });
  }
}

// --- write permission -------------------------------------------------------------------------------------------------------------------

void Workload::begin_wipe() {
  ++wipes_open_;
  wipe(court_.brokers().back().geometry.name);
}

void Workload::wipe(const std::string& broker) {
  const auto told = [](const Reply& reply) { return std::holds_alternative<reply::TopicsChanged>(reply); };
  ask_until(
      reader_client(), [broker] { return Command(command::WipeWritePerm{.broker_name = broker}); },
      [this, broker, told](const Reply& reply) {
        if (!told(reply)) return false;
        // A new topic makes every broker register anew.
        ask_until(
            reader_client(), [this] { return Command(command::CreateTopic{.topic = "made-while-wiped", .read_queues = plan_.queues, .write_queues = plan_.queues}); },
            [this, broker, told](const Reply& made) {
              if (!std::holds_alternative<reply::Ok>(made)) return false;
              expect_perm(broker, false, [this, broker, told] {
                ask_until(
                    reader_client(), [broker] { return Command(command::AddWritePerm{.broker_name = broker}); },
                    [this, broker, told](const Reply& added) {
                      if (!told(added)) return false;
                      expect_perm(broker, true, [this] { --wipes_open_; });
                      return true;
                    });
              });
              return true;
            });
        return true;
      });
}

// The route of the new topic comes a heartbeat later; from then on it says what was set.
void Workload::expect_perm(const std::string& broker, bool is_writable, std::function<void()> then) {
  ask_until(
      reader_client(), [] { return Command(command::QueryRoute{.topic = "made-while-wiped"}); },
      [this, broker, is_writable, then](const Reply& reply) {
        const auto* route = std::get_if<reply::Route>(&reply);
        if (route == nullptr || route->queues.size() < court_.brokers().size()) return false;
        for (const reply::RouteQueues& queues : route->queues) {
          const bool expected = queues.broker != broker || is_writable;
          if (((queues.perm & kPermWrite) != 0) == expected) continue;
          court_.fail("O15", fmt::format("the route says perm {} of {}, whose write permission was {}", queues.perm, queues.broker, expected ? "put back" : "wiped"));
        }
        then();
        return true;
      });
}

}  // namespace fulmar::sim
