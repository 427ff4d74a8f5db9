// fulmar config check / explain: which keys apply, which are ignored and why, every default.

#include <fmt/format.h>

#include "cmd/fulmar/program.h"
#include "core/model/config.h"

namespace fulmar::cmd {

namespace {

struct ConfigOptions { std::string file; bool is_json = false; };

int check_config(const ConfigOptions& options) {
  const Result<std::string> text = read_text(options.file);
  if (!text) return complain(kFailed, text.error().detail);
  std::vector<ConfigNote> notes;
  const Result<BrokerConfig> config = parse_broker_config(*text, &notes);
  std::string json;
  for (const ConfigNote& note : notes) {
    const char* kind = note.kind == ConfigNote::Kind::Ignored ? "ignored" : note.kind == ConfigNote::Kind::Unknown ? "unknown" : "bad";
    if (options.is_json) json += fmt::format("{}{{\"line\":{},\"key\":{},\"kind\":\"{}\",\"sentence\":{}}}", json.empty() ? "" : ",", note.line, json_text(note.key), kind, json_text(note.sentence));
    else say("line {}: {} {}: {}\n", note.line, kind, note.key, note.sentence);
  }
  if (options.is_json) say("{{\"ok\":{},\"notes\":[{}]}}\n", config.has_value(), json);
  else if (config) say("{} is good{}\n", options.file, notes.empty() ? "" : fmt::format(", {} keys are ignored", notes.size()));
  return config ? kDone : kFailed;
}

int explain_config(const ConfigOptions& options) {
  if (!options.file.empty()) {
    if (const int status = check_config(options); status != kDone) return status;
  }
  for (const ConfigKey& key : broker_config_keys()) {
    if (options.is_json) say("{{\"key\":{},\"default\":{},\"meaning\":{},\"ignored\":{}}}\n", json_text(key.name), json_text(key.value), json_text(key.meaning), key.is_ignored);
    else say("{}{} = {}\n    {}\n", key.is_ignored ? "(ignored) " : "", key.name, key.value, key.meaning);
  }
  return kDone;
}

}  // namespace

void add_config(CLI::App& app, Run& run) {
  CLI::App* noun = app.add_subcommand("config", "check and explain configuration files");
  noun->require_subcommand(1);
  auto options = std::make_shared<ConfigOptions>();
  CLI::App* check = noun->add_subcommand("check", "which lines apply, are ignored, or are wrong; exit 1 when any is wrong");
  check->add_option("file", options->file, "broker.conf")->required();
  check->add_flag("--json", options->is_json, "JSON");
  check->callback([options, &run] { run = [options] { return check_config(*options); }; });
  CLI::App* explain = noun->add_subcommand("explain", "every key with its default and meaning");
  explain->add_option("file", options->file, "broker.conf to check as well");
  explain->add_flag("--json", options->is_json, "JSON");
  explain->callback([options, &run] { run = [options] { return explain_config(*options); }; });
}

}  // namespace fulmar::cmd
