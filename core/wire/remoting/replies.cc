// Replies: typed answers to header fields and bodies, as the request code promises them.

#include <fmt/format.h>

#include <map>

#include "core/base/marks.h"
#include "core/wire/remoting/commands.h"

namespace fulmar::remoting {

namespace {

constexpr size_t kRemarkBytesMax = 1024;
constexpr size_t kHeaderRoom = 64u << 10;   // what a header of ours takes at most, far from kHeaderBytesMax

// Cause, what was measured, and when to try again, in one line for people: no client reads it.
std::string remark_of(const Refusal& r) {
  std::string out = r.cause.empty() ? std::string(to_string(r.code)) : r.cause;
  if (!r.measured.empty()) out += fmt::format(" ({})", r.measured);
  if (r.retry_after_ms > 0) out += fmt::format("; try again in {} ms", r.retry_after_ms);
  if (out.size() > kRemarkBytesMax) out.resize(kRemarkBytesMax);
  return out;
}

class Out {
 public:
  Out(const Ask& to, uint64_t following_bytes, std::vector<uint8_t>& out) : to_(to), following_bytes_(following_bytes), out_(out) {}

  FrameWriter begin(Code code, std::string_view remark = {}) const {
    FrameWriter::Start start;
    start.encoding = to_.encoding;
    start.code = static_cast<int32_t>(code);
    start.opaque = to_.opaque;
    start.remark = remark;
    start.version = kVersion;
    return FrameWriter(out_, start);
  }
  Result<void> check_body(size_t bytes) const {
    const uint64_t all = kHeaderRoom + bytes + following_bytes_;
    if (all <= kFrameBytesMax) return {};
    return Error(Errc::InvalidArgument, fmt::format("a frame of about {} bytes, at most {}", all, kFrameBytesMax));
  }
  Result<void> empty() const { begin(Code::Success).finish(); return {}; }
  Result<void> body(std::string_view text) const {
    FULMAR_TRY_VOID(check_body(text.size()));
    begin(Code::Success).finish(as_bytes(text), following_bytes_);
    return {};
  }
  Result<void> offset(QueueOffset offset) const {
    begin(Code::Success).field("offset", offset.value()).finish();
    return {};
  }

  // The words that RocketMQ's clients know for what is missing differ from request to request.
  Result<void> operator()(const Refusal& r) const {
    Code code = r.code;
    const bool is_absent = code == Code::TopicNotExist || code == Code::QueryNotFound;
    const bool is_range = to_.code == RequestCode::GetMaxOffset || to_.code == RequestCode::GetMinOffset;
    if (is_range && code == Code::TopicNotExist) return offset(QueueOffset(0));
    // "Not found" lets a client begin where its settings say; every other code keeps some of them from consuming at all.
    if (to_.code == RequestCode::QueryConsumerOffset && is_absent && !MUTANT(RemotingOffsetNotFoundIsError)) code = Code::QueryNotFound;
    const bool is_listed = to_.code == RequestCode::ViewMessageById || to_.code == RequestCode::GetConsumerListByGroup;
    if (is_listed && (is_absent || code == Code::SubscriptionGroupNotExist)) code = Code::SystemError;
    begin(code, remark_of(r)).finish();
    return {};
  }
  Result<void> operator()(const reply::Ok&) const { return empty(); }
  Result<void> operator()(const reply::Members&) const { return empty(); }   // of a heartbeat: the list is asked for by itself
  Result<void> operator()(const reply::Sent& r) const {
    begin(r.code).field("msgId", r.message_id).field("queueId", r.queue_id).field("queueOffset", r.queue_offset.value()).field("MSG_REGION", "DefaultRegion").field("TRACE_ON", "true").finish();
    return {};
  }
  // All four fields whatever the code: clients do not look before they read.
  Result<void> operator()(const reply::Pulled& r) const {
    FULMAR_TRY_VOID(check_body(r.records.size()));
    FrameWriter writer = begin(r.code, remark_of_pull(r.code));
    writer.field("suggestWhichBrokerId", 0).field("nextBeginOffset", r.next.value()).field("minOffset", r.min.value()).field("maxOffset", r.max.value());
    writer.finish(r.records, following_bytes_);
    return {};
  }
  Result<void> operator()(const reply::Offset& r) const { return offset(r.offset); }
  Result<void> operator()(const reply::Queue& r) const {
    const bool is_max = to_.code == RequestCode::GetMaxOffset;
    return offset(is_max != MUTANT(RemotingMaxIsMin) ? r.max : r.min);
  }
  Result<void> operator()(const reply::Messages& r) const {
    FULMAR_TRY_VOID(check_body(r.records.size()));
    const bool is_query = to_.code == RequestCode::QueryMessage;
    if (r.count == 0) return (*this)(Refusal{Code::QueryNotFound, "no message was found", "", 0});
    FrameWriter writer = begin(Code::Success);
    // RocketMQ's only reader of these two prints them.
    if (is_query) writer.field("indexLastUpdateTimestamp", 0).field("indexLastUpdatePhyoffset", 0);
    writer.finish(r.records);
    return {};
  }
  // Those who share the queues. Whoever consumes by broadcasting shares nothing and does not ask.
  Result<void> operator()(const reply::Group& r) const {
    JsonWriter json;
    json.begin_object().key("consumerIdList").begin_array();
    size_t count = 0;
    for (const reply::GroupMember& member : r.members) {
      if (member.model != GroupModel::Clustering) continue;
      json.value(std::string_view(member.client_id));
      ++count;
    }
    json.end_array().end_object();
    if (count == 0) return (*this)(Refusal{Code::SystemError, fmt::format("group '{}' has no members", r.config.name), "", 0});
    return body(json.take());
  }
  // Compact, keys in quotes, nothing left out: one client scans the text by itself (remoting.md 9.1).
  Result<void> operator()(const reply::Route& r) const {
    JsonWriter json;
    json.begin_object().key("brokerDatas").begin_array();
    for (const reply::RouteBroker& broker : r.brokers) {
      json.begin_object().key("brokerAddrs");
      addresses(json, broker.addresses);
      json.key("brokerName").value(std::string_view(broker.name)).key("cluster").value(std::string_view(broker.cluster)).key("enableActingMaster").value(false).end_object();
    }
    json.end_array().key("filterServerTable").begin_object().end_object().key("queueDatas").begin_array();
    for (const reply::RouteQueues& queues : r.queues) {
      json.begin_object().key("brokerName").value(std::string_view(queues.broker)).key("perm").value(queues.perm).key("readQueueNums").value(queues.read_queues);
      json.key("topicSysFlag").value(0).key("writeQueueNums").value(queues.write_queues).end_object();
    }
    json.end_array().end_object();
    return body(json.take());
  }
  // Brokers come by name, then id.
  Result<void> operator()(const reply::Cluster& r) const {
    JsonWriter json;
    std::map<std::string_view, std::vector<std::string_view>> clusters;
    json.begin_object().key("brokerAddrTable").begin_object();
    for (size_t i = 0; i < r.brokers.size();) {
      const reply::ClusterBroker& first = r.brokers[i];
      std::vector<std::pair<BrokerId, std::string>> all;
      for (; i < r.brokers.size() && r.brokers[i].name == first.name; ++i) all.emplace_back(r.brokers[i].broker_id, r.brokers[i].address);
      clusters[first.cluster].push_back(first.name);
      json.key(first.name).begin_object().key("brokerAddrs");
      addresses(json, all);
      json.key("brokerName").value(std::string_view(first.name)).key("cluster").value(std::string_view(first.cluster)).key("enableActingMaster").value(false).end_object();
    }
    json.end_object().key("clusterAddrTable").begin_object();
    for (const auto& [cluster, names] : clusters) {
      json.key(cluster).begin_array();
      for (const std::string_view name : names) json.value(name);
      json.end_array();
    }
    json.end_object().end_object();
    return body(json.take());
  }
  // No request of this protocol asks for the others.
  template <class Other>
  Result<void> operator()(const Other&) const {
    return (*this)(Refusal{Code::SystemError, "the answer cannot be said in this protocol", "", 0});
  }

 private:
  static void addresses(JsonWriter& json, const std::vector<std::pair<BrokerId, std::string>>& all) {
    json.begin_object();
    for (const auto& [id, address] : all) json.key(std::string_view(std::to_string(id.value()))).value(std::string_view(address));
    json.end_object();
  }
  static std::string_view remark_of_pull(Code code) {
    if (code == Code::Success) return "FOUND";
    if (code == Code::PullNotFound) return "OFFSET_OVERFLOW_ONE";
    return code == Code::PullRetryImmediately ? "NO_MATCHED_MESSAGE" : "OFFSET_MOVED";
  }
  const Ask& to_;
  uint64_t following_bytes_;
  std::vector<uint8_t>& out_;
};

}  // namespace

Result<void> Codec::encode_reply(const Ask& to, const Reply& reply, uint64_t following_bytes, std::vector<uint8_t>& out) {
  return std::visit(Out(to, following_bytes, out), reply);
}

void Codec::encode_group_changed(int32_t opaque, std::string_view group, std::vector<uint8_t>& out) {
  FrameWriter::Start start;
  start.code = static_cast<int32_t>(RequestCode::NotifyConsumerIdsChanged);
  start.opaque = opaque;
  start.flag = kOneWayFlag;
  start.version = kVersion;
  FrameWriter(out, start).field("consumerGroup", group).finish();
}

}  // namespace fulmar::remoting
