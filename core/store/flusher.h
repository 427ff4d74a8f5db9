#pragma once
// Flushes in flight; the flushed offset is where the first gap begins; a failed flush is the end of this node (decision 11 of taste: a
// second one may lie).

#include <deque>

#include "core/store/commit_log.h"

namespace fulmar {

struct FlushFailedEvent {
  FULMAR_EVENT(FlushFailed, Error, "flush of log bytes [{}, {}) failed; nothing behind {} may be believed: {}");
  uint64_t begin, end, flushed;
  std::string_view why;
  auto values() const { return std::array{begin, end, flushed}; }
  std::string_view text() const { return why; }
};
struct FlushedEvent {
  FULMAR_EVENT(Flushed, Debug, "flushed to {}");
  uint64_t to;
  auto values() const { return std::array{to}; }
};

class Flusher {
 public:
  Flusher(CommitLog& log, Watermarks& watermarks) : log_(log), watermarks_(watermarks), tickets_(owner_byte()) {}
  // Starts a flush of all unflushed bytes when fewer than kFlushesInFlightMax are out. Sync mode calls it every step, async mode at its
  // interval and at stop.
  void flush_all(Ctx& ctx);
  // Moves the flushed watermark, or halts the node.
  void on_done(Ctx& ctx, const Done& done);
  // Recovery: what was found becomes what is flushed.
  void begin_at(PhysicalOffset flushed) { watermarks_.flushed = requested_to_ = flushed; }
  bool is_idle() const { return batches_.empty(); }
  uint64_t asked_count() const { return next_sequence_ - 1; }

 private:
  static uint8_t owner_byte();
  struct Batch { uint64_t sequence; PhysicalOffset begin, end; int files_out; };
  CommitLog& log_;
  Watermarks& watermarks_;
  TicketBook<uint64_t> tickets_;   // sequence of the batch
  std::deque<Batch> batches_;      // oldest first
  PhysicalOffset requested_to_;
  uint64_t next_sequence_ = 1;
};

}  // namespace fulmar
