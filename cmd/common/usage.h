#pragma once
// Command lines of both programs: what is wrong is told in one sentence with the nearest name that is known.

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>

namespace fulmar::cmd {

// "fulmar topic create", of the verb that was parsed.
std::string full_name(const CLI::App& verb);

// Parses the command line. Nothing: go on. A status: the program is over, 0 after help or version, 2 after a sentence told by `complain`.
std::optional<int> parse_command_line(CLI::App& app, int argc, const char* const* argv, const std::function<void(const std::string&)>& complain);

}  // namespace fulmar::cmd
