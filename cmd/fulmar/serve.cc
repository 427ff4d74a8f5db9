// fulmar dev, namesrv, broker: run nodes until a signal stops them.

#include <fmt/format.h>

#include <condition_variable>
#include <cstdio>
#include <mutex>

#include "cmd/fulmar/metrics_port.h"
#include "cmd/fulmar/program.h"
#include "cmd/fulmar/served_node.h"
#include "cmd/fulmar/server_config.h"

namespace fulmar::cmd {

namespace {

constexpr int64_t kStopSeconds = 30;
constexpr int64_t kStartLimitMs = 600'000;  // a recovery may be long; signals end it at any time

Level level_of(const std::string& name) {
  if (name == "debug") return Level::Debug;
  if (name == "warning") return Level::Warning;
  if (name == "error") return Level::Error;
  return Level::Info;
}

// Ends when a signal comes or any of the nodes ends. Made before any other thread.
class Ending {
 public:
  Ending() : signals_([this](int) { end(true); }, [] { complain(kDone, "SIGHUP: there is nothing to read again; the configuration is read at start, the log goes to stderr"); }) {}
  void end(bool by_signal) {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
      by_signal_ |= by_signal;
    }
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_over_; });
  }
  bool is_over() {
    const std::lock_guard lock(mutex_);
    return is_over_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false, by_signal_ = false;
  net::StopSignals signals_;
};

// Cause and what to do.
std::string store_failure(const std::string& store, const Error& error) {
  const char* fix = error.code == Errc::DiskFull ? "; free some room there, or choose another place (--store, --dir)"
                    : error.code == Errc::NotPermitted ? "; start as the owner of that directory, or choose another place (--store, --dir)"
                    : error.code == Errc::ReadOnly ? "; mount that file system for writing, or choose another place (--store, --dir)"
                    : error.code == Errc::Locked ? "; stop that one, or choose another place (--store, --dir)" : "";
  return fmt::format("cannot use the store {}: {}{}", store, error.detail.empty() ? error.text() : error.detail, fix);
}

std::string start_failure(const char* what, const net::Outcome& outcome) {
  if (outcome.kind != net::Outcome::Kind::Halted) return fmt::format("the {} stopped before it served", what);
  const bool is_port = outcome.error.detail.starts_with("cannot listen");
  return fmt::format("the {} cannot start: {}{}", what, outcome.error.detail.empty() ? outcome.error.text() : outcome.error.detail, is_port ? "; another address: --listen HOST:PORT (dev: --port, --namesrv-port). `fulmar doctor` says who has it" : "");
}

// For the ready lines.
std::string metrics_json(const MetricsPort& metrics) { return metrics.is_open() ? fmt::format(",\"metricsPort\":{}", metrics.port()) : ""; }
std::string metrics_words(const MetricsPort& metrics) { return metrics.is_open() ? ", metrics at " + metrics.url() : ""; }

// Waits for the end and stops the nodes in order; 0 when all of them stopped cleanly.
int stop_all(Ending& ending, std::vector<ServedNode*> nodes) {
  ending.wait();
  int status = kDone;
  for (ServedNode* node : nodes) {
    if (!node->has_ended()) node->request_stop(Duration::seconds(kStopSeconds));
    const net::Outcome outcome = node->join();
    if (outcome.kind == net::Outcome::Kind::Stopped) continue;
    status = complain(kFailed, outcome.error.detail.empty() ? outcome.error.text() : outcome.error.detail);
  }
  return status;
}

int run_name_server(const ServeOptions& options) {
  const std::optional<NameServerConfig> config = read_name_server_config(options);
  if (!config) return kUsage;
  if (const auto enough = net::check_descriptors_for_serving(); !enough) return complain(kFailed, enough.error().detail);
  Ending ending;
  ServedNode node("namesrv", NodeKind::NameServer, serialise(*config), level_of(options.log_level), "NameServerListening", "NameServerListening");
  MetricsPort metrics(metrics_address(*config), 1);
  if (!metrics.open()) return kFailed;
  metrics.watch(node);
  node.set_on_end([&] { ending.end(false); });
  node.start();
  if (!node.wait_until_serving(kStartLimitMs)) return complain(kFailed, start_failure("name server", node.join()));
  if (options.is_json) say("{{\"role\":\"namesrv\",\"port\":{}{}}}\n", node.port(), metrics_json(metrics));
  else say("name server ready on {}:{}{}\n", config->listen_host, node.port(), metrics_words(metrics));
  excuse_output();
  return stop_all(ending, {&node});
}

int run_broker(const ServeOptions& options) {
  const std::optional<BrokerConfig> config = read_broker_config(options);
  if (!config) return kUsage;
  if (const auto enough = net::check_descriptors_for_serving(); !enough) return complain(kFailed, enough.error().detail);
  Result<net::StoreLock> lock = net::StoreLock::take(config->store_path);
  if (!lock) return complain(kFailed, store_failure(config->store_path, lock.error()));
  Ending ending;
  ServedNode node("broker", NodeKind::Broker, serialise(*config), level_of(options.log_level), "BrokerListening", "BrokerServing");
  MetricsPort metrics(metrics_address(*config), 1);
  if (!metrics.open()) return kFailed;
  metrics.watch(node);
  node.set_on_end([&] { ending.end(false); });
  node.start();
  while (!node.wait_until_serving(100)) {
    if (node.has_ended()) return complain(kFailed, start_failure("broker", node.join()));
    if (ending.is_over()) return stop_all(ending, {&node});
  }
  const char* durability = config->flush_disk_type == FlushDiskType::Sync ? "SYNC_FLUSH" : "ASYNC_FLUSH";
  if (options.is_json) say("{{\"role\":\"broker\",\"port\":{},\"store\":{},\"flushDiskType\":\"{}\"{}}}\n", node.port(), json_text(config->store_path), durability, metrics_json(metrics));
  else say("broker {} ready on {}:{}, store {}, {}{}\n", config->broker_name, config->listen_host, node.port(), config->store_path, durability, metrics_words(metrics));
  excuse_output();
  return stop_all(ending, {&node});
}

int run_dev(const DevOptions& options) {
  std::optional<BrokerConfig> config = read_dev_config(options);
  if (!config) return kUsage;
  if (const auto enough = net::check_descriptors_for_serving(); !enough) return complain(kFailed, enough.error().detail);
  Result<net::StoreLock> lock = net::StoreLock::take(config->store_path);
  if (!lock) return complain(kFailed, store_failure(config->store_path, lock.error()));

  Ending ending;
  const Level least = level_of(options.log_level);
  NameServerConfig name_server_config;
  name_server_config.listen_host = "127.0.0.1";
  name_server_config.listen_port = options.name_server_port;
  ServedNode name_server("namesrv", NodeKind::NameServer, serialise(name_server_config), least, "NameServerListening", "NameServerListening");
  std::optional<ServedNode> broker_place;   // made when the name server's port is known; outlives what watches it
  MetricsPort metrics(metrics_address(*config), 2);
  if (!metrics.open()) return kFailed;
  metrics.watch(name_server);
  name_server.set_on_end([&] { ending.end(false); });
  name_server.start();
  if (!name_server.wait_until_serving(kStartLimitMs)) return complain(kFailed, start_failure("name server", name_server.join()));

  config->name_servers = {fmt::format("127.0.0.1:{}", name_server.port())};
  ServedNode& broker = broker_place.emplace("broker", NodeKind::Broker, serialise(*config), least, "BrokerListening", "BrokerServing");
  metrics.watch(broker);
  broker.set_on_end([&] { ending.end(false); });
  broker.start();
  while (!broker.wait_until_serving(100)) {
    if (broker.has_ended()) return complain(kFailed, start_failure("broker", broker.join()));
    if (ending.is_over()) return stop_all(ending, {&broker, &name_server});
  }
  const bool is_sync = config->flush_disk_type == FlushDiskType::Sync;
  if (options.is_json) {
    say("{{\"role\":\"dev\",\"namesrvPort\":{},\"port\":{},\"dir\":{},\"flushDiskType\":\"{}\"{}}}\n", name_server.port(), broker.port(), json_text(dev_directory(options)),
               is_sync ? "SYNC_FLUSH" : "ASYNC_FLUSH", metrics_json(metrics));
  } else {
    say("fulmar dev is ready\n  name server  127.0.0.1:{}\n  broker       127.0.0.1:{}\n  store        {}\n  durability   {}\n{}\nNext, in another terminal:  fulmar try{}\n", name_server.port(),
               broker.port(), config->store_path, is_sync ? "SYNC_FLUSH: an acknowledged message survives kill -9 and a power cut" : "ASYNC_FLUSH: an acknowledged message survives kill -9",
               metrics.is_open() ? fmt::format("  metrics      {}\n", metrics.url()) : "", name_server.port() == 9876 ? "" : fmt::format(" -n 127.0.0.1:{}", name_server.port()));
  }
  excuse_output();
  return stop_all(ending, {&broker, &name_server});
}

void add_common(CLI::App* verb, const std::shared_ptr<ServeOptions>& options) {
  add_serve_options(verb, *options);
  verb->add_option("--log", options->log_level, "least level of the log on stderr")->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  verb->add_flag("--json", options->is_json, "print the ready line as JSON");
}

}  // namespace

void add_name_server(CLI::App& app, Run& run) {
  CLI::App* verb = app.add_subcommand("namesrv", "run a name server");
  auto options = std::make_shared<ServeOptions>();
  add_common(verb, options);
  verb->callback([options, &run] { run = [options] { return run_name_server(*options); }; });
}

void add_broker(CLI::App& app, Run& run) {
  CLI::App* verb = app.add_subcommand("broker", "run a broker; with a verb: ask or change one that runs");
  auto options = std::make_shared<ServeOptions>();
  add_common(verb, options);
  verb->add_option("-n,--namesrv", options->name_servers, "name servers, host:port joined by ';'");
  verb->add_option("--store", options->store, "store directory (storePathRootDir)");
  add_broker_verbs(verb, run);
  verb->callback([options, verb, &run] { if (verb->get_subcommands().empty()) run = [options] { return run_broker(*options); }; });
}

void add_dev(CLI::App& app, Run& run) {
  CLI::App* verb = app.add_subcommand("dev", "name server and broker in one process on 127.0.0.1, durable, topics on first use");
  auto options = std::make_shared<DevOptions>();
  verb->add_option("--dir", options->dir, "where to keep everything (default: the user's data directory)");
  verb->add_option("--port", options->port, "broker port; 0 takes a free one");
  verb->add_option("--namesrv-port", options->name_server_port, "name server port; 0 takes a free one");
  add_metrics_option(verb, options->metrics);
  verb->add_option("--set", options->sets, "broker key=value; may be repeated");
  verb->add_option("--log", options->log_level, "least level of the log on stderr")->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  verb->add_flag("--json", options->is_json, "print the ready line as JSON");
  verb->callback([options, &run] { run = [options] { return run_dev(*options); }; });
}

}  // namespace fulmar::cmd
