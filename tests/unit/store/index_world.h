#pragma once
// An index over a memory driver, and the multimap that it must agree with.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/marks.h"
#include "core/store/index_file.h"
#include "core/store/owners.h"
#include "tests/unit/store/memory_driver.h"

namespace fulmar::testing {

class IndexWorld {
 public:
  struct Record { std::string topic, unique, keys; uint64_t at; int64_t stored; uint32_t sys_flag; };

  explicit IndexWorld(Seed seed, uint64_t slot_count = 64, uint64_t entry_count = 200) : driver(seed), options_{"index", slot_count, entry_count, true} { wake(); }

  void append(const std::string& topic, const std::string& unique, const std::string& keys = "", uint32_t flag = 0) {
    records.push_back({topic, unique, keys, log_end, driver.now.wall.ms, flag});
    log_end += 100;
  }
  void dispatch() {
    driver.step([&](Ctx& ctx) {
      for (; dispatched < records.size(); ++dispatched)
        if (!apply(ctx, records[dispatched])) break;
      index->pump(ctx);
    });
  }
  bool apply(Ctx& ctx, const Record& record) {
    std::string properties;
    if (!record.unique.empty()) (void)property::add(properties, property::kUniqueKey, record.unique);
    if (!record.keys.empty()) (void)property::add(properties, property::kKeys, record.keys);
    RecordView view;
    view.total_bytes = 100;
    view.message.topic = record.topic;
    view.message.properties = as_bytes(properties);
    view.message.sys_flag = record.sys_flag;
    view.place = {PhysicalOffset(record.at), QueueOffset(0), Wall{record.stored}};
    return index->apply(ctx, view);
  }
  void begin_round() {
    driver.step([&](Ctx& ctx) {
      round_ = Round{dispatched == records.size() ? log_end : records[dispatched].at, index->entry_count()};
      index->begin_round(ctx);
      index->pump(ctx);
    });
    note_round();
  }
  bool is_round_running() const { return round_.has_value(); }
  bool turn() {
    const std::optional<Input> input = driver.complete_one();
    if (!input && !driver.wants_step_again()) return false;
    driver.step([&](Ctx& ctx) {
      if (input) {
        if (const auto* mapped = std::get_if<Mapped>(&*input)) index->on_mapped(ctx, *mapped);
        else if (const auto* done = std::get_if<Done>(&*input)) index->on_done(ctx, *done);
      }
      index->pump(ctx);
    });
    note_round();
    return true;
  }
  void settle() { while (!driver.halted() && turn()) {} }
  void round() {
    begin_round();
    settle();
  }
  void step(const std::function<void(Ctx&)>& body) { driver.step(body); }
  std::vector<uint64_t> query(const std::string& topic, const std::string& key, int64_t begin = 0, int64_t end = INT64_MAX / 2, uint32_t count_max = 10'000) {
    const uint64_t token = ++token_;
    std::vector<KeyHit> hits;
    for (bool is_done = false; !is_done;) {
      driver.step([&](Ctx& ctx) {
        is_done = index->query(ctx, topic, key, Wall{begin}, Wall{end}, count_max, token, hits);
        index->pump(ctx);
      });
      for (bool is_ready = is_done; !is_ready;) {
        for (const uint64_t ready : index->take_ready()) is_ready |= ready == token;
        if (!is_ready && driver.was_killed()) return {};
        if (!is_ready) CHECK(turn(), "token {} is never answered", token);
      }
    }
    std::vector<uint64_t> out;
    for (const KeyHit& hit : hits) out.push_back(hit.at.value());
    return out;
  }
  // After crash() or kill(): the log is cut behind what a finished round covers, then the rest is dispatched again.
  void restart(uint64_t cut = UINT64_MAX) {
    while (!records.empty() && records.back().at >= std::max(cut, derived)) {
      log_end = records.back().at;
      records.pop_back();
    }
    wake();
    load();
    dispatched = 0;
    if (!index->needs_rebuild()) while (dispatched < records.size() && records[dispatched].at < derived) ++dispatched;
    dispatch();
  }
  void load() {
    driver.step([&](Ctx& ctx) {
      for (const FileEntry& entry : driver.list("index")) index->adopt(ctx, entry);
      index->begin_load(ctx, PhysicalOffset(0), expected, true);
    });
    while (!index->is_loaded()) CHECK(turn(), "the load never ends");
    if (index->needs_rebuild()) derived = expected = 0;
  }
  void wake() {
    index = std::make_unique<Index>(options_);
    round_.reset();
  }
  // Which of the dispatched records have the key and a stamp in the window, newest first, must all be among the hits; and what else is
  // hit must be a record that was cut or has the same hash.
  std::string difference(const std::string& topic, const std::string& key, int64_t begin = 0, int64_t end = INT64_MAX / 2) {
    const std::vector<uint64_t> found = query(topic, key, begin, end);
    for (size_t i = 1; i < found.size(); ++i) if (found[i] >= found[i - 1]) return "the hits are not in order";
    for (size_t i = 0; i < dispatched; ++i) {
      const Record& record = records[i];
      const bool has_key = record.unique == key || (" " + record.keys + " ").find(" " + key + " ") != std::string::npos;
      if (record.topic != topic || !has_key || record.sys_flag == sys_flag::kRollback || record.stored < begin || record.stored > end) continue;
      if (std::find(found.begin(), found.end(), record.at) == found.end()) return fmt::format("{}#{} misses the record at {}", topic, key, record.at);
    }
    return {};
  }

  MemoryDriver driver;
  Index::Options options_;
  std::unique_ptr<Index> index;
  std::vector<Record> records;
  uint64_t log_end = 0;
  size_t dispatched = 0;
  uint64_t derived = 0, expected = 0;

 private:
  struct Round { uint64_t covers, entries; };
  void note_round() {
    if (!round_ || driver.was_killed() || !index->is_round_done()) return;
    derived = round_->covers;
    expected = round_->entries;
    round_.reset();
  }
  std::optional<Round> round_;
  uint64_t token_ = 0;
};

}  // namespace fulmar::testing
