// The production program: finds the verb and runs it.

#include <fmt/format.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>

#include "cmd/common/shell_help.h"
#include "cmd/common/usage.h"
#include "cmd/fulmar/program.h"
#include "core/client/caller.h"
#include "core/model/version.h"
#include "net/host.h"

namespace fulmar::cmd {

static_assert(kProgramVersion == FULMAR_VERSION);

namespace {
std::atomic<int> output_error{0};
}

void say_text(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() && output_error == 0) output_error = errno;
}

bool is_output_broken() {
  if (std::fflush(stdout) != 0 && output_error == 0) output_error = errno;
  return output_error != 0;
}

void excuse_output() {
  if (!is_output_broken()) return;
  complain(kDone, "nobody takes the ready line; going on");
  std::clearerr(stdout);
  output_error = 0;
}

int complain(int status, std::string_view sentence) {
  std::string line = "fulmar: ";
  for (const char c : sentence) line += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;  // names come from strangers
  std::fprintf(stderr, "%s\n", line.c_str());
  return status;
}

int complain(int status, const Refusal& refusal) {
  std::string line = fmt::format("{}: {}", to_string(refusal.code), refusal.cause);
  if (!refusal.measured.empty()) line += " (" + refusal.measured + ")";
  if (refusal.retry_after_ms != 0) line += fmt::format("; try again in {} ms", refusal.retry_after_ms);
  return complain(status == kFailed && is_not_connected(refusal) ? int{kNotConnected} : status, line);
}

bool is_confirmed(bool is_yes, std::string_view question) {
  if (is_yes) return true;
  std::fputs(fmt::format("{} [y/N] ", question).c_str(), stderr);
  std::string answer;
  std::getline(std::cin, answer);
  if (isatty(STDIN_FILENO) != 1) std::fputs("\n", stderr);   // nobody has typed it
  return answer == "y" || answer == "yes";
}

Result<std::string> read_text(const std::string& path) {
  constexpr size_t kBytesMax = 1u << 20;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const auto failed = [&path] { return Error(Errc::NotFound, fmt::format("cannot read {}: {}", path, std::strerror(errno))); };
  if (fd < 0) return failed();
  std::string text(kBytesMax + 1, 0);
  size_t bytes = 0;
  while (bytes < text.size()) {
    const ssize_t got = ::read(fd, text.data() + bytes, text.size() - bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      Error error = failed();
      ::close(fd);
      return error;
    }
    if (got == 0) break;
    bytes += static_cast<size_t>(got);
  }
  ::close(fd);
  if (bytes > kBytesMax) return Error(Errc::OutOfRange, fmt::format("cannot use {}: it has more than {} bytes", path, kBytesMax));
  text.resize(bytes);
  return text;
}

namespace {

// Of the UTF-8 character that `text` begins with (RFC 3629), or 0 when it is none.
size_t character_bytes(std::string_view text) {
  const auto at = [text](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto is_tail = [&at](size_t i, unsigned least = 0x80, unsigned most = 0xBF) { return at(i) >= least && at(i) <= most; };
  const unsigned first = at(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return is_tail(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) return is_tail(1, first == 0xE0 ? 0xA0 : 0x80, first == 0xED ? 0x9F : 0xBF) && is_tail(2) ? 3 : 0;
  if (first >= 0xF0 && first <= 0xF4) return is_tail(1, first == 0xF0 ? 0x90 : 0x80, first == 0xF4 ? 0x8F : 0xBF) && is_tail(2) && is_tail(3) ? 4 : 0;
  return 0;
}

}  // namespace

std::string json_text(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const size_t bytes = character_bytes(text);
    const char c = text.front();
    if (bytes == 0) out += "\\ufffd";
    else if (c == '"' || c == '\\') (out += '\\') += c;
    else if (static_cast<unsigned char>(c) < 0x20) out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    else out += text.substr(0, bytes);
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  return out + '"';
}

void add_shell_help(CLI::App& app, Run& run) {
  CLI::App* completion = app.add_subcommand("completion", "print the completion script of a shell: source <(fulmar completion bash)");
  auto shell = std::make_shared<std::string>();
  completion->add_option("shell", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion->callback([shell, &app, &run] {
    run = [shell, &app] {
      say_text(*shell == "bash" ? bash_completion(app) : *shell == "zsh" ? zsh_completion(app) : fish_completion(app));
      return int{kDone};
    };
  });
  CLI::App* man = app.add_subcommand("man", "print the manual page: fulmar man | man -l -");
  man->callback([&app, &run] {
    run = [&app] {
      say_text(manual_page(app, std::string("fulmar ") + FULMAR_VERSION));
      return int{kDone};
    };
  });
}

namespace {

// The library takes "-3" for a count as 2^64 - 3.
void refuse_negative_counts(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_type_name().rfind("UINT", 0) != 0) continue;
    option->check([](const std::string& text) { return text.rfind('-', 0) == 0 ? "wants a number that is not negative" : std::string(); });
  }
  for (CLI::App* verb : app.get_subcommands({})) refuse_negative_counts(*verb);
}

int run_program(int argc, char** argv) {
  CLI::App app{"fulmar: a message broker that speaks RocketMQ's language and keeps its files", "fulmar"};
  app.set_version_flag("--version", std::string("fulmar ") + FULMAR_VERSION + " (" + FULMAR_REVISION + ")");
  app.require_subcommand(1);
  app.footer("First steps: `fulmar dev` in one terminal, `fulmar try` in another.\nExit status: 0 done, 1 failed, 2 wrong usage, 3 could not connect, 130 ended by ^C before all was done.");
  Run run;
  add_dev(app, run);
  add_name_server(app, run);
  add_broker(app, run);
  add_try(app, run);
  add_send(app, run);
  add_consume(app, run);
  add_topic(app, run);
  add_group(app, run);
  add_message(app, run);
  add_cluster(app, run);
  add_status(app, run);
  add_store(app, run);
  add_config(app, run);
  add_bench(app, run);
  add_doctor(app, run);
  add_shell_help(app, run);
  refuse_negative_counts(app);
  if (const auto over = parse_command_line(app, argc, argv, [](const std::string& sentence) { complain(kUsage, sentence); })) return *over;
  return run ? run() : kUsage;
}

}  // namespace
}  // namespace fulmar::cmd

int main(int argc, char** argv) {
  using namespace fulmar::cmd;
  try {
    if (const auto ready = fulmar::net::prepare_process(); !ready) return complain(kFailed, ready.error().detail);
    const int status = run_program(argc, argv);
    if (is_output_broken() && status != kUsage) return complain(kFailed, fmt::format("cannot write the results: {}", std::strerror(output_error)));
    return status;
  } catch (const std::exception& error) {  // of the libraries: no memory, no thread
    return complain(kFailed, fmt::format("cannot go on: {}", error.what()));
  }
}
