// fulmar bench: load on a running cluster, and what it took: messages, latencies, CPU seconds of server and client.

#include <fmt/format.h>
#include <time.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <thread>

#include "cmd/fulmar/client_host.h"
#include "cmd/fulmar/load.h"
#include "cmd/fulmar/program.h"
#include "cmd/fulmar/progress.h"
#include "core/client/routes.h"
#include "net/host.h"

namespace fulmar::cmd {

namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kSteadyFiles = 2;   // log files that must have expired before a store counts as steady

struct BenchOptions {
  std::string name_servers, topic = "BenchmarkTest", mode = "produce", histogram_file;
  int connections = 16, in_flight = 256, queues = 16, batch = 32, server_pid = 0;
  size_t size = 128;
  double seconds = 10, warm = 1, rate = 0, steady_limit = 600;
  uint64_t count = 0;
  bool is_steady = false, is_json = false, is_quiet = false, has_no_key = false;
  bool is_consuming() const { return mode == "consume"; }
};

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

double own_cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

// What a measured phase came to.
struct Measured {
  double seconds = 0, server_cpu = 0, client_cpu = 0;   // CPU: seconds per million messages
  uint64_t messages = 0, refused = 0, body_bytes = 0;
  int32_t brokers = 0, queues = 0;
  bool has_server_cpu = false, is_interrupted = false;
};

class Bench {
 public:
  explicit Bench(const BenchOptions& options) : options_(options), progress_(options.is_quiet) {}

  int run() {
    net::StopSignals signals([this](int signal) {
      if (!is_loading_) std::_Exit(128 + signal);   // there is nothing to tell yet
      is_interrupted_ = true;
    });
    ClientHost client(options_.name_servers);
    if (std::string why; !client.is_reachable(why)) return complain(kNotConnected, why);
    LoadOptions load_options;
    if (const int status = find_targets(client, load_options); status != kDone) return status;
    if (!options_.is_steady) client.stop();
    Result<std::unique_ptr<Load>> opened = Load::open(std::move(load_options));
    if (!opened) return complain(kNotConnected, opened.error().detail);
    Load& load = **opened;
    is_loading_ = true;
    if (const int status = prepare(client, load); status != kDone) return status;
    client.stop();
    if (const int status = measure(load); status != kDone) return status;
    progress_.end();
    print(load);
    return write_histogram(load, measured_.is_interrupted ? kInterrupted : kDone);
  }

 private:
  static constexpr int kInterrupted = 130;   // as a shell says of ^C

  int find_targets(ClientHost& client, LoadOptions& out) {
    const auto ask = [&] { return client.call([topic = options_.topic] { return Command(command::QueryRoute{topic}); }); };
    Reply reply = ask();
    if (const auto* refusal = std::get_if<Refusal>(&reply); refusal != nullptr && refusal->code == Code::TopicNotExist && !options_.is_consuming()) {
      const int32_t queues = options_.queues;
      const Reply made = client.call([topic = options_.topic, queues] { return Command(command::CreateTopic{topic, queues, queues, kPermRead | kPermWrite}); });
      if (const auto* no = std::get_if<Refusal>(&made)) return complain(kFailed, *no);
      complain(kDone, fmt::format("made topic {} with {} queues", options_.topic, queues));
      const auto limit = Clock::now() + std::chrono::seconds(5);   // until the name server has heard of it
      while (std::holds_alternative<Refusal>(reply = ask()) && Clock::now() < limit) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    if (const auto* refusal = std::get_if<Refusal>(&reply)) return complain(kFailed, *refusal);
    const TopicRoute route(std::get<reply::Route>(reply));
    for (const TopicRoute::Broker& broker : route.brokers) {
      const int32_t queues = options_.is_consuming() ? broker.read_queues : broker.write_queues;
      if (queues == 0) continue;
      out.targets.push_back({broker.master, queues});
      measured_.queues += queues;
      ++measured_.brokers;
    }
    if (out.targets.empty()) return complain(kFailed, fmt::format("topic {} has no {} queues", options_.topic, options_.is_consuming() ? "readable" : "writable"));
    out.topic = options_.topic;
    out.connections = options_.connections;
    out.in_flight = options_.in_flight;
    out.body_bytes = options_.size;
    out.rate = options_.rate;
    out.pull_count = options_.is_consuming() ? options_.batch : 0;
    out.has_key = !options_.has_no_key;
    return kDone;
  }

  bool is_over_after(Clock::time_point begin, double seconds) const { return is_interrupted_ || seconds_since(begin) >= seconds; }

  int prepare(ClientHost& client, Load& load) {
    const auto begin = Clock::now();
    if (const auto ran = load.run([&] { return is_over_after(begin, options_.warm); }); !ran) return complain(kFailed, ran.error().detail);
    if (!options_.is_steady) return kDone;
    // Files that were used before are what a broker writes into after its first days: so fill until the first ones have expired.
    const auto least = std::make_shared<std::atomic<int64_t>>(-1);   // an answer may come late
    int64_t files = 0, last = -1;
    auto asked_at = Clock::now() - std::chrono::seconds(1);
    const auto is_over = [&] {
      if (Clock::now() - asked_at > std::chrono::milliseconds(250)) {
        asked_at = Clock::now();
        client.post([] { return Command(command::GetStatus{}); }, [least](const Reply& reply) { *least = log_begin_of(reply); });
      }
      const int64_t now = *least;
      if (now > last) files += last >= 0, last = now;
      if (progress_.is_due()) progress_.show(fmt::format("filling: {} messages, {} of {} log files expired", load.counts().messages, files, kSteadyFiles));
      return files >= kSteadyFiles || is_over_after(begin, options_.steady_limit);
    };
    const auto ran = load.run(is_over);
    if (!ran) return complain(kFailed, ran.error().detail);
    if (files >= kSteadyFiles || is_interrupted_) return kDone;
    return complain(kFailed, fmt::format("no steady state within {} s: {} log files expired. Let the broker keep less (fileReservedTime, mappedFileSizeCommitLog), or wait longer (--steady-limit)",
                                         options_.steady_limit, files));
  }

  static int64_t log_begin_of(const Reply& reply) {
    int64_t value = -1;
    if (const auto* status = std::get_if<reply::Status>(&reply))
      for (const auto& [name, text] : status->values)
        if (name == "commitLogMinOffset") std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  }

  int measure(Load& load) {
    const Load::Counts before = load.counts();
    load.latencies().reset();
    double server_before = 0;
    if (options_.server_pid != 0) {
      const Result<double> cpu = process_cpu_seconds(options_.server_pid);
      if (!cpu) return complain(kFailed, cpu.error().detail);
      server_before = *cpu;
    }
    const double client_before = own_cpu_seconds();
    const auto begin = Clock::now();
    uint64_t shown = before.messages;
    const auto is_over = [&] {
      if (progress_.is_due()) {
        progress_.show(fmt::format("{:.0f} s: {} messages/s, p99 {:.3f} ms so far", seconds_since(begin), load.counts().messages - shown, static_cast<double>(load.latencies().percentile_ns(0.99)) / 1e6));
        shown = load.counts().messages;
      }
      return is_over_after(begin, options_.seconds) || (options_.count != 0 && load.counts().messages - before.messages >= options_.count);
    };
    if (const auto ran = load.run(is_over); !ran) return complain(kFailed, ran.error().detail);
    measured_.seconds = seconds_since(begin);
    measured_.messages = load.counts().messages - before.messages;
    measured_.refused = load.counts().refused - before.refused;
    measured_.body_bytes = load.counts().body_bytes - before.body_bytes;
    measured_.is_interrupted = is_interrupted_;
    const double millions = static_cast<double>(std::max<uint64_t>(measured_.messages, 1)) / 1e6;
    measured_.client_cpu = (own_cpu_seconds() - client_before) / millions;
    if (options_.server_pid != 0) {
      if (const Result<double> cpu = process_cpu_seconds(options_.server_pid)) {
        measured_.server_cpu = (*cpu - server_before) / millions;
        measured_.has_server_cpu = true;
      }
    }
    return kDone;
  }

  void print(Load& load) const {
    const Measured& m = measured_;
    const double per_second = static_cast<double>(m.messages) / m.seconds, megabytes = static_cast<double>(m.body_bytes) / m.seconds / 1e6;
    const auto at = [&load](double share) { return static_cast<double>(load.latencies().percentile_ns(share)) / 1e3; };
    const double max = static_cast<double>(load.latencies().max_ns()) / 1e3, mean = load.latencies().mean_ns() / 1e3;
    if (options_.is_json) {
      say("{{\"mode\":\"{}\",\"topic\":{},\"brokers\":{},\"queues\":{},\"connections\":{},\"inFlight\":{},\"bodyBytes\":{},\"rate\":{:.1f},\"loop\":\"{}\",\"steady\":{},\"seconds\":{:.3f},\"messages\":{},"
          "\"refused\":{},\"messagesPerSecond\":{:.1f},\"megabytesPerSecond\":{:.3f},",
          options_.mode, json_text(options_.topic), m.brokers, m.queues, options_.connections, options_.in_flight, options_.size, options_.rate, options_.rate > 0 ? "open" : "closed", options_.is_steady,
          m.seconds, m.messages, m.refused, per_second, megabytes);
      say("\"latencyMicros\":{{\"count\":{},\"mean\":{:.1f},\"p50\":{:.1f},\"p90\":{:.1f},\"p99\":{:.1f},\"p999\":{:.1f},\"p9999\":{:.1f},\"max\":{:.1f}}},\"clientCpuSecondsPerMillion\":{:.4f}", load.latencies().count(),
          mean, at(0.5), at(0.9), at(0.99), at(0.999), at(0.9999), max, m.client_cpu);
      if (m.has_server_cpu) say(",\"serverCpuSecondsPerMillion\":{:.4f}", m.server_cpu);
      say(",\"interrupted\":{}}}\n", m.is_interrupted);
      return;
    }
    say("{} of topic {}: {} queues on {} broker{}, {} connections, {}, {} state\n", options_.is_consuming() ? "pulls" : "sends", options_.topic, m.queues, m.brokers, m.brokers == 1 ? "" : "s",
        options_.connections,
        options_.is_consuming() ? fmt::format("{} messages a pull", options_.batch)
                                : fmt::format("{} in flight each, bodies of {} B, {}", options_.in_flight, options_.size, options_.rate > 0 ? fmt::format("open loop at {:.0f}/s", options_.rate) : "closed loop"),
        options_.is_steady ? "steady" : "present");
    say("messages    {} in {:.1f} s: {:.0f}/s, {:.2f} MB/s{}\n", m.messages, m.seconds, per_second, megabytes, m.is_interrupted ? " (interrupted)" : "");
    say("latency     p50 {:.3f}  p90 {:.3f}  p99 {:.3f}  p99.9 {:.3f}  p99.99 {:.3f}  max {:.3f} ms, mean {:.3f} ms a {}\n", at(0.5) / 1e3, at(0.9) / 1e3, at(0.99) / 1e3, at(0.999) / 1e3, at(0.9999) / 1e3,
        max / 1e3, mean / 1e3, options_.is_consuming() ? "pull" : "message");
    if (m.has_server_cpu) say("server CPU  {:.3f} s per million messages (process {})\n", m.server_cpu, options_.server_pid);
    say("client CPU  {:.3f} s per million messages\n", m.client_cpu);
    if (m.refused > 0) say("refused     {}, first: {}\n", m.refused, load.first_refusal());
  }

  int write_histogram(Load& load, int status) const {
    if (options_.histogram_file.empty()) return status;
    std::ofstream out(options_.histogram_file);
    out << load.latencies().distribution();
    out.close();
    return out ? status : complain(kFailed, fmt::format("cannot write {}", options_.histogram_file));
  }

  const BenchOptions& options_;
  Progress progress_;
  std::atomic<bool> is_interrupted_{false}, is_loading_{false};
  Measured measured_;
};

int run_bench(const BenchOptions& options) {
  if (options.is_consuming() && options.is_steady) return complain(kUsage, "--steady fills the log, so it is for --mode produce");
  if (options.is_consuming() && options.rate > 0) return complain(kUsage, "--rate is for --mode produce");
  return Bench(options).run();
}

}  // namespace

void add_bench(CLI::App& app, Run& run) {
  CLI::App* verb = app.add_subcommand("bench", "load a running cluster and measure it; ^C ends early and prints what was measured (exit 130)");
  auto o = std::make_shared<BenchOptions>();
  verb->add_option("topic", o->topic, "topic; made when it does not exist")->capture_default_str();
  verb->add_option("--mode", o->mode, "produce: sends; consume: pulls of what is there, again and again")->check(CLI::IsMember({"produce", "consume"}))->capture_default_str();
  verb->add_option("--connections", o->connections, "connections, all on one thread")->check(CLI::Range(1, 10'000))->capture_default_str();
  verb->add_option("--in-flight", o->in_flight, "sends in flight on each connection")->check(CLI::Range(1, 8191))->capture_default_str();
  verb->add_option("--size", o->size, "bytes of a body")->check(CLI::Range(0, 4 << 20))->capture_default_str();
  verb->add_option("--batch", o->batch, "messages a pull")->check(CLI::Range(1, 1024))->capture_default_str();
  verb->add_option("--rate", o->rate, "open loop: so many messages a second, latencies from when each was due; 0: closed loop, as fast as answers come")->check(CLI::Range(0.0, 1e8));
  verb->add_option("--seconds", o->seconds, "how long to measure")->check(CLI::Range(0.01, 1e6))->capture_default_str();
  verb->add_option("--count", o->count, "stop earlier after so many messages");
  verb->add_option("--warm", o->warm, "seconds before measuring")->check(CLI::Range(0.0, 1e6))->capture_default_str();
  verb->add_flag("--steady", o->is_steady, "fill first until log files have expired, so that used ones are written again");
  verb->add_option("--steady-limit", o->steady_limit, "give up filling after so many seconds")->check(CLI::Range(1.0, 1e6))->capture_default_str();
  verb->add_option("--queues", o->queues, "queues of a topic that is made")->check(CLI::Range(1, 1024))->capture_default_str();
  verb->add_option("--server-pid", o->server_pid, "count the CPU seconds of this process as the server's")->check(CLI::PositiveNumber);
  verb->add_option("--histogram", o->histogram_file, "write all percentiles to a file, as HdrHistogram prints them");
  verb->add_flag("--no-key", o->has_no_key, "without the unique key that clients add");
  verb->add_flag("--quiet", o->is_quiet, "no progress");
  verb->add_flag("--json", o->is_json, "one JSON object");
  add_name_servers_option(verb, o->name_servers);
  verb->callback([o, &run] { run = [o] { return run_bench(*o); }; });
}

}  // namespace fulmar::cmd
