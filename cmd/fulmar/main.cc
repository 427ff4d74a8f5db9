// The production program: finds the verb and runs it.

#include <fmt/format.h>

#include <cstdio>

#include "cmd/fulmar/program.h"
#include "net/host.h"

namespace fulmar::cmd {

int complain(int status, std::string_view sentence) {
  std::fprintf(stderr, "fulmar: %.*s\n", static_cast<int>(sentence.size()), sentence.data());
  return status;
}

int complain(int status, const Refusal& refusal) {
  std::string line = fmt::format("{}: {}", to_string(refusal.code), refusal.cause);
  if (!refusal.measured.empty()) line += " (" + refusal.measured + ")";
  if (refusal.retry_after_ms != 0) line += fmt::format("; try again in {} ms", refusal.retry_after_ms);
  return complain(status, line);
}

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') (out += '\\') += c;
    else if (static_cast<unsigned char>(c) < 0x20) out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    else out += c;
  }
  return out + '"';
}

namespace {

int run_program(int argc, char** argv) {
  CLI::App app{"fulmar: a message broker that speaks RocketMQ's language and keeps its files", "fulmar"};
  app.set_version_flag("--version", std::string("fulmar ") + FULMAR_VERSION + " (" + FULMAR_REVISION + ")");
  app.require_subcommand(1);
  app.footer("First steps: `fulmar dev` in one terminal, `fulmar try` in another.\nExit status: 0 done, 1 failed, 2 wrong usage, 3 could not connect.");
  Run run;
  add_dev(app, run);
  add_name_server(app, run);
  add_broker(app, run);
  add_try(app, run);
  add_send(app, run);
  add_consume(app, run);
  add_topic(app, run);
  add_message(app, run);
  add_status(app, run);
  add_store(app, run);
  add_config(app, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int status = app.exit(error);  // prints help, version or what is wrong
    return status == 0 ? kDone : kUsage;
  }
  return run ? run() : kUsage;
}

}  // namespace
}  // namespace fulmar::cmd

int main(int argc, char** argv) {
  fulmar::net::prepare_process();
  return fulmar::cmd::run_program(argc, argv);
}
