#pragma once
// The command line told to others: completion for shells, a manual page. Both are made from the verbs themselves.

#include <CLI/CLI.hpp>
#include <string>

namespace fulmar::cmd {

std::string bash_completion(const CLI::App& app);
std::string zsh_completion(const CLI::App& app);
std::string fish_completion(const CLI::App& app);
// Of man(7): one section for each verb.
std::string manual_page(const CLI::App& app, const std::string& version);

}  // namespace fulmar::cmd
