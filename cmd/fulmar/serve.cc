// fulmar dev, namesrv, broker: run nodes until a signal stops them.

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <sstream>

#include "cmd/fulmar/program.h"
#include "cmd/fulmar/served_node.h"
#include "core/model/config.h"

namespace fulmar::cmd {

namespace {

constexpr int64_t kStopSeconds = 30;
constexpr int64_t kStartLimitMs = 600'000;  // a recovery may be long; signals end it at any time

struct ServeOptions {
  std::string config_file, listen, name_servers, store, log_level = "info";
  std::vector<std::string> sets;
  bool is_json = false;
};

Level level_of(const std::string& name) {
  if (name == "debug") return Level::Debug;
  if (name == "warning") return Level::Warning;
  if (name == "error") return Level::Error;
  return Level::Info;
}

// Ends when a signal comes or any of the nodes ends. Made before any other thread.
class Ending {
 public:
  Ending() : signals_([this](int) { end(true); }) {}
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

// Properties and where each line came from: a file, then --set.
struct Properties {
  std::string text, file;
  int file_lines = 0;
  std::string place(int line) const { return line <= file_lines ? fmt::format("{}, line {}: ", file, line) : "--set "; }
};

Result<Properties> read_properties(const std::string& file, const std::vector<std::string>& sets) {
  Properties out;
  if (!file.empty()) {
    FULMAR_TRY(out.text, read_text(file));
    out.text += '\n';
    out.file = file;
    out.file_lines = static_cast<int>(std::count(out.text.begin(), out.text.end(), '\n'));
  }
  for (const std::string& set : sets) {
    if (set.find('\n') != std::string::npos) return Error(Errc::InvalidArgument, "--set: one key=value each, without a line break");
    out.text += set + '\n';
  }
  return out;
}

// What is ignored is a notice; everything else is wrong and told line by line. False: something is wrong.
bool show_notes(const Properties& properties, const std::vector<ConfigNote>& notes) {
  constexpr int kShownMax = 10;
  int wrong = 0;
  for (const ConfigNote& note : notes) {
    const bool is_wrong = note.kind != ConfigNote::Kind::Ignored;
    if (is_wrong && ++wrong > kShownMax) continue;
    complain(0, fmt::format("{}{}: {}{}", properties.place(note.line), note.key.substr(0, 256), is_wrong ? "" : "ignored: ", note.sentence.substr(0, 512)));
  }
  if (wrong > kShownMax) complain(0, fmt::format("{} more lines are wrong", wrong - kShownMax));
  return wrong == 0;
}

// Options of the command line are not lines of a file: they must survive being written as such and obey the same bounds.
template <class Config>
Result<void> check_whole(const Config& config, Result<Config> (*parse)(std::string_view, std::vector<ConfigNote>*)) {
  std::vector<ConfigNote> notes;
  const Result<Config> again = parse(serialise(config), &notes);
  if (!again) return Error(Errc::InvalidArgument, notes.empty() ? again.error().detail : fmt::format("{}: {}", notes.front().key.substr(0, 256), notes.front().sentence.substr(0, 512)));
  if (!(*again == config)) return Error(Errc::InvalidArgument, "a host or path on the command line begins or ends with a blank, or has a line break in it");
  return {};
}

Result<void> apply_listen(const std::string& listen, std::string& host, uint16_t& port) {
  const size_t colon = listen.rfind(':');
  const std::string digits = colon == std::string::npos ? listen : listen.substr(colon + 1);
  char* end = nullptr;
  const unsigned long value = std::strtoul(digits.c_str(), &end, 10);
  if (digits.empty() || *end != 0 || value > 65535) return Error(Errc::InvalidArgument, fmt::format("--listen {}: want HOST:PORT with a port of 0 to 65535", listen));
  if (colon != std::string::npos) {
    host = listen.substr(0, colon);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  }
  port = static_cast<uint16_t>(value);
  return {};
}

std::string start_failure(const char* what, const net::Outcome& outcome) {
  if (outcome.kind != net::Outcome::Kind::Halted) return fmt::format("the {} stopped before it served", what);
  return fmt::format("the {} cannot start: {}", what, outcome.error.detail.empty() ? outcome.error.text() : outcome.error.detail);
}

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
  const Result<Properties> properties = read_properties(options.config_file, options.sets);
  if (!properties) return complain(kUsage, properties.error().detail);
  std::vector<ConfigNote> notes;
  Result<NameServerConfig> config = parse_name_server_config(properties->text, &notes);
  if (!show_notes(*properties, notes)) return kUsage;
  if (!options.listen.empty())
    if (Result<void> ok = apply_listen(options.listen, config->listen_host, config->listen_port); !ok) return complain(kUsage, ok.error().detail);
  if (const auto whole = check_whole(*config, &parse_name_server_config); !whole) return complain(kUsage, whole.error().detail);
  if (const auto enough = net::check_descriptors_for_serving(); !enough) return complain(kFailed, enough.error().detail);
  Ending ending;
  ServedNode node("namesrv", NodeKind::NameServer, serialise(*config), level_of(options.log_level), "NameServerListening", "NameServerListening");
  node.set_on_end([&] { ending.end(false); });
  node.start();
  if (!node.wait_until_serving(kStartLimitMs)) return complain(kFailed, start_failure("name server", node.join()));
  if (options.is_json) say("{{\"role\":\"namesrv\",\"port\":{}}}\n", node.port());
  else say("name server ready on {}:{}\n", config->listen_host, node.port());
  excuse_output();
  return stop_all(ending, {&node});
}

int run_broker(const ServeOptions& options) {
  const Result<Properties> properties = read_properties(options.config_file, options.sets);
  if (!properties) return complain(kUsage, properties.error().detail);
  std::vector<ConfigNote> notes;
  Result<BrokerConfig> config = parse_broker_config(properties->text, &notes);
  if (!show_notes(*properties, notes)) return kUsage;
  if (!options.listen.empty())
    if (Result<void> ok = apply_listen(options.listen, config->listen_host, config->listen_port); !ok) return complain(kUsage, ok.error().detail);
  if (!options.store.empty()) config->store_path = options.store;
  if (!options.name_servers.empty()) {
    config->name_servers.clear();
    std::stringstream list(options.name_servers);
    for (std::string one; std::getline(list, one, ';');) if (!one.empty()) config->name_servers.push_back(one);
  }
  if (const auto whole = check_whole(*config, &parse_broker_config); !whole) return complain(kUsage, whole.error().detail);
  if (const auto enough = net::check_descriptors_for_serving(); !enough) return complain(kFailed, enough.error().detail);
  Result<net::StoreLock> lock = net::StoreLock::take(config->store_path);
  if (!lock) return complain(kFailed, fmt::format("cannot use the store {}: {}", config->store_path, lock.error().detail.empty() ? lock.error().text() : lock.error().detail));
  Ending ending;
  ServedNode node("broker", NodeKind::Broker, serialise(*config), level_of(options.log_level), "BrokerListening", "BrokerServing");
  node.set_on_end([&] { ending.end(false); });
  node.start();
  while (!node.wait_until_serving(100)) {
    if (node.has_ended()) return complain(kFailed, start_failure("broker", node.join()));
    if (ending.is_over()) return stop_all(ending, {&node});
  }
  const char* durability = config->flush_disk_type == FlushDiskType::Sync ? "SYNC_FLUSH" : "ASYNC_FLUSH";
  if (options.is_json) say("{{\"role\":\"broker\",\"port\":{},\"store\":{},\"flushDiskType\":\"{}\"}}\n", node.port(), json_text(config->store_path), durability);
  else say("broker {} ready on {}:{}, store {}, {}\n", config->broker_name, config->listen_host, node.port(), config->store_path, durability);
  excuse_output();
  return stop_all(ending, {&node});
}

const std::string kDevDefaults = "autoCreateTopicEnable=true\nlistenHost=127.0.0.1\nbrokerName=dev\ndiskFreeBytesMin=536870912\ndiskSpaceWarningLevelRatio=99\ncleanFileForciblyEnable=false\n";

struct DevOptions {
  std::string dir, log_level = "warning";
  uint16_t port = 10911, name_server_port = 9876;
  std::vector<std::string> sets;
  bool is_json = false;
};

std::string default_dev_directory() {
  const char* data = std::getenv("XDG_DATA_HOME");
  if (data != nullptr && *data != 0) return std::string(data) + "/fulmar/dev";
  const char* home = std::getenv("HOME");
  return std::string(home != nullptr && *home != 0 ? home : ".") + "/.local/share/fulmar/dev";
}

int run_dev(DevOptions options) {
  if (options.dir.empty()) options.dir = default_dev_directory();
  const Result<Properties> properties = read_properties("", options.sets);
  if (!properties) return complain(kUsage, properties.error().detail);
  std::vector<ConfigNote> notes;
  (void)parse_broker_config(properties->text, &notes);
  if (!show_notes(*properties, notes)) return kUsage;
  Result<BrokerConfig> config = parse_broker_config(kDevDefaults + properties->text, nullptr);
  if (!config) return complain(kUsage, config.error().detail);
  config->store_path = options.dir + "/broker";
  config->listen_port = options.port;
  if (const auto whole = check_whole(*config, &parse_broker_config); !whole) return complain(kUsage, whole.error().detail);
  if (const auto enough = net::check_descriptors_for_serving(); !enough) return complain(kFailed, enough.error().detail);
  Result<net::StoreLock> lock = net::StoreLock::take(config->store_path);
  if (!lock) return complain(kFailed, fmt::format("cannot use {}: {}", config->store_path, lock.error().detail.empty() ? lock.error().text() : lock.error().detail));

  Ending ending;
  const Level least = level_of(options.log_level);
  NameServerConfig name_server_config;
  name_server_config.listen_host = "127.0.0.1";
  name_server_config.listen_port = options.name_server_port;
  ServedNode name_server("namesrv", NodeKind::NameServer, serialise(name_server_config), least, "NameServerListening", "NameServerListening");
  name_server.set_on_end([&] { ending.end(false); });
  name_server.start();
  if (!name_server.wait_until_serving(kStartLimitMs)) return complain(kFailed, start_failure("name server", name_server.join()));

  config->name_servers = {fmt::format("127.0.0.1:{}", name_server.port())};
  ServedNode broker("broker", NodeKind::Broker, serialise(*config), least, "BrokerListening", "BrokerServing");
  broker.set_on_end([&] { ending.end(false); });
  broker.start();
  while (!broker.wait_until_serving(100)) {
    if (broker.has_ended()) return complain(kFailed, start_failure("broker", broker.join()));
    if (ending.is_over()) return stop_all(ending, {&broker, &name_server});
  }
  const bool is_sync = config->flush_disk_type == FlushDiskType::Sync;
  if (options.is_json) {
    say("{{\"role\":\"dev\",\"namesrvPort\":{},\"port\":{},\"dir\":{},\"flushDiskType\":\"{}\"}}\n", name_server.port(), broker.port(), json_text(options.dir),
               is_sync ? "SYNC_FLUSH" : "ASYNC_FLUSH");
  } else {
    say("fulmar dev is ready\n  name server  127.0.0.1:{}\n  broker       127.0.0.1:{}\n  store        {}\n  durability   {}\n\nNext, in another terminal:  fulmar try{}\n", name_server.port(),
               broker.port(), config->store_path, is_sync ? "SYNC_FLUSH: an acknowledged message survives kill -9 and a power cut" : "ASYNC_FLUSH: an acknowledged message survives kill -9",
               name_server.port() == 9876 ? "" : fmt::format(" -n 127.0.0.1:{}", name_server.port()));
  }
  excuse_output();
  return stop_all(ending, {&broker, &name_server});
}

void add_common(CLI::App* verb, const std::shared_ptr<ServeOptions>& options) {
  verb->add_option("-c,--config", options->config_file, "properties file (RocketMQ's keys)");
  verb->add_option("--listen", options->listen, "HOST:PORT to listen on; port 0 takes a free one");
  verb->add_option("--set", options->sets, "key=value, over the file; may be repeated");
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
  CLI::App* verb = app.add_subcommand("broker", "run a broker");
  auto options = std::make_shared<ServeOptions>();
  add_common(verb, options);
  verb->add_option("-n,--namesrv", options->name_servers, "name servers, host:port joined by ';'");
  verb->add_option("--store", options->store, "store directory (storePathRootDir)");
  verb->callback([options, &run] { run = [options] { return run_broker(*options); }; });
}

void add_dev(CLI::App& app, Run& run) {
  CLI::App* verb = app.add_subcommand("dev", "name server and broker in one process on 127.0.0.1, durable, topics on first use");
  auto options = std::make_shared<DevOptions>();
  verb->add_option("--dir", options->dir, "where to keep everything (default: the user's data directory)");
  verb->add_option("--port", options->port, "broker port; 0 takes a free one");
  verb->add_option("--namesrv-port", options->name_server_port, "name server port; 0 takes a free one");
  verb->add_option("--set", options->sets, "broker key=value; may be repeated");
  verb->add_option("--log", options->log_level, "least level of the log on stderr")->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  verb->add_flag("--json", options->is_json, "print the ready line as JSON");
  verb->callback([options, &run] { run = [options] { return run_dev(*options); }; });
}

}  // namespace fulmar::cmd
