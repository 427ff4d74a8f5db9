#pragma once
// Node configuration: RocketMQ's key=value properties with RocketMQ's key names wherever the meaning is the same. The text form is the
// serialised form: what a driver or a scenario hands to node/make.h. One table (config_keys) drives parsing, `config check` and
// `config explain`.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/model/ids.h"

namespace fulmar {

enum class FlushDiskType : uint8_t { Sync, Async };  // SYNC_FLUSH (our default), ASYNC_FLUSH
enum class CompressionType : uint8_t { Zlib, Lz4, Zstd };
enum class MetricsExporter : uint8_t { Disabled, Prometheus };
struct HourSet {                                     // hours of the day, as text "04" or "04;16"
  uint32_t mask = 0;                                 // bit n: the hour from n o'clock on
  bool has(uint32_t hour) const { return (mask >> hour & 1u) != 0; }
  friend bool operator==(HourSet, HourSet) = default;
};

struct BrokerConfig {
  std::string cluster = "DefaultCluster";             // brokerClusterName
  std::string broker_name = "broker-a";               // brokerName
  int64_t broker_id = 0;                              // brokerId
  std::string broker_ip;                              // brokerIP1; empty: the address at which a connection reached us
  std::string listen_host = "0.0.0.0";                // listenHost (ours); RocketMQ's bindAddress is read too
  uint16_t listen_port = 10911;                       // listenPort; 0: a free one
  bool is_vip_enabled = true;                         // vipChannelEnabled (ours): listen at the port minus 2, too, as RocketMQ does
  std::vector<std::string> name_servers;              // namesrvAddr, ';'-separated host:port
  std::string store_path = "store";                   // storePathRootDir
  FlushDiskType flush_disk_type = FlushDiskType::Sync;            // flushDiskType
  uint64_t commit_log_file_bytes = 1ull << 30;        // mappedFileSizeCommitLog, >= 64 KiB, a multiple of 4096
  uint64_t consume_queue_file_bytes = 6'000'000;      // mappedFileSizeConsumeQueue, a multiple of 20
  uint64_t index_slot_count = 5'000'000;              // maxHashSlotNum
  uint64_t index_entry_count = 20'000'000;            // maxIndexNum
  bool is_index_enabled = true;                       // messageIndexEnable
  uint64_t async_unflushed_bytes_max = 64ull << 20;   // asyncUnflushedBytesMax (ours): U, the bound on unflushed bytes, in both modes
  int64_t flush_interval_ms = 500;                    // flushIntervalCommitLog (ASYNC_FLUSH)
  int64_t consume_queue_flush_interval_ms = 1000;     // flushIntervalConsumeQueue: derived files are written and flushed this often, where queues are few
  int64_t consume_queue_flush_interval_max_ms = 600'000;   // flushConsumeQueueThoroughInterval: and this often, however many queues there are
  uint32_t queue_round_cost_us = 250;                 // consumeQueueRoundCostUs (ours): CPU that writing one queue takes in a round
  int64_t sync_flush_timeout_ms = 5000;               // syncFlushTimeout: then FLUSH_DISK_TIMEOUT
  uint32_t body_bytes_max = 4u << 20;                 // maxMessageSize
  bool is_topic_auto_created = false;                 // autoCreateTopicEnable
  int32_t default_topic_queues = 8;                   // defaultTopicQueueNums
  bool is_crc_property_on = true;                     // enabledAppendPropCRC: on for new stores
  uint32_t disk_refuse_percent = 90;                  // diskSpaceWarningLevelRatio: refuse writes above
  uint64_t disk_free_bytes_min = 0;                   // diskFreeBytesMin (ours): refuse writes below; `dev` sets 512 MiB
  int64_t file_reserved_hours = 72;                   // fileReservedTime: messages younger than this are not deleted for their age
  int64_t file_reserved_ms = 0;                       // fileReservedMs (ours): the same in ms, for stores that keep minutes; 0: fileReservedTime
  HourSet delete_hours{1u << 4};                      // deleteWhen: expired files go in these hours, local time
  uint32_t disk_expired_percent = 75;                 // diskMaxUsedSpaceRatio: above, expired files go at any hour
  uint32_t disk_forced_percent = 85;                  // diskSpaceCleanForciblyRatio: above, the oldest file goes whatever its age …
  bool is_deleting_forcibly = true;                   // cleanFileForciblyEnable: … if this says so; `dev` says no (decision 10)
  uint64_t retain_bytes_max = 0;                      // retainBytesMax (ours): the oldest files of a longer log go; 0: no bound
  bool is_unread_kept = false;                        // neverDeleteUnread (ours): what a known group has not consumed is never deleted
  int64_t register_interval_ms = 1000;                // registerNameServerPeriod for native name servers
  uint64_t prepare_ahead_bytes_max = 64ull << 20;     // prepareAheadBytesMax (ours), decision 1
  MetricsExporter metrics_exporter = MetricsExporter::Disabled;   // metricsExporterType: DISABLE, PROM; `dev` serves at a free port
  std::string metrics_host;                           // metricsPromExporterHost; empty: listenHost
  uint16_t metrics_port = 5557;                       // metricsPromExporterPort; 0: a free one
  friend bool operator==(const BrokerConfig&, const BrokerConfig&) = default;
};

struct NameServerConfig {
  std::string listen_host = "0.0.0.0";                // listenHost
  uint16_t listen_port = 9876;                        // listenPort
  int64_t broker_expiry_ms = 10'000;                  // brokerExpiry (ours; native registrations)
  MetricsExporter metrics_exporter = MetricsExporter::Disabled;   // as a broker's
  std::string metrics_host;
  uint16_t metrics_port = 5558;
  friend bool operator==(const NameServerConfig&, const NameServerConfig&) = default;
};

struct ClientConfig {
  std::vector<std::string> name_servers;              // namesrvAddr
  std::string client_id = "fulmar";                   // clientId
  int64_t send_timeout_ms = 3000;                     // sendMsgTimeout: in all, resends included
  int32_t resends = 2;                                // retryTimesWhenSendFailed
  int64_t route_refresh_ms = 30'000;                  // pollNameServerInterval
  uint32_t body_bytes_max = 4u << 20;                 // maxMessageSize
  int64_t attempt_timeout_ms = 0;                     // sendMsgMaxTimeoutPerRequest: one attempt; 0: its share of what is left
  bool is_latency_judged = false;                     // sendLatencyEnable: slow brokers are avoided like failing ones
  uint32_t compress_over_bytes = 4096;                // compressMsgBodyOverHowmuch: bodies of so many bytes and more; 0: none
  int32_t compress_level = 5;                         // compressLevel (ours as a key; RocketMQ has a system property)
  CompressionType compress_type = CompressionType::Zlib;  // compressType (the same)
  friend bool operator==(const ClientConfig&, const ClientConfig&) = default;
};

// What a line of a configuration file came to. Conflict: bad beside what other keys are, so that more text may mend it.
struct ConfigNote {
  enum class Kind : uint8_t { Ignored, Unknown, Bad, Conflict } kind;
  int line = 0;
  std::string key;
  std::string sentence;  // reason, nearest known name, or what is wrong with the value and what is allowed
};
struct ConfigKey {
  std::string_view name;        // RocketMQ's, or ours
  std::string value;            // default, as text
  std::string_view meaning;     // one line; for ignored keys: why
  bool is_ignored = false;      // known to RocketMQ, without effect here
};

// Parses properties text: `key=value` a line, '#' comments, blanks trimmed, later lines win. Unknown and bad lines are errors: the
// result is InvalidArgument with the first of them, all of them are in `notes` (may be null); ignored keys are notes only.
Result<BrokerConfig> parse_broker_config(std::string_view properties, std::vector<ConfigNote>* notes);
Result<NameServerConfig> parse_name_server_config(std::string_view properties, std::vector<ConfigNote>* notes);
Result<ClientConfig> parse_client_config(std::string_view properties, std::vector<ConfigNote>* notes);
// The inverse: parse(serialise(c)) == c.
std::string serialise(const BrokerConfig& config);
std::string serialise(const NameServerConfig& config);
std::string serialise(const ClientConfig& config);
std::vector<ConfigKey> broker_config_keys();

}  // namespace fulmar
