#include "workers.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "core/base/check.h"

namespace fulmar::sim {
namespace {

double seconds_now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n <= 0) _exit(3);
    text.remove_prefix(static_cast<size_t>(n));
  }
}

std::string one_line_of(std::string text) {
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  return text;
}

struct Child {
  pid_t pid = -1;
  int to = -1, from = -1;
  std::string buffer;
  bool is_busy = false;
  uint64_t number = 0;
  double since = 0;
};

std::string describe_end(int status, const std::string& said) {
  std::string how = WIFSIGNALED(status) ? fmt::format("the process died of signal {}", WTERMSIG(status)) : fmt::format("the process ended with status {}", WEXITSTATUS(status));
  return said.empty() ? how : said;
}

Child spawn(const Workers::Work& work, const std::vector<Child>& others) {
  int down[2], up[2];
  if (pipe(down) != 0 || pipe(up) != 0) {
    std::perror("pipe");
    std::exit(1);
  }
  std::fflush(stdout);
  std::fflush(stderr);
  const pid_t pid = fork();
  if (pid < 0) {
    std::perror("fork");
    std::exit(1);
  }
  if (pid > 0) {
    close(down[0]);
    close(up[1]);
    return {pid, down[1], up[0], {}, false, 0, 0};
  }
  close(down[1]);
  close(up[0]);
  for (const Child& other : others) {
    if (other.to >= 0) close(other.to);
    if (other.from >= 0) close(other.from);
  }
  send_crash_reports_to(up[1]);
  uint64_t number = 0;
  while (read(down[0], &number, sizeof number) == sizeof number) write_all(up[1], one_line_of(work(number)) + "\n");
  _exit(0);
}

}  // namespace

void send_crash_reports_to(int fd) {
  static int target = -1;
  target = fd;
  crash_context().on_crash = [](const std::string& report, void*) { write_all(target, "!" + one_line_of(report) + "\n"); };
}

void Workers::run(const Next& next, const OnAnswer& on_answer, const std::function<void()>& idle) {
  signal(SIGPIPE, SIG_IGN);
  std::vector<Child> children(static_cast<size_t>(jobs_));
  bool is_over = false;
  const auto feed = [&](Child& child) {
    if (is_over) return;
    const std::optional<uint64_t> number = next();
    if (!number) { is_over = true; return; }
    if (child.pid < 0) child = spawn(work_, children);
    child.is_busy = true;
    child.number = *number;
    child.since = seconds_now();
    write_all(child.to, std::string_view(reinterpret_cast<const char*>(&*number), sizeof *number));
  };
  const auto bury = [&](Child& child, bool is_timed_out, const std::string& said) {
    close(child.to);
    close(child.from);
    int status = 0;
    waitpid(child.pid, &status, 0);
    const WorkAnswer answer{child.number, true, is_timed_out, is_timed_out ? fmt::format("no end after {} s", seconds_max_) : describe_end(status, said)};
    child = Child{};
    on_answer(answer);
  };
  for (Child& child : children) feed(child);
  double idle_at = seconds_now();
  while (true) {
    std::vector<pollfd> fds;
    std::vector<Child*> who;
    for (Child& child : children) {
      if (!child.is_busy) continue;
      fds.push_back({child.from, POLLIN, 0});
      who.push_back(&child);
    }
    if (fds.empty()) break;
    poll(fds.data(), fds.size(), 100);
    for (size_t i = 0; i < fds.size(); ++i) {
      Child& child = *who[i];
      if (fds[i].revents == 0) {
        if (seconds_now() - child.since > seconds_max_) {
          kill(child.pid, SIGKILL);
          bury(child, true, {});
          feed(child);
        }
        continue;
      }
      char chunk[65536];
      const ssize_t n = read(child.from, chunk, sizeof chunk);
      if (n > 0) child.buffer.append(chunk, static_cast<size_t>(n));
      const size_t end = child.buffer.find('\n');
      if (n <= 0 || (end != std::string::npos && child.buffer[0] == '!')) {
        const std::string said = end == std::string::npos ? "" : child.buffer.substr(1, end - 1);
        bury(child, false, said);
        feed(child);
      } else if (end != std::string::npos) {
        const WorkAnswer answer{child.number, false, false, child.buffer.substr(0, end)};
        child.buffer.clear();
        child.is_busy = false;
        on_answer(answer);
        feed(child);
      }
    }
    if (idle && seconds_now() - idle_at > 0.1) {
      idle_at = seconds_now();
      idle();
    }
  }
  for (Child& child : children) {
    if (child.pid < 0) continue;
    close(child.to);
    close(child.from);
    waitpid(child.pid, nullptr, 0);
  }
}

std::optional<std::string> run_in_child(const std::function<std::string()>& work, int seconds_max, std::string* how) {
  std::optional<std::string> out;
  bool is_given = false;
  Workers one(1, seconds_max, [&](uint64_t) { return work(); });
  one.run([&]() -> std::optional<uint64_t> { return std::exchange(is_given, true) ? std::nullopt : std::optional<uint64_t>(0); },
          [&](const WorkAnswer& answer) {
            if (!answer.is_crashed) out = answer.text;
            else if (how != nullptr) *how = answer.text;
          });
  return out;
}

}  // namespace fulmar::sim
