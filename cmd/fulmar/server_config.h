#pragma once
// What a server is started with: a properties file, --set, and the options of the command line over both.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/io/ids.h"
#include "core/model/config.h"

namespace fulmar::cmd {

struct ServeOptions {
  std::string config_file, listen, metrics, name_servers, store, log_level = "info";
  std::vector<std::string> sets;
  bool is_json = false;
};

struct DevOptions {
  std::string dir, metrics, log_level = "warning";
  uint16_t port = 10911, name_server_port = 9876;
  std::vector<std::string> sets;
  bool is_json = false;
};

// -c, --listen, --metrics and --set.
void add_serve_options(CLI::App* verb, ServeOptions& options);

// Nothing when something is wrong: it has been told, each with file and line or as what of the command line. Ignored keys are told too.
std::optional<BrokerConfig> read_broker_config(const ServeOptions& options);
std::optional<NameServerConfig> read_name_server_config(const ServeOptions& options);
// `dev` keeps everything below its directory (the user's data directory when none is given) and has defaults of its own.
std::optional<BrokerConfig> read_dev_config(const DevOptions& options);
// Where metrics and health are served; nothing: nowhere.
template <class Config> std::optional<Address> metrics_address(const Config& config) {
  if (config.metrics_exporter == MetricsExporter::Disabled) return {};
  return Address{config.metrics_host.empty() ? config.listen_host : config.metrics_host, config.metrics_port};
}
void add_metrics_option(CLI::App* verb, std::string& metrics);
std::string dev_directory(const DevOptions& options);

}  // namespace fulmar::cmd
