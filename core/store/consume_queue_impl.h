#pragma once
// Private to consume_queue*.cc: queues in memory, their open files, the work of a round, and the search for their ends at start.

#include <algorithm>
#include <deque>
#include <map>
#include <optional>

#include "core/base/marks.h"
#include "core/io/tickets.h"
#include "core/store/consume_queue.h"
#include "core/store/owners.h"
#include "core/store/warm_ranges.h"

namespace fulmar {

// One queue. Entry indexes are queue offsets. Files hold what is below `cursor`; what is below `stored` is durable there; `pending`
// is [stored, max). A cursor below stored: the file is filled up with pre-blank entries first (a queue that begins late).
struct QueueState {
  const std::string* topic = nullptr;
  int32_t id = 0;
  uint32_t index = 0;               // in Impl::queues
  int64_t min = 0, max = 0, next = 0;
  int64_t stored = 0, cursor = 0;
  int64_t floor = 0;                // set_floor()
  int64_t first_at_index = -1;      // retention: `first_at` is where the record of this entry stands
  PhysicalOffset first_at;
  int64_t cut_min = 0;              // retention: what was measured last
  int64_t flush_from = 0;           // first index written since the last flush
  int64_t round_end = 0;            // the round that is running wants this much stored; between rounds: what the last one covers
  uint64_t prepared_to = 0;         // byte on the queue's line up to which this life has prepared; 0: nothing yet
  std::vector<QueueEntry> pending;
  std::vector<uint64_t> files;      // starts, ascending, without a gap
  Monotonic lost_until;             // a file could not be mapped for readers: not tried again before
  uint32_t life = 0;                // counts up when its files are thrown away: answers from before mean nothing
  uint32_t removing = 0;            // files on their way out: nothing is opened before they are gone
  PhysicalOffset removable_at;      // they go once the log is flushed so far
  bool is_dirty = false;            // in Impl::dirty
  bool is_working = false;          // in a round
  bool is_asked = false;            // the writer's (or the load's) one ticket is out
  bool is_loading = false;
  bool is_known = false;            // the table of queues describes it
  bool is_fed_anew = false;         // of entries that should stand in its files some did not: files may be of this life
  bool has_arrival = false;
  bool is_broken = false;           // stands still behind a gap
  bool is_damaged = false;          // entries lost to an unreadable page
};

struct ConsumeQueues::Impl {
  enum class What : uint8_t { MapWrite, MapRead, Prepare, WarmWrite, WarmRead, Flush, Remove, RemoveOld };
  struct InFlight { What what = What::MapWrite; uint32_t queue = 0; uint64_t start = 0; uint32_t life = 0; Range range; };
  struct FileKey { uint32_t queue; uint64_t start; friend auto operator<=>(const FileKey&, const FileKey&) = default; };
  struct Wait { uint64_t token; Range window; bool is_asked; };
  struct OpenFile {
    FileId id;
    bool is_mapped = false, is_new = false;
    int busy = 0;                   // tickets out
    Monotonic last_used;
    WarmRanges residence;
    std::vector<Wait> waiting;      // readers
    bool is_suspect = false;        // something in it cannot be read: it is read page by page
    std::vector<Range> unreadable;  // pages
    bool is_lost(Range range) const {
      return std::any_of(unreadable.begin(), unreadable.end(), [&](Range r) { return r.begin < range.end && range.begin < r.end; });
    }
  };
  struct TopicQueues { std::vector<std::pair<int32_t, uint32_t>> queues; };   // id -> index, ascending by id
  struct LoadJob {
    enum class Phase : uint8_t { FindEnd, Verify, FindEndStrictly, FindMin, ClearBehind } phase = Phase::FindEnd;
    int64_t first = 0, low = 0, high = 0, end = 0, min = 0;
    uint64_t clear_at = 0;          // byte on the queue's line
    bool is_waiting_for_log = false, is_record_unreadable = false;
  };
  struct CutJob { int64_t low = 0, high = 0; bool is_waiting = false; };
  enum class Probe : uint8_t { Ready, Waiting, Lost };

  Impl(ConsumeQueues::Options o, CommitLog& l, Watermarks& w);

  // --- queues (consume_queue.cc) ----------------------------------------------------------------------------------------------------------
  QueueState* find(std::string_view topic, int32_t id);
  QueueState* find_or_make(std::string_view topic, int32_t id);
  uint64_t file_start(int64_t index) const { return static_cast<uint64_t>(index) * kQueueEntryBytes / options.file_bytes * options.file_bytes; }
  int64_t first_index(uint64_t start) const { return static_cast<int64_t>(start / kQueueEntryBytes); }
  std::string path(const QueueState& q, uint64_t start) const;
  void begin_at(QueueState& q, int64_t first);   // an empty queue goes on at `first`
  void append(QueueState& q, const QueueEntry& entry);
  void advance(QueueState& q);
  void retire(QueueState& q);                    // nothing of it is seen any more; offsets go on where they were

  // --- files and rounds (consume_queue_files.cc) --------------------------------------------------------------------------------------------
  OpenFile* find_open(const QueueState& q, uint64_t start);
  void open(Ctx& ctx, QueueState& q, uint64_t start, What what);
  void make_room_for_open(Ctx& ctx);
  void close(Ctx& ctx, std::map<FileKey, OpenFile>::iterator it);
  void warm(Ctx& ctx, QueueState& q, uint64_t start, OpenFile& file, Range range, What what);
  void wait_for_read(Ctx& ctx, QueueState& q, uint64_t start, Range range, uint64_t token);
  void ask_for_waiting(Ctx& ctx, QueueState& q, uint64_t start, OpenFile& file);
  void answer_waiting(OpenFile& file);
  void cool_cold(Ctx& ctx, OpenFile& file);
  void discard_files(QueueState& q);             // all of them, asynchronously
  void drive(Ctx& ctx, QueueState& q);
  void prepare_next(Ctx& ctx, QueueState& q, uint64_t start, OpenFile& file);
  void prepare_from(Ctx& ctx, QueueState& q, uint64_t start, OpenFile& file, uint64_t from);   // one step, zeroed
  void write_run(Ctx& ctx, QueueState& q, uint64_t start, OpenFile& file);
  void flush_written(Ctx& ctx, QueueState& q, uint64_t start, OpenFile& file);
  void stored_to(Ctx& ctx, QueueState& q, uint64_t start, OpenFile& file, Range flushed);
  void finish(QueueState& q);
  void stall(Ctx& ctx, QueueState& q, Error error);
  void go_on(Ctx& ctx, QueueState& q);           // its answer is here: load or drive
  void pump_rounds(Ctx& ctx);
  void pump_removals(Ctx& ctx);
  void pump_sweep(Ctx& ctx);
  void on_mapped(Ctx& ctx, const Mapped& mapped);
  void on_done(Ctx& ctx, const Done& done);
  void retry_later(Ctx& ctx, Error error);
  void mark_damaged(Ctx& ctx, QueueState& q, uint64_t line_at);
  void on_warm_read(Ctx& ctx, QueueState& q, const InFlight& flight, OpenFile& file, const Result<void>& outcome);
  void on_removed(Ctx& ctx, const InFlight& flight, const Result<void>& outcome);

  // --- start (consume_queue_load.cc) ---------------------------------------------------------------------------------------------------------
  void adopt(Ctx& ctx, const FileEntry& entry);
  static bool is_queue_file(std::string_view path);
  void begin_load(Ctx& ctx);
  void take_table(const QueueTableState& table);
  void pump_load(Ctx& ctx);
  void advance_load(Ctx& ctx, QueueState& q);
  bool step_load(Ctx& ctx, QueueState& q, LoadJob& job);   // false: waits, or done
  bool judge_head(Ctx& ctx, QueueState& q, LoadJob& job);
  bool clear_behind(LoadJob& job, int64_t min, int64_t end);
  bool step_clear(Ctx& ctx, QueueState& q, LoadJob& job);  // the same
  void lose_load(Ctx& ctx, QueueState& q, uint64_t start);
  void finish_load(Ctx& ctx, QueueState& q, int64_t min, int64_t max);
  void end_load(Ctx& ctx);
  void on_warmed(Ctx& ctx, const Warmed& warmed);
  Probe probe(Ctx& ctx, QueueState& q, int64_t index, QueueEntry& out);
  Probe stands_in_log(Ctx& ctx, QueueState& q, LoadJob& job, int64_t index, const QueueEntry& entry, bool& stands);
  bool is_plausible(const QueueEntry& entry) const;
  bool is_dead(const QueueEntry& entry) const;

  // --- retention (consume_queue_cut.cc) --------------------------------------------------------------------------------------------------------
  void pump_cut(Ctx& ctx, ConsumeQueues& self);
  bool step_cut(Ctx& ctx, ConsumeQueues& self, QueueState& q, CutJob& job);   // true: measured
  void take_cut_tokens();
  void pump_old_files(Ctx& ctx);

  Options options;
  CommitLog& log;
  Watermarks& watermarks;
  TicketBook<InFlight> tickets{owner::kQueues};
  std::map<std::string, TopicQueues, std::less<>> topics;   // none ever leaves
  std::pair<const std::string, TopicQueues>* last_topic = nullptr;   // that was asked for: three times for each message
  std::vector<std::unique_ptr<QueueState>> queues;
  std::map<FileKey, OpenFile> open_files;
  std::vector<uint32_t> dirty, arrivals, stalled;
  std::deque<uint32_t> round_todo;
  struct InRound { uint32_t queue, life; int64_t end_before; };
  std::vector<InRound> in_round;                 // what the last round took up, and where the one before it ended
  std::deque<FileKey> removals;                  // not asked yet
  std::vector<FileKey> removals_stalled;         // failed: asked again with the next retry
  size_t removals_out = 0, working = 0, waiting_reads = 0, pending_count = 0, broken = 0;
  bool expects_gaps = false;              // the log is damaged
  bool is_damaged_on_disk = false;        // an entry that cannot be right was met
  uint64_t entries = 0;                          // Σ (max - min)
  std::vector<uint64_t> ready;
  PhysicalOffset cut;
  bool is_cutting = false;
  std::map<uint32_t, CutJob> cut_jobs;
  uint32_t cut_next = 0;                         // queues below it are measured, or in cut_jobs
  std::vector<QueueEntry> cut_entries;           // scratch
  std::deque<FileKey> old_files;                 // behind the log's begin: nobody looks for anything there
  size_t old_files_out = 0;
  std::optional<Error> blocked;
  Monotonic retry_at = Monotonic::never(), sweep_at = Monotonic::never();

  std::map<uint32_t, LoadJob> jobs;
  std::deque<uint32_t> load_todo;
  PhysicalOffset derived, known_below;   // known_below: with a table, what of the records that are fed again the files hold
  bool misses_files = false;                     // entries below known_below were not in the files
  uint64_t entries_expected = 0;
  bool is_sum_expected = false, is_loading = false, is_loaded = false, must_rebuild = false;
  bool may_remove = true;
  PhysicalOffset retired_to;                     // the last deletion of a topic ends there
};

// --- what queues say about themselves -----------------------------------------------------------------------------------------------------

struct QueueFileIgnored {
  FULMAR_EVENT(QueueFileIgnored, Warning, "consume queue file of {} bytes is not one of ours: {}");
  uint64_t bytes;
  std::string_view path;
  auto values() const { return std::array{bytes}; }
  std::string_view text() const { return path; }
};
struct QueueGap {
  FULMAR_EVENT(QueueGap, Error, "queue {} expects offset {}, the record at {} has {}; no entry is taken until it is rebuilt: {}");
  int32_t queue;
  int64_t expected;
  uint64_t at;
  int64_t found;
  std::string_view topic;
  auto values() const { return std::array{static_cast<uint64_t>(queue), static_cast<uint64_t>(expected), at, static_cast<uint64_t>(found)}; }
  std::string_view text() const { return topic; }
};
struct QueueUnreadable {
  FULMAR_EVENT(QueueUnreadable, Error, "queue {} has lost entries from {} on: its file cannot be read: {}");
  int32_t queue;
  int64_t from;
  std::string_view topic;
  auto values() const { return std::array{static_cast<uint64_t>(queue), static_cast<uint64_t>(from)}; }
  std::string_view text() const { return topic; }
};
struct QueueEntryDamaged {
  FULMAR_EVENT(QueueEntryDamaged, Error, "queue {} is damaged at offset {} and gives nothing from there on; the next start builds the queues again: {}");
  int32_t queue;
  int64_t offset;
  std::string_view topic;
  auto values() const { return std::array{static_cast<uint64_t>(queue), static_cast<uint64_t>(offset)}; }
  std::string_view text() const { return topic; }
};
struct QueuesRebuilt {
  FULMAR_EVENT(QueuesRebuilt, Warning, "consume queues hold {} entries, {} are expected: they are built again from the log");
  uint64_t found, expected;
  auto values() const { return std::array{found, expected}; }
};

}  // namespace fulmar
