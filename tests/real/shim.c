// Preloaded into a broker: writes a line for every socket read and write and every flush of a commit-log file to $SHIM_LOG, in the order in which they
// begin and end, and can let the $SHIM_FAIL_AT-th flush fail without syncing anything.
//   R fd port       bytes were read from a peer at that port
//   W fd port       bytes were written to it
//   B n / E n / F n flush number n began / ended well / failed
// A flush is an msync of a mapping that nobody can touch (net/file_work.h); preparing syncs through the mapping that is written.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_int next_sync = 1;

static void say(const char* format, ...) {
  static int log_fd = -1;
  if (log_fd < 0) log_fd = open(getenv("SHIM_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  char line[128];
  va_list args;
  va_start(args, format);
  int n = vsnprintf(line, sizeof line, format, args);
  va_end(args);
  syscall(SYS_write, log_fd, line, (size_t)n);  // one append: lines of all threads come in one order
}

// The peer's port, 0 when fd is no connected socket.
static int peer_port(int fd) {
  struct sockaddr_storage address;
  socklen_t bytes = sizeof address;
  if (getpeername(fd, (struct sockaddr*)&address, &bytes) != 0) return 0;
  if (address.ss_family == AF_INET) return ntohs(((struct sockaddr_in*)&address)->sin_port);
  if (address.ss_family == AF_INET6) return ntohs(((struct sockaddr_in6*)&address)->sin6_port);
  return 0;
}

static int is_flush_of_commit_log(const void* address) {
  FILE* maps = fopen("/proc/self/maps", "re");
  char line[4400];
  int found = 0;
  while (maps && fgets(line, sizeof line, maps)) {
    unsigned long begin, end;
    char rights[8];
    if (sscanf(line, "%lx-%lx %7s", &begin, &end, rights) != 3 || (unsigned long)address < begin || (unsigned long)address >= end) continue;
    found = strcmp(rights, "---s") == 0 && strstr(line, "/commitlog/") != NULL;
    break;
  }
  if (maps) fclose(maps);
  return found;
}

int msync(void* address, size_t bytes, int flags) {
  static int (*real)(void*, size_t, int);
  if (!real) real = (int (*)(void*, size_t, int))dlsym(RTLD_NEXT, "msync");
  if (!is_flush_of_commit_log(address)) return real(address, bytes, flags);
  int n = atomic_fetch_add(&next_sync, 1);
  const char* fail_at = getenv("SHIM_FAIL_AT");
  say("B %d\n", n);
  if (fail_at && atoi(fail_at) == n) {
    say("F %d\n", n);
    errno = EIO;
    return -1;
  }
  int result = real(address, bytes, flags);
  int saved = errno;
  say(result == 0 ? "E %d\n" : "F %d\n", n);
  errno = saved;
  return result;
}

#define SOCKET_CALL(name, mark, parameters, arguments)                                   \
  ssize_t name parameters {                                                              \
    static ssize_t(*real) parameters;                                                    \
    if (!real) real = (ssize_t(*) parameters)dlsym(RTLD_NEXT, #name);                    \
    int port = peer_port(fd);                                                            \
    if (port && mark == 'W') say("W %d %d\n", fd, port);                                 \
    ssize_t result = real arguments;                                                     \
    int saved = errno;                                                                   \
    if (port && mark == 'R' && result > 0) say("R %d %d\n", fd, port);                   \
    errno = saved;                                                                       \
    return result;                                                                       \
  }
SOCKET_CALL(read, 'R', (int fd, void* into, size_t bytes), (fd, into, bytes))
SOCKET_CALL(recvmsg, 'R', (int fd, struct msghdr* message, int flags), (fd, message, flags))
SOCKET_CALL(write, 'W', (int fd, const void* from, size_t bytes), (fd, from, bytes))
SOCKET_CALL(writev, 'W', (int fd, const struct iovec* from, int count), (fd, from, count))
SOCKET_CALL(sendmsg, 'W', (int fd, const struct msghdr* message, int flags), (fd, message, flags))
