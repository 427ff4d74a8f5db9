#pragma once
// Consume queues: one list of 20-byte entries per topic and queue (store.md 3.1: physicalOffset 8, size 4, tagsCode 8, big-endian),
// entry i at byte 20 i of the queue's line of files, `<directory>/<topic>/<queueId>/<20-digit byte offset>`.
//
// Dispatch adds entries in memory (`pending`), where readers find them at once. A round writes what is pending into the files and
// flushes it, queue by queue, at most kQueueFilesBusyMax at a time; a queue that is idle has no mapping and no open file. So dispatch
// never waits for a file, and a hundred thousand queues cost no page each per flush.
//
//   one queue's file work: Resting --round or cold read--> Mapping --> Preparing --> Writing --> Flushing --> Resting
//
// Recovery: files hold what was durable at `derived` and, behind that, anything at all. A queue ends behind its last entry whose record
// lies below `derived` and really stands in the log with this topic, queue and offset; the rest is fed again by dispatch.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/store/commit_log.h"
#include "core/store/derived.h"
#include "core/store/dispatch.h"
#include "core/store/queue_table.h"

namespace fulmar {

struct QueueEntry {
  PhysicalOffset at;
  uint32_t bytes = 0;
  int64_t tag_code = 0;
  friend bool operator==(const QueueEntry&, const QueueEntry&) = default;
};
inline constexpr uint64_t kQueueEntryBytes = 20;
inline constexpr uint32_t kPreBlankBytes = 0x7FFFFFFF;   // entries in front of a queue that begins late (store.md FG-5): skipped
void encode_queue_entry(MutableBytes into, const QueueEntry& entry);
QueueEntry decode_queue_entry(Bytes from);
// String.hashCode of TAGS, sign-extended; 0 without tags (store.md 3.1).
int64_t tag_code_of(const Message& message);

struct QueueRange { QueueOffset min, max; };   // dispatched: readers see [min, max)

class ConsumeQueues : public Derived {
 public:
  struct Options { std::string directory; uint64_t file_bytes = 6'000'000; };
  ConsumeQueues(Options options, CommitLog& log, Watermarks& watermarks);
  ~ConsumeQueues() override;

  // --- start ------------------------------------------------------------------------------------------------------------------------
  // A file found by listing `directory` (relative path "topic/queueId/00…"); others are ignored and noted.
  void adopt(Ctx& ctx, const FileEntry& entry);
  // One of the names above: of an empty one the start removes what a crash kept from being finished, before it adopts anything.
  static bool is_queue_file(std::string_view path);
  // Finds the end of every queue. Nothing below `derived` may be lost: when Σ (max - min) differs from `entries_expected`, files are
  // missing or foreign and needs_rebuild() turns true: all queues are then empty and dispatch must start at the log's beginning.
  // With a table: queues that it describes, and whose files stand there, are as it says, and dispatch must start at what it covers; what the
  // files hold of records up to `derived` is only counted then. Other queues are looked into. A file of the table that is missing makes
  // needs_rebuild() true.
  void begin_load(Ctx& ctx, PhysicalOffset derived, uint64_t entries_expected, bool is_expected_known,
                  const QueueTableState* table = nullptr);
  bool is_loaded() const;
  bool needs_rebuild() const;
  // Loaded with a table, and entries behind it, below `derived`, were not in the files: they are in memory only. Until a round has written
  // them no table may be believed, neither the one found nor a new one.
  bool misses_files() const;
  void round_is_done(PhysicalOffset covers);
  void begin_rebuild(Ctx& ctx);                     // loaded, but what was found turns out to be wrong: all queues are empty again

  // --- offsets ----------------------------------------------------------------------------------------------------------------------
  // The next offset of a queue for an append; queues appear when first named. assigned() is called once the append has succeeded.
  QueueOffset next_offset(std::string_view topic, QueueId queue);
  void assigned(std::string_view topic, QueueId queue, EntryCount count);
  // After catch-up: appends go on where dispatch ended.
  void begin_appending();
  QueueRange range(std::string_view topic, QueueId queue) const;   // {0, 0} when unknown
  // Makes all entries of the topic invisible and its files go away; offsets go on where they were. The files stay until the log is flushed
  // to `end`, the end of the record that says so: a crash that takes the record must find them.
  void retire_topic(Ctx& ctx, std::string_view topic, PhysicalOffset end);
  // From the fold of retired topics: nothing below `first` is seen, now or when dispatch brings it again; appends go on there.
  void begin_queue_at(std::string_view topic, QueueId queue, QueueOffset first);
  // From the fold of floors (meta.h): when nothing of the queue is left in the log, appends go on at `next`.
  void set_floor(std::string_view topic, QueueId queue, QueueOffset next);
  uint64_t entry_count() const;                     // Σ (max - min) over all queues
  // Every queue with entries, in order of topic and queue id: visit(topic, queue id, range).
  // Where all queues stood when the round that has just been done began; `covers` as that round's. Ask between two rounds.
  QueueTableState table(PhysicalOffset covers) const;
  // Files are removed only while this holds: no table on the disk names them.
  void allow_removals(bool is_allowed);
  bool wants_removals() const;
  // The records of all deletions end there: entries that nobody has written went with them, so nothing that covers them may count before
  // the log is flushed so far. A power cut would else bring the topic back without its entries.
  PhysicalOffset retired_to() const;
  void for_each(const std::function<void(std::string_view, QueueId, QueueRange)>& visit) const;

  // --- reading ----------------------------------------------------------------------------------------------------------------------
  // Appends up to `count` entries from `from` on to `out`. True: done (possibly fewer, at the end of the queue or of a file). False:
  // the file is cold; it is being fetched and take_ready() will name `token`.
  bool read(Ctx& ctx, std::string_view topic, QueueId queue, QueueOffset from, EntryCount count, uint64_t token, std::vector<QueueEntry>& out);
  // A reader found that the entry at `offset` cannot be right. Told once a queue; is_damaged_on_disk() from then on.
  void report_damage(Ctx& ctx, std::string_view topic, QueueId queue, QueueOffset offset);
  bool is_damaged_on_disk() const;                  // the next start must build the queues again
  std::vector<uint64_t> take_ready();
  std::vector<Arrival> take_arrivals();             // queues that grew since the last call, each once

  // --- retention (consume_queue_cut.cc) ---------------------------------------------------------------------------------------------
  // Finds, queue by queue, the first entry at or behind `cut`; nothing changes yet. One measuring at a time; a new one replaces it.
  void begin_cut(Ctx& ctx, PhysicalOffset cut);
  bool is_cut_measured() const;
  // Queues that ever held something, in order of topic and id: what they would begin with. new_min == max: nothing would be left; then
  // `is_at_rest` says that nothing is on its way to them either.
  struct Cut { std::string_view topic; QueueId queue; QueueOffset min, new_min, max; bool is_at_rest; };
  void for_each_cut(const std::function<void(const Cut&)>& visit) const;
  // Queues begin there from now on. Returns how many entries went. Their files go with remove_behind_cut(), when the caller has made
  // durable that the log begins at the cut.
  uint64_t apply_cut();
  void remove_behind_cut();

  // --- inputs and pump --------------------------------------------------------------------------------------------------------------
  void on_mapped(Ctx& ctx, const Mapped& mapped);
  void on_done(Ctx& ctx, const Done& done);
  void on_warmed(Ctx& ctx, const Warmed& warmed);   // WarmFor::Queues
  void pump(Ctx& ctx);
  bool is_idle() const;                             // no file work in flight
  const Error* blocked() const;                     // rounds cannot finish: DiskFull; tried again every second

  // The log is damaged: where a record's offset lies behind its queue's end, those between were lost, and become entries that lead nowhere.
  void expect_gaps();

  // --- Derived ----------------------------------------------------------------------------------------------------------------------
  bool apply(Ctx& ctx, const RecordView& record) override;
  void begin_round(Ctx& ctx) override;
  bool is_round_done() const override;
  bool wants_round() const override;
  PhysicalOffset claim() const override { return PhysicalOffset(UINT64_MAX); }
  uint64_t file_bytes() const;                      // of one queue file
  size_t dirty_count() const;                       // queues that a round which began now would write
  size_t unwritten_count() const;                   // and those that the one which runs has not written
  // The round that runs begins no further queue, and counts for none: table() tells of the one before it. Over when !is_writing().
  void abandon_round();
  bool is_writing() const;
  size_t pending_count() const;
  size_t queue_count() const;
  size_t broken_count() const;                      // queues that stand still behind a gap or lost entries to an unreadable page

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fulmar
