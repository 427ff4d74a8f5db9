// fulmar doctor: looks at a server that runs, or at what would keep one from running. Each finding names its cause and what to do.

#include <fmt/format.h>

#include <algorithm>

#include "cmd/fulmar/checkup.h"
#include "cmd/fulmar/client_host.h"
#include "cmd/fulmar/program.h"
#include "cmd/fulmar/server_config.h"
#include "net/host.h"

namespace fulmar::cmd {

namespace {

struct DoctorOptions {
  ServeOptions serve;
  DevOptions dev;
  bool is_dev = false, is_json = false;
};

const char* word(Finding::Level level) { return level == Finding::Level::Good ? "good" : level == Finding::Level::Notice ? "notice" : "bad"; }

int report(const Findings& findings, bool is_json) {
  const auto count = [&](Finding::Level level) { return std::count_if(findings.begin(), findings.end(), [level](const Finding& f) { return f.level == level; }); };
  const auto bad = count(Finding::Level::Bad), notices = count(Finding::Level::Notice);
  if (is_json) {
    std::string all;
    for (const Finding& f : findings)
      all += fmt::format("{}{{\"level\":\"{}\",\"check\":{},\"finding\":{},\"fix\":{}}}", all.empty() ? "" : ",", word(f.level), json_text(f.check), json_text(f.sentence), json_text(f.fix));
    say("{{\"healthy\":{},\"findings\":[{}]}}\n", bad == 0, all);
  } else {
    for (const Finding& f : findings) {
      say("{:<7} {:<13} {}\n", word(f.level), f.check, f.sentence);
      if (!f.fix.empty()) say("{:<21} -> {}\n", "", f.fix);
    }
    say("{}\n", bad > 0 ? fmt::format("{} bad, {} notices", bad, notices) : notices > 0 ? fmt::format("healthy, {} notices", notices) : "healthy");
  }
  return bad == 0 ? kDone : kFailed;
}

int run_doctor(const DoctorOptions& options) {
  const bool is_dev = options.is_dev || !options.dev.dir.empty();
  std::optional<BrokerConfig> config = is_dev ? read_dev_config(options.dev) : read_broker_config(options.serve);
  if (!config) return kUsage;
  if (is_dev && config->name_servers.empty()) config->name_servers = {fmt::format("127.0.0.1:{}", options.dev.name_server_port)};
  const std::string owner = net::lock_owner(config->store_path).value_or("");
  Findings findings;
  check_process_limits(findings);
  check_store(*config, findings);
  check_clock(*config, findings);
  check_broker(*config, owner, findings);
  // A `dev` that does not run has no name server yet.
  if (!is_dev || !owner.empty()) check_name_servers(*config, !owner.empty(), findings);
  return report(findings, options.is_json);
}

}  // namespace

void add_doctor(CLI::App& app, Run& run) {
  CLI::App* verb = app.add_subcommand("doctor", "check a server that runs, or what would keep one from starting; exit 1 when something is bad");
  auto options = std::make_shared<DoctorOptions>();
  verb->add_flag("--dev", options->is_dev, "look at `fulmar dev` instead of `fulmar broker`");
  verb->add_option("--dir", options->dev.dir, "directory of `fulmar dev`; implies --dev");
  verb->add_option("--port", options->dev.port, "broker port of `fulmar dev`");
  verb->add_option("--namesrv-port", options->dev.name_server_port, "name server port of `fulmar dev`");
  add_serve_options(verb, options->serve);
  verb->add_option("-n,--namesrv", options->serve.name_servers, "name servers, host:port joined by ';'");
  verb->add_option("--store", options->serve.store, "store directory (storePathRootDir)");
  verb->add_flag("--json", options->is_json, "one JSON object");
  verb->callback([options, &run] { run = [options] { return run_doctor(*options); }; });
}

}  // namespace fulmar::cmd
