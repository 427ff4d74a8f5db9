#pragma once
// Messages on their way out and on their way in.

#include <chrono>
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fulmar/result.h"

namespace FULMAR_FACADE_NAMESPACE {

// What a producer sends. Fields may be set one by one or with the functions below, which return the message itself:
//
//   fulmar::Message("orders", body).with_tags("paid").with_key("o-17").with_sharding_key("customer-9")
struct Message {
  Message() = default;
  Message(std::string to_topic, std::string with_body) : topic(std::move(to_topic)), body(std::move(with_body)) {}

  std::string topic;                              // 1 to 127 bytes of [%|a-zA-Z0-9_-]
  std::string body;                               // any bytes, at most ClientOptions::body_bytes_max
  std::string tags;                               // one word; subscriptions filter by it
  std::vector<std::string> keys;                  // words without blanks; `fulmar message query TOPIC KEY` finds the message by each
  std::map<std::string, std::string> properties;  // not empty, without the bytes 1 and 2; all together at most 32,767 bytes
  // Messages of a topic with the same sharding key go to the same queue, chosen among all queues by RocketMQ's rule (hash mod n). They are
  // consumed in the order in which they were sent if each is sent after the answer for the one before, and never go to another queue: while
  // the broker that holds it is away, sending them fails.
  std::string sharding_key;
  int32_t flag = 0;                               // yours; passed through
  std::string id;                                 // RocketMQ's UNIQ_KEY; empty: the producer makes one and returns it

  Message& with_tags(std::string text) { return tags = std::move(text), *this; }
  Message& with_key(std::string word) { return keys.push_back(std::move(word)), *this; }
  Message& with_property(std::string name, std::string value) { return properties[std::move(name)] = std::move(value), *this; }
  Message& with_sharding_key(std::string key) { return sharding_key = std::move(key), *this; }
};

// One queue of a topic at one broker.
struct Queue {
  std::string topic, broker;
  int32_t id = 0;
  friend auto operator<=>(const Queue&, const Queue&) = default;
};

// What a consumer gets.
struct ReceivedMessage {
  Queue queue;
  int64_t queue_offset = 0;                       // its place in the queue; rises by one from message to message
  std::string body;                               // inflated, if it was sent compressed
  std::string tags;
  std::vector<std::string> keys;
  std::map<std::string, std::string> properties;  // the others, RocketMQ's own ones included
  std::string sharding_key;
  std::string id;                                 // UNIQ_KEY: the same in every copy of a message that was sent twice; may be empty
  int32_t flag = 0;
  std::chrono::system_clock::time_point born;     // when it was sent, by the producer's clock
  std::chrono::system_clock::time_point stored;   // when it was stored, by the broker's clock
  int32_t reconsume_times = 0;                    // how often the listener has said Later to it
  // Not empty: the body says that it is compressed, and is not, or inflates to more than the bound. `body` is then as it is stored.
  std::string body_problem;
  const std::string& topic() const { return queue.topic; }
};

}  // namespace FULMAR_FACADE_NAMESPACE
