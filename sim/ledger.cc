#include "sim/ledger.h"

#include <fmt/format.h>

#include <charconv>

#include "core/base/check.h"
#include "core/base/prng.h"

namespace fulmar::sim {

std::string to_text(MessageId id) { return fmt::format("{:016x}{:016x}", id.high, id.low); }

std::optional<MessageId> parse_message_id(std::string_view text) {
  if (text.size() != 32) return std::nullopt;
  MessageId id;
  const auto half = [&](size_t at, uint64_t& into) {
    const char* end = text.data() + at + 16;
    const auto parsed = std::from_chars(text.data() + at, end, into, 16);
    return parsed.ec == std::errc{} && parsed.ptr == end;
  };
  if (!half(0, id.high) || !half(16, id.low)) return std::nullopt;
  return id;
}

std::string QueueKey::text() const { return fmt::format("{}/{}/{}", broker, topic, queue_id); }

const char* to_string(Fate fate) {
  switch (fate) {
    case Fate::Pending: return "pending";
    case Fate::Acked: return "acked";
    case Fate::StoredOnly: return "stored";
    case Fate::Refused: return "refused";
    case Fate::Unknown: return "unknown";
  }
  return "?";
}

void fill_body(const SentMessage& message, std::vector<uint8_t>& into) {
  into.resize(message.body_bytes);
  uint8_t head[32];
  store_be<uint64_t>(head, message.id.high);
  store_be<uint64_t>(head + 8, message.id.low);
  store_be<uint64_t>(head + 16, message.producer);
  store_be<uint64_t>(head + 24, message.sequence);
  const size_t head_bytes = std::min<size_t>(sizeof head, into.size());
  if (head_bytes > 0) std::memcpy(into.data(), head, head_bytes);
  uint64_t word = mix64(message.id.high, message.id.low);
  for (size_t at = head_bytes; at < into.size(); at += 8) {
    if (!message.is_compressible) word = mix64(word);
    uint8_t bytes[8];
    store_be(bytes, word);
    std::memcpy(into.data() + at, bytes, std::min<size_t>(8, into.size() - at));
  }
}

uint64_t stored_bytes(const SentMessage& message) {
  const uint64_t body_bytes = message.compressed_bytes != 0 ? message.compressed_bytes : message.body_bytes;
  uint64_t bytes = 91 + message.topic.size() + body_bytes + message.properties.size();
  if (!message.has_crc) return bytes;
  if (!message.properties.empty() && message.properties.back() != 2) ++bytes;
  return bytes + 20;
}

uint64_t SentMessage::physical_end() const { return physical + stored_bytes(*this); }

SentMessage& Ledger::add(SentMessage message) {
  const bool is_new = by_id_.emplace(message.id, messages_.size()).second;
  CHECK(is_new, "{}", to_text(message.id));
  messages_.push_back(std::move(message));
  return messages_.back();
}

const SentMessage* Ledger::find(MessageId id) const {
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : &messages_[it->second];
}
SentMessage* Ledger::find(MessageId id) {
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : &messages_[it->second];
}

uint64_t Ledger::count(Fate fate) const {
  uint64_t n = 0;
  for (const SentMessage& m : messages_) n += m.fate == fate ? 1 : 0;
  return n;
}

}  // namespace fulmar::sim
