#include "cmd/common/usage.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "core/base/nearest.h"

namespace fulmar::cmd {

namespace {

constexpr int kUsage = 2;
constexpr size_t kShownMax = 100;  // of what was typed

std::vector<std::string_view> verbs_of(const CLI::App& app) {
  std::vector<std::string_view> out;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App* v) { return !v->get_group().empty(); })) out.push_back(verb->get_name());
  return out;
}

std::string listed(const std::vector<std::string_view>& names) {
  std::string out;
  for (const std::string_view name : names) out += (out.empty() ? "" : ", ") + std::string(name);
  return out;
}

// "topic create: "; of the program itself nothing, for the sentence begins with its name.
std::string prefix(const CLI::App& verb) {
  std::string path;
  for (const CLI::App* at = &verb; at->get_parent() != nullptr; at = at->get_parent()) path = at->get_name() + (path.empty() ? "" : " ") + path;
  return path.empty() ? path : path + ": ";
}

std::string hint(std::string_view nearest) { return nearest.empty() ? "" : fmt::format("did you mean '{}'? ", nearest); }

// Follows the verbs that begin the command line. A sentence when one of them is missing or nobody knows it.
std::optional<std::string> find_verb(CLI::App& app, int argc, const char* const* argv) {
  const CLI::App* at = &app;
  for (int i = 1;; ++i) {
    const std::vector<std::string_view> verbs = verbs_of(*at);
    if (verbs.empty()) return {};
    const bool is_optional = at->get_require_subcommand_min() == 0;   // as of `broker`, which runs one
    if (i == argc && is_optional) return {};
    if (i == argc) return fmt::format("{}a verb is missing; there are: {}; see {} --help", prefix(*at), listed(verbs), full_name(*at));
    const std::string_view word = argv[i];
    if (word.starts_with('-')) return {};
    const auto named = at->get_subcommands([word](const CLI::App* v) { return v->get_name() == word; });
    if (named.empty()) {
      const std::string_view nearest = nearest_name(word, verbs);
      return fmt::format("{}there is no verb '{}'; {}there are: {}", prefix(*at), word.substr(0, kShownMax), hint(nearest), listed(verbs));
    }
    at = named.front();
  }
}

const CLI::App& deepest(const CLI::App& app) {
  const CLI::App* at = &app;
  for (auto parsed = at->get_subcommands(); !parsed.empty(); parsed = at->get_subcommands()) at = parsed.front();
  return *at;
}

std::string of_unexpected(const CLI::App& verb, const std::vector<std::string>& words) {
  const auto option = std::find_if(words.begin(), words.end(), [](const std::string& w) { return w.size() > 1 && w.front() == '-'; });
  if (option == words.end()) return fmt::format("'{}' is one word too many", words.empty() ? "" : words.front().substr(0, kShownMax));
  std::vector<std::string> names;
  for (const CLI::Option* known : verb.get_options()) {
    for (const std::string& name : known->get_lnames()) names.push_back("--" + name);
  }
  const std::string_view given = std::string_view(*option).substr(0, option->find('='));
  return fmt::format("there is no option '{}'; {}", given.substr(0, kShownMax), hint(nearest_name(given, std::vector<std::string_view>(names.begin(), names.end()))));
}

}  // namespace

std::string full_name(const CLI::App& verb) {
  return verb.get_parent() == nullptr ? verb.get_name() : full_name(*verb.get_parent()) + " " + verb.get_name();
}

std::optional<int> parse_command_line(CLI::App& app, int argc, const char* const* argv, const std::function<void(const std::string&)>& complain) {
  if (const auto sentence = find_verb(app, argc, argv)) {
    complain(*sentence);
    return kUsage;
  }
  try {
    app.parse(argc, argv);
    return {};
  } catch (const CLI::Success& help) {
    app.exit(help);
    return 0;
  } catch (const CLI::ParseError& error) {
    const CLI::App& verb = deepest(app);
    std::string what = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ? of_unexpected(verb, app.remaining(true)) : std::string(error.what()) + "; ";
    if (!what.ends_with(' ')) what += "; ";
    complain(fmt::format("{}{}see {} --help", prefix(verb), what, full_name(verb)));
    return kUsage;
  }
}

}  // namespace fulmar::cmd
