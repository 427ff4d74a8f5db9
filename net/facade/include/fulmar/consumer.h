#pragma once
// Consuming: pushed to a listener, or pulled. Progress is kept by the broker, per group and queue, and committed at most once a second and
// at stop. Delivery is at least once: after a crash what was consumed and not yet committed comes again.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fulmar/message.h"

namespace FULMAR_FACADE_NAMESPACE {

class Client;

// Where a group begins in a queue in which it has no progress yet.
enum class From : uint8_t { First, Last };

enum class ConsumeResult : uint8_t {
  Success,
  Later,   // comes again after PushOptions::retry_delay, with reconsume_times one higher; its queue is not committed beyond it meanwhile
};

struct PushOptions {
  std::string group{};                               // 1 to 120 bytes of [%|a-zA-Z0-9_-]
  From from = From::First;
  size_t threads = 20;                               // listeners that run at the same time; started when there is work for them
  int32_t batch_messages_max = 32;                   // of one queue, fetched ahead of the listener
  size_t cached_bytes_max = 100u << 20;              // bodies fetched ahead in all; beyond, queues that are done wait before they fetch more
  std::chrono::milliseconds retry_delay{1000};       // after Later, or after the listener threw
  std::chrono::milliseconds stop_timeout{3000};      // for listeners that are running, and the last commits
  // A subscription has ended with this refusal (its expression does not parse). On a thread of the client's pool. May be empty.
  std::function<void(const std::string& topic, const Refusal&)> on_refused{};
};

// Calls a listener for each message, many at a time, in no particular order.
class PushConsumer {
 public:
  // Runs on threads of this consumer. What it throws counts as Later.
  using Listener = std::function<ConsumeResult(const ReceivedMessage&)>;

  PushConsumer(Client& client, PushOptions options, Listener listener);
  ~PushConsumer();                                   // stop()
  PushConsumer(PushConsumer&&) noexcept;
  PushConsumer& operator=(PushConsumer&&) = delete;

  // Follows all queues of a topic; it need not exist yet. `tags`: "*", or words joined by "||".
  Result<void> subscribe(const std::string& topic, const std::string& tags = "*");
  // Lets running listeners finish and commits what was consumed, within stop_timeout. No listener runs after it, unless one did not come
  // back in time: then SERVICE_NOT_AVAILABLE, and what that one still holds must outlive it. Not from a listener.
  Result<void> stop();

 private:
  std::shared_ptr<class PushImpl> impl_;
};

struct PullOptions {
  std::string group{};
  From from = From::First;
  int32_t batch_messages_max = 32;                   // what one poll returns at most
  // True: a poll counts what earlier polls returned as consumed. False: commit() does.
  bool is_auto_commit = true;
};

struct QueueRange { int64_t min = 0, max = 0; };     // the first offset that is there, and the one behind the last

// Messages when you ask for them. One thread at a time gets through; poll() of others waits.
//
// Either subscribe(), and the queues follow from that; or assign() queues of your choice, and seek() in them.
class PullConsumer {
 public:
  PullConsumer(Client& client, PullOptions options);
  // Commits what was consumed. What the last poll returned comes again, unless commit() was called behind it.
  ~PullConsumer();
  PullConsumer(PullConsumer&&) noexcept;
  PullConsumer& operator=(PullConsumer&&) = delete;

  Result<void> subscribe(const std::string& topic, const std::string& tags = "*");

  // Follows exactly these queues, each from where the group stands, else from PullOptions::from. Replaces an earlier assignment.
  // `tags` as in subscribe(). QUERY_NOT_FOUND and the like: a queue could not be looked up; nothing is assigned.
  Result<void> assign(const std::vector<Queue>& queues, const std::string& tags = "*");
  Result<void> seek(const Queue& queue, int64_t offset);   // of an assigned queue: the next poll goes on there
  Result<void> seek_to_begin(const Queue& queue);
  Result<void> seek_to_end(const Queue& queue);

  // Messages of one queue, in order, as soon as there are any; none when nothing came within `timeout`.
  Result<std::vector<ReceivedMessage>> poll(std::chrono::milliseconds timeout);
  // Everything that poll() has returned is consumed; assigned queues are committed at once, subscribed ones within a second.
  Result<void> commit();
  // What the broker knows of an assigned queue.
  Result<QueueRange> range(const Queue& queue);
  Result<std::optional<int64_t>> committed(const Queue& queue);

 private:
  std::shared_ptr<class PullImpl> impl_;
};

}  // namespace FULMAR_FACADE_NAMESPACE
