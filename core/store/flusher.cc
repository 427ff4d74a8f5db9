#include "core/store/flusher.h"

#include "core/base/marks.h"
#include "core/store/owners.h"

namespace fulmar {

uint8_t Flusher::owner_byte() { return owner::kFlusher; }

void Flusher::flush_all(Ctx& ctx) {
  if (static_cast<int>(batches_.size()) >= limits::kFlushesInFlightMax) return;
  const PhysicalOffset end = watermarks_.appended;
  if (requested_to_ >= end) return;
  Batch batch{next_sequence_++, requested_to_, end, 0};
  // One request for each file that holds a part of it. Files and their names were made durable when they were mapped.
  for (uint64_t at = requested_to_.value(); at < end.value();) {
    const size_t index = *log_.files().find(at);
    const FileSequence::File& file = log_.files().file(index);
    const uint64_t to = std::min(end.value(), file.end());
    ctx.out.flush(tickets_.issue(batch.sequence), file.id, {at - file.start, to - file.start});
    ++batch.files_out;
    at = to;
  }
  SOMETIMES("store: a flush spans two segments", batch.files_out > 1);
  SOMETIMES("store: two flushes are in flight", !batches_.empty());
  requested_to_ = end;
  batches_.push_back(batch);
}

void Flusher::on_done(Ctx& ctx, const Done& done) {
  const uint64_t sequence = tickets_.redeem(done.ticket);
  for (Batch& batch : batches_) {
    if (batch.sequence != sequence) continue;
    if (!done.outcome && !MUTANT(FlushErrorIgnored)) {
      const std::string why = done.outcome.error().text();
      ctx.trace.note(FlushFailedEvent{batch.begin.value(), batch.end.value(), watermarks_.flushed.value(), why});
      ctx.out.halt(Errc::FlushFailed, fmt::format("flush of log bytes [{}, {}) failed ({}); nothing behind {} may be believed; "
                                                  "restart to recover what is durable, after looking at the disk",
                                                  batch.begin, batch.end, why, watermarks_.flushed));
      return;
    }
    --batch.files_out;
    break;
  }
  const PhysicalOffset before = watermarks_.flushed;
  if (MUTANT(FlushedByLastBatch)) {
    // Whichever batch came home, earlier ones are taken as done.
    for (const Batch& batch : batches_) if (batch.files_out == 0) watermarks_.flushed = std::max(watermarks_.flushed, batch.end);
  }
  while (!batches_.empty() && batches_.front().files_out == 0) {
    watermarks_.flushed = std::max(watermarks_.flushed, batches_.front().end);
    batches_.pop_front();
  }
  SOMETIMES("store: a later flush comes home first", watermarks_.flushed == before);
  if (watermarks_.flushed != before) ctx.trace.note(FlushedEvent{watermarks_.flushed.value()});
}

}  // namespace fulmar
