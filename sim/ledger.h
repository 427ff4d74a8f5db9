#pragma once
// What clients asked for and were promised: every message that was ever sent, its content as a function of its id, and its fate as the
// sender knows it. Oracles compare this with what the system says later.

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bytes.h"

namespace fulmar::sim {

struct MessageId {
  uint64_t high = 0, low = 0;
  friend constexpr auto operator<=>(MessageId, MessageId) = default;
};
std::string to_text(MessageId id);                              // 32 hex digits: also the message's UNIQ_KEY
std::optional<MessageId> parse_message_id(std::string_view text);

// One queue of one broker.
struct QueueKey {
  std::string broker, topic;
  int32_t queue_id = 0;
  friend auto operator<=>(const QueueKey&, const QueueKey&) = default;
  std::string text() const;                                     // "broker-a/t1/3"
};

// What the sender knows. Acked: SEND_OK. StoredOnly: FLUSH_DISK_TIMEOUT and its like: stored, not known to be durable. Refused: certainly
// not stored. Unknown: no answer, or one that says so.
enum class Fate : uint8_t { Pending, Acked, StoredOnly, Refused, Unknown };
const char* to_string(Fate fate);

struct SentMessage {
  MessageId id;
  uint32_t producer = 0;
  uint64_t sequence = 0;                                        // of the producer
  std::string topic, tags, properties;                          // properties: encoded, as sent
  std::vector<std::string> keys;                                // UNIQ_KEY not among them
  int32_t flag = 0;
  int64_t born_ms = 0;
  uint32_t body_bytes = 0;
  bool is_batched = false;
  bool is_compressible = false;                                 // its body repeats itself
  uint32_t compressed_bytes = 0;                                // of the body as its client sends it; 0: as it is
  bool is_one_way = false;
  std::string sharding_key;
  int64_t asked_ns = 0, answered_ns = 0;                        // world time
  Fate fate = Fate::Pending;
  bool may_vanish = false;                                      // its topic was deleted after it was sent
  QueueKey queue;                                               // Acked, StoredOnly
  int64_t queue_offset = -1;
  uint64_t physical = 0;
  uint64_t physical_end() const;                                // with the CRC property when `has_crc`
  bool has_crc = true;
};

// The body of a message: id, producer, sequence and a stream of bytes keyed by the id; cut to its length.
void fill_body(const SentMessage& message, std::vector<uint8_t>& into);
// Bytes of a record as RocketMQ lays it out (V1, IPv4): 91 + topic + body + properties [+ 20, and a 0x02 when it is missing].
uint64_t stored_bytes(const SentMessage& message);

class Ledger {
 public:
  // `message.id` is new. Good until the next add().
  SentMessage& add(SentMessage message);
  const SentMessage* find(MessageId id) const;
  SentMessage* find(MessageId id);
  const std::vector<SentMessage>& all() const { return messages_; }
  uint64_t count(Fate fate) const;

 private:
  std::vector<SentMessage> messages_;
  std::map<MessageId, size_t> by_id_;
};

}  // namespace fulmar::sim
