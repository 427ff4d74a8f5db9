// The pull path of a whole broker: a native pull received, its answer in the outbox as slices of the log.

#include <benchmark/benchmark.h>

#include "bench/broker_rig.h"

namespace fulmar::bench {
namespace {

constexpr int kStored = 2048;   // of each queue: all of it stays in the warm tail of the log
constexpr size_t kBodyBytes = 1024;

void pull(benchmark::State& state) {
  BrokerRig rig;
  const auto queues = static_cast<int32_t>(state.range(1));   // more queues: neighbours of a queue do not lie side by side in the log
  rig.create_topic("BenchmarkTest", queues);
  const std::vector<uint8_t> body(kBodyBytes, 'x');
  command::SendMessage send;
  send.topic = "BenchmarkTest";
  send.body = body;
  for (int i = 0; i < kStored * queues; ++i) {
    send.queue_id = i % queues;
    rig.add(send);
    if (i % 256 == 255) rig.send();
  }
  const auto per_pull = static_cast<int32_t>(state.range(0));
  const int pulls = kStored / per_pull;
  std::vector<std::vector<uint8_t>> frames;
  for (int i = 0; i < pulls; ++i) {
    command::PullMessages c;
    c.group = "g";
    c.topic = "BenchmarkTest";
    c.offset = QueueOffset(i * per_pull);
    c.count_max = per_pull;
    c.bytes_max = 4 << 20;
    rig.add(c);
    frames.push_back(rig.take_bytes());
  }
  for (int i = 0; i < 200; ++i) rig.receive(frames[static_cast<size_t>(i % pulls)]);
  const uint64_t bytes_before = rig.driver.bytes_sent(), before = allocations();
  size_t turn = 0;
  for (auto _ : state) rig.receive(frames[turn++ % frames.size()]);
  const double messages = static_cast<double>(state.iterations()) * per_pull;
  const double bytes = static_cast<double>(rig.driver.bytes_sent() - bytes_before);
  if (bytes < messages * kBodyBytes) state.SkipWithError("fewer messages came than were asked for");
  state.SetItemsProcessed(static_cast<int64_t>(messages));
  state.counters["per message"] = benchmark::Counter(messages, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["new/pull"] = static_cast<double>(allocations() - before) / static_cast<double>(state.iterations());
}
BENCHMARK(pull)->ArgNames({"messages", "queues"})->ArgsProduct({{32, 256}, {1, 16}})->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace fulmar::bench
