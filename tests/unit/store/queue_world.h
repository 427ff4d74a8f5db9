#pragma once
// Consume queues over a memory driver, with a log of records beside them and a model of what every queue must hold.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/mutants.h"
#include "core/store/consume_queue.h"
#include "core/store/owners.h"
#include "tests/unit/store/memory_driver.h"

namespace fulmar::testing {

class QueueWorld {
 public:
  static constexpr uint64_t kLogBytes = 256 * 1024;
  struct Record { std::string topic, tags; int32_t queue; int64_t offset; PhysicalOffset at; uint32_t bytes; uint32_t sys_flag; };
  using Key = std::pair<std::string, int32_t>;

  explicit QueueWorld(Seed seed, uint64_t file_bytes = 8000) : driver(seed), file_bytes_(file_bytes), log_bytes(kLogBytes) { wake(); }

  // --- the log -----------------------------------------------------------------------------------------------------------------------------
  // Stores a record behind the last one; its queue offset is the queue's next unless one is given.
  const Record& append(const std::string& topic, int32_t queue, const std::string& tags = "", uint32_t flag = 0, int64_t offset = -1) {
    std::string properties;
    if (!tags.empty()) (void)property::add(properties, property::kTags, tags);
    Message message;
    message.topic = topic;
    message.queue_id = QueueId(queue);
    message.sys_flag = flag;
    message.properties = as_bytes(properties);
    const uint32_t bytes = *record_bytes(message, false);
    int64_t& next = next_[{topic, queue}];
    const Record record{topic, tags, queue, offset >= 0 ? offset : next, PhysicalOffset(log_end), bytes, flag};
    if (flag == 0 || flag == sys_flag::kCommit) next = record.offset + 1;
    CHECK(log_end + bytes <= kLogBytes);
    encode_record(MutableBytes(log_bytes).subspan(log_end, bytes), message, {record.at, QueueOffset(record.offset), Wall{1}}, false);
    log_end += bytes;
    records.push_back(record);
    return records.back();
  }
  bool has_room() const { return log_end + 1024 <= kLogBytes; }
  // Dispatches the records that are stored and were not dispatched yet.
  void dispatch(size_t count_max = SIZE_MAX) {
    driver.step([&](Ctx& ctx) {
      for (; dispatched < records.size() && count_max > 0; ++dispatched, --count_max)
        if (!queues->apply(ctx, view(records[dispatched]))) break;
      queues->pump(ctx);
    });
  }
  RecordView view(const Record& record) const {
    RecordView out;
    out.total_bytes = record.bytes;
    const ParsedRecord parsed = parse_record(Bytes(log_bytes).subspan(record.at.value(), record.bytes), record.at, Verify::Structure);
    CHECK(parsed.kind == RecordKind::Message, "{}", parsed.why);
    return parsed.record;
  }

  // --- rounds --------------------------------------------------------------------------------------------------------------------------------
  void begin_round() {
    driver.step([&](Ctx& ctx) {
      round_ = Round{dispatched == records.size() ? log_end : records[dispatched].at.value(), queues->entry_count()};
      queues->begin_round(ctx);
      queues->pump(ctx);
    });
    note_round();
  }
  bool is_round_running() const { return round_.has_value(); }
  // One answer of the disk; false when there is none.
  bool turn() {
    const std::optional<Input> input = driver.complete_one();
    if (!input && !driver.wants_step_again()) return false;
    driver.step([&](Ctx& ctx) {
      if (input) route(ctx, *input);
      pump(ctx);
    });
    note_round();
    return true;
  }
  void settle() { while (!driver.halted() && turn()) {} }
  void round() {
    begin_round();
    settle();
  }

  // --- reading -----------------------------------------------------------------------------------------------------------------------------------
  std::vector<QueueEntry> read_all(const std::string& topic, int32_t queue) {
    std::vector<QueueEntry> out;
    const QueueRange range = queues->range(topic, QueueId(queue));
    for (QueueOffset at = range.min; at < range.max;) {
      const size_t before = out.size();
      read_some(topic, queue, at, EntryCount(100), out);
      if (out.size() == before) break;
      at += EntryCount(static_cast<int64_t>(out.size() - before));
    }
    return out;
  }
  // Reads, waiting for cold files.
  void read_some(const std::string& topic, int32_t queue, QueueOffset from, EntryCount count, std::vector<QueueEntry>& out) {
    const uint64_t token = ++token_;
    while (true) {
      bool is_done = false;
      driver.step([&](Ctx& ctx) {
        is_done = queues->read(ctx, topic, QueueId(queue), from, count, token, out);
        pump(ctx);
      });
      if (is_done || driver.halted() || driver.was_killed()) return;
      bool is_ready = false;
      while (!is_ready) {
        for (const uint64_t ready : queues->take_ready()) is_ready |= ready == token;
        if (!is_ready && driver.was_killed()) return;
        if (!is_ready) CHECK(turn(), "token {} is never answered", token);
      }
    }
  }

  // --- restart -------------------------------------------------------------------------------------------------------------------------------------
  // After driver.crash() or kill(): the log is cut at the first record at or behind `cut` (never below what a finished round covers),
  // and the queues are loaded and fed again.
  void restart(uint64_t cut = UINT64_MAX) {
    while (!records.empty() && records.back().at.value() >= std::max(cut, derived)) {
      log_end = records.back().at.value();
      records.pop_back();
    }
    std::fill(log_bytes.begin() + static_cast<ptrdiff_t>(log_end), log_bytes.end(), uint8_t{0});
    next_.clear();
    for (const Record& record : records)
      if (record.sys_flag == 0 || record.sys_flag == sys_flag::kCommit) next_[{record.topic, record.queue}] = record.offset + 1;
    wake();
    load();
    dispatched = 0;
    if (!queues->needs_rebuild()) while (dispatched < records.size() && records[dispatched].at.value() < derived) ++dispatched;
  }
  // Loads what the disk holds into new queues.
  void load(bool is_expected_known = true) {
    driver.put("log/" + segment_name(0), log_bytes);
    driver.step([&](Ctx& ctx) {
      log->files().adopt(0, kLogBytes);
      watermarks.appended = PhysicalOffset(log_end);
      for (const FileEntry& entry : driver.list("queues")) queues->adopt(ctx, entry);
      queues->begin_load(ctx, PhysicalOffset(derived), expected, is_expected_known);
    });
    while (!queues->is_loaded()) CHECK(turn(), "the load never ends");
    settle();
    if (queues->needs_rebuild()) derived = expected = 0;
  }
  void wake() {
    watermarks = {};
    log = std::make_unique<CommitLog>(CommitLog::Options{.directory = "log", .file_bytes = kLogBytes}, watermarks);
    queues = std::make_unique<ConsumeQueues>(ConsumeQueues::Options{"queues", file_bytes_}, *log, watermarks);
    round_.reset();
  }
  void step(const std::function<void(Ctx&)>& body) { driver.step(body); }
  std::string path(const std::string& topic, int32_t queue, uint64_t start) const { return "queues/" + topic + "/" + std::to_string(queue) + "/" + segment_name(start); }

  // --- the model -------------------------------------------------------------------------------------------------------------------------------------
  // What each queue must hold of the first `count` records.
  std::map<Key, std::vector<QueueEntry>> expected_entries(size_t count) const {
    std::map<Key, std::vector<QueueEntry>> out;
    for (size_t i = 0; i < count; ++i) {
      const Record& record = records[i];
      if (record.sys_flag != 0 && record.sys_flag != sys_flag::kCommit) continue;
      out[{record.topic, record.queue}].push_back({record.at, record.bytes, tag_code_of(view(record).message)});
    }
    return out;
  }
  // Empty when all is well, else what differs.
  std::string difference(size_t count) {
    for (const auto& [key, entries] : expected_entries(count)) {
      const QueueRange range = queues->range(key.first, QueueId(key.second));
      if (range.max - range.min != EntryCount(static_cast<int64_t>(entries.size())))
        return fmt::format("{}-{} has [{}, {}), {} entries are expected", key.first, key.second, range.min, range.max, entries.size());
      const std::vector<QueueEntry> found = read_all(key.first, key.second);
      if (found == entries) continue;
      size_t i = 0;
      while (i < found.size() && i < entries.size() && found[i] == entries[i]) ++i;
      return fmt::format("{}-{} entry {} of {} differs: {} expected at {}", key.first, key.second, i, entries.size(), found.size(), entries[i].at);
    }
    return {};
  }

  MemoryDriver driver;
  uint64_t file_bytes_;
  Watermarks watermarks;
  std::unique_ptr<CommitLog> log;
  std::unique_ptr<ConsumeQueues> queues;
  std::vector<uint8_t> log_bytes;
  uint64_t log_end = 0;
  std::vector<Record> records;
  size_t dispatched = 0;
  uint64_t derived = 0, expected = 0;      // of the last round that is done, as a checkpoint would have them

 private:
  struct Round { uint64_t covers, entries; };
  void route(Ctx& ctx, const Input& input) {
    if (const auto* mapped = std::get_if<Mapped>(&input)) {
      if (mapped->ticket.owner() == owner::kQueues) queues->on_mapped(ctx, *mapped);
      else log->on_mapped(ctx, *mapped);
    } else if (const auto* done = std::get_if<Done>(&input)) {
      if (done->ticket.owner() == owner::kQueues) queues->on_done(ctx, *done);
      else log->on_done(ctx, *done);
    }
  }
  void pump(Ctx& ctx) {
    for (const Warmed& warmed : log->take_warmed()) queues->on_warmed(ctx, warmed);
    queues->pump(ctx);
  }
  void note_round() {
    if (!round_ || driver.was_killed() || !queues->is_round_done()) return;
    derived = round_->covers;
    expected = round_->entries;
    round_.reset();
  }
  std::map<Key, int64_t> next_;
  std::optional<Round> round_;
  uint64_t token_ = 0;
};

// A bug planted for the length of a scope.
struct Planted {
  explicit Planted(Mutant mutant) { mutants::plant(mutant); }
  ~Planted() { mutants::plant(Mutant::None); }
};

}  // namespace fulmar::testing
