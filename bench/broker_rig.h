#pragma once
// A whole broker node, made as programs make it, over the fast driver: it serves, and one connection has said hello.

#include <string>
#include <vector>

#include "bench/fast_driver.h"
#include "core/model/config.h"
#include "core/node/make.h"
#include "core/wire/native/codec.h"

namespace fulmar::bench {

class BrokerRig {
 public:
  static constexpr ConnId kConn{1};
  explicit BrokerRig(BrokerConfig config = {}) : driver(Seed{1}) {
    config.commit_log_file_bytes = FastDriver::kSegmentBytes;
    config.store_path = "store";
    node_ = std::move(*make_node(NodeKind::Broker, serialise(config), Seed{1}, driver.files, driver.trace));
    for (int i = 0; i < 1000; ++i) step();
    Peer peer;
    peer.remote = {"127.0.0.1", 40000};
    peer.local = {"127.0.0.1", 10911};
    driver.deliver(Accepted{kConn, Port(1), peer});
    bytes_.assign(native::kPreamble.begin(), native::kPreamble.end());
    add(command::Hello{});
    send();
  }
  void step() {
    driver.advance(Duration::microseconds(200));
    driver.step([&](Ctx& ctx, std::span<const Input> inputs) { node_->step(ctx.now, inputs, ctx.out); });
  }
  // One step with `bytes` received; they must live until it returns.
  void receive(Bytes bytes) {
    driver.deliver(Received{kConn, bytes});
    step();
  }
  void add(const Command& command, bool is_one_way = false) {
    if (!codec_.encode_request(++opaque_, is_one_way, command, bytes_)) std::abort();
  }
  // What was added leaves in one chunk; then everything that is ready happens.
  void send() {
    receive(bytes_);
    bytes_.clear();
    settle();
  }
  void settle() {
    for (int i = 0; i < 10'000 && driver.is_busy(); ++i) step();
  }
  void create_topic(const std::string& name, int32_t queues) {
    add(command::CreateTopic{name, queues, queues, kPermRead | kPermWrite});
    send();
  }
  std::vector<uint8_t> take_bytes() { return std::exchange(bytes_, {}); }

  FastDriver driver;

 private:
  std::unique_ptr<Node> node_;
  native::Codec codec_;
  std::vector<uint8_t> bytes_;
  uint32_t opaque_ = 0;
};

}  // namespace fulmar::bench
