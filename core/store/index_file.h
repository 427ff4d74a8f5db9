#pragma once
// Hash index by message key (store.md 7, RocketMQ's bytes): header 40, slots x 4, entries x 20; file names are local creation times
// yyyyMMddHHmmssSSS, made unique by counting up.
//
// Keys of dispatched records collect in memory, where queries find them. A round writes entries first, flushes, then slots, flushes, then
// the header: a slot on disk never points at an entry that is not, so chains survive any crash. What an interrupted round left
// behind is never linked (an unlinked entry) or linked and true; numbering goes on behind it. A query checks the key in the record, so
// entries of records that a crash took away are harmless.

#include <memory>
#include <string>
#include <vector>

#include "core/store/derived.h"
#include "core/store/watermarks.h"

namespace fulmar {

struct KeyHit { PhysicalOffset at; friend auto operator<=>(const KeyHit&, const KeyHit&) = default; };

// |Java hashCode of "topic#key"|, 0 for Integer.MIN_VALUE.
uint32_t key_hash(std::string_view topic, std::string_view key);

inline constexpr uint64_t kIndexHeaderBytes = 40, kIndexSlotBytes = 4, kIndexEntryBytes = 20;
struct IndexHeader {
  Wall begin_time, end_time;
  PhysicalOffset begin_at, end_at;
  uint32_t used_slots = 0;
  uint32_t count = 1;              // next entry number; entry 0 is never used
};
struct IndexEntry { uint32_t hash = 0; PhysicalOffset at; int32_t seconds = 0; uint32_t previous = 0; };   // seconds since begin_time
void encode_index_header(MutableBytes into, const IndexHeader& header);
IndexHeader decode_index_header(Bytes from);
void encode_index_entry(MutableBytes into, const IndexEntry& entry);
IndexEntry decode_index_entry(Bytes from);
// "20251129160733123": local time of creation.
std::string index_file_name(Wall wall, int32_t zone_s);

class Index : public Derived {
 public:
  struct Options { std::string directory; uint64_t slot_count = 5'000'000, entry_count = 20'000'000; bool is_enabled = true; };
  explicit Index(Options options);
  ~Index() override;

  // --- start: adopt files found in `directory` (17 digits), then load; see ConsumeQueues for `entries_expected` ------------------------
  void adopt(Ctx& ctx, const FileEntry& entry);
  // Files that name nothing at or behind `log_begin` count as gone already.
  void begin_load(Ctx& ctx, PhysicalOffset log_begin, uint64_t entries_expected, bool is_expected_known);
  // Dispatch begins before `derived`: records below it are in the files already.
  void ignore_below(PhysicalOffset derived);
  bool is_loaded() const;
  bool needs_rebuild() const;       // then all files were dropped; dispatch must start at the log's beginning
  uint64_t walked(uint64_t token) const;   // grows with every slot, entry and file that the query of this token has passed; 0: it has no walk
  uint64_t entry_count() const;     // Σ (indexCount - 1) over all files and what is pending

  // --- query ------------------------------------------------------------------------------------------------------------------------
  // Candidates for (topic, key) whose store time may lie in [begin, end] (the index knows seconds), newest first, at most count_max,
  // each record once. True: `out` is filled; false: files are cold and being fetched, take_ready() will name `token`: ask again with
  // the same arguments. Hash collisions are the caller's to sort out.
  bool query(Ctx& ctx, std::string_view topic, std::string_view key, Wall begin, Wall end, uint32_t count_max, uint64_t token, std::vector<KeyHit>& out);
  std::vector<uint64_t> take_ready();

  // --- retention: full files whose entries all lie below `begin` are not asked any more; returns how many entries went. They are removed
  // with remove_forgotten(), when the caller has made durable that the log begins there.
  uint64_t forget_before(PhysicalOffset begin);
  void remove_forgotten(Ctx& ctx);

  void on_mapped(Ctx& ctx, const Mapped& mapped);
  void on_done(Ctx& ctx, const Done& done);
  void pump(Ctx& ctx);
  bool is_idle() const;
  bool is_settled() const;          // what the start found is durable; the index sees to it without being asked
  const Error* blocked() const;     // DiskFull: indexing stands still, writes go on; rounds wait

  // --- Derived: one entry for UNIQ_KEY, one per blank-separated word of KEYS; none for rolled-back records --------------------------------
  bool apply(Ctx& ctx, const RecordView& record) override;
  void begin_round(Ctx& ctx) override;
  bool is_round_done() const override;
  bool wants_round() const override;
  PhysicalOffset claim() const override { return PhysicalOffset(UINT64_MAX); }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fulmar
