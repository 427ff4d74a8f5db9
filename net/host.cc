#include "net/host.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>
#include <utility>

#include "net/errno.h"

namespace fulmar::net {

namespace {

constexpr rlim_t kDescriptorsMin = 24, kServingDescriptorsMin = 4096;   // the second: files take up to 3,600 (uv_streams.h)

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  struct sigaction hangup{};
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) sigaddset(&set, SIGHUP);
  return set;
}

// "process 4711", from the lock itself when it is a POSIX lock (Java's is), else from what the owner wrote into the file.
std::string owner_of(int fd) {
  struct flock owner{};
  owner.l_type = F_WRLCK;
  owner.l_whence = SEEK_SET;
  owner.l_len = 1;
  if (::fcntl(fd, F_OFD_GETLK, &owner) == 0 && owner.l_type != F_UNLCK && owner.l_pid > 0) return fmt::format("process {}", owner.l_pid);
  char text[32] = {};
  const ssize_t bytes = ::pread(fd, text, sizeof text - 1, 0);
  const long pid = bytes > 0 ? std::strtol(text, nullptr, 10) : 0;
  return pid > 0 ? fmt::format("process {}", pid) : "another process";
}

}  // namespace

namespace {

Result<void> check_descriptors(rlim_t least) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= least) return {};
  return Error(Errc::Full, fmt::format("at most {} file descriptors are allowed, at least {} are needed: raise the limit (ulimit -n, LimitNOFILE)", limit.rlim_cur, least));
}

// Nothing that is stored depends on an orderly end: the next start recovers.
[[noreturn]] void on_no_memory() {
  constexpr std::string_view kSentence = "fulmar: out of memory: raise the limit (ulimit -v, MemoryMax) or the machine's memory\n";
  [[maybe_unused]] const ssize_t written = ::write(2, kSentence.data(), kSentence.size());
  ::_exit(1);
}

}  // namespace

Result<void> prepare_process() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", O_RDWR) < 0) return file_error(errno, "open /dev/null");  // the lowest free number is fd
  }
  std::set_new_handler(&on_no_memory);
  mallopt(M_ARENA_MAX, 2);
  mallopt(M_MMAP_THRESHOLD, 1 << 20);  // fixed: what a large frame took goes back to the system with it
  ::setenv("UV_THREADPOOL_SIZE", "2", 0);
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  return check_descriptors(kDescriptorsMin);
}

Result<void> check_descriptors_for_serving() { return check_descriptors(kServingDescriptorsMin); }

Moment read_moment() {
  timespec monotonic{}, wall{};
  clock_gettime(CLOCK_MONOTONIC, &monotonic);
  clock_gettime(CLOCK_REALTIME, &wall);
  static thread_local time_t zone_minute = -1;
  static thread_local int32_t zone_s = 0;
  if (wall.tv_sec / 60 != zone_minute) {
    zone_minute = wall.tv_sec / 60;
    tm local{};
    localtime_r(&wall.tv_sec, &local);
    zone_s = static_cast<int32_t>(local.tm_gmtoff);
  }
  Moment now;
  now.monotonic.ns = int64_t{monotonic.tv_sec} * 1'000'000'000 + monotonic.tv_nsec;
  now.wall.ms = int64_t{wall.tv_sec} * 1000 + wall.tv_nsec / 1'000'000;
  now.zone_s = zone_s;
  return now;
}

Seed random_seed() {
  Seed seed;
  CHECK(getrandom(&seed.value, sizeof seed.value, 0) == static_cast<ssize_t>(sizeof seed.value));
  return seed;
}

std::optional<std::string> lock_owner(const std::string& store_directory) {
  const Descriptor file(::open((store_directory + "/lock").c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  struct flock wanted{};
  wanted.l_type = F_WRLCK;
  wanted.l_whence = SEEK_SET;
  wanted.l_len = 1;
  if (!file.is_open() || ::fcntl(file.get(), F_OFD_GETLK, &wanted) != 0 || wanted.l_type == F_UNLCK) return std::nullopt;
  return owner_of(file.get());
}

Result<StoreLock> StoreLock::take(const std::string& store_directory) {
  DurableDirectories directories;
  FULMAR_TRY_VOID(directories.make(store_directory));
  const std::string path = store_directory + "/lock";
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!file.is_open()) return file_error(errno, "open " + path);
  struct flock mine{};
  mine.l_type = F_WRLCK;
  mine.l_whence = SEEK_SET;
  mine.l_len = 1;
  if (::fcntl(file.get(), F_OFD_SETLK, &mine) != 0) {
    if (errno != EAGAIN && errno != EACCES) return file_error(errno, "lock " + path);
    return Error(Errc::Locked, fmt::format("the store {} is in use by {} (it holds {})", store_directory, owner_of(file.get()), path));
  }
  const std::string pid = fmt::format("{}\n", ::getpid());
  if (::ftruncate(file.get(), 0) != 0 || ::pwrite(file.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return file_error(errno, "write " + path);
  }
  return StoreLock(std::move(file));
}

namespace {

// Nothing that is stored depends on an orderly end: the next start recovers.
[[noreturn]] void end_at_once() {
  constexpr std::string_view kSentence = "fulmar: was stopping already; a second signal ends it at once, and the next start recovers what was not written\n";
  [[maybe_unused]] const ssize_t written = ::write(2, kSentence.data(), kSentence.size());
  ::_exit(1);
}

}  // namespace

StopSignals::StopSignals(std::function<void(int)> on_stop, std::function<void()> on_hangup) : on_stop_(std::move(on_stop)), on_hangup_(std::move(on_hangup)) {
  const sigset_t set = stop_signals();
  const bool has_terminal = ::isatty(STDIN_FILENO) == 1;
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::make_unique<Thread>("fulmar-signals", kPoolStackBytes, [this, set, has_terminal] {
    for (bool is_first = true;;) {
      siginfo_t info{};
      const int signal = sigwaitinfo(&set, &info);
      if (is_over_) return;
      if (signal < 0) continue;   // SIGSTOP and SIGCONT interrupt it
      if (signal == SIGHUP && !has_terminal) {
        if (on_hangup_) on_hangup_();
        continue;
      }
      if (!std::exchange(is_first, false)) end_at_once();
      on_stop_(signal);
    }
  });
}

StopSignals::~StopSignals() {
  is_over_ = true;
  thread_->send_signal(SIGTERM);  // it waits in sigwaitinfo
  thread_->join();
}

void LogSink::on_event(const TraceRecord& record) {
  if (record.info->level < least_) return;
  print(record.info->level, record.info->name, record.describe());
}

void LogSink::say(Level level, std::string_view text) {
  if (level >= least_) print(level, "Host", text);
}

void LogSink::print(Level level, std::string_view name, std::string_view text) {
  const Moment now = read_moment();
  const time_t seconds = now.wall.ms / 1000;
  tm utc{};
  gmtime_r(&seconds, &utc);
  char stamp[32];
  const size_t stamp_bytes = strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
  std::string line =
      fmt::format("{}.{:03}Z {} {} {}: ", std::string_view(stamp, stamp_bytes), now.wall.ms % 1000, to_string(level), node_, name);
  for (const char c : text) line += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;  // names come from strangers; a line stays one
  line += '\n';
  // One write call for one line. A log that cannot be written is no reason to stop.
  [[maybe_unused]] const ssize_t written = ::write(descriptor_, line.data(), line.size());
}

}  // namespace fulmar::net
