#pragma once
// Where every consume queue stood when a round of writing them was done: one file, `<store>/queues.fulmar`, so that a start need not open
// each queue to find its ends. Derived, like the queues themselves: without it, or when it does not fit what stands in the directory, the
// start looks into every queue.
//
//   magic "FULMQTAB" 8 · version 4 · crc32 of all that follows 4 · covers 8 · log begin 8 · queue file bytes 8 · topics 4, then each:
//   name bytes 2 · name · queues 4, then each: queue id 4 · min 8 · max 8 · begin of its first file 8 · files 4          (big-endian)
//
// Entries of all records below `covers`, and of no others, stand durably in the files, those of each queue in [min, max). Files are never
// removed while a table that names them may be on the disk.

#include <optional>
#include <string>
#include <vector>

#include "core/io/node.h"
#include "core/io/tickets.h"
#include "core/model/ids.h"

namespace fulmar {

struct QueueTableState {
  struct Queue {
    int32_t id = 0;
    int64_t min = 0, max = 0;        // queue offsets
    uint64_t first_file = 0;         // byte on the queue's line at which its first file begins
    uint32_t files = 0;              // without a gap
    friend bool operator==(const Queue&, const Queue&) = default;
  };
  struct Topic {
    std::string name;
    std::vector<Queue> queues;       // ascending by id
    friend bool operator==(const Topic&, const Topic&) = default;
  };
  PhysicalOffset covers, log_begin;
  uint64_t file_bytes = 0;
  std::vector<Topic> topics;         // ascending by name
  friend bool operator==(const QueueTableState&, const QueueTableState&) = default;
};
std::vector<uint8_t> encode_queue_table(const QueueTableState& state);
// Nothing when it is not one, is damaged, or of another version.
std::optional<QueueTableState> parse_queue_table(Bytes file);

// The file. One request at a time.
class QueueTable {
 public:
  explicit QueueTable(std::string path);
  static constexpr std::string_view kName = "queues.fulmar";

  // --- start: it was listed, or not; then on_read until is_read() ---------------------------------------------------------------------------
  void read(Ctx& ctx, bool exists);
  bool is_read() const { return is_read_; }
  std::optional<QueueTableState> take_found() { return std::exchange(found_, std::nullopt); }

  // --- running ------------------------------------------------------------------------------------------------------------------------------
  bool can_ask(Monotonic now) const { return !is_busy_ && now >= retry_at_; }
  bool is_busy() const { return is_busy_; }
  // A table may stand on the disk: files that it names must stay.
  bool may_exist() const { return may_exist_; }
  void write(Ctx& ctx, const QueueTableState& state);   // when can_ask(); a failure leaves the old one
  void clear(Ctx& ctx);                                 // when can_ask(); durably gone when !may_exist()
  PhysicalOffset covers() const { return covers_; }     // of the newest that was asked for

  void on_read(Ctx& ctx, const Read& read);
  void on_done(Ctx& ctx, const Done& done);

 private:
  enum class What : uint8_t { Read, Write, Clear };
  std::string path_;
  TicketBook<What> tickets_;
  std::optional<QueueTableState> found_;
  PhysicalOffset covers_;
  Monotonic retry_at_;
  bool is_read_ = false, is_busy_ = false, may_exist_ = false;
};

}  // namespace fulmar
