#pragma once
// A whole Store over the driver of vectors: it serves, is killed or loses power, and wakes again on what is left.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/store/owners.h"
#include "core/store/store.h"
#include "tests/unit/store/memory_driver.h"

namespace fulmar::testing {

inline BrokerConfig small_store_config() {
  BrokerConfig c;
  c.store_path = "store";
  c.commit_log_file_bytes = 64 * 1024;
  c.consume_queue_file_bytes = 20 * 64;
  c.index_slot_count = 32;
  c.index_entry_count = 64;
  c.async_unflushed_bytes_max = 128 * 1024;
  return c;
}

class StoreHarness {
 public:
  explicit StoreHarness(Seed seed, BrokerConfig config = small_store_config()) : driver(seed), config_(std::move(config)) { wake(); }

  // One step: an input (or none), due timers, whatever `also` does, the pump.
  template <class Body> void step(const Input* input, Body also) {
    driver.step([&](Ctx& ctx) {
      if (is_fresh_) {
        is_fresh_ = false;
        store->start(ctx);
      }
      if (input != nullptr) store->on_input(ctx, *input);
      while (const std::optional<TimerId> timer = driver.timers().pop_due(driver.now.monotonic)) store->on_timer(ctx, *timer);
      if (ctx.out.halted() == nullptr) also(ctx);
      if (ctx.out.halted() == nullptr) store->pump(ctx);
    });
  }
  void step() { step(nullptr, [](Ctx&) {}); }
  // Up to `count` things happen: requests come home, and when none is out, time goes on to the next timer.
  void run(int count) {
    for (int i = 0; i < count && !driver.halted(); ++i) {
      if (driver.wants_step_again() || is_fresh_) {
        step();
      } else if (driver.in_flight() > 0) {
        const std::optional<Input> input = driver.complete_one();
        step(&*input, [](Ctx&) {});
      } else {
        const Monotonic next = driver.timers().next();
        if (next == Monotonic::never()) return;
        driver.advance(std::max(Duration::milliseconds(1), next - driver.now.monotonic));
        step();
      }
    }
  }
  // Until the store is in `state`; false when it does not come to that.
  bool run_until(Store::State state, int count = 20'000) {
    for (int i = 0; i < count && !driver.halted() && store->state() != state; ++i) run(1);
    return store->state() == state;
  }
  template <class Until> bool run_until(Until until, int count = 20'000) {
    for (int i = 0; i < count && !driver.halted() && !until(); ++i) run(1);
    return until();
  }
  void kill() { driver.kill(); wake(); }
  void cut_power(Ratio keep) { driver.crash(keep); wake(); }
  void wake(const BrokerConfig& config) {
    config_ = config;
    wake();
  }
  void wake() {
    store = std::make_unique<Store>(config_);
    is_fresh_ = true;
  }

  // Appends; the error is the caller's to look at.
  Result<Appended> append(std::string_view topic, int32_t queue, std::string_view body, std::string_view properties = {}) {
    Result<Appended> out = Errc::Internal;
    step(nullptr, [&](Ctx& ctx) {
      Message m;
      m.topic = topic;
      m.queue_id = QueueId(queue);
      m.born = driver.now.wall;
      m.body = as_bytes(body);
      m.properties = as_bytes(properties);
      out = store->append(ctx, m);
    });
    return out;
  }
  // All bodies of a queue from min to max, by their offset; cold parts are fetched. Empty optional: it did not come to an end.
  std::optional<std::map<int64_t, std::string>> read_queue(std::string_view topic, int32_t queue) {
    std::map<int64_t, std::string> out;
    const QueueRange range = store->queues().range(topic, QueueId(queue));
    QueueOffset at = range.min;
    for (int tries = 0; at < range.max; ++tries) {
      if (tries > 10'000 || driver.halted()) return {};
      std::vector<QueueEntry> entries;
      bool is_read = false;
      step(nullptr, [&](Ctx& ctx) {
        is_read = store->queues().read(ctx, topic, QueueId(queue), at, range.max - at, 7, entries);
        if (!is_read) return;
        for (const QueueEntry& entry : entries) {
          if (store->log().readiness(entry.at, entry.bytes, driver.now.monotonic) != CommitLog::Readiness::Ready) {
            store->log().warm(ctx, entry.at, entry.bytes, {WarmFor::Pull, 1});
            return;
          }
          const ParsedRecord parsed = parse_record(store->log().view(ctx, entry.at, entry.bytes), entry.at, Verify::Checksums);
          CHECK(parsed.kind == RecordKind::Message, "{} of {} {} at {}: {}", at, topic, queue, entry.at, parsed.why);
          CHECK(parsed.record.message.topic == topic && parsed.record.message.queue_id == QueueId(queue) && parsed.record.place.queue == at,
                "entry {} of {} {} names a record of {} {} {}", at, topic, queue, parsed.record.message.topic, parsed.record.message.queue_id, parsed.record.place.queue);
          out[at.value()] = std::string(as_text(parsed.record.message.body));
          at += EntryCount(1);
        }
      });
      // Time moves only when nothing else can: what was fetched stays warm for a second.
      if (driver.in_flight() == 0 && !driver.wants_step_again() && !is_read) run(1);
      while (driver.in_flight() > 0 && !driver.halted()) run(1);
    }
    return out;
  }

  MemoryDriver driver;
  std::unique_ptr<Store> store;

 private:
  BrokerConfig config_;
  bool is_fresh_ = false;
};

}  // namespace fulmar::testing
