#include "net/uv_driver.h"

#include <pthread.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdio>

#include "core/base/check.h"
#include "net/host.h"

namespace fulmar::net {

namespace {

constexpr Duration kStopGrace = Duration::seconds(1);

uint64_t major_faults() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return static_cast<uint64_t>(usage.ru_majflt);
}

// A write to a peer that is gone is an error code, whatever the process thinks of SIGPIPE (an application that uses a client may not
// have asked itself). Blocked for good: unblocking would deliver what is pending.
void block_pipe_signal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

// The last events of the node go out with the report of a failed CHECK.
void print_recent(const std::string&, void* trace) {
  const std::string recent = static_cast<const Trace*>(trace)->recent();
  std::fwrite(recent.data(), 1, recent.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

UvDriver::UvDriver(NodeFactory factory, UvOptions options)
    : factory_(std::move(factory)), options_(std::move(options)), trace_(options_.sink) {
  CHECK(uv_loop_init(&loop_) == 0, "no event loop");
  // The handle carries nothing: a wake-up makes the turn look into posts and finished file work.
  uv_async_init(&loop_, &wake_, [](uv_async_t*) {});
  uv_timer_init(&loop_, &timer_);
  files_ = std::make_unique<MappedFiles>(file_table_, [this] { uv_async_send(&wake_); });
  streams_ = std::make_unique<UvStreams>(loop_, options_.read_arena_bytes, *files_, inputs_);
}

UvDriver::~UvDriver() {
  node_.reset();
  tear_down();
}

// --- any thread -------------------------------------------------------------------------------------------------------------------------

Result<void> UvDriver::post(CallId call, CommandMaker make) {
  const std::lock_guard lock(post_mutex_);
  if (is_gone_) return Error(Errc::Stopping, options_.name + " has ended");
  if (posted_.size() >= options_.posts_max) return Error(Errc::Full, fmt::format("{} commands wait for {}", posted_.size(), options_.name));
  posted_.push_back({call, std::move(make)});
  if (posted_.size() == 1) uv_async_send(&wake_);  // under the lock, so that the handle is still there
  return {};
}

void UvDriver::request_stop(CallId call, Duration deadline) {
  const Monotonic stop_by = read_moment().monotonic + deadline + kStopGrace;
  const std::lock_guard lock(post_mutex_);
  if (is_gone_) return;
  posted_stop_by_ = std::min(posted_stop_by_, stop_by);
  posted_.push_back({call, [deadline]() -> Command { return command::Stop{deadline}; }});  // a stop always finds room
  uv_async_send(&wake_);
}

void UvDriver::abandon() {
  is_abandoned_ = true;
  const std::lock_guard lock(post_mutex_);
  if (!is_gone_) uv_async_send(&wake_);
}

// --- the loop thread --------------------------------------------------------------------------------------------------------------------

Outcome UvDriver::run() {
  block_pipe_signal();
  faults_before_ = major_faults();
  now_ = read_moment();
  CrashContext& context = crash_context();
  const CrashContext before = context;
  context = {0, options_.seed.value, options_.name.c_str(), &print_recent, &trace_};
  Outcome outcome{Outcome::Kind::Halted, Error(Errc::NotReady, options_.name + " could not be made")};
  node_ = factory_(options_.seed, file_table_, trace_);
  while (node_ != nullptr) {
    if (is_abandoned_) {
      outcome = {Outcome::Kind::Abandoned, Error(Errc::Canceled)};
      break;
    }
    if (!turn()) continue;
    if (const auto ended = step()) {
      outcome = *ended;
      break;
    }
  }
  node_.reset();
  counters_.major_faults = major_faults() - faults_before_;
  tear_down();
  context = before;
  return outcome;
}

DriverCounters UvDriver::counters() const {
  DriverCounters counters = counters_;
  if (node_ != nullptr) counters.major_faults = major_faults() - faults_before_;
  return counters;
}

bool UvDriver::turn() {
  const bool is_ready = is_step_due_ || !inputs_.empty();
  if (!is_ready) arm_timer(std::min(deadline_, stop_by_));
  streams_->begin_turn();
  ++counters_.turns;
  uv_run(&loop_, is_ready ? UV_RUN_NOWAIT : UV_RUN_ONCE);
  collect();
  if (is_step_due_ || !inputs_.empty()) return true;
  return read_moment().monotonic >= std::min(deadline_, stop_by_);
}

void UvDriver::collect() {
  files_->collect(inputs_);
  taken_.clear();  // what the commands of the last step borrowed goes here
  {
    const std::lock_guard lock(post_mutex_);
    taken_.swap(posted_);
    stop_by_ = posted_stop_by_;
  }
  for (Posted& posted : taken_) inputs_.emplace_back(Told{posted.call, posted.make()});
}

// libuv counts milliseconds: rounded up, for a step that comes early finds nothing to do. It also fires timers before it polls, and with
// none left it would then poll for ever: so a fired one ends the turn.
void UvDriver::arm_timer(Monotonic deadline) {
  if (deadline == armed_for_) return;
  armed_for_ = deadline;
  if (deadline == Monotonic::never()) {
    uv_timer_stop(&timer_);
    return;
  }
  uv_update_time(&loop_);
  const int64_t left_ns = std::max<int64_t>((deadline - read_moment().monotonic).ns, 0);
  timer_.data = this;
  const auto on_fired = [](uv_timer_t* timer) {
    static_cast<UvDriver*>(timer->data)->armed_for_ = Monotonic::never();
    uv_stop(timer->loop);
  };
  uv_timer_start(&timer_, on_fired, static_cast<uint64_t>((left_ns + 999'999) / 1'000'000), 0);
}

std::unique_ptr<Outcome> UvDriver::step() {
  const Moment read = read_moment();
  now_ = {std::max(now_.monotonic, read.monotonic), read.wall, read.zone_s};
  if (now_.monotonic >= stop_by_) {
    return std::make_unique<Outcome>(
        Outcome{Outcome::Kind::Halted, Error(Errc::TimedOut, options_.name + " did not stop by its deadline")});
  }
  stepping_.swap(inputs_);
  trace_.begin_step(now_);
  crash_context().step = trace_.step();
  ++counters_.steps;
  counters_.inputs += stepping_.size();
  is_step_due_ = false;
  node_->step(now_, stepping_, outbox_);
  stepping_.clear();
  if (const Error* halted = outbox_.halted()) return std::make_unique<Outcome>(Outcome{Outcome::Kind::Halted, *halted});
  deadline_ = node_->next_deadline();
  is_step_due_ = outbox_.wants_step_again() || deadline_ <= now_.monotonic;
  carry_out();
  const bool is_stopped = outbox_.is_stopped();
  outbox_.clear();
  if (is_stopped) return std::make_unique<Outcome>(Outcome{Outcome::Kind::Stopped, Error(Errc::Stopping)});
  return nullptr;
}

void UvDriver::carry_out() {
  const auto one = [this](auto& r) {
    using R = std::decay_t<decltype(r)>;
    if constexpr (std::is_same_v<R, request::Tell>) {
      if (options_.on_tell) options_.on_tell(r.call, std::move(r.reply));
    } else if constexpr (std::is_same_v<R, request::Send>) {
      streams_->carry_out(r, outbox_);
    } else if constexpr (requires(UvStreams& streams) { streams.carry_out(r); }) {
      streams_->carry_out(r);
    } else {
      files_->carry_out(r);
    }
  };
  for (Request& request : outbox_.requests()) std::visit(one, request);
  streams_->end_of_outbox();
}

void UvDriver::tear_down() {
  if (files_ == nullptr) return;
  {
    const std::lock_guard lock(post_mutex_);
    is_gone_ = true;
  }
  streams_->shut_down();   // unpins what was being sent
  uv_close(reinterpret_cast<uv_handle_t*>(&timer_), nullptr);
  files_.reset();          // its threads use wake_
  uv_close(reinterpret_cast<uv_handle_t*>(&wake_), nullptr);
  while (uv_run(&loop_, UV_RUN_DEFAULT) != 0) {
  }
  CHECK(uv_loop_close(&loop_) == 0, "handles are left on the loop of {}", options_.name);
}

}  // namespace fulmar::net
