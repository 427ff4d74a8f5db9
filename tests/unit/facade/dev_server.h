#pragma once
// A name server and a broker on threads of the test, at free ports of 127.0.0.1, with a store that goes with them.

#include <fmt/format.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "core/model/config.h"
#include "core/node/make.h"
#include "net/uv_driver.h"
#include "tests/unit/net/temporary_directory.h"

namespace fulmar::test {

class TestNode : public TraceSink {
 public:
  TestNode(NodeKind kind, std::string config, const char* serving_event) : serving_event_(serving_event) {
    net::UvOptions options;
    options.name = "test";
    options.sink = this;
    driver_ = std::make_unique<net::UvDriver>(
        [kind, config](Seed seed, Files& files, Trace& trace) {
          Result<std::unique_ptr<Node>> node = make_node(kind, config, seed, files, trace);
          EXPECT_TRUE(node.has_value()) << node.error().text();
          return node ? std::move(*node) : nullptr;
        },
        std::move(options));
    thread_ = std::thread([this] { (void)driver_->run(); });
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(30), [this] { return port_ != 0 && is_serving_; }));
  }
  ~TestNode() override {
    if (thread_.joinable()) driver_->request_stop(CallId(1), Duration::seconds(5)), thread_.join();
  }
  void kill() { driver_->abandon(), thread_.join(); }
  uint16_t port() const { return port_; }
  // An event of that name has come, or comes within 30 s.
  void wait_for(const char* event) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(30), [&] { return events_.contains(event); })) << event;
  }
  void on_event(const TraceRecord& record) override {
    const std::string_view name = record.info->name;
    const std::lock_guard lock(mutex_);
    if (name == "BrokerListening" || name == "NameServerListening") port_ = static_cast<uint16_t>(record.values[0]);
    is_serving_ |= name == serving_event_;
    events_.emplace(name);
    changed_.notify_all();
  }

 private:
  const std::string_view serving_event_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint16_t port_ = 0;
  bool is_serving_ = false;
  std::set<std::string> events_;
  std::unique_ptr<net::UvDriver> driver_;
  std::thread thread_;
};

class DevServer {
 public:
  DevServer() {
    NameServerConfig config;
    config.listen_host = "127.0.0.1";
    config.listen_port = 0;
    name_server_ = std::make_unique<TestNode>(NodeKind::NameServer, serialise(config), kNameServerServing);
    start_broker(0);
    name_server_->wait_for("BrokerRegistered");
  }
  std::string name_server() const { return fmt::format("127.0.0.1:{}", name_server_->port()); }
  // To the broker's files this is kill -9.
  void kill_broker() {
    broker_port_ = broker_->port();
    broker_->kill();
    broker_.reset();
  }
  void start_broker() { start_broker(broker_port_); }

 private:
  static constexpr const char* kNameServerServing = "NameServerListening";
  static constexpr const char* kBrokerServing = "BrokerServing";
  void start_broker(uint16_t port) {
    BrokerConfig config;
    config.listen_host = "127.0.0.1";
    config.listen_port = port;
    config.name_servers = {name_server()};
    config.store_path = directory_.at("store");
    config.commit_log_file_bytes = 16u << 20;
    config.consume_queue_file_bytes = 20 * 1000;
    config.index_slot_count = 1000;
    config.index_entry_count = 4000;
    config.register_interval_ms = 100;
    config.is_topic_auto_created = true;
    config.default_topic_queues = 4;
    broker_ = std::make_unique<TestNode>(NodeKind::Broker, serialise(config), kBrokerServing);
  }
  net::TemporaryDirectory directory_;
  std::unique_ptr<TestNode> name_server_, broker_;
  uint16_t broker_port_ = 0;
};

}  // namespace fulmar::test
