#pragma once
// A run as data: hosts, nodes, workload, faults, clocks and oracle switches. The engine executes scenarios only; a seed is expanded into
// one by swarm.h, a scenario test writes its own.

#include <cstdint>
#include <string>
#include <vector>

#include "core/node/make.h"
#include "sim/world.h"

namespace fulmar::sim {

struct NodePlan {
  std::string name;
  NodeKind kind = NodeKind::Broker;
  uint32_t host = 0;                     // index into Scenario::hosts
  std::string config;                    // properties text; of a raw peer none
  bool is_raw = false;                   // a client without the client node (raw_peer.h)
};

struct WorkloadPlan {
  uint32_t topics = 2;
  int32_t queues = 3;                    // of each topic
  uint32_t producers = 3;
  uint32_t groups = 2;
  uint32_t members = 1;                  // of each group, on clients of their own as far as there are some; above 1 sharing is judged, too
  Ratio pipelined{0, 1};                 // of a group: several batches of a queue may be out
  Ratio split{0, 1};                     // of a group: half of its members consume another topic
  uint32_t committers = 1;               // groups that commit offsets by themselves
  uint32_t messages_max = 800;           // in all
  uint32_t in_flight_max = 4;            // per producer; 1: one after the other
  Duration gap_min = Duration::milliseconds(5), gap_max = Duration::milliseconds(80);
  Ratio batched{1, 2};
  uint32_t batch_max = 12;
  uint32_t body_bytes_min = 1, body_bytes_max = 600;
  Ratio large{1, 40};
  uint32_t large_bytes_max = 16 * 1024;
  uint32_t key_pool = 24, tag_pool = 3;
  Ratio keyed{2, 3}, tagged{2, 3}, long_properties{1, 64};
  Ratio picks_queue{1, 3};
  Ratio compressible{1, 5}, one_way{1, 12}, sharded{1, 4};   // of the messages sent one by one; a sharded one picks no queue
  uint32_t shard_pool = 5;
  Duration think_max = Duration::milliseconds(50);   // of a consumer, per batch
  bool is_created_by_sending = false;    // topics are not created first
  bool has_bound_lengths = false;        // long properties are about as long as a record takes, with and without its checksum
  bool is_uniform = false;               // records of one topic that have one size, when nothing else varies it
  Ratio rests{0, 1};                     // of a producer: after a message it adds `rest` to its gap
  Duration rest;
  Ratio leaves{0, 1};                    // of a group: it leaves with the batch it was just given, and comes back
  bool makes_groups = false;             // two that nobody consumes with: one stays, the other comes and goes
  uint32_t deletions = 0;                // of the last topic, which is made again each time
  Duration deletion_gap_min = Duration::milliseconds(300), deletion_gap_max = Duration::seconds(4);
  Duration commit_gap_min = Duration::milliseconds(20), commit_gap_max = Duration::milliseconds(400);   // of a committer
};

struct OracleSwitches {
  bool checks_wire = true;               // O22 on every frame
  uint32_t recovery_checks = 1;          // O19 after one crash in `recovery_every`, at most this often
  uint32_t recovery_every = 10;
  uint32_t round_every = 24;             // O20 on what one round in so many has made durable
  bool expects_prompt = false;           // nothing disturbs this run: what is acked is delivered within prompt_bound
  Duration prompt_bound = Duration::seconds(5);
};

// What happens to one store between its clean stop and its last start.
enum class RestDamage : uint8_t {
  None,
  CheckpointGone,   // all that is derived is found again by scanning
  IndexGone,        // and only the index is built again
  LogRot,           // a bit of one record, and the checkpoint: the record is lost, and nothing else is
  LogRotUnseen,     // a bit of one record, and the checkpoint says that all is well: who reads the record must notice
};

struct Scenario {
  Seed seed;
  std::string profile = "calm";
  Profile world;
  std::vector<HostSpec> hosts;
  std::vector<NodePlan> nodes;
  std::vector<Fault> faults;
  WorkloadPlan load;
  OracleSwitches oracles;
  RestDamage at_rest = RestDamage::None;
  Duration chaos = Duration::seconds(10);
  Duration bound = Duration::seconds(90);            // of each thing that must come true after healing
};

// "name=value" lines of a broker that lives in a simulation: small files everywhere.
struct BrokerGeometry {
  std::string name = "broker-a";
  std::vector<std::string> name_servers = {"namesrv:9876"};
  bool is_sync = true;
  uint64_t log_file_bytes = 256 * 1024;
  uint64_t queue_file_entries = 200;
  uint64_t index_slots = 100, index_entries = 400;
  uint64_t unflushed_bytes_max = 256 * 1024;
  int64_t flush_interval_ms = 500, queue_flush_interval_ms = 1000, sync_flush_timeout_ms = 5000;
  int64_t queue_flush_interval_max_ms = 600'000;
  uint32_t queue_round_cost_us = 250;
  bool has_crc = true, creates_topics = false;
  // retention; as it stands here nothing ever goes
  int64_t reserved_ms = 0;                 // 0: hours, longer than any run
  uint64_t retain_bytes_max = 0;
  bool deletes_forcibly = false, keeps_unread = false;
  uint32_t delete_hours = 1u << 4;
};
std::string broker_properties(const BrokerGeometry& geometry);
BrokerGeometry geometry_of(const NodePlan& plan);    // of a plan that broker_properties() wrote

// One name server, one broker and one client, each on a host of its own, nothing else. Nodes 0, 1, 2 in this order.
Scenario plain_scenario(Seed seed, const BrokerGeometry& geometry);
// Another node on a host of its own.
void add_broker(Scenario& scenario, const BrokerGeometry& geometry);
void add_client(Scenario& scenario, const std::string& name, const std::vector<std::string>& name_servers = {"namesrv:9876"});
void add_name_server(Scenario& scenario, const std::string& name);
inline const NodeId kNameServerNode{0}, kBrokerNode{1}, kClientNode{2};

}  // namespace fulmar::sim
