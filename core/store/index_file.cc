#include "core/store/index_file.h"

#include "core/base/java_hash.h"
#include "core/store/index_impl.h"

namespace fulmar {

namespace {

constexpr uint64_t kHeadCount = 1u << 16;
// A query looks at no more entries than this: one key may have millions.
constexpr uint32_t kChainStepsMax = 100'000;
constexpr size_t kWalksMax = 4096;

uint32_t hash_of(std::string_view text) {
  const int32_t hash = java_hash(text);
  if (hash == INT32_MIN && !MUTANT(IndexHashKeepsMinimum)) return 0;   // its absolute value has no int
  return static_cast<uint32_t>(hash < 0 ? -static_cast<int64_t>(hash) : hash);
}

}  // namespace

uint32_t key_hash(std::string_view topic, std::string_view key) {
  std::string text;
  text.reserve(topic.size() + 1 + key.size());
  text.append(topic).append(1, '#').append(key);
  return hash_of(text);
}

// --- layout ----------------------------------------------------------------------------------------------------------------------------

void encode_index_header(MutableBytes into, const IndexHeader& header) {
  Writer w(into);
  w.i64(header.begin_time.ms);
  w.i64(header.end_time.ms);
  w.u64(header.begin_at.value());
  w.u64(header.end_at.value());
  w.u32(header.used_slots);
  w.u32(header.count);
}

IndexHeader decode_index_header(Bytes from) {
  Reader r(from);
  IndexHeader header;
  header.begin_time.ms = r.i64();
  header.end_time.ms = r.i64();
  header.begin_at = PhysicalOffset(r.u64());
  header.end_at = PhysicalOffset(r.u64());
  header.used_slots = r.u32();
  header.count = r.u32();
  return header;
}

void encode_index_entry(MutableBytes into, const IndexEntry& entry) {
  Writer w(into);
  w.u32(entry.hash);
  w.u64(entry.at.value());
  w.i32(entry.seconds);
  w.u32(entry.previous);
}

IndexEntry decode_index_entry(Bytes from) {
  Reader r(from);
  IndexEntry entry;
  entry.hash = r.u32();
  entry.at = PhysicalOffset(r.u64());
  entry.seconds = r.i32();
  entry.previous = r.u32();
  return entry;
}

// Days to date after Howard Hinnant's "chrono-compatible low-level date algorithms", for years from 1970 on.
std::string index_file_name(Wall wall, int32_t zone_s) {
  const int64_t ms = std::max<int64_t>(0, wall.ms + int64_t{zone_s} * 1000);
  const int64_t day = ms / 86'400'000, rest = ms % 86'400'000;
  const int64_t z = day + 719'468;
  const int64_t era = z / 146'097, of_era = z % 146'097;
  const int64_t year_of_era = (of_era - of_era / 1460 + of_era / 36'524 - of_era / 146'096) / 365;
  const int64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const int64_t shifted = (5 * of_year + 2) / 153;
  const int64_t month = shifted < 10 ? shifted + 3 : shifted - 9;
  const int64_t year = year_of_era + era * 400 + (month <= 2 ? 1 : 0);
  return fmt::format("{:04}{:02}{:02}{:02}{:02}{:02}{:03}", year, month, of_year - (153 * shifted + 2) / 5 + 1, rest / 3'600'000,
                     rest / 60'000 % 60, rest / 1000 % 60, rest % 1000);
}

// --- keys in memory ----------------------------------------------------------------------------------------------------------------------

Index::Index(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {
  CHECK(impl_->options.slot_count > 0 && impl_->options.entry_count > 1 && impl_->options.entry_count <= INT32_MAX);
}
Index::~Index() = default;

Index::Impl::File* Index::Impl::find(uint64_t name) {
  const auto it = std::lower_bound(files.begin(), files.end(), name, [](const auto& file, uint64_t n) { return file->name < n; });
  return it != files.end() && (*it)->name == name ? it->get() : nullptr;
}

void Index::Impl::add(uint32_t hash, const RecordView& record) {
  if (heads.empty()) heads.resize(kHeadCount);
  uint64_t& head = heads[hash % kHeadCount];
  pending.push_back({hash, record.place.physical, record.place.stored, head});
  head = pending_base + pending.size();
}

void Index::Impl::pop(size_t count) {
  pending.erase(pending.begin(), pending.begin() + static_cast<ptrdiff_t>(count));
  pending_base += count;
  if (pending.empty()) pending = {};
}

bool Index::apply(Ctx&, const RecordView& record) {
  Impl& impl = *impl_;
  const Message& message = record.message;
  if (!impl.options.is_enabled || (message.sys_flag & sys_flag::kTransactionMask) == sys_flag::kRollback) return true;
  // Offered again because somebody else was full.
  if (impl.applied && record.place.physical <= *impl.applied) return true;
  std::optional<std::string_view> unique, keys;
  property::for_each(message.properties, [&](std::string_view name, std::string_view value) {
    if (name == property::kUniqueKey) unique = value;
    else if (name == property::kKeys) keys = value;
  });
  if ((unique || keys) && impl.pending.size() >= limits::kPendingKeysMax) return false;
  const auto add = [&](std::string_view key) {
    impl.scratch.assign(message.topic).append(1, '#').append(key);
    impl.add(hash_of(impl.scratch), record);
  };
  if (unique) add(*unique);
  for (std::string_view rest = keys.value_or(""); !rest.empty();) {
    const size_t end = std::min(rest.find(' '), rest.size());
    if (end > 0) add(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  impl.applied = record.place.physical;
  return true;
}

// --- queries -----------------------------------------------------------------------------------------------------------------------------

namespace {

void take(std::vector<KeyHit>& hits, PhysicalOffset at) {
  if (std::find(hits.begin(), hits.end(), KeyHit{at}) == hits.end()) hits.push_back({at});
}

}  // namespace

void Index::Impl::walk_pending(Walk& walk, Wall begin, Wall end, uint32_t count_max) const {
  if (heads.empty()) return;
  for (uint64_t next = heads[walk.hash % kHeadCount]; next > pending_base && walk.hits.size() < count_max && walk.steps < kChainStepsMax; ++walk.steps) {
    const PendingKey& key = pending[next - 1 - pending_base];
    if (key.hash == walk.hash && begin <= key.stored && key.stored <= end) take(walk.hits, key.at);
    next = key.previous;
  }
}

bool Index::Impl::is_here(Ctx& ctx, File& file, Range range, uint64_t token) {
  file.last_used = ctx.now.monotonic;
  if (!file.is_mapped) {
    SOMETIMES("store: a query waits for an index file", true);
    file.waiting.push_back(token);
    if (!file.is_mapping) map(ctx, file, What::MapRead);
    return false;
  }
  if (file.residence.covers(range, ctx.now.monotonic)) return true;
  ++file.busy;
  const Range pages = whole_pages(range, file_bytes());
  file.residence.fetching(pages);
  const FileSlice slice{file.id, pages};
  const Ticket ticket = tickets.issue({What::WarmRead, file.name, pages, token});
  ctx.out.warm(ticket, std::span(&slice, 1));
  return false;
}

// Follows the chain of the walk's hash through one file. The chain runs from newer to older numbers; anything else ends it.
bool Index::Impl::walk_file(Ctx& ctx, Walk& walk, File& file, Wall begin, Wall end, uint32_t count_max, uint64_t token) {
  if (!walk.is_in_chain) {
    const uint64_t at = slot_at(walk.hash % options.slot_count);
    if (!is_here(ctx, file, {at, at + kIndexSlotBytes}, token)) return false;
    walk.number = load_be<uint32_t>(ctx.files.at(file.id).view({at, at + kIndexSlotBytes}).data());
    if (walk.number >= number_end(file)) walk.number = 0;
    walk.is_in_chain = true;
    ++walk.moves;
  }
  while (walk.number != 0 && walk.hits.size() < count_max && walk.steps < kChainStepsMax) {
    const Range bytes{entry_at(walk.number), entry_at(walk.number + 1)};
    if (!is_here(ctx, file, bytes, token)) return false;
    const IndexEntry entry = decode_index_entry(ctx.files.at(file.id).view(bytes));
    const int64_t from = file.header.begin_time.ms + int64_t{entry.seconds} * 1000;   // stored within this second
    if (from + 999 < begin.ms) break;                                                 // stamps never fall: all others are older
    if (entry.hash == walk.hash && from <= end.ms) take(walk.hits, entry.at);
    SOMETIMES("store: two keys share an index slot", entry.hash != walk.hash);
    walk.number = entry.previous < walk.number ? entry.previous : 0;
    ++walk.steps;
    ++walk.moves;
  }
  return true;
}

bool Index::query(Ctx& ctx, std::string_view topic, std::string_view key, Wall begin, Wall end, uint32_t count_max, uint64_t token, std::vector<KeyHit>& out) {
  Impl& impl = *impl_;
  auto it = impl.walks.find(token);
  if (it == impl.walks.end()) {
    if (impl.walks.size() >= kWalksMax) {   // whoever holds queries bounds them; beyond this many they ask again
      impl.ready.push_back(token);
      ctx.out.step_again();
      return false;
    }
    it = impl.walks.emplace(token, Impl::Walk{}).first;
    it->second.hash = key_hash(topic, key);
    impl.walk_pending(it->second, begin, end, count_max);
  }
  Impl::Walk& walk = it->second;
  walk.last_used = ctx.now.monotonic;
  for (size_t left = impl.files.size(); left > 0 && walk.hits.size() < count_max && walk.steps < kChainStepsMax; --left) {
    Impl::File& file = *impl.files[left - 1];
    if (file.name > walk.name || file.is_forgotten) continue;
    if (file.header.count <= 1 || file.header.begin_time > end || file.header.end_time < begin) continue;
    if (walk.name != file.name) walk.is_in_chain = false;
    walk.name = file.name;
    if (!impl.walk_file(ctx, walk, file, begin, end, count_max, token)) return false;
    walk.leave(file.name);
  }
  std::sort(walk.hits.begin(), walk.hits.end(), [](const KeyHit& a, const KeyHit& b) { return a.at > b.at; });
  out.insert(out.end(), walk.hits.begin(), walk.hits.end());
  impl.walks.erase(it);
  return true;
}

std::vector<uint64_t> Index::take_ready() { return std::exchange(impl_->ready, {}); }

// --- inputs and rounds -------------------------------------------------------------------------------------------------------------------

void Index::adopt(Ctx& ctx, const FileEntry& entry) { impl_->adopt(ctx, entry); }
void Index::ignore_below(PhysicalOffset derived) {
  if (derived.value() > 0) impl_->applied = PhysicalOffset(derived.value() - 1);
}
void Index::begin_load(Ctx& ctx, PhysicalOffset log_begin, uint64_t entries_expected, bool is_expected_known) {
  impl_->log_begin = log_begin;
  impl_->entries_expected = entries_expected;
  impl_->is_expected_known = is_expected_known;
  impl_->begin_load(ctx);
}
bool Index::is_loaded() const { return impl_->is_loaded; }
bool Index::needs_rebuild() const { return impl_->must_rebuild; }

// What headers on disk say, and what waits: so that a later start can find at least this much.
uint64_t Index::walked(uint64_t token) const {
  const auto it = impl_->walks.find(token);
  return it == impl_->walks.end() ? 0 : it->second.moves;
}

uint64_t Index::entry_count() const {
  uint64_t count = impl_->pending.size();
  for (const auto& file : impl_->files) count += file->is_forgotten ? 0 : file->durable_count - 1;
  return count;
}

uint64_t Index::forget_before(PhysicalOffset begin) {
  uint64_t gone = 0;
  impl_->may_remove_forgotten = false;   // what an earlier removal allowed does not hold for these
  // The last one is being written.
  for (size_t i = 0; i + 1 < impl_->files.size(); ++i) {
    Impl::File& file = *impl_->files[i];
    if (file.is_forgotten || file.header.end_at >= begin) continue;
    file.is_forgotten = true;
    gone += file.durable_count - 1;
  }
  return gone;
}

void Index::remove_forgotten(Ctx& ctx) {
  impl_->may_remove_forgotten = true;
  ctx.out.step_again();
}

void Index::on_mapped(Ctx& ctx, const Mapped& mapped) { impl_->on_mapped(ctx, mapped); }
void Index::on_done(Ctx& ctx, const Done& done) { impl_->on_done(ctx, done); }

void Index::pump(Ctx& ctx) {
  impl_->pump_forgotten(ctx);
  impl_->pump_removals(ctx);
  if (impl_->is_loading) impl_->advance_load(ctx);
  else impl_->drive(ctx);
  impl_->pump_sweep(ctx);
}

bool Index::is_idle() const { return impl_->tickets.out_count() == 0; }
bool Index::is_settled() const { return impl_->unsettled() == nullptr; }
const Error* Index::blocked() const { return impl_->blocked ? &*impl_->blocked : nullptr; }

void Index::begin_round(Ctx&) { impl_->round_end = impl_->pending_base + impl_->pending.size(); }
bool Index::is_round_done() const {
  if (MUTANT(IndexRoundDoneBeforeFlush)) return impl_->pending_base + impl_->batch >= impl_->round_end;
  return impl_->pending_base >= impl_->round_end && impl_->removals.empty() && impl_->removals_out == 0;
}
bool Index::wants_round() const { return impl_->pending.size() >= limits::kPendingKeysRound; }

}  // namespace fulmar
