// Of the machine and the store directory.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "cmd/fulmar/checkup.h"
#include "cmd/fulmar/program.h"
#include "cmd/fulmar/store_files.h"
#include "net/host.h"

namespace fulmar::cmd {

namespace {

namespace fs = std::filesystem;
using Level = Finding::Level;

constexpr uint64_t kMiB = 1 << 20;

std::string mib(uint64_t bytes) { return fmt::format("{} MiB", bytes / kMiB); }

// The number behind `key` in a text of "key: value" lines, or of the whole text without a key.
std::optional<uint64_t> number_in(const std::string& path, std::string_view key = {}) {
  const Result<std::string> text = read_text(path);
  if (!text) return {};
  size_t at = key.empty() ? 0 : text->find(key);
  if (at == std::string::npos) return {};
  at = text->find_first_of("0123456789", at);
  uint64_t value = 0;
  if (at == std::string::npos || std::from_chars(text->data() + at, text->data() + text->size(), value).ec != std::errc()) return {};
  return value;
}

// The directory itself, or the nearest one above that is there.
fs::path nearest_existing(fs::path path) {
  std::error_code ignored;
  path = fs::absolute(path, ignored).lexically_normal();
  while (!fs::exists(path, ignored) && path.has_parent_path() && path != path.parent_path()) path = path.parent_path();
  return path;
}

void check_memory(Findings& out) {
  const auto available = number_in("/proc/meminfo", "MemAvailable:");
  uint64_t bytes = available ? *available * 1024 : UINT64_MAX;
  std::string where = "on this machine";
  if (const auto limit = number_in("/sys/fs/cgroup/memory.max"); limit && *limit < bytes) {
    bytes = *limit;
    where = "in this control group (memory.max)";
  }
  rlimit space{};
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
    out.push_back({Level::Notice, "memory", fmt::format("the address space is limited to {}", mib(space.rlim_cur)),
                   "log files are mapped whole, and that counts: lift the limit (ulimit -v unlimited, no LimitAS=)"});
  if (bytes == UINT64_MAX) return;
  if (bytes < 128 * kMiB) out.push_back({Level::Bad, "memory", fmt::format("{} available {}", mib(bytes), where), "a broker needs 128 MiB and page cache for what is read: free memory or raise the limit"});
  else if (bytes < 1024 * kMiB) out.push_back({Level::Notice, "memory", fmt::format("{} available {}", mib(bytes), where), "enough to run; consumers that lag read from the disk instead of the page cache"});
  else out.push_back({Level::Good, "memory", fmt::format("{} available {}", mib(bytes), where), ""});
}

// By number (linux/magic.h), with what matters for a log that is mapped and must survive a power cut.
struct FileSystem { uint32_t magic; const char* name; Level level; const char* fix; };
constexpr FileSystem kFileSystems[] = {
  {0xEF53, "ext4", Level::Good, ""},
  {0x58465342, "xfs", Level::Good, ""},
  {0x9123683E, "btrfs", Level::Notice, "copying on write makes every flush dearer: `chattr +C` on the empty directory, or use ext4 or xfs"},
  {0x01021994, "tmpfs", Level::Notice, "this is memory: a power cut or restart of the machine takes everything. Use a disk for what must stay"},
  {0x794C7630, "overlay", Level::Notice, "a container's own layer goes with the container: mount a volume for the store"},
  {0x6969, "NFS", Level::Bad, "a mapped log over NFS is not durable when it says so: use a local disk"},
  {0xFF534D42, "CIFS", Level::Bad, "a mapped log over CIFS is not durable when it says so: use a local disk"},
  {0xFE534D42, "SMB2", Level::Bad, "a mapped log over SMB is not durable when it says so: use a local disk"},
  {0x65735546, "FUSE", Level::Notice, "whether a flush is durable depends on what stands behind: prefer a local disk"},
};

void check_file_system(const std::string& where, Findings& out) {
  struct statfs info {};
  if (statfs(where.c_str(), &info) != 0) return;
  for (const FileSystem& known : kFileSystems) {
    if (known.magic != static_cast<uint32_t>(info.f_type)) continue;
    out.push_back({known.level, "file system", fmt::format("{} is on {}", where, known.name), known.fix});
    return;
  }
  out.push_back({Level::Notice, "file system", fmt::format("{} is on a file system of type 0x{:x}", where, static_cast<uint32_t>(info.f_type)), "not one that is tested: ext4 and xfs are"});
}

void check_space(const BrokerConfig& config, const std::string& where, Findings& out) {
  struct statvfs space {};
  if (statvfs(where.c_str(), &space) != 0) {
    out.push_back({Level::Bad, "disk", fmt::format("cannot ask how full {} is: {}", where, std::strerror(errno)), "is the disk mounted?"});
    return;
  }
  const uint64_t free = uint64_t{space.f_bavail} * space.f_frsize, used = (uint64_t{space.f_blocks} - space.f_bfree) * space.f_frsize;
  const uint64_t percent = DiskSpace{0, used, free}.percent_used();
  const std::string measured = fmt::format("{} % used, {} free under {}", percent, mib(free), where);
  const std::string fix = "free room on that disk, or keep the store elsewhere (storePathRootDir)";
  if (percent >= config.disk_refuse_percent || free < config.disk_free_bytes_min)
    out.push_back({Level::Bad, "disk", fmt::format("{}: sends are refused from {} % or below {} free", measured, config.disk_refuse_percent, mib(config.disk_free_bytes_min)), fix});
  else if (free < 2 * config.commit_log_file_bytes) out.push_back({Level::Notice, "disk", fmt::format("{}: less than two log files of {}", measured, mib(config.commit_log_file_bytes)), fix});
  else out.push_back({Level::Good, "disk", measured, ""});
  if (space.f_files != 0 && space.f_favail < 1000)
    out.push_back({space.f_favail < 16 ? Level::Bad : Level::Notice, "inodes", fmt::format("{} files may still be made under {}", static_cast<uint64_t>(space.f_favail), where), "every queue has files: remove small files there, or make the file system with more inodes"});
}

// A file of our own, written and flushed: permissions, quotas and a disk that cannot write show here; so does a slow one.
void check_writable(const std::string& where, Findings& out) {
  const std::string path = fmt::format("{}/.fulmar-doctor-{}", where, getpid());
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) {
    const bool is_read_only = errno == EROFS;
    out.push_back({Level::Bad, "permissions", fmt::format("cannot make a file in {}: {}", where, std::strerror(errno)),
                   is_read_only ? "the file system is mounted read-only: mount it for writing (after looking why)" : fmt::format("give user {} write permission there, or start as its owner", geteuid())});
    return;
  }
  const char page[4096] = {};
  std::string failure;
  std::chrono::microseconds slowest{0};
  for (int i = 0; i < 3 && failure.empty(); ++i) {
    const auto begin = std::chrono::steady_clock::now();
    if (pwrite(fd, page, sizeof page, i * static_cast<off_t>(sizeof page)) != static_cast<ssize_t>(sizeof page)) failure = fmt::format("cannot write in {}: {}", where, std::strerror(errno));
    else if (fdatasync(fd) != 0) failure = fmt::format("cannot flush in {}: {}", where, std::strerror(errno));
    slowest = std::max(slowest, std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin));
  }
  close(fd);
  unlink(path.c_str());
  if (!failure.empty()) out.push_back({Level::Bad, "permissions", failure, "look at the disk (dmesg), its quota and its space"});
  else if (slowest > std::chrono::milliseconds(50))
    out.push_back({Level::Notice, "flush", fmt::format("a flush took {} ms", slowest.count() / 1000), "every SYNC_FLUSH send waits for one: a faster disk, or ASYNC_FLUSH if its promise is enough"});
  else out.push_back({Level::Good, "flush", fmt::format("{} can be written, a flush takes {} us at most", where, slowest.count()), ""});
}

void check_format(const BrokerConfig& config, bool is_live, Findings& out) {
  std::error_code ignored;
  if (!fs::is_directory(config.store_path + "/commitlog", ignored)) {
    out.push_back({Level::Good, "store", fmt::format("{} has no log yet: the first start makes one", config.store_path), ""});
    return;
  }
  const Result<ReadOnlyFile> page = ReadOnlyFile::open(config.store_path + "/checkpoint");
  const auto checkpoint = page && page->bytes().size() == Checkpoint::kFileBytes ? Checkpoint::parse(page->bytes()) : std::nullopt;
  if (checkpoint && checkpoint->version > kStoreVersion)
    out.push_back({Level::Bad, "store", fmt::format("{} has version {}, this program knows versions up to {}", config.store_path, checkpoint->version, kStoreVersion), "start the newer program that wrote it"});
  const bool has_marker = fs::exists(config.store_path + "/abort", ignored);
  if (has_marker && !is_live)
    out.push_back({Level::Notice, "store", fmt::format("the last life of {} was not stopped in order (abort marker)", config.store_path), "nothing to do: the next start recovers. `fulmar store verify` looks closer"});
  else out.push_back({Level::Good, "store", fmt::format("{} {}", config.store_path, is_live ? "is in use" : checkpoint ? "was stopped in order" : "has no checkpoint of ours: the next start reads the whole log"), ""});
}

}  // namespace

void check_process_limits(Findings& out) {
  if (const auto enough = net::check_descriptors_for_serving(); !enough) {
    out.push_back({Level::Bad, "descriptors", enough.error().detail, "ulimit -n 65536, or LimitNOFILE=65536 in the unit"});
  } else {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    out.push_back({Level::Good, "descriptors", limit.rlim_cur == RLIM_INFINITY ? "no limit" : fmt::format("{} are allowed", limit.rlim_cur), ""});
  }
  check_memory(out);
  if (const auto maps = number_in("/proc/sys/vm/max_map_count"); maps && *maps < 16'384)
    out.push_back({Level::Notice, "mappings", fmt::format("a process may have {} mappings", *maps), "sysctl vm.max_map_count=65530: every open file of a store is one"});
}

void check_store(const BrokerConfig& config, Findings& out) {
  const bool is_live = net::lock_owner(config.store_path).has_value();
  std::error_code ignored;
  const std::string where = nearest_existing(config.store_path).string();
  if (!fs::is_directory(where, ignored)) {
    out.push_back({Level::Bad, "directory", fmt::format("{} is not a directory", where), "move that file away, or choose another place (storePathRootDir, --store)"});
    return;
  }
  check_file_system(where, out);
  check_space(config, where, out);
  check_writable(where, out);
  check_format(config, is_live, out);
}

void check_clock(const BrokerConfig& config, Findings& out) {
  const int64_t now = net::read_moment().wall.ms;
  constexpr int64_t kYear2024 = 1'704'067'200'000, kMinute = 60'000;
  timex state{};
  const bool is_unset = now < kYear2024;
  if (is_unset) out.push_back({Level::Bad, "clock", fmt::format("the clock says {} ms since 1970, which is before this program was written", now), "set it: messages carry its time, and retention goes by it"});
  else if (adjtimex(&state) >= 0 && (state.status & STA_UNSYNC) != 0)
    out.push_back({Level::Notice, "clock", "the kernel says that no time service keeps the clock", "run chrony or systemd-timesyncd: retention and queries by time go by it"});
  else out.push_back({Level::Good, "clock", "kept by a time service", ""});
  const Result<ReadOnlyFile> page = ReadOnlyFile::open(config.store_path + "/checkpoint");
  const auto checkpoint = page && page->bytes().size() == Checkpoint::kFileBytes ? Checkpoint::parse(page->bytes()) : std::nullopt;
  if (checkpoint && checkpoint->newest_stamp.ms > now + kMinute)
    out.push_back({Level::Notice, "clock", fmt::format("the newest message of the store is stamped {} s in the future", (checkpoint->newest_stamp.ms - now) / 1000),
                   "the clock was ahead, or is behind now: store stamps stand still until it has caught up"});
}

}  // namespace fulmar::cmd
