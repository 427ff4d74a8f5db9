#include "core/store/exports.h"

#include <array>
#include <charconv>
#include <set>

#include "core/base/json.h"
#include "core/base/marks.h"
#include "core/store/owners.h"

namespace fulmar {

namespace {
constexpr Duration kExportInterval = Duration::seconds(5);
constexpr JsonBounds kBounds{.bytes_max = 256u << 20, .depth_max = 16, .values_max = 8'000'000};
constexpr std::string_view kNames[] = {"topics.json",         "topics.json.bak",     "consumerOffset.json",   "consumerOffset.json.bak",
                                       "topics.json",         "consumerOffset.json", "subscriptionGroup.json"};

struct ExportFailed {
  FULMAR_EVENT(ExportFailed, Warning, "an export was not written ({}); the log is the truth, and it is tried again");
  std::string_view why;
  auto values() const { return std::array<uint64_t, 0>{}; }
  std::string_view text() const { return why; }
};
struct ImportUsedBackup {
  FULMAR_EVENT(ImportUsedBackup, Warning, "imported {} because the file itself is missing or does not parse");
  std::string_view path;
  auto values() const { return std::array<uint64_t, 0>{}; }
  std::string_view text() const { return path; }
};
// What RocketMQ makes itself at every start, or what is ours alone: exported, never imported.
struct BuiltIn { std::string_view name; int32_t queues; };
constexpr BuiltIn kBuiltIn[] = {{"OFFSET_MOVED_EVENT", 1},       {"RMQ_SYS_TRANS_HALF_TOPIC", 1}, {"RMQ_SYS_TRANS_OP_HALF_TOPIC", 1},
                                {"SCHEDULE_TOPIC_XXXX", 18},     {"SELF_TEST_TOPIC", 1},          {kMetaTopic, 1}};
bool is_built_in(std::string_view topic) { return is_system_topic(topic) || topic == "SELF_TEST_TOPIC" || topic == "TBW102"; }

void data_version(JsonWriter& json, uint64_t counter, Wall now) {
  json.key("dataVersion").begin_object();
  json.key("counter").value(counter).key("stateVersion").value(0).key("timestamp").value(now.ms);
  json.end_object();
}
void topic_entry(JsonWriter& json, std::string_view name, int32_t read_queues, int32_t write_queues, uint32_t perm) {
  json.key(name).begin_object();
  json.key("attributes").begin_object().end_object().key("order").value(false).key("perm").value(perm).key("readQueueNums").value(read_queues);
  json.key("topicFilterType").value("SINGLE_TAG").key("topicName").value(name).key("topicSysFlag").value(0).key("writeQueueNums").value(write_queues);
  json.end_object();
}
}  // namespace

Exports::Exports(std::string directory, const Meta& meta) : directory_(std::move(directory)), meta_(meta), tickets_(owner::kExports) {}

// --- import: topics, then offsets; the backup when the file itself is missing or broken ------------------------------------------------

void Exports::begin_import(Ctx& ctx) { read_next(ctx, Topics); }

void Exports::read_next(Ctx& ctx, File file) {
  ctx.out.read(tickets_.issue(file), fmt::format("{}/{}", directory_, kNames[file]), kBounds.bytes_max);
}

void Exports::on_read(Ctx& ctx, const Read& read) {
  const File file = static_cast<File>(tickets_.redeem(read.ticket));
  const bool is_backup = file == TopicsBackup || file == OffsetsBackup;
  const bool is_missing = !read.contents && read.contents.code() == Errc::NotFound;
  const bool is_good = read.contents && take(file, as_text(*read.contents));
  if (is_good && is_backup) ctx.trace.note(ImportUsedBackup{kNames[file]});
  SOMETIMES("exports: import from a backup", is_good && is_backup);
  if (!is_good && !is_backup) {
    if (!is_missing) fail_import(file, read.contents ? "does not parse" : read.contents.error().text());
    return read_next(ctx, static_cast<File>(file + 1));
  }
  // Both missing: nothing was ever stored. A file that is there and useless: only a good backup makes up for it.
  if (is_good) import_outcome_ = {};
  else if (!is_missing) fail_import(file, read.contents ? "does not parse" : read.contents.error().text());
  if (import_outcome_ && file <= TopicsBackup) return read_next(ctx, Offsets);
  is_import_done_ = true;
}

void Exports::fail_import(File file, std::string_view why) {
  import_outcome_ = Error(Errc::StoreDamaged, fmt::format("{}/{} {}; repair or remove it: without it the broker would start with an empty table",
                                                          directory_, kNames[file], why));
}

bool Exports::take(File file, std::string_view text) {
  const Result<Json> root = Json::parse(text, kBounds);
  if (!root || !root->is_object()) return false;
  if (file == Topics || file == TopicsBackup) {
    imported_topics_.clear();
    const Json* table = root->find("topicConfigTable");
    if (table == nullptr) return true;
    for (const auto& [name, entry] : table->members()) {
      if (is_built_in(name) || !check_topic_name(name)) continue;
      const auto number = [&entry_ = entry](std::string_view key, int64_t fallback) {
        const Json* found = entry_.find(key);
        return found == nullptr ? fallback : found->as_int64().value_or(fallback);
      };
      const auto queues = [&](std::string_view key) { return static_cast<int32_t>(std::clamp<int64_t>(number(key, 16), 0, 65'535)); };
      imported_topics_.push_back({name, queues("readQueueNums"), queues("writeQueueNums"), static_cast<uint32_t>(number("perm", 6)) & 7u});
    }
    return true;
  }
  imported_offsets_.clear();
  const Json* table = root->find("offsetTable");
  if (table == nullptr) return true;
  for (const auto& [name, queues] : table->members()) {
    const size_t split = name.find('@');   // neither topics nor groups may hold one
    if (split == std::string::npos || split == 0 || split + 1 == name.size()) continue;
    for (const auto& [queue, value] : queues.members()) {
      int32_t id = -1;
      const auto [end, error] = std::from_chars(queue.data(), queue.data() + queue.size(), id);
      const auto offset = value.as_int64();
      if (error != std::errc() || end != queue.data() + queue.size() || id < 0 || !offset || *offset < 0) continue;
      imported_offsets_.push_back({OffsetKey{name.substr(split + 1), name.substr(0, split), id}, QueueOffset(*offset)});
    }
  }
  return true;
}

// --- export -----------------------------------------------------------------------------------------------------------------------

void Exports::pump(Ctx& ctx) {
  if (exported_changes_ != meta_.changes()) is_wanted_ = true;
  const bool is_due = is_last_ || last_write_ == Monotonic{} || ctx.now.monotonic - last_write_ >= kExportInterval;
  if (!is_wanted_ || tickets_.out_count() != 0) return;
  if (is_due) write(ctx);
  else ctx.timers.set(TimerId(uint64_t{owner::kExports} << 56), last_write_ + kExportInterval);
}

void Exports::write_now(Ctx& ctx) {
  is_last_ = is_wanted_ = true;
  pump(ctx);
}

void Exports::write(Ctx& ctx) {
  is_wanted_ = false;
  last_write_ = ctx.now.monotonic;
  exported_changes_ = meta_.changes();
  const auto put = [&](File file, const std::string& text) {
    ctx.out.replace(tickets_.issue(file), fmt::format("{}/{}", directory_, kNames[file]), as_bytes(text));
  };
  put(TopicsOut, topics_text(ctx));
  put(OffsetsOut, offsets_text(ctx));
  put(GroupsOut, groups_text(ctx));
}

void Exports::on_done(Ctx& ctx, const Done& done) {
  const int file = tickets_.redeem(done.ticket);
  if (!done.outcome) {
    const std::string why = fmt::format("{}: {}", kNames[file], done.outcome.error().text());
    ctx.trace.note(ExportFailed{why});
    SOMETIMES("exports: write failed", true);
    // At stop nobody waits for a full disk: the next start reads the log.
    if (!is_last_) is_wanted_ = true;
  }
  if (is_last_) pump(ctx);
}

std::string Exports::topics_text(Ctx& ctx) const {
  JsonWriter json(JsonWriter::Layout::Pretty);
  json.begin_object();
  data_version(json, meta_.changes(), ctx.now.wall);
  json.key("topicConfigTable").begin_object();
  for (const BuiltIn& topic : kBuiltIn) topic_entry(json, topic.name, topic.queues, topic.queues, kPermRead | kPermWrite);
  for (const auto& [name, entry] : meta_.all_topics())
    if (!entry.is_removed) topic_entry(json, name, entry.config.read_queues, entry.config.write_queues, entry.config.perm);
  json.end_object().end_object();
  return json.take();
}

// RocketMQ's key is topic@group; its queues are one map, so that offsets are regrouped by topic.
std::string Exports::offsets_text(Ctx& ctx) const {
  JsonWriter json(JsonWriter::Layout::Pretty);
  json.begin_object();
  data_version(json, meta_.changes(), ctx.now.wall);
  json.key("offsetTable").begin_object();
  const OffsetKey* open = nullptr;   // offsets are ordered by group, topic, queue: one topic@group stands together
  for (const auto& [key, entry] : meta_.all_offsets()) {
    if (open == nullptr || open->group != key.group || open->topic != key.topic) {
      if (open != nullptr) json.end_object();
      json.key(fmt::format("{}@{}", key.topic, key.group)).begin_object();
      open = &key;
    }
    json.key(int64_t{key.queue_id}).value(entry.offset.value());
  }
  if (open != nullptr) json.end_object();
  json.end_object().end_object();
  return json.take();
}

std::string Exports::groups_text(Ctx& ctx) const {
  std::set<std::string_view> groups;
  for (const auto& item : meta_.all_offsets()) groups.insert(item.first.group);
  for (const auto& [name, entry] : meta_.all_groups())
    if (entry.is_made) groups.insert(name);
  JsonWriter json(JsonWriter::Layout::Pretty);
  json.begin_object();
  data_version(json, meta_.changes(), ctx.now.wall);
  json.key("forbiddenTable").begin_object().end_object();
  json.key("subscriptionGroupTable").begin_object();
  for (const std::string_view group : groups) {
    const GroupConfig* made = meta_.group(group);
    const GroupConfig config = made != nullptr ? *made : GroupConfig{};
    json.key(group).begin_object();
    json.key("attributes").begin_object().end_object().key("brokerId").value(config.broker_id).key("consumeBroadcastEnable").value(config.is_broadcast_enabled);
    json.key("consumeEnable").value(config.is_consume_enabled).key("consumeFromMinEnable").value(config.is_from_min_enabled);
    json.key("consumeMessageOrderly").value(config.is_orderly).key("consumeTimeoutMinute").value(config.timeout_minutes).key("groupName").value(group);
    json.key("groupRetryPolicy").begin_object().key("type").value("CUSTOMIZED").end_object();
    json.key("groupSysFlag").value(config.sys_flag).key("notifyConsumerIdsChangedEnable").value(config.is_notified).key("retryMaxTimes").value(config.retry_max);
    json.key("retryQueueNums").value(config.retry_queues).key("whichBrokerWhenConsumeSlowly").value(config.slow_broker_id);
    json.end_object();
  }
  json.end_object().end_object();
  return json.take();
}

}  // namespace fulmar
