// The send path of a whole broker: 256 native sends received in one step, stored, flushed, dispatched, and their replies in the outbox.

#include <benchmark/benchmark.h>

#include "bench/broker_rig.h"

namespace fulmar::bench {
namespace {

constexpr int kPerStep = 256, kQueues = 16;
constexpr std::string_view kProperties = "UNIQ_KEY\x01" "7F00000100012A139A552F3B8C1E0000\x02" "WAIT\x01true\x02";

void send(benchmark::State& state) {
  BrokerConfig config;
  config.flush_disk_type = state.range(1) != 0 ? FlushDiskType::Sync : FlushDiskType::Async;
  config.is_index_enabled = state.range(2) != 0;
  BrokerRig rig(config);
  rig.create_topic("BenchmarkTest", kQueues);
  const std::vector<uint8_t> body(static_cast<size_t>(state.range(0)), 'x');
  command::SendMessage c;
  c.topic = "BenchmarkTest";
  c.properties = as_bytes(kProperties);
  c.body = body;
  for (int i = 0; i < kPerStep; ++i) {
    c.queue_id = i % kQueues;
    rig.add(c);
  }
  const std::vector<uint8_t> frames = rig.take_bytes();
  for (int i = 0; i < 2000; ++i) rig.receive(frames);
  const uint64_t bytes_before = rig.driver.bytes_sent(), before = allocations();
  for (auto _ : state) rig.receive(frames);
  const double messages = static_cast<double>(state.iterations()) * kPerStep;
  state.SetItemsProcessed(static_cast<int64_t>(messages));
  state.counters["per message"] = benchmark::Counter(messages, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["new/message"] = static_cast<double>(allocations() - before) / messages;
  state.counters["reply bytes"] = static_cast<double>(rig.driver.bytes_sent() - bytes_before) / messages;
}
BENCHMARK(send)->ArgNames({"body", "sync", "index"})->ArgsProduct({{128, 1024}, {0, 1}, {1}})->Args({128, 1, 0})->Args({1024, 1, 0})->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace fulmar::bench
