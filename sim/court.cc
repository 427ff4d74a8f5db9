#include "sim/court.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "sim/oracles/fsck.h"
#include "sim/wire_watch.h"

namespace fulmar::sim {
namespace {

constexpr uint64_t kAppended = hash_text("Appended"), kFlushed = hash_text("Flushed"), kMessageAcked = hash_text("MessageAcked"),
                   kPossibleLoss = hash_text("PossibleLoss"), kRecovered = hash_text("Recovered"), kRotFound = hash_text("RotFound"),
                   kBrokerServing = hash_text("BrokerServing"), kRoundDone = hash_text("RoundDone"), kRebuildDerived = hash_text("RebuildDerived"),
                   kQueuesRebuilt = hash_text("QueuesRebuilt"), kIndexRebuilt = hash_text("IndexRebuilt"), kDispatchStopped = hash_text("DispatchStopped"), kQueueGap = hash_text("QueueGap"),
                   kSegmentExpired = hash_text("SegmentExpired"), kQueuesMeasured = hash_text("QueuesMeasured"), kStopUnwritten = hash_text("StopUnwritten"), kLogBegins = hash_text("LogBegins");

std::vector<std::string> keys_of(const StoredRecord& record) {
  std::vector<std::string> keys;
  if (const auto unique = record.property("UNIQ_KEY")) keys.emplace_back(*unique);
  std::string_view rest = record.property("KEYS").value_or("");
  while (!rest.empty()) {
    const size_t end = rest.find(' ');
    if (end != 0) keys.emplace_back(rest.substr(0, end));
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  return keys;
}

// The topic that a record about topics and offsets makes or deletes with its first item: version, then per item kind, bytes, name (u16 and
// text) and more. Empty: it changes offsets.
std::string changed_topic(Bytes bytes) {
  constexpr uint8_t kTopicSet = 1, kTopicRemoved = 2;
  const RecordOutcome outcome = read_stored_record(bytes);
  if (outcome.kind != RecordOutcome::Kind::Record) return {};
  Reader body(outcome.record.body);
  body.skip(1);
  const uint8_t kind = body.u8();
  body.skip(4);
  const uint16_t name_bytes = body.u16();
  const std::string name(body.text(name_bytes));
  return body.ok() && (kind == kTopicSet || kind == kTopicRemoved) ? name : std::string();
}

}  // namespace

Court::Court(World& world, const Scenario& scenario) : world_(world), scenario_(scenario), once_(*this, scenario.oracles.expects_prompt) {
  for (size_t i = 0; i < scenario.nodes.size(); ++i) {
    const NodePlan& plan = scenario.nodes[i];
    if (plan.kind != NodeKind::Broker) continue;
    BrokerFacts facts;
    facts.node = NodeId(static_cast<uint32_t>(i));
    facts.host = HostId(plan.host);
    facts.geometry = geometry_of(plan);
    no_loss_.add_broker(plan.name, facts.geometry.is_sync);
    truth_.add_broker(plan.name, facts.geometry.is_sync);
    stability_.add_broker(plan.name, facts.geometry.is_sync);
    const BrokerGeometry& g = facts.geometry;
    retention_.add_broker(plan.name, {g.reserved_ms != 0 ? g.reserved_ms : INT64_MAX / 4, g.retain_bytes_max, g.deletes_forcibly, g.keeps_unread});
    brokers_.push_back(std::move(facts));
  }
  if (scenario.oracles.checks_wire) wire_ = std::make_unique<WireWatch>(
      answers_, WireWatch::TopicEvents{[this](Life who, const std::string& topic) {
                                         BrokerFacts* b = broker_at(who.node);
                                         return b == nullptr ? 0 : b->topic_changes[topic].size();
                                       },
                                       [this](Life who, const std::string& topic, size_t change, const Reply& reply) {
                                         if (const BrokerFacts* b = broker_at(who.node)) check_topic_answer(*b, topic, change, reply);
                                       }});
}
Court::~Court() = default;

void Court::violated(std::string_view oracle, std::string sentence) { world_.fail(oracle, std::move(sentence)); }

Court::BrokerFacts* Court::broker(std::string_view name) {
  const auto it = std::find_if(brokers_.begin(), brokers_.end(), [&](const BrokerFacts& b) { return b.geometry.name == name; });
  return it == brokers_.end() ? nullptr : &*it;
}
Court::BrokerFacts* Court::broker_at(NodeId node) {
  const auto it = std::find_if(brokers_.begin(), brokers_.end(), [&](const BrokerFacts& b) { return b.node == node; });
  return it == brokers_.end() ? nullptr : &*it;
}

// --- what clients were told -----------------------------------------------------------------------------------------------------------

void Court::told(CallId call, NodeId node, std::string_view what, Duration limit, bool has_many_answers) {
  answers_.told(call.value(), world_.name(node), what, (world_.now() + limit).ns, has_many_answers);
}

bool Court::was_recovered_since(const BrokerFacts& broker, const SentMessage& message) const {
  return std::any_of(broker.past.begin(), broker.past.end(), [&](const Recovery& r) { return r.at_ns >= message.asked_ns; });
}

void Court::settled_ok(const std::vector<MessageId>& ids, const reply::Sent& sent, const std::string& topic) {
  BrokerFacts* b = broker(sent.broker);
  if (b == nullptr) return violated("O2", fmt::format("a send of {} is told to have gone to broker '{}', which does not exist", topic, sent.broker));
  if (static_cast<size_t>(sent.count) != ids.size()) {
    violated("O2", fmt::format("{} messages were sent together and {} were stored", ids.size(), sent.count));
  }
  uint64_t physical = sent.physical_offset.value();
  int64_t queue_offset = sent.queue_offset.value();
  for (const MessageId id : ids) {
    SentMessage& m = *ledger_.find(id);
    m.fate = sent.code == Code::Success ? Fate::Acked : Fate::StoredOnly;
    m.answered_ns = world_.now().ns;
    m.queue = {sent.broker, topic, sent.queue_id};
    m.queue_offset = queue_offset++;
    m.physical = physical;
    m.has_crc = b->geometry.has_crc;
    physical = m.physical_end();
    if (physical <= b->log_begin) m.may_vanish = true;   // the answer was on its way for longer than the message stayed
    no_loss_.acked(m);
    // When the broker came back in between, the place may be one that is gone: what is read decides.
    if (was_recovered_since(*b, m)) continue;
    order_.acked(m);
    if (m.fate == Fate::Acked) truth_.told_ok(m);
    if (m.fate == Fate::Acked) acked_.push_back(id);
  }
}

void Court::settled(const std::vector<MessageId>& ids, Fate fate) {
  for (const MessageId id : ids) {
    SentMessage& m = *ledger_.find(id);
    m.fate = fate;
    m.answered_ns = world_.now().ns;
    if (fate == Fate::Refused) authentic_.refused(m);
  }
}

void Court::hurt(const QueueKey& queue, int64_t offset, Rot rot, bool is_seen) {
  // Who may notice at start says so and is read-only; all others keep what they had. One record is gone, and nothing else.
  broker(queue.broker)->is_hurt = true;
  hurt_queues_.insert(queue);
  if (!is_seen) unseen_rot_[queue.broker] = std::move(rot);
  order_.lost(queue, offset);
  for (const SentMessage& m : ledger_.all()) {
    if (m.queue == queue && m.queue_offset == offset) ledger_.find(m.id)->may_vanish = true;
  }
  offsets_.ends_at(queue);
}

void Court::topic_goes(const std::string& topic) {
  deleted_topics_.insert(topic);
  groups_.comes_and_goes(topic);
}

void Court::topic_is_gone(const std::string& topic) {
  for (const SentMessage& m : ledger_.all()) {
    if (m.topic == topic) ledger_.find(m.id)->may_vanish = true;
  }
}

std::vector<Court::Item> Court::read(std::string_view reader, const QueueKey& queue, Bytes records, bool is_from_queue) {
  std::vector<Item> items;
  while (!records.empty()) {
    const RecordOutcome outcome = read_stored_record(records);
    if (outcome.kind != RecordOutcome::Kind::Record) {
      authentic_.unreadable(reader, queue, outcome.kind == RecordOutcome::Kind::Broken ? outcome.why : "a filler or zeros");
      return items;
    }
    Seen seen{reader, queue, outcome.record.queue_offset, outcome.record};
    if (!is_from_queue) seen.queue.queue_id = outcome.record.queue_id;
    Item item{seen.queue_offset, static_cast<uint64_t>(outcome.record.physical), authentic_.read(seen), keys_of(outcome.record), outcome.record.stored_ms};
    if (item.id) {
      order_.read(seen, *item.id);
      places_.read(seen, *ledger_.find(*item.id));
      stability_.read(seen, *item.id);
    }
    items.push_back(std::move(item));
    records = records.subspan(outcome.record.bytes);
  }
  return items;
}

void Court::delivered(const std::string& group, const QueueKey& queue, uint64_t holder, int64_t first, int64_t next, const std::vector<Item>& items) {
  std::vector<int64_t> offsets;
  for (const Item& item : items) offsets.push_back(item.queue_offset);
  groups_.delivered(group, queue, holder, first, next, offsets);
  once_.delivered(group, queue, offsets);
}


// --- a complete reading ---------------------------------------------------------------------------------------------------------------

void Court::begin_reading() {
  visible_.clear();
  visible_count_.clear();
  index_.forget();
  metrics_.begin_reading();
  for (const BrokerFacts& b : brokers_) begins_when_read_[b.geometry.name] = b.log_begin;
  duplicated_ = 0;
}

void Court::read_queue(std::string_view reader, const QueueKey& queue, int64_t min, int64_t max, int64_t known_end, const std::vector<Item>& items) {
  std::vector<int64_t> offsets;
  for (const Item& item : items) {
    offsets.push_back(item.queue_offset);
    if (!item.id) continue;
    visible_.push_back({queue, item.queue_offset, *item.id, item.physical});
    if (++visible_count_[*item.id] > 1) ++duplicated_;
    index_.visible(queue.broker, queue.topic, item.keys, *item.id, item.physical, item.stored_ms);
  }
  order_.read_all(reader, queue, min, max, offsets, known_end);
  const uint64_t life = broker(queue.broker)->log_end;
  metrics_.readable(queue, min, max, static_cast<uint64_t>(std::count_if(items.begin(), items.end(), [life](const Item& item) { return item.physical >= life; })));
}

void Court::judge_metrics(const BrokerFacts& b, const std::vector<reply::Metrics>& pages, const std::vector<std::string>& groups) {
  const std::string& name = b.geometry.name;
  const bool is_hurt = b.is_damaged || b.is_hurt || std::any_of(hurt_queues_.begin(), hurt_queues_.end(), [&](const QueueKey& q) { return q.broker == name; });
  // What retention took was counted; what it takes meanwhile moves minima.
  if (is_hurt || b.log_begin > b.log_end || b.log_begin != begins_when_read_[name]) metrics_.cannot_know(name);
  for (const reply::Metrics& page : pages) metrics_.said(name, page);
  std::vector<std::string> certain;   // of the others a commit may still arrive, between the question and the metrics
  for (const std::string& group : groups)
    if (!offsets_.has_lost_track(group, name)) certain.push_back(group);
  std::map<std::string, uint64_t> may_arrive;   // attempts that were given up, of messages that another attempt brought in, too
  for (const SentMessage& m : ledger_.all())
    if (!scenario_.oracles.expects_prompt) ++may_arrive[m.topic];
  metrics_.judge(name, certain, may_arrive);
}

void Court::end_reading() {
  no_loss_.read_everything(visible_count_);
  for (const auto& [id, places] : visible_count_) once_.found(id, places);
}

// Not what a deletion that a power cut took back shows again, for the group had passed over it; and not what retention took since it was read:
// where a message stands whose answer never came is known from the reading alone.
bool Court::is_owed(const Visible& v) const {
  const auto at = std::find_if(brokers_.begin(), brokers_.end(), [&](const BrokerFacts& b) { return b.geometry.name == v.queue.broker; });
  return !ledger_.find(v.id)->may_vanish && (at == brokers_.end() || v.physical >= at->log_begin);
}

std::string Court::undelivered() const {
  for (const auto& [group, wish] : groups_.groups()) {
    for (const Visible& v : visible_) {
      const SentMessage* m = ledger_.find(v.id);
      if (!is_owed(v) || !groups_.misses(group, v.queue, v.queue_offset, m->tags)) continue;
      return fmt::format("group {} has not consumed {} offset {}", group, v.queue.text(), v.queue_offset);
    }
  }
  return {};
}

std::vector<uint64_t> Court::appended_now() const {
  std::vector<uint64_t> ends;
  for (const BrokerFacts& b : brokers_) ends.push_back(b.appended);
  return ends;
}

std::string Court::unflushed(const std::vector<uint64_t>& goal) const {
  std::string text;
  for (size_t i = 0; i < brokers_.size(); ++i) {
    const BrokerFacts& b = brokers_[i];
    if (b.flushed < goal[i]) text += fmt::format("{} has flushed up to {} of {}; ", b.geometry.name, b.flushed, goal[i]);
  }
  return text;
}

void Court::demand_delivery() {
  for (const auto& [group, wish] : groups_.groups()) {
    for (const Visible& v : visible_) {
      if (is_owed(v)) groups_.demand(group, v.queue, v.queue_offset, ledger_.find(v.id)->tags, v.id);
    }
  }
}

// --- time -----------------------------------------------------------------------------------------------------------------------------

void Court::tick() {
  const int64_t now = world_.now().ns;
  answers_.at(now);
  if (liveness_.is_overdue(now)) liveness_.at(now, undelivered());
  if (scenario_.oracles.expects_prompt) check_promptness();
}

void Court::check_promptness() {
  const int64_t by = world_.now().ns - scenario_.oracles.prompt_bound.ns;
  for (; prompt_checked_ < acked_.size(); ++prompt_checked_) {
    const SentMessage& m = *ledger_.find(acked_[prompt_checked_]);
    if (m.answered_ns > by) return;
    if (m.may_vanish) continue;   // retention was faster: nobody can be given it any more
    for (const auto& [group, wish] : groups_.groups()) {
      if (!groups_.misses(group, m.queue, m.queue_offset, m.tags)) continue;
      violated("O17", fmt::format("{} offset {} was acked at {} ms, and group {} has not consumed it {} ms later although nothing disturbs this run",
                                  m.queue.text(), m.queue_offset, m.answered_ns / 1'000'000, group, scenario_.oracles.prompt_bound.ms()));
      return;
    }
  }
}

// --- what the world shows -------------------------------------------------------------------------------------------------------------

void Court::on_life(World& world, Life who, LifeChange change, const Error* why) {
  BrokerFacts* b = broker_at(who.node);
  const std::string& name = world.name(who.node);
  if (change == LifeChange::Started) resources_.started(name);
  if (change == LifeChange::Paused) answers_.paused(name, world.now().ns);
  if (change == LifeChange::Resumed) answers_.resumed(name, world.now().ns);
  if (change == LifeChange::Started || change == LifeChange::Paused || change == LifeChange::Resumed) return;
  answers_.died(name);
  if (wire_) wire_->died(who.node);
  if (b == nullptr) return;
  const bool was_serving = std::exchange(b->is_serving, false);
  b->found_durable = 0;
  b->topic_changes.clear();
  truth_.restarted(name);
  // A failed flush: the pages may be gone although the process could still read them.
  if (change == LifeChange::Halted && was_serving && why != nullptr && why->code == Errc::DiskFull) {
    violated("O17", fmt::format("{} ends because its disk is full, instead of refusing until there is room: {}", name, why->text()));
  }
  if (change == LifeChange::Halted && why != nullptr && why->code == Errc::FlushFailed) {
    no_loss_.lost_cache(name);
    offsets_.lost_cache(name);
  }
}

void Court::on_trace(World&, Life who, const TraceRecord& record) {
  if (BrokerFacts* b = broker_at(who.node)) on_broker_event(*b, record);
}

void Court::on_broker_event(BrokerFacts& b, const TraceRecord& record) {
  const std::string& name = b.geometry.name;
  const uint64_t id = record.info->id;
  if (id == kAppended) {
    b.appended = record.values[1];
    if (record.text == kMetaTopic) note_change(b, {record.values[0], record.values[1]});
    truth_.appended(name, record.values[1], [&] { return durable_limit(b); });
  } else if (id == kFlushed) {
    b.flushed = record.values[0];
    check_flushed(b, record.values[0]);
    no_loss_.flushed(name, record.values[0]);
    stability_.flushed(name, record.values[0]);
  } else if (id == kMessageAcked) {
    truth_.acked(name, record.values[0], record.values[1], record.values[5] != 0,
                 [&](uint64_t begin, uint64_t end) { return durable_log_end(b, begin, end); });
  } else if (id == kPossibleLoss) {
    no_loss_.named(name, record.values[0], record.values[1]);
    stability_.named(name, record.values[0], record.values[1]);
  } else if (id == kStopUnwritten) {
    b.is_unwritten = true;
    const uint64_t cost_us = record.values[0] * b.geometry.queue_round_cost_us, waited_us = record.values[1] * 1000;
    if (std::max(cost_us, waited_us) < 2'000'000) violated("O17", fmt::format("{} stops without writing its queues, and takes no time for it: {}", name, record.describe()));
  } else if (id == kQueuesMeasured) {
    b.measured_ns = world_.now().ns;
  } else if (id == kSegmentExpired) {
    segment_expired(b, record);
  } else if (id == kLogBegins) {
    retention_.begins(name, record.values[0]);
    log_begins(b, record.values[0]);
  } else if (id == kRecovered) {
    retention_.recovered(name, record.values[0], world_.now().ns, b.leap_ms);
    log_begins(b, record.values[0]);
    b.derived_to = record.values[2];
    recovered(b, record.values[1]);
    check_flushed(b, record.values[1]);
  } else if (id == kRoundDone) {
    b.derived_to = record.values[0];
    b.round_ns = world_.now().ns;
    if (record.values[0] >= b.log_end) b.is_rebuilding = false;   // as far as a checkpoint may have claimed
    check_round(b, record.values[0]);
  } else if (id == kRebuildDerived || id == kQueuesRebuilt || id == kIndexRebuilt) {
    b.is_rebuilding = true;
  } else if (id == kBrokerServing) {
    b.is_serving = true;
    b.is_unwritten = false;
    if (!b.is_damaged) check_store(b, Image::Recovered, "after a recovery", record.values[1]);
  } else if (id == kRotFound) {
    b.is_damaged = true;
    if (!b.is_hurt) violated("O17", fmt::format("{} takes its log for damaged, which nobody damaged: {}", name, record.describe()));
  } else if (id == kDispatchStopped || (id == kQueueGap && !b.is_hurt)) {
    violated("O17", fmt::format("{}: {}", name, record.describe()));
  }
}

// What the log does not hold any more nobody need get.
void Court::log_begins(BrokerFacts& b, uint64_t begin) {
  b.log_begin = begin;
  const std::string& name = b.geometry.name;
  index_.begins_at(name, begin);
  if (begin == 0) return;
  std::set<QueueKey> queues;
  for (const SentMessage& m : ledger_.all()) {
    if (m.queue.broker != name) continue;
    queues.insert(m.queue);
    if (m.physical_end() <= begin && !m.may_vanish) ledger_.find(m.id)->may_vanish = true;
  }
  for (const QueueKey& queue : queues) groups_.begins_at(queue, order_.first_behind(queue, begin));
}

void Court::segment_expired(BrokerFacts& b, const TraceRecord& record) {
  const std::string& name = b.geometry.name;
  retention_.expired(name, record.values[0], record.values[1], record.text, b.appended, world_.now().ns);
  if (!b.geometry.keeps_unread) return;
  for (const SentMessage& m : ledger_.all()) {
    if (m.queue.broker != name || m.fate != Fate::Acked || m.may_vanish || m.physical < record.values[0] || m.physical_end() > record.values[1]) continue;
    if (const std::optional<std::string> group = offsets_.misses(m.queue, m.queue_offset)) {
      return violated("O24", fmt::format("{} lets {} offset {} go, which group {} has not consumed, and neverDeleteUnread is on", name, m.queue.text(), m.queue_offset, *group));
    }
  }
}

void Court::recovered(BrokerFacts& b, uint64_t end) {
  ++b.recoveries;
  b.log_end = b.appended = b.flushed = end;
  const Recovery recovery{b.geometry.name, end, world_.now().ns};
  b.past.push_back(recovery);
  no_loss_.recovered(recovery);
  stability_.recovered(recovery);
  std::set<QueueKey> queues;
  for (const SentMessage& m : ledger_.all()) {
    if (m.queue.broker == recovery.broker) queues.insert(m.queue);
  }
  std::map<QueueKey, int64_t> before;
  for (const QueueKey& queue : queues) before[queue] = order_.end_of(queue);
  order_.cut(recovery);
  for (const auto& [queue, was] : before) {
    if (order_.end_of(queue) < was) groups_.cut(queue, order_.end_of(queue));
  }
}

void Court::on_call(World& world, const IoCall& call) {
  if (broker_at(call.who.node) == nullptr) return;
  const std::string& name = world.name(call.who.node);
  BrokerFacts& b = *broker_at(call.who.node);
  if (call.kind == CallKind::Remove || call.kind == CallKind::Rename) {
    // A file of the log that is taken away by a broker that serves.
    constexpr std::string_view kLog = "store/commitlog/";
    uint64_t begin = 0;
    if (b.is_serving && call.path.starts_with(kLog)) {
      // A rename tells the new name; the old one is that of the file that went last.
      if (call.kind == CallKind::Rename) begin = b.log_begin - std::min(b.log_begin, b.geometry.log_file_bytes);
      else std::from_chars(call.path.data() + kLog.size(), call.path.data() + call.path.size(), begin);
      const std::optional<CheckpointClaim> claim = durable_claim(b);
      retention_.file_leaves(name, begin, begin + b.geometry.log_file_bytes, claim ? claim->log_begin : 0);
    }
  }
  if (call.file == FileId{}) return;
  if (call.kind == CallKind::Unmap) resources_.unmapped(name, call.file.value());
  else resources_.mapped(name, call.file.value(), call.path);
}

void Court::on_input(World& world, Life who, const Input& input) {
  (void)world;
  if (!wire_) return;
  if (const auto* accepted = std::get_if<Accepted>(&input)) wire_->accepted(who, accepted->conn);
  else if (const auto* received = std::get_if<Received>(&input)) wire_->received(who, received->conn, received->bytes);
  else if (const auto* closed = std::get_if<Closed>(&input)) wire_->closed(who, closed->conn);
}

void Court::on_sent_bytes(World&, Life who, ConnId conn, Bytes bytes) {
  if (wire_) wire_->sent(who, conn, bytes);
}

void Court::on_fault(World&, const Fault& fault) {
  for (BrokerFacts& b : brokers_) {
    if (b.host == fault.host && fault.kind == FaultKind::WallStep) b.leap_ms += std::max<int64_t>(0, fault.amount);
  }
  if (fault.kind != FaultKind::BitRot && fault.kind != FaultKind::UnreadablePage) return;
  for (const BrokerFacts& b : brokers_) {
    if (b.host != fault.host) continue;
    no_loss_.beyond_promise(b.geometry.name);
    stability_.beyond_promise(b.geometry.name);
    offsets_.beyond_promise(b.geometry.name);
  }
}

void Court::on_crashed(World&, const CrashReport& report, const SimDisk& disk) {
  for (const BrokerFacts& b : brokers_) {
    if (b.host != report.host) continue;
    check_store(b, Image::Crashed, "after a crash");
    if (report.kind != CrashKind::Kill) {
      no_loss_.lost_cache(b.geometry.name);
      offsets_.lost_cache(b.geometry.name);
    }
    const uint64_t lot = mix64(mix64(scenario_.seed.value, 0x019), ++crashes_);
    const OracleSwitches& s = scenario_.oracles;
    if (recovery_checks_ < s.recovery_checks && lot % s.recovery_every == 0) {
      ++recovery_checks_;
      check_recovery(b, disk, report.kind, fmt::format("the image of crash {} ({} files changed)", crashes_, report.files_changed.size()));
    }
  }
}

// --- what the disk says ---------------------------------------------------------------------------------------------------------------

uint64_t Court::durable_log_end(const BrokerFacts& b, uint64_t begin, uint64_t end) {
  const uint64_t base = begin / b.geometry.log_file_bytes * b.geometry.log_file_bytes;
  const std::string path = fmt::format("store/commitlog/{:020d}", base);
  return base + world_.disk(b.host).durable_prefix(path, {begin - base, end - base});
}

void Court::note_change(BrokerFacts& b, Range at) {
  const uint64_t base = at.begin / b.geometry.log_file_bytes * b.geometry.log_file_bytes;
  const Bytes file = world_.disk(b.host).contents(fmt::format("store/commitlog/{:020d}", base));
  if (at.end - base > file.size()) return;
  const std::string topic = changed_topic(file.subspan(at.begin - base, at.end - at.begin));
  if (!topic.empty()) b.topic_changes[topic].push_back(at);
}

// "It is done" is said of what a power cut would keep. A change is the first one of its topic since its request came.
void Court::check_topic_answer(const BrokerFacts& b, const std::string& topic, size_t change, const Reply& reply) {
  const auto changes = b.topic_changes.find(topic);
  if (!std::holds_alternative<reply::Ok>(reply) || changes == b.topic_changes.end() || change >= changes->second.size()) return;
  const Range at = changes->second[change];
  truth_.acked(b.geometry.name, at.begin, at.end, true, [&](uint64_t begin, uint64_t end) { return durable_log_end(b, begin, end); });
}

// Each life is asked for all of its log once, and then for what it adds.
void Court::check_flushed(BrokerFacts& b, uint64_t to) {
  for (uint64_t at = std::max(b.found_durable, b.log_begin); at < to;) {
    const uint64_t end = std::min(to, (at / b.geometry.log_file_bytes + 1) * b.geometry.log_file_bytes);
    const uint64_t safe = durable_log_end(b, at, end);
    if (safe < end) return truth_.flushed(b.geometry.name, to, safe);
    at = end;
  }
  b.found_durable = std::max(b.found_durable, to);
}

// Of the two slots only those count that a power cut would keep.
std::optional<CheckpointClaim> Court::durable_claim(const BrokerFacts& b) {
  const SimDisk& disk = world_.disk(b.host);
  const Bytes page = disk.contents("store/checkpoint");
  std::vector<uint8_t> kept(page.begin(), page.end());
  for (const uint64_t slot : {uint64_t{1024}, uint64_t{2048}}) {
    if (kept.size() >= slot + 96 && !disk.is_durable("store/checkpoint", {slot, slot + 96})) std::fill_n(kept.begin() + static_cast<ptrdiff_t>(slot), 96, uint8_t{0});
  }
  return read_checkpoint(kept);
}

uint64_t Court::durable_limit(const BrokerFacts& b) {
  const std::optional<CheckpointClaim> claim = durable_claim(b);
  return claim ? claim->append_limit : 0;
}

void Court::check_store(const BrokerFacts& b, Image image, std::string_view when, std::optional<uint64_t> log_end) {
  judge_store(b, world_.disk(b.host), image, when, log_end, 0);
}

void Court::check_round(const BrokerFacts& b, uint64_t to) {
  if (b.is_hurt || b.is_rebuilding) return;   // it is read-only, and no checkpoint speaks for it
  const uint64_t lot = mix64(mix64(scenario_.seed.value, 0x020), ++rounds_);
  if (lot % scenario_.oracles.round_every != 0) return;
  SimDisk image = world_.disk(b.host).clone();
  KeyedStream draws(scenario_.seed, load_domain(31), rounds_);
  CrashReport report;
  image.crash_with(ImagePattern::None, draws, report);
  judge_store(b, image, Image::Crashed, fmt::format("as a power cut now would leave it, with a round done to {},", to), {}, to);
}

void Court::judge_store(const BrokerFacts& b, const SimDisk& disk, Image image, std::string_view when, std::optional<uint64_t> log_end, uint64_t derived_to) {
  StoreFiles files;
  for (const std::string& path : disk.files()) files.emplace(path, disk.contents(path));
  std::vector<uint8_t> mended;
  if (const auto rot = unseen_rot_.find(b.geometry.name); rot != unseen_rot_.end()) {
    Bytes& rotten = files.at(rot->second.path);
    mended.assign(rotten.begin(), rotten.end());
    mended[rot->second.at] ^= rot->second.mask;
    rotten = mended;
  }
  FsckOptions options;
  options.index_slots = b.geometry.index_slots;
  options.index_entries = b.geometry.index_entries;
  options.is_clean = image == Image::Clean;
  options.is_unwritten = b.is_unwritten;
  options.is_claimed = image == Image::Crashed && !b.is_rebuilding;
  options.derived_to = derived_to;
  options.has_crc = b.geometry.has_crc;
  options.may_be_torn = image != Image::Clean;
  const StoreReport report = fsck(files, options);
  for (const std::string& problem : report.problems) {
    violated("O20", fmt::format("the store of {} {}: {}", b.geometry.name, when, problem));
  }
  if (b.log_begin > 0 && !b.is_hurt) check_survivors(b, image, report, when);
  if (log_end && report.log_end != *log_end) {
    violated("O20", fmt::format("the log of {} {} ends at {}, and can be read up to {}", b.geometry.name, when, *log_end, report.log_end));
  }
}

// What stood only in segments that went was written down again before: topics, groups, and where a queue goes on that holds nothing any more.
void Court::check_survivors(const BrokerFacts& b, Image image, const StoreReport& report, std::string_view when) {
  for (const std::string& group : made_groups_) {
    if (report.groups.contains(group)) continue;
    return violated("O24", fmt::format("the store of {} {}: the log begins behind {} and no record in it makes group {}", b.geometry.name, when, b.log_begin, group));
  }
  std::set<QueueKey> queues;
  for (const SentMessage& m : ledger_.all()) {
    if (m.queue.broker == b.geometry.name && !deleted_topics_.contains(m.topic) && m.fate == Fate::Acked) queues.insert(m.queue);
  }
  for (const QueueKey& queue : queues) {
    if (!report.topics.contains(queue.topic)) {
      return violated("O24", fmt::format("the store of {} {}: the log begins behind {} and no record in it makes topic {}", b.geometry.name, when, b.log_begin, queue.topic));
    }
    const std::pair<std::string, int32_t> key{queue.topic, queue.queue_id};
    if (image == Image::Crashed || report.queues.contains(key)) continue;
    const auto floor = report.floors.find(key);
    const int64_t end = order_.end_of(queue);
    if (end == 0 || (floor != report.floors.end() && floor->second >= end)) continue;
    return violated("O24", fmt::format("the store of {} {}: nothing in the log says that {} goes on at {}", b.geometry.name, when, queue.text(), end));
  }
}

void Court::check_recovery(const BrokerFacts& b, const SimDisk& disk, CrashKind crash, std::string_view what) {
  recoveries_.begin_image(fmt::format("{} at {} ms, {}", b.geometry.name, world_.now().ns / 1'000'000, what));
  BrokerGeometry geometry = b.geometry;   // while it is tried nothing goes
  geometry.reserved_ms = 0;
  geometry.retain_bytes_max = 0;
  geometry.deletes_forcibly = false;
  const std::string config = broker_properties(geometry);
  ClockSpec clock = world_.clock(b.host).spec();
  clock.wall_start = world_.clock(b.host).wall(world_.now());
  KeyedStream draws(scenario_.seed, load_domain(30), crashes_);
  const auto run = [&](RecoveryTrial trial) {
    const TrialOutcome done = try_recovery(disk.clone(), config, clock, Seed{draws.next()}, trial);
    if (!done.failure.empty()) violated("O19", fmt::format("recovering {}: {}", what, done.failure));
    RecoveryAgrees::Outcome outcome = done.outcome;
    // A killed process leaves its stores in the page cache: they are found again, and a power cut before they are flushed may take them.
    outcome.may_lose = crash == CrashKind::Kill && trial.crash_at != 0 && trial.kind != CrashKind::Kill;
    recoveries_.outcome(outcome);
    for (const std::string& problem : done.problems) violated("O20", fmt::format("recovering {} ({}): {}", what, done.outcome.how, problem));
    return done.calls;
  };
  const uint64_t calls = run({});
  run({0, CrashKind::Kill, true});
  const CrashKind kind = draws.chance({1, 2}) ? CrashKind::Kill : CrashKind::PowerLoss;
  if (calls > 1) run({1 + draws.below(calls), kind, false});
}

}  // namespace fulmar::sim
