#pragma once
// Work in child processes: a run that aborts or hangs takes down its child, never the count. Each child takes one item after the other
// and answers each with a line.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace fulmar::sim {

struct WorkItem { uint64_t number = 0; };
struct WorkAnswer {
  uint64_t number = 0;
  bool is_crashed = false;      // the child died, or was killed by the time-out: `text` says how
  bool is_timed_out = false;
  std::string text;
};

class Workers {
 public:
  using Work = std::function<std::string(uint64_t number)>;            // in the child; one line
  using Next = std::function<std::optional<uint64_t>()>;               // in the parent
  using OnAnswer = std::function<void(const WorkAnswer&)>;
  Workers(int jobs, int seconds_max, Work work) : jobs_(jobs), seconds_max_(seconds_max), work_(std::move(work)) {}
  // Until `next` says nothing and all items are answered. `idle` is called about ten times a second.
  void run(const Next& next, const OnAnswer& on_answer, const std::function<void()>& idle = {});

 private:
  int jobs_, seconds_max_;
  Work work_;
};

// Runs `work` in a child of its own and returns its line; nothing when the child died (then `how` says why).
std::optional<std::string> run_in_child(const std::function<std::string()>& work, int seconds_max, std::string* how);

// In a child: what a failed CHECK said, for the parent. Set by the child's loop.
void send_crash_reports_to(int fd);

}  // namespace fulmar::sim
