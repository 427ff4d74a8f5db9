#include "core/route/registry.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/marks.h"
#include "core/io/ids.h"

namespace fulmar {
namespace {

Registry::Outcome refused(Code code, std::string cause, std::string measured, uint32_t retry_after_ms) {
  Refusal r;
  r.code = code;
  r.cause = std::move(cause);
  r.measured = std::move(measured);
  r.retry_after_ms = retry_after_ms;
  return {std::move(r), Registry::News::Refused};
}

const TopicConfig* find_topic(const std::vector<TopicConfig>& topics, std::string_view name) {
  const auto at = std::lower_bound(topics.begin(), topics.end(), name, [](const TopicConfig& t, std::string_view n) { return t.name < n; });
  return at != topics.end() && at->name == name ? &*at : nullptr;
}

// By name, of equal names the last: what was said last counts.
std::vector<TopicConfig> sorted_once(std::vector<TopicConfig> topics) {
  std::stable_sort(topics.begin(), topics.end(), [](const TopicConfig& a, const TopicConfig& b) { return a.name < b.name; });
  std::vector<TopicConfig> out;
  out.reserve(topics.size());
  for (TopicConfig& topic : topics) {
    if (!out.empty() && out.back().name == topic.name) out.back() = std::move(topic);
    else out.push_back(std::move(topic));
  }
  return out;
}

}  // namespace

Registry::Instance* Registry::find(std::string_view broker_name, BrokerId id) {
  const auto broker = brokers_.find(broker_name);
  if (broker == brokers_.end()) return nullptr;
  const auto instance = broker->second.instances.find(id);
  return instance == broker->second.instances.end() ? nullptr : &instance->second;
}

Registry::Outcome Registry::register_broker(const command::RegisterBroker& c, std::string_view peer_host, Monotonic now, ConnId from) {
  const std::string_view host = c.host.empty() ? peer_host : c.host;
  const size_t longest = std::max({c.cluster.size(), c.broker_name.size(), host.size(), c.version.size()});
  if (c.broker_name.empty() || host.empty()) return refused(Code::InvalidParameter, "a broker has a name and a host", {}, 0);
  if (longest > limits_.name_bytes_max) {
    return refused(Code::InvalidParameter, "a cluster, broker, host or version name is too long",
                   fmt::format("{} bytes, at most {}", longest, limits_.name_bytes_max), 0);
  }
  if (c.port == 0) return refused(Code::InvalidParameter, "a broker listens on a port", "port 0", 0);
  if (c.broker_id.value() < 0) return refused(Code::InvalidParameter, "a broker id is not negative", fmt::format("id {}", c.broker_id), 0);

  std::string address = Address{std::string(host), c.port}.text();
  Instance* known = find(c.broker_name, c.broker_id);
  if (known != nullptr && !is_same_broker(*known, address, from) && is_alive(*known, now) && !MUTANT(RegistryForgetsWhoLives))
    return refuse_contender(*known, c, std::move(address));
  if (!c.is_complete) {
    const bool is_same = known != nullptr && known->topics_version == c.topics_version && known->address == address;
    SOMETIMES("route: a heartbeat for a table that we do not have", !is_same);
    if (is_same) hear(*known, now, from);
    return {reply::Registered{c.topics_version, !is_same}, News::None};
  }

  const size_t entries_left = limits_.topics_max - entry_count_ + (known == nullptr ? 0 : known->topics.size());
  if (known == nullptr && broker_count_ >= limits_.brokers_max) {
    return refused(Code::SystemBusy, "the name server knows too many brokers",
                   fmt::format("{} brokers, at most {}", broker_count_, limits_.brokers_max), 1000);
  }
  if (c.topics.size() > entries_left) {
    return refused(Code::SystemBusy, "the name server knows too many topics",
                   fmt::format("{} topics announced, room for {} of {}", c.topics.size(), entries_left, limits_.topics_max), 1000);
  }
  Broker& broker = brokers_.try_emplace(std::string(c.broker_name)).first->second;
  broker.cluster = c.cluster;
  Instance& instance = broker.instances[c.broker_id];
  const News news = known == nullptr ? News::NewBroker
                    : instance.topics_version != c.topics_version || instance.address != address ? News::NewTable : News::None;
  if (known == nullptr) ++broker_count_;
  instance.address = std::move(address);
  instance.version = c.version;
  if (MUTANT(WipeEndsWithRegistration)) wiped_.erase(std::string(c.broker_name));
  hear(instance, now, from);
  instance.topics_version = c.topics_version;
  set_topics(instance, sorted_once(c.topics));
  drop_former_ids(broker, c.broker_id, instance.address);
  return {reply::Registered{c.topics_version, false}, news};
}

// By its address, or by the connection on which it says that it has another now.
bool Registry::is_same_broker(const Instance& known, std::string_view address, ConnId from) { return known.address == address || known.from == from; }

// A word that was long on its way does not make an older connection the last one.
void Registry::hear(Instance& instance, Monotonic now, ConnId from) {
  instance.last_word = now;
  if (from < instance.from) return;
  instance.from = from;
  instance.is_connected = true;
}

Registry::Outcome Registry::refuse_contender(Instance& known, const command::RegisterBroker& c, std::string address) const {
  SOMETIMES("route: two brokers with one name and id", true);
  Outcome out = refused(Code::NoPermission, fmt::format("another broker is registered as {} with id {}: each needs a brokerName or a brokerId of its own", c.broker_name, c.broker_id),
                        fmt::format("{} is alive, {} is refused", known.address, address), 1000);
  if (known.contender == address) out.news = News::None;
  known.contender = std::move(address);
  return out;
}

void Registry::drop_former_ids(Broker& broker, BrokerId but, std::string_view address) {
  for (auto it = broker.instances.begin(); it != broker.instances.end();) {
    const auto instance = it++;
    if (instance->first == but || instance->second.address != address) continue;
    set_topics(instance->second, {});
    broker.instances.erase(instance);
    --broker_count_;
  }
}

void Registry::on_connection_closed(ConnId conn) {
  for (auto& [name, broker] : brokers_) {
    for (auto& [id, instance] : broker.instances) {
      if (instance.from == conn) instance.is_connected = false;
    }
  }
}

void Registry::set_topics(Instance& instance, std::vector<TopicConfig> topics) {
  for (const TopicConfig& topic : topics) ++topics_[topic.name];  // first the new ones, so that what stays keeps its node
  for (const TopicConfig& topic : instance.topics) {
    const auto counted = topics_.find(topic.name);
    if (--counted->second == 0) topics_.erase(counted);
  }
  entry_count_ += topics.size();
  entry_count_ -= instance.topics.size();
  instance.topics = std::move(topics);
}

void Registry::remove(std::map<std::string, Broker, std::less<>>::iterator broker, std::map<BrokerId, Instance>::iterator instance) {
  set_topics(instance->second, {});
  broker->second.instances.erase(instance);
  --broker_count_;
  if (broker->second.instances.empty()) brokers_.erase(broker);
}

bool Registry::unregister_broker(const command::UnregisterBroker& c, ConnId from) {
  const auto broker = brokers_.find(c.broker_name);
  if (broker == brokers_.end()) return false;
  const auto instance = broker->second.instances.find(c.broker_id);
  if (instance == broker->second.instances.end()) return false;
  const bool is_late = from < instance->second.from;
  SOMETIMES("route: a broker's goodbye comes after its next registration", is_late);
  if (is_late && !MUTANT(RegistryTakesLateGoodbye)) return false;
  if (instance->second.is_connected && from > instance->second.from && instance->second.from != ConnId{}) return false;  // of one that was refused this name
  remove(broker, instance);
  return true;
}

std::vector<Registry::Gone> Registry::expire(Monotonic now) {
  std::vector<Gone> gone;
  for (auto broker = brokers_.begin(); broker != brokers_.end();) {
    const auto this_broker = broker++;  // its last instance takes it along
    auto& instances = this_broker->second.instances;
    const size_t instance_count = instances.size();
    auto instance = instances.begin();
    for (size_t i = 0; i < instance_count; ++i) {
      const auto this_instance = instance++;
      if (this_instance->second.last_word + limits_.expiry > now) continue;
      gone.push_back({this_broker->first, this_instance->first, this_instance->second.address});
      remove(this_broker, this_instance);
    }
  }
  SOMETIMES("route: a broker expires", !gone.empty());
  return gone;
}

Monotonic Registry::next_expiry() const {
  Monotonic next = Monotonic::never();
  for (const auto& [name, broker] : brokers_) {
    for (const auto& [id, instance] : broker.instances) next = std::min(next, instance.last_word + limits_.expiry);
  }
  return next;
}

Reply Registry::route(std::string_view topic) const {
  reply::Route out;
  if (topics_.contains(topic)) {
    for (const auto& [name, broker] : brokers_) {
      const TopicConfig* config = nullptr;
      for (const auto& [id, instance] : broker.instances) {
        if ((config = find_topic(instance.topics, topic)) != nullptr) break;
      }
      if (config == nullptr) continue;
      reply::RouteBroker entry;
      entry.cluster = broker.cluster;
      entry.name = name;
      for (const auto& [id, instance] : broker.instances) entry.addresses.emplace_back(id, instance.address);
      out.brokers.push_back(std::move(entry));
      reply::RouteQueues queues;
      queues.broker = name;
      queues.read_queues = config->read_queues;
      queues.write_queues = config->write_queues;
      queues.perm = wiped_.contains(name) ? config->perm & ~kPermWrite : config->perm;
      out.queues.push_back(std::move(queues));
    }
  }
  if (!out.brokers.empty()) return out;
  Refusal refusal;
  refusal.code = Code::TopicNotExist;
  refusal.cause = fmt::format("no broker has the topic {}", topic);
  refusal.measured = fmt::format("{} brokers, {} topics are registered", broker_count_, topics_.size());
  refusal.retry_after_ms = 1000;  // its broker may be about to register
  return refusal;
}

reply::Cluster Registry::cluster(Monotonic now) const {
  reply::Cluster out;
  for (const auto& [name, broker] : brokers_)
    for (const auto& [id, instance] : broker.instances)
      out.brokers.push_back({broker.cluster, name, instance.address, instance.version, id, (now - instance.last_word).ms(),
                             static_cast<int32_t>(instance.topics.size()), !wiped_.contains(name)});
  return out;
}

std::optional<reply::TopicsChanged> Registry::set_writable(std::string_view broker_name, bool is_writable) {
  const auto broker = brokers_.find(broker_name);
  if (broker == brokers_.end()) return std::nullopt;
  const bool is_change = is_writable ? wiped_.erase(broker->first) > 0 : wiped_.insert(broker->first).second;
  // Names that nobody has any more make room.
  if (wiped_.size() > limits_.brokers_max) std::erase_if(wiped_, [this](const std::string& name) { return !brokers_.contains(name); });
  size_t topics = 0;
  for (const auto& [id, instance] : broker->second.instances) topics = std::max(topics, instance.topics.size());
  return reply::TopicsChanged{is_change ? static_cast<int32_t>(topics) : 0};
}

reply::Topics Registry::topics(std::string_view after, int32_t count_max) const {
  reply::Topics out;
  const auto limit = static_cast<size_t>(std::max(count_max, 0));
  auto next = topics_.upper_bound(after);
  for (; next != topics_.end() && out.topics.size() < limit; ++next) {
    const TopicConfig* config = nullptr;
    for (const auto& [name, broker] : brokers_) {
      for (const auto& [id, instance] : broker.instances) {
        if (config == nullptr) config = find_topic(instance.topics, next->first);
      }
    }
    CHECK(config != nullptr, "topic {} is counted but in no table", next->first);
    out.topics.push_back(*config);
  }
  out.has_more = next != topics_.end();
  return out;
}

}  // namespace fulmar
