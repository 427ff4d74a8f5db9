#include "sim/crash_image.h"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace fulmar::sim {

void SimDisk::crash(CrashKind kind, Prng& prng, CrashReport& report) {
  CHECK(kind != CrashKind::Kill, "a kill loses nothing");
  CrashImage(*this, kind, prng, report).draw(std::nullopt);
}
void SimDisk::crash_with(ImagePattern pattern, Prng& prng, CrashReport& report) { CrashImage(*this, CrashKind::PowerLoss, prng, report).draw(pattern); }

void CrashImage::draw(std::optional<ImagePattern> forced) {
  draw_prepares();
  draw_pages(forced);
  draw_names();
  settle();
}

ImagePattern CrashImage::draw_pattern() {
  uint64_t sum = 0;
  for (const uint32_t weight : disk_.profile_.image_weights) sum += weight;
  if (sum == 0) return ImagePattern::All;
  uint64_t at = prng_.below(sum);
  for (size_t i = 0; i < kImagePatterns; ++i) {
    if (at < disk_.profile_.image_weights[i]) return static_cast<ImagePattern>(i);
    at -= disk_.profile_.image_weights[i];
  }
  return ImagePattern::All;
}

// Each page of a preparation in flight is old or zero on the medium, and a block taken for it is kept or not.
void CrashImage::draw_prepares() {
  for (const auto& [id, op] : disk_.prepares_) {
    SimDisk::File& f = disk_.file(op.inode);
    const Range pages = SimDisk::pages_of(op.range);
    for (uint64_t page = pages.begin; page < pages.end; ++page) {
      if (!prng_.chance({1, 2})) continue;
      const Range part{std::max(op.range.begin, page * kPageBytes), std::min(op.range.end, page * kPageBytes + SimDisk::page_length(f, page))};
      std::memset(f.medium.get() + part.begin, 0, part.size());
      f.touched[page] = true;
      // The cache agrees with what is now the only version, unless the page has stores of its own to decide about.
      if (f.dirty.count(page) == 0) std::memset(f.seen.get() + part.begin, 0, part.size());
    }
    for (const uint64_t page : op.fresh) {
      if (prng_.chance({1, 2})) f.allocated[page] = false;
    }
    if (disk_.counts_ != nullptr) disk_.counts_->fired(FaultClass::HalfPrepared, true);
  }
  disk_.prepares_.clear();
}

void CrashImage::draw_pages(std::optional<ImagePattern> forced) {
  const bool is_by_first = prng_.chance({3, 4});
  std::vector<Page> all;
  for (const Inode inode : disk_.with_dirty_) {
    for (const auto& [index, dirty] : disk_.file(inode).dirty) all.push_back({inode, index, is_by_first ? dirty.first_store : dirty.last_store});
  }
  report_.pages_undurable += all.size();
  report_.is_per_file = !forced && prng_.chance({1, 2});
  if (!report_.is_per_file) {
    report_.pattern = forced ? *forced : draw_pattern();
    return apply(report_.pattern, all);
  }
  report_.pattern = ImagePattern::All;
  for (size_t begin = 0; begin < all.size();) {
    size_t end = begin;
    while (end < all.size() && all[end].inode == all[begin].inode) ++end;
    std::vector<Page> one(all.begin() + static_cast<ptrdiff_t>(begin), all.begin() + static_cast<ptrdiff_t>(end));
    const ImagePattern pattern = draw_pattern();
    if (begin == 0) report_.pattern = pattern;
    apply(pattern, one);
    begin = end;
  }
}

void CrashImage::apply(ImagePattern pattern, std::vector<Page>& pages) {
  const auto as_class = static_cast<FaultClass>(static_cast<size_t>(FaultClass::ImageNone) + static_cast<size_t>(pattern));
  const uint64_t kept_before = report_.pages_kept;
  const size_t n = pages.size();
  std::sort(pages.begin(), pages.end(), [](const Page& a, const Page& b) { return std::tie(a.order, a.inode, a.index) < std::tie(b.order, b.inode, b.index); });
  if (pattern == ImagePattern::Reverse) {  // from the end of the files backwards, whatever was stored first
    std::sort(pages.begin(), pages.end(), [](const Page& a, const Page& b) { return std::tie(a.inode, a.index) > std::tie(b.inode, b.index); });
  }
  const uint64_t cut = n == 0 ? 0 : prng_.below(n + 1), one = n == 0 ? 0 : prng_.below(n), parity = prng_.below(2);
  const std::array<Ratio, 3> odds{Ratio{1, 20}, Ratio{1, 2}, Ratio{19, 20}};
  const Ratio p = odds[prng_.below(3)];
  for (size_t i = 0; i < n; ++i) {
    bool is_kept = true;
    switch (pattern) {
      case ImagePattern::None: is_kept = false; break;
      case ImagePattern::All: break;
      case ImagePattern::Prefix:
      case ImagePattern::Reverse: is_kept = i < cut; break;
      case ImagePattern::Suffix: is_kept = i >= cut; break;
      case ImagePattern::OneHole: is_kept = i != one; break;
      case ImagePattern::OneOnly: is_kept = i == one; break;
      case ImagePattern::Alternate: is_kept = i % 2 == parity; break;
      case ImagePattern::Random: is_kept = prng_.chance(p); break;
      case ImagePattern::SectorTear: is_kept = i < one; break;
      case ImagePattern::Intermediate: is_kept = prng_.chance({3, 4}); break;
    }
    // A drive that stays powered finishes its sectors: only power loss tears.
    if (kind_ == CrashKind::PowerLoss && pattern == ImagePattern::SectorTear && i == one) tear(pages[i]);
    else if (is_kept) keep(pages[i], pattern);
    else lose(pages[i]);
  }
  if (disk_.counts_ != nullptr) disk_.counts_->fired(as_class, n > 0 && (pattern == ImagePattern::All || report_.pages_kept - kept_before < n));
}

void CrashImage::keep(const Page& page, ImagePattern pattern) {
  SimDisk::File& f = disk_.file(page.inode);
  const auto& landed = f.dirty.at(page.index).landed;
  const uint64_t at = page.index * kPageBytes, length = SimDisk::page_length(f, page.index);
  ++report_.pages_kept;
  if (pattern == ImagePattern::Intermediate && !landed.empty()) {
    const auto& version = landed[prng_.below(landed.size())].bytes;
    std::memcpy(f.medium.get() + at, version.data(), length);
    if (disk_.counts_ != nullptr && std::memcmp(f.seen.get() + at, version.data(), length) != 0) disk_.counts_->mattered(FaultClass::WriteBack);
    return;
  }
  // With small odds the last sectors of a page that was being written are not there.
  if (kind_ == CrashKind::PowerLoss && pattern == ImagePattern::Random && prng_.chance({1, 16})) return tear(page);
  std::memcpy(f.medium.get() + at, f.seen.get() + at, length);
}

void CrashImage::lose(const Page& page) {
  // What the medium has is what was there before, or a version that write-back put there on the way.
  SimDisk::File& f = disk_.file(page.inode);
  const auto& landed = f.dirty.at(page.index).landed;
  if (landed.empty() || !prng_.chance({1, 8})) return;
  const auto& version = landed[prng_.below(landed.size())].bytes;
  std::memcpy(f.medium.get() + page.index * kPageBytes, version.data(), version.size());
  if (disk_.counts_ != nullptr) disk_.counts_->mattered(FaultClass::WriteBack);
}

void CrashImage::tear(const Page& page) {
  SimDisk::File& f = disk_.file(page.inode);
  const uint64_t at = page.index * kPageBytes, length = SimDisk::page_length(f, page.index);
  const uint64_t sectors = (length + kSectorBytes - 1) / kSectorBytes;
  const uint64_t shape = prng_.below(3), cut = prng_.below(sectors + 1);
  const uint64_t mask = prng_.next();
  bool has_old = false, has_new = false;
  for (uint64_t sector = 0; sector < sectors; ++sector) {
    const bool is_new = shape == 0 ? sector < cut : shape == 1 ? sector >= cut : (mask >> (sector % 64) & 1) != 0;
    const uint64_t from = at + sector * kSectorBytes, bytes = std::min(kSectorBytes, at + length - from);
    if (std::memcmp(f.seen.get() + from, f.medium.get() + from, bytes) == 0) continue;
    (is_new ? has_new : has_old) = true;
    if (is_new) std::memcpy(f.medium.get() + from, f.seen.get() + from, bytes);
  }
  ++report_.pages_torn;
  if (disk_.counts_ != nullptr) disk_.counts_->fired(FaultClass::TornPage, has_old && has_new);
  if (disk_.profile_.unreadable_after_power_loss.numerator > 0 && prng_.chance(disk_.profile_.unreadable_after_power_loss)) {
    f.unreadable.insert(page.index);
    if (disk_.counts_ != nullptr) disk_.counts_->fired(FaultClass::UnreadablePage);
  }
}

// A dependency-closed subset of the pending operations, or a prefix of them.
void CrashImage::draw_names() {
  const std::map<uint64_t, SimDisk::NameOp> ops = std::move(disk_.name_ops_);
  disk_.name_ops_.clear();
  report_.names_pending += ops.size();
  const uint64_t cut = prng_.below(ops.size() + 1);
  std::vector<const SimDisk::NameOp*> lost;
  uint64_t index = 0;
  for (const auto& [id, op] : ops) {
    const bool is_wanted = disk_.profile_.meta_order == MetaOrder::Prefix ? index < cut : prng_.chance({1, 2});
    ++index;
    const bool is_possible = std::none_of(lost.begin(), lost.end(), [&op = op](const SimDisk::NameOp* before) { return SimDisk::is_related(*before, op); });
    if (is_wanted && is_possible) {
      disk_.apply_durable(op);
      if (op.kind == SimDisk::NameOp::Kind::Create && prng_.chance({1, 4})) {  // the name landed, the length did not
        const auto found = disk_.files_.find(op.inode);
        if (found == disk_.files_.end()) continue;
        SimDisk::File& f = found->second;
        f.size = 0;
        f.dirty.clear();
        f.lost.clear();
        f.unreadable.clear();
        f.allocated.clear();
        f.touched.clear();
        if (disk_.counts_ != nullptr) disk_.counts_->fired(FaultClass::ShortFile, true);
      }
      continue;
    }
    lost.push_back(&op);
    ++report_.names_lost;
    if (disk_.counts_ != nullptr) disk_.counts_->fired(FaultClass::LostEntry, true);
    if (op.kind == SimDisk::NameOp::Kind::Replace && prng_.chance({1, 4})) leave_stray(op);
  }
}

// A replace is a temporary file and a rename; a crash between them leaves the former, whole or not.
void CrashImage::leave_stray(const SimDisk::NameOp& op) {
  const size_t slash = op.path.rfind('/');
  if (slash != std::string::npos && slash != 0 && disk_.durable_names_.find(op.path.substr(0, slash)) == disk_.durable_names_.end()) return;
  const std::string path = op.path + ".tmp";
  const auto source = disk_.files_.find(op.inode);
  if (source == disk_.files_.end() || disk_.durable_names_.find(path) != disk_.durable_names_.end()) return;
  const uint64_t bytes = prng_.below(source->second.size + 1);
  const Inode inode = disk_.add_file(bytes, source->second.modified);
  SimDisk::File& f = disk_.file(inode);
  if (bytes > 0) std::memcpy(f.medium.get(), disk_.file(op.inode).medium.get(), bytes);
  if (bytes > 0) std::memcpy(f.seen.get(), f.medium.get(), bytes);
  f.allocated.assign(f.allocated.size(), true);
  f.touched.assign(f.touched.size(), true);
  disk_.durable_names_[path] = SimDisk::Name{inode};
  if (disk_.counts_ != nullptr) disk_.counts_->fired(FaultClass::StrayFile, true);
}

void CrashImage::settle() {
  disk_.flushes_.clear();
  for (auto& [inode, f] : disk_.files_) {
    bool has_changed = false;
    const auto settle_page = [&f = f, &has_changed](uint64_t page) {
      const uint64_t at = page * kPageBytes, length = SimDisk::page_length(f, page);
      if (std::memcmp(f.seen.get() + at, f.medium.get() + at, length) == 0) return;
      has_changed = true;
      std::memcpy(f.seen.get() + at, f.medium.get() + at, length);
    };
    for (const auto& [page, dirty] : f.dirty) settle_page(page);
    for (const uint64_t page : f.lost) settle_page(page);
    if (has_changed && !f.path.empty()) report_.files_changed.push_back(f.path);
    f.dirty.clear();
    f.lost.clear();
    f.opens = 0;
    f.path.clear();
  }
  disk_.with_dirty_.clear();
  disk_.names_ = disk_.durable_names_;
  for (const auto& [path, name] : disk_.names_) {
    if (name.inode != Inode()) disk_.file(name.inode).path = path;
  }
  std::erase_if(disk_.files_, [](const auto& item) { return item.second.path.empty(); });
  disk_.count_space();
}

}  // namespace fulmar::sim
