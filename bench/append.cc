// Append and dispatch in memory: a record is encoded into the log, its flush comes home at once, dispatch makes it visible in its queue.

#include <benchmark/benchmark.h>

#include "bench/fast_driver.h"
#include "core/store/store.h"

namespace fulmar::bench {
namespace {

constexpr int kPerStep = 256, kQueues = 16;
// What every RocketMQ client adds; the broker indexes the unique key.
constexpr std::string_view kProperties = "UNIQ_KEY\x01" "7F00000100012A139A552F3B8C1E0000\x02" "WAIT\x01true\x02";

struct StoreRig {
  explicit StoreRig(bool with_index) : driver(Seed{1}), store(config(with_index)) {
    driver.step([&](Ctx& ctx, std::span<const Input>) { store.start(ctx); store.pump(ctx); });
    for (int i = 0; i < 100'000 && store.state() != Store::State::Serving; ++i) step([](Ctx&) {});
  }
  static BrokerConfig config(bool with_index) {
    BrokerConfig c;
    c.commit_log_file_bytes = FastDriver::kSegmentBytes;
    c.is_index_enabled = with_index;
    return c;
  }
  template <class Also> void step(Also also) {
    driver.advance(Duration::microseconds(200));
    driver.step([&](Ctx& ctx, std::span<const Input> inputs) {
      for (const Input& input : inputs) store.on_input(ctx, input);
      while (const auto timer = driver.timers.pop_due(driver.now.monotonic)) store.on_timer(ctx, *timer);
      also(ctx);
      store.pump(ctx);
    });
  }
  FastDriver driver;
  Store store;
};

void append(benchmark::State& state) {
  StoreRig rig(state.range(1) != 0);
  const std::vector<uint8_t> body(static_cast<size_t>(state.range(0)), 'x');
  Message message;
  message.topic = "BenchmarkTest";
  message.body = body;
  message.properties = as_bytes(kProperties);
  int32_t queue = 0;
  uint64_t stored = 0, refused = 0;
  const auto turn = [&] {
    rig.step([&](Ctx& ctx) {
      for (int i = 0; i < kPerStep; ++i) {
        message.queue_id = QueueId(queue++ % kQueues);
        if (rig.store.append(ctx, message)) ++stored;
        else ++refused;
      }
    });
  };
  for (int i = 0; i < 2000; ++i) turn();
  stored = refused = 0;
  const uint64_t before = allocations();
  for (auto _ : state) turn();
  state.SetItemsProcessed(static_cast<int64_t>(stored));
  state.counters["per message"] = benchmark::Counter(static_cast<double>(stored), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["new/message"] = static_cast<double>(allocations() - before) / static_cast<double>(stored);
  state.counters["refused"] = static_cast<double>(refused) / static_cast<double>(stored + refused);
  const Watermarks& marks = rig.store.watermarks();
  if ((marks.appended - marks.dispatched).value() > static_cast<int64_t>(8u << 20)) state.SkipWithError("dispatch does not keep up");
}
BENCHMARK(append)->ArgNames({"body", "index"})->ArgsProduct({{128, 1024}, {0, 1}})->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace fulmar::bench
