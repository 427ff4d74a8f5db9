// Requests: header fields and bodies to typed commands.

#include "core/wire/remoting/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <tuple>

#include "core/base/marks.h"

namespace fulmar::remoting {

namespace {
constexpr JsonBounds kBodyBounds{1u << 20, 32, 50'000};   // of bodies that are JSON
constexpr int64_t kSuspendMsMax = 25'000;                 // clients give a call up after 30 s
constexpr int32_t kPullBytes = 256 * 1024;                // when the client does not say, as RocketMQ's do not before 5.0
constexpr uint32_t kCommitsOffset = 1, kSuspends = 2, kHasSubscription = 4, kFiltersByClass = 8;   // sysFlag of a pull
constexpr std::string_view kRetryPrefix = "%RETRY%";

Refusal refusal(Code code, std::string cause, std::string measured = {}) { return {code, std::move(cause), std::move(measured), 0}; }
}  // namespace

// The fields of one request by name and kind. The first that is missing or wrong is remembered and answered; what is read after it does not
// matter. Fields are read where they are used: a field that no request reads is ignored, as clients of later versions expect.
class Codec::Args {
 public:
  explicit Args(const Frame& f) : frame(f) {}

  std::string_view text(std::string_view name) {
    const auto value = frame.find(name);
    if (!value) wrong(fmt::format("field '{}' is missing", name));
    return value.value_or(std::string_view());
  }
  std::string_view text_or(std::string_view name, std::string_view otherwise) const { return frame.find(name).value_or(otherwise); }
  template <class T> T number(std::string_view name) { return parse<T>(name, text(name)); }
  template <class T> T number_or(std::string_view name, T otherwise) {
    const auto value = frame.find(name);
    return value && !value->empty() ? parse<T>(name, *value) : otherwise;
  }
  bool truth_or(std::string_view name, bool otherwise) const {
    const auto value = frame.find(name);
    return value ? *value == "true" : otherwise;
  }
  void wrong(std::string cause, std::string measured = {}, Code code = Code::InvalidParameter) {
    if (!refused) refused = refusal(code, std::move(cause), std::move(measured));
  }

  const Frame& frame;
  std::optional<Refusal> refused;

 private:
  template <class T> T parse(std::string_view name, std::string_view value) {
    T out{};
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), out);
    if (error == std::errc() && end == value.data() + value.size()) return out;
    if (!refused) wrong(fmt::format("field '{}' is no whole number of {} bits", name, 8 * sizeof(T)), fmt::format("'{}'", value.substr(0, 64)));
    return T{};
  }
};

Result<Request> Codec::decode_request(Bytes bytes) {
  FULMAR_TRY(const Frame* const frame, reader_.read(bytes));
  parts_.clear();
  Request out;
  out.ask = {frame->opaque, RequestCode(frame->code), frame->encoding};
  out.is_one_way = frame->is_one_way();
  if (frame->is_response()) {
    SOMETIMES("wire: a response to nothing", true);
    out.is_one_way = true;
    return out;
  }
  Args args(*frame);
  decode(args, out);
  if (args.refused) {
    parts_.clear();
    out.answer = std::move(*args.refused);
  }
  out.parts = parts_;
  return out;
}

void Codec::decode(Args& args, Request& to) {
  const auto unsupported = [&args](std::string cause) { args.wrong(std::move(cause), fmt::format("request code {}", args.frame.code), Code::RequestCodeNotSupported); };
  // RequestCode has far more values than names: whatever is not served falls out of the switch.
  switch (to.ask.code) {
    case RequestCode::SendMessage: return send(args, false, args.truth_or("batch", false));
    case RequestCode::SendMessageV2: return send(args, true, args.truth_or("m", false));
    case RequestCode::SendBatchMessage: return send(args, true, true);
    case RequestCode::PullMessage:
    case RequestCode::LitePullMessage: return pull(args);
    case RequestCode::QueryMessage: {
      command::QueryMessages c;
      c.topic = args.text("topic");
      c.key = args.text("key");
      // By a unique key the broker's own bound counts, as there.
      c.count_max = args.truth_or("_UNIQUE_KEY_QUERY", false) ? c.count_max : args.number<int32_t>("maxNum");
      c.begin.ms = args.number<int64_t>("beginTimestamp");
      c.end.ms = args.number<int64_t>("endTimestamp");
      return ask(c);
    }
    case RequestCode::QueryConsumerOffset: return ask(command::QueryOffset{args.text("consumerGroup"), args.text("topic"), args.number<int32_t>("queueId"), {}});
    case RequestCode::UpdateConsumerOffset: {
      command::CommitOffset c;
      c.group = args.text("consumerGroup");
      c.topic = args.text("topic");
      c.queue_id = args.number<int32_t>("queueId");
      const auto offset = args.number<int64_t>("commitOffset");
      c.offset = QueueOffset(offset);
      if (offset >= 0) return ask(c);
      SOMETIMES("wire: a client commits -1", !args.refused);   // of a queue that it has not consumed
      to.answer = reply::Ok{};
      return;
    }
    case RequestCode::UpdateAndCreateTopic: {
      command::CreateTopic c;
      c.topic = args.text("topic");
      c.read_queues = args.number<int32_t>("readQueueNums");
      c.write_queues = args.number<int32_t>("writeQueueNums");
      c.perm = args.number<uint32_t>("perm");
      return ask(c);
    }
    case RequestCode::SearchOffsetByTimestamp: {
      if (args.text_or("boundaryType", "LOWER") != "LOWER")
        args.wrong("only the lower boundary is searched for", fmt::format("boundaryType '{}'", args.text_or("boundaryType", "").substr(0, 64)));
      command::SearchOffset c;
      c.topic = args.text("topic");
      c.queue_id = args.number<int32_t>("queueId");
      c.stamp.ms = args.number<int64_t>("timestamp");
      return ask(c);
    }
    case RequestCode::GetMaxOffset:
    case RequestCode::GetMinOffset: return ask(command::QueryQueue{args.text("topic"), args.number<int32_t>("queueId"), {}});
    case RequestCode::ViewMessageById: {
      const auto at = args.number<int64_t>("offset");
      if (at < 0) args.wrong("the offset is negative", fmt::format("offset {}", at));
      return ask(command::ViewMessage{PhysicalOffset(static_cast<uint64_t>(at)), {}});
    }
    case RequestCode::HeartBeat: return heartbeat(args, to);
    case RequestCode::UnregisterClient: {
      const std::string_view group = args.text_or("consumerGroup", "");   // empty: only a producer leaves
      if (group.empty()) to.answer = reply::Ok{};
      else ask(command::LeaveGroup{args.text("clientID"), group});
      return;
    }
    case RequestCode::GetConsumerListByGroup: return ask(command::DescribeGroup{args.text("consumerGroup"), {}});
    case RequestCode::GetRouteInfoByTopic: return ask(command::QueryRoute{args.text("topic")});
    case RequestCode::GetBrokerClusterInfo: return ask(command::QueryCluster{});
    // Not 3: every other answer ends the start of such a consumer as well, but this one says why.
    case RequestCode::CheckClientConfig: return args.wrong("this version filters by tags only, not by SQL92", "", Code::SystemError);
    case RequestCode::ConsumerSendMsgBack: return unsupported("messages cannot be sent back to this version; consume them again later");
    case RequestCode::EndTransaction: return unsupported("transactional messages are not supported by this version");
    case RequestCode::LockBatchMq:
    case RequestCode::UnlockBatchMq: return unsupported("queues cannot be locked at this version");
    case RequestCode::NotifyConsumerIdsChanged: return unsupported("only a broker says this");
    default:
      SOMETIMES("wire: a request code that nobody serves", args.frame.code != 0);
      return unsupported("this request code is not served here");
  }
}

// --- sending ----------------------------------------------------------------------------------------------------------------------------

// Long names of fields, or one letter for each (remoting.md 4.1).
void Codec::send(Args& args, bool is_short, bool is_batch) {
  const auto name = [is_short](std::string_view letter, std::string_view word) { return is_short ? letter : word; };
  const std::string_view topic = args.text(name("b", "topic"));
  const auto queue_id = args.number<int32_t>(name("e", "queueId"));
  const auto sys_flag = args.number<int32_t>(name("f", "sysFlag"));
  const Wall born{args.number<int64_t>(name("g", "bornTimestamp"))};
  if (is_batch && !MUTANT(RemotingBatchIsOneMessage)) return ask(command::SendBatch{topic, queue_id, static_cast<uint32_t>(sys_flag), born, args.frame.body, {}});
  command::SendMessage c;
  c.topic = topic;
  c.queue_id = queue_id;
  c.sys_flag = static_cast<uint32_t>(sys_flag);
  c.born = born;
  c.flag = args.number<int32_t>(name("h", "flag"));
  c.reconsume_times = args.number_or<int32_t>(name("j", "reconsumeTimes"), 0);
  c.properties = as_bytes(args.text_or(name("i", "properties"), ""));
  c.body = args.frame.body;
  ask(c);
}

// --- consuming --------------------------------------------------------------------------------------------------------------------------

void Codec::pull(Args& args) {
  const auto flags = args.number<uint32_t>("sysFlag");
  command::PullMessages c;
  c.group = args.text("consumerGroup");
  c.topic = args.text("topic");
  c.queue_id = args.number<int32_t>("queueId");
  c.offset = QueueOffset(args.number<int64_t>("queueOffset"));
  c.count_max = args.number<int32_t>("maxMsgNums");
  c.bytes_max = args.number_or<int32_t>("maxMsgBytes", kPullBytes);
  if (c.bytes_max <= 0) c.bytes_max = kPullBytes;
  const auto suspend_ms = args.number<int64_t>("suspendTimeoutMillis");
  if ((flags & kSuspends) != 0) c.suspend_ms = static_cast<uint32_t>(std::clamp<int64_t>(suspend_ms, 0, kSuspendMsMax));
  if ((flags & kFiltersByClass) != 0) args.wrong("classes as filters are not supported", "sysFlag bit 3");
  // No subscription in the request: what the members of the group have said counts.
  if ((flags & kHasSubscription) != 0) {
    const std::string_view expression = args.text_or("subscription", "");
    c.subscription = expression.empty() ? "*" : expression;
    if (const auto type = args.text_or("expressionType", "TAG"); type != "TAG" && !type.empty())
      args.wrong("this version filters by tags only", fmt::format("expressionType '{}'", type.substr(0, 64)), Code::SystemError);
  }
  const auto commit = args.number<int64_t>("commitOffset");
  if ((flags & kCommitsOffset) != 0 && commit >= 0 && !MUTANT(RemotingPullForgetsCommit)) {
    SOMETIMES("wire: a pull commits by the way", true);
    parts_.push_back({command::CommitOffset{c.group, c.topic, c.queue_id, QueueOffset(commit), false, {}}, true});
  }
  ask(c);
}

namespace {
// Names, or numbers of some clients.
template <size_t kCount>
size_t choice(const Json* value, const std::string_view (&names)[kCount]) {
  if (value == nullptr) return 0;
  if (const auto number = value->as_int64()) return *number >= 0 && *number < static_cast<int64_t>(kCount) ? static_cast<size_t>(*number) : kCount;
  const auto text = value->as_text();
  return static_cast<size_t>(std::find(std::begin(names), std::end(names), text.value_or(std::string_view())) - std::begin(names));
}
constexpr std::string_view kModels[] = {"BROADCASTING", "CLUSTERING"};
constexpr std::string_view kStarts[] = {"CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST", "CONSUME_FROM_MIN_OFFSET",
                                        "CONSUME_FROM_MAX_OFFSET", "CONSUME_FROM_FIRST_OFFSET", "CONSUME_FROM_TIMESTAMP"};

std::string_view text_of(const Json& object, std::string_view name) {
  const Json* value = object.find(name);
  return value == nullptr ? std::string_view() : value->as_text().value_or(std::string_view());
}
}  // namespace

// One command for each consumer group. Producers are not registered: nobody asks for them yet.
void Codec::heartbeat(Args& args, Request& to) {
  Result<Json> body = Json::parse(as_text(args.frame.body), kBodyBounds);
  if (!body) return args.wrong("the heartbeat is no JSON", body.error().detail);
  body_ = std::move(*body);
  const std::string_view client_id = text_of(body_, "clientID");
  if (client_id.empty()) return args.wrong("field 'clientID' of the heartbeat is missing");
  version_ = fmt::format("{} {}", to_string(args.frame.language), args.frame.version);
  if (const Json* groups = body_.find("consumerDataSet"); groups != nullptr) {
    for (const Json& group : groups->items()) {
      if (std::optional<Refusal> refused = heartbeat_of_group(group, client_id)) return args.wrong(refused->cause, refused->measured, refused->code);
    }
  }
  SOMETIMES("wire: a heartbeat of several groups", parts_.size() > 1);
  if (parts_.empty()) to.answer = reply::Ok{};
}

std::optional<Refusal> Codec::heartbeat_of_group(const Json& group, std::string_view client_id) {
  command::Heartbeat c;
  c.client_id = client_id;
  c.version = version_;
  c.group = text_of(group, "groupName");
  if (c.group.empty()) return refusal(Code::InvalidParameter, "field 'groupName' of the heartbeat is missing");
  const size_t model = choice(group.find("messageModel"), kModels), start = choice(group.find("consumeFromWhere"), kStarts);
  if (model >= std::size(kModels) || start >= std::size(kStarts))
    return refusal(Code::InvalidParameter, fmt::format("field '{}' of the heartbeat has an unknown value", start >= std::size(kStarts) ? "consumeFromWhere" : "messageModel"),
                   fmt::format("group '{}'", c.group.substr(0, 255)));
  c.model = group.find("messageModel") == nullptr || model == 1 ? GroupModel::Clustering : GroupModel::Broadcasting;
  c.from = start == 5 ? StartFrom::Timestamp : start == 2 || start == 4 ? StartFrom::First : StartFrom::Last;
  const Json* subscriptions = group.find("subscriptionDataSet");
  for (size_t i = 0; subscriptions != nullptr && i < subscriptions->items().size(); ++i) {
    const Json& one = subscriptions->items()[i];
    const std::string_view topic = text_of(one, "topic"), expression = text_of(one, "subString"), type = text_of(one, "expressionType");
    if (topic.empty()) return refusal(Code::InvalidParameter, "field 'topic' of a subscription is missing", fmt::format("group '{}'", c.group.substr(0, 255)));
    if (!type.empty() && type != "TAG")
      return refusal(Code::SubscriptionParseFailed, "this version filters by tags only", fmt::format("topic '{}', expressionType '{}'", topic.substr(0, 255), type.substr(0, 64)));
    // Nothing can lie in the group's retry topic: messages are not sent back to this version. Members of the native protocol do not
    // name it, and would seem to differ.
    if (topic.starts_with(kRetryPrefix) && topic.substr(kRetryPrefix.size()) == c.group) continue;
    c.subscriptions.push_back({std::string(topic), expression.empty() ? "*" : std::string(expression)});
  }
  std::sort(c.subscriptions.begin(), c.subscriptions.end(), [](const Subscription& a, const Subscription& b) { return std::tie(a.topic, a.expression) < std::tie(b.topic, b.expression); });
  c.subscriptions.erase(std::unique(c.subscriptions.begin(), c.subscriptions.end(), [](const Subscription& a, const Subscription& b) { return a.topic == b.topic; }), c.subscriptions.end());
  ask(std::move(c));
  return std::nullopt;
}

}  // namespace fulmar::remoting
