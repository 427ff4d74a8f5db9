#pragma once
// Progress of long work on stderr: one line that is written over on a terminal, a line a second otherwise.

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

namespace fulmar::cmd {

class Progress {
 public:
  explicit Progress(bool is_quiet = false) : is_quiet_(is_quiet), is_terminal_(isatty(STDERR_FILENO) == 1) {}
  ~Progress() { end(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Whether a second has passed since the last line.
  bool is_due() const { return !is_quiet_ && std::chrono::steady_clock::now() - shown_at_ >= std::chrono::seconds(1); }
  void show(const std::string& text) {
    if (is_quiet_) return;
    shown_at_ = std::chrono::steady_clock::now();
    std::fprintf(stderr, is_terminal_ ? "\r%s\033[K" : "%s\n", text.c_str());
    has_line_ = is_terminal_;
  }
  void end() {
    if (has_line_) std::fputs("\r\033[K", stderr);
    has_line_ = false;
  }

 private:
  const bool is_quiet_, is_terminal_;
  bool has_line_ = false;
  std::chrono::steady_clock::time_point shown_at_ = std::chrono::steady_clock::now();
};

}  // namespace fulmar::cmd
