#pragma once
// What the verbs share: exit statuses, output, and the list of verbs. Results go to stdout, errors to stderr, no stack traces.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/model/command.h"

namespace fulmar::cmd {

enum Exit : int { kDone = 0, kFailed = 1, kUsage = 2, kNotConnected = 3 };

// Results. Whether they could be written is told by is_output_broken(); the program then ends with kFailed.
void say_text(std::string_view text);
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  say_text(fmt::format(format, std::forward<Args>(args)...));
}
// Flushes. Once it is true, whoever follows a stream stops, before anything counts as consumed.
bool is_output_broken();
// Flushes. A server whose ready line nobody takes goes on: says so once, and that is all.
void excuse_output();

// Prints "fulmar: <sentence>" to stderr, on one line, and gives back `status`.
int complain(int status, std::string_view sentence);
// The same of a refusal; instead of kFailed kNotConnected when nobody was there to refuse.
int complain(int status, const Refusal& refusal);
// Asks on stderr unless `is_yes`; anything but y or yes, also the end of stdin, is a no.
bool is_confirmed(bool is_yes, std::string_view question);
// The whole of a file that a person writes, at most 1 MiB; a pipe will do. The sentence names the path.
Result<std::string> read_text(const std::string& path);
// A JSON string literal, quotes included. What is not UTF-8 becomes U+FFFD.
std::string json_text(std::string_view text);

// Each adds its verb to `app` and sets `run` when it was chosen.
using Run = std::function<int()>;
void add_dev(CLI::App& app, Run& run);
void add_name_server(CLI::App& app, Run& run);
void add_broker(CLI::App& app, Run& run);
void add_try(CLI::App& app, Run& run);
void add_send(CLI::App& app, Run& run);
void add_consume(CLI::App& app, Run& run);
void add_topic(CLI::App& app, Run& run);
void add_group(CLI::App& app, Run& run);
void add_message(CLI::App& app, Run& run);
void add_cluster(CLI::App& app, Run& run);
void add_status(CLI::App& app, Run& run);
void add_broker_verbs(CLI::App* broker, Run& run);   // status, config, wipe-write, add-write of a running one
void add_bench(CLI::App& app, Run& run);
void add_doctor(CLI::App& app, Run& run);
void add_store(CLI::App& app, Run& run);
void add_store_changes(CLI::App* store, Run& run);   // repair, rebuild, export
void add_config(CLI::App& app, Run& run);
void add_shell_help(CLI::App& app, Run& run);

}  // namespace fulmar::cmd
