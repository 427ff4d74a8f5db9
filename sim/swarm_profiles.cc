// What single profiles add: their geometry, load, disks and faults.

#include <fmt/format.h>

#include <algorithm>

#include "core/model/config.h"
#include "sim/swarm_maker.h"

namespace fulmar::sim {

// Small segments that go soon: for their age, because the log is long, or because the disk fills.
void ScenarioMaker::retain(BrokerGeometry& g) const {
  KeyedStream draws = part(Part::Retention);
  g.log_file_bytes = draws.between(16, 32) * 4096;
  g.queue_file_entries = draws.log_between(8, 100);
  const uint64_t kind = draws.below(4);
  if (kind != 0) g.reserved_ms = static_cast<int64_t>(draws.log_between(10'000, 20'000));
  if (kind == 0 || draws.chance({1, 4})) g.retain_bytes_max = g.log_file_bytes * draws.between(2, 5);
  g.deletes_forcibly = draws.chance({1, 2});
  g.keeps_unread = draws.chance({1, 4});
  g.delete_hours = draws.chance({3, 4}) ? 0xFFFFFF : static_cast<uint32_t>(draws.between(1, 0xFFFFFF));
}

// A new name waits for the journal, and that for whatever else the disk has to write: meanwhile the writer may come to its place.
void ScenarioMaker::slow_renames(DiskProfile& d, size_t host) const {
  KeyedStream draws = part(Part::Retention, 2 + host);
  if (draws.chance({2, 3})) return;
  d.rename.base = Duration::milliseconds(static_cast<int64_t>(draws.log_between(20, 3'000)));
}

void ScenarioMaker::retention_load(Scenario& s) const {
  KeyedStream draws = part(Part::Retention, 1);
  WorkloadPlan& w = s.load;
  w.gap_min = Duration::milliseconds(1);
  w.gap_max = Duration::milliseconds(static_cast<int64_t>(draws.log_between(10, 100)));
  w.body_bytes_min = 200;
  w.body_bytes_max = static_cast<uint32_t>(draws.log_between(800, 4'000));
  w.messages_max = 1'500;
  w.committers = static_cast<uint32_t>(draws.between(1, 3));
  w.makes_groups = true;
  if (draws.chance({1, 3})) w.rests = {1, 60}, w.rest = Duration::milliseconds(draws.between(3'000, 9'000));
  static constexpr RestDamage kDamages[] = {RestDamage::None, RestDamage::CheckpointGone, RestDamage::CheckpointGone, RestDamage::IndexGone};
  s.at_rest = kDamages[draws.below(std::size(kDamages))];
}

// Three brokers, two name servers, a dozen clients.
void ScenarioMaker::add_cluster(Scenario& s) const {
  add_name_server(s, "namesrv-2");
  for (const char* name : {"broker-b", "broker-c"}) {
    BrokerGeometry g = geometry();
    g.name = name;
    add_broker(s, g);
  }
  for (int i = 2; i <= 12; ++i) add_client(s, fmt::format("client-{}", i), geometry().name_servers);
}

// Groups of many members that join, leave and die; a few of them with members that want different things.
void ScenarioMaker::cluster_load(WorkloadPlan& w) const {
  KeyedStream draws = part(Part::Cluster);
  w.topics = static_cast<uint32_t>(draws.between(1, 2));
  w.queues = static_cast<int32_t>(draws.between(1, 5));
  w.groups = static_cast<uint32_t>(draws.between(1, 3));
  w.members = static_cast<uint32_t>(draws.between(2, 6));
  w.pipelined = {1, 2};
  if (w.topics > 1) w.split = {1, 3};
  if (draws.chance({2, 3})) w.leaves = {1, static_cast<uint32_t>(draws.log_between(3, 60))};
  w.messages_max = static_cast<uint32_t>(draws.between(300, 700));
}

// Records over many sectors, or all of one size, so that what an earlier life left begins where a later one ends.
void ScenarioMaker::media_load(Scenario& s) const {
  KeyedStream draws = part(Part::Media);
  WorkloadPlan& w = s.load;
  w.in_flight_max = static_cast<uint32_t>(draws.log_between(4, 32));
  w.gap_min = Duration::microseconds(200);
  w.gap_max = Duration::milliseconds(static_cast<int64_t>(draws.log_between(2, 40)));
  w.is_uniform = draws.chance({1, 2});
  w.body_bytes_min = static_cast<uint32_t>(draws.log_between(w.is_uniform ? 100 : 600, 3'000));
  w.body_bytes_max = w.is_uniform ? w.body_bytes_min : w.body_bytes_min + 4'000;
  w.has_bound_lengths = true;
  w.long_properties = {1, 40};
  if (w.is_uniform) w.keyed = w.tagged = w.long_properties = w.large = {0, 1};
  w.messages_max = 1'200;
  static constexpr RestDamage kDamages[] = {RestDamage::None, RestDamage::CheckpointGone, RestDamage::IndexGone, RestDamage::LogRot};
  s.at_rest = kDamages[draws.below(std::size(kDamages))];
  if (s.at_rest == RestDamage::LogRot && draws.chance({1, 2})) s.at_rest = RestDamage::LogRotUnseen;
}

// Topics and groups come and go, committers hurry, and a peer without a client speaks to the brokers.
void ScenarioMaker::churn_load(Scenario& s) const {
  KeyedStream draws = part(Part::Churn);
  WorkloadPlan& w = s.load;
  w.topics = std::max<uint32_t>(w.topics, 2);
  w.deletions = static_cast<uint32_t>(draws.between(1, 6));
  w.deletion_gap_max = Duration::milliseconds(static_cast<int64_t>(draws.log_between(500, 6000)));
  w.groups = std::max(w.groups, w.topics);
  w.leaves = {1, static_cast<uint32_t>(draws.log_between(3, 60))};
  if (draws.chance({1, 2})) w.think_max = Duration::milliseconds(static_cast<int64_t>(draws.log_between(100, 3000)));
  w.committers = static_cast<uint32_t>(draws.between(1, 3));
  w.commit_gap_min = Duration::milliseconds(1);
  w.commit_gap_max = Duration::milliseconds(static_cast<int64_t>(draws.log_between(5, 100)));
  s.nodes.push_back({"raw-peer", NodeKind::Client, static_cast<uint32_t>(s.hosts.size()), {}, true});
  DiskProfile plain;
  plain.capacity_bytes = 64u << 20;
  s.hosts.push_back({"raw-peer", {}, plain});
}

// Little happens, in bursts that meet in one step, and then nothing for longer than a message may wait.
void ScenarioMaker::still_load(WorkloadPlan& w) const {
  KeyedStream draws = part(Part::Still);
  w.topics = 1;
  w.queues = static_cast<int32_t>(draws.between(1, 2));
  w.producers = static_cast<uint32_t>(draws.between(1, 3));
  w.groups = static_cast<uint32_t>(draws.between(1, 2));
  w.gap_min = Duration::microseconds(100);
  w.gap_max = Duration::milliseconds(static_cast<int64_t>(draws.log_between(2, 60)));
  w.rests = {1, static_cast<uint32_t>(draws.between(2, 6))};
  w.rest = Duration::milliseconds(draws.between(5'500, 8'000));
  w.think_max = Duration::milliseconds(static_cast<int64_t>(draws.log_between(1, 20)));
  w.is_created_by_sending = false;
}

// Tags and keys of every kind; in half the seeds more than the disk takes, so that appends meet the limit of what may be unflushed.
void ScenarioMaker::edge_load(WorkloadPlan& w) const {
  KeyedStream draws = part(Part::Edge);
  w.tag_pool = 6;    // among them some with a negative hash
  w.key_pool = 41;   // and the key whose hash is the least number
  if (draws.chance({1, 2})) return;
  w.in_flight_max = static_cast<uint32_t>(draws.log_between(8, 32));
  w.gap_min = Duration::microseconds(100);
  w.gap_max = Duration::milliseconds(static_cast<int64_t>(draws.log_between(1, 10)));
  w.large = {1, static_cast<uint32_t>(draws.between(2, 8))};
  w.committers = 2;
  w.messages_max = 1200;
}

// Where a rule of the store is decided: a power cut in the middle of a flush, or soon after one that failed; a clock that goes back.
void ScenarioMaker::edge_faults(Scenario& s, const Make& on_broker) const {
  add_class(s, 30, 10, [&](Fault& f, Prng& one) {
    on_broker(f, one);
    f.kind = FaultKind::Crash;
    f.crash_kind = CrashKind::PowerLoss;
    f.trigger.call = CallKind::Flush;
    f.trigger.nth = one.log_between(1, 600);
    f.trigger.delay = Duration::microseconds(static_cast<int64_t>(one.log_between(1, 5'000)));
  });
  add_class(s, 31, 4, [&](Fault& f, Prng& one) {
    on_broker(f, one);
    f.kind = FaultKind::FlushError;
    f.amount = one.between(1, 2);
    Fault cut = f;
    cut.id += 500;
    cut.kind = FaultKind::Crash;
    cut.crash_kind = CrashKind::PowerLoss;
    cut.trigger.at.ns = std::min(f.trigger.at.ns + one.between(1'000'000, 3'000'000'000), chaos_.ns);
    s.faults.push_back(cut);
  });
  add_class(s, 32, 6, [&](Fault& f, Prng& one) {
    on_broker(f, one);
    f.kind = FaultKind::WallStep;
    f.amount = -static_cast<int64_t>(one.log_between(1, 60'000));
  });
}

// Power cuts that follow each other closely, also inside recoveries; old records behind the end; a disk that is full from the beginning.
void ScenarioMaker::media_faults(Scenario& s, const Make& on_broker) const {
  add_class(s, 50, 12, [&](Fault& f, Prng& one) {
    on_broker(f, one);
    f.kind = FaultKind::Crash;
    f.crash_kind = CrashKind::PowerLoss;
    f.trigger.call = CallKind::Flush;
    f.trigger.nth = one.log_between(1, 900);
    f.trigger.delay = Duration::microseconds(static_cast<int64_t>(one.log_between(1, 8'000)));
    f.restart_after = Duration::milliseconds(static_cast<int64_t>(one.log_between(10, 300)));
  });
  add_class(s, 51, 1, [&](Fault& f, Prng& one) {
    on_broker(f, one);
    f.kind = FaultKind::DiskFull;
    f.trigger.at = {static_cast<int64_t>(one.log_between(1'000'000, 300'000'000))};
    f.amount = static_cast<int64_t>(one.chance({1, 2}) ? 0 : one.log_between(4096, 6u << 20));
    f.duration = Duration::milliseconds(static_cast<int64_t>(one.log_between(100, 4000)));
  });
  add_class(s, 52, 4, [&](Fault& f, Prng& one) {
    on_broker(f, one);
    f.kind = FaultKind::StaleTail;
  });
  add_class(s, 53, 6, [&](Fault& f, Prng& one) {
    on_broker(f, one);
    crash_in_recovery(f, one, {1, 4}, 2, 12);
  });
}

// A clock that leaps by hours and days, a disk that others fill, death at any step of a deletion, readers that hold what shall go.
void ScenarioMaker::retention_faults(Scenario& s, const Make& on_broker) const {
  add_class(s, 60, 4, [&](Fault& f, Prng& one) {
    on_broker(f, one);
    f.kind = FaultKind::WallStep;
    const auto ms = static_cast<int64_t>(one.log_between(3'600'000, 30ull * 86'400'000));
    f.amount = one.chance({2, 3}) ? ms : -ms;
  });
  add_class(s, 61, 2, [&](Fault& f, Prng& one) {
    on_broker(f, one);
    f.kind = FaultKind::DiskFull;
    f.amount = static_cast<int64_t>(one.log_between(1u << 20, 12u << 20));
    f.duration = Duration::milliseconds(static_cast<int64_t>(one.log_between(1'000, 15'000)));
  });
  add_class(s, 62, 8, [&](Fault& f, Prng& one) {
    on_broker(f, one);
    static constexpr std::string_view kEvents[] = {"SegmentExpired", "LogBegins", "SegmentLeaves", "SegmentMapped"};
    f.kind = FaultKind::Crash;
    const uint64_t kind = one.below(3);
    f.crash_kind = kind == 0 ? CrashKind::Kill : kind == 1 ? CrashKind::PowerLoss : CrashKind::Panic;
    f.trigger.event = hash_text(kEvents[one.below(std::size(kEvents))]);
    f.trigger.nth = one.log_between(1, 12);
    f.trigger.delay = Duration::microseconds(static_cast<int64_t>(one.log_between(1, 200'000)));
  });
  add_class(s, 63, 3, [&](Fault& f, Prng& one) {
    f.node = NodeId(static_cast<uint32_t>(one.below(s.nodes.size())));
    f.kind = FaultKind::SlowReceiver;
    f.duration = Duration::milliseconds(static_cast<int64_t>(one.log_between(100, 10'000)));
  });
}

void ScenarioMaker::churn_faults(Scenario& s, const Make& on_broker) const {
  add_class(s, 40, 16, [&](Fault& f, Prng& one) {
    on_broker(f, one);
    f.kind = FaultKind::FlushStall;
    f.amount = one.between(1, 6);
    f.duration = Duration::milliseconds(static_cast<int64_t>(one.log_between(10, 1500)));
  });
  add_class(s, 41, 4, [&](Fault& f, Prng& one) {
    f.node = NodeId(static_cast<uint32_t>(one.below(s.nodes.size())));
    f.kind = FaultKind::SlowReceiver;
    f.duration = Duration::milliseconds(static_cast<int64_t>(one.log_between(100, 8'000)));
  });
  add_class(s, 42, 3, [&](Fault& f, Prng& one) {   // clients and name servers die
    f.node = NodeId(static_cast<uint32_t>(one.below(s.nodes.size())));
    f.host = HostId(s.nodes[f.node.value()].host);
    f.kind = FaultKind::Crash;
    f.crash_kind = one.chance({1, 2}) ? CrashKind::Kill : CrashKind::PowerLoss;
  });
}

// Members die or vanish, alone and in the very second in which a broker does; name servers die; the network does what it does elsewhere.
void ScenarioMaker::cluster_faults(Scenario& s, const Make& on_broker) const {
  std::vector<uint32_t> clients;
  for (size_t i = 0; i < s.nodes.size(); ++i)
    if (s.nodes[i].kind == NodeKind::Client) clients.push_back(static_cast<uint32_t>(i));
  const auto on_client = [&](Fault& f, Prng& one) {
    const uint32_t node = clients[one.below(clients.size())];
    f.node = NodeId(node);
    f.host = HostId(s.nodes[node].host);
  };
  add_class(s, 60, 10, [&](Fault& f, Prng& one) {
    on_client(f, one);
    f.kind = FaultKind::Crash;
    f.crash_kind = one.chance({1, 2}) ? CrashKind::Kill : CrashKind::PowerLoss;
    f.restart_after = Duration::milliseconds(static_cast<int64_t>(one.log_between(10, 20'000)));
    if (!one.chance({1, 2})) return;
    Fault broker = f;   // and a broker in the same second
    broker.id += 500;
    on_broker(broker, one);
    broker.crash_kind = CrashKind::Kill;
    broker.restart_after = Duration::milliseconds(static_cast<int64_t>(one.log_between(10, 3'000)));
    broker.trigger.at.ns = std::min(f.trigger.at.ns + one.between(0, 1'000'000'000), chaos_.ns);
    s.faults.push_back(broker);
  });
  add_class(s, 61, 6, [&](Fault& f, Prng& one) {   // it vanishes, and comes back as if nothing had happened
    const uint32_t node = clients[4 + one.below(clients.size() - 4)];   // none that is owed answers: producers are the first
    f.node = NodeId(node);
    f.host = HostId(s.nodes[node].host);
    f.kind = FaultKind::Pause;
    f.duration = Duration::milliseconds(static_cast<int64_t>(one.log_between(100, 20'000)));
  });
  add_class(s, 62, 3, [&](Fault& f, Prng& one) {
    f.node = NodeId(static_cast<uint32_t>(one.below(s.nodes.size())));
    f.host = HostId(s.nodes[f.node.value()].host);
    f.kind = FaultKind::Crash;
    f.crash_kind = CrashKind::Kill;
  });
  network_faults(s, on_broker);
}

}  // namespace fulmar::sim
