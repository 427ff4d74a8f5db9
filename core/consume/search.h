#pragma once
// Offsets by time: the first message of a queue that was stored at a stamp or later. Stamps never fall along a queue, so a walk by halves
// finds it; a record that cannot be read (its file is gone, or it is damaged) counts as one with the next that can.
//
//   run --answered--> done      --a queue file or log range is cold--> waiting --fetched--> run again, from where it was

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/consume/asker.h"
#include "core/consume/limits.h"
#include "core/model/command.h"
#include "core/store/commit_log.h"
#include "core/store/consume_queue.h"

namespace fulmar {

struct OffsetSearch {
  std::string topic;
  std::vector<int32_t> queues;
  Wall stamp;
  Asker asker;
  // What is to become of the offsets: an answer, or the new place of a group.
  std::string group;                   // empty: an answer
  bool is_dry_run = false;

  // how far it came
  std::vector<QueueOffset> found;      // of the first queues
  bool has_range = false;
  QueueOffset low, high;               // of the queue at hand: below `low` everything is older, at `high` and above nothing is
};

class Searches {
 public:
  struct Retry { OffsetSearch search; Result<void> outcome; };
  Searches(ConsumeQueues& queues, CommitLog& log, const Watermarks& watermarks)
      : queues_(queues), log_(log), watermarks_(watermarks), waiting_(limits::kSearchesMax) {}

  // True: all are found. False: it waits for what it needs (take_ready() has it then). Full: too many wait already.
  Result<bool> run(Ctx& ctx, OffsetSearch& search, std::span<const Range> holes);
  // Tokens of fetches are shared with pulls: this bit tells them apart.
  static bool is_mine(uint64_t token) { return (token & kMine) != 0; }
  void on_fetched(uint64_t token, const Result<void>& outcome);
  std::vector<Retry> take_ready() { return std::exchange(ready_, {}); }
  std::vector<Asker> take_askers();    // the node stops: everybody who waits; nobody comes home any more
  void drop(ConnId conn);
  size_t waiting_count() const { return waiting_.size(); }

 private:
  static constexpr uint64_t kMine = uint64_t{1} << 63;
  enum class Probe : uint8_t { Older, NotOlder, Cold };
  Probe probe(Ctx& ctx, OffsetSearch& search, QueueOffset at, uint64_t token, std::span<const Range> holes);
  ConsumeQueues& queues_;
  CommitLog& log_;
  const Watermarks& watermarks_;
  SlotBook<OffsetSearch> waiting_;
  std::vector<Retry> ready_;
  std::vector<QueueEntry> entries_;    // scratch
};

}  // namespace fulmar
