// The part of file_work.h that deals in names and whole contents rather than mapped ranges.

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <utility>

#include "net/errno.h"
#include "net/file_work.h"

namespace fulmar::net {

namespace {

constexpr int kListDepthMax = 32;
constexpr int kLinkDepthMax = 3;   // a commitlog or the queues of a topic may live on another disk; links further down are not followed

Result<void> write_all(int fd, Bytes bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return file_error(errno, "write " + path);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

Result<void> write_new(const std::string& path, Bytes contents) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file.is_open()) return file_error(errno, "create " + path);
  FULMAR_TRY_VOID(write_all(file.get(), contents, path));
  if (::fdatasync(file.get()) != 0) return file_error(errno, "sync " + path);
  return {};
}

using DirectoryId = std::pair<dev_t, ino_t>;

// `above`: the directories on the way here. A link that leads back to one of them is no directory to us.
Result<void> list_into(std::vector<FileEntry>& entries, std::vector<DirectoryId>& above, const std::string& directory, const std::string& prefix, int depth) {
  const std::unique_ptr<DIR, int (*)(DIR*)> opened(::opendir(directory.c_str()), &::closedir);
  if (opened == nullptr) {
    if (errno == ENOENT) return {};
    return file_error(errno, "list " + directory);
  }
  for (;;) {
    errno = 0;
    const dirent* next = ::readdir(opened.get());
    if (next == nullptr && errno != 0) return file_error(errno, "list " + directory);
    if (next == nullptr) return {};
    const std::string name = next->d_name;
    struct stat status{}, itself{};
    if (name == "." || name == ".." || ::fstatat(::dirfd(opened.get()), next->d_name, &status, 0) != 0) continue;
    // Most file systems say it with the name: a hundred thousand queues are as many calls less.
    const bool is_unsure = next->d_type == DT_UNKNOWN && ::fstatat(::dirfd(opened.get()), next->d_name, &itself, AT_SYMLINK_NOFOLLOW) == 0;
    const bool is_link = next->d_type == DT_LNK || (is_unsure && S_ISLNK(itself.st_mode));
    const DirectoryId id{status.st_dev, status.st_ino};
    if (is_link && S_ISDIR(status.st_mode) && (depth >= kLinkDepthMax || std::find(above.begin(), above.end(), id) != above.end())) continue;
    FileEntry entry;
    entry.path = prefix + name;
    entry.is_directory = S_ISDIR(status.st_mode);
    entry.size_bytes = entry.is_directory ? 0 : static_cast<uint64_t>(status.st_size);
    entry.modified.ms = int64_t{status.st_mtim.tv_sec} * 1000 + status.st_mtim.tv_nsec / 1'000'000;
    const bool goes_deeper = entry.is_directory && depth < kListDepthMax;
    entries.push_back(std::move(entry));
    if (!goes_deeper) continue;
    above.push_back(id);
    FULMAR_TRY_VOID(list_into(entries, above, directory + "/" + name, prefix + name + "/", depth + 1));
    above.pop_back();
  }
}

}  // namespace

Result<std::vector<uint8_t>> read_file(const std::string& path, uint64_t bytes_max) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a FIFO would wait for a writer
  if (!file.is_open()) return file_error(errno, "open " + path);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return file_error(errno, "examine " + path);
  if (!S_ISREG(status.st_mode)) return Error(Errc::NotFound, path + " is not a file");
  const auto size = static_cast<uint64_t>(status.st_size);
  if (size > bytes_max) return Error(Errc::OutOfRange, fmt::format("{} has {} bytes, at most {} were expected", path, size, bytes_max));
  std::vector<uint8_t> contents(size);
  size_t at = 0;
  while (at < contents.size()) {
    const ssize_t got = ::read(file.get(), contents.data() + at, contents.size() - at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error(errno == EIO ? Errc::Unreadable : file_error(errno, "").code, file_error(errno, "read " + path).detail);
    if (got == 0) break;
    at += static_cast<size_t>(got);
  }
  contents.resize(at);
  return contents;
}

Result<void> replace_file(const std::string& path, Bytes contents, DurableDirectories& directories) {
  const std::string parent = parent_of(path), temporary = path + ".tmp";
  FULMAR_TRY_VOID(directories.make(parent));
  Result<void> outcome = write_new(temporary, contents);
  if (!outcome && outcome.code() == Errc::NotFound) {  // the directory was removed behind our back
    directories.forget(parent);
    FULMAR_TRY_VOID(directories.make(parent));
    outcome = write_new(temporary, contents);
  }
  if (outcome && ::rename(temporary.c_str(), path.c_str()) != 0) outcome = file_error(errno, "replace " + path);
  if (outcome) return sync_directory(parent);
  ::unlink(temporary.c_str());
  return outcome;
}

Result<void> rename_file(const std::string& from, const std::string& to, DurableDirectories& directories, bool& has_moved) {
  has_moved = false;
  const std::string from_parent = parent_of(from), to_parent = parent_of(to);
  FULMAR_TRY_VOID(directories.make(to_parent));
  int failed = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0 ? 0 : errno;
  if (failed == EINVAL) {  // a file system without the flag: the store is locked, so nobody takes the name in between
    failed = ::access(to.c_str(), F_OK) == 0 ? EEXIST : ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
  }
  if (failed != 0) return file_error(failed, fmt::format("rename {} to {}", from, to));
  has_moved = true;
  FULMAR_TRY_VOID(sync_directory(to_parent));
  if (from_parent != to_parent) FULMAR_TRY_VOID(sync_directory(from_parent));
  return {};
}

Result<void> remove_path(const std::string& path, bool is_mapped, DurableDirectories& directories) {
  const std::string parent = parent_of(path);
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno != ENOENT && errno != ENOTDIR) return file_error(errno, "examine " + path);
    // Missing is fine, but whoever removed it may have died before the directory was synced.
    if (auto synced = sync_directory(parent); !synced && synced.code() != Errc::NotFound) return synced;
    return {};
  }
  if (S_ISDIR(status.st_mode)) {
    directories.forget(path);
    if (::rmdir(path.c_str()) != 0) {
      if (errno == ENOTEMPTY || errno == EEXIST) return Error(Errc::IoFailed, path + " is not empty");
      return file_error(errno, "remove directory " + path);
    }
    return sync_directory(parent);
  }
  const bool frees_in_steps =
      S_ISREG(status.st_mode) && !is_mapped && static_cast<uint64_t>(status.st_size) > kFreeStepBytes && status.st_nlink == 1;
  const Descriptor file(frees_in_steps ? ::open(path.c_str(), O_WRONLY | O_CLOEXEC) : -1);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return file_error(errno, "remove " + path);
  FULMAR_TRY_VOID(sync_directory(parent));
  // The name is gone for good; now the blocks, so that no single transaction of the file system has to free them all.
  if (file.is_open()) {
    for (auto left = static_cast<uint64_t>(status.st_size); left > kFreeStepBytes;) {
      left -= kFreeStepBytes;
      if (::ftruncate(file.get(), static_cast<off_t>(left)) != 0) break;  // then close() frees the rest
    }
  }
  return {};
}

Result<std::vector<FileEntry>> list_tree(const std::string& directory) {
  std::vector<FileEntry> entries;
  std::vector<DirectoryId> above;
  struct stat status{};
  if (::stat(directory.c_str(), &status) == 0) above.emplace_back(status.st_dev, status.st_ino);
  FULMAR_TRY_VOID(list_into(entries, above, directory, "", 0));
  return entries;
}

Result<DiskSpace> disk_space(const std::string& path) {
  std::string at = path;
  struct statvfs status{};
  while (::statvfs(at.c_str(), &status) != 0) {
    if (errno == EINTR) continue;
    if (errno != ENOENT || at == "/" || at == ".") return file_error(errno, "measure the disk of " + path);
    at = parent_of(at);  // not made yet: its disk is that of the directory above
  }
  const uint64_t block = status.f_frsize;
  return DiskSpace{status.f_blocks * block, (status.f_blocks - status.f_bfree) * block, status.f_bavail * block};
}

}  // namespace fulmar::net
