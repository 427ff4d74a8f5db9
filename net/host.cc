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

#include "net/errno.h"

namespace fulmar::net {

namespace {

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
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

void prepare_process() {
  std::signal(SIGPIPE, SIG_IGN);
  mallopt(M_ARENA_MAX, 2);
  ::setenv("UV_THREADPOOL_SIZE", "2", 0);
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

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

StopSignals::StopSignals(std::function<void(int)> on_stop) : on_stop_(std::move(on_stop)) {
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::make_unique<Thread>("fulmar-signals", kPoolStackBytes, [this, set] {
    for (bool is_first = true;; is_first = false) {
      siginfo_t info{};
      const int signal = sigwaitinfo(&set, &info);
      if (is_over_) return;
      if (signal < 0) continue;
      if (!is_first) ::_exit(1);
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
