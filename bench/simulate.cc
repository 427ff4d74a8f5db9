// The simulator's own speed: events per second of a world whose nodes do next to nothing, so that what is measured is schedule, driver,
// network and disk. Two talkers exchange small frames; two writers store and flush.

#include <benchmark/benchmark.h>

#include "sim/run.h"
#include "sim/swarm.h"
#include "sim/world.h"

namespace fulmar::sim {
namespace {

// Sends 64 bytes, waits for the echo, sends again.
class Talker : public Node {
 public:
  explicit Talker(bool is_server) : is_server_(is_server) {}
  void step(const Moment&, std::span<const Input> inputs, Outbox& out) override {
    if (!has_begun_) {
      has_begun_ = true;
      if (is_server_) out.listen(next(), Port(1), {"0.0.0.0", 1000});
      else out.dial(next(), {"server", 1000});
    }
    for (const Input& input : inputs) {
      if (const auto* dialed = std::get_if<Dialed>(&input); dialed != nullptr && dialed->link) out.send(next(), dialed->link->conn, Bytes(frame_));
      if (const auto* received = std::get_if<Received>(&input)) out.send(next(), received->conn, received->bytes);
    }
  }
  Monotonic next_deadline() const override { return Monotonic::never(); }

 private:
  Ticket next() { return Ticket(1, 0, ++tickets_); }
  bool is_server_, has_begun_ = false;
  uint32_t tickets_ = 0;
  std::array<uint8_t, 64> frame_{};
};

// Stores 4 x 128 bytes into a prepared file and flushes them, again and again.
class Writer : public Node {
 public:
  explicit Writer(Files& files) : files_(files) {}
  void step(const Moment&, std::span<const Input> inputs, Outbox& out) override {
    if (!has_begun_) {
      has_begun_ = true;
      out.map(next(), "log/0", kFile, Open::New);
    }
    for (const Input& input : inputs) {
      if (const auto* mapped = std::get_if<Mapped>(&input)) {
        file_ = *mapped->file;
        out.prepare(next(), file_, {0, kFile});
      } else if (std::holds_alternative<Done>(input)) {
        const uint64_t begin = at_;
        for (int i = 0; i < 4; ++i, at_ += 128) files_.at(file_).writable({at_, at_ + 128})[0] = static_cast<uint8_t>(at_ >> 7);
        out.flush(next(), file_, {begin, at_});
        if (at_ + 512 > kFile) at_ = 0;
      }
    }
  }
  Monotonic next_deadline() const override { return Monotonic::never(); }

 private:
  static constexpr uint64_t kFile = 256u << 10;
  Ticket next() { return Ticket(1, 0, ++tickets_); }
  Files& files_;
  FileId file_;
  uint64_t at_ = 0;
  uint32_t tickets_ = 0;
  bool has_begun_ = false;
};

void simulate(benchmark::State& state) {
  uint64_t events = 0, seed = 0, simulated_ms = 0;
  for (auto _ : state) {
    World world(Seed{++seed}, {});
    const HostId server = world.add_host({"server", {}, {}}), client = world.add_host({"client", {}, {}});
    const auto start = [&](HostId host, NodeFactory factory) { world.start(world.add_node({"node", host, std::move(factory), {}})); };
    start(server, [](Seed, Files&, Trace&) { return std::make_unique<Talker>(true); });
    start(client, [](Seed, Files&, Trace&) { return std::make_unique<Talker>(false); });
    for (const HostId host : {server, client}) {
      if (state.range(0) != 0) start(host, [](Seed, Files& files, Trace&) { return std::make_unique<Writer>(files); });
    }
    world.run_for(Duration::seconds(5));
    events += world.events_run();
    simulated_ms += 5000;
    benchmark::DoNotOptimize(world.hash());
  }
  state.counters["events/s"] = benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsRate);
  state.counters["simulated s/s"] = benchmark::Counter(static_cast<double>(simulated_ms) / 1000, benchmark::Counter::kIsRate);
}
BENCHMARK(simulate)->ArgName("writers")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

// Whole runs of the store profile, faults, restarts and oracles included: what a swarm gets through on one core.
void run(benchmark::State& state) {
  uint64_t seed = 0, acked = 0, events = 0, failed = 0;
  for (auto _ : state) {
    const RunResult result = run_scenario(make_scenario("store", Seed{++seed}));
    acked += result.acked;
    events += result.events;
    failed += result.verdict != Verdict::Pass;
  }
  state.counters["acked/s"] = benchmark::Counter(static_cast<double>(acked), benchmark::Counter::kIsRate);
  state.counters["events/s"] = benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsRate);
  state.counters["seeds/s"] = benchmark::Counter(static_cast<double>(seed), benchmark::Counter::kIsRate);
  state.counters["failed"] = static_cast<double>(failed);
}
BENCHMARK(run)->Iterations(8)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace fulmar::sim
