// The contents of a disk: stores, write-back, flush, prepare, and the faults of the medium.

#include <algorithm>
#include <cstring>

#include "sim/sim_disk.h"

namespace fulmar::sim {

namespace {

constexpr size_t kLandedMax = 3;  // versions kept per page: enough for every shape of "in between"

// First offset in [begin, end) where a and b differ; end when they do not.
uint64_t first_difference(const uint8_t* a, const uint8_t* b, uint64_t begin, uint64_t end) {
  if (begin >= end || std::memcmp(a + begin, b + begin, end - begin) == 0) return end;
  for (uint64_t i = begin; i < end; ++i) {
    if (a[i] != b[i]) return i;
  }
  return end;
}

}  // namespace

void SimDisk::open(Inode inode) { ++file(inode).opens; }

void SimDisk::close(Inode inode) {
  File& f = file(inode);
  CHECK(f.opens > 0);
  --f.opens;
  drop_if_unused(inode);
}

uint8_t* SimDisk::base(Inode inode) { return file(inode).seen.get(); }
uint64_t SimDisk::size(Inode inode) const { return file(inode).size; }

// --- stores ---------------------------------------------------------------------------------------------------------------------------

void SimDisk::note_store(Inode inode, Range range) {
  if (profile_.write_back.numerator > 0 && write_back_.chance(profile_.write_back)) write_back_some();
  File& f = file(inode);
  const Range pages = pages_of(range);
  for (uint64_t page = pages.begin; page < pages.end; ++page) {
    const uint64_t store = ++stores_;
    capture_before_store(inode, f, page, store);
    DirtyPage& dirty = f.dirty[page];
    if (dirty.first_store == 0) dirty.first_store = store;
    dirty.last_store = store;
    f.touched[page] = true;
    f.lost.erase(page);
  }
  with_dirty_.insert(inode);
}

void SimDisk::add_landed(DirtyPage& dirty, const File& f, uint64_t page) {
  const uint8_t* bytes = f.seen.get() + page * kPageBytes;
  if (dirty.landed.size() == kLandedMax) dirty.landed.erase(dirty.landed.begin() + static_cast<ptrdiff_t>(write_back_.below(kLandedMax)));
  dirty.landed.push_back({dirty.last_store, PageBytes(bytes, bytes + page_length(f, page))});
}

// Any dirty pages, in any order, as the kernel likes. What lands is one more version that a crash may find.
void SimDisk::write_back_some() {
  for (const Inode inode : with_dirty_) {
    if (!write_back_.chance({1, 2})) continue;
    File& f = file(inode);
    if (f.dirty.empty()) continue;
    auto it = f.dirty.lower_bound(write_back_.below(f.touched.size()));
    for (uint64_t left = write_back_.below(3) + 1; left > 0 && it != f.dirty.end(); --left, ++it) {
      add_landed(it->second, f, it->first);
      if (counts_ != nullptr) counts_->fired(FaultClass::WriteBack);
    }
  }
}

void SimDisk::capture_before_store(Inode inode, File& f, uint64_t page, uint64_t store) {
  for (auto& [id, flush] : flushes_) {
    if (flush.inode != inode) continue;
    const auto found = flush.pages.find(page);
    if (found == flush.pages.end() || found->second.next_store != 0) continue;
    const uint8_t* bytes = f.seen.get() + page * kPageBytes;
    found->second.bytes.assign(bytes, bytes + page_length(f, page));
    found->second.next_store = store;
    if (const auto dirty = f.dirty.find(page); dirty != f.dirty.end()) add_landed(dirty->second, f, page);
  }
}

bool SimDisk::is_allocated(Inode inode, Range range) const {
  const File& f = file(inode);
  const Range pages = pages_of(range);
  for (uint64_t page = pages.begin; page < pages.end; ++page) {
    if (!f.allocated[page]) return false;
  }
  return true;
}

Result<void> SimDisk::check_readable(Inode inode, Range range) const {
  const File& f = file(inode);
  const auto bad = f.unreadable.lower_bound(range.begin / kPageBytes);
  if (bad == f.unreadable.end() || *bad * kPageBytes >= range.end) return {};
  if (counts_ != nullptr) counts_->mattered(FaultClass::UnreadablePage);
  return Error(Errc::Unreadable, fmt::format("page {} of {}", *bad, f.path));
}

// --- flush ----------------------------------------------------------------------------------------------------------------------------

DiskOp SimDisk::flush(Inode inode, Range range) {
  const uint64_t id = next_op_++;
  FlushOp& op = flushes_[id];
  op.inode = inode;
  const File& f = file(inode);
  const Range pages = pages_of(range);
  for (auto it = f.dirty.lower_bound(pages.begin); it != f.dirty.end() && it->first < pages.end; ++it) op.pages[it->first];
  return DiskOp(id);
}

void SimDisk::land(File& f, uint64_t page, const uint8_t* bytes) {
  std::memcpy(f.medium.get() + page * kPageBytes, bytes, page_length(f, page));
  f.unreadable.erase(page);
}

void SimDisk::commit_flush(FlushOp& op) {
  const auto found = files_.find(op.inode);
  if (found == files_.end()) return;
  File& f = found->second;
  for (auto& [page, captured] : op.pages) {
    const auto dirty = f.dirty.find(page);
    if (captured.next_store != 0) {
      // A flush that began later may have come home first: what it put there is newer.
      if (dirty == f.dirty.end() || dirty->second.first_store >= captured.next_store) continue;
      land(f, page, captured.bytes.data());
      // What landed before the capture can not come back.
      std::erase_if(dirty->second.landed, [next = captured.next_store](const Landed& l) { return l.store < next; });
      dirty->second.first_store = captured.next_store;
    } else if (dirty != f.dirty.end()) {
      land(f, page, f.seen.get() + page * kPageBytes);
      f.lost.erase(page);
      f.dirty.erase(dirty);
    }
  }
  if (f.dirty.empty()) with_dirty_.erase(op.inode);
  if (profile_.fsync_persists_dirent && !f.path.empty()) sync_name(std::string(f.path));
}

// The kernel drops the pages: clean, readable, and not on the medium. The next flush has nothing to write and succeeds.
void SimDisk::fail_flush(FlushOp& op) {
  const auto found = files_.find(op.inode);
  if (found == files_.end()) return;
  File& f = found->second;
  bool has_lost = false;
  for (const auto& [page, captured] : op.pages) {
    const auto dirty = f.dirty.find(page);
    if (dirty == f.dirty.end() || captured.next_store != 0) continue;
    const uint64_t at = page * kPageBytes;
    if (std::memcmp(f.seen.get() + at, f.medium.get() + at, page_length(f, page)) != 0) {
      f.lost.insert(page);
      has_lost = true;
    }
    f.dirty.erase(dirty);
  }
  if (f.dirty.empty()) with_dirty_.erase(op.inode);
  if (has_lost && counts_ != nullptr) counts_->mattered(FaultClass::FlushError);
}

// --- prepare --------------------------------------------------------------------------------------------------------------------------

Result<DiskOp> SimDisk::prepare(Inode inode, Range range, Zeros zeros) {
  File& f = file(inode);
  PrepareOp op{inode, range, zeros, {}};
  const Range pages = pages_of(range);
  uint64_t room = space().free / kPageBytes;
  bool is_full = false;
  for (uint64_t page = pages.begin; page < pages.end; ++page) {
    if (f.allocated[page]) continue;
    if (room == 0) {
      is_full = true;  // blocks taken so far stay taken, as fallocate may leave them
      break;
    }
    --room;
    f.allocated[page] = true;
    used_bytes_ += kPageBytes;
    op.fresh.push_back(page);
  }
  if (is_full) {
    if (counts_ != nullptr) counts_->mattered(FaultClass::DiskFull);
    return Error(Errc::DiskFull, fmt::format("no blocks for [{}, {}) of {}", range.begin, range.end, f.path));
  }
  const uint64_t id = next_op_++;
  prepares_.emplace(id, std::move(op));
  return DiskOp(id);
}

void SimDisk::commit_prepare(const PrepareOp& op) {
  const auto found = files_.find(op.inode);
  if (found == files_.end() || op.range.empty()) return;
  File& f = found->second;
  if (op.zeros == Zeros::Soon) {
    // A page that is zero already stays as it was.
    for (uint64_t at = op.range.begin; at < op.range.end;) {
      const uint64_t end = std::min((at / kPageBytes + 1) * kPageBytes, op.range.end);
      const Bytes seen(f.seen.get() + at, end - at);
      if (!std::all_of(seen.begin(), seen.end(), [](uint8_t b) { return b == 0; })) {
        note_store(op.inode, {at, end});
        std::memset(f.seen.get() + at, 0, end - at);
      }
      if (at % kPageBytes == 0 && end - at == page_length(f, at / kPageBytes)) f.unreadable.erase(at / kPageBytes);
      at = end;
    }
    return;
  }
  std::memset(f.seen.get() + op.range.begin, 0, op.range.size());
  std::memset(f.medium.get() + op.range.begin, 0, op.range.size());
  const Range pages = pages_of(op.range);
  for (uint64_t page = pages.begin; page < pages.end; ++page) {
    const uint64_t at = page * kPageBytes, end = at + page_length(f, page);
    const bool is_whole = op.range.begin <= at && end <= op.range.end;
    f.touched[page] = true;
    if (is_whole) {
      f.dirty.erase(page);
      f.lost.erase(page);
      f.unreadable.erase(page);
    }
    const uint64_t from = std::max(at, op.range.begin) - at, to = std::min(end, op.range.end) - at;
    if (const auto dirty = f.dirty.find(page); dirty != f.dirty.end()) {
      for (Landed& l : dirty->second.landed) std::memset(l.bytes.data() + from, 0, to - from);
    }
    for (auto& [id, flush] : flushes_) {
      if (flush.inode != op.inode) continue;
      if (is_whole) flush.pages.erase(page);
      else if (const auto captured = flush.pages.find(page); captured != flush.pages.end() && !captured->second.bytes.empty()) {
        std::memset(captured->second.bytes.data() + from, 0, to - from);
      }
    }
  }
  if (f.dirty.empty()) with_dirty_.erase(op.inode);
}

// Its process died in the middle: each page old or zero, and the zeros are ordinary dirty bytes.
void SimDisk::abandon_prepare(const PrepareOp& op) {
  const auto found = files_.find(op.inode);
  if (found == files_.end()) return;
  File& f = found->second;
  const Range pages = pages_of(op.range);
  for (uint64_t page = pages.begin; page < pages.end; ++page) {
    if (abandon_.chance({1, 2})) continue;
    const Range part{std::max(op.range.begin, page * kPageBytes), std::min(op.range.end, page * kPageBytes + page_length(f, page))};
    note_store(op.inode, part);
    std::memset(f.seen.get() + part.begin, 0, part.size());
  }
  if (counts_ != nullptr) counts_->fired(FaultClass::HalfPrepared, !op.fresh.empty());
}

// --- operations in flight -------------------------------------------------------------------------------------------------------------

void SimDisk::commit(DiskOp op) {
  if (const auto flush = flushes_.extract(op.value()); !flush.empty()) return commit_flush(flush.mapped());
  if (const auto prepare = prepares_.extract(op.value()); !prepare.empty()) return commit_prepare(prepare.mapped());
  commit_name(op.value());
}

void SimDisk::fail(DiskOp op) {
  if (const auto flush = flushes_.extract(op.value()); !flush.empty()) fail_flush(flush.mapped());
}

void SimDisk::abandon(DiskOp op) {
  if (const auto prepare = prepares_.extract(op.value()); !prepare.empty()) return abandon_prepare(prepare.mapped());
  const auto flush = flushes_.extract(op.value());
  if (flush.empty()) return;
  const auto found = files_.find(flush.mapped().inode);
  if (found == files_.end()) return;
  for (const auto& [page, captured] : flush.mapped().pages) {
    const auto dirty = found->second.dirty.find(page);
    if (dirty != found->second.dirty.end() && captured.next_store == 0 && abandon_.chance({1, 2})) add_landed(dirty->second, found->second, page);
  }
}

void SimDisk::process_gone() {
  if (profile_.after_failed_flush != AfterFailedFlush::OldReappears) return;
  for (auto& [inode, f] : files_) {
    if (f.opens > 0) continue;
    for (const uint64_t page : f.lost) std::memcpy(f.seen.get() + page * kPageBytes, f.medium.get() + page * kPageBytes, page_length(f, page));
    f.lost.clear();
  }
}

// --- questions ------------------------------------------------------------------------------------------------------------------------

uint64_t SimDisk::durable_prefix(std::string_view path, Range range) const {
  const std::optional<Inode> inode = lookup(path);
  if (!inode || !is_name_durable(path)) return range.begin;
  const File& f = file(*inode);
  uint64_t end = std::min(range.end, f.size);
  for (const auto& [id, prepare] : prepares_) {
    if (prepare.inode == *inode && prepare.range.begin < end && prepare.range.end > range.begin) end = std::max(range.begin, prepare.range.begin);
  }
  const uint64_t first = range.begin / kPageBytes;
  const auto limit = [&](uint64_t page, const uint8_t* version) {  // version: bytes of that page as they may survive
    const uint64_t at = page * kPageBytes;
    const uint64_t from = std::max(range.begin, at) - at, to = std::min(end, at + page_length(f, page)) - at;
    const uint64_t differs = first_difference(f.seen.get() + at, version, from, to);
    if (differs < to) end = at + differs;
  };
  for (auto it = f.dirty.lower_bound(first); it != f.dirty.end() && it->first * kPageBytes < end; ++it) {
    limit(it->first, f.medium.get() + it->first * kPageBytes);
    for (const Landed& l : it->second.landed) {
      if (it->first * kPageBytes < end) limit(it->first, l.bytes.data());
    }
  }
  for (auto it = f.lost.lower_bound(first); it != f.lost.end() && *it * kPageBytes < end; ++it) limit(*it, f.medium.get() + *it * kPageBytes);
  if (const auto it = f.unreadable.lower_bound(first); it != f.unreadable.end() && *it * kPageBytes < end) end = std::max(range.begin, *it * kPageBytes);
  return std::max(end, range.begin);
}

uint64_t SimDisk::undurable_pages() const {
  uint64_t pages = 0;
  for (const Inode inode : with_dirty_) pages += file(inode).dirty.size();
  return pages;
}

std::optional<SimDisk::Place> SimDisk::undeclared_store() const {
  for (const auto& [inode, f] : files_) {
    if (f.opens == 0) continue;
    for (uint64_t page = 0; page < f.touched.size(); ++page) {
      if (!f.touched[page] || f.dirty.count(page) != 0 || f.lost.count(page) != 0) continue;
      const uint64_t at = page * kPageBytes, end = at + page_length(f, page);
      const uint64_t differs = first_difference(f.seen.get() + at, f.medium.get() + at, 0, end - at);
      if (at + differs < end) return Place{f.path, at + differs};
    }
  }
  return std::nullopt;
}

// --- faults of the medium -------------------------------------------------------------------------------------------------------------

std::optional<std::pair<Inode, uint64_t>> SimDisk::cold_page(std::string_view text, Prng& prng) {
  std::vector<Inode> matching;
  for (const auto& [path, name] : names_) {
    if (name.inode != Inode() && path.find(text) != std::string::npos) matching.push_back(name.inode);
  }
  prng.shuffle(std::span(matching));
  for (const Inode inode : matching) {
    const File& f = file(inode);
    std::vector<uint64_t> cold;
    for (uint64_t page = 0; page < f.touched.size(); ++page) {
      if (f.touched[page] && f.dirty.find(page) == f.dirty.end() && f.lost.count(page) == 0) cold.push_back(page);
    }
    if (!cold.empty()) return std::pair(inode, cold[prng.below(cold.size())]);
  }
  return std::nullopt;
}

std::optional<SimDisk::Place> SimDisk::make_unreadable(std::string_view text, Prng& prng) {
  const auto found = cold_page(text, prng);
  if (!found) return std::nullopt;
  File& f = file(found->first);
  f.unreadable.insert(found->second);
  if (counts_ != nullptr) counts_->fired(FaultClass::UnreadablePage);
  return Place{f.path, found->second * kPageBytes};
}

bool SimDisk::rot(std::string_view text, Prng& prng) {
  const auto found = cold_page(text, prng);
  if (!found) return false;
  const File& f = file(found->first);
  const uint64_t offset = found->second * kPageBytes + prng.below(page_length(f, found->second));
  const uint64_t bit = prng.below(8);
  rot_at(f.path, offset, static_cast<uint8_t>(1u << bit));
  return true;
}

void SimDisk::rot_at(std::string_view path, uint64_t offset, uint8_t mask) {
  const std::optional<Inode> inode = lookup(path);
  CHECK(inode && offset < file(*inode).size, "{} at {}", path, offset);
  File& f = file(*inode);
  f.seen[offset] ^= mask;
  f.medium[offset] ^= mask;
  f.touched[offset / kPageBytes] = true;
  if (counts_ != nullptr) counts_->fired(FaultClass::BitRot, true);
}

void SimDisk::overwrite(std::string_view path, uint64_t offset, Bytes bytes) {
  const std::optional<Inode> inode = lookup(path);
  CHECK(inode && !bytes.empty() && offset + bytes.size() <= file(*inode).size, "{} at {}", path, offset);
  File& f = file(*inode);
  std::memcpy(f.seen.get() + offset, bytes.data(), bytes.size());
  std::memcpy(f.medium.get() + offset, bytes.data(), bytes.size());
  for (uint64_t page = offset / kPageBytes; page * kPageBytes < offset + bytes.size(); ++page) f.touched[page] = f.allocated[page] = true;
  count_space();
}

void SimDisk::lose_file(std::string_view path) {
  if (!lookup(path)) return;
  const Result<DiskOp> op = remove(path);
  CHECK(op.has_value(), "{}: {}", path, op.error().text());
  if (*op != DiskOp()) commit_with_directory(*op);
}

void SimDisk::make_page_unreadable(std::string_view path, uint64_t offset) {
  const std::optional<Inode> inode = lookup(path);
  CHECK(inode && offset < file(*inode).size, "{} at {}", path, offset);
  file(*inode).unreadable.insert(offset / kPageBytes);
  if (counts_ != nullptr) counts_->fired(FaultClass::UnreadablePage);
}

}  // namespace fulmar::sim
