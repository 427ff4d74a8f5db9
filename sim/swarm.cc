#include "sim/swarm.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/model/config.h"
#include "sim/swarm_maker.h"

namespace fulmar::sim {

ScenarioMaker::ScenarioMaker(std::string_view profile, Seed seed) : profile_(profile), seed_(seed) {
  KeyedStream shape = part(Part::Shape);
  const uint64_t kind = shape.below(10);
  is_still_ = profile == "still";
  is_churn_ = profile == "churn";
  is_media_ = profile == "media";
  is_retention_ = profile == "retention";
  is_cluster_ = profile == "cluster";
  is_calm_ = profile == "calm" || is_still_ || kind == 0;
  is_storm_ = !is_calm_ && kind == 1;
  storm_ = shape.below(16);
  is_edge_ = profile == "edge";
  has_disk_faults_ = profile == "store" || profile == "mixed" || is_edge_ || is_churn_ || is_media_ || is_retention_;
  has_network_faults_ = profile == "network" || profile == "mixed";
  chaos_ = Duration::milliseconds(static_cast<int64_t>(is_still_ ? 60'000 : is_retention_ ? shape.between(20'000, 60'000) : shape.log_between(6'000, 30'000)));
}

Scenario ScenarioMaker::make() {
  Scenario s = plain_scenario(seed_, geometry());
  s.profile = profile_;
  s.chaos = chaos_;
  if (has_network_faults_) add_nodes(s);
  if (is_cluster_) add_cluster(s);
  load(s);
  clocks(s);
  for (size_t i = 0; i < s.hosts.size(); ++i) disk(s.hosts[i].disk, i);
  network(s.world.network);
  cpu(s.world.cpu);
  if (!is_calm_) faults(s);
  s.oracles.expects_prompt = is_calm_ && !is_churn_ && !is_cluster_;
  if (is_calm_) s.oracles.recovery_checks = 0;
  return s;
}

KeyedStream ScenarioMaker::part(Part part, uint64_t entity) const {
  return KeyedStream(seed_, static_cast<Domain>(static_cast<uint32_t>(Domain::Scenario) + static_cast<uint32_t>(part)), entity);
}

BrokerGeometry ScenarioMaker::geometry() const {
  KeyedStream draws = part(Part::Geometry);
  BrokerGeometry g;
  g.is_sync = draws.chance({2, 3});
  g.log_file_bytes = std::max<uint64_t>(64 * 1024, draws.log_between(64 * 1024, 1024 * 1024) / 4096 * 4096);
  g.queue_file_entries = draws.log_between(8, 1000);
  g.index_slots = draws.log_between(8, 1000);
  g.index_entries = g.index_slots * draws.log_between(2, 8);
  g.unflushed_bytes_max = std::max<uint64_t>(64 * 1024, draws.log_between(64 * 1024, 1024 * 1024));
  g.flush_interval_ms = static_cast<int64_t>(draws.log_between(10, 1000));
  g.queue_flush_interval_ms = static_cast<int64_t>(draws.log_between(50, 2000));
  g.sync_flush_timeout_ms = draws.chance({1, 3}) ? static_cast<int64_t>(draws.log_between(20, 2000)) : 5000;
  // Without the checksum a torn record cannot be told from a good one (nor can RocketMQ): judged only where nothing tears.
  g.has_crc = !is_calm_ || draws.chance({3, 4});
  g.creates_topics = draws.chance({1, 4}) && !is_churn_ && !is_cluster_;   // a topic that comes back by itself is none that was deleted
  // As if queues were thousands: rounds are rare, and a stop leaves queues unwritten.
  KeyedStream rare = part(Part::Geometry, 1);
  if (rare.chance({1, 3})) {
    g.queue_round_cost_us = static_cast<uint32_t>(rare.log_between(2'000, 1'000'000));
    g.queue_flush_interval_max_ms = static_cast<int64_t>(rare.log_between(1'000, 30'000));
  }
  if (is_retention_) retain(g);
  if (is_cluster_) g.name_servers = {"namesrv:9876", "namesrv-2:9876"};
  return g;
}

void ScenarioMaker::add_nodes(Scenario& s) const {
  KeyedStream draws = part(Part::Shape, 1);
  if (draws.chance({1, 2})) {
    BrokerGeometry second = geometry();
    second.name = "broker-b";
    add_broker(s, second);
  }
  if (draws.chance({1, 2})) add_client(s, "client-2");
}

void ScenarioMaker::load(Scenario& s) const {
  KeyedStream draws = part(Part::Load);
  WorkloadPlan& w = s.load;
  w.topics = static_cast<uint32_t>(draws.between(1, 3));
  w.queues = static_cast<int32_t>(draws.between(1, 4));
  w.producers = static_cast<uint32_t>(draws.between(2, 4));
  w.groups = static_cast<uint32_t>(draws.between(1, 3));
  w.committers = static_cast<uint32_t>(draws.between(0, 2));
  w.in_flight_max = draws.chance({1, 3}) ? 1 : static_cast<uint32_t>(draws.log_between(2, 16));
  w.gap_max = Duration::milliseconds(static_cast<int64_t>(draws.log_between(20, 120)));
  w.batched = draws.chance({1, 5}) ? Ratio{0, 1} : Ratio{static_cast<uint32_t>(draws.between(1, 9)), 10};
  w.batch_max = static_cast<uint32_t>(draws.log_between(2, 24));
  w.body_bytes_max = static_cast<uint32_t>(draws.log_between(16, 1500));
  w.large = draws.chance({1, 2}) ? Ratio{0, 1} : Ratio{1, static_cast<uint32_t>(draws.log_between(16, 256))};
  w.large_bytes_max = static_cast<uint32_t>(draws.log_between(4'000, 70'000));
  w.key_pool = static_cast<uint32_t>(draws.log_between(2, 40));
  w.tag_pool = static_cast<uint32_t>(draws.between(1, 4));
  w.think_max = Duration::milliseconds(static_cast<int64_t>(draws.log_between(1, 200)));
  w.messages_max = static_cast<uint32_t>(draws.between(500, 1000));
  w.is_created_by_sending = geometry().creates_topics && draws.chance({1, 2});
  // As many as a broker gives a topic that a send makes (scenario.cc): who makes it again with fewer hides what is stored in the others.
  if (geometry().creates_topics) w.queues = 3;
  if (is_edge_) edge_load(w);
  if (is_churn_) churn_load(s);
  if (is_still_) still_load(w);
  if (is_media_) media_load(s);
  if (is_retention_) retention_load(s);
  if (is_cluster_) cluster_load(w);
}

void ScenarioMaker::clocks(Scenario& s) const {
  for (size_t i = 0; i < s.hosts.size(); ++i) {
    KeyedStream draws = part(Part::Clock, i);
    ClockSpec& clock = s.hosts[i].clock;
    if (!is_calm_ && draws.chance({1, 2})) clock.skew_ppb = draws.between(-500'000, 500'000);
    if (draws.chance({7, 10})) clock.wall_start.ms += draws.between(-86'400'000, 86'400'000);
    clock.zone_s = static_cast<int32_t>(draws.between(-12, 14) * 3600);
    clock.start.ns = static_cast<int64_t>(draws.log_between(1'000'000'000, 1'000'000'000'000'000));
  }
}

void ScenarioMaker::disk(DiskProfile& d, size_t host) const {
  KeyedStream draws = part(Part::Disk, host);
  d.meta_order = draws.chance({1, 2}) ? MetaOrder::Prefix : MetaOrder::Subset;
  d.after_failed_flush = draws.chance({1, 2}) ? AfterFailedFlush::NewStays : AfterFailedFlush::OldReappears;
  d.fsync_persists_dirent = draws.chance({1, 2});
  if (is_calm_ || !has_disk_faults_) return;
  d.flush.base = Duration::microseconds(static_cast<int64_t>(draws.log_between(50, 20'000)));
  d.flush.mean = Duration::microseconds(static_cast<int64_t>(draws.log_between(50, 20'000)));
  d.prepare.mean = Duration::microseconds(static_cast<int64_t>(draws.log_between(50, 20'000)));
  if (draws.chance({1, 2})) d.write_back = {1, static_cast<uint32_t>(draws.log_between(4, 2000))};
  if (draws.chance({1, 2})) d.flush_stall = {1, static_cast<uint32_t>(draws.log_between(50, 2000))};
  d.flush_stall_max = Duration::milliseconds(static_cast<int64_t>(draws.log_between(50, 8000)));
  for (uint32_t& weight : d.image_weights) weight = draws.chance({1, 2}) ? static_cast<uint32_t>(draws.log_between(1, 16)) : 1;
  if (is_retention_) slow_renames(d, host);
  if (!is_media_) return;
  KeyedStream media = part(Part::Media, host + 1);
  d.write_back = {1, static_cast<uint32_t>(media.log_between(2, 60))};
  for (const ImagePattern pattern : {ImagePattern::OneHole, ImagePattern::SectorTear, ImagePattern::Suffix, ImagePattern::Random}) {
    d.image_weights[static_cast<size_t>(pattern)] = static_cast<uint32_t>(media.between(4, 20));
  }
}

void ScenarioMaker::network(NetworkProfile& n) const {
  KeyedStream draws = part(Part::Network);
  for (uint32_t& weight : n.chunking_weights) weight = 0;
  n.chunking_weights[0] = 4;
  if (is_calm_ || !has_network_faults_) {
    if (draws.chance({1, 4})) n.chunking_weights[static_cast<size_t>(Chunking::RandomCuts)] = 4;
    return;
  }
  n.link.base = Duration::microseconds(static_cast<int64_t>(draws.log_between(50, 20'000)));
  n.link.mean = Duration::microseconds(static_cast<int64_t>(draws.log_between(50, 50'000)));
  if (draws.chance({1, 2})) {
    n.link.tail = {1, 200};
    n.link.tail_max = Duration::milliseconds(static_cast<int64_t>(draws.log_between(50, 3000)));
  }
  n.chunking_weights = {4, 2, 1, 3};
  if (draws.chance({1, 2})) n.coalesce = {1, 3};
  if (draws.chance({1, 2})) n.window_bytes_min = 4096;
  if (draws.chance({1, 2})) n.reset_per_send = {1, static_cast<uint32_t>(draws.log_between(100, 5000))};
  if (draws.chance({1, 4})) n.refuse = {1, 10};
  if (draws.chance({1, 4})) n.half_open = {1, 20};
}

void ScenarioMaker::cpu(CpuProfile& c) const {
  KeyedStream draws = part(Part::Network, 1);
  c.is_batch_drawn = draws.chance({1, 3});
  if (draws.chance({1, 3})) c.batch_wait = {1, 3};
  if (!is_still_) return;
  KeyedStream still = part(Part::Still, 1);
  c.batch_wait = {3, 4};
  c.batch_wait_max = Duration::microseconds(static_cast<int64_t>(still.log_between(500, 30'000)));
}

void ScenarioMaker::crash_in_recovery(Fault& f, Prng& one, Ratio kill, uint64_t nth_min, uint64_t nth_max) {
  f.kind = FaultKind::Crash;
  f.crash_kind = one.chance(kill) ? CrashKind::Kill : CrashKind::PowerLoss;
  f.trigger.event = hash_text("RecoveryStarted");
  f.trigger.nth = one.log_between(nth_min, nth_max);
  f.trigger.delay = Duration{};
  f.calls = one.log_between(1, 60);
}

void ScenarioMaker::add_class(Scenario& s, uint64_t index, uint64_t count_max, const Make& make) const {
  KeyedStream draws = part(Part::Rate, index);
  bool is_on = draws.chance({1, 2});
  uint64_t count = draws.log_between(1, count_max);
  if (is_storm_ && storm_ == index) {
    is_on = true;
    count = std::min<uint64_t>(count * 20, 40);
  }
  if (!is_on) return;
  for (uint64_t i = 0; i < count; ++i) {
    KeyedStream one = part(Part::Faults, index * 1000 + i);
    Fault fault;
    fault.id = index * 1000 + i + 1;
    fault.trigger.at = {one.between(200'000'000, chaos_.ns)};
    fault.restart_after = Duration::milliseconds(static_cast<int64_t>(one.log_between(10, 2000)));
    make(fault, one);
    s.faults.push_back(fault);
  }
}

void ScenarioMaker::faults(Scenario& s) const {
  std::vector<uint32_t> brokers;
  for (size_t i = 0; i < s.nodes.size(); ++i) {
    if (s.nodes[i].kind == NodeKind::Broker) brokers.push_back(static_cast<uint32_t>(i));
  }
  const auto on_broker = [&](Fault& f, Prng& one) {
    const uint32_t node = brokers[one.below(brokers.size())];
    f.node = NodeId(node);
    f.host = HostId(s.nodes[node].host);
    f.trigger.node = f.node;
  };
  if (has_disk_faults_) disk_faults(s, on_broker);
  if (has_network_faults_) network_faults(s, on_broker);
  if (is_edge_) edge_faults(s, on_broker);
  if (is_churn_) churn_faults(s, on_broker);
  if (is_media_) media_faults(s, on_broker);
  if (is_retention_) retention_faults(s, on_broker);
  if (is_cluster_) cluster_faults(s, on_broker);
  add_class(s, 12, 4, [&](Fault& f, Prng& one) {
    f.kind = FaultKind::WallStep;
    f.host = HostId(static_cast<uint32_t>(one.below(s.hosts.size())));
    const auto ms = static_cast<int64_t>(one.log_between(1, 30ull * 86'400'000));
    f.amount = one.chance({1, 2}) ? ms : -ms;
  });
}

void ScenarioMaker::disk_faults(Scenario& s, const Make& on_broker) const {
  const auto crash = [&](CrashKind kind) {
    return [&on_broker, kind](Fault& f, Prng& one) {
      on_broker(f, one);
      f.kind = FaultKind::Crash;
      f.crash_kind = kind;
      if (one.chance({2, 3})) f.calls = one.log_between(1, 300);
    };
  };
  add_class(s, 0, 6, crash(CrashKind::Kill));
  add_class(s, 1, 6, crash(CrashKind::PowerLoss));
  add_class(s, 2, 4, crash(CrashKind::Panic));
  add_class(s, 3, 4, [&](Fault& f, Prng& one) {
    on_broker(f, one);
    crash_in_recovery(f, one, {1, 2}, 1, 6);
  });
  add_class(s, 4, 3, [&](Fault& f, Prng& one) {
    on_broker(f, one);
    f.kind = FaultKind::Stop;
    f.duration = Duration::milliseconds(static_cast<int64_t>(one.log_between(100, 10'000)));
  });
  add_class(s, 5, 3, [&](Fault& f, Prng& one) {
    on_broker(f, one);
    f.kind = FaultKind::DiskFull;
    f.amount = static_cast<int64_t>(one.chance({1, 2}) ? 0 : one.log_between(4096, 4u << 20));
    f.duration = Duration::milliseconds(static_cast<int64_t>(one.log_between(100, 6000)));
  });
  add_class(s, 6, 3, [&](Fault& f, Prng& one) {
    on_broker(f, one);
    f.kind = FaultKind::FlushError;
    f.amount = 1;
  });
  add_class(s, 7, 6, [&](Fault& f, Prng& one) {
    on_broker(f, one);
    f.kind = FaultKind::FlushStall;
    f.amount = one.between(1, 4);
    f.duration = Duration::milliseconds(static_cast<int64_t>(one.log_between(10, 8000)));
  });
  add_class(s, 8, 4, [&](Fault& f, Prng& one) {
    on_broker(f, one);
    f.kind = FaultKind::Pause;
    f.duration = Duration::milliseconds(static_cast<int64_t>(one.log_between(10, 8000)));
  });
  add_class(s, 9, 2, [&](Fault& f, Prng& one) {
    on_broker(f, one);
    f.kind = FaultKind::SlowCpu;
    f.amount = static_cast<int64_t>(one.log_between(2, 100));
    f.duration = Duration::milliseconds(static_cast<int64_t>(one.log_between(100, 5000)));
  });
  add_class(s, 10, 6, [&](Fault& f, Prng& one) {  // just behind an event that matters
    on_broker(f, one);
    static constexpr std::string_view kEvents[] = {"SegmentMapped", "Flushed", "RoundDone", "MessageAcked", "BrokerServing", "StoreState"};
    f.kind = FaultKind::Crash;
    const uint64_t kind = one.below(3);
    f.crash_kind = kind == 0 ? CrashKind::Kill : kind == 1 ? CrashKind::PowerLoss : CrashKind::Panic;
    f.trigger.event = hash_text(kEvents[one.below(std::size(kEvents))]);
    f.trigger.nth = one.log_between(1, 40);
    f.trigger.delay = Duration::microseconds(static_cast<int64_t>(one.log_between(1, 20'000)));
  });
}

void ScenarioMaker::network_faults(Scenario& s, const Make& on_broker) const {
  const auto pair = [&](Fault& f, Prng& one) {
    const uint64_t from = one.below(s.hosts.size());
    const uint64_t step = 1 + one.below(s.hosts.size() - 1);
    f.host = HostId(static_cast<uint32_t>(from));
    f.other = HostId(static_cast<uint32_t>((from + step) % s.hosts.size()));
  };
  const auto lasting = [&](FaultKind kind, uint64_t ms_max) {
    return [&pair, kind, ms_max](Fault& f, Prng& one) {
      pair(f, one);
      f.kind = kind;
      f.duration = Duration::milliseconds(static_cast<int64_t>(one.log_between(10, ms_max)));
      if (kind == FaultKind::Clog) f.amount = static_cast<int64_t>(one.log_between(1'000'000, 3'000'000'000));
    };
  };
  add_class(s, 13, 8, lasting(FaultKind::OneWayPartition, 12'000));
  add_class(s, 14, 6, lasting(FaultKind::Clog, 8'000));
  add_class(s, 15, 8, lasting(FaultKind::Reset, 10));
  add_class(s, 16, 2, lasting(FaultKind::HalfOpen, 10));
  add_class(s, 17, 3, lasting(FaultKind::Refuse, 5'000));
  add_class(s, 18, 3, [&](Fault& f, Prng& one) {
    f.node = NodeId(static_cast<uint32_t>(one.below(s.nodes.size())));
    f.kind = FaultKind::SlowReceiver;
    f.duration = Duration::milliseconds(static_cast<int64_t>(one.log_between(100, 10'000)));
  });
  add_class(s, 19, 2, [&](Fault& f, Prng& one) {  // any node dies: clients and the name server too
    f.node = NodeId(static_cast<uint32_t>(one.below(s.nodes.size())));
    f.host = HostId(s.nodes[f.node.value()].host);
    f.kind = FaultKind::Crash;
    f.crash_kind = one.chance({1, 2}) ? CrashKind::Kill : CrashKind::PowerLoss;
  });
  add_class(s, 20, 2, [&](Fault& f, Prng& one) {
    on_broker(f, one);
    f.kind = FaultKind::Pause;
    f.duration = Duration::milliseconds(static_cast<int64_t>(one.log_between(10, 8000)));
  });
}

std::vector<ProfileInfo> profiles() {
  return {{"store", "one broker, one client: crashes, torn images, full and failing disks, clocks"},
          {"network", "one or two brokers, one or two clients: partitions, resets, cuts, slow readers, dying nodes"},
          {"mixed", "the faults of store and network together"},
          {"edge", "store, with bursts, rare hashes, power cuts inside flushes and after failed ones, clocks that go back"},
          {"churn", "store, with topics that are deleted and made again, groups that come and go, one-way sends, floods of requests"},
          {"media", "store, with torn and stale records, power cuts in a row, and damage to the store at rest: rot, lost checkpoints and indexes"},
          {"retention", "store, with small segments that go soon, clocks that leap, a disk that others fill, death at any step of a deletion"},
          {"cluster", "three brokers, two name servers, a dozen clients: groups whose members join, leave, die and vanish, also with a broker"},
          {"still", "no fault, and little to do: steps that gather much, bursts, and long rests in which what is acked is delivered promptly"},
          {"calm", "no fault at all: what is acked is delivered promptly, once"}};
}

Scenario make_scenario(std::string_view profile, Seed seed) { return ScenarioMaker(profile, seed).make(); }

std::optional<SeedName> parse_seed(std::string_view text, std::string_view profile) {
  SeedName out{std::string(profile), {}};
  int base = 10;
  if (text.starts_with("fulmar1:")) {
    text.remove_prefix(8);
    const size_t split = text.find(':');
    if (split == std::string_view::npos) return std::nullopt;
    out.profile = text.substr(0, split);
    text.remove_prefix(split + 1);
    base = 16;
  }
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), out.seed.value, base);
  if (text.empty() || parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size()) return std::nullopt;
  const std::vector<ProfileInfo> known = profiles();
  const bool is_known = std::any_of(known.begin(), known.end(), [&](const ProfileInfo& p) { return p.name == out.profile; });
  return is_known ? std::optional(out) : std::nullopt;
}

std::string seed_text(std::string_view profile, Seed seed) { return fmt::format("fulmar1:{}:{:016x}", profile, seed.value); }

}  // namespace fulmar::sim
