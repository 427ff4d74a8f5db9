#pragma once
// Sending. Every function may be called from any thread, at the same time.

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>

#include "fulmar/message.h"

namespace FULMAR_FACADE_NAMESPACE {

class Client;

// What a call does when the client already has ClientOptions::requests_max messages or bytes_max bytes on their way: come back at once with
// SYSTEM_BUSY, or wait for room. In a callback of this client waiting could last for ever, so there Block does as Refuse.
enum class WhenFull : uint8_t { Refuse, Block };

// The broker has stored the message. It is durable as far as the broker promises with SEND_OK, unless is_durable is false: then the
// broker stored it and could not say in time that it is safe (FLUSH_DISK_TIMEOUT and its like).
struct SendReceipt {
  std::string id;                // the message's UNIQ_KEY; of a batch: of its first message
  Queue queue;
  int64_t queue_offset = 0;      // of the first message of a batch; the others follow one by one
  int32_t count = 1;             // messages stored
  std::string offset_message_id; // RocketMQ's msgId, 32 or 56 hex digits: broker address and place in its log
  Code status = Code::Success;
  bool is_durable() const { return status == Code::Success; }
};

class Producer {
 public:
  using Callback = std::function<void(Result<SendReceipt>)>;

  // Cheap: all producers of a client share its connections and its bounds. The client may go first; sending is refused then.
  explicit Producer(Client& client);

  // Sends and waits for the broker's answer, at most ClientOptions::send_timeout. Resends, up to ClientOptions::resends times, to another
  // queue when there is one. Codes a caller may meet: MESSAGE_ILLEGAL (the message itself), TOPIC_NOT_EXIST, SYSTEM_BUSY and
  // SERVICE_NOT_AVAILABLE (later, see retry_after), NO_PERMISSION. Look at is_outcome_unknown before sending the same again.
  Result<SendReceipt> send(const Message& message, WhenFull when_full = WhenFull::Block);

  // As send(), without waiting for the answer. `callback` runs once, on a thread of the client's pool, and may call anything, also send();
  // what it throws ends the program. A refusal returned here means that it will never run.
  Result<void> send_async(const Message& message, Callback callback, WhenFull when_full = WhenFull::Refuse);
  std::future<Result<SendReceipt>> send_async(const Message& message, WhenFull when_full = WhenFull::Refuse);

  // Hands the message to a connection and forgets it: never resent, never answered. Ok says that it is on its way, not that it arrived.
  // Waits for the route of the topic, at most ClientOptions::send_timeout.
  Result<void> send_one_way(const Message& message, WhenFull when_full = WhenFull::Refuse);

  // All in one request and one queue, stored together or not at all, at consecutive offsets. One topic, no sharding keys, at most
  // ClientOptions::body_bytes_max in all, never compressed.
  Result<SendReceipt> send_batch(std::span<const Message> messages, WhenFull when_full = WhenFull::Block);

 private:
  std::shared_ptr<class Engine> engine_;
};

}  // namespace FULMAR_FACADE_NAMESPACE
