#pragma once
// Typed requests and replies, shared by every protocol and by the host. Commands borrow: their views live as long as the input they
// came in. Replies own, because they wait in gates and outboxes.
//
// `broker` in commands that name a queue is for the client node only: which broker's queue is meant; it never travels.

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/time.h"
#include "core/model/group_commands.h"
#include "core/model/ids.h"
#include "core/model/message.h"
#include "core/model/metrics.h"

namespace fulmar {

// RocketMQ's response codes (remoting.md, list of response codes). Both protocols answer with them.
enum class Code : int32_t {
  Success = 0,
  SystemError = 1,
  SystemBusy = 2,
  RequestCodeNotSupported = 3,
  FlushDiskTimeout = 10,     // stored, not known to be durable
  SlaveNotAvailable = 11,
  FlushSlaveTimeout = 12,
  MessageIllegal = 13,
  ServiceNotAvailable = 14,
  VersionNotSupported = 15,
  NoPermission = 16,
  TopicNotExist = 17,
  TopicExistAlready = 18,
  PullNotFound = 19,
  PullRetryImmediately = 20,
  PullOffsetMoved = 21,
  QueryNotFound = 22,
  SubscriptionParseFailed = 23,
  SubscriptionNotExist = 24,
  SubscriptionGroupNotExist = 26,
  InvalidParameter = 29,
};
std::string_view to_string(Code code);  // "SERVICE_NOT_AVAILABLE"

// Each refusal names one cause, what was measured, and when to try again (0: trying again will not help).
struct Refusal {
  Code code = Code::SystemError;
  std::string cause;      // "the disk under /data is above the refusal watermark"
  std::string measured;   // "used 93 % of 100 GiB, watermark 90 %, free 7516192768 bytes"
  uint32_t retry_after_ms = 0;
};

struct TopicConfig {
  std::string name;
  int32_t read_queues = 0, write_queues = 0;
  uint32_t perm = 6;  // 4 read, 2 write, 1 inherit
  friend bool operator==(const TopicConfig&, const TopicConfig&) = default;
};
inline constexpr uint32_t kPermRead = 4, kPermWrite = 2;

namespace command {
struct Hello { uint16_t version = 1; uint64_t features = 0; std::string_view client; };
struct SendMessage {
  std::string_view topic;
  int32_t queue_id = -1;  // negative: the receiver chooses
  int32_t flag = 0;
  uint32_t sys_flag = 0;
  Wall born;
  int32_t reconsume_times = 0;
  Bytes properties;
  Bytes body;
  std::string_view broker;
};
// `packed` is RocketMQ's client batch (store.md 2.7): totalSize, magic, bodyCRC, flag, bodyLen + body, propLen + properties, repeated.
struct SendBatch {
  std::string_view topic;
  int32_t queue_id = -1;
  uint32_t sys_flag = 0;
  Wall born;
  Bytes packed;
  std::string_view broker;
};
struct PullMessages {
  std::string_view group, topic;
  int32_t queue_id = 0;
  QueueOffset offset;
  int32_t count_max = 32;
  int32_t bytes_max = 256 * 1024;
  uint32_t suspend_ms = 0;          // 0: answer at once
  std::string_view subscription;    // "*" or "", or tags joined by "||"
  std::string_view broker;
};
struct CommitOffset { std::string_view group, topic; int32_t queue_id = 0; QueueOffset offset; bool needs_flush = false; std::string_view broker; };
struct QueryOffset { std::string_view group, topic; int32_t queue_id = 0; std::string_view broker; };
struct QueryQueue { std::string_view topic; int32_t queue_id = 0; std::string_view broker; };
struct QueryRoute { std::string_view topic; };
struct CreateTopic { std::string_view topic; int32_t read_queues = 4, write_queues = 4; uint32_t perm = kPermRead | kPermWrite; };
struct DeleteTopic { std::string_view topic; };
struct ListTopics { std::string_view after; int32_t count_max = 1000; };  // in name order, from the first name above `after`
struct DescribeTopic { std::string_view topic; };
struct QueryMessages { std::string_view topic, key; int32_t count_max = 32; Wall begin, end; std::string_view broker; };
struct ViewMessage { PhysicalOffset at; std::string_view broker; };
struct GetStatus { std::string_view broker = {}; };
struct GetConfig { std::string_view broker = {}; };                                   // Status, names and values as in a properties file
struct UpdateConfig { std::string_view key, value, broker = {}; };                    // keys that may change while the broker runs
// A broker (or any of its topics' owner) tells a name server about itself. host empty: the address at which we see the connection.
struct RegisterBroker {
  std::string_view cluster, broker_name;
  BrokerId broker_id;
  std::string_view host;
  uint16_t port = 0;
  uint64_t topics_version = 0;
  bool is_complete = true;                // false: only a heartbeat for a table of that version
  std::vector<TopicConfig> topics;
  std::string_view version = {};          // of the program
};
struct UnregisterBroker { std::string_view cluster, broker_name; BrokerId broker_id; };
struct QueryCluster {};                   // asked of a name server
// A name server takes the write permission out of all routes of a broker, and puts it back: producers go elsewhere, consumers drain it.
struct WipeWritePerm { std::string_view broker_name; };
struct AddWritePerm { std::string_view broker_name; };

// --- only from the host -------------------------------------------------------------------------------------------------------------
struct Stop { Duration deadline; };       // drain, flush, persist; then Outbox::stopped()
// Client node: follow the queues of a topic as a member of a group, from the committed offset or, without one, from `from`. Told are
// reply::Assigned, and reply::Delivered for each batch, which Consumed answers and thereby commits (Broadcasting: reply::Progress is told).
struct Subscribe {
  struct Position { std::string broker; int32_t queue_id = 0; QueueOffset next; };
  using From = StartFrom;
  std::string_view group, topic, subscription;
  From from = From::First;
  int32_t count_max = 32;                           // messages of a batch
  GroupModel model = GroupModel::Clustering;
  Wall from_time = {};                              // From::Timestamp
  // Flow control: a queue is not pulled while as much is out (told, not Consumed), of it or of the subscription. A batch that is under way
  // then still arrives. queue_messages_max 0: one batch of a queue at a time.
  int32_t queue_messages_max = 0, messages_max = 100'000;
  uint64_t queue_bytes_max = 16u << 20, bytes_max = 64u << 20;
  std::vector<Position> positions = {};             // Broadcasting: where the host says that queues stand
};
// Everything below `next` is consumed. `next` ends a batch that is out, or lies inside the oldest: then the rest, and all behind it, comes again.
struct Consumed { uint64_t subscription_call = 0; std::string_view broker; int32_t queue_id = 0; QueueOffset next; };
struct Unsubscribe { uint64_t subscription_call = 0; };
}  // namespace command

using Command = std::variant<command::Hello, command::SendMessage, command::SendBatch, command::PullMessages, command::CommitOffset,
                             command::QueryOffset, command::QueryQueue, command::QueryRoute, command::CreateTopic, command::DeleteTopic,
                             command::ListTopics, command::DescribeTopic, command::QueryMessages, command::ViewMessage, command::GetStatus,
                             command::RegisterBroker, command::UnregisterBroker, command::Heartbeat, command::LeaveGroup,
                             command::ListGroups, command::DescribeGroup, command::CreateGroup, command::DeleteGroup, command::SearchOffset,
                             command::ResetOffset, command::QueryCluster, command::WipeWritePerm, command::AddWritePerm, command::GetConfig,
                             command::UpdateConfig, command::Stop, command::Subscribe, command::Consumed, command::Unsubscribe,
                             command::GetMetrics, command::GetHealth>;

namespace reply {
struct Ok {};
struct Hello { uint16_t version = 1; uint64_t features = 0; std::string server; int32_t frame_bytes_max = 0; };
struct Sent {                      // Success, FlushDiskTimeout…: stored at these places
  Code code = Code::Success;
  int32_t queue_id = 0;
  QueueOffset queue_offset;        // of the first record
  int32_t count = 1;               // records with consecutive queue offsets
  PhysicalOffset physical_offset;  // of the first record
  std::string message_id;          // offset message id of the first record, 32 or 56 hex digits (store.md 2.6)
  std::string broker;              // filled in by the client node
};
struct Pulled {
  Code code = Code::Success;       // Success, PullNotFound, PullRetryImmediately, PullOffsetMoved
  QueueOffset next, min, max;
  int32_t count = 0;
  std::vector<uint8_t> records;    // stored records, back to back; in a broker they leave as file slices instead
};
struct Offset { QueueOffset offset; };                 // QueryOffset; CommitOffset answers Ok
struct Queue { QueueOffset min, max; };
struct RouteBroker { std::string cluster, name; std::vector<std::pair<BrokerId, std::string>> addresses; };  // "host:port"
struct RouteQueues { std::string broker; int32_t read_queues = 0, write_queues = 0; uint32_t perm = 0; };
struct Route { std::vector<RouteBroker> brokers; std::vector<RouteQueues> queues; };
struct Topics { std::vector<TopicConfig> topics; bool has_more = false; };
struct TopicQueue { int32_t queue_id = 0; QueueOffset min, max; };
struct Topic { TopicConfig config; std::vector<TopicQueue> queues; };
struct Messages { int32_t count = 0; std::vector<uint8_t> records; };     // QueryMessages, ViewMessage
struct Registered { uint64_t topics_version = 0; bool needs_topics = false; };  // the name server has no table of that version
struct Status { std::vector<std::pair<std::string, std::string>> values; };    // in a fixed order, names in RocketMQ's words
struct ClusterBroker {
  std::string cluster, name, address, version;
  BrokerId broker_id;
  int64_t silent_ms = 0;                 // since its last word
  int32_t topics = 0;
  bool is_writable = true;               // false: its write permission was wiped
};
struct Cluster { std::vector<ClusterBroker> brokers; };   // by name, then id
struct TopicsChanged { int32_t count = 0; };              // WipeWritePerm, AddWritePerm
struct Delivered { std::string broker, topic; int32_t queue_id = 0; QueueOffset first, next; int32_t count = 0; std::vector<uint8_t> records; };
}  // namespace reply

using Reply = std::variant<Refusal, reply::Ok, reply::Hello, reply::Sent, reply::Pulled, reply::Offset, reply::Queue, reply::Route, reply::Topics,
                           reply::Topic, reply::Messages, reply::Registered, reply::Status, reply::Members, reply::Groups,
                           reply::Group, reply::OffsetsReset, reply::Cluster, reply::TopicsChanged, reply::Delivered, reply::Assigned,
                           reply::Progress, reply::Metrics, reply::Health>;

// A short stable text for tests and logs: "Sent SUCCESS queue 0 offset 12 count 1", "Refusal SYSTEM_BUSY …".
std::string describe(const Reply& reply);
// "SendMessage", "PullMessages", …
std::string_view name_of(const Command& command);

}  // namespace fulmar
