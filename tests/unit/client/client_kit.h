#pragma once
// The client's machines together, with calls that the test answers and a clock that the test moves. A call that is not answered ends
// with TimedOut at its deadline, as node/link.h promises.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <deque>
#include <set>

#include "core/client/consumer.h"
#include "core/client/forwarder.h"
#include "core/client/producer.h"
#include "core/client/rebalance.h"
#include "core/client/routes.h"

namespace fulmar::test {

struct ClientKit : Caller {
  static constexpr uint8_t kRoutes = 2, kProducer = 3, kConsumer = 4, kForwarder = 5, kRebalance = 6;
  struct Pending { std::string text; uint64_t token; Monotonic deadline, patient_until; };

  static ClientConfig config() {
    ClientConfig c;
    c.name_servers = {"ns1:9876", "ns2:9876"};
    return c;
  }
  explicit ClientKit(const ClientConfig& c = config(), ProducerLimits producer_limits = {}, ConsumerLimits consumer_limits = {})
      : routes(kRoutes, c, *this),
        producer(kProducer, c, routes, *this, producer_limits),
        rebalance(kRebalance, c.client_id, "test", routes, *this),
        consumer(kConsumer, routes, rebalance, *this, consumer_limits),
        forwarder(kForwarder, routes, *this) {}

  Result<void> call(Ctx&, const Address& to, const Command& command, uint64_t token, Deadline deadline) override {
    if (refuse_calls) return *refuse_calls;
    if (const auto* heartbeat = std::get_if<command::Heartbeat>(&command)) {
      beats.push_back({to.text(), token, heartbeat->generation_known});
      return {};
    }
    if (std::holds_alternative<command::LeaveGroup>(command)) return {};
    std::string line = fmt::format("{} {}", to.text(), text_of(command));
    made.push_back(line);
    pending.push_back({std::move(line), token, deadline.at, deadline.patient_until});
    return {};
  }
  Result<void> call_one_way(Ctx&, const Address& to, const Command& command) override {
    if (refuse_calls) return *refuse_calls;
    made.push_back(fmt::format("{} one-way {}", to.text(), text_of(command)));
    return {};
  }
  static std::string text_of(const Command& any) {
    if (auto* c = std::get_if<command::QueryRoute>(&any)) return fmt::format("route {}", c->topic);
    if (auto* c = std::get_if<command::SendMessage>(&any)) return fmt::format("send {} q{} \"{}\"", c->topic, c->queue_id, as_text(c->body));
    if (auto* c = std::get_if<command::SendBatch>(&any)) return fmt::format("batch {} q{} {} bytes", c->topic, c->queue_id, c->packed.size());
    if (auto* c = std::get_if<command::PullMessages>(&any)) return fmt::format("pull {} q{} @{}", c->topic, c->queue_id, c->offset);
    if (auto* c = std::get_if<command::CommitOffset>(&any)) return fmt::format("commit {} {} q{} @{}", c->group, c->topic, c->queue_id, c->offset);
    if (auto* c = std::get_if<command::QueryOffset>(&any)) return fmt::format("offset {} {} q{}", c->group, c->topic, c->queue_id);
    if (auto* c = std::get_if<command::QueryQueue>(&any)) return fmt::format("queue {} q{}", c->topic, c->queue_id);
    return std::string(name_of(any));
  }

  // Brokers answer heartbeats at once when they have other members than the client knows, else they hold them for ever.
  void set_members(std::vector<std::string> members, std::string conflict = {}, std::vector<reply::Members::Absent> absent = {}) {
    membership.members = std::move(members);
    membership.conflict = std::move(conflict);
    membership.absent = std::move(absent);
    pass(150);   // the next heartbeats are under way
    ++membership.generation;
    settle();
  }
  bool answer_beat() {
    const auto it = std::find_if(beats.begin(), beats.end(), [this](const Beat& b) { return b.known != membership.generation && !silent.contains(b.to); });
    if (it == beats.end()) return false;
    const uint64_t token = it->token;
    beats.erase(it);
    rebalance.on_reply(ctx, token, Reply(membership));
    return true;
  }
  // A broker whose heartbeats end without an answer.
  void silence(const std::string& to) {
    pass(150);
    silent.insert(to);
    const auto it = std::find_if(beats.begin(), beats.end(), [&](const Beat& b) { return b.to == to; });
    ASSERT_NE(it, beats.end());
    const uint64_t token = it->token;
    beats.erase(it);
    rebalance.on_reply(ctx, token, Errc::Reset);
    settle();
  }

  // What was asked since the last look.
  std::vector<std::string> asked() { return std::exchange(made, {}); }
  // What the host was told since the last look, "7: Sent …".
  std::vector<std::string> told() {
    std::vector<std::string> lines;
    for (const Request& r : out.requests())
      if (const auto* t = std::get_if<request::Tell>(&r)) {
        if (const auto* a = std::get_if<reply::Assigned>(&t->reply)) {
          assigned.push_back(*a);
          continue;
        }
        lines.push_back(fmt::format("{}: {}", t->call, describe(t->reply)));
        replies.push_back(t->reply);
      }
    out.clear();
    return lines;
  }
  Refusal last_refusal() const { return std::get<Refusal>(replies.back()); }
  bool is_pending(std::string_view text) const {
    return std::any_of(pending.begin(), pending.end(), [&](const Pending& p) { return p.text == text; });
  }
  void answer(std::string_view text, Result<Reply> reply) {
    const auto it = std::find_if(pending.begin(), pending.end(), [&](const Pending& p) { return p.text == text; });
    ASSERT_NE(it, pending.end()) << "nobody asks " << text;
    const uint64_t token = it->token;
    pending.erase(it);
    deliver(token, std::move(reply));
  }
  void answer_all(std::string_view text_part, const Result<Reply>& reply) {
    for (bool found = true; found;) {
      found = false;
      for (const Pending& p : pending)
        if (p.text.find(text_part) != std::string::npos) {
          const std::string text = p.text;
          answer(text, reply);
          found = true;
          break;
        }
    }
  }
  void deliver(uint64_t token, Result<Reply> reply) {
    switch (owner_of(token)) {
      case kRoutes: routes.on_reply(ctx, token, std::move(reply)); break;
      case kProducer: producer.on_reply(ctx, token, std::move(reply)); break;
      case kConsumer: consumer.on_reply(ctx, token, std::move(reply)); break;
      case kForwarder: forwarder.on_reply(ctx, token, std::move(reply)); break;
      default: FAIL();
    }
    settle();
  }
  void settle() {
    while (true) {
      const auto topics = routes.take_settled();
      const auto refusals = rebalance.take_refusals();
      const auto changes = rebalance.take_changes();
      for (const std::string& topic : topics) {
        producer.on_route(ctx, topic);
        rebalance.on_route(ctx, topic);
        consumer.on_route(ctx, topic);
        forwarder.on_route(ctx, topic);
      }
      for (const auto& [group, why] : refusals) consumer.on_group_refused(ctx, group, why);
      for (const std::string& group : changes) consumer.on_members(ctx, group);
      if (!answer_beat() && topics.empty() && refusals.empty() && changes.empty()) return;
    }
  }
  // Time passes; calls time out and timers ring, each at its own moment.
  void pass(int64_t ms) {
    const Monotonic end = now.monotonic + Duration::milliseconds(ms);
    for (;;) {
      const auto first = std::min_element(pending.begin(), pending.end(), [](const Pending& a, const Pending& b) { return a.deadline < b.deadline; });
      const Monotonic call_at = first == pending.end() ? Monotonic::never() : first->deadline;
      const Monotonic at = std::min(call_at, timers.next());
      if (at > end) break;
      now.wall.ms += (at - now.monotonic).ms();
      now.monotonic = std::max(now.monotonic, at);
      if (call_at <= at) {
        const uint64_t token = first->token;
        pending.erase(first);
        deliver(token, Errc::TimedOut);
        continue;
      }
      const auto due = timers.pop_due(now.monotonic);
      switch (owner_of(due->value())) {
        case kRoutes: routes.on_timer(ctx, *due); break;
        case kProducer: producer.on_timer(ctx, *due); break;
        case kConsumer: consumer.on_timer(ctx, *due); break;
        case kForwarder: forwarder.on_timer(ctx, *due); break;
        case kRebalance: rebalance.on_timer(ctx, *due); break;
        default: FAIL();
      }
      settle();
    }
    now.monotonic = end;
  }
  // The name servers answer for a topic that is being asked about: brokers with that many queues each, at "<name>:10911".
  void route(std::string_view topic, const std::vector<std::pair<std::string, int32_t>>& brokers) { answer_route(topic, route_of(brokers)); }
  void answer_route(std::string_view topic, const Result<Reply>& reply) {
    const auto it = std::find_if(pending.begin(), pending.end(), [&](const Pending& p) { return p.text.ends_with(fmt::format(" route {}", topic)); });
    ASSERT_NE(it, pending.end()) << "nobody asks for " << topic;
    answer(std::string(it->text), reply);
  }
  void no_route(std::string_view topic) {
    answer_route(topic, refusal(Code::TopicNotExist));
    answer_route(topic, refusal(Code::TopicNotExist));
  }
  static Reply route_of(const std::vector<std::pair<std::string, int32_t>>& brokers) {
    reply::Route r;
    for (const auto& [name, queues] : brokers) {
      r.brokers.push_back({"c", name, {{BrokerId(0), name + ":10911"}}});
      r.queues.push_back({name, queues, queues, kPermRead | kPermWrite});
    }
    return r;
  }
  static Reply refusal(Code code, std::string cause = "no", uint32_t retry_after_ms = 0) { return Refusal{code, std::move(cause), "m", retry_after_ms}; }
  static Reply sent(int32_t queue_id, int64_t offset, Code code = Code::Success) {
    reply::Sent s;
    s.code = code;
    s.queue_id = queue_id;
    s.queue_offset = QueueOffset(offset);
    return s;
  }

  Moment now{Monotonic{1'000'000'000'000}, Wall{1'700'000'000'000}, 0};
  Outbox out;
  Files files;
  Timers timers;
  Prng prng{Seed{7}};
  Trace trace;
  Ctx ctx{now, out, files, timers, prng, trace};
  std::optional<Errc> refuse_calls;
  std::vector<std::string> made;
  std::deque<Pending> pending;
  std::vector<Reply> replies;
  std::vector<reply::Assigned> assigned;
  struct Beat { std::string to; uint64_t token; uint64_t known; };
  std::vector<Beat> beats;                 // held
  std::set<std::string> silent;
  reply::Members membership{1, {ClientConfig{}.client_id}, {}, {}};
  Routes routes;
  Producer producer;
  Rebalance rebalance;
  Consumer consumer;
  Forwarder forwarder;
};

using Lines = std::vector<std::string>;

}  // namespace fulmar::test
