#include "cmd/common/shell_help.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cmd/common/usage.h"

namespace fulmar::cmd {

namespace {

std::vector<const CLI::App*> verbs_of(const CLI::App& app) {
  const auto found = app.get_subcommands([](const CLI::App* verb) { return !verb->get_group().empty(); });
  return {found.begin(), found.end()};
}

// "--json", "-n", each by itself.
std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> out;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) out.push_back("--" + name);
    for (const std::string& name : option->get_snames()) out.push_back("-" + name);
  }
  return out;
}

template <class Visit>
void for_each_app(const CLI::App& app, const Visit& visit) {
  visit(app);
  for (const CLI::App* verb : verbs_of(app)) for_each_app(*verb, visit);
}

std::string words_of(const CLI::App& app) {
  std::string out;
  for (const CLI::App* verb : verbs_of(app)) out += (out.empty() ? "" : " ") + verb->get_name();
  for (const std::string& flag : flags_of(app)) out += (out.empty() ? "" : " ") + flag;
  return out;
}

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) text.replace(at, what.size(), by);
  return text;
}

// Of roff: backslashes and dashes as they are, a dot at the start of a line no request.
std::string roff(const std::string& text) {
  std::string out = replaced(replaced(text, "\\", "\\e"), "-", "\\-");
  return out.starts_with('.') || out.starts_with('\'') ? "\\&" + out : out;
}

std::string option_head(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_snames()) names += (names.empty() ? "-" : ", -") + name;
  for (const std::string& name : option.get_lnames()) names += (names.empty() ? "--" : ", --") + name;
  if (names.empty()) return option.get_name(true);
  return option.get_type_size() == 0 ? names : names + " " + (option.get_type_name().empty() ? "VALUE" : option.get_type_name());
}

}  // namespace

std::string bash_completion(const CLI::App& app) {
  const std::string name = app.get_name();
  std::string cases;
  for_each_app(app, [&](const CLI::App& verb) { cases += fmt::format("    '{}') words='{}' ;;\n", full_name(verb), words_of(verb)); });
  const std::string function = "_" + replaced(name, "-", "_");
  return fmt::format(R"sh(# {0} completion for bash. In ~/.bashrc: source <({0} completion bash)
{1}() {{
  local path='{0}' word words=''
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case " $({1}_words "$path") " in *" $word "*) [ "${{word#-}}" = "$word" ] && path="$path $word" ;; esac
  done
  COMPREPLY=($(compgen -W "$({1}_words "$path")" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
{1}_words() {{
  local words=''
  case "$1" in
{2}  esac
  printf '%s' "$words"
}}
complete -o default -F {1} {0}
)sh", name, function, cases);
}

// zsh knows bash's completions.
std::string zsh_completion(const CLI::App& app) {
  return fmt::format("#compdef {0}\n# {0} completion for zsh. In ~/.zshrc: source <({0} completion zsh)\nautoload -U +X bashcompinit && bashcompinit\n", app.get_name()) + bash_completion(app);
}

std::string fish_completion(const CLI::App& app) {
  const auto quoted = [](const std::string& text) { return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'"; };
  std::string out = fmt::format("# {0} completion for fish: {0} completion fish > ~/.config/fish/completions/{0}.fish\n", app.get_name());
  for_each_app(app, [&](const CLI::App& verb) {
    // Where the line so far is this verb: all words of its path were seen, and none of what may follow.
    std::string seen, following;
    for (const CLI::App* at = &verb; at->get_parent() != nullptr; at = at->get_parent()) seen += fmt::format("; and __fish_seen_subcommand_from {}", at->get_name());
    for (const CLI::App* next : verbs_of(verb)) following += " " + next->get_name();
    const std::string condition = (following.empty() ? "true" : "not __fish_seen_subcommand_from" + following) + seen;
    for (const CLI::App* next : verbs_of(verb)) out += fmt::format("complete -c {} -f -n {} -a {} -d {}\n", app.get_name(), quoted(condition), next->get_name(), quoted(next->get_description()));
    for (const CLI::Option* option : verb.get_options()) {
      std::string names;
      for (const std::string& name : option->get_snames()) names += " -s " + name;
      for (const std::string& name : option->get_lnames()) names += " -l " + name;
      if (!names.empty()) out += fmt::format("complete -c {} -n {}{}{} -d {}\n", app.get_name(), quoted(condition), names, option->get_type_size() == 0 ? "" : " -r", quoted(option->get_description()));
    }
  });
  return out;
}

std::string manual_page(const CLI::App& app, const std::string& version) {
  std::string out = fmt::format(".TH {} 1 \"\" \"{}\" \"\"\n.SH NAME\n{} \\- {}\n", app.get_name(), roff(version), roff(app.get_name()), roff(app.get_description()));
  for_each_app(app, [&](const CLI::App& verb) {
    if (verb.get_parent() != nullptr) out += fmt::format(".SH \"{}\"\n{}\n", roff(full_name(verb)), roff(verb.get_description()));
    for (const CLI::Option* option : verb.get_options()) {
      std::string text = option->get_description();
      if (option->get_required()) text += " (required)";
      if (!option->get_default_str().empty()) text += fmt::format(" (default {})", option->get_default_str());
      out += fmt::format(".TP\n.B {}\n{}\n", roff(option_head(*option)), roff(text));
    }
  });
  return out + ".SH \"EXIT STATUS\"\n" + roff(app.get_footer()) + "\n";
}

}  // namespace fulmar::cmd
