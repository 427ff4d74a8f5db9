#pragma once
// What the verbs share: exit statuses, output, and the list of verbs. Results go to stdout, errors to stderr, no stack traces.

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <string_view>

#include "core/model/command.h"

namespace fulmar::cmd {

enum Exit : int { kDone = 0, kFailed = 1, kUsage = 2, kNotConnected = 3 };

// Prints "fulmar: <sentence>" to stderr and gives back `status`.
int complain(int status, std::string_view sentence);
int complain(int status, const Refusal& refusal);
// A JSON string literal, quotes included.
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
void add_message(CLI::App& app, Run& run);
void add_status(CLI::App& app, Run& run);
void add_store(CLI::App& app, Run& run);
void add_config(CLI::App& app, Run& run);

}  // namespace fulmar::cmd
