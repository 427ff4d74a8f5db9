#pragma once
// Topics, groups, committed offsets: records of the system topic rmq_sys_fulmar_meta (queue 0), folded (decision 9). RocketMQ's JSON
// files are exports of it and are read as truth only when the log holds no such record.
//
// A change is appended first and taken into the table in the same step, stamped with its place in the log; a re-dispatched older record
// therefore never undoes it: apply() takes a record only when its place is not below the entry's stamp.
//
// Body of a record, big-endian: version 1 (u8), then items until the end: kind u8, payload length u32, payload.
//   1 topic set       u16+name · i32 read queues · i32 write queues · u32 perm
//   2 topic removed   u16+name · u16 count · (i32 queue id · i64 next offset)…: a topic made again goes on there (and its set item
//                     stands behind a repetition of this one, so that the offsets outlive the record of the removal)
//   3 offset set      u16+group · u16+topic · i32 queue id · i64 offset
//   4 queue floor     u16+topic · i32 queue id · i64 next offset: retention took the last message of the queue; appends go on there
//   5 group set       u16+name · u8 flags (1 consume, 2 from min, 4 broadcast, 8 orderly, 16 notified) · i32 retry queues · i32 retry max ·
//                     i32 timeout minutes · i32 sysFlag · i64 broker id · i64 slow broker id
//   6 group removed   u16+name: and every offset that it had committed before
// Unknown kinds are passed over (written by a later version).

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/model/command.h"
#include "core/store/commit_log.h"
#include "core/store/consume_queue.h"
#include "core/store/derived.h"

namespace fulmar {

// Appends one record of the meta topic; the store's.
class MetaLog {
 public:
  virtual ~MetaLog() = default;
  virtual Result<Appended> append_meta(Ctx& ctx, Bytes body) = 0;
};

struct OffsetKey {
  std::string group, topic;
  int32_t queue_id = 0;
  friend auto operator<=>(const OffsetKey&, const OffsetKey&) = default;
};

// The removals in the body of a meta record: visit(topic, queue id, next offset). What a later version wrote, or does not parse, is passed
// over. For readers of a store that fold nothing.
void for_each_removal(Bytes body, const std::function<void(std::string_view topic, int32_t queue_id, QueueOffset next)>& visit);

class Meta : public Derived {
 public:
  Meta(MetaLog& log, ConsumeQueues& queues) : log_(log), queues_(queues) {}

  // --- topics. Errors of append pass through (DiskFull, LogRolling, …); the caller answers once [begin, end) is flushed. -----------------
  Result<Appended> set_topic(Ctx& ctx, const TopicConfig& config);
  Result<Appended> remove_topic(Ctx& ctx, std::string_view topic);
  // The log is damaged, and records of topics may be what was lost: every queue that is there gets a topic to be read by, in memory only.
  void assume_topics(Ctx& ctx);
  const TopicConfig* topic(std::string_view name) const;       // good until the next change
  std::vector<TopicConfig> topics(std::string_view after, size_t count_max) const;
  size_t topic_count() const { return topic_count_; }
  uint64_t topics_version() const { return topics_version_; }  // moves with every change

  // --- offsets ----------------------------------------------------------------------------------------------------------------------
  Result<Appended> set_offsets(Ctx& ctx, const std::vector<std::pair<OffsetKey, QueueOffset>>& offsets);
  std::optional<QueueOffset> offset(const OffsetKey& key) const;
  // --- groups (meta_groups.cc). One that nobody has made has the default configuration. ---------------------------------------------------
  Result<Appended> set_group(Ctx& ctx, const GroupConfig& config);
  Result<Appended> remove_group(Ctx& ctx, std::string_view group);    // its configuration and its offsets; NotFound when it has neither
  const GroupConfig* group(std::string_view name) const;             // null: not made; good until the next change
  bool has_offsets(std::string_view group) const;
  std::optional<std::string> next_group(std::string_view after) const;  // that is made or has offsets, in order of names
  std::vector<std::pair<OffsetKey, QueueOffset>> offsets_of(std::string_view group, size_t count_max) const;

  // After recovery: offsets above a queue's end are clamped to it, each with an event (decision 12). The clamped values are owed to the
  // log: a later life must not find the old ones valid again.
  void clamp_offsets(Ctx& ctx);
  // Appends what is owed; true when nothing is. Cheap to ask every step.
  bool settle(Ctx& ctx);

  // --- retention: what stands in records below `cut` and is still true is appended again before they go ------------------------------------
  struct Floor { std::string topic; int32_t queue_id; QueueOffset next; };
  // `floors`: all queues that would hold nothing. A part each step; true: nothing below `cut` is needed any more.
  bool carry_over(Ctx& ctx, PhysicalOffset cut, const std::vector<Floor>& floors);

  // --- exports and imports (core/store/exports.h writes and reads the files) ---------------------------------------------------------------
  bool has_records() const { return has_records_; }            // something was folded from the log
  uint64_t changes() const { return changes_; }                // moves with every change: exports compare
  const auto& all_offsets() const { return offsets_; }
  const auto& all_topics() const { return topics_; }
  const auto& all_groups() const { return groups_; }           // removed ones, too

  bool apply(Ctx& ctx, const RecordView& record) override;     // only records of kMetaTopic concern it
  void begin_round(Ctx&) override {}
  bool is_round_done() const override { return true; }         // nothing of its own on disk: it folds from `fold_begin` at start
  bool wants_round() const override { return false; }
  PhysicalOffset claim() const override;

 private:
  struct TopicEntry {
    TopicConfig config;
    PhysicalOffset at;
    bool is_removed = false;
    int32_t queue_count_ever = 0;                              // a topic may have shrunk: its old queues keep their offsets
    std::vector<std::pair<int32_t, QueueOffset>> next;         // of the last removal
  };
  struct OffsetEntry { QueueOffset offset; PhysicalOffset at; };
  struct FloorEntry { QueueOffset next; PhysicalOffset at; };
  struct GroupEntry {
    GroupConfig config;
    PhysicalOffset at;
    bool is_made = false;
    std::optional<PhysicalOffset> removed_at;                  // offsets from before are not taken when they come by again
  };
  using Offsets = std::vector<std::pair<OffsetKey, QueueOffset>>;
  Result<Appended> append_offsets(Ctx& ctx, const Offsets& offsets, size_t& done);
  bool apply_item(uint8_t kind, Bytes payload, PhysicalOffset at);
  bool take_topic(TopicConfig config, PhysicalOffset at);
  bool take_removal(std::string_view name, std::vector<std::pair<int32_t, QueueOffset>> next, PhysicalOffset at);
  bool take_offset(const OffsetKey& key, QueueOffset offset, PhysicalOffset at);
  bool take_floor(std::string_view topic, int32_t queue_id, QueueOffset next, PhysicalOffset at);
  template <class Entries, class Put> bool carry(Ctx& ctx, Entries& entries, typename Entries::key_type& from, size_t& budget, Put put);
  bool carry_some(Ctx& ctx, const std::vector<Floor>& floors, size_t& budget);
  bool carry_floors(Ctx& ctx, const std::vector<Floor>& floors, size_t& budget);
  bool apply_group_item(uint8_t kind, Reader& in, PhysicalOffset at);
  bool take_group(GroupConfig config, PhysicalOffset at);
  bool take_group_removal(std::string_view name, PhysicalOffset at);
  void unstamp(PhysicalOffset at);
  void stamp(PhysicalOffset& entry_at, bool is_new, PhysicalOffset at);
  MetaLog& log_;
  ConsumeQueues& queues_;
  std::map<std::string, TopicEntry, std::less<>> topics_;      // removed ones stay with their next offsets
  mutable const std::pair<const std::string, TopicEntry>* last_topic_ = nullptr;   // that was asked for
  size_t topic_count_ = 0;                                     // without the removed ones
  std::map<OffsetKey, OffsetEntry> offsets_;
  std::map<std::string, GroupEntry, std::less<>> groups_;      // made, or removed once
  std::map<PhysicalOffset, uint32_t> places_;                  // how many entries each record still stands for: claim()
  Offsets owed_;
  std::map<std::pair<std::string, int32_t>, FloorEntry> floors_;
  // How far carry_over() has come (meta_carry.cc).
  struct Carry {
    PhysicalOffset cut;
    int stage = 0;                                             // topics, offsets, groups, floors
    std::string topic, group;
    OffsetKey offset;
    size_t floor = 0;
  } carry_;
  uint64_t topics_version_ = 0, changes_ = 0;
  bool has_records_ = false;
};

}  // namespace fulmar
