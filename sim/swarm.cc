#include "sim/swarm.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/model/config.h"

namespace fulmar::sim {
namespace {

// Domains of scenario making, above Domain::Scenario.
enum class Part : uint32_t { Shape = 1, Geometry, Disk, Network, Clock, Load, Faults, Rate, Edge, Churn, Still, Media, Retention, Cluster };

class Maker {
 public:
  Maker(std::string_view profile, Seed seed) : profile_(profile), seed_(seed) {
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

  Scenario make() {
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

 private:
  KeyedStream part(Part part, uint64_t entity = 0) const {
    return KeyedStream(seed_, static_cast<Domain>(static_cast<uint32_t>(Domain::Scenario) + static_cast<uint32_t>(part)), entity);
  }

  BrokerGeometry geometry() const {
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
    if (is_retention_) retain(g);
    if (is_cluster_) g.name_servers = {"namesrv:9876", "namesrv-2:9876"};
    return g;
  }

  // Small segments that go soon: for their age, because the log is long, or because the disk fills.
  void retain(BrokerGeometry& g) const {
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
  void slow_renames(DiskProfile& d, size_t host) const {
    KeyedStream draws = part(Part::Retention, 2 + host);
    if (draws.chance({2, 3})) return;
    d.rename.base = Duration::milliseconds(static_cast<int64_t>(draws.log_between(20, 3'000)));
  }

  void retention_load(Scenario& s) const {
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

  void add_nodes(Scenario& s) const {
    KeyedStream draws = part(Part::Shape, 1);
    if (draws.chance({1, 2})) {
      BrokerGeometry second = geometry();
      second.name = "broker-b";
      add_broker(s, second);
    }
    if (draws.chance({1, 2})) add_client(s, "client-2");
  }

  // Three brokers, two name servers, a dozen clients.
  void add_cluster(Scenario& s) const {
    add_name_server(s, "namesrv-2");
    for (const char* name : {"broker-b", "broker-c"}) {
      BrokerGeometry g = geometry();
      g.name = name;
      add_broker(s, g);
    }
    for (int i = 2; i <= 12; ++i) add_client(s, fmt::format("client-{}", i), geometry().name_servers);
  }

  void load(Scenario& s) const {
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

  // Groups of many members that join, leave and die; a few of them with members that want different things.
  void cluster_load(WorkloadPlan& w) const {
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
  void media_load(Scenario& s) const {
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
  void churn_load(Scenario& s) const {
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
  void still_load(WorkloadPlan& w) const {
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
  void edge_load(WorkloadPlan& w) const {
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

  void clocks(Scenario& s) const {
    for (size_t i = 0; i < s.hosts.size(); ++i) {
      KeyedStream draws = part(Part::Clock, i);
      ClockSpec& clock = s.hosts[i].clock;
      if (!is_calm_ && draws.chance({1, 2})) clock.skew_ppb = draws.between(-500'000, 500'000);
      if (draws.chance({7, 10})) clock.wall_start.ms += draws.between(-86'400'000, 86'400'000);
      clock.zone_s = static_cast<int32_t>(draws.between(-12, 14) * 3600);
      clock.start.ns = static_cast<int64_t>(draws.log_between(1'000'000'000, 1'000'000'000'000'000));
    }
  }

  void disk(DiskProfile& d, size_t host) const {
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

  void network(NetworkProfile& n) const {
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

  void cpu(CpuProfile& c) const {
    KeyedStream draws = part(Part::Network, 1);
    c.is_batch_drawn = draws.chance({1, 3});
    if (draws.chance({1, 3})) c.batch_wait = {1, 3};
    if (!is_still_) return;
    KeyedStream still = part(Part::Still, 1);
    c.batch_wait = {3, 4};
    c.batch_wait_max = Duration::microseconds(static_cast<int64_t>(still.log_between(500, 30'000)));
  }

  // --- faults -------------------------------------------------------------------------------------------------------------------------
  template <class Make>
  void add_class(Scenario& s, uint64_t index, uint64_t count_max, Make make) const {
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

  void faults(Scenario& s) const {
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

  template <class OnBroker>
  void disk_faults(Scenario& s, const OnBroker& on_broker) const {
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
    add_class(s, 3, 4, [&](Fault& f, Prng& one) {  // inside a recovery
      on_broker(f, one);
      f.kind = FaultKind::Crash;
      f.crash_kind = one.chance({1, 2}) ? CrashKind::Kill : CrashKind::PowerLoss;
      f.trigger.event = hash_text("RecoveryStarted");
      f.trigger.nth = one.log_between(1, 6);
      f.trigger.delay = Duration{};
      f.calls = one.log_between(1, 60);
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

  // Where a rule of the store is decided: a power cut in the middle of a flush, or soon after one that failed; a clock that goes back.
  template <class OnBroker>
  void edge_faults(Scenario& s, const OnBroker& on_broker) const {
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
  template <class OnBroker>
  void media_faults(Scenario& s, const OnBroker& on_broker) const {
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
      f.kind = FaultKind::Crash;
      f.crash_kind = one.chance({1, 4}) ? CrashKind::Kill : CrashKind::PowerLoss;
      f.trigger.event = hash_text("RecoveryStarted");
      f.trigger.nth = one.log_between(2, 12);
      f.trigger.delay = Duration{};
      f.calls = one.log_between(1, 60);
    });
  }

  // Flushes that take long, one after the other, while others are made; clients that stop reading.
  // A clock that leaps by hours and days, a disk that others fill, death at any step of a deletion, readers that hold what shall go.
  template <class OnBroker>
  void retention_faults(Scenario& s, const OnBroker& on_broker) const {
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

  template <class OnBroker>
  void churn_faults(Scenario& s, const OnBroker& on_broker) const {
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
  template <class OnBroker>
  void cluster_faults(Scenario& s, const OnBroker& on_broker) const {
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

  template <class OnBroker>
  void network_faults(Scenario& s, const OnBroker& on_broker) const {
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

  std::string profile_;
  Seed seed_;
  bool is_calm_ = false, is_storm_ = false, has_disk_faults_ = false, has_network_faults_ = false, is_edge_ = false, is_churn_ = false, is_still_ = false, is_media_ = false, is_retention_ = false, is_cluster_ = false;
  uint64_t storm_ = 0;
  Duration chaos_;
};

}  // namespace

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

Scenario make_scenario(std::string_view profile, Seed seed) { return Maker(profile, seed).make(); }

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
