#include "cmd/fulmar/store_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>

namespace fulmar::cmd {

Result<ReadOnlyFile> ReadOnlyFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return Error(errno == ENOENT ? Errc::NotFound : Errc::NotPermitted, fmt::format("cannot open {}: {}", path, std::strerror(errno)));
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0) {
    close(fd);
    return ReadOnlyFile(nullptr, 0);
  }
  void* base = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (base == MAP_FAILED) return Error(Errc::IoFailed, fmt::format("cannot map {}: {}", path, std::strerror(errno)));
  return ReadOnlyFile(static_cast<const uint8_t*>(base), static_cast<size_t>(info.st_size));
}

ReadOnlyFile::ReadOnlyFile(ReadOnlyFile&& other) noexcept : base_(other.base_), size_(other.size_) {
  other.base_ = nullptr;
  other.size_ = 0;
}

ReadOnlyFile::~ReadOnlyFile() {
  if (base_ != nullptr) munmap(const_cast<uint8_t*>(base_), size_);
}

namespace fs = std::filesystem;

namespace {

std::vector<fs::path> sorted_entries(const fs::path& directory) {
  std::vector<fs::path> out;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored)) out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

Result<StoreFiles> StoreFiles::open(const std::string& root, std::vector<std::string>& oddities) {
  StoreFiles out;
  if (!fs::is_directory(root)) return Error(Errc::NotFound, fmt::format("{} is not a directory", root));
  if (!fs::is_directory(root + "/commitlog")) return Error(Errc::NotFound, fmt::format("{} is not a store: it has no commitlog directory", root));
  for (const fs::path& path : sorted_entries(root + "/commitlog")) {
    const std::optional<uint64_t> start = parse_segment_name(path.filename().string());
    if (!start) {
      oddities.push_back(fmt::format("stray file {}", path.string()));
      continue;
    }
    FULMAR_TRY(ReadOnlyFile file, ReadOnlyFile::open(path.string()));
    if (file.bytes().empty()) {
      oddities.push_back(fmt::format("empty segment {}: a start removes it", path.string()));
      continue;
    }
    if (!out.log.empty() && out.limit() != *start) oddities.push_back(fmt::format("gap in the commit log: [{}, {}) is missing", out.limit(), *start));
    out.log.push_back({*start, std::move(file), path.string()});
  }
  for (const fs::path& topic : sorted_entries(root + "/consumequeue")) {
    for (const fs::path& queue : sorted_entries(topic)) {
      int32_t id = 0;
      const std::string name = queue.filename().string();
      const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
      if (error != std::errc() || end != name.data() + name.size()) {
        oddities.push_back(fmt::format("stray directory {}", queue.string()));
        continue;
      }
      for (const fs::path& path : sorted_entries(queue)) {
        const std::optional<uint64_t> start = parse_segment_name(path.filename().string());
        FULMAR_TRY(ReadOnlyFile file, ReadOnlyFile::open(path.string()));
        if (!start || file.bytes().empty()) {
          oddities.push_back(fmt::format("stray file {}", path.string()));
          continue;
        }
        out.queues[{topic.filename().string(), id}].push_back({*start, std::move(file)});
      }
    }
  }
  for (const fs::path& path : sorted_entries(root + "/index")) {
    FULMAR_TRY(ReadOnlyFile file, ReadOnlyFile::open(path.string()));
    if (file.bytes().size() < 40) oddities.push_back(fmt::format("index file {} is too short", path.string()));
    else out.index.push_back({path.filename().string(), std::move(file)});
  }
  if (Result<ReadOnlyFile> page = ReadOnlyFile::open(root + "/checkpoint"); page && page->bytes().size() == Checkpoint::kFileBytes)
    out.checkpoint = Checkpoint::parse(page->bytes());
  out.has_abort = fs::exists(root + "/abort");
  return out;
}

const LogFile* StoreFiles::find(uint64_t offset) const {
  const auto after = std::upper_bound(log.begin(), log.end(), offset, [](uint64_t o, const LogFile& f) { return o < f.start; });
  return after == log.begin() || offset >= (after - 1)->end() ? nullptr : &*(after - 1);
}

Bytes StoreFiles::at(uint64_t offset) const {
  const LogFile* file = find(offset);
  return file == nullptr ? Bytes() : file->file.bytes().subspan(offset - file->start);
}

uint64_t StoreFiles::next_data(uint64_t offset) const {
  for (const LogFile* file = find(offset); file != nullptr; file = find(offset)) {
    const int fd = ::open(file->path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return offset;
    const off_t found = lseek(fd, static_cast<off_t>(offset - file->start), SEEK_DATA);
    const bool is_hole = found < 0 && errno == ENXIO;   // to the end of the file
    close(fd);
    if (!is_hole) return found < 0 ? offset : file->start + static_cast<uint64_t>(found);
    offset = file->end();
  }
  return limit();
}

}  // namespace fulmar::cmd
