#include "cmd/fulmar/metrics_port.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "cmd/fulmar/program.h"
#include "net/http/metrics_text.h"

namespace fulmar::cmd {

namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kPatienceMs = 1000;                          // for one answer of a loop
constexpr auto kScrapePatience = std::chrono::seconds(2);      // for one's turn
constexpr auto kScrapeTime = std::chrono::seconds(30);         // of a whole scrape, with the reading of it
constexpr int32_t kPageSamples = 250;                          // some 200 us of the loop
constexpr size_t kPieceBytes = 64 * 1024;

using enum MetricKind;
constexpr MetricFamily kLoopAnswer{"fulmar_loop_answer_seconds", "How long the loop of a node took to answer this scrape's first question", Gauge, {}, 6};
constexpr MetricFamily kLoopSteps{"fulmar_loop_steps_total", "Steps of a node", Counter};
constexpr MetricFamily kLoopInputs{"fulmar_loop_inputs_total", "Inputs of a node", Counter};
constexpr MetricFamily kLoopFaults{"fulmar_loop_major_faults_total", "Times that a loop waited for the disk in a page fault", Counter};
constexpr MetricFamily kEvents{"fulmar_events_total", "Warnings and errors in the log, by name", Counter};
// As Prometheus' own client libraries call them.
constexpr MetricFamily kResident{"process_resident_memory_bytes", "Resident memory"};
constexpr MetricFamily kOpenFiles{"process_open_fds", "Open descriptors"};
constexpr MetricFamily kMaxFiles{"process_max_fds", "Descriptors that the process may open"};
constexpr MetricFamily kCpu{"process_cpu_seconds_total", "User and system time", Counter, {}, 6};

net::HttpAnswer refusal(int status, std::string text) {
  net::HttpAnswer out;
  out.status = status;
  out.text = std::move(text);
  return out;
}

std::string silent(const ServedNode& node) {
  return node.has_ended() ? fmt::format("{}: it has ended\n", node.name()) : fmt::format("{}: its loop has not answered for {} ms\n", node.name(), kPatienceMs);
}

void add_process(reply::Metrics& page) {
  const auto add = [&page](const MetricFamily& family, int64_t value) { page.samples.push_back({&family, {}, value}); };
  uint64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  add(kResident, static_cast<int64_t>(resident) * sysconf(_SC_PAGESIZE));
  std::error_code ignored;
  int64_t open = 0;
  for (std::filesystem::directory_iterator file("/proc/self/fd", ignored), end; file != end; file.increment(ignored)) ++open;
  add(kOpenFiles, open);
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  add(kMaxFiles, static_cast<int64_t>(files.rlim_cur));
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  add(kCpu, (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * int64_t{1'000'000} + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

}  // namespace

// One scrape while it is sent: node after node, page after page, at last what the process knows itself.
class MetricsPort::Scrape {
 public:
  Scrape(MetricsPort& port, std::vector<ServedNode*> nodes) : port_(port), nodes_(std::move(nodes)) {}
  ~Scrape() { port_.scrapes_.release(); }
  Scrape(const Scrape&) = delete;
  Scrape& operator=(const Scrape&) = delete;

  // About kPieceBytes; empty at the end. TimedOut: who, in the detail.
  Result<std::string> next() {
    std::string out;
    while (out.size() < kPieceBytes && !is_over_) {
      if (Clock::now() - began_ > kScrapeTime) return Error(Errc::TimedOut, "this scrape takes too long\n");
      FULMAR_TRY(std::string more, node_ < nodes_.size() ? next_page() : Result<std::string>(own_part()));
      out += more;
    }
    return out;
  }

 private:
  Result<std::string> next_page() {
    ServedNode& node = *nodes_[node_];
    const auto asked = Clock::now();
    const auto reply = node.ask([at = at_] { return Command(command::GetMetrics{at.family, at.group, at.topic, kPageSamples}); }, kPatienceMs);
    const auto* page = reply ? std::get_if<reply::Metrics>(&*reply) : nullptr;
    if (page == nullptr) return Error(Errc::TimedOut, silent(node));
    if (at_.family == 0) answer_us_.push_back(std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - asked).count());
    text_.add(*page);
    at_ = page->next.value_or(MetricCursor{});
    if (!page->next) ++node_;
    return text_.take();
  }

  std::string own_part() {
    is_over_ = true;
    reply::Metrics own;
    const auto add = [&](const MetricFamily& family, auto value_of) {
      for (size_t i = 0; i < nodes_.size(); ++i) own.samples.push_back({&family, {{"node", nodes_[i]->name()}}, static_cast<int64_t>(value_of(i))});
    };
    std::vector<ServedNode::Counters> counters;
    for (const ServedNode* node : nodes_) counters.push_back(node->counters());
    add(kLoopAnswer, [&](size_t i) { return answer_us_[i]; });
    add(kLoopSteps, [&](size_t i) { return counters[i].driver.steps; });
    add(kLoopInputs, [&](size_t i) { return counters[i].driver.inputs; });
    add(kLoopFaults, [&](size_t i) { return counters[i].driver.major_faults; });
    for (size_t i = 0; i < nodes_.size(); ++i)
      for (const auto& [event, count] : counters[i].events)
        own.samples.push_back({&kEvents, {{"node", nodes_[i]->name()}, {"level", std::string(to_string(event.first))}, {"event", std::string(event.second)}}, static_cast<int64_t>(count)});
    add_process(own);
    text_.add(own);
    return text_.take();
  }

  MetricsPort& port_;
  const std::vector<ServedNode*> nodes_;
  const Clock::time_point began_ = Clock::now();
  size_t node_ = 0;
  MetricCursor at_;
  std::vector<int64_t> answer_us_;
  net::MetricsText text_;
  bool is_over_ = false;
};

bool MetricsPort::open() {
  if (!wanted_) return true;
  auto server = net::HttpServer::start(*wanted_, [this](std::string_view path) { return answer(path); });
  if (server) {
    server_ = *std::move(server);
    return true;
  }
  complain(kFailed, fmt::format("the metrics port cannot be opened: {}{}; another address: --metrics HOST:PORT (metricsPromExporterPort), or none: --metrics off", server.error().detail,
                                server.error().code == Errc::AddressInUse ? " (taken by another process)" : ""));
  return false;
}

void MetricsPort::watch(ServedNode& node) {
  const std::lock_guard lock(mutex_);
  nodes_.push_back(&node);
}

std::string MetricsPort::url() const { return fmt::format("http://{}/metrics", server_->at().text()); }

std::vector<ServedNode*> MetricsPort::nodes() const {
  const std::lock_guard lock(mutex_);
  return nodes_;
}

net::HttpAnswer MetricsPort::answer(std::string_view path) {
  if (path == "/metrics") return metrics();
  if (path == "/healthz") return health(false);
  if (path == "/readyz") return health(true);
  return refusal(404, "there are /metrics, /healthz and /readyz\n");
}

net::HttpAnswer MetricsPort::health(bool needs_readiness) {
  std::string wrong;
  const std::vector<ServedNode*> nodes = this->nodes();
  for (ServedNode* node : nodes) {
    const auto reply = node->ask([] { return Command(command::GetHealth{}); }, kPatienceMs);
    const auto* found = reply ? std::get_if<reply::Health>(&*reply) : nullptr;
    if (found == nullptr) {
      wrong += silent(*node);
      continue;
    }
    for (const std::string& want : found->wants)
      if (needs_readiness) wrong += fmt::format("{}: {}\n", node->name(), want);
  }
  if (needs_readiness && nodes.size() < node_count_) wrong += "still starting\n";
  if (!wrong.empty()) return refusal(503, std::move(wrong));
  return refusal(200, needs_readiness ? "ready\n" : "ok\n");
}

net::HttpAnswer MetricsPort::metrics() {
  if (!scrapes_.try_acquire_for(kScrapePatience)) return refusal(503, fmt::format("{} other scrapes are being served\n", kScrapesMax));
  auto scrape = std::make_shared<Scrape>(*this, nodes());
  Result<std::string> first = scrape->next();
  if (!first) return refusal(503, first.error().detail);
  net::HttpAnswer out;
  out.content_type = net::kMetricsTextType;
  out.text = *std::move(first);
  out.more = [scrape] { return scrape->next(); };
  return out;
}

}  // namespace fulmar::cmd
