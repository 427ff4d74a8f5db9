#pragma once
// Hand-made histories for oracles: a list of verdicts, messages, and stored records as bytes written from the format's description.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/store/record.h"
#include "sim/oracles/facts.h"

namespace fulmar::sim {

class Heard final : public Verdicts {
 public:
  void violated(std::string_view oracle, std::string sentence) override { said.push_back(std::string(oracle) + ": " + std::move(sentence)); }
  bool is_silent() const { return said.empty(); }
  std::vector<std::string> said;
};

inline const QueueKey kQueue{"broker-a", "topic-0", 1};

inline SentMessage message(uint64_t number, Fate fate = Fate::Pending) {
  SentMessage m;
  m.id = {7, number};
  m.producer = 1;
  m.sequence = number;
  m.topic = kQueue.topic;
  m.properties = std::string("UNIQ_KEY\x01") + to_text(m.id) + "\x02";
  m.born_ms = 1'700'000'000'000;
  m.body_bytes = 40;
  m.fate = fate;
  m.queue = kQueue;
  m.queue_offset = static_cast<int64_t>(number);
  m.physical = number * 1000;
  return m;
}

// The bytes of `m` with that body as a broker would store them at its place.
inline std::vector<uint8_t> stored_with(const SentMessage& m, Bytes body, int64_t stamp_ms = 1'700'000'000'500) {
  Message message;
  message.topic = m.topic;
  message.queue_id = QueueId(m.queue.queue_id);
  message.flag = m.flag;
  message.born = {m.born_ms};
  message.born_host = message.store_host = *HostAddress::parse("127.0.0.1", 10911);
  message.properties = as_bytes(m.properties);
  message.body = body;
  std::vector<uint8_t> bytes(*record_bytes(message, m.has_crc));
  encode_record(bytes, message, {PhysicalOffset(m.physical), QueueOffset(m.queue_offset), {stamp_ms}}, m.has_crc);
  return bytes;
}
inline std::vector<uint8_t> stored(const SentMessage& m, int64_t stamp_ms = 1'700'000'000'500) {
  std::vector<uint8_t> body;
  fill_body(m, body);
  return stored_with(m, body, stamp_ms);
}

// `bytes` outlives the result.
inline Seen seen(const std::vector<uint8_t>& bytes, const QueueKey& queue = kQueue) {
  const RecordOutcome outcome = read_stored_record(bytes);
  EXPECT_EQ(outcome.kind, RecordOutcome::Kind::Record) << outcome.why;
  return {"a test", queue, outcome.record.queue_offset, outcome.record};
}

}  // namespace fulmar::sim
