#pragma once
// RocketMQ's JSON state files (store.md 9) as exports of the meta fold: config/topics.json, config/subscriptionGroup.json,
// config/consumerOffset.json. Written by `replace` (temp, flush, rename) at most every five seconds after a change, and at stop; read at
// start only when the log holds no meta record (an imported store).

#include <string>
#include <vector>

#include "core/store/meta.h"

namespace fulmar {

class Exports {
 public:
  Exports(std::string directory, const Meta& meta);
  // --- import -------------------------------------------------------------------------------------------------------------------------
  void begin_import(Ctx& ctx);                       // reads both files; then import_done()
  bool is_import_done() const { return is_import_done_; }
  // What the files said; StoreDamaged when a file is there and does not parse (the node must not start with empty tables).
  const Result<void>& import_outcome() const { return import_outcome_; }
  const std::vector<TopicConfig>& imported_topics() const { return imported_topics_; }
  const std::vector<std::pair<OffsetKey, QueueOffset>>& imported_offsets() const { return imported_offsets_; }
  // --- export -------------------------------------------------------------------------------------------------------------------------
  void pump(Ctx& ctx);                               // writes when something changed and five seconds have passed
  void write_now(Ctx& ctx);                          // at stop
  bool is_idle() const { return tickets_.out_count() == 0 && !is_wanted_; }
  void on_read(Ctx& ctx, const Read& read);
  void on_done(Ctx& ctx, const Done& done);

 private:
  enum File : int { Topics, TopicsBackup, Offsets, OffsetsBackup, TopicsOut, OffsetsOut, GroupsOut };
  void read_next(Ctx& ctx, File file);
  bool take(File file, std::string_view text);       // false: does not parse
  void fail_import(File file, std::string_view why);
  void write(Ctx& ctx);
  std::string topics_text(Ctx& ctx) const;
  std::string offsets_text(Ctx& ctx) const;
  std::string groups_text(Ctx& ctx) const;
  std::string directory_;
  const Meta& meta_;
  TicketBook<int> tickets_;
  std::vector<TopicConfig> imported_topics_;
  std::vector<std::pair<OffsetKey, QueueOffset>> imported_offsets_;
  Result<void> import_outcome_;
  bool is_import_done_ = false, is_wanted_ = false, is_last_ = false;
  uint64_t exported_changes_ = 0;
  Monotonic last_write_;
};

}  // namespace fulmar
