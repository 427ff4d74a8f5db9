// The store against a vector per queue: whatever happens to it, what was acknowledged is there, at its offset, unchanged; what is there
// was sent; offsets are dense.

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "core/base/mutants.h"
#include "tests/unit/store/store_harness.h"

namespace fulmar::testing {
namespace {

struct Sent { std::string body; PhysicalOffset end; bool is_acked = false; };
using Model = std::map<std::pair<std::string, int32_t>, std::map<int64_t, std::vector<Sent>>>;  // all that was ever stored at an offset

void verify(StoreHarness& h, Model& model) {
  for (auto& [key, offsets] : model) {
    const auto found = h.read_queue(key.first, key.second);
    if (!found) RC_FAIL(fmt::format("queue {} {} cannot be read: {} events, last {}; halted {}", key.first, key.second, h.driver.events().size(), h.driver.last_text(),
                                    h.driver.halted() ? h.driver.halted()->text() : "no"));
    const QueueRange range = h.store->queues().range(key.first, QueueId(key.second));
    for (auto& [offset, candidates] : offsets) {
      const auto it = found->find(offset);
      for (const Sent& sent : candidates)
        if (sent.is_acked) {
          if (it == found->end()) RC_FAIL(fmt::format("acked {} of {} {} is lost: queue [{}, {})", offset, key.first, key.second, range.min, range.max));
          RC_ASSERT(it->second == sent.body);
        }
      if (it != found->end()) {
        bool is_known = false;
        for (const Sent& sent : candidates) is_known |= sent.body == it->second;
        RC_ASSERT(is_known);
      }
    }
    for (const auto& [offset, body] : *found) RC_ASSERT(offsets.contains(offset));
  }
}

void live(uint64_t seed, FlushDiskType flush) {
  BrokerConfig config = small_store_config();
  config.flush_disk_type = flush;
  StoreHarness h(Seed{seed}, config);
  // A CHECK that fails ends the process: what the store said goes with it.
  crash_context().seed = seed;
  crash_context().arg = &h;
  crash_context().on_crash = [](const std::string&, void* arg) {
    for (const auto& event : static_cast<StoreHarness*>(arg)->driver.events()) {
      std::string line = event.name;
      for (const uint64_t value : event.values) line += fmt::format(" {}", value);
      std::fprintf(stderr, "  %s %s\n", line.c_str(), event.text.c_str());
    }
  };
  Prng prng(Seed{seed + 1});
  Model model;
  uint64_t next_body = 0;
  RC_ASSERT(h.run_until(Store::State::Serving));
  const int lives = 4;
  for (int life = 0; life < lives; ++life) {
    const uint64_t sends = prng.below(60);
    for (uint64_t i = 0; i < sends && !h.driver.halted(); ++i) {
      const std::string topic = prng.chance({1, 3}) ? "a" : "b";
      const auto queue = static_cast<int32_t>(prng.below(2));
      const std::string body = fmt::format("m{}-", next_body++) + std::string(prng.log_between(1, 6000), 'x');
      const Result<Appended> appended = h.append(topic, queue, body, fmt::format("KEYS\1k{}\2", next_body % 7));
      if (appended) model[{topic, queue}][appended->queue_offset.value()].push_back({body, appended->end});
      else RC_ASSERT(appended.code() == Errc::LogRolling || appended.code() == Errc::UnflushedLimit);
      h.run(static_cast<int>(prng.below(6)));
      for (auto& [key, offsets] : model)
        for (auto& [offset, candidates] : offsets)
          for (Sent& sent : candidates)
            if (!sent.is_acked && sent.body == candidates.back().body && sent.end <= h.store->ack_mark() && h.store->state() == Store::State::Serving) sent.is_acked = flush == FlushDiskType::Sync;
    }
    RC_ASSERT(!h.driver.halted());
    const uint64_t how = prng.below(4);
    if (how == 0) {
      RC_ASSERT(h.run_until([&] { return h.store->watermarks().flushed == h.store->watermarks().appended; }));
      h.step(nullptr, [&](Ctx& ctx) { h.store->begin_stop(ctx); });
      RC_ASSERT(h.run_until(Store::State::Stopped));
      RC_ASSERT(!h.driver.exists("store/abort"));
      h.kill();
    } else if (how == 1) {
      h.kill();
    } else {
      h.cut_power({static_cast<uint32_t>(prng.below(3)), 2});
    }
    // Now and then it dies again while it recovers.
    if (prng.chance({1, 3})) {
      h.run(static_cast<int>(prng.below(60)));
      h.cut_power({1, 2});
    }
    if (prng.chance({1, 4})) {  // derived files go away
      for (const FileEntry& entry : h.driver.list("store"))
        if (entry.path.starts_with("consumequeue") || (entry.path.starts_with("index") && prng.chance({1, 2}))) h.driver.erase("store/" + entry.path);
    }
    if (!h.run_until(Store::State::Serving)) RC_FAIL(h.driver.halted() ? h.driver.halted()->text() : fmt::format("does not come up, state {}", static_cast<int>(h.store->state())));
    verify(h, model);
    if (flush == FlushDiskType::Async) model.clear();  // what is left after a cut is taken as it is
    for (auto& [key, offsets] : model) {               // an offset beyond the end may be given again, to another message
      const QueueRange range = h.store->queues().range(key.first, QueueId(key.second));
      std::erase_if(offsets, [&](const auto& item) { return item.first >= range.max.value(); });
    }
    if (flush == FlushDiskType::Async)
      for (const char* topic : {"a", "b"})
        for (int32_t queue = 0; queue < 2; ++queue) {
          const auto found = h.read_queue(topic, queue);
          RC_ASSERT(found.has_value());
          for (const auto& [offset, body] : *found) model[{topic, queue}][offset].push_back({body, PhysicalOffset(0)});
        }
  }
}

// Files of queues were deleted, and the table of queues stayed. A round while the log was fed again made a file anew, and what was fed next was
// taken to stand in it; and a second crash, before a round had written everything, met a table that said so already.
TEST(StoreProperty, SeedsThatFoundBugs) {
  const std::pair<uint64_t, Mutant> found[] = {{1979296766580099927u, Mutant::None}, {402974791514163786u, Mutant::MissingFilesKeepTable}};
  for (const auto& [seed, planted] : found) {
    SCOPED_TRACE(seed);
    EXPECT_NO_THROW(live(seed, FlushDiskType::Sync));
    if (planted == Mutant::None) continue;
    mutants::plant(planted);
    EXPECT_ANY_THROW(live(seed, FlushDiskType::Sync));
    mutants::plant(Mutant::None);
  }
}

RC_GTEST_PROP(StoreProperty, SyncFlushKeepsWhatItAcknowledged, (uint64_t seed)) { live(seed, FlushDiskType::Sync); }
RC_GTEST_PROP(StoreProperty, AsyncFlushNeverLies, (uint64_t seed)) { live(seed, FlushDiskType::Async); }

}  // namespace
}  // namespace fulmar::testing
