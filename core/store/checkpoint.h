#pragma once
// The recovery stamp, 4096 bytes, mapped. The first 40 bytes are RocketMQ's (store.md 8): five big-endian longs. Ours are two slots,
// at byte 1024 and 2048, written in turn: the one with a good checksum and the higher sequence counts, so that a torn write leaves the
// older one.
//
//   slot: magic "FULMCKPT" 8 · version 4 · flags 4 (1: clean stop, 2: CRC property) · sequence 8 · flushed 8 · append limit 8 · derived 8 · queue entries 8 ·
//         index entries 8 · newest stamp 8 · log begin 8 · zeros 8 · crc32 of the bytes before 4
//
// The append limit promises that no byte of the log at or behind it was ever stored, so it is made durable before appends pass the old one.

#include <optional>

#include "core/io/node.h"
#include "core/io/tickets.h"
#include "core/model/ids.h"

namespace fulmar {

inline constexpr uint32_t kStoreVersion = 1;

struct CheckpointState {
  uint32_t version = kStoreVersion;
  bool is_clean = false;             // written by a stop in order: appended == flushed, and == derived when the abort marker is gone
  bool has_crc = false;              // every record that this life appends carries the CRC property
  uint64_t sequence = 0;
  PhysicalOffset flushed;            // durable log
  PhysicalOffset append_limit;
  PhysicalOffset derived;            // durable derived files
  uint64_t queue_entries = 0;        // over all queues, max - min as of `derived`: deleted files show
  uint64_t index_entries = 0;        // over all index files as of `derived`
  Wall newest_stamp;
  PhysicalOffset log_begin;
  // RocketMQ's own fields
  Wall physic_msg, logics_msg, index_msg;
};

class Checkpoint {
 public:
  static constexpr uint64_t kFileBytes = 4096;
  explicit Checkpoint(std::string path);

  // --- start: map (existing or new), then on_mapped/on_done until is_open() ------------------------------------------------------------
  void open(Ctx& ctx, bool exists);
  bool is_open() const { return state_ == State::Open; }
  const std::optional<Error>& error() const { return error_; }   // cannot be opened, or StoreVersion
  // What was found; nothing when there was no file, or no slot of ours with a good checksum.
  const std::optional<CheckpointState>& found() const { return found_; }

  // --- running: one write at a time -----------------------------------------------------------------------------------------------------
  bool is_writing() const { return is_writing_; }
  void write(Ctx& ctx, CheckpointState state);            // sequence is filled in here
  const CheckpointState& durable() const { return durable_; }   // the newest that is certainly on disk
  void on_mapped(Ctx& ctx, const Mapped& mapped);
  void on_done(Ctx& ctx, const Done& done);               // a failed flush halts

  // For offline tools and tests.
  static std::optional<CheckpointState> parse(Bytes page);
  static void encode_slot(MutableBytes slot, const CheckpointState& state);
  static constexpr uint64_t kSlotAt[2] = {1024, 2048};
  static constexpr uint64_t kSlotBytes = 96;

 private:
  enum class State : uint8_t { Closed, Mapping, Preparing, Warming, Open } state_ = State::Closed;
  std::string path_;
  TicketBook<int> tickets_;
  FileId file_;
  std::optional<Error> error_;
  std::optional<CheckpointState> found_;
  CheckpointState durable_, writing_;
  bool is_writing_ = false, is_new_ = false;
};

}  // namespace fulmar
