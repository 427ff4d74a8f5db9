#pragma once
// Fulmar's C++ client, the whole of it: #include <fulmar/client.h>, link fulmar::client.
//
//   fulmar::Client client({.name_servers = {"127.0.0.1:9876"}});
//   fulmar::Producer producer(client);
//   const auto sent = producer.send(fulmar::Message("greetings", "hello"));
//   if (!sent) std::cerr << sent.refusal().text() << '\n';
//
// A Client is one thread that talks to name servers and brokers, for any number of producers and consumers; make one a process. Any thread
// may call. User code never runs on that thread: callbacks run on a pool of the client, listeners on threads of their consumer.
//
// Not fork-safe: after fork() the child's calls are refused with SERVICE_NOT_AVAILABLE, and its destructors do nothing; make clients after forking.
// No function of the library throws, but for std::bad_alloc and Result::value(); signals and the process are left as they are.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fulmar/consumer.h"
#include "fulmar/message.h"
#include "fulmar/producer.h"
#include "fulmar/result.h"

namespace FULMAR_FACADE_NAMESPACE {

enum class Compression : uint8_t { None, Zlib, Lz4, Zstd };  // clients of RocketMQ before 5.0 read zlib only

struct ClientOptions {
  std::vector<std::string> name_servers{};       // "host:port" each; none: $NAMESRV_ADDR (';' between), else 127.0.0.1:9876
  std::string client_id{};                       // unique in a group; empty: host name, process and a random number
  std::chrono::milliseconds send_timeout{3000};  // of a send in all, resends included
  int32_t resends = 2;                           // after a failure; a connection that is refused counts only against the time-out
  std::chrono::milliseconds attempt_timeout{0};  // of one attempt at most; 0: its share of what is left
  bool is_latency_judged = false;                // avoid slow brokers as failing ones are avoided
  Compression compression = Compression::Zlib;
  size_t compress_over_bytes = 4096;             // bodies of so many bytes and more, when it makes them smaller
  int32_t compression_level = 5;                 // 1 is fast, 9 is small
  size_t body_bytes_max = 4u << 20;              // of a message sent, and of a body that comes in inflated
  size_t requests_max = 4096;                    // sends on their way or with a callback still to run; then see WhenFull
  size_t bytes_max = 64u << 20;                  // their bodies and properties
  size_t callback_threads = 4;                   // of the pool, started when there is work
  std::chrono::milliseconds stop_timeout{5000};  // of stop() and the destructor
};

struct TopicInfo {
  std::string name;
  int32_t read_queues = 0, write_queues = 0;     // at each broker
  std::vector<Queue> queues;                     // readable ones, of all brokers that hold the topic
};

class Client {
 public:
  // Does not wait for a connection; nothing is dialled before the first call. A name server that is no host:port is told by every call.
  explicit Client(ClientOptions options);
  ~Client();                                     // stop()
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // The topic is there at every broker that the name servers know, with so many queues at each; calling it again changes the numbers.
  // Comes back when name servers know of it, at the latest 3 s after the brokers said yes.
  Result<void> create_topic(const std::string& topic, int32_t queues = 4);
  Result<void> delete_topic(const std::string& topic);
  Result<TopicInfo> describe_topic(const std::string& topic);   // TOPIC_NOT_EXIST
  Result<std::vector<std::string>> list_topics();

  // Takes no further calls, lets what is on its way end, commits what was consumed, runs the callbacks that wait, all within
  // ClientOptions::stop_timeout; what has not ended then is refused with an unknown outcome. False when a callback did not come back in
  // time: it goes on alone. Calling it again is fine. Not from a callback or listener.
  bool stop();

 private:
  friend class Producer;
  friend class PushConsumer;
  friend class PullConsumer;
  std::shared_ptr<class Engine> engine_;
};

}  // namespace FULMAR_FACADE_NAMESPACE
