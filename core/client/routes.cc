#include "core/client/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "core/base/marks.h"
#include "core/model/message.h"

namespace fulmar {
namespace {

struct RouteLearned {
  FULMAR_EVENT(RouteLearned, Debug, "route with {} brokers for {}");
  uint64_t brokers;
  std::string_view topic;
  auto values() const { return std::array{brokers}; }
  std::string_view text() const { return topic; }
};
struct RouteNotLearned {
  FULMAR_EVENT(RouteNotLearned, Info, "no route, round {} in a row: {}");
  uint64_t rounds;
  std::string_view why;
  auto values() const { return std::array{rounds}; }
  std::string_view text() const { return why; }
};

}  // namespace

Result<Address> parse_address(std::string_view text) {
  const auto bad = [text] { return Error(Errc::BadAddress, fmt::format("\"{}\" is not host:port", text.substr(0, 128))); };
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon > 255) return bad();
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  const bool is_bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (is_bracketed) host = host.substr(1, host.size() - 2);
  else if (host.find_first_of(":[]") != std::string_view::npos) return bad();
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port == 0) return bad();
  return Address{std::string(host), port};
}

TopicRoute::TopicRoute(const reply::Route& answer) {
  for (const reply::RouteBroker& b : answer.brokers) {
    const auto master = std::find_if(b.addresses.begin(), b.addresses.end(), [](const auto& a) { return a.first == BrokerId(0); });
    if (b.name.empty() || master == b.addresses.end()) continue;
    Result<Address> address = parse_address(master->second);
    if (!address) continue;
    brokers.push_back({b.name, std::move(*address), 0, 0});
  }
  std::stable_sort(brokers.begin(), brokers.end(), [](const Broker& a, const Broker& b) { return a.name < b.name; });
  brokers.erase(std::unique(brokers.begin(), brokers.end(), [](const Broker& a, const Broker& b) { return a.name == b.name; }), brokers.end());
  for (const reply::RouteQueues& q : answer.queues) {
    Broker* broker = const_cast<Broker*>(find(q.broker));
    if (broker == nullptr) continue;
    broker->read_queues = (q.perm & kPermRead) != 0 ? std::clamp(q.read_queues, 0, kQueuesMax) : 0;
    broker->write_queues = (q.perm & kPermWrite) != 0 ? std::clamp(q.write_queues, 0, kQueuesMax) : 0;
  }
}

const TopicRoute::Broker* TopicRoute::find(std::string_view broker) const {
  const auto at = std::lower_bound(brokers.begin(), brokers.end(), broker, [](const Broker& b, std::string_view name) { return b.name < name; });
  return at != brokers.end() && at->name == broker ? &*at : nullptr;
}

Routes::Routes(uint8_t owner, const ClientConfig& config, Caller& caller)
    : owner_(owner), refresh_(Duration::milliseconds(std::max<int64_t>(config.route_refresh_ms, 1))), caller_(caller) {
  for (const std::string& text : config.name_servers)
    if (Result<Address> address = parse_address(text)) servers_.push_back(std::move(*address));
}

std::vector<Address> Routes::name_servers() const {
  std::vector<Address> out;
  for (size_t i = 0; i < servers_.size(); ++i) out.push_back(servers_[(preferred_ + i) % servers_.size()]);
  return out;
}

void Routes::prefer(const Address& name_server) {
  for (size_t i = 0; i < servers_.size(); ++i)
    if (servers_[i] == name_server) preferred_ = i;
}

bool Routes::make_room(Ctx& ctx) {
  if (entries_.size() < kTopicsMax) return true;
  auto oldest = entries_.end();
  for (auto it = entries_.begin(); it != entries_.end(); ++it)
    if (!it->second.is_asking && (oldest == entries_.end() || it->second.used_at < oldest->second.used_at)) oldest = it;
  if (oldest == entries_.end()) return false;
  ctx.timers.cancel(TimerId(owned_id(owner_, oldest->second.serial)));
  topics_.erase(oldest->second.serial);
  entries_.erase(oldest);
  return true;
}

Routes::Entry* Routes::entry_for(Ctx& ctx, std::string_view topic) {
  auto it = entries_.find(topic);
  if (it == entries_.end()) {
    if (!make_room(ctx)) return nullptr;
    it = entries_.emplace(std::string(topic), Entry{}).first;
    it->second.serial = next_serial_++;
    it->second.asked_at = it->second.learned_at = it->second.not_before = Monotonic{std::numeric_limits<int64_t>::min()};
    topics_.emplace(it->second.serial, it->first);
  }
  it->second.used_at = ctx.now.monotonic;
  return &it->second;
}

Routes::Found Routes::find(Ctx& ctx, std::string_view topic) {
  Entry* entry = entry_for(ctx, topic);
  if (entry == nullptr) return {Knowledge::Full, nullptr, ctx.now.monotonic, ctx.now.monotonic};
  if (entry->knowledge == Knowledge::Known) return {Knowledge::Known, &entry->route, entry->asked_at, entry->learned_at};
  if (entry->knowledge == Knowledge::Missing) {
    if (ctx.now.monotonic < entry->asked_at + kMissingKept) return {Knowledge::Missing, nullptr, entry->asked_at, entry->learned_at};
    entry->knowledge = Knowledge::Asking;
  }
  ask_at(ctx, topics_.at(entry->serial), *entry, entry->not_before);
  return {Knowledge::Asking, nullptr, entry->asked_at, entry->learned_at};
}

void Routes::refresh(Ctx& ctx, std::string_view topic) {
  Entry* entry = entry_for(ctx, topic);
  if (entry == nullptr) return;
  const bool is_first = entry->asked_at.ns == std::numeric_limits<int64_t>::min();
  ask_at(ctx, topics_.at(entry->serial), *entry, is_first ? entry->not_before : std::max(entry->not_before, entry->round_began + kRefreshGap));
}

uint64_t Routes::take_turn(Ctx& ctx, std::string_view topic) {
  Entry* entry = entry_for(ctx, topic);
  if (entry == nullptr) return 0;
  if (!entry->turn) entry->turn = ctx.prng.below(uint64_t{1} << 32);
  return (*entry->turn)++;
}

std::string Routes::last_failure(std::string_view topic) const {
  const auto it = entries_.find(topic);
  if (it != entries_.end() && !it->second.last_failure.empty()) return it->second.last_failure;
  return it != entries_.end() && !it->second.failure.empty() ? it->second.failure : "no name server has said more";
}

void Routes::ask_at(Ctx& ctx, const std::string& topic, Entry& entry, Monotonic at) {
  if (entry.is_asking) return;
  if (at <= ctx.now.monotonic) begin_round(ctx, topic, entry);
  else ctx.timers.set(TimerId(owned_id(owner_, entry.serial)), at);
}

void Routes::begin_round(Ctx& ctx, const std::string& topic, Entry& entry) {
  ctx.timers.cancel(TimerId(owned_id(owner_, entry.serial)));
  entry.is_asking = true;
  entry.tried = 0;
  entry.first_server = preferred_;
  entry.has_missing = entry.has_silent = false;
  entry.failure.clear();
  entry.round_began = ctx.now.monotonic;
  ask_next(ctx, topic, entry);
}

void Routes::ask_next(Ctx& ctx, const std::string& topic, Entry& entry) {
  while (entry.tried < servers_.size()) {
    const Address& server = servers_[(entry.first_server + entry.tried) % servers_.size()];
    const Result<void> asked =
        caller_.call(ctx, server, command::QueryRoute{topic}, owned_id(owner_, entry.serial), ctx.now.monotonic + kQueryTimeout);
    if (asked) return;
    note_failure(entry, to_string(asked.code()));
    entry.has_silent = true;
    ++entry.tried;
  }
  end_round(ctx, topic, entry);
}

void Routes::note_failure(Entry& entry, std::string_view what) {
  const Address& server = servers_[(entry.first_server + entry.tried) % servers_.size()];
  entry.failure += fmt::format("{}{} {}", entry.failure.empty() ? "" : ", ", server.text(), what);
}

void Routes::on_reply(Ctx& ctx, uint64_t token, Result<Reply> reply) {
  const auto known = topics_.find(serial_of(token));
  if (known == topics_.end()) return;
  const std::string topic = known->second;
  Entry& entry = entries_.find(topic)->second;
  if (!entry.is_asking) return;
  if (const auto* route = reply ? std::get_if<reply::Route>(&*reply) : nullptr) {
    preferred_ = (entry.first_server + entry.tried) % servers_.size();
    entry.knowledge = Knowledge::Known;
    entry.route = TopicRoute(*route);
    entry.learned_at = entry.round_began;
    entry.failures = 0;
    entry.not_before = ctx.now.monotonic;
    entry.last_failure.clear();
    SOMETIMES("client: route learned from another name server", entry.tried > 0);
    ctx.trace.note(RouteLearned{entry.route.brokers.size(), topic});
    return settle(ctx, topic, entry);
  }
  const auto* refusal = reply ? std::get_if<Refusal>(&*reply) : nullptr;
  if (refusal != nullptr && refusal->code == Code::TopicNotExist) entry.has_missing = true;
  else entry.has_silent = true;
  note_failure(entry, refusal != nullptr ? to_string(refusal->code) : reply ? "sent something that is no route" : to_string(reply.code()));
  ++entry.tried;
  ask_next(ctx, topic, entry);
}

void Routes::end_round(Ctx& ctx, const std::string& topic, Entry& entry) {
  entry.last_failure = servers_.empty() ? "no name server is configured (namesrvAddr)" : entry.failure;
  const bool was_known = entry.knowledge == Knowledge::Known;
  SOMETIMES("client: a known route survives silent name servers", was_known && entry.has_silent);
  if (entry.has_missing && !(was_known && entry.has_silent)) {
    entry.knowledge = Knowledge::Missing;
    entry.failures = 0;
    entry.not_before = ctx.now.monotonic;
  } else {
    const Duration wait = back_off(ctx.prng, Duration::milliseconds(200), Duration::seconds(3), entry.failures++);
    entry.not_before = ctx.now.monotonic + wait;
    ctx.trace.note(RouteNotLearned{entry.failures, entry.last_failure});
  }
  settle(ctx, topic, entry);
}

void Routes::settle(Ctx& ctx, const std::string& topic, Entry& entry) {
  entry.is_asking = false;
  entry.asked_at = entry.round_began;
  if (entry.knowledge == Knowledge::Known) {
    const Monotonic next = entry.failures > 0 ? entry.not_before : ctx.now.monotonic + refresh_;
    ctx.timers.set(TimerId(owned_id(owner_, entry.serial)), next);
  }
  settled_.push_back(topic);
}

void Routes::on_timer(Ctx& ctx, TimerId timer) {
  const auto known = topics_.find(serial_of(timer.value()));
  if (known == topics_.end()) return;
  const auto it = entries_.find(known->second);
  if (ctx.now.monotonic - it->second.used_at > refresh_ * kRefreshesUnused) {
    topics_.erase(known);
    entries_.erase(it);
    return;
  }
  if (!it->second.is_asking) begin_round(ctx, it->first, it->second);
}

std::vector<std::string> Routes::take_settled() { return std::exchange(settled_, {}); }

}  // namespace fulmar
