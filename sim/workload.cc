#include "core/client/forwarder.h"
#include "sim/workload.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/client/caller.h"
#include "core/client/compression.h"
#include "core/client/producer.h"
#include "core/store/record.h"

namespace fulmar::sim {
namespace {

// From the fifth on tags have a negative Java hash.
std::string tag_name(uint64_t number) { return fmt::format("{}-{}", number < 4 ? "tag" : "label", number); }
// The Java hash of "topic-0#aqmjerk" is Integer.MIN_VALUE, which has no absolute value.
std::string key_name(uint64_t number) { return number == 40 ? "aqmjerk" : fmt::format("key-{}", number); }

}  // namespace

Workload::Workload(World& world, Court& court, const Scenario& scenario) : world_(world), court_(court), scenario_(scenario), plan_(scenario.load), churn_draws_(scenario.seed, load_domain(8), 0), made_draws_(scenario.seed, load_domain(14), 0), deletions_left_(scenario.load.deletions) {
  for (size_t i = 0; i < scenario.nodes.size(); ++i) {
    if (scenario.nodes[i].kind == NodeKind::Client && !scenario.nodes[i].is_raw) clients_.push_back(NodeId(static_cast<uint32_t>(i)));
  }
  CHECK(!clients_.empty());
  for (uint32_t i = 0; i < plan_.topics; ++i) topics_.push_back(fmt::format("topic-{}", i));
  const Seed seed = scenario.seed;
  for (uint32_t i = 0; i < plan_.producers; ++i) producers_.push_back({i, clients_[i % clients_.size()], KeyedStream(seed, load_domain(0), i), KeyedStream(seed, load_domain(11), i)});
  for (uint32_t i = 0; i < plan_.groups; ++i) {
    Group group = new_group(i, topics_[i % topics_.size()]);
    const bool is_split = plan_.split.numerator > 0 && group.members.size() > 1 && group.members.front().draws.chance(plan_.split);
    if (is_split) {
      Group other = group;
      other.topic = topics_[(i + 1) % topics_.size()];
      other.label = fmt::format("{}@{}", other.name, other.topic);
      other.members.erase(other.members.begin(), other.members.begin() + static_cast<ptrdiff_t>(other.members.size() / 2));
      group.members.resize(group.members.size() / 2, group.members.front());
      groups_.push_back(std::move(other));
    }
    groups_.push_back(std::move(group));
  }
  for (size_t i = 0; i < scenario.nodes.size(); ++i) {
    if (!scenario.nodes[i].is_raw) continue;
    const auto number = static_cast<uint32_t>(producers_.size() + peers_.size());
    peers_.push_back({number, NodeId(static_cast<uint32_t>(i)), KeyedStream(seed, load_domain(10), number), KeyedStream(seed, load_domain(12), number)});
  }
  CHECK(plan_.deletions == 0 || plan_.topics > 1, "the last topic comes and goes, the others stay");
  for (uint32_t i = 0; i < plan_.committers; ++i) committers_.push_back({fmt::format("committer-{}", i), clients_[i % clients_.size()], KeyedStream(seed, load_domain(2), i), {}});
}

Workload::Group Workload::new_group(uint32_t number, const std::string& topic) {
  const std::string name = fmt::format("group-{}", number);
  Group group{name, fmt::format("{}@{}", name, topic), topic, "*", {}, false, {}};
  for (uint32_t i = 0; i < plan_.members; ++i) {
    const uint64_t entity = number + uint64_t{i} * 1000;
    // From the other end than producers and committers, who are not to be lost with a member.
    const size_t client = plan_.members > 1 ? clients_.size() - 1 - (number + i) % clients_.size() : (number + i) % clients_.size();
    group.members.push_back({clients_[client], {}, false, KeyedStream(scenario_.seed, load_domain(1), entity), KeyedStream(scenario_.seed, load_domain(9), entity)});
  }
  KeyedStream& draws = group.members.front().draws;
  if (plan_.tag_pool > 1 && draws.chance({1, 3})) {
    const std::string other = tag_name(plan_.tag_pool > 4 ? 4 : 1);
    group.tags = {"tag-0", other};
    group.expression = "tag-0 || " + other;
  }
  group.is_pipelined = plan_.pipelined.numerator > 0 && draws.chance(plan_.pipelined);
  return group;
}

// --- asking ---------------------------------------------------------------------------------------------------------------------------

void Workload::after(Duration delay, std::function<void()> what) { world_.at(world_.now() + delay, std::move(what)); }

bool Workload::ask(NodeId client, const Command& command, Duration limit, OnReply on_reply, bool has_many_answers, CallId* made) {
  const CallId call(next_call_++);
  if (!world_.tell(client, call, command)) return false;
  const Duration patience = Forwarder::carries_records(command) ? ForwarderLimits{}.patience : Duration{};
  court_.told(call, client, name_of(command), limit + patience, has_many_answers);
  calls_.emplace(call, Call{client, std::move(on_reply), has_many_answers});
  if (!has_many_answers) ++quiet_calls_;
  if (made != nullptr) *made = call;
  return true;
}

void Workload::ask_until(NodeId client, std::function<Command()> make, std::function<bool(const Reply&)> is_done, Duration limit) {
  const auto again = [this, client, make, is_done, limit] {
    after(Duration::milliseconds(150), [this, client, make, is_done, limit] { ask_until(client, make, is_done, limit); });
  };
  const bool is_asked = ask(client, make(), limit, [is_done, again](const Reply& reply) {
    if (!is_done(reply)) again();
  });
  if (!is_asked) again();
}

bool Workload::is_ours(NodeId node) const {
  return std::find(clients_.begin(), clients_.end(), node) != clients_.end() ||
         std::any_of(peers_.begin(), peers_.end(), [&](const Producer& p) { return p.client == node; });
}

void Workload::on_reply(World&, Life who, CallId call, const Reply& reply) {
  if (!is_ours(who.node) && !std::holds_alternative<reply::Metrics>(reply)) return;   // of brokers we ask that only
  court_.answered(call);
  inbox_.emplace_back(call, reply);
  if (std::exchange(is_settling_, true)) return;
  after(Duration{}, [this] { settle_inbox(); });
}

void Workload::settle_inbox() {
  is_settling_ = false;
  while (!inbox_.empty()) {
    const auto [call, reply] = std::move(inbox_.front());
    inbox_.pop_front();
    const auto it = calls_.find(call);
    if (it == calls_.end()) continue;
    const OnReply on_reply = it->second.on_reply;
    if (!it->second.has_many_answers) {
      calls_.erase(it);
      --quiet_calls_;
    }
    on_reply(reply);
  }
}

void Workload::on_life(World&, Life who, LifeChange change, const Error*) {
  if (!is_ours(who.node)) return;
  if (change == LifeChange::Paused || change == LifeChange::Resumed) return;
  if (change == LifeChange::Started) {
    after(Duration::milliseconds(20), [this, who] {
      if (world_.life(who.node) != who || !is_subscribing_) return;
      for (size_t i = 0; i < groups_.size(); ++i) {
        for (size_t m = 0; m < groups_[i].members.size(); ++m)
          if (groups_[i].members[m].client == who.node && topics_open_ == 0) subscribe({i, m});
      }
    });
    return;
  }
  for (size_t i = 0; i < groups_.size(); ++i) {
    for (size_t m = 0; m < groups_[i].members.size(); ++m)
      if (groups_[i].members[m].client == who.node) let_go({i, m});
  }
  for (const auto& [id, call] : calls_) {
    if (call.client != who.node || call.has_many_answers) continue;
    inbox_.emplace_back(id, Refusal{Code::ServiceNotAvailable, std::string(kOutcomeUnknown) + "the client died", "", 0});
  }
  if (!std::exchange(is_settling_, true)) after(Duration{}, [this] { settle_inbox(); });
}

bool Workload::is_quiet() const { return quiet_calls_ == 0 && inbox_.empty(); }

std::string Workload::state() const {
  return fmt::format("{} topics are not made, {} are away, {} probes and {} calls are open, {} questions of a reading", topics_open_, churns_open_, probes_open_, quiet_calls_, reading_.open);
}

// --- topics ---------------------------------------------------------------------------------------------------------------------------

void Workload::begin() {
  topics_open_ = topics_.size();
  for (const std::string& topic : topics_) {
    if (plan_.is_created_by_sending) --topics_open_;
    else create_topic(topic);
  }
  if (topics_open_ == 0) start_producing();
}

void Workload::create_topic(const std::string& topic) {
  ask_until(
      reader_client(), [this, topic] { return Command(command::CreateTopic{.topic = topic, .read_queues = plan_.queues, .write_queues = plan_.queues}); },
      [this](const Reply& reply) {
        if (!std::holds_alternative<reply::Ok>(reply)) return false;
        if (--topics_open_ == 0) start_producing();
        return true;
      });
}

void Workload::start_producing() {
  for (size_t i = 0; i < producers_.size(); ++i) produce(i);
  for (size_t i = 0; i < committers_.size(); ++i) after(Duration::milliseconds(500), [this, i] { commit(i); });
  for (size_t i = 0; i < groups_.size(); ++i)
    for (size_t m = 0; m < groups_[i].members.size(); ++m) subscribe({i, m});
  for (size_t i = 0; i < peers_.size(); ++i) send_one_way(i);
  delete_later();
  if (plan_.makes_groups) make_groups();
}

// --- producers ------------------------------------------------------------------------------------------------------------------------

void Workload::produce(size_t index) {
  if (!is_sending_ || sequence_total_ >= plan_.messages_max) return;
  Producer& p = producers_[index];
  if (p.in_flight < plan_.in_flight_max) {
    if (p.draws.chance(plan_.batched)) send_batch(p);
    else send_one(p, false, topics_[p.draws.below(topics_.size())]);
  }
  int64_t gap = p.draws.between(plan_.gap_min.ns, plan_.gap_max.ns);
  if (plan_.rests.numerator > 0 && p.draws.chance(plan_.rests)) gap += plan_.rest.ns;
  after(Duration{gap}, [this, index] { produce(index); });
}

SentMessage Workload::new_message(Producer& p, const std::string& topic) {
  ++sequence_total_;
  SentMessage m;
  m.producer = p.number;
  m.sequence = ++p.sequence;
  m.id = {mix64(scenario_.seed.value, p.number), mix64(mix64(scenario_.seed.value, 7 + p.number), m.sequence)};
  m.topic = topic;
  m.flag = static_cast<int32_t>(p.draws.below(5));
  m.born_ms = world_.clock(world_.host_of(p.client)).wall(world_.now()).ms;
  const bool is_large = p.draws.chance(plan_.large);
  m.body_bytes = static_cast<uint32_t>(p.draws.log_between(plan_.body_bytes_min, is_large ? plan_.large_bytes_max : plan_.body_bytes_max));
  const auto add = [&](std::string_view name, std::string_view value) { CHECK(property::add(m.properties, name, value).has_value()); };
  add(property::kUniqueKey, to_text(m.id));
  if (p.draws.chance(plan_.tagged)) {
    m.tags = tag_name(p.draws.below(plan_.tag_pool));
    add(property::kTags, m.tags);
  }
  if (p.draws.chance(plan_.keyed)) {
    const uint64_t count = 1 + p.draws.below(2);
    std::string keys;
    for (uint64_t i = 0; i < count; ++i) {
      m.keys.push_back(key_name(p.draws.below(plan_.key_pool)));
      keys += (keys.empty() ? "" : " ") + m.keys.back();
    }
    add(property::kKeys, keys);
  }
  if (!plan_.is_uniform && p.draws.chance({1, 8})) add("na\xC3\xAFve", "sch\xC3\xB6n \xE2\x82\xAC \xF0\x9F\x90\xA6");
  if (plan_.has_bound_lengths && p.draws.chance(plan_.long_properties)) {
    constexpr uint64_t kOverhead = 6, kAbout = 32'767;   // the name and two separators; what a signed length takes
    add("long", std::string(kAbout - 30 + p.draws.below(35) - kOverhead - m.properties.size(), 'x'));
  } else if (p.draws.chance(plan_.long_properties)) add("long", std::string(p.draws.log_between(100, 40'000), 'x'));
  if (!plan_.is_uniform && p.draws.chance({1, 16})) m.properties.pop_back();  // the last separator is optional
  m.asked_ns = world_.now().ns;
  return m;
}

void Workload::choose_manner(Producer& p, SentMessage& m, const command::SendMessage& send) {
  m.is_compressible = p.manners.chance(plan_.compressible) && !plan_.is_uniform;
  m.is_one_way = p.manners.chance(plan_.one_way);
  const bool is_sharded = p.manners.chance(plan_.sharded) && send.queue_id < 0 && !plan_.is_uniform && m.properties.size() < 20'000;
  const uint64_t shard = p.manners.below(plan_.shard_pool);
  if (is_sharded) {
    m.sharding_key = fmt::format("shard-{}", shard);
    if (m.properties.back() != property::kPairEnd) m.properties += property::kPairEnd;
    CHECK(property::add(m.properties, kShardingKeyProperty, m.sharding_key).has_value());
  }
  // As the client will do it: places in the log follow from it.
  const ClientConfig config = parse_client_config(scenario_.nodes[p.client.value()].config, nullptr).value();
  if (!m.is_compressible || m.body_bytes < config.compress_over_bytes) return;
  std::vector<uint8_t> packed;
  fill_body(m, body_);
  if (compress(config.compress_type, config.compress_level, body_, packed)) m.compressed_bytes = static_cast<uint32_t>(packed.size());
}

void Workload::send_one(Producer& p, bool is_probe, const std::string& topic) {
  SentMessage made = new_message(p, topic);
  command::SendMessage send{.topic = topic, .flag = made.flag, .born = {made.born_ms}, .properties = {}, .body = {}, .broker = {}};
  if (p.draws.chance(plan_.picks_queue)) send.queue_id = static_cast<int32_t>(p.draws.below(static_cast<uint64_t>(plan_.queues)));
  if (!is_probe) choose_manner(p, made, send);
  if (made.is_one_way) send.sys_flag |= kOneWay;
  const SentMessage& m = court_.ledger().add(std::move(made));
  fill_body(m, body_);
  send.properties = as_bytes(m.properties);
  send.body = body_;
  const MessageId id = m.id;
  ++p.in_flight;
  const size_t number = p.number;
  const bool is_asked = ask(p.client, send, Duration::seconds(6), [this, number, id, topic, is_probe](const Reply& reply) {
    --producers_[number].in_flight;
    on_sent({id}, topic, reply);
    if (!is_probe) return;
    const auto* sent = std::get_if<reply::Sent>(&reply);
    if (sent != nullptr && sent->code == Code::Success) --probes_open_;
    else after(Duration::milliseconds(100), [this, number, topic] { send_one(producers_[number], true, topic); });
  });
  if (is_asked) return;
  --p.in_flight;
  court_.settled({id}, Fate::Refused);  // it never left
  if (is_probe) after(Duration::milliseconds(100), [this, number, topic] { send_one(producers_[number], true, topic); });
}

std::vector<MessageId> Workload::pack_batch(Producer& p, const std::string& topic, uint64_t count, int64_t born_ms, std::vector<uint8_t>& packed) {
  std::vector<MessageId> ids;
  for (uint64_t i = 0; i < count; ++i) {
    SentMessage m = new_message(p, topic);
    m.is_batched = true;
    m.born_ms = born_ms;
    fill_body(m, body_);
    append_batch_item(packed, {m.flag, as_bytes(m.properties), body_});
    ids.push_back(m.id);
    court_.ledger().add(std::move(m));
  }
  return ids;
}

void Workload::send_batch(Producer& p) {
  const std::string topic = topics_[p.draws.below(topics_.size())];
  const uint64_t count = p.draws.log_between(2, plan_.batch_max);
  std::vector<uint8_t> packed;
  const int64_t born = world_.clock(world_.host_of(p.client)).wall(world_.now()).ms;
  const std::vector<MessageId> ids = pack_batch(p, topic, count, born, packed);
  command::SendBatch send{.topic = topic, .born = {born}, .packed = packed, .broker = {}};
  if (p.draws.chance(plan_.picks_queue)) send.queue_id = static_cast<int32_t>(p.draws.below(static_cast<uint64_t>(plan_.queues)));
  ++p.in_flight;
  const size_t number = p.number;
  const bool is_asked = ask(p.client, send, Duration::seconds(6), [this, number, ids, topic](const Reply& reply) {
    --producers_[number].in_flight;
    on_sent(ids, topic, reply);
  });
  if (is_asked) return;
  --p.in_flight;
  court_.settled(ids, Fate::Refused);
}

void Workload::on_sent(const std::vector<MessageId>& ids, const std::string& topic, const Reply& reply) {
  if (const auto* sent = std::get_if<reply::Sent>(&reply)) return court_.settled_ok(ids, *sent, topic);
  // On its way is all that anybody ever hears of one that went one way.
  if (std::holds_alternative<reply::Ok>(reply) && court_.ledger().find(ids.front())->is_one_way) return court_.settled(ids, Fate::Unknown);
  const auto* refusal = std::get_if<Refusal>(&reply);
  if (refusal == nullptr) return court_.fail("O22", fmt::format("a send is answered with {}", describe(reply)));
  court_.settled(ids, is_outcome_unknown(*refusal) ? Fate::Unknown : Fate::Refused);
}

// A topic is made at the brokers that name servers know, and one that lost its memory knows a broker again with its next heartbeat.
void Workload::begin_probe() {
  ++probes_open_;
  ask_until(
      reader_client(), [] { return Command(command::QueryRoute{.topic = kMetaTopic}); },
      [this](const Reply& reply) {
        const auto* route = std::get_if<reply::Route>(&reply);
        if (route == nullptr || route->brokers.size() < court_.brokers().size()) return false;
        --probes_open_;
        probe_topics();
        probe_flood();
        return true;
      });
}

void Workload::probe_topics() {
  // A broker that was away when a topic was made gets it now.
  for (const std::string& topic : topics_) {
    ++probes_open_;
    ask_until(
        reader_client(), [this, topic] { return Command(command::CreateTopic{.topic = topic, .read_queues = plan_.queues, .write_queues = plan_.queues}); },
        [this](const Reply& reply) {
          if (!std::holds_alternative<reply::Ok>(reply)) return false;
          --probes_open_;
          return true;
        });
  }
  for (size_t client = 0; client < clients_.size(); ++client) {
    const auto owner = std::find_if(producers_.begin(), producers_.end(), [&](const Producer& p) { return p.client == clients_[client]; });
    if (owner == producers_.end()) continue;
    for (const std::string& topic : topics_) {
      ++probes_open_;
      send_one(*owner, true, topic);
    }
  }
}

// --- consumers ------------------------------------------------------------------------------------------------------------------------

void Workload::subscribe(Place place) {
  const Group& group = groups_[place.group];
  Member& m = member(place);
  if (m.is_subscribed) return;
  court_.groups().subscribed(group.label, group.topic, group.tags, group.is_pipelined);
  command::Subscribe subscribe{.group = group.name, .topic = group.topic, .subscription = group.expression,
                               .from = command::Subscribe::From::First, .count_max = 32};
  if (group.is_pipelined) {
    subscribe.count_max = 8;
    subscribe.queue_messages_max = 40;
    subscribe.messages_max = 100;
    subscribe.queue_bytes_max = 16'000;
    subscribe.bytes_max = 40'000;
  }
  m.is_subscribed = ask(m.client, subscribe, Duration::seconds(1), [this, place, turn = ++m.turn](const Reply& reply) {
    // What was on its way when it left is nobody's.
    const Member& owner = member(place);
    if (!owner.is_subscribed || owner.turn != turn) return;
    if (const auto* delivered = std::get_if<reply::Delivered>(&reply)) return on_delivered(place, *delivered);
    if (const auto* assigned = std::get_if<reply::Assigned>(&reply)) return court_.ownership().assigned(groups_[place.group].label, owner.call.value(), assigned->queues);
    court_.fail("O22", fmt::format("a subscription is answered with {}", describe(reply)));
  }, true, &m.call);
}

void Workload::let_go(Place place) {
  Member& m = member(place);
  if (!std::exchange(m.is_subscribed, false)) return;
  court_.groups().let_go(groups_[place.group].label, m.call.value());
  court_.ownership().gone(groups_[place.group].label, m.call.value());
}

void Workload::on_delivered(Place place, const reply::Delivered& delivered) {
  const Group& group = groups_[place.group];
  Member& m = member(place);
  const QueueKey queue{delivered.broker, delivered.topic, delivered.queue_id};
  const std::vector<Court::Item> items = court_.read(group.label, queue, delivered.records, true);
  if (is_resetting_) began_since_reset_[{group.label, queue}].insert(delivered.first.value());
  if (const auto reset = reset_to_.find({group.label, queue}); reset != reset_to_.end() && delivered.first.value() == reset->second) {
    reset_to_.erase(reset);
    --resets_open_;
  }
  court_.delivered(group.label, queue, m.call.value(), delivered.first.value(), delivered.next.value(), items);
  if (leave(place)) return;
  const Life life = world_.life(m.client);
  after(Duration{m.draws.between(0, plan_.think_max.ns)}, [this, place, queue, next = delivered.next, life, call = m.call] {
    const Member& now = member(place);
    // Who left meanwhile and came back has other batches.
    if (world_.life(now.client) != life || !now.is_subscribed || now.call != call) return;
    court_.groups().consumed(groups_[place.group].label, queue, call.value(), next.value());
    const command::Consumed consumed{.subscription_call = call.value(), .broker = queue.broker, .queue_id = queue.queue_id, .next = next};
    (void)ask(now.client, consumed, Duration::seconds(6), [](const Reply&) {});
  });
}

void Workload::unsubscribe_all() {
  is_subscribing_ = false;
  for (size_t i = 0; i < groups_.size(); ++i) {
    for (size_t m = 0; m < groups_[i].members.size(); ++m) {
      const Member& one = groups_[i].members[m];
      if (!one.is_subscribed) continue;
      const command::Unsubscribe leave{.subscription_call = one.call.value()};
      let_go({i, m});
      (void)ask(one.client, leave, Duration::seconds(12), [](const Reply&) {});
    }
  }
}

// --- committers -----------------------------------------------------------------------------------------------------------------------

void Workload::commit(size_t index) {
  if (!is_sending_) return;
  Committer& c = committers_[index];
  const auto again = [this, index] {
    after(Duration{committers_[index].draws.between(plan_.commit_gap_min.ns, plan_.commit_gap_max.ns)}, [this, index] { commit(index); });
  };
  const auto& brokers = court_.brokers();
  const QueueKey queue{brokers[c.draws.below(brokers.size())].geometry.name, topics_[c.draws.below(topics_.size() - (plan_.deletions > 0 ? 1 : 0))],
                       static_cast<int32_t>(c.draws.below(static_cast<uint64_t>(plan_.queues)))};
  const int64_t next = court_.order().end_of(queue);
  if (c.draws.chance({1, 3})) {
    const CommittedOffsets::Floor floor = court_.offsets().begin_query(c.group, queue);
    const command::QueryOffset query{.group = c.group, .topic = queue.topic, .queue_id = queue.queue_id, .broker = queue.broker};
    const bool is_asked = ask(c.client, query, Duration::seconds(12), [this, index, queue, floor, again](const Reply& reply) {
      if (const auto* offset = std::get_if<reply::Offset>(&reply)) court_.offsets().answered(committers_[index].group, queue, floor, offset->offset.value());
      else if (const auto* r = std::get_if<Refusal>(&reply); r != nullptr && r->code == Code::QueryNotFound) court_.offsets().answered(committers_[index].group, queue, floor, std::nullopt);
      again();
    });
    if (!is_asked) again();
    return;
  }
  const auto last = c.last.find(queue);
  if (next == 0 || (last != c.last.end() && last->second >= next)) return again();
  const bool needs_flush = c.draws.chance({1, 2});
  const uint64_t losses = court_.offsets().asked(c.group, queue, next);
  c.last[queue] = next;
  const uint64_t life = court_.broker(queue.broker)->recoveries;
  const command::CommitOffset command{.group = c.group, .topic = queue.topic, .queue_id = queue.queue_id, .offset = QueueOffset(next), .needs_flush = needs_flush, .broker = queue.broker};
  const bool is_asked = ask(c.client, command, Duration::seconds(12), [this, index, queue, next, needs_flush, life, losses, again](const Reply& reply) {
    // An answer that crossed a crash says nothing about the broker as it is now.
    if (std::holds_alternative<reply::Ok>(reply) && court_.broker(queue.broker)->recoveries == life) {
      court_.offsets().acked(committers_[index].group, queue, next, needs_flush, losses);
    } else if (!std::holds_alternative<reply::Ok>(reply)) {
      court_.offsets().lost_track(committers_[index].group, queue);
    }
    again();
  });
  if (!is_asked) again();
}

}  // namespace fulmar::sim
