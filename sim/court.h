#pragma once
// Watches a world and judges it: turns what observers see into facts, feeds the oracles, and fails the world at the first broken sentence.
// The workload tells it what clients asked for and were told.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/ledger.h"
#include "sim/oracles/fsck.h"
#include "sim/oracles/o10_offsets.h"
#include "sim/oracles/o11_index.h"
#include "sim/oracles/o17_liveness.h"
#include "sim/oracles/o18_resources.h"
#include "sim/oracles/o19_recovery.h"
#include "sim/oracles/o1_no_loss.h"
#include "sim/oracles/o1a_truth_at_ack.h"
#include "sim/oracles/o22_answers.h"
#include "sim/oracles/o24_retention.h"
#include "sim/oracles/o25_metrics.h"
#include "sim/oracles/o2_authentic.h"
#include "sim/oracles/o3_places.h"
#include "sim/oracles/o3_queue_order.h"
#include "sim/oracles/o4_at_least_once.h"
#include "sim/oracles/o4c_once.h"
#include "sim/oracles/o5_read_stability.h"
#include "sim/oracles/o9_ownership.h"
#include "sim/scenario.h"

namespace fulmar::sim {

class WireWatch;

class Court final : public WorldObserver, private Verdicts {
 public:
  struct BrokerFacts {
    NodeId node;
    HostId host;
    BrokerGeometry geometry;
    bool is_serving = false, is_damaged = false;
    bool is_hurt = false;            // its log was damaged at rest: it may say so, and queues may end at what is lost
    bool is_unwritten = false;       // its stop left queues to the next start
    bool is_rebuilding = false;      // derived files were thrown away: the checkpoint's claim about them is known to be void
    uint64_t recoveries = 0, log_end = 0, derived_to = 0;   // derived_to: by its last round, or as its start found it
    uint64_t log_begin = 0;
    int64_t measured_ns = INT64_MIN / 2;   // retention looked into queues last
    int64_t round_ns = INT64_MIN / 2;      // queues were written last
    int64_t leap_ms = 0;                   // by how much its host's clock was set ahead so far, in all
    uint64_t appended = 0, flushed = 0;    // by its own trace; what lies between is stored, and not yet shown to anyone
    uint64_t found_durable = 0;            // of this life: what it called flushed, found true
    std::map<std::string, std::vector<Range>> topic_changes;   // of this life: the records that made and deleted a topic
    std::vector<Recovery> past;
  };
  // One record of a reply.
  struct Item { int64_t queue_offset = 0; uint64_t physical = 0; std::optional<MessageId> id; std::vector<std::string> keys; int64_t stored_ms = 0; };

  Court(World& world, const Scenario& scenario);
  ~Court() override;

  // --- from the workload --------------------------------------------------------------------------------------------------------------
  Ledger& ledger() { return ledger_; }
  const Ledger& ledger() const { return ledger_; }
  void told(CallId call, NodeId node, std::string_view what, Duration limit, bool has_many_answers);
  void answered(CallId call) { answers_.answered(call.value(), world_.now().ns); }
  // The answer for messages that were sent together, in order of sending.
  void settled_ok(const std::vector<MessageId>& ids, const reply::Sent& sent, const std::string& topic);
  void settled(const std::vector<MessageId>& ids, Fate fate);     // Refused or Unknown
  // The record at `offset` of a queue was damaged at rest: it may be gone, and what that queue has behind it.
  // A bit of the record of this offset is flipped. Seen: the checkpoint is gone with it, and the start that scans everything must notice; else
  // whoever reads the record must, and the second reader of stores looks past it.
  struct Rot { std::string path; uint64_t at = 0; uint8_t mask = 0; };
  void hurt(const QueueKey& queue, int64_t offset, Rot rot, bool is_seen);
  bool is_hurt(const QueueKey& queue) const { return hurt_queues_.contains(queue); }
  void group_is_made(const std::string& group) { made_groups_.insert(group); }   // for good, and at every broker
  void topic_goes(const std::string& topic);                      // its deletion is asked for
  void topic_is_gone(const std::string& topic);                   // what was sent to it so far may be gone, too
  // Parses records that somebody was given and judges each. Offsets and queue come from the records when `queue` leaves them open.
  std::vector<Item> read(std::string_view reader, const QueueKey& queue, Bytes records, bool is_from_queue);
  void delivered(const std::string& group, const QueueKey& queue, uint64_t holder, int64_t first, int64_t next, const std::vector<Item>& items);
  // A complete reading of all queues: begin, each queue, end.
  void begin_reading();
  void read_queue(std::string_view reader, const QueueKey& queue, int64_t min, int64_t max, int64_t known_end, const std::vector<Item>& items);
  void end_reading();
  // What is visible by the last complete reading and has not been consumed by a group that wants it; empty when all is well.
  std::string undelivered() const;
  void demand_delivery();

  QueueOrder& order() { return order_; }
  CommittedOffsets& offsets() { return offsets_; }
  KeyIndex& index() { return index_; }
  Liveness& liveness() { return liveness_; }
  Resources& resources() { return resources_; }
  Answers& answers() { return answers_; }
  AtLeastOnce& groups() { return groups_; }
  CalmExactlyOnce& once() { return once_; }
  Ownership& ownership() { return ownership_; }
  NoLoss& no_loss() { return no_loss_; }
  // Pages of a broker's metrics, when a complete reading is done; `groups` have committed what the reading was told, and nothing since.
  void judge_metrics(const BrokerFacts& broker, const std::vector<reply::Metrics>& pages, const std::vector<std::string>& groups);
  MetricsAgree& metrics() { return metrics_; }
  const std::vector<BrokerFacts>& brokers() const { return brokers_; }
  BrokerFacts* broker(std::string_view name);
  uint64_t duplicated() const { return duplicated_; }
  // One line for each broker that has yet to flush what stood in its log at `goal` (in the order of brokers()); empty when none has.
  std::vector<uint64_t> appended_now() const;
  std::string unflushed(const std::vector<uint64_t>& goal) const;
  void tick();
  // The whole store of a broker as it stands, by the second reader. After a clean stop everything derived is compared too, after a crash
  // what the checkpoint claims to be derived.
  enum class Image : uint8_t { Recovered, Clean, Crashed };
  void check_store(const BrokerFacts& broker, Image image, std::string_view when, std::optional<uint64_t> log_end = {});
  // What a power cut now might leave of a round that is told to be durable up to `to`.
  void check_round(const BrokerFacts& broker, uint64_t to);
  void fail(std::string_view oracle, std::string sentence) { violated(oracle, std::move(sentence)); }

  // --- WorldObserver ------------------------------------------------------------------------------------------------------------------
  void on_life(World& world, Life who, LifeChange change, const Error* why) override;
  void on_trace(World& world, Life who, const TraceRecord& record) override;
  void on_call(World& world, const IoCall& call) override;
  void on_input(World& world, Life who, const Input& input) override;
  void on_sent_bytes(World& world, Life who, ConnId conn, Bytes bytes) override;
  void on_crashed(World& world, const CrashReport& report, const SimDisk& disk) override;
  void on_fault(World& world, const Fault& fault) override;

 private:
  void violated(std::string_view oracle, std::string sentence) override;
  BrokerFacts* broker_at(NodeId node);
  void recovered(BrokerFacts& broker, uint64_t end);
  void log_begins(BrokerFacts& broker, uint64_t begin);
  void segment_expired(BrokerFacts& broker, const TraceRecord& record);
  void on_broker_event(BrokerFacts& broker, const TraceRecord& record);
  bool was_recovered_since(const BrokerFacts& broker, const SentMessage& message) const;
  uint64_t durable_log_end(const BrokerFacts& broker, uint64_t begin, uint64_t end);
  void note_change(BrokerFacts& broker, Range at);
  void check_topic_answer(const BrokerFacts& broker, const std::string& topic, size_t change, const Reply& reply);
  void check_flushed(BrokerFacts& broker, uint64_t to);
  uint64_t durable_limit(const BrokerFacts& broker);
  std::optional<CheckpointClaim> durable_claim(const BrokerFacts& broker);
  void check_promptness();
  void check_survivors(const BrokerFacts& broker, Image image, const StoreReport& report, std::string_view when);
  void check_recovery(const BrokerFacts& broker, const SimDisk& disk, CrashKind crash, std::string_view what);

  World& world_;
  const Scenario& scenario_;
  Ledger ledger_;
  NoLoss no_loss_{ledger_, *this};
  TruthAtAck truth_{*this};
  Authentic authentic_{ledger_, *this};
  QueueOrder order_{*this};
  Places places_{*this};
  AtLeastOnce groups_{*this};
  CalmExactlyOnce once_;
  Ownership ownership_{*this};
  ReadStability stability_{*this};
  CommittedOffsets offsets_{*this};
  KeyIndex index_{*this};
  Liveness liveness_{*this};
  Resources resources_{*this};
  RecoveryAgrees recoveries_{*this};
  Answers answers_{*this};
  RetentionTruth retention_{ledger_, *this};
  MetricsAgree metrics_{*this};
  std::map<std::string, uint64_t> begins_when_read_;   // where logs began when the reading began
  std::unique_ptr<WireWatch> wire_;
  std::vector<BrokerFacts> brokers_;
  struct Visible { QueueKey queue; int64_t queue_offset; MessageId id; uint64_t physical; };
  bool is_owed(const Visible& visible) const;
  std::vector<Visible> visible_;
  std::map<MessageId, uint64_t> visible_count_;
  std::vector<MessageId> acked_;          // in order of their answers, for promptness
  size_t prompt_checked_ = 0;
  void judge_store(const BrokerFacts& broker, const SimDisk& disk, Image image, std::string_view when, std::optional<uint64_t> log_end, uint64_t derived_to);
  uint64_t duplicated_ = 0, crashes_ = 0, rounds_ = 0;
  uint32_t recovery_checks_ = 0;
  std::set<std::string> deleted_topics_, made_groups_;
  std::set<QueueKey> hurt_queues_;
  std::map<std::string, Rot> unseen_rot_;   // by broker
};

// Runs a broker alone on a copy of a disk: recovers, stops it in order, and reads what it left. `crash_at`: it is killed at that I/O call
// of its first life, and recovers again.
struct RecoveryTrial { uint64_t crash_at = 0; CrashKind kind = CrashKind::Kill; bool again = false; };
struct TrialOutcome { RecoveryAgrees::Outcome outcome; uint64_t calls = 0; std::vector<std::string> problems; std::string failure; };
TrialOutcome try_recovery(SimDisk image, const std::string& config, const ClockSpec& clock, Seed seed, const RecoveryTrial& trial);

}  // namespace fulmar::sim
