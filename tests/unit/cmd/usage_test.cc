#include "cmd/common/usage.h"

#include <gtest/gtest.h>

#include "cmd/common/shell_help.h"

namespace fulmar::cmd {
namespace {

struct CommandLine : ::testing::Test {
  CLI::App app{"a test", "prog"};
  bool is_listing = false;
  std::string topic, said;
  CommandLine() {
    app.require_subcommand(1);
    CLI::App* noun = app.add_subcommand("topic", "of topics");
    noun->require_subcommand(1);
    noun->add_subcommand("list", "all of them")->add_flag("--json", is_listing, "JSON");
    noun->add_subcommand("delete", "one of them")->add_option("topic", topic, "which")->required();
    CLI::App* server = app.add_subcommand("broker", "runs one, or asks one");
    server->add_subcommand("status", "asks one");
  }
  std::optional<int> parse(std::vector<const char*> words) {
    words.insert(words.begin(), "prog");
    said.clear();
    return parse_command_line(app, static_cast<int>(words.size()), words.data(), [this](const std::string& sentence) { said = sentence; });
  }
};

TEST_F(CommandLine, WhatIsRightGoesOn) {
  EXPECT_FALSE(parse({"topic", "list", "--json"}).has_value());
  EXPECT_TRUE(is_listing);
  EXPECT_FALSE(parse({"broker"}).has_value());
  EXPECT_FALSE(parse({"broker", "status"}).has_value());
}

TEST_F(CommandLine, WhatIsWrongIsOneSentenceWithTheNearestName) {
  EXPECT_EQ(parse({"topik"}), 2);
  EXPECT_EQ(said, "there is no verb 'topik'; did you mean 'topic'? there are: topic, broker");
  EXPECT_EQ(parse({"topic", "lst"}), 2);
  EXPECT_EQ(said, "topic: there is no verb 'lst'; did you mean 'list'? there are: list, delete");
  EXPECT_EQ(parse({"topic"}), 2);
  EXPECT_EQ(said, "topic: a verb is missing; there are: list, delete; see prog topic --help");
  EXPECT_EQ(parse({"topic", "list", "--jsno=1"}), 2);
  EXPECT_EQ(said, "topic list: there is no option '--jsno'; did you mean '--json'? see prog topic list --help");
  EXPECT_EQ(parse({"topic", "delete"}), 2);
  EXPECT_EQ(said, "topic delete: topic is required; see prog topic delete --help");
  EXPECT_EQ(parse({"topic", "delete", "a", "b"}), 2);
  EXPECT_EQ(said, "topic delete: 'b' is one word too many; see prog topic delete --help");
  EXPECT_EQ(parse({"broker", "statsu"}), 2);
  EXPECT_EQ(said, "broker: there is no verb 'statsu'; did you mean 'status'? there are: status");
}

TEST_F(CommandLine, IsToldToShellsAndReaders) {
  EXPECT_NE(bash_completion(app).find("'prog topic list') words='--help -h --json'"), std::string::npos) << bash_completion(app);
  EXPECT_NE(fish_completion(app).find("-a delete -d 'one of them'"), std::string::npos) << fish_completion(app);
  EXPECT_NE(manual_page(app, "prog 1").find(".SH \"prog topic delete\"\none of them\n"), std::string::npos) << manual_page(app, "prog 1");
}

}  // namespace
}  // namespace fulmar::cmd
