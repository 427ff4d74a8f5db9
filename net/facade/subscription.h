#pragma once
// What both consumers say to the node.

#include <fmt/format.h>

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "net/facade/convert.h"
#include "net/facade/engine.h"

namespace fulmar::v1 {

inline std::optional<Refusal> check_subscription(const std::string& group, const std::string& topic, int32_t batch_messages_max) {
  if (const auto name = check_group_name(group); !name) return refusal(Code::InvalidParameter, name.error().detail, fmt::format("group of {} bytes", group.size()));
  if (const auto name = check_topic_name(topic); !name) return refusal(Code::InvalidParameter, name.error().detail, fmt::format("topic of {} bytes", topic.size()));
  if (batch_messages_max <= 0) return refusal(Code::InvalidParameter, "batch_messages_max must be positive", fmt::format("{}", batch_messages_max));
  return std::nullopt;
}

inline net::CommandMaker subscribe_command(const std::string& group, const std::string& topic, const std::string& tags, From from, int32_t count_max) {
  auto texts = std::make_shared<const std::array<std::string, 3>>(std::array{group, topic, tags});
  return [texts, from, count_max] {
    command::Subscribe s;
    s.group = (*texts)[0];
    s.topic = (*texts)[1];
    s.subscription = (*texts)[2];
    s.from = from == From::Last ? command::Subscribe::From::Last : command::Subscribe::From::First;
    s.count_max = count_max;
    return Command(s);
  };
}

}  // namespace fulmar::v1
