#pragma once
// What is valid after a crash: scan, judge, truncate, store again and flush what was found, load what is derived, catch up.
//
//   Listing -> Opening -> Scanning --first bad place b--> Searching --later records?--> Marking -> Cutting -> Zeroing -> StoringAgain
//           -> Flushing -> Stamping -> Loading -> Folding -> CatchingUp -> Importing -> Done
//
// The scan starts at the checkpoint's flushed offset F: everything below is durable. b is the first place that holds no good record; the
// search looks for good records behind b, up to the append limit (nothing was ever stored beyond it).
//
//   torn tail: the log is cut at b; what was found behind b was never known to be flushed. It is zeroed, or a later life's records could
//              meet the old ones (store.md FG-26); [b, v) is reported.
//   rot:       b < F, or the last good record lies more than U behind b (decision 4): the hole is passed over, the rest stays readable,
//              nothing is written.
//
// What was found from F on is stored again, byte for byte, before it is flushed: after a failed flush the pages are clean although the
// medium lacks them, and a flush of clean pages does nothing (decision 5; no marker needs to survive).

#include <string>
#include <vector>

#include "core/store/store.h"

namespace fulmar {

class Recovery {
 public:
  explicit Recovery(Store& store);
  void start(Ctx& ctx);
  void pump(Ctx& ctx);
  bool is_done() const { return stage_ == Stage::Done; }
  bool is_damaged() const { return is_damaged_; }
  // Dispatch and rounds may work: what is derived has been loaded.
  bool is_feeding() const { return stage_ == Stage::CatchingUp || stage_ == Stage::Importing; }
  bool is_feeding_or_done() const { return is_feeding() || is_done(); }
  bool is_fed() const;                     // CatchingUp may end: dispatch has come to the log's end, or stands before damage
  // Where it stands: "scanning 1048576 of 4194304 bytes".
  std::string progress() const;

  void on_listed(Ctx& ctx, const Listed& listed);
  void on_done(Ctx& ctx, const Done& done);
  void on_warmed(Ctx& ctx, const Warmed& warmed);
  void on_timer(Ctx& ctx);
  void on_damage(Ctx& ctx, Range hole, std::string_view why);   // Dispatch::take_damage(), while it is fed by us
  void on_queues_ready(Ctx& ctx);          // ConsumeQueues::take_ready() named kFoldToken
  static constexpr uint64_t kFoldToken = UINT64_MAX;

 private:
  enum class Stage : uint8_t {
    Listing, Opening, Scanning, Searching, Marking, Cutting, Zeroing, StoringAgain, Flushing, Stamping, Loading, Folding, CatchingUp, Importing, Done
  };
  void enter(Ctx& ctx, Stage stage);
  void adopt_log(Ctx& ctx, std::vector<FileEntry> files);
  void refuse(Ctx& ctx, Errc code, std::string sentence);
  void report_rot(Ctx& ctx, Range hole, std::string_view why);
  // A window of the log is Ready at `at`: its bytes. Empty: it is being fetched (or unreadable: is_unreadable_).
  Bytes window(Ctx& ctx, uint64_t at, uint64_t bytes_wanted);
  // --- the end of the log (recovery.cc) ------------------------------------------------------------------------------------------------
  void open(Ctx& ctx);
  void begin_scan(Ctx& ctx);
  void mark(Ctx& ctx);
  void scan(Ctx& ctx);
  void end_scan(Ctx& ctx, const char* why);
  bool lacks_crc(const ParsedRecord& parsed) const;
  void search(Ctx& ctx);
  void judge(Ctx& ctx);
  void cut(Ctx& ctx);
  void zero(Ctx& ctx);
  void store_again(Ctx& ctx);
  void flush_found(Ctx& ctx);
  void stamp(Ctx& ctx);
  // --- what is derived from it (recovery_load.cc) ---------------------------------------------------------------------------------------
  void load(Ctx& ctx);
  std::optional<QueueTableState> usable_table(PhysicalOffset derived, bool is_known);
  void fold(Ctx& ctx);
  void rebuild(Ctx& ctx);
  void catch_up(Ctx& ctx);
  void import(Ctx& ctx);
  void finish(Ctx& ctx);

  Store& store_;
  Stage stage_ = Stage::Listing;
  TicketBook<int> tickets_;
  std::string root_;
  std::vector<FileEntry> queue_files_, index_files_;
  std::vector<std::string> to_remove_;     // segments behind the cut, newest first
  bool has_checkpoint_file_ = false, has_abort_ = false, has_table_file_ = false;
  bool is_clean_ = false, is_damaged_ = false, is_marked_ = false, needs_crc_ = false;

  uint64_t from_ = 0;            // F: the scan began here
  uint64_t at_ = 0;              // scan, search, storing again, zeroing: the place
  uint64_t end_ = 0;             // b: the log ends here
  uint64_t zeroed_to_ = 0;       // what is behind it is being zeroed
  uint64_t search_end_ = 0;      // nothing was stored at or behind this
  uint64_t last_good_end_ = 0;   // end of the last good record behind b; 0: none
  uint64_t first_good_ = 0;      // begin of the first
  const char* why_ = "";         // why the record at b is not good
  uint64_t window_begin_ = 0, window_end_ = 0;
  bool is_waiting_ = false, is_unreadable_ = false;
  int out_ = 0;                  // tickets of the present stage

  PhysicalOffset feed_from_;
  QueueOffset fold_at_;
  std::vector<QueueEntry> fold_entries_;
  size_t fold_index_ = 0;
  bool is_fold_waiting_ = false;
  size_t imported_topics_ = 0, imported_offsets_ = 0;
};

}  // namespace fulmar
