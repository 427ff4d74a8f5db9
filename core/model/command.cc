#include "core/model/command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace fulmar {

std::string_view to_string(Code code) {
  switch (code) {
    case Code::Success: return "SUCCESS";
    case Code::SystemError: return "SYSTEM_ERROR";
    case Code::SystemBusy: return "SYSTEM_BUSY";
    case Code::RequestCodeNotSupported: return "REQUEST_CODE_NOT_SUPPORTED";
    case Code::FlushDiskTimeout: return "FLUSH_DISK_TIMEOUT";
    case Code::SlaveNotAvailable: return "SLAVE_NOT_AVAILABLE";
    case Code::FlushSlaveTimeout: return "FLUSH_SLAVE_TIMEOUT";
    case Code::MessageIllegal: return "MESSAGE_ILLEGAL";
    case Code::ServiceNotAvailable: return "SERVICE_NOT_AVAILABLE";
    case Code::VersionNotSupported: return "VERSION_NOT_SUPPORTED";
    case Code::NoPermission: return "NO_PERMISSION";
    case Code::TopicNotExist: return "TOPIC_NOT_EXIST";
    case Code::TopicExistAlready: return "TOPIC_EXIST_ALREADY";
    case Code::PullNotFound: return "PULL_NOT_FOUND";
    case Code::PullRetryImmediately: return "PULL_RETRY_IMMEDIATELY";
    case Code::PullOffsetMoved: return "PULL_OFFSET_MOVED";
    case Code::QueryNotFound: return "QUERY_NOT_FOUND";
    case Code::SubscriptionParseFailed: return "SUBSCRIPTION_PARSE_FAILED";
    case Code::SubscriptionNotExist: return "SUBSCRIPTION_NOT_EXIST";
    case Code::SubscriptionGroupNotExist: return "SUBSCRIPTION_GROUP_NOT_EXIST";
    case Code::InvalidParameter: return "INVALID_PARAMETER";
  }
  return "UNKNOWN";
}

std::string_view to_string(GroupModel model) { return model == GroupModel::Clustering ? "CLUSTERING" : "BROADCASTING"; }

std::string_view to_string(StartFrom from) {
  switch (from) {
    case StartFrom::First: return "CONSUME_FROM_FIRST_OFFSET";
    case StartFrom::Last: return "CONSUME_FROM_LAST_OFFSET";
    case StartFrom::Timestamp: return "CONSUME_FROM_TIMESTAMP";
  }
  return "UNKNOWN";
}

std::string describe(const Reply& any) {
  return std::visit(
      [](const auto& r) -> std::string {
        using R = std::decay_t<decltype(r)>;
        if constexpr (std::is_same_v<R, Refusal>) return fmt::format("Refusal {} ({}; {}; retry after {} ms)", to_string(r.code), r.cause, r.measured, r.retry_after_ms);
        else if constexpr (std::is_same_v<R, reply::Ok>) return "Ok";
        else if constexpr (std::is_same_v<R, reply::Hello>) return fmt::format("Hello version {}", r.version);
        else if constexpr (std::is_same_v<R, reply::Sent>)
          return fmt::format("Sent {} queue {} offset {} count {}", to_string(r.code), r.queue_id, r.queue_offset, r.count);
        else if constexpr (std::is_same_v<R, reply::Pulled>)
          return fmt::format("Pulled {} count {} next {} min {} max {}", to_string(r.code), r.count, r.next, r.min, r.max);
        else if constexpr (std::is_same_v<R, reply::Offset>) return fmt::format("Offset {}", r.offset);
        else if constexpr (std::is_same_v<R, reply::Queue>) return fmt::format("Queue min {} max {}", r.min, r.max);
        else if constexpr (std::is_same_v<R, reply::Route>) return fmt::format("Route {} brokers {} queue groups", r.brokers.size(), r.queues.size());
        else if constexpr (std::is_same_v<R, reply::Topics>) return fmt::format("Topics {}", r.topics.size());
        else if constexpr (std::is_same_v<R, reply::Topic>)
          return fmt::format("Topic {} read {} write {} perm {}", r.config.name, r.config.read_queues, r.config.write_queues, r.config.perm);
        else if constexpr (std::is_same_v<R, reply::Messages>) return fmt::format("Messages {}", r.count);
        else if constexpr (std::is_same_v<R, reply::Registered>) return fmt::format("Registered version {}{}", r.topics_version, r.needs_topics ? " needs topics" : "");
        else if constexpr (std::is_same_v<R, reply::Status>) return fmt::format("Status {} values", r.values.size());
        else if constexpr (std::is_same_v<R, reply::Members>)
          return fmt::format("Members {:016x} {}{}{}", r.generation, fmt::join(r.members, ","), r.conflict.empty() ? "" : " conflict: ", r.conflict);
        else if constexpr (std::is_same_v<R, reply::Groups>) return fmt::format("Groups {}", r.groups.size());
        else if constexpr (std::is_same_v<R, reply::Group>)
          return fmt::format("Group {} members {} queues {}", r.config.name, r.members.size(), r.queues.size());
        else if constexpr (std::is_same_v<R, reply::OffsetsReset>) return fmt::format("OffsetsReset {} queues", r.queues.size());
        else if constexpr (std::is_same_v<R, reply::Cluster>) return fmt::format("Cluster {} brokers", r.brokers.size());
        else if constexpr (std::is_same_v<R, reply::TopicsChanged>) return fmt::format("TopicsChanged {}", r.count);
        else if constexpr (std::is_same_v<R, reply::Assigned>) {
          std::string out = fmt::format("Assigned {:016x}", r.generation);
          for (const auto& [broker, queue] : r.queues) out += fmt::format(" {}/{}", broker, queue);
          return r.conflict.empty() ? out : out + " conflict: " + r.conflict;
        } else if constexpr (std::is_same_v<R, reply::Progress>)
          return fmt::format("Progress {} {} queue {} next {}", r.broker, r.topic, r.queue_id, r.next);
        else if constexpr (std::is_same_v<R, reply::Metrics>) return fmt::format("Metrics {} samples{}", r.samples.size(), r.next ? " and more" : "");
        else if constexpr (std::is_same_v<R, reply::Health>) return r.wants.empty() ? "Health ready" : fmt::format("Health not ready: {}", fmt::join(r.wants, "; "));
        else return fmt::format("Delivered {} {} queue {} [{}, {}) count {}", r.broker, r.topic, r.queue_id, r.first, r.next, r.count);
      },
      any);
}

std::string_view name_of(const Command& any) {
  static constexpr std::string_view kNames[] = {
      "Hello",         "SendMessage",  "SendBatch",    "PullMessages",   "CommitOffset",     "QueryOffset",  "QueryQueue",  "QueryRoute",    "CreateTopic",
      "DeleteTopic",   "ListTopics",   "DescribeTopic", "QueryMessages", "ViewMessage",      "GetStatus",    "RegisterBroker", "UnregisterBroker", "Heartbeat",
      "LeaveGroup",    "ListGroups",   "DescribeGroup", "CreateGroup",   "DeleteGroup",      "SearchOffset", "ResetOffset", "QueryCluster",  "WipeWritePerm",
      "AddWritePerm",  "GetConfig",    "UpdateConfig", "Stop",           "Subscribe",        "Consumed",     "Unsubscribe",
      "GetMetrics",    "GetHealth"};
  static_assert(std::size(kNames) == std::variant_size_v<Command>);
  return kNames[any.index()];
}

}  // namespace fulmar
