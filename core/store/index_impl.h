#pragma once
// Private to index*.cc: keys in memory, index files, the writer's stages, queries under way, and the look at files at start.

#include <algorithm>
#include <deque>
#include <map>
#include <optional>

#include "core/base/marks.h"
#include "core/io/tickets.h"
#include "core/store/index_file.h"
#include "core/store/owners.h"
#include "core/store/warm_ranges.h"

namespace fulmar {

struct Index::Impl {
  enum class What : uint8_t { MapWrite, MapRead, Prepare, WarmWrite, WarmRead, Flush, Remove };
  struct InFlight { What what = What::MapWrite; uint64_t name = 0; Range range; uint64_t token = 0; };
  struct File {
    uint64_t name = 0;               // 17 digits
    IndexHeader header;              // as queries see it
    uint32_t durable_count = 1;      // as it stands in the file's header
    FileId id;
    bool is_made = false;            // exists on disk
    bool is_mapped = false, is_mapping = false;
    bool are_slots_prepared = false;
    bool is_forgotten = false;       // retention: behind the log's begin
    bool is_settled = true;          // what this life found in it is durable and counted
    uint64_t prepared_to = 0;        // byte; by this life
    int busy = 0;                    // tickets out
    Monotonic last_used;
    WarmRanges residence;
    std::vector<uint64_t> waiting;   // queries that wait for the mapping
  };
  // One key in memory, linked by hash as the file's entries are: newest first.
  struct PendingKey { uint32_t hash; PhysicalOffset at; Wall stored; uint64_t previous; };
  struct SlotWrite { uint32_t slot, number; };
  enum class Stage : uint8_t { Gathering, FlushingEntries, FlushingSlots, FlushingHeader };
  struct Walk {                      // a query between two calls
    uint32_t hash = 0;
    uint64_t name = UINT64_MAX;      // the file it is in; all newer ones are done
    uint32_t number = 0;             // next entry of the chain, when is_in_chain
    uint32_t steps = 0;
    uint64_t moves = 0;              // slots, entries and files passed
    bool is_in_chain = false;
    Monotonic last_used;
    std::vector<KeyHit> hits;
    void leave(uint64_t file) { name = file - 1; is_in_chain = false; ++moves; }
  };
  enum class LoadPhase : uint8_t { Header, Scan };

  explicit Impl(Index::Options o) : options(std::move(o)) {}

  // --- layout -------------------------------------------------------------------------------------------------------------------------------
  uint64_t slot_at(uint64_t slot) const { return kIndexHeaderBytes + slot * kIndexSlotBytes; }
  uint64_t entry_at(uint64_t number) const { return slot_at(options.slot_count) + number * kIndexEntryBytes; }
  uint64_t file_bytes() const { return entry_at(options.entry_count); }
  std::string path(uint64_t name) const { return fmt::format("{}/{:017}", options.directory, name); }
  bool is_full(const File& file) const { return file.header.count >= options.entry_count; }
  // Slots may name numbers below this: those of a batch before its header counts them.
  uint64_t number_end(const File& file) const {
    const bool is_ahead = &file == files.back().get() && stage == Stage::FlushingSlots;
    return file.header.count + (is_ahead ? batch : 0);
  }
  File* find(uint64_t name);

  // --- keys and queries (index_file.cc) --------------------------------------------------------------------------------------------------------
  void add(uint32_t hash, const RecordView& record);
  void pop(size_t count);
  void walk_pending(Walk& walk, Wall begin, Wall end, uint32_t count_max) const;
  bool walk_file(Ctx& ctx, Walk& walk, File& file, Wall begin, Wall end, uint32_t count_max, uint64_t token);   // false: cold
  bool is_here(Ctx& ctx, File& file, Range range, uint64_t token);                                              // else it is fetched

  // --- writing (index_write.cc) ------------------------------------------------------------------------------------------------------------------
  void drive(Ctx& ctx);
  bool gather(Ctx& ctx);             // true: a batch may be written now
  File& writing_file(Ctx& ctx);
  void map(Ctx& ctx, File& file, What what);
  void prepare(Ctx& ctx, File& file, Range range);
  File* unsettled();                 // the oldest, if any
  void settle(Ctx& ctx, File& file);
  void plan_slots(const File& file);
  void write_entries(Ctx& ctx, File& file);
  void write_slots(Ctx& ctx, File& file);
  void write_header(Ctx& ctx, File& file);
  void warm_to_write(Ctx& ctx, File& file, std::vector<Range> pages);
  void flush(Ctx& ctx, File& file, Range range);
  void stall(Ctx& ctx, Error error);
  void flushed(Ctx& ctx, File& file, Range range);
  void pump_removals(Ctx& ctx);
  void pump_forgotten(Ctx& ctx);
  void pump_sweep(Ctx& ctx);
  void cool_cold(Ctx& ctx, File& file);
  void unmap(Ctx& ctx, File& file);
  void on_mapped(Ctx& ctx, const Mapped& mapped);
  void on_done(Ctx& ctx, const Done& done);

  // --- start (index_load.cc) -----------------------------------------------------------------------------------------------------------------------
  void adopt(Ctx& ctx, const FileEntry& entry);
  void begin_load(Ctx& ctx);
  void advance_load(Ctx& ctx);
  bool load_header(Ctx& ctx, File& file);
  bool scan(Ctx& ctx, File& file);
  bool is_load_here(Ctx& ctx, File& file, Range range);
  void end_load(Ctx& ctx);

  Options options;
  TicketBook<InFlight> tickets{owner::kIndex};
  std::vector<std::unique_ptr<File>> files;       // ascending by name
  std::deque<uint64_t> removals;
  size_t removals_out = 0;
  std::vector<uint64_t> ready;
  std::map<uint64_t, Walk> walks;

  std::vector<PendingKey> pending;
  std::vector<uint64_t> heads;                    // by hash: newest key's sequence + 1
  uint64_t pending_base = 0;                      // sequence of pending.front()
  uint64_t round_end = 0;                         // keys below it shall become durable
  std::optional<PhysicalOffset> applied;          // newest record of this life
  std::string scratch;

  Stage stage = Stage::Gathering;
  bool is_asked = false;                          // the writer's (or the load's) one ticket is out
  size_t batch = 0;                               // keys between gathering and header
  uint32_t slots_taken = 0;                       // by this batch, formerly empty
  std::vector<SlotWrite> slots;
  std::vector<uint32_t> previous;
  std::vector<Range> warming;                     // by the writer's ticket
  std::optional<Error> blocked;
  Monotonic retry_at = Monotonic::never(), sweep_at = Monotonic::never();

  size_t load_index = 0;
  LoadPhase load_phase = LoadPhase::Header;
  uint64_t scan_number = 0;
  uint64_t entries_expected = 0;
  PhysicalOffset log_begin;
  bool may_remove_forgotten = false;
  bool is_expected_known = false, is_loading = false, is_loaded = false, must_rebuild = false;
};

struct IndexFileIgnored {
  FULMAR_EVENT(IndexFileIgnored, Warning, "index file of {} bytes is not one of ours: {}");
  uint64_t bytes;
  std::string_view path;
  auto values() const { return std::array{bytes}; }
  std::string_view text() const { return path; }
};
struct IndexUnreadable {
  FULMAR_EVENT(IndexUnreadable, Error, "index file {} cannot be read at [{}, {})");
  uint64_t name, begin, end;
  auto values() const { return std::array{name, begin, end}; }
};
struct IndexRebuilt {
  FULMAR_EVENT(IndexRebuilt, Warning, "the index holds {} entries, {} are expected: it is built again from the log");
  uint64_t found, expected;
  auto values() const { return std::array{found, expected}; }
};

}  // namespace fulmar
