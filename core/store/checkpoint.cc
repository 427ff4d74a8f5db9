#include "core/store/checkpoint.h"

#include "core/base/crc32.h"
#include "core/base/marks.h"
#include "core/store/owners.h"

namespace fulmar {

namespace {

constexpr uint64_t kMagic = 0x46554C4D434B5054;  // "FULMCKPT"
constexpr uint64_t kCrcAt = 88;
static_assert(kCrcAt + 4 <= Checkpoint::kSlotBytes);

std::optional<CheckpointState> parse_slot(Bytes slot) {
  Reader r(slot);
  if (r.u64() != kMagic) return std::nullopt;
  CheckpointState s;
  s.version = r.u32();
  const uint32_t flags = r.u32();
  s.is_clean = (flags & 1) != 0;
  s.has_crc = (flags & 2) != 0;
  s.sequence = r.u64();
  s.flushed = PhysicalOffset(r.u64());
  s.append_limit = PhysicalOffset(r.u64());
  s.derived = PhysicalOffset(r.u64());
  s.queue_entries = r.u64();
  s.index_entries = r.u64();
  s.newest_stamp = Wall{r.i64()};
  s.log_begin = PhysicalOffset(r.u64());
  r.skip(kCrcAt - r.at());
  if (r.u32() != crc32(slot.first(kCrcAt))) return std::nullopt;
  return s;
}

}  // namespace

Checkpoint::Checkpoint(std::string path) : path_(std::move(path)), tickets_(owner::kCheckpoint) {}

std::optional<CheckpointState> Checkpoint::parse(Bytes page) {
  std::optional<CheckpointState> best;
  for (const uint64_t at : kSlotAt) {
    const std::optional<CheckpointState> slot = parse_slot(page.subspan(at, kSlotBytes));
    if (slot && (!best || slot->sequence > best->sequence)) best = slot;
  }
  if (best) {
    Reader r(page);
    best->physic_msg = Wall{r.i64()};
    best->logics_msg = Wall{r.i64()};
    best->index_msg = Wall{r.i64()};
  }
  return best;
}

void Checkpoint::encode_slot(MutableBytes slot, const CheckpointState& s) {
  Writer w(slot);
  w.u64(kMagic);
  w.u32(s.version);
  w.u32((s.is_clean ? 1u : 0u) | (s.has_crc ? 2u : 0u));
  w.u64(s.sequence);
  w.u64(s.flushed.value());
  w.u64(s.append_limit.value());
  w.u64(s.derived.value());
  w.u64(s.queue_entries);
  w.u64(s.index_entries);
  w.i64(s.newest_stamp.ms);
  w.u64(s.log_begin.value());
  w.fill(kCrcAt - w.at(), 0);
  w.u32(crc32(Bytes(slot).first(kCrcAt)));
  w.fill(w.remaining(), 0);
}

void Checkpoint::open(Ctx& ctx, bool exists) {
  is_new_ = !exists;
  state_ = State::Mapping;
  ctx.out.map(tickets_.issue(0), path_, kFileBytes, exists ? Open::Existing : Open::New);
}

void Checkpoint::on_mapped(Ctx& ctx, const Mapped& mapped) {
  (void)tickets_.redeem(mapped.ticket);
  if (!mapped.file) {
    error_ = mapped.file.error();
    return;
  }
  file_ = *mapped.file;
  if (is_new_) {
    state_ = State::Preparing;
    ctx.out.prepare(tickets_.issue(0), file_, {0, kFileBytes});
  } else {
    state_ = State::Warming;
    const FileSlice all{file_, {0, kFileBytes}};
    ctx.out.warm(tickets_.issue(0), std::span(&all, 1));
  }
}

void Checkpoint::on_done(Ctx& ctx, const Done& done) {
  (void)tickets_.redeem(done.ticket);
  switch (state_) {
    case State::Warming:
      if (done.outcome) {
        found_ = parse(ctx.files.at(file_).view({0, kFileBytes}));
        if (found_ && found_->version > kStoreVersion) {
          error_ = Error(Errc::StoreVersion, fmt::format("the store has version {}, this program knows versions up to {}", found_->version, kStoreVersion));
          return;
        }
        if (found_) {
          durable_ = *found_;
          state_ = State::Open;
          return;
        }
        // Made by a life that died before its blocks were prepared, or by RocketMQ: a store into it could meet a full disk.
        SOMETIMES("store: the checkpoint is there and says nothing", true);
      }
      // A checkpoint that cannot be read is as good as none: it is derived.
      SOMETIMES("store: the checkpoint cannot be read", !done.outcome);
      state_ = State::Preparing;
      ctx.out.prepare(tickets_.issue(0), file_, {0, kFileBytes});
      return;
    case State::Preparing:
      if (done.outcome) state_ = State::Open;
      else error_ = done.outcome.error();
      return;
    case State::Open:
      is_writing_ = false;
      if (!done.outcome) {
        ctx.out.halt(Errc::FlushFailed, fmt::format("flush of the checkpoint failed ({}): the disk cannot be trusted", done.outcome.error().text()));
        return;
      }
      durable_ = writing_;
      return;
    case State::Closed:
    case State::Mapping: break;
  }
  CHECK(false, "checkpoint state {}", static_cast<int>(state_));
}

void Checkpoint::write(Ctx& ctx, CheckpointState state) {
  CHECK(state_ == State::Open && !is_writing_);
  state.sequence = durable_.sequence + 1;
  writing_ = state;
  is_writing_ = true;
  MappedFile& file = ctx.files.at(file_);
  {
    Writer w(file.writable({0, 40}));
    w.i64(state.physic_msg.ms);
    w.i64(state.logics_msg.ms);
    w.i64(state.index_msg.ms);
    w.u64(state.flushed.value());
    w.u64(state.flushed.value());
  }
  // In turn, so that the slot of the last durable state is never touched by the write that follows it.
  const uint64_t at = kSlotAt[MUTANT(CheckpointOneSlot) ? 0 : state.sequence % 2];
  encode_slot(file.writable({at, at + kSlotBytes}), state);
  ctx.out.flush(tickets_.issue(0), file_, {0, kFileBytes});
}

}  // namespace fulmar
