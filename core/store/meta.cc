#include "core/store/meta.h"

#include "core/base/marks.h"
#include "core/store/limits.h"
#include "core/store/meta_body.h"

namespace fulmar {

namespace {
constexpr int32_t kQueueCountMax = 65'535;    // of a topic; brokers allow fewer

struct OffsetClamped {
  FULMAR_EVENT(OffsetClamped, Warning, "a committed offset of queue {} was {} and is now the queue's end {}: {}");
  int32_t queue_id;
  int64_t was, is;
  std::string_view who;
  auto values() const { return std::array<int64_t, 3>{queue_id, was, is}; }
  std::string_view text() const { return who; }
};
struct MetaRecordBroken {
  FULMAR_EVENT(MetaRecordBroken, Error, "the meta record at {} does not parse; what stands behind its byte {} is passed over");
  uint64_t at, byte;
  auto values() const { return std::array{at, byte}; }
};

}  // namespace

namespace {
struct TopicAssumed {
  FULMAR_EVENT(TopicAssumed, Warning, "the record of a topic was lost; it can be read from the {} queues that are there: {}");
  uint64_t queues;
  std::string_view topic;
  auto values() const { return std::array{queues}; }
  std::string_view text() const { return topic; }
};
}  // namespace

// --- changes ----------------------------------------------------------------------------------------------------------------------

Result<Appended> Meta::set_topic(Ctx& ctx, const TopicConfig& config) {
  const auto found = topics_.find(config.name);
  if (found == topics_.end() && topics_.size() >= limits::kTopicCountMax)
    return Error(Errc::Full, fmt::format("the broker holds {} topics, its limit", topics_.size()));
  BodyWriter body;
  if (found != topics_.end() && !found->second.next.empty()) put_removal(body, config.name, found->second.next);
  put_topic(body, config);
  FULMAR_TRY(const Appended appended, log_.append_meta(ctx, body.bytes()));
  take_topic(config, appended.begin);
  return appended;
}

void Meta::assume_topics(Ctx& ctx) {
  std::map<std::string, int32_t> queue_counts;
  queues_.for_each([&](std::string_view topic, QueueId queue, QueueRange) {
    if (is_system_topic(topic) || topics_.contains(topic)) return;
    int32_t& count = queue_counts[std::string(topic)];
    count = std::max(count, queue.value() + 1);
  });
  for (const auto& [topic, count] : queue_counts) {
    ctx.trace.note(TopicAssumed{static_cast<uint64_t>(count), topic});
    take_topic({topic, count, count, kPermRead}, PhysicalOffset(0));
  }
}

Result<Appended> Meta::remove_topic(Ctx& ctx, std::string_view topic) {
  const auto found = topics_.find(topic);
  if (found == topics_.end() || found->second.is_removed) return Error(Errc::NotFound, fmt::format("there is no topic '{}'", topic));
  std::map<int32_t, QueueOffset> next(found->second.next.begin(), found->second.next.end());
  for (int32_t queue = 0; queue < found->second.queue_count_ever; ++queue) {
    const QueueOffset offset = queues_.next_offset(topic, QueueId(queue));
    if (offset.value() > 0) next[queue] = std::max(next[queue], offset);
  }
  if (MUTANT(DeleteTopicForgetsNextOffsets)) next.clear();
  std::vector<std::pair<int32_t, QueueOffset>> list(next.begin(), next.end());
  BodyWriter body;
  put_removal(body, topic, list);
  FULMAR_TRY(const Appended appended, log_.append_meta(ctx, body.bytes()));
  queues_.retire_topic(ctx, topic, appended.end);
  take_removal(topic, std::move(list), appended.begin);
  return appended;
}

Result<Appended> Meta::set_offsets(Ctx& ctx, const Offsets& offsets) {
  CHECK(!offsets.empty());
  if (!settle(ctx)) return Error(Errc::LogRolling, "offsets that recovery lowered wait for their place in the log");
  size_t fresh = 0;
  for (const auto& item : offsets) fresh += offsets_.contains(item.first) ? 0 : 1;
  if (offsets_.size() + fresh > limits::kGroupOffsetsMax)
    return Error(Errc::Full, fmt::format("the broker holds {} committed offsets, its limit is {}", offsets_.size(), limits::kGroupOffsetsMax));
  size_t done = 0;
  return append_offsets(ctx, offsets, done);
}

// In as many records as it takes. An error leaves `done` of them appended and taken: saying them again does no harm.
Result<Appended> Meta::append_offsets(Ctx& ctx, const Offsets& offsets, size_t& done) {
  std::optional<Appended> all;
  while (done < offsets.size()) {
    BodyWriter body;
    size_t end = done;
    while (end < offsets.size() && (end == done || body.bytes().size() < kBodyBytesMax)) {
      const auto& [key, offset] = offsets[end++];
      put_offset(body, key, offset);
    }
    FULMAR_TRY(const Appended appended, log_.append_meta(ctx, body.bytes()));
    for (; done < end; ++done) take_offset(offsets[done].first, offsets[done].second, appended.begin);
    SOMETIMES("meta: offsets in several records", all.has_value());
    if (!all) all = appended;
    all->end = appended.end;
  }
  return *all;
}

bool Meta::settle(Ctx& ctx) {
  if (owed_.empty()) return true;
  size_t done = 0;
  const Result<Appended> appended = append_offsets(ctx, owed_, done);
  owed_.erase(owed_.begin(), owed_.begin() + static_cast<ptrdiff_t>(done));
  return appended.has_value();
}

void Meta::clamp_offsets(Ctx& ctx) {
  for (auto& [key, entry] : offsets_) {
    const QueueOffset end = queues_.range(key.topic, QueueId(key.queue_id)).max;
    if (entry.offset <= end) continue;
    const std::string who = fmt::format("group {} topic {}", key.group, key.topic);
    ctx.trace.note(OffsetClamped{key.queue_id, entry.offset.value(), end.value(), who});
    SOMETIMES("meta: offset clamped", true);
    entry.offset = end;
    ++changes_;
    owed_.emplace_back(key, end);
  }
}

// --- questions --------------------------------------------------------------------------------------------------------------------

const TopicConfig* Meta::topic(std::string_view name) const {
  if (last_topic_ == nullptr || last_topic_->first != name) {
    const auto found = topics_.find(name);
    if (found == topics_.end()) return nullptr;
    last_topic_ = &*found;
  }
  return last_topic_->second.is_removed ? nullptr : &last_topic_->second.config;
}

std::vector<TopicConfig> Meta::topics(std::string_view after, size_t count_max) const {
  std::vector<TopicConfig> out;
  for (auto it = topics_.upper_bound(after); it != topics_.end() && out.size() < count_max; ++it)
    if (!it->second.is_removed) out.push_back(it->second.config);
  return out;
}

std::optional<QueueOffset> Meta::offset(const OffsetKey& key) const {
  const auto found = offsets_.find(key);
  if (found == offsets_.end()) return std::nullopt;
  return found->second.offset;
}

PhysicalOffset Meta::claim() const { return places_.empty() ? PhysicalOffset(UINT64_MAX) : places_.begin()->first; }

// --- the fold ---------------------------------------------------------------------------------------------------------------------

namespace {
// take(kind, payload) for each item; false: it does not parse. Returns where the walk ended early: 0 for a later version's body, whose
// items may mean anything.
template <class Take>
std::optional<size_t> walk_items(Bytes bytes, Take take) {
  Reader body(bytes);
  if (body.u8() != kBodyVersion) return 0;
  while (body.ok() && body.remaining() > 0) {
    const size_t at = body.at();
    const uint8_t kind = body.u8();
    const Bytes payload = body.bytes(body.u32());
    if (!body.ok() || !take(kind, payload)) return at;
  }
  return {};
}
}  // namespace

bool Meta::apply(Ctx& ctx, const RecordView& record) {
  if (record.message.topic != kMetaTopic) return true;
  has_records_ = true;
  const std::optional<size_t> broken =
      walk_items(record.message.body, [&](uint8_t kind, Bytes payload) { return apply_item(kind, payload, record.place.physical); });
  if (broken) ctx.trace.note(MetaRecordBroken{record.place.physical.value(), *broken});
  return true;
}

namespace {
struct Removal { std::string_view topic; std::vector<std::pair<int32_t, QueueOffset>> next; };
std::optional<Removal> read_removal(Bytes payload) {
  Reader in(payload);
  Removal out;
  out.topic = in.text(in.u16());
  for (uint16_t left = in.u16(); left > 0 && in.ok(); --left) {
    const int32_t queue = in.i32();
    if (queue < 0 || queue >= kQueueCountMax) return {};
    out.next.emplace_back(queue, QueueOffset(in.i64()));
  }
  return in.ok() ? std::optional(std::move(out)) : std::nullopt;
}
}  // namespace

void for_each_removal(Bytes body, const std::function<void(std::string_view, int32_t, QueueOffset)>& visit) {
  (void)walk_items(body, [&](uint8_t kind, Bytes payload) {
    const std::optional<Removal> removal = kind == kTopicRemoved ? read_removal(payload) : std::nullopt;
    if (removal) for (const auto& [queue, next] : removal->next) visit(removal->topic, queue, next);
    return true;
  });
}

// False: the payload does not parse.
bool Meta::apply_item(uint8_t kind, Bytes payload, PhysicalOffset at) {
  Reader in(payload);
  if (kind == kTopicSet) {
    TopicConfig config;
    config.name = in.text(in.u16());
    config.read_queues = in.i32();
    config.write_queues = in.i32();
    config.perm = in.u32();
    const auto is_count = [](int32_t count) { return count >= 0 && count <= kQueueCountMax; };
    if (!in.ok() || !is_count(config.read_queues) || !is_count(config.write_queues)) return false;
    take_topic(std::move(config), at);
  } else if (kind == kTopicRemoved) {
    std::optional<Removal> removal = read_removal(payload);
    if (!removal) return false;
    take_removal(removal->topic, std::move(removal->next), at);
  } else if (kind == kOffsetSet) {
    OffsetKey key;
    key.group = in.text(in.u16());
    key.topic = in.text(in.u16());
    key.queue_id = in.i32();
    const QueueOffset offset(in.i64());
    if (!in.ok()) return false;
    take_offset(key, offset, at);
  } else if (kind == kQueueFloor) {
    const std::string_view topic = in.text(in.u16());
    const int32_t queue_id = in.i32();
    const QueueOffset next(in.i64());
    if (!in.ok() || queue_id < 0 || queue_id >= kQueueCountMax) return false;
    take_floor(topic, queue_id, next, at);
  } else if (kind == kGroupSet || kind == kGroupRemoved) {
    return apply_group_item(kind, in, at);
  }
  return true;
}

// No entry stands for the record at `at` any more.
void Meta::unstamp(PhysicalOffset at) {
  const auto old = places_.find(at);
  CHECK(old != places_.end());
  if (--old->second == 0) places_.erase(old);
}

// An entry now stands for the record at `at`, and, unless it is new, no longer for an older one.
void Meta::stamp(PhysicalOffset& entry_at, bool is_new, PhysicalOffset at) {
  if (!is_new) unstamp(entry_at);
  ++places_[at];
  entry_at = at;
  has_records_ = true;
}

bool Meta::take_topic(TopicConfig config, PhysicalOffset at) {
  auto [it, is_new] = topics_.try_emplace(config.name);
  TopicEntry& entry = it->second;
  if (!is_new && at < entry.at) return false;
  const bool is_change = is_new || entry.is_removed || entry.config != config;
  stamp(entry.at, is_new, at);
  if (is_new || entry.is_removed) ++topic_count_;
  entry.is_removed = false;
  entry.queue_count_ever = std::max({entry.queue_count_ever, config.read_queues, config.write_queues});
  entry.config = std::move(config);
  if (is_change) ++topics_version_;
  if (is_change) ++changes_;
  return true;
}

bool Meta::take_removal(std::string_view name, std::vector<std::pair<int32_t, QueueOffset>> next, PhysicalOffset at) {
  // Also when the topic was made again since: messages from before this record are not seen any more, whether dispatch has brought them
  // or is still to bring them.
  for (const auto& [queue, offset] : next) queues_.begin_queue_at(name, QueueId(queue), offset);
  auto [it, is_new] = topics_.try_emplace(std::string(name));
  TopicEntry& entry = it->second;
  if (!is_new && at < entry.at) return false;
  const bool is_change = !is_new && !entry.is_removed;
  stamp(entry.at, is_new, at);
  if (is_change) --topic_count_;
  entry.is_removed = true;
  entry.config.name = name;
  for (const auto& [queue, offset] : next) entry.queue_count_ever = std::max(entry.queue_count_ever, queue + 1);
  entry.next = std::move(next);
  if (is_change) ++topics_version_;
  if (is_change || is_new) ++changes_;
  return true;
}

bool Meta::take_offset(const OffsetKey& key, QueueOffset offset, PhysicalOffset at) {
  if (const auto group = groups_.find(key.group); group != groups_.end() && group->second.removed_at && at < *group->second.removed_at) return false;
  auto [it, is_new] = offsets_.try_emplace(key);
  OffsetEntry& entry = it->second;
  const bool is_older = !is_new && at < entry.at;
  SOMETIMES("meta: an older offset comes by again", is_older);
  if (is_older && !MUTANT(MetaTakesOlderOffsets)) return false;
  const bool is_change = is_new || entry.offset != offset;
  stamp(entry.at, is_new, at);
  entry.offset = offset;
  if (is_change) ++changes_;
  return true;
}

bool Meta::take_floor(std::string_view topic, int32_t queue_id, QueueOffset next, PhysicalOffset at) {
  queues_.set_floor(topic, QueueId(queue_id), next);
  auto [it, is_new] = floors_.try_emplace({std::string(topic), queue_id});
  if (!is_new && at < it->second.at) return false;
  stamp(it->second.at, is_new, at);
  it->second.next = next;
  return true;
}

}  // namespace fulmar
