#pragma once
// Consumer groups: their nouns, and what is asked and answered about them. A part of command.h, which everybody includes instead.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/time.h"
#include "core/model/ids.h"

namespace fulmar {

// Clustering: the members share the queues, offsets are kept by the broker. Broadcasting: each gets everything and keeps its own offsets.
enum class GroupModel : uint8_t { Clustering, Broadcasting };
// Where a group begins in a queue of which it has committed nothing. Timestamp: at the first message stored at that time or later.
enum class StartFrom : uint8_t { First, Last, Timestamp };
std::string_view to_string(GroupModel model);  // "CLUSTERING", as RocketMQ says
std::string_view to_string(StartFrom from);    // "CONSUME_FROM_FIRST_OFFSET"

struct Subscription {
  std::string topic, expression;
  friend bool operator==(const Subscription&, const Subscription&) = default;
};

// RocketMQ's subscription group. A group without a configuration of its own has this one.
struct GroupConfig {
  std::string name;
  bool is_consume_enabled = true;        // consumeEnable; off: pulls are refused
  bool is_from_min_enabled = true;       // consumeFromMinEnable
  bool is_broadcast_enabled = true;      // consumeBroadcastEnable; off: broadcasting members are refused
  bool is_orderly = false;               // consumeMessageOrderly
  bool is_notified = true;               // notifyConsumerIdsChangedEnable
  int32_t retry_queues = 1;              // retryQueueNums
  int32_t retry_max = 16;                // retryMaxTimes
  int32_t timeout_minutes = 15;          // consumeTimeoutMinute
  int32_t sys_flag = 0;                  // groupSysFlag
  int64_t broker_id = 0, slow_broker_id = 1;  // brokerId, whichBrokerWhenConsumeSlowly
  friend bool operator==(const GroupConfig&, const GroupConfig&) = default;
};

namespace command {
// "I am here, and this is what I consume." Answered at once when the group's generation is another than the known one, else held for up to
// suspend_ms: changes reach members without pushes. One per (client, group) is held; a newer one releases the older.
struct Heartbeat {
  std::string_view client_id, group, version;
  GroupModel model = GroupModel::Clustering;
  StartFrom from = StartFrom::Last;
  Wall from_time = {};
  std::vector<Subscription> subscriptions = {};   // by topic, each once: all that this client has in this group
  uint64_t generation_known = 0;                  // 0: none
  uint32_t suspend_ms = 0;
};
struct LeaveGroup { std::string_view client_id, group; };
struct ListGroups { std::string_view after; int32_t count_max = 1000; std::string_view broker = {}; };
struct DescribeGroup { std::string_view group, broker = {}; };
struct CreateGroup { GroupConfig config; };
struct DeleteGroup { std::string_view group; };   // and its committed offsets; refused while it has members
struct SearchOffset { std::string_view topic; int32_t queue_id = 0; Wall stamp; std::string_view broker = {}; };
// Moves a group, online or not: commits are ignored until the group has pulled at its new place.
struct ResetOffset {
  enum class To : uint8_t { First, Last, Timestamp, Offset };
  std::string_view group, topic;
  int32_t queue_id = -1;                          // negative: all of them
  To to = To::Last;
  Wall stamp = {};                                // Timestamp
  QueueOffset offset = {};                        // Offset; between min and max
  bool is_dry_run = false;                        // only say what would be
  std::string_view broker = {};
};
}  // namespace command

namespace reply {
struct Members {
  uint64_t generation = 0;                        // of the whole membership, never 0: equal memberships have equal generations
  std::vector<std::string> members;               // ids of the members of the asker's model, ascending
  struct Absent { std::string topic; std::vector<uint32_t> members; };  // ascending indices into `members`
  std::vector<Absent> absent;                     // who does not subscribe to a topic of the asker; by topic, none without anybody
  std::string conflict;                           // empty, or in what the members differ
};
struct GroupSummary { std::string name; GroupModel model = GroupModel::Clustering; int32_t members = 0; bool is_configured = false; };
struct Groups { std::vector<GroupSummary> groups; bool has_more = false; };
struct GroupMember {
  std::string client_id, address, version;
  GroupModel model = GroupModel::Clustering;
  StartFrom from = StartFrom::Last;
  std::vector<Subscription> subscriptions;
};
struct GroupQueue { std::string topic; int32_t queue_id = 0; QueueOffset committed = QueueOffset(-1), min, max; };  // committed -1: nothing
struct Group {
  GroupConfig config;
  bool is_configured = false;                     // false: the default, nobody has made this group
  std::vector<GroupMember> members;               // by id
  std::vector<GroupQueue> queues;                 // by topic, then id: of what is subscribed to or has a committed offset
  std::string conflict;
};
struct OffsetReset { int32_t queue_id = 0; QueueOffset was = QueueOffset(-1), is; };  // was -1: nothing was committed
struct OffsetsReset { std::vector<OffsetReset> queues; };
// Only to the host of a client. What the subscription owns now; told with each change, also of the conflict.
struct Assigned { uint64_t generation = 0; std::vector<std::pair<std::string, int32_t>> queues; std::string conflict; };
// Broadcasting: everything below `next` is consumed; for the host to keep, and to give back with the next Subscribe.
struct Progress { std::string broker, topic; int32_t queue_id = 0; QueueOffset next; };
}  // namespace reply

}  // namespace fulmar
