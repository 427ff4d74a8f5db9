#include "net/file_work.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "net/errno.h"

namespace fulmar::net {

namespace {

// By type and number, for kernels' headers that do not have them yet (Linux 5.14).
constexpr int kPopulateRead = 22, kPopulateWrite = 23;
constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kUnmapBytesMin = 4 * kPageBytes;   // below that a flush gains nothing by unmapping first

uint64_t page_down(uint64_t at) { return at & ~(kPageBytes - 1); }
uint64_t page_up(uint64_t at) { return (at + kPageBytes - 1) & ~(kPageBytes - 1); }

template <class Call>
auto uninterrupted(Call call) {
  auto outcome = call();
  while (outcome < 0 && errno == EINTR) outcome = call();
  return outcome;
}

Descriptor open_file(const std::string& path, int flags) {
  return Descriptor(uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0644); }));
}

// Populates the pages of [begin, end) in steps; `advice` is one of the two above. EAGAIN and EINTR mean "again".
int populate(uint8_t* base, uint64_t begin, uint64_t end, int advice) {
  for (uint64_t at = begin; at < end; at += kPopulateStepBytes) {
    const uint64_t bytes = std::min(kPopulateStepBytes, end - at);
    while (::madvise(base + at, bytes, advice) != 0) {
      if (errno != EINTR && errno != EAGAIN) return errno;
    }
  }
  return 0;
}

// Writes the zeros instead of storing them: pages that are not here yet are made in the page cache, where a store would first read them,
// and the read-ahead around them, from the file. (A queue file's first 64 KiB on a disk that reads 8 MiB ahead: 11 ms of a core, now 0.4.)
int zero_exactly(int fd, Range range) {
  static constexpr std::array<uint8_t, 64 * 1024> kZeros{};
  for (uint64_t at = range.begin; at < range.end;) {
    const size_t bytes = static_cast<size_t>(std::min<uint64_t>(range.end - at, kZeros.size()));
    const ssize_t written = uninterrupted([&] { return ::pwrite(fd, kZeros.data(), bytes, static_cast<off_t>(at)); });
    if (written < 0) return errno;
    at += static_cast<uint64_t>(written);
  }
  return 0;
}

// fdatasync of the pages of `range`, through any mapping of the file; 0 or errno is set. What is dirty elsewhere stays dirty: a log's place
// ahead of its writer would else be written, and faulted in, twice.
int sync_range(uint8_t* mapping, uint64_t size, Range range) {
  const uint64_t begin = page_down(range.begin), end = std::min(page_up(range.end), page_up(size));
  return uninterrupted([&] { return ::msync(mapping + begin, end - begin, MS_SYNC); });
}

Result<void> set_length_durably(int fd, const std::string& path, uint64_t size_bytes) {
  if (uninterrupted([&] { return ::ftruncate(fd, static_cast<off_t>(size_bytes)); }) != 0)
    return file_error(errno, "set the length of " + path);
  if (::fsync(fd) != 0) return file_error(errno, "sync " + path);
  return {};
}

Result<Descriptor> create_file(const std::string& path, uint64_t size_bytes, DurableDirectories& directories) {
  const std::string parent = parent_of(path);
  FULMAR_TRY_VOID(directories.make(parent));
  Descriptor made = open_file(path, O_RDWR | O_CREAT | O_EXCL);
  if (!made.is_open() && errno == ENOENT) {  // the directory was removed behind our back: once more, from the start
    directories.forget(parent);
    FULMAR_TRY_VOID(directories.make(parent));
    made = open_file(path, O_RDWR | O_CREAT | O_EXCL);
  }
  if (!made.is_open()) return file_error(errno, "create " + path);
  Result<void> outcome = set_length_durably(made.get(), path, size_bytes);
  if (outcome) outcome = sync_directory(parent);
  if (outcome) return made;
  ::unlink(path.c_str());  // no half-made file keeps a name
  return std::move(outcome.error());
}

Result<uint64_t> length_of(int fd, const std::string& path, uint64_t expected) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) return file_error(errno, "examine " + path);
  if (!S_ISREG(status.st_mode)) return Error(Errc::NotFound, path + " is not a file");
  const auto size = static_cast<uint64_t>(status.st_size);
  if (size == 0) return Error(Errc::WrongSize, path + " is empty");
  if (expected != 0 && size != expected) return Error(Errc::WrongSize, fmt::format("{} has {} bytes, not {}", path, size, expected));
  return size;
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

OpenFile::~OpenFile() {
  if (base != nullptr) ::munmap(base, size);
  for (uint8_t* view : flush_views) {
    if (view != nullptr) ::munmap(view, size);
  }
}

std::string parent_of(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Result<void> sync_directory(const std::string& directory) {
  const Descriptor opened = open_file(directory, O_RDONLY | O_DIRECTORY);
  if (!opened.is_open()) return file_error(errno, "open directory " + directory);
  // Some file systems have nothing to sync in a directory and say EINVAL.
  if (::fsync(opened.get()) != 0 && errno != EINVAL) return file_error(errno, "sync directory " + directory);
  return {};
}

bool DurableDirectories::knows(const std::set<std::string>& set, const std::string& directory) {
  const std::lock_guard lock(mutex_);
  return set.count(directory) != 0;
}

void DurableDirectories::forget(const std::string& directory) {
  const std::lock_guard lock(mutex_);
  known_.erase(directory);
  settled_.erase(directory);
}

Result<void> DurableDirectories::settle(const std::string& directory) {
  if (knows(settled_, directory)) return {};
  FULMAR_TRY_VOID(make(directory));
  FULMAR_TRY_VOID(sync_directory(directory));
  const std::lock_guard lock(mutex_);
  settled_.insert(directory);
  return {};
}

Result<void> DurableDirectories::make(const std::string& directory) {
  if (directory == "/" || directory == "." || knows(known_, directory)) return {};
  const std::string parent = parent_of(directory);
  bool is_new = ::mkdir(directory.c_str(), 0755) == 0;
  if (!is_new && errno == ENOENT) {
    forget(parent);
    FULMAR_TRY_VOID(make(parent));
    is_new = ::mkdir(directory.c_str(), 0755) == 0;
  }
  if (!is_new && errno != EEXIST) return file_error(errno, "create directory " + directory);
  // An earlier process may have made the directories above and died before it synced them.
  FULMAR_TRY_VOID(make(parent));
  if (auto synced = sync_directory(parent); !synced && (is_new || synced.code() != Errc::NotPermitted)) return synced;
  const std::lock_guard lock(mutex_);
  known_.insert(directory);
  return {};
}

namespace {

// The rest of map_file, once there is a descriptor.
Result<std::unique_ptr<OpenFile>> map_opened(const std::string& path, uint64_t size_bytes, bool is_writable, Descriptor descriptor) {
  auto file = std::make_unique<OpenFile>();
  file->path = path;
  file->is_writable = is_writable;
  file->descriptor = std::move(descriptor);
  FULMAR_TRY(file->size, length_of(file->descriptor.get(), path, size_bytes));
  if (file->is_writable) {
    const std::string itself = fmt::format("/proc/self/fd/{}", file->descriptor.get());
    for (uint8_t*& view : file->flush_views) {
      const Descriptor again = open_file(itself, O_RDWR);   // the mapping keeps its description
      if (!again.is_open()) return file_error(errno, "open again " + path);
      void* at = ::mmap(nullptr, file->size, PROT_NONE, MAP_SHARED, again.get(), 0);
      if (at == MAP_FAILED) return file_error(errno, "map again " + path);
      view = static_cast<uint8_t*>(at);
    }
  }
  void* base = ::mmap(nullptr, file->size, PROT_READ | (file->is_writable ? PROT_WRITE : 0), MAP_SHARED, file->descriptor.get(), 0);
  if (base == MAP_FAILED) return file_error(errno, "map " + path);
  file->base = static_cast<uint8_t*>(base);
  ::madvise(base, file->size, MADV_DONTDUMP);
  return file;
}

}  // namespace

Result<std::unique_ptr<OpenFile>> map_file(const std::string& path, uint64_t size_bytes, Open how, DurableDirectories& directories) {
  if (how == Open::New) {
    if (size_bytes == 0) return Error(Errc::InvalidArgument, path + " would be empty");
    FULMAR_TRY(Descriptor made, create_file(path, size_bytes, directories));
    auto file = map_opened(path, size_bytes, true, std::move(made));
    if (!file) ::unlink(path.c_str());
    return file;
  }
  const bool is_writable = how == Open::Existing;
  Descriptor found = open_file(path, is_writable ? O_RDWR : O_RDONLY);
  if (!found.is_open()) return file_error(errno, "open " + path);
  if (is_writable) FULMAR_TRY_VOID(directories.settle(parent_of(path)));
  return map_opened(path, size_bytes, is_writable, std::move(found));
}

Result<void> prepare_range(OpenFile& file, Range range, Zeros zeros) {
  if (range.empty()) return {};
  const int fd = file.descriptor.get();
  const auto reserve = [&] { return ::fallocate(fd, 0, static_cast<off_t>(range.begin), static_cast<off_t>(range.size())); };
  if (uninterrupted(reserve) != 0) return file_error(errno, fmt::format("reserve bytes [{}, {})", range.begin, range.end));
  if (const int failed = zero_exactly(fd, range); failed != 0) return file_error(failed, fmt::format("zero bytes [{}, {})", range.begin, range.end));
  // Before the pages are populated: what the sync cleans it protects again, page by page, and each first store would fault on the loop.
  if (zeros == Zeros::Durable && sync_range(file.base, file.size, range) != 0) {
    const int code = errno;
    file.has_flush_failed = true;  // stores of the node may have been among what was lost
    return file_error(code, "clean the prepared bytes");
  }
  const int failed = populate(file.base, page_down(range.begin), std::min(page_up(range.end), page_up(file.size)), kPopulateWrite);
  if (failed != 0) {
    // A page that cannot be made is told as a bad address: mostly because the file system has no block for it.
    struct statvfs space {};
    const bool is_full = failed == EFAULT && ::fstatvfs(fd, &space) == 0 && space.f_bavail * space.f_frsize < range.size() + (uint64_t{1} << 20);
    return file_error(is_full ? ENOSPC : failed == EFAULT ? EIO : failed, fmt::format("populate bytes [{}, {})", range.begin, range.end));
  }
  return {};
}

Result<void> warm_range(const OpenFile& file, Range range) {
  if (range.empty()) return {};
  const int failed = populate(file.base, page_down(range.begin), std::min(page_up(range.end), page_up(file.size)), kPopulateRead);
  if (failed == 0) return {};
  return Error(Errc::Unreadable, fmt::format("the disk cannot read bytes [{}, {})", range.begin, range.end));
}

void cool_range(const OpenFile& file, Range range) {
  const uint64_t begin = page_up(range.begin);
  const uint64_t end = range.end == file.size ? page_up(range.end) : page_down(range.end);
  // Of a shared mapping this only drops our page table entries: what was stored is in the page cache and stays dirty there.
  if (begin < end) ::madvise(file.base + begin, end - begin, MADV_DONTNEED);
}

Result<void> flush_range(OpenFile& file, Range range, size_t worker, bool is_appended) {
  if (!file.has_flush_failed) {
    // To clean a page that is mapped, the kernel interrupts every core that the process runs on, page by page; here once for all of them.
    // The pages stay in the cache: who reads them maps sixteen at a time.
    const uint64_t begin = page_down(range.begin), end = page_down(range.end);
    if (is_appended && end >= begin + kUnmapBytesMin) ::madvise(file.base + begin, end - begin, MADV_DONTNEED);
    if (sync_range(file.flush_views[worker], file.size, range) == 0 && !file.has_flush_failed) return {};
    const int code = errno;
    if (!file.has_flush_failed.exchange(true)) return Error(Errc::FlushFailed, file_error(code, "flush").detail);
  }
  return Error(Errc::FlushFailed, "cannot flush: an earlier flush failed");
}

}  // namespace fulmar::net
