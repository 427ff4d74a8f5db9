#include "sim/sim_disk.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/base/crc32.h"

namespace fulmar::sim {

namespace {

// "a/b/c" -> "a", "a/b"; a leading '/' belongs to the first name.
template <class Visit>
void for_each_parent(std::string_view path, Visit visit) {
  for (size_t at = path.find('/', 1); at != std::string_view::npos; at = path.find('/', at + 1)) visit(path.substr(0, at));
}

bool is_inside(std::string_view path, std::string_view directory) {
  return path.size() > directory.size() && path.substr(0, directory.size()) == directory && path[directory.size()] == '/';
}

bool touches(std::string_view a, std::string_view b) { return !a.empty() && !b.empty() && (a == b || is_inside(a, b) || is_inside(b, a)); }

}  // namespace

void SimDisk::Free::operator()(uint8_t* p) const { std::free(p); }

SimDisk::SimDisk(DiskProfile profile, Seed seed, uint64_t entity, FaultCounts* counts)
    : profile_(profile), write_back_(seed, Domain::WriteBack, entity), abandon_(seed, Domain::DiskFault, mix64(entity, 1)), counts_(counts) {}

SimDisk::File& SimDisk::file(Inode inode) {
  const auto found = files_.find(inode);
  CHECK(found != files_.end(), "inode {}", inode);
  return found->second;
}
const SimDisk::File& SimDisk::file(Inode inode) const { return const_cast<SimDisk*>(this)->file(inode); }

uint64_t SimDisk::page_length(const File& f, uint64_t page) { return std::min(kPageBytes, f.size - page * kPageBytes); }

Inode SimDisk::add_file(uint64_t size_bytes, Wall now) {
  const Inode inode(next_inode_++);
  File& f = files_[inode];
  // calloc: untouched pages of a large file cost nothing.
  const size_t bytes = size_bytes == 0 ? 1 : size_bytes;
  f.seen.reset(static_cast<uint8_t*>(std::calloc(bytes, 1)));
  f.medium.reset(static_cast<uint8_t*>(std::calloc(bytes, 1)));
  CHECK(f.seen != nullptr && f.medium != nullptr, "{} bytes", size_bytes);
  f.size = size_bytes;
  f.modified = now;
  const uint64_t pages = pages_of({0, size_bytes}).end;
  f.allocated.assign(pages, false);
  f.touched.assign(pages, false);
  return inode;
}

// --- space ----------------------------------------------------------------------------------------------------------------------------

bool SimDisk::has_room(uint64_t bytes) const { return space().free >= bytes; }

DiskSpace SimDisk::space() const {
  const uint64_t used = std::min(profile_.capacity_bytes, used_bytes_ + used_by_others_);
  return {profile_.capacity_bytes, used, profile_.capacity_bytes - used};
}

void SimDisk::count_space() {
  used_bytes_ = 0;
  for (const auto& [inode, f] : files_) {
    used_bytes_ += kPageBytes + static_cast<uint64_t>(std::count(f.allocated.begin(), f.allocated.end(), true)) * kPageBytes;
  }
  for (const auto& [path, name] : names_) {
    if (name.inode == Inode()) used_bytes_ += kPageBytes;
  }
}

// --- names ----------------------------------------------------------------------------------------------------------------------------

uint64_t SimDisk::missing_parents(std::string_view path) const {
  uint64_t missing = 0;
  for_each_parent(path, [&](std::string_view parent) { missing += names_.find(parent) == names_.end(); });
  return missing;
}

void SimDisk::make_parents(std::string_view path) {
  for_each_parent(path, [&](std::string_view parent) {
    if (names_.find(parent) != names_.end()) return;
    names_[std::string(parent)] = Name{};
    used_bytes_ += kPageBytes;
    add_name_op({NameOp::Kind::MakeDirectory, std::string(parent), {}, {}});
  });
}

DiskOp SimDisk::add_name_op(NameOp op) {
  const uint64_t id = next_op_++;
  name_ops_.emplace(id, std::move(op));
  return DiskOp(id);
}

Result<SimDisk::Begun> SimDisk::create(std::string_view path, uint64_t size_bytes, Wall now) {
  if (names_.find(path) != names_.end()) return Error(Errc::Exists, std::string(path));
  if (!has_room((1 + missing_parents(path)) * kPageBytes)) {
    if (counts_ != nullptr) counts_->mattered(FaultClass::DiskFull);
    return Error(Errc::DiskFull, fmt::format("no block for {}", path));
  }
  make_parents(path);
  const Inode inode = add_file(size_bytes, now);
  used_bytes_ += kPageBytes;
  file(inode).path = path;
  names_[std::string(path)] = Name{inode};
  const DiskOp op = add_name_op({NameOp::Kind::Create, std::string(path), {}, inode});
  return Begun{inode, op};
}

Result<DiskOp> SimDisk::replace(std::string_view path, Bytes contents, Wall now) {
  const auto old = names_.find(path);
  if (old != names_.end() && old->second.inode == Inode()) return Error(Errc::IoFailed, fmt::format("{} is a directory", path));
  const uint64_t pages = pages_of({0, contents.size()}).end;
  if (!has_room((1 + pages + missing_parents(path)) * kPageBytes)) {
    if (counts_ != nullptr) counts_->mattered(FaultClass::DiskFull);
    return Error(Errc::DiskFull, fmt::format("no blocks for {} bytes of {}", contents.size(), path));
  }
  make_parents(path);
  const Inode inode = add_file(contents.size(), now);
  File& f = file(inode);
  if (!contents.empty()) {
    std::memcpy(f.seen.get(), contents.data(), contents.size());
    std::memcpy(f.medium.get(), contents.data(), contents.size());
  }
  f.allocated.assign(pages, true);
  f.touched.assign(pages, true);
  f.path = path;
  used_bytes_ += (1 + pages) * kPageBytes;
  Inode replaced;
  if (const auto found = names_.find(path); found != names_.end()) {
    replaced = found->second.inode;
    file(replaced).path.clear();
  }
  names_[std::string(path)] = Name{inode};
  return add_name_op({NameOp::Kind::Replace, std::string(path), {}, inode});
}

Result<DiskOp> SimDisk::rename(Inode inode, std::string_view path) {
  File& f = file(inode);
  if (f.path.empty()) return Error(Errc::NotFound, std::string(path));
  if (names_.find(path) != names_.end()) return Error(Errc::Exists, std::string(path));
  if (!has_room(missing_parents(path) * kPageBytes)) {
    if (counts_ != nullptr) counts_->mattered(FaultClass::DiskFull);
    return Error(Errc::DiskFull, fmt::format("no block for {}", path));
  }
  make_parents(path);
  const std::string from = f.path;
  names_.erase(from);
  names_[std::string(path)] = Name{inode};
  f.path = path;
  return add_name_op({NameOp::Kind::Rename, from, std::string(path), inode});
}

Result<DiskOp> SimDisk::remove(std::string_view path) {
  const auto found = names_.find(path);
  if (found == names_.end()) {
    // Gone already, but perhaps not durably: the remove that is pending must be, when this one is done.
    return add_name_op({NameOp::Kind::Remove, std::string(path), {}, {}});
  }
  const Inode inode = found->second.inode;
  if (inode == Inode()) {
    const auto next = names_.upper_bound(std::string(path) + "/");
    if (next != names_.end() && is_inside(next->first, path)) return Error(Errc::IoFailed, fmt::format("{} is not empty", path));
    used_bytes_ -= kPageBytes;
  } else {
    file(inode).path.clear();
  }
  names_.erase(found);
  return add_name_op({NameOp::Kind::Remove, std::string(path), {}, inode});
}

bool SimDisk::is_related(const NameOp& a, const NameOp& b) {
  return touches(a.path, b.path) || touches(a.path, b.other) || touches(a.other, b.path) || touches(a.other, b.other);
}

void SimDisk::commit_name(uint64_t id) {
  const auto found = name_ops_.find(id);
  if (found == name_ops_.end()) return;
  std::vector<uint64_t> needed;
  for (auto it = name_ops_.begin(); it != found; ++it) {
    if (is_related(it->second, found->second)) needed.push_back(it->first);
  }
  for (const uint64_t before : needed) commit_name(before);
  const NameOp op = std::move(name_ops_.at(id));
  name_ops_.erase(id);
  apply_durable(op);
}

void SimDisk::commit_with_directory(DiskOp op) {
  const auto found = name_ops_.find(op.value());
  if (found == name_ops_.end()) return commit(op);
  const auto directory = [](std::string_view path) { return path.substr(0, path.find_last_of('/') == std::string_view::npos ? 0 : path.find_last_of('/')); };
  std::vector<uint64_t> ids;
  for (auto it = name_ops_.begin(); it != found; ++it)
    if (directory(it->second.path) == directory(found->second.path)) ids.push_back(it->first);
  ids.push_back(op.value());
  for (const uint64_t id : ids) commit_name(id);
}

void SimDisk::apply_durable(const NameOp& op) {
  Inode replaced;
  if (const auto old = durable_names_.find(op.kind == NameOp::Kind::Rename ? op.other : op.path); old != durable_names_.end()) replaced = old->second.inode;
  switch (op.kind) {
    case NameOp::Kind::Create:
    case NameOp::Kind::Replace: durable_names_[op.path] = Name{op.inode}; break;
    case NameOp::Kind::MakeDirectory: durable_names_[op.path] = Name{}; break;
    case NameOp::Kind::Rename:
      durable_names_.erase(op.path);
      durable_names_[op.other] = Name{op.inode};
      break;
    case NameOp::Kind::Remove: durable_names_.erase(op.path); break;
  }
  if (replaced != Inode()) drop_if_unused(replaced);
}

void SimDisk::drop_if_unused(Inode inode) {
  const auto found = files_.find(inode);
  if (found == files_.end() || found->second.opens > 0) return;
  const auto names_it = [inode](const auto& item) { return item.second.inode == inode; };
  if (std::any_of(names_.begin(), names_.end(), names_it) || std::any_of(durable_names_.begin(), durable_names_.end(), names_it)) return;
  if (std::any_of(name_ops_.begin(), name_ops_.end(), names_it)) return;
  used_bytes_ -= kPageBytes + static_cast<uint64_t>(std::count(found->second.allocated.begin(), found->second.allocated.end(), true)) * kPageBytes;
  with_dirty_.erase(inode);
  files_.erase(found);
}

std::optional<Inode> SimDisk::lookup(std::string_view path) const {
  const auto found = names_.find(path);
  if (found == names_.end() || found->second.inode == Inode()) return std::nullopt;
  return found->second.inode;
}

std::string SimDisk::path_of(Inode inode) const { return file(inode).path; }

std::vector<FileEntry> SimDisk::list(std::string_view directory, Prng& order) const {
  while (directory.size() > 1 && directory.back() == '/') directory.remove_suffix(1);
  std::vector<FileEntry> out;
  for (auto it = names_.lower_bound(directory); it != names_.end() && it->first.substr(0, directory.size()) == directory; ++it) {
    if (!is_inside(it->first, directory)) continue;
    FileEntry entry;
    entry.path = it->first.substr(directory.size() + 1);
    entry.is_directory = it->second.inode == Inode();
    if (!entry.is_directory) {
      const File& f = file(it->second.inode);
      entry.size_bytes = f.size;
      entry.modified = f.modified;
    }
    out.push_back(std::move(entry));
  }
  order.shuffle(std::span(out));
  return out;
}

Result<std::vector<uint8_t>> SimDisk::read(std::string_view path, uint64_t bytes_max) const {
  const std::optional<Inode> inode = lookup(path);
  if (!inode) return Error(Errc::NotFound, std::string(path));
  const File& f = file(*inode);
  if (f.size > bytes_max) return Error(Errc::OutOfRange, fmt::format("{} has {} bytes", path, f.size));
  FULMAR_TRY_VOID(check_readable(*inode, {0, f.size}));
  return std::vector<uint8_t>(f.seen.get(), f.seen.get() + f.size);
}

void SimDisk::sync_name(std::string_view path) {
  std::vector<uint64_t> ids;
  for (const auto& [id, op] : name_ops_) {
    if (op.path == path || op.other == path || is_inside(path, op.path)) ids.push_back(id);
  }
  for (const uint64_t id : ids) commit_name(id);
}

bool SimDisk::is_name_durable(std::string_view path) const {
  const auto seen = names_.find(path);
  const auto durable = durable_names_.find(path);
  if (seen == names_.end() || durable == durable_names_.end() || !(seen->second == durable->second)) return false;
  bool has_parents = true;
  for_each_parent(path, [&](std::string_view parent) { has_parents = has_parents && durable_names_.find(parent) != durable_names_.end(); });
  return has_parents;
}

std::vector<DiskOp> SimDisk::pending_names() const {
  std::vector<DiskOp> out;
  for (const auto& [id, op] : name_ops_) out.push_back(DiskOp(id));
  return out;
}

// --- questions ------------------------------------------------------------------------------------------------------------------------

std::vector<std::string> SimDisk::files() const {
  std::vector<std::string> out;
  for (const auto& [path, name] : names_) {
    if (name.inode != Inode()) out.push_back(path);
  }
  return out;
}

Bytes SimDisk::contents(std::string_view path) const {
  const std::optional<Inode> inode = lookup(path);
  if (!inode) return {};
  const File& f = file(*inode);
  return {f.seen.get(), f.size};
}

uint64_t SimDisk::digest() const {
  uint64_t h = 0;
  for (const auto& [path, name] : names_) {
    h = mix64(h, hash_text(path));
    if (name.inode == Inode()) continue;
    const File& f = file(name.inode);
    h = mix64(h, f.size);
    for (uint64_t page = 0; page < f.touched.size(); ++page) {
      if (!f.touched[page]) continue;
      const uint32_t crc = crc32(Bytes(f.seen.get() + page * kPageBytes, page_length(f, page)));
      static constexpr uint8_t kZeros[kPageBytes] = {};
      // A touched page of zeros is no different from an untouched one.
      if (!equal(Bytes(f.seen.get() + page * kPageBytes, page_length(f, page)), Bytes(kZeros, page_length(f, page)))) h = mix64(h, mix64(page, crc));
    }
  }
  return h;
}

SimDisk SimDisk::clone() const {
  SimDisk out(profile_, Seed{}, 0, nullptr);  // what happens to a copy is not counted as a fault of this run
  out.write_back_ = write_back_;
  out.abandon_ = abandon_;
  out.names_ = names_;
  out.durable_names_ = durable_names_;
  out.name_ops_ = name_ops_;
  out.with_dirty_ = with_dirty_;
  out.used_by_others_ = used_by_others_;
  out.next_inode_ = next_inode_;
  out.next_op_ = next_op_;
  out.stores_ = stores_;
  for (const auto& [inode, f] : files_) {
    File copy;
    const size_t bytes = f.size == 0 ? 1 : f.size;
    copy.seen.reset(static_cast<uint8_t*>(std::calloc(bytes, 1)));
    copy.medium.reset(static_cast<uint8_t*>(std::calloc(bytes, 1)));
    CHECK(copy.seen != nullptr && copy.medium != nullptr, "{} bytes", f.size);
    for (uint64_t page = 0; page < f.touched.size(); ++page) {
      if (!f.touched[page]) continue;
      std::memcpy(copy.seen.get() + page * kPageBytes, f.seen.get() + page * kPageBytes, page_length(f, page));
      std::memcpy(copy.medium.get() + page * kPageBytes, f.medium.get() + page * kPageBytes, page_length(f, page));
    }
    copy.size = f.size;
    copy.modified = f.modified;
    copy.allocated = f.allocated;
    copy.touched = f.touched;
    copy.dirty = f.dirty;
    copy.lost = f.lost;
    copy.unreadable = f.unreadable;
    copy.path = f.path;
    out.files_.emplace(inode, std::move(copy));
  }
  out.count_space();
  return out;
}

}  // namespace fulmar::sim
