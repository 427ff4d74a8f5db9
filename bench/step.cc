// An empty step of a broker with many queues: what a wake-up costs must not grow with what the broker holds.

#include <benchmark/benchmark.h>

#include "bench/broker_rig.h"

namespace fulmar::bench {
namespace {

void empty_step(benchmark::State& state) {
  constexpr int32_t kQueuesOfATopic = 1000;
  BrokerConfig config;
  config.consume_queue_file_bytes = 20 * 64;   // a hundred thousand files of the usual size would not fit the address space
  BrokerRig rig(config);
  const int64_t queues = state.range(0);
  command::SendMessage send;
  send.body = as_bytes("x");
  for (int64_t topic = 0; topic * kQueuesOfATopic < queues; ++topic) {
    const std::string name = "t" + std::to_string(topic);
    rig.create_topic(name, kQueuesOfATopic);
    send.topic = name;
    for (int32_t queue = 0; queue < kQueuesOfATopic; ++queue) {
      send.queue_id = queue;
      rig.add(send);
      if (queue % 250 == 249) rig.send();
    }
  }
  for (int i = 0; i < 200'000; ++i) rig.step();   // what is due is written, idle queues are closed
  const uint64_t before = allocations();
  for (auto _ : state) rig.step();
  state.counters["new/step"] = static_cast<double>(allocations() - before) / static_cast<double>(state.iterations());
}
BENCHMARK(empty_step)->ArgName("queues")->Arg(0)->Arg(1'000)->Arg(100'000)->Iterations(200'000)->Unit(benchmark::kNanosecond);

}  // namespace
}  // namespace fulmar::bench
