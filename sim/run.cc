#include "sim/run.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/media.h"
#include "sim/raw_peer.h"

namespace fulmar::sim {
namespace {

constexpr Duration kTick = Duration::milliseconds(500);

NodeFactory factory_of(const NodePlan& plan) {
  return [plan](Seed seed, Files& files, Trace& trace) -> std::unique_ptr<Node> {
    if (plan.is_raw) return std::make_unique<RawPeer>(seed, files, trace);
    Result<std::unique_ptr<Node>> node = make_node(plan.kind, plan.config, seed, files, trace);
    CHECK(node.has_value(), "{}: {}", plan.name, node.error().text());
    return std::move(*node);
  };
}

}  // namespace

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::Pass: return "pass";
    case Verdict::Safety: return "safety";
    case Verdict::Liveness: return "liveness";
    case Verdict::Nondeterminism: return "nondeterminism";
    case Verdict::Resource: return "resource";
    case Verdict::Harness: return "harness";
    case Verdict::TimeOut: return "timeout";
  }
  return "?";
}

Verdict verdict_of(std::string_view oracle) {
  if (oracle == "O17") return Verdict::Liveness;
  if (oracle == "O18") return Verdict::Resource;
  if (oracle == "determinism") return Verdict::Nondeterminism;
  if (oracle == "harness") return Verdict::Harness;
  return Verdict::Safety;
}

std::vector<OracleInfo> oracles() {
  return {{"O1", "no acknowledged message is lost, by the promise of its flush mode"},
          {"O1a", "at the moment of an ack, what it promises is true of the disk"},
          {"O2", "nothing is read that was not sent, nothing that was refused, nothing altered"},
          {"O3", "an offset names one message; offsets are dense; log places, stamps and a producer's order rise with them"},
          {"O4", "a group gets everything that it subscribed to; no queue is skipped"},
          {"O5", "what a reader has seen is not lost and not replaced"},
          {"O9", "every queue of a group belongs to exactly one of its live members, soon after these have changed"},
          {"O10", "a committed offset is one that was committed, not above the end, not below the last acknowledged one"},
          {"O11", "a query by key finds every message with that key and nothing else"},
          {"O15", "routes say of every broker what was registered and what was set"},
          {"O17", "after healing everything works again within its bounds"},
          {"O18", "after quiescence a node holds what an idle node holds"},
          {"O19", "recovery ends and is a function of the image, also when it is interrupted or repeated"},
          {"O20", "every store parses under a second reader of the format, and its parts agree"},
          {"O24", "retention takes from the front of the log, for a reason that its settings allow, and says so durably before a file goes"},
          {"O22", "a request is answered at most once, a call of the host by its deadline"},
          {"boundary", "nodes and drivers keep the contract of core/io"},
          {"check", "no CHECK of the core fails"},
          {"determinism", "the same seed gives the same hash"}};
}

Run::Run(const Scenario& scenario)
    : scenario_(scenario), world_(scenario_.seed, scenario_.world), court_(world_, scenario_), workload_(world_, court_, scenario_) {
  for (const HostSpec& host : scenario_.hosts) world_.add_host(host);
  for (const NodePlan& plan : scenario_.nodes) {
    world_.add_node({plan.name, HostId(plan.host), factory_of(plan), Duration::milliseconds(200)});
  }
  world_.observe(court_);
  world_.observe(workload_);
}
Run::~Run() = default;

void Run::tick() {
  court_.tick();
  if (is_kept_up_) start_missing();
  world_.at(world_.now() + kTick, [this] { tick(); });
}

void Run::start_missing() {
  for (size_t i = 0; i < scenario_.nodes.size(); ++i) {
    const NodeId node(static_cast<uint32_t>(i));
    const NodeState state = world_.state(node);
    if (state != NodeState::Up && state != NodeState::Paused) world_.start(node);
  }
}

bool Run::run_while(const std::function<bool()>& condition, SimTime until) {
  bool is_open = true;
  const auto goes_on = [&] {
    is_open = !gate_ || gate_();
    return is_open && condition();
  };
  return world_.run_while(goes_on, until) && is_open;
}

bool Run::all_serving() const {
  return std::all_of(court_.brokers().begin(), court_.brokers().end(), [](const Court::BrokerFacts& b) { return b.is_serving; });
}

bool Run::wait_for(const std::string& what, const std::function<bool()>& condition) {
  court_.liveness().expect(what, world_.now().ns, scenario_.bound.ns);
  // The oracle speaks before this time-out does.
  const bool is_fine = run_while([&] { return !condition(); }, world_.now() + scenario_.bound + kTick * 2);
  if (is_fine && condition()) court_.liveness().came_true(what);
  return is_fine && condition();
}

bool Run::start() {
  phase_ = "start";
  start_missing();
  world_.at(world_.now() + kTick, [this] { tick(); });
  world_.at(world_.now() + Duration::milliseconds(50), [this] { workload_.begin(); });
  for (const Fault& fault : scenario_.faults) world_.inject(fault);
  return !world_.has_failed();
}

bool Run::chaos() {
  phase_ = "chaos";
  return run_for(scenario_.chaos);
}

bool Run::heal() {
  phase_ = "heal";
  world_.heal();
  is_kept_up_ = true;
  start_missing();
  return wait_for("brokers serve", [this] { return all_serving() && workload_.has_topics(); }) && [this] {
    workload_.begin_probe();
    return wait_for("sends succeed", [this] { return workload_.is_probed(); });
  }();
}

// Queues of groups have one owner each, and find one in time when theirs is gone: two heartbeats when its connections were closed, its
// expiry and two heartbeats when it only fell silent.
bool Run::share() {
  phase_ = "share";
  if (!workload_.has_members()) return true;
  workload_.end_leaving();
  // Members that had left may still be coming back, and with each the queues are shared anew: at some time within the bound it is over.
  const auto is_shared_within = [this](Duration bound, std::string_view when) {
    const auto is_wrong = [this] { return !workload_.sharing_complaint().empty(); };
    const SimTime limit = world_.now() + bound;
    while (true) {
      if (!run_while(is_wrong, limit)) return false;
      if (is_wrong()) break;
      if (!run_while([&] { return !is_wrong(); }, world_.now() + Duration::seconds(2))) return false;
      if (!is_wrong()) return true;
    }
    workload_.demand_sharing(when);
    return false;
  };
  if (!is_shared_within(Duration::seconds(30), "30 s after healing")) return false;
  if (const auto client = workload_.lose_a_client()) {
    is_kept_up_ = false;
    world_.kill(*client);
    if (!is_shared_within(Duration::seconds(4), "4 s after a member was killed")) return false;
    is_kept_up_ = true;
    start_missing();
    if (!is_shared_within(Duration::seconds(15), "15 s after a member came back")) return false;
  }
  if (const auto client = workload_.lose_a_client()) {
    world_.pause(*client, Duration::seconds(40));
    if (!is_shared_within(Duration::seconds(18), "18 s after a member fell silent")) return false;
    if (!run_for(Duration::seconds(22))) return false;
    if (!is_shared_within(Duration::seconds(20), "20 s after a silent member came back")) return false;
  }
  workload_.begin_wipe();
  if (!wait_for("write permissions are wiped and put back", [this] { return workload_.is_wiped(); })) return false;
  workload_.begin_reset();
  if (!run_while([this] { return !workload_.is_reset_seen(); }, world_.now() + Duration::seconds(20))) return false;
  if (!workload_.is_reset_seen()) court_.fail("O10", "a group that was moved to the beginning while it consumed does not get what stands there within 20 s");
  return !world_.has_failed();
}

bool Run::drain() {
  phase_ = "drain";
  workload_.end_sending();
  if (!wait_for("all calls are answered", [this] { return workload_.is_quiet(); })) return false;
  // A send that was refused because its flush took too long is stored; it is shown to readers once it is flushed, which must happen too.
  const std::vector<uint64_t> goal = court_.appended_now();
  if (!wait_for("what is stored is flushed", [this, &goal] { return court_.unflushed(goal).empty(); })) return false;
  workload_.begin_reading("the reader");
  if (!wait_for("everything can be read", [this] { return !workload_.is_reading(); })) return false;
  const SimTime until = world_.now() + scenario_.bound;
  while (!court_.undelivered().empty() && world_.now() < until) {
    if (!run_for(Duration::milliseconds(200))) return false;
  }
  court_.demand_delivery();
  return !world_.has_failed();
}

bool Run::stop() {
  phase_ = "stop";
  workload_.unsubscribe_all();
  if (!wait_for("groups leave", [this] { return workload_.is_quiet(); })) return false;
  is_kept_up_ = false;
  std::vector<NodeId> brokers;
  for (const auto& b : court_.brokers()) brokers.push_back(b.node);
  for (const NodeId node : brokers) world_.stop(node, Duration::seconds(30));
  const auto is_stopped = [&] {
    return std::all_of(brokers.begin(), brokers.end(), [&](NodeId node) { return world_.state(node) != NodeState::Up && world_.state(node) != NodeState::Paused; });
  };
  if (!wait_for("brokers stop", is_stopped)) return false;
  for (const auto& b : court_.brokers()) {
    if (world_.state(b.node) != NodeState::Stopped) court_.fail("O17", fmt::format("{} did not stop in order: {}", b.geometry.name, world_.recent_events(b.node)));
    court_.check_store(b, Court::Image::Clean, "after a clean stop");
  }
  return !world_.has_failed();
}

bool Run::hurt() {
  phase_ = "hurt";
  if (scenario_.at_rest == RestDamage::None) return true;
  const Court::BrokerFacts& b = court_.brokers().front();
  SimDisk& disk = world_.disk(b.host);
  KeyedStream draws(scenario_.seed, load_domain(11), 0);
  if (scenario_.at_rest == RestDamage::IndexGone) {
    for (const std::string& path : disk.files()) {
      if (!path.starts_with("store/index/")) continue;
      disk.lose_file(path);
      world_.faults().fired(FaultClass::FileGone, true);
    }
    return true;
  }
  // Without checksums a record is not protected, and nobody could tell.
  const bool is_rot = scenario_.at_rest == RestDamage::LogRot || scenario_.at_rest == RestDamage::LogRotUnseen;
  // A log that ends in rot, without a checkpoint, beside an abort marker, is a torn tail.
  if (is_rot && b.is_unwritten) return true;
  if (is_rot && b.geometry.has_crc) {
    LogWalk walk = walk_log(disk);
    // A record of a user, with another one behind it: the last one could as well be torn.
    if (!walk.records.empty()) walk.records.pop_back();
    std::erase_if(walk.records, [](const LogPlace& r) { return r.topic.starts_with("rmq_sys_"); });
    if (walk.records.empty()) return true;
    const LogPlace& victim = walk.records[draws.below(walk.records.size())];
    // Not in the checksum's own name: without a checkpoint nobody knows that the record had one, and its body has another.
    constexpr uint64_t kChecksumBytes = 20;
    const uint64_t at = victim.offset + draws.below(victim.bytes - kChecksumBytes);
    const uint8_t mask = static_cast<uint8_t>(1u << draws.below(8));
    disk.rot_at(victim.path, at, mask);
    const QueueKey queue{b.geometry.name, victim.topic, victim.queue_id};
    court_.hurt(queue, victim.queue_offset, {victim.path, at, mask}, scenario_.at_rest == RestDamage::LogRot);
  }
  if (scenario_.at_rest == RestDamage::LogRotUnseen) return true;
  disk.lose_file("store/checkpoint");
  world_.faults().fired(FaultClass::FileGone, true);
  return true;
}

bool Run::verify() {
  phase_ = "verify";
  is_kept_up_ = true;
  start_missing();
  if (!wait_for("brokers serve again", [this] { return all_serving(); })) return false;
  workload_.begin_reading("the second reader");
  if (!wait_for("everything can be read again", [this] { return !workload_.is_reading(); })) return false;
  workload_.begin_watching();
  if (!run_for(Duration::seconds(15))) return false;
  workload_.end_watching();
  // Until then nobody is at rest.
  const auto is_built = [this] {
    return std::none_of(court_.brokers().begin(), court_.brokers().end(), [](const Court::BrokerFacts& b) { return b.derived_to < b.log_end && !b.is_damaged; });
  };
  if (!wait_for("what was found is derived durably", is_built)) return false;
  // A round that was put off maps queues late; a moment later they rest, too.
  constexpr int64_t kWrittenRestNs = 21'000'000'000;
  for (const auto& b : court_.brokers()) {
    const bool is_put_off = b.geometry.queue_round_cost_us != BrokerGeometry{}.queue_round_cost_us;
    const int64_t rest_ns = b.round_ns + kWrittenRestNs - world_.now().ns;
    if (is_put_off && rest_ns > 0 && !run_for(Duration{rest_ns})) return false;
  }
  for (int i = 0; i < 40 && !world_.has_failed(); ++i) {
    run_for(Duration::milliseconds(137));
    for (const auto& b : court_.brokers()) court_.resources().quiet(b.geometry.name, world_.tickets_out(b.node));
  }
  // Retention looks into queues before it takes a segment, and when it decides to keep one; a moment later they rest again.
  constexpr int64_t kQueuesRestNs = 25'000'000'000;
  for (const auto& b : court_.brokers()) {
    if (b.measured_ns + kQueuesRestNs < world_.now().ns) court_.resources().end_quiet(b.geometry.name);
  }
  return !world_.has_failed();
}

RunResult Run::result() {
  RunResult r;
  r.seed = scenario_.seed;
  r.profile = scenario_.profile;
  r.step_hash = world_.hash();
  r.events = world_.events_run();
  r.simulated_ns = world_.now().ns;
  r.phase = phase_;
  const Ledger& ledger = court_.ledger();
  r.sent = ledger.all().size();
  r.acked = ledger.count(Fate::Acked) + ledger.count(Fate::StoredOnly);
  r.refused = ledger.count(Fate::Refused);
  r.unknown = ledger.count(Fate::Unknown);
  r.lost = court_.no_loss().lost();
  r.excused = court_.no_loss().excused();
  r.duplicated = court_.duplicated();
  r.faults = world_.faults().all();
  if (!world_.has_failed()) return r;
  const Failure& failure = world_.failures().front();
  r.oracle = failure.oracle;
  r.sentence = failure.sentence;
  r.verdict = verdict_of(failure.oracle);
  for (const auto& b : court_.brokers()) r.recent += fmt::format("--- {}\n{}", b.geometry.name, world_.recent_events(b.node));
  return r;
}

RunResult Run::all() {
  const bool is_done = start() && chaos() && heal() && share() && drain() && stop() && hurt() && verify();
  RunResult r = result();
  if (!is_done && r.verdict == Verdict::Pass) {
    r.verdict = Verdict::Harness;
    r.oracle = "harness";
    r.sentence = fmt::format("the phase '{}' ended without a reason: {}", phase_, workload_.state());
  }
  return r;
}

RunResult run_scenario(const Scenario& scenario) {
  Run run(scenario);
  return run.all();
}

}  // namespace fulmar::sim
