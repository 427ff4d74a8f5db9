// The look at index files at start: what their headers say, and what an interrupted round left behind a file's count.

#include "core/store/index_impl.h"

namespace fulmar {

namespace {

std::optional<uint64_t> parse_name(std::string_view text) {
  if (text.size() != 17) return {};
  uint64_t name = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return {};
    name = name * 10 + static_cast<uint64_t>(c - '0');
  }
  return name;
}

}  // namespace

void Index::Impl::adopt(Ctx& ctx, const FileEntry& entry) {
  if (entry.is_directory || !options.is_enabled) return;
  const std::optional<uint64_t> name = parse_name(entry.path);
  if (name && entry.size_bytes == 0) {   // its creation was cut short
    removals.push_back(*name);
    return;
  }
  if (!name || entry.size_bytes != file_bytes()) {
    ctx.trace.note(IndexFileIgnored{entry.size_bytes, entry.path});
    return;
  }
  auto file = std::make_unique<File>();
  file->name = *name;
  file->is_made = true;
  const auto at = std::lower_bound(files.begin(), files.end(), *name, [](const auto& f, uint64_t n) { return f->name < n; });
  files.insert(at, std::move(file));
}

void Index::Impl::begin_load(Ctx& ctx) {
  is_loading = true;
  advance_load(ctx);
}

// One file after the other: there are few.
void Index::Impl::advance_load(Ctx& ctx) {
  while (is_loading && !is_asked) {
    if (load_index == files.size()) return end_load(ctx);
    File& file = *files[load_index];
    if (load_phase == LoadPhase::Header) {
      if (!load_header(ctx, file)) return;
    } else if (!scan(ctx, file)) {
      return;
    }
  }
}

// True: the bytes may be viewed.
bool Index::Impl::is_load_here(Ctx& ctx, File& file, Range range) {
  file.last_used = ctx.now.monotonic;
  if (!file.is_mapped) {
    map(ctx, file, What::MapWrite);
    return false;
  }
  if (file.residence.covers(range, ctx.now.monotonic)) return true;
  warm_to_write(ctx, file, {whole_pages(range, file_bytes())});
  return false;
}

bool Index::Impl::load_header(Ctx& ctx, File& file) {
  if (!is_load_here(ctx, file, {0, kIndexHeaderBytes})) return false;
  file.header = decode_index_header(ctx.files.at(file.id).view({0, kIndexHeaderBytes}));
  file.header.count = std::max(file.header.count, 1u);   // made, never written to
  if (file.header.count > options.entry_count || file.header.begin_time.ms < 0 || file.header.end_time.ms < 0) {
    ctx.trace.note(IndexUnreadable{file.name, 0, kIndexHeaderBytes});
    must_rebuild = true;
    end_load(ctx);
    return false;
  }
  file.durable_count = file.header.count;
  // Older files are full, unless a crash came between the last entries of one and its header.
  load_phase = LoadPhase::Scan;
  scan_number = file.header.count;
  return true;
}

// Entries behind the count may be linked already: slots are stored before the header. Numbering goes on behind the last one. What a
// batch leaves is shorter than a window, so one empty window ends the search.
bool Index::Impl::scan(Ctx& ctx, File& file) {
  const uint64_t window = limits::kIndexPrepareBytes / kIndexEntryBytes;
  const uint64_t end = std::min<uint64_t>(scan_number + window, options.entry_count);
  bool is_empty = true;
  if (scan_number < end) {
    if (!is_load_here(ctx, file, {entry_at(scan_number), entry_at(end)})) return false;
    const Bytes bytes = ctx.files.at(file.id).view({entry_at(scan_number), entry_at(end)});
    for (uint64_t number = scan_number; number < end; ++number) {
      const Bytes entry_bytes = bytes.subspan((number - scan_number) * kIndexEntryBytes, kIndexEntryBytes);
      if (std::all_of(entry_bytes.begin(), entry_bytes.end(), [](uint8_t b) { return b == 0; })) continue;
      is_empty = false;
      SOMETIMES("store: an interrupted round left entries behind the index count", true);
      if (MUTANT(IndexNumbersOverUnlinked)) continue;
      const IndexEntry entry = decode_index_entry(entry_bytes);
      file.header.count = static_cast<uint32_t>(number + 1);
      file.header.end_at = std::max(file.header.end_at, entry.at);
      const int64_t seconds = std::max(entry.seconds, 0);
      file.header.end_time.ms = std::max(file.header.end_time.ms, file.header.begin_time.ms + seconds * 1000 + 999);
    }
  }
  scan_number = end;
  if (!is_empty && end < options.entry_count) return true;
  // Slots are prepared before the first entry is stored.
  file.are_slots_prepared = file.header.count > 1;
  if (!file.are_slots_prepared) file.header = {};
  // An older file was settled before the next one was made.
  file.is_settled = file.header.count <= 1 || (file.header.count == file.durable_count && load_index + 1 < files.size());
  if (load_index + 1 < files.size()) unmap(ctx, file);
  load_phase = LoadPhase::Header;
  ++load_index;
  return true;
}

void Index::Impl::end_load(Ctx& ctx) {
  if (is_asked) return;   // cannot be: one ticket at a time, and it is home
  is_loading = false;
  is_loaded = true;
  uint64_t found = 0;
  // The last file is kept: it may be written on.
  for (size_t i = 0; i < files.size(); ++i) {
    File& file = *files[i];
    file.is_forgotten = i + 1 < files.size() && file.header.end_at < log_begin;
    SOMETIMES("store: a start finds index files that retention was about to remove", file.is_forgotten);
    if (!file.is_forgotten) found += file.header.count - 1;
  }
  may_remove_forgotten = true;
  // More than expected is what later rounds added before the crash.
  must_rebuild |= is_expected_known && found < entries_expected && options.is_enabled;
  if (!must_rebuild) return;
  SOMETIMES("store: the index is built again", true);
  ctx.trace.note(IndexRebuilt{found, entries_expected});
  for (auto& file : files) {
    if (file->is_mapped) unmap(ctx, *file);
    removals.push_back(file->name);
  }
  files.clear();
  ctx.out.step_again();
}

}  // namespace fulmar
