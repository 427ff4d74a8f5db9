#include "net/facade/convert.h"

#include <fmt/format.h>

#include <atomic>

#include "core/client/compression.h"
#include "core/client/producer.h"
#include "net/host.h"

namespace fulmar::v1 {

// --- refusals ---------------------------------------------------------------------------------------------------------------------------

std::string_view to_string(Code code) { return fulmar::to_string(static_cast<fulmar::Code>(code)); }

std::string Refusal::text() const {
  std::string out = fmt::format("{}: {}{}", to_string(code), is_outcome_unknown ? "outcome unknown: " : "", cause);
  if (!measured.empty()) out += fmt::format(" ({})", measured);
  if (retry_after.count() > 0) out += fmt::format("; try again in {} ms", retry_after.count());
  return out;
}

Refusal refusal(Code code, std::string cause, std::string measured) { return {code, std::move(cause), std::move(measured), {}, false}; }

Refusal refusal(const fulmar::Refusal& from) {
  Refusal out{static_cast<Code>(from.code), from.cause, from.measured, std::chrono::milliseconds(from.retry_after_ms), is_outcome_unknown(from)};
  if (out.is_outcome_unknown) out.cause.erase(0, kOutcomeUnknown.size());
  return out;
}

Refusal refusal(const fulmar::Reply& reply) {
  if (const auto* r = std::get_if<fulmar::Refusal>(&reply)) return refusal(*r);
  return {Code::SystemError, "the answer is to another question", describe(reply), {}, true};
}

// --- outgoing ---------------------------------------------------------------------------------------------------------------------------

namespace {

// 32 upper-case hex digits, as RocketMQ's clients put into UNIQ_KEY.
std::string make_unique_key() {
  static const uint64_t start = net::random_seed().value;
  static std::atomic<uint64_t> next{0};
  return fmt::format("{:016X}{:016X}", start, next.fetch_add(1, std::memory_order_relaxed));
}

bool is_reserved(std::string_view name) {
  return name == property::kKeys || name == property::kTags || name == property::kUniqueKey || name == kShardingKeyProperty || name == property::kCrc32;
}

Refusal illegal(std::string cause, std::string measured) { return refusal(Code::MessageIllegal, std::move(cause), std::move(measured)); }

// Properties of `message`, encoded into `out`; `id` becomes its UNIQ_KEY.
std::optional<Refusal> encode_properties(const Message& message, std::string& out, std::string& id) {
  const auto add = [&out](std::string_view name, std::string_view value) -> std::optional<Refusal> {
    const fulmar::Result<void> added = property::add(out, name, value);
    if (added) return std::nullopt;
    return illegal(added.error().detail, fmt::format("property \"{}\"", name.substr(0, 64)));
  };
  std::string keys;
  for (const std::string& key : message.keys) {
    if (key.empty() || key.find(' ') != std::string::npos) return illegal("a key is empty or holds a blank", fmt::format("\"{}\"", key.substr(0, 64)));
    keys += (keys.empty() ? "" : " ") + key;
  }
  id = message.id.empty() ? make_unique_key() : message.id;
  std::optional<Refusal> bad = add(property::kUniqueKey, id);
  if (!bad && !message.tags.empty()) bad = add(property::kTags, message.tags);
  if (!bad && !keys.empty()) bad = add(property::kKeys, keys);
  if (!bad && !message.sharding_key.empty()) bad = add(kShardingKeyProperty, message.sharding_key);
  for (const auto& [name, value] : message.properties) {
    if (bad) return bad;
    if (is_reserved(name)) return illegal("that property has a field of its own in Message", fmt::format("property \"{}\"", name));
    bad = add(name, value);
  }
  return bad;
}

std::optional<Refusal> check_body(size_t bytes, const ClientOptions& options) {
  if (bytes == 0) return illegal("the body is empty", "body 0 bytes");
  if (bytes <= options.body_bytes_max) return std::nullopt;
  return illegal("the body is larger than body_bytes_max", fmt::format("body {} bytes, at most {} bytes", bytes, options.body_bytes_max));
}

std::optional<Refusal> check_topic(const std::string& topic) {
  const fulmar::Result<void> name = check_topic_name(topic);
  if (name) return std::nullopt;
  return illegal(name.error().detail, fmt::format("topic of {} bytes", topic.size()));
}

void compress_body(Outgoing& out, const std::string& body, const ClientOptions& options) {
  if (options.compression != Compression::None && body.size() >= options.compress_over_bytes) {
    const CompressionType type = options.compression == Compression::Lz4    ? CompressionType::Lz4
                                 : options.compression == Compression::Zstd ? CompressionType::Zstd
                                                                            : CompressionType::Zlib;
    if (compress(type, options.compression_level, as_bytes(body), out.body)) {
      out.sys_flag = compression_flags(type);
      out.body.shrink_to_fit();
      return;
    }
  }
  const Bytes plain = as_bytes(body);
  out.body.assign(plain.begin(), plain.end());
}

}  // namespace

Result<std::shared_ptr<Outgoing>> outgoing(const Message& message, const ClientOptions& options) {
  auto out = std::make_shared<Outgoing>();
  if (auto bad = check_topic(message.topic)) return *bad;
  if (auto bad = check_body(message.body.size(), options)) return *bad;
  if (auto bad = encode_properties(message, out->properties, out->id)) return *bad;
  out->topic = message.topic;
  out->flag = message.flag;
  out->born = net::read_moment().wall;
  compress_body(*out, message.body, options);
  return out;
}

Result<std::shared_ptr<Outgoing>> outgoing_batch(std::span<const Message> messages, const ClientOptions& options) {
  if (messages.empty()) return illegal("the batch is empty", "0 messages");
  auto out = std::make_shared<Outgoing>();
  if (auto bad = check_topic(messages.front().topic)) return *bad;
  for (const Message& message : messages) {
    if (message.topic != messages.front().topic) return illegal("a batch goes to one topic", fmt::format("\"{}\" and \"{}\"", messages.front().topic, message.topic.substr(0, 127)));
    if (!message.sharding_key.empty()) return illegal("messages of a batch have no sharding keys", "");
    std::string properties, id;
    if (auto bad = check_body(message.body.size(), options)) return *bad;
    if (auto bad = encode_properties(message, properties, id)) return *bad;
    append_batch_item(out->body, {message.flag, as_bytes(properties), as_bytes(message.body)});
    if (out->id.empty()) out->id = id;
  }
  if (out->body.size() > options.body_bytes_max) {
    return illegal("the batch is larger than body_bytes_max", fmt::format("{} messages, packed {} bytes, at most {} bytes", messages.size(), out->body.size(), options.body_bytes_max));
  }
  out->topic = messages.front().topic;
  out->count = static_cast<int32_t>(messages.size());
  out->is_batch = true;
  out->born = net::read_moment().wall;
  return out;
}

Command Outgoing::command() const {
  const uint32_t flags = sys_flag | (is_one_way ? kOneWay : 0);
  if (is_batch) return command::SendBatch{.topic = topic, .queue_id = -1, .sys_flag = flags, .born = born, .packed = body, .broker = {}};
  return command::SendMessage{.topic = topic, .queue_id = -1, .flag = flag, .sys_flag = flags, .born = born, .reconsume_times = 0,
                              .properties = as_bytes(properties), .body = body, .broker = {}};
}

Result<SendReceipt> receipt(const Outgoing& message, fulmar::Reply reply) {
  auto* sent = std::get_if<reply::Sent>(&reply);
  if (sent == nullptr) return refusal(reply);
  return SendReceipt{message.id, {message.topic, std::move(sent->broker), sent->queue_id}, sent->queue_offset.value(), sent->count, std::move(sent->message_id),
                     static_cast<Code>(sent->code)};
}

// --- incoming ---------------------------------------------------------------------------------------------------------------------------

namespace {

std::chrono::system_clock::time_point time_of(Wall wall) { return std::chrono::system_clock::time_point(std::chrono::milliseconds(wall.ms)); }

void split_words(std::string_view text, std::vector<std::string>& into) {
  while (!text.empty()) {
    const size_t end = text.find(' ');
    if (end != 0) into.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

ReceivedMessage one(std::string_view broker, const RecordView& record, size_t body_bytes_max, std::vector<uint8_t>& scratch) {
  const fulmar::Message& m = record.message;
  ReceivedMessage out;
  out.queue = {std::string(m.topic), std::string(broker), m.queue_id.value()};
  out.queue_offset = record.place.queue.value();
  out.flag = m.flag;
  out.born = time_of(m.born);
  out.stored = time_of(record.place.stored);
  out.reconsume_times = m.reconsume_times;
  const fulmar::Result<Bytes> plain = plain_body(m.sys_flag, m.body, body_bytes_max, scratch);
  if (!plain) out.body_problem = plain.error().detail;
  out.body = as_text(plain ? *plain : m.body);
  property::for_each(m.properties, [&out](std::string_view name, std::string_view value) {
    if (name == property::kTags) out.tags = value;
    else if (name == property::kKeys) split_words(value, out.keys);
    else if (name == kShardingKeyProperty) out.sharding_key = value;
    else if (name == property::kUniqueKey) out.id = value;
    else if (name != property::kCrc32) out.properties.emplace(name, value);
  });
  return out;
}

}  // namespace

std::vector<ReceivedMessage> received(std::string_view broker, Bytes records, size_t body_bytes_max, std::string& problem) {
  std::vector<ReceivedMessage> out;
  std::vector<uint8_t> scratch;
  while (!records.empty()) {
    const ParsedRecord parsed = parse_received_record(records, Verify::Checksums);
    if (parsed.kind != RecordKind::Message) {
      problem = fmt::format("a record from {} does not parse or has a wrong checksum: {}", broker, parsed.why);
      break;
    }
    out.push_back(one(broker, parsed.record, body_bytes_max, scratch));
    records = records.subspan(parsed.bytes);
  }
  return out;
}

}  // namespace fulmar::v1
