#include "sim/oracles/o2_authentic.h"

#include <fmt/format.h>

namespace fulmar::sim {
namespace {

// The end of a text, fit for a sentence.
std::string printable(std::string_view text) {
  if (text.size() > 120) text.remove_prefix(text.size() - 120);
  std::string out;
  for (const char c : text) out += c == 1 ? '=' : c == 2 ? ';' : c >= 32 && c < 127 ? c : '?';
  return out;
}

}  // namespace

void Authentic::fail(const Seen& seen, const std::string& what) {
  verdicts_.violated("O2", fmt::format("{} read at {} offset {}: {}", seen.reader, seen.queue.text(), seen.queue_offset, what));
}

void Authentic::unreadable(std::string_view reader, const QueueKey& queue, const std::string& why) {
  verdicts_.violated("O2", fmt::format("{} got bytes from {} that are no record: {}", reader, queue.text(), why));
}

std::optional<MessageId> Authentic::read(const Seen& seen) {
  const StoredRecord& r = seen.record;
  const std::optional<std::string_view> key = r.property("UNIQ_KEY");
  const std::optional<MessageId> id = key ? parse_message_id(*key) : std::nullopt;
  const SentMessage* m = id ? ledger_.find(*id) : nullptr;
  if (m == nullptr) return fail(seen, fmt::format("a message that nobody sent (UNIQ_KEY {})", key.value_or("missing"))), std::nullopt;
  read_.insert(m->id);
  if (m->fate == Fate::Refused) fail(seen, fmt::format("message {} was refused", to_text(m->id)));
  if (r.topic != m->topic || r.topic != seen.queue.topic) fail(seen, fmt::format("topic {} instead of {}", r.topic, m->topic));
  if (r.queue_id != seen.queue.queue_id || r.queue_offset != seen.queue_offset) {
    fail(seen, fmt::format("the record says queue {} offset {}", r.queue_id, r.queue_offset));
  }
  if (r.flag != m->flag) fail(seen, fmt::format("flag {} instead of {}", r.flag, m->flag));
  if (r.born_ms != m->born_ms) fail(seen, fmt::format("born {} instead of {}", r.born_ms, m->born_ms));
  std::string_view properties = r.user_properties(), sent = m->properties;
  if (properties.ends_with('\x02')) properties.remove_suffix(1);
  if (sent.ends_with('\x02')) sent.remove_suffix(1);
  if (properties != sent) {
    fail(seen, fmt::format("properties of {} bytes differ from the {} that were sent: '{}' instead of '{}'", properties.size(), sent.size(), printable(properties), printable(sent)));
  }
  fill_body(*m, body_);
  std::vector<uint8_t> plain;
  const Bytes body = m->compressed_bytes != 0 ? inflated_body(r, body_.size(), plain) : r.body;
  if ((r.sys_flag & 1) != (m->compressed_bytes != 0 ? 1u : 0u)) fail(seen, fmt::format("flags {:#x}, and the body was {}compressed", r.sys_flag, m->compressed_bytes != 0 ? "" : "not "));
  if (!equal(body, body_)) fail(seen, fmt::format("body of {} bytes differs from the {} that were sent", r.body.size(), body_.size()));
  return id;
}

void Authentic::refused(const SentMessage& message) {
  if (!read_.contains(message.id)) return;
  verdicts_.violated("O2", fmt::format("message {} of producer {} is refused as certainly not stored, but somebody has read it", to_text(message.id),
                                       message.producer));
}

}  // namespace fulmar::sim
