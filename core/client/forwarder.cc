#include "core/client/forwarder.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/marks.h"
#include "core/model/message.h"

namespace fulmar {
namespace {

template <class... Cs> bool is_one_of(const Command& command) { return (std::holds_alternative<Cs>(command) || ...); }

bool changes_the_broker(const Command& command) {
  return is_one_of<command::CommitOffset, command::CreateTopic, command::DeleteTopic, command::CreateGroup, command::DeleteGroup, command::ResetOffset,
                   command::UpdateConfig, command::WipeWritePerm, command::AddWritePerm>(command);
}
bool is_for_all_brokers(const Command& command) {
  return is_one_of<command::CreateTopic, command::DeleteTopic, command::CreateGroup, command::DeleteGroup>(command);
}
bool is_for_name_servers(const Command& command) { return is_one_of<command::QueryRoute, command::ListTopics, command::QueryCluster>(command); }

// A broker that never had it is no failure of a deletion, unless none had it.
bool had_nothing_to_delete(const Command& command, Code code) {
  return (is_one_of<command::DeleteTopic>(command) && code == Code::TopicNotExist) ||
         (is_one_of<command::DeleteGroup>(command) && code == Code::SubscriptionGroupNotExist);
}

std::string_view topic_of(const Command& command) {
  return std::visit([](const auto& c) -> std::string_view { if constexpr (requires { c.topic; }) return c.topic; else return {}; }, command);
}
std::string_view broker_of(const Command& command) {
  return std::visit([](const auto& c) -> std::string_view { if constexpr (requires { c.broker; }) return c.broker; else return {}; }, command);
}

}  // namespace

Forwarder::Forwarder(uint8_t owner, Routes& routes, Caller& caller, ForwarderLimits limits)
    : owner_(owner), routes_(routes), caller_(caller), limits_(limits) {
  CHECK(limits_.brokers_max <= kTargetsMax);
}

bool Forwarder::takes(const Command& command) {
  return changes_the_broker(command) ||
         is_one_of<command::PullMessages, command::QueryOffset, command::QueryQueue, command::QueryMessages, command::ViewMessage,
                   command::DescribeTopic, command::GetStatus, command::ListGroups, command::DescribeGroup, command::SearchOffset, command::GetConfig>(
             command) ||
         is_for_name_servers(command);
}

bool Forwarder::carries_records(const Command& command) {
  return is_one_of<command::PullMessages, command::QueryMessages, command::ViewMessage>(command);
}

void Forwarder::forward(Ctx& ctx, CallId call, const Command& command) {
  CHECK(takes(command), "{}", name_of(command));
  if (requests_.size() >= limits_.requests_max) {
    const std::string measured = fmt::format("{} in flight, at most {}", requests_.size(), limits_.requests_max);
    return ctx.out.tell(call, Refusal{Code::SystemBusy, "too many requests are in flight in this client", measured, 100});
  }
  const std::string_view topic = topic_of(command);
  const bool has_topic = std::visit([](const auto& c) { return requires { c.topic; }; }, command);
  if (const Result<void> name = has_topic ? check_topic_name(topic) : Result<void>{}; !name) {
    return ctx.out.tell(call, Refusal{Code::InvalidParameter, name.error().detail, fmt::format("topic of {} bytes", topic.size()), 0});
  }
  Duration timeout = limits_.timeout;
  if (const auto* pull = std::get_if<command::PullMessages>(&command)) timeout = timeout + Duration::milliseconds(pull->suspend_ms);
  Request request{.serial = next_serial_++, .call = call, .command = OwnedCommand(command), .topic = std::string(topic),
                  .broker = std::string(broker_of(command)), .lookups = {}, .waits_for = {}, .began = ctx.now.monotonic,
                  .deadline = ctx.now.monotonic + timeout, .targets = {}, .answer = {}, .refusal = {}, .failures = {}, .done = {}, .missing = {}};
  if (is_for_name_servers(command)) request.to = To::NameServers;
  if (is_one_of<command::WipeWritePerm, command::AddWritePerm>(command)) request.to = To::AllNameServers;
  if (is_for_all_brokers(command)) request.to = To::AllBrokers;
  if (!topic.empty()) request.lookups.emplace_back(topic);
  if (!has_topic || request.to == To::AllBrokers) {
    if (!request.broker.empty() && check_topic_name(request.broker)) request.lookups.push_back(request.broker);
    for (const std::string_view known : {kAutoCreateTopic, kMetaTopic, kDefaultClusterTopic}) request.lookups.emplace_back(known);
  }
  const uint64_t serial = request.serial;
  advance(ctx, requests_.emplace(serial, std::move(request)).first->second);
}

void Forwarder::advance(Ctx& ctx, Request& request) {
  switch (request.to) {
    case To::OneBroker:
      if (find_one(ctx, request)) call_targets(ctx, request);
      return;
    case To::AllBrokers:
      if (find_all(ctx, request)) call_targets(ctx, request);
      return;
    case To::NameServers:
      for (const Address& server : routes_.name_servers()) request.targets.push_back({server.text(), server});
      return call_name_server(ctx, request);
    case To::AllNameServers:
      for (const Address& server : routes_.name_servers()) request.targets.push_back({server.text(), server});
      return call_targets(ctx, request);
  }
}

bool Forwarder::find_one(Ctx& ctx, Request& request) {
  bool is_missing = true;
  for (const std::string& topic : request.lookups) {
    const Routes::Found found = routes_.find(ctx, topic);
    if (found.knowledge == Routes::Knowledge::Asking) return wait_for(ctx, request, topic), false;
    if (found.knowledge != Routes::Knowledge::Known) continue;
    is_missing = false;
    const TopicRoute::Broker* broker = nullptr;
    if (!request.broker.empty()) broker = found.route->find(request.broker);
    else if (!found.route->brokers.empty()) broker = &found.route->brokers.front();
    if (broker != nullptr) {
      request.targets.push_back({broker->name, broker->master});
      return true;
    }
    if (found.asked_at < request.began) {
      routes_.refresh(ctx, topic);
      return wait_for(ctx, request, topic), false;
    }
  }
  refuse_without_broker(ctx, request, is_missing && !request.topic.empty());
  return false;
}

bool Forwarder::find_all(Ctx& ctx, Request& request) {
  std::map<std::string, Address> masters;
  for (const std::string& topic : request.lookups) {
    const Routes::Found found = routes_.find(ctx, topic);
    // A broker that joined lately must get the topic, too: what was learned before, and what name servers have been silent about since,
    // says nothing of it.
    const Monotonic known_at = MUTANT(TopicsMadeByOldRoutes) ? found.asked_at : found.learned_at;
    const bool is_old = found.knowledge == Routes::Knowledge::Known && known_at < request.began;
    SOMETIMES("client: a topic waits for a route that silent name servers keep back", is_old && found.asked_at >= request.began);
    if (is_old) routes_.refresh(ctx, topic);
    if (found.knowledge == Routes::Knowledge::Asking || is_old) return wait_for(ctx, request, topic), false;
    if (found.knowledge != Routes::Knowledge::Known) continue;
    for (const TopicRoute::Broker& broker : found.route->brokers) masters.emplace(broker.name, broker.master);
  }
  if (masters.empty()) return refuse_without_broker(ctx, request, false), false;
  if (masters.size() > limits_.brokers_max) {
    finish(ctx, request, Refusal{Code::SystemError, "too many brokers", fmt::format("{}, at most {}", masters.size(), limits_.brokers_max), 0});
    return false;
  }
  for (const auto& [name, address] : masters) request.targets.push_back({name, address});
  return true;
}

void Forwarder::wait_for(Ctx& ctx, Request& request, const std::string& topic) {
  request.waits_for = topic;
  waiting_.emplace(topic, request.serial);
  ctx.timers.set(TimerId(token(request, 0)), request.deadline);
}

void Forwarder::refuse_without_broker(Ctx& ctx, Request& request, bool is_topic_missing) {
  std::string servers;
  for (const Address& server : routes_.name_servers()) servers += (servers.empty() ? "" : ", ") + server.text();
  const std::string measured = fmt::format("name servers asked: {}", servers.empty() ? "none is configured (namesrvAddr)" : servers);
  if (is_topic_missing) {
    return finish(ctx, request, Refusal{Code::TopicNotExist, fmt::format("topic {} does not exist", request.topic), measured, 1000});
  }
  const std::string cause = std::string(kNotConnected) + (request.broker.empty() ? "no broker is known" : fmt::format("broker {} is not registered", request.broker));
  finish(ctx, request, Refusal{Code::ServiceNotAvailable, cause, measured, 1000});
}

void Forwarder::on_route(Ctx& ctx, std::string_view topic) {
  std::vector<uint64_t> ready;
  const std::string name(topic);
  for (auto it = waiting_.lower_bound({name, 0}); it != waiting_.end() && it->first == name; it = waiting_.erase(it)) ready.push_back(it->second);
  for (const uint64_t serial : ready) {
    const auto it = requests_.find(serial);
    if (it != requests_.end()) advance(ctx, it->second);
  }
}

void Forwarder::call_targets(Ctx& ctx, Request& request) {
  ctx.timers.cancel(TimerId(token(request, 0)));
  request.outstanding = request.targets.size();
  for (size_t i = 0; i < request.targets.size(); ++i) {
    const Duration patience = carries_records(request.command.get()) ? limits_.patience : Duration{};
    const Deadline deadline{request.deadline, request.deadline + patience};
    const Result<void> called = caller_.call(ctx, request.targets[i].address, request.command.get(), token(request, i), deadline);
    if (called) continue;
    note_failure(request, i, called.error().text());
    --request.outstanding;
  }
  if (request.outstanding == 0) finish_all(ctx, request);
}

void Forwarder::call_name_server(Ctx& ctx, Request& request) {
  for (; request.next_target < request.targets.size() && ctx.now.monotonic < request.deadline; ++request.next_target) {
    const Target& target = request.targets[request.next_target];
    const Monotonic by = std::min(request.deadline, ctx.now.monotonic + limits_.name_server_timeout);
    const Result<void> called = caller_.call(ctx, target.address, request.command.get(), token(request, request.next_target), by);
    if (called) return;
    note_failure(request, request.next_target, called.error().text());
  }
  finish_without_answer(ctx, request, request.targets.empty() ? "no name server is configured (namesrvAddr)" : "no name server answered");
}

void Forwarder::note_failure(Request& request, size_t target, std::string_view what) {
  request.failures += fmt::format("{}{} {}", request.failures.empty() ? "" : ", ", request.targets[target].name, what);
}

void Forwarder::on_reply(Ctx& ctx, uint64_t token, Result<Reply> reply) {
  const auto it = requests_.find(serial_of(token) >> 12);
  if (it == requests_.end()) return;  // refused by stop()
  Request& request = it->second;
  const size_t target = token & (kTargetsMax - 1);
  CHECK(target < request.targets.size());
  if (!reply) {
    request.is_outcome_unknown = request.is_outcome_unknown || !was_never_sent(reply.code());
    if (!request.topic.empty() && request.to != To::NameServers) routes_.refresh(ctx, request.topic);
    note_failure(request, target, to_string(reply.code()));
  }
  switch (request.to) {
    case To::NameServers:
      if (reply) {
        routes_.prefer(request.targets[target].address);
        return finish(ctx, request, std::move(*reply));
      }
      ++request.next_target;
      return call_name_server(ctx, request);
    case To::OneBroker:
      if (reply) return finish(ctx, request, std::move(*reply));
      return finish_without_answer(ctx, request, "the broker did not answer");
    case To::AllBrokers:
    case To::AllNameServers: break;
  }
  const auto* refusal = reply ? std::get_if<Refusal>(&*reply) : nullptr;
  if (reply && (std::holds_alternative<reply::Ok>(*reply) || std::holds_alternative<reply::TopicsChanged>(*reply))) {
    request.answer = *reply;
    request.done += fmt::format("{}{}", request.done.empty() ? "" : ", ", request.targets[target].name);
  } else if (refusal != nullptr && had_nothing_to_delete(request.command.get(), refusal->code)) {
    request.missing = *refusal;
  } else if (reply) {
    note_failure(request, target, refusal != nullptr ? to_string(refusal->code) : "answered something else than was asked");
    if (refusal != nullptr && !request.refusal) request.refusal = *refusal;
  }
  if (--request.outstanding == 0) finish_all(ctx, request);
}

void Forwarder::finish_all(Ctx& ctx, Request& request) {
  if (request.to == To::AllBrokers && !request.topic.empty()) routes_.refresh(ctx, request.topic);  // it has changed, at least in part
  SOMETIMES("client: topic changed on some brokers only", !request.failures.empty() && request.targets.size() > 1);
  if (request.targets.empty()) return finish_without_answer(ctx, request, "no name server is configured (namesrvAddr)");
  if (request.failures.empty() && request.done.empty() && request.missing) return finish(ctx, request, *request.missing);
  if (request.failures.empty()) return finish(ctx, request, request.answer.value_or(Reply(reply::Ok{})));
  if (!request.done.empty()) request.failures += fmt::format("; done by {}", request.done);
  if (!request.refusal) {
    return finish_without_answer(ctx, request, request.to == To::AllNameServers ? "not every name server answered"
                                               : request.targets.size() > 1     ? "not every broker answered"
                                                                                : "the broker did not answer");
  }
  Refusal refusal = *request.refusal;
  refusal.measured += fmt::format("{}{} of {} brokers: {}", refusal.measured.empty() ? "" : "; ", name_of(request.command.get()),
                                  request.targets.size(), request.failures);
  if (request.is_outcome_unknown) refusal.cause.insert(0, kOutcomeUnknown);
  finish(ctx, request, std::move(refusal));
}

void Forwarder::finish_without_answer(Ctx& ctx, Request& request, std::string_view what) {
  const bool is_unknown = request.is_outcome_unknown && changes_the_broker(request.command.get());
  const bool was_reached = request.is_outcome_unknown || request.targets.empty() || !request.done.empty();
  const std::string cause = fmt::format("{}{}: {}", is_unknown ? kOutcomeUnknown : was_reached ? "" : kNotConnected, name_of(request.command.get()), what);
  finish(ctx, request, Refusal{Code::ServiceNotAvailable, cause, request.failures, 1000});
}

void Forwarder::on_timer(Ctx& ctx, TimerId timer) {
  const auto it = requests_.find(serial_of(timer.value()) >> 12);
  if (it == requests_.end()) return;
  Request& request = it->second;
  if (!request.targets.empty()) {  // only stop() sets a timer beside a call
    request.is_outcome_unknown = true;
    return finish_without_answer(ctx, request, "not answered when the client stopped");
  }
  request.failures = fmt::format("waiting for the route of {}: {}", request.waits_for, routes_.last_failure(request.waits_for));
  finish_without_answer(ctx, request, "no route");
}

void Forwarder::stop(Ctx& ctx, Monotonic deadline) {
  std::vector<uint64_t> pulls;
  for (auto& [serial, request] : requests_) {
    if (std::holds_alternative<command::PullMessages>(request.command.get())) pulls.push_back(serial);
    if (request.deadline <= deadline) continue;
    request.deadline = deadline;
    ctx.timers.set(TimerId(token(request, 0)), deadline);
  }
  for (const uint64_t serial : pulls) finish_without_answer(ctx, requests_.at(serial), "the client is stopping");
}

void Forwarder::finish(Ctx& ctx, Request& request, Reply reply) {
  ctx.out.tell(request.call, std::move(reply));
  ctx.timers.cancel(TimerId(token(request, 0)));
  waiting_.erase({request.waits_for, request.serial});
  const uint64_t serial = request.serial;
  requests_.erase(serial);
}

}  // namespace fulmar
