#include "cmd/fulmar/server_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "cmd/fulmar/program.h"

namespace fulmar::cmd {

namespace {

constexpr std::string_view kDevDefaults =
    "autoCreateTopicEnable=true\nlistenHost=127.0.0.1\nbrokerName=dev\ndiskFreeBytesMin=536870912\ndiskSpaceWarningLevelRatio=99\ncleanFileForciblyEnable=false\n"
    "metricsExporterType=PROM\nmetricsPromExporterPort=0\n";

template <class Config>
using Parse = Result<Config> (*)(std::string_view, std::vector<ConfigNote>*);

// What is ignored is a notice; everything else is wrong and told line by line, a few of them.
class Notes {
 public:
  void show(const std::vector<ConfigNote>& notes, const std::string& source, bool has_lines) {
    constexpr int kShownMax = 10;
    for (const ConfigNote& note : notes) {
      if (note.kind == ConfigNote::Kind::Conflict) continue;   // of keys that stand in different places: judged when all are read
      const bool is_wrong = note.kind != ConfigNote::Kind::Ignored;
      if (is_wrong && ++wrong_ > kShownMax) continue;
      complain(0, fmt::format("{}{}{}: {}{}", source, has_lines ? fmt::format(", line {}: ", note.line) : " ", note.key.substr(0, 256), is_wrong ? "" : "ignored: ", note.sentence.substr(0, 512)));
    }
    if (wrong_ > kShownMax) complain(0, fmt::format("{} more lines are wrong", wrong_ - kShownMax));
  }
  bool is_fine() const { return wrong_ == 0; }

 private:
  int wrong_ = 0;
};

// File first, --set over it; each is judged by itself, so that what is said names the place where it stands. Whether keys go together is
// judged of all of them.
template <class Config>
std::optional<Config> read(std::string text, const std::string& file, const std::vector<std::string>& sets, Parse<Config> parse) {
  Notes notes;
  if (!file.empty()) {
    const Result<std::string> contents = read_text(file);
    if (!contents) {
      complain(kUsage, contents.error().detail);
      return {};
    }
    std::vector<ConfigNote> found;
    (void)parse(*contents, &found);
    notes.show(found, file, true);
    text += *contents + '\n';
  }
  for (const std::string& set : sets) {
    if (set.find('\n') != std::string::npos || set.ends_with('\\')) {
      complain(kUsage, "--set: one key=value each, on one line");
      return {};
    }
    std::vector<ConfigNote> found;
    (void)parse(set, &found);
    notes.show(found, "--set", false);
    text += set + '\n';
  }
  if (!notes.is_fine()) return {};
  std::vector<ConfigNote> found;
  Result<Config> config = parse(text, &found);
  if (config) return *std::move(config);
  const auto conflict = std::find_if(found.begin(), found.end(), [](const ConfigNote& note) { return note.kind == ConfigNote::Kind::Conflict; });
  complain(kUsage, conflict == found.end() ? config.error().detail : fmt::format("{}: {}", conflict->key, conflict->sentence));
  return {};
}

// Options of the command line are not lines of a file: they must survive being written as such and obey the same bounds.
template <class Config>
bool is_whole(const Config& config, Parse<Config> parse) {
  std::vector<ConfigNote> notes;
  const Result<Config> again = parse(serialise(config), &notes);
  if (again && *again == config) return true;
  if (again) complain(kUsage, "an option of the command line cannot be written into a configuration");
  else complain(kUsage, notes.empty() ? again.error().detail : fmt::format("{}: {}", notes.front().key.substr(0, 256), notes.front().sentence.substr(0, 512)));
  return false;
}

bool apply_listen(const std::string& listen, std::string& host, uint16_t& port, const char* option = "--listen") {
  if (listen.empty()) return true;
  const size_t colon = listen.rfind(':');
  const std::string digits = colon == std::string::npos ? listen : listen.substr(colon + 1);
  char* end = nullptr;
  const unsigned long value = std::strtoul(digits.c_str(), &end, 10);
  if (digits.empty() || *end != 0 || value > 65535) {
    complain(kUsage, fmt::format("{} {}: want HOST:PORT with a port of 0 to 65535", option, listen));
    return false;
  }
  if (colon != std::string::npos) {
    host = listen.substr(0, colon);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  }
  port = static_cast<uint16_t>(value);
  return true;
}

template <class Config>
bool apply_metrics(const std::string& metrics, Config& config) {
  if (metrics.empty()) return true;
  config.metrics_exporter = metrics == "off" ? MetricsExporter::Disabled : MetricsExporter::Prometheus;
  return metrics == "off" || apply_listen(metrics, config.metrics_host, config.metrics_port, "--metrics");
}

}  // namespace

void add_metrics_option(CLI::App* verb, std::string& metrics) {
  verb->add_option("--metrics", metrics, "HOST:PORT of /metrics, /healthz and /readyz; port 0 takes a free one; off: none");
}

void add_serve_options(CLI::App* verb, ServeOptions& options) {
  verb->add_option("-c,--config", options.config_file, "properties file (RocketMQ's keys)");
  verb->add_option("--listen", options.listen, "HOST:PORT to listen on; port 0 takes a free one");
  add_metrics_option(verb, options.metrics);
  verb->add_option("--set", options.sets, "key=value, over the file; may be repeated");
}

std::optional<NameServerConfig> read_name_server_config(const ServeOptions& options) {
  auto config = read<NameServerConfig>("", options.config_file, options.sets, &parse_name_server_config);
  if (!config || !apply_listen(options.listen, config->listen_host, config->listen_port) || !apply_metrics(options.metrics, *config)) return {};
  return is_whole<NameServerConfig>(*config, &parse_name_server_config) ? config : std::nullopt;
}

std::optional<BrokerConfig> read_broker_config(const ServeOptions& options) {
  auto config = read<BrokerConfig>("", options.config_file, options.sets, &parse_broker_config);
  if (!config || !apply_listen(options.listen, config->listen_host, config->listen_port) || !apply_metrics(options.metrics, *config)) return {};
  if (!options.store.empty()) config->store_path = options.store;
  if (!options.name_servers.empty()) {
    config->name_servers.clear();
    std::stringstream list(options.name_servers);
    for (std::string one; std::getline(list, one, ';');) if (!one.empty()) config->name_servers.push_back(one);
  }
  return is_whole<BrokerConfig>(*config, &parse_broker_config) ? config : std::nullopt;
}

std::string dev_directory(const DevOptions& options) {
  if (!options.dir.empty()) return options.dir;
  const char* data = std::getenv("XDG_DATA_HOME");
  if (data != nullptr && *data != 0) return std::string(data) + "/fulmar/dev";
  const char* home = std::getenv("HOME");
  return std::string(home != nullptr && *home != 0 ? home : ".") + "/.local/share/fulmar/dev";
}

std::optional<BrokerConfig> read_dev_config(const DevOptions& options) {
  auto config = read<BrokerConfig>(std::string(kDevDefaults), "", options.sets, &parse_broker_config);
  if (!config) return {};
  config->store_path = dev_directory(options) + "/broker";
  config->listen_port = options.port;
  if (!apply_metrics(options.metrics, *config)) return {};
  return is_whole<BrokerConfig>(*config, &parse_broker_config) ? config : std::nullopt;
}

}  // namespace fulmar::cmd
