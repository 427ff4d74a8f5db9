// The meta fold against a map: whatever is changed and from wherever dispatch reads the log again, the tables are what was last said,
// and a fresh fold of the whole log says the same.

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "tests/unit/store/meta_kit.h"

namespace fulmar::testing {
namespace {

struct Model {
  std::map<std::string, TopicConfig> topics;
  std::map<OffsetKey, int64_t> offsets;
  std::map<std::pair<std::string, int32_t>, int64_t> next;   // of queues, over all lives of a topic
};

void expect_equal(MetaKit& kit, const Model& model) {
  RC_ASSERT(kit.meta().topic_count() == model.topics.size());
  const auto listed = kit.meta().topics("", 100);
  RC_ASSERT(listed.size() == model.topics.size());
  for (const TopicConfig& config : listed) RC_ASSERT(model.topics.at(config.name) == config);
  RC_ASSERT(kit.meta().all_offsets().size() == model.offsets.size());
  for (const auto& [key, offset] : model.offsets) RC_ASSERT(kit.meta().offset(key) == QueueOffset(offset));
}

RC_GTEST_PROP(MetaProperty, IsAMapUnderAnyRedispatch, ()) {
  MetaKit kit;
  Model model;
  const int count = *rc::gen::inRange(1, 60);
  for (int i = 0; i < count; ++i) {
    const std::string topic(1, static_cast<char>('a' + *rc::gen::inRange(0, 3)));
    switch (*rc::gen::inRange(0, 6)) {
      case 0: {
        const TopicConfig config{topic, *rc::gen::inRange(1, 4), *rc::gen::inRange(1, 4), static_cast<uint32_t>(*rc::gen::inRange(2, 8))};
        RC_ASSERT(kit.meta().set_topic(kit.ctx, config).has_value());
        model.topics[topic] = config;
        break;
      }
      case 1: {
        const bool is_there = model.topics.erase(topic) == 1;
        RC_ASSERT(kit.meta().remove_topic(kit.ctx, topic).has_value() == is_there);
        break;
      }
      case 2: {
        std::vector<std::pair<OffsetKey, QueueOffset>> offsets;
        for (int k = *rc::gen::inRange(1, 4); k > 0; --k) {
          const OffsetKey key{std::string(1, static_cast<char>('g' + *rc::gen::inRange(0, 2))), topic, k};
          const int64_t offset = *rc::gen::inRange(0, 1000);
          offsets.push_back({key, QueueOffset(offset)});
          model.offsets[key] = offset;
        }
        RC_ASSERT(kit.meta().set_offsets(kit.ctx, offsets).has_value());
        break;
      }
      case 3:
        if (model.topics.contains(topic)) {
          const int32_t queue = *rc::gen::inRange(0, model.topics[topic].write_queues);
          const int64_t messages = *rc::gen::inRange(0, 5);
          RC_ASSERT(kit.queues().next_offset(topic, QueueId(queue)) == QueueOffset((model.next[{topic, queue}])));
          kit.assign(topic, queue, messages);
          model.next[{topic, queue}] += messages;
        }
        break;
      case 4:
        if (!kit.log.records.empty()) kit.redispatch_from(*rc::gen::inRange<size_t>(0, kit.log.records.size()));
        break;
      default:
        kit.log.failing = *rc::gen::inRange(0, 3) == 0 ? std::optional(Errc::LogRolling) : std::nullopt;
        if (kit.log.failing) RC_ASSERT(!kit.meta().set_topic(kit.ctx, {topic, 1, 1, 6}).has_value());
        kit.log.failing = {};
        break;
    }
    expect_equal(kit, model);
  }
  MetaKit fresh;
  fresh.take_records(kit);
  fresh.redispatch_from(0);
  expect_equal(fresh, model);
  // What a deleted topic's queues had given out is not given again.
  for (const auto& [topic, entry] : kit.meta().all_topics())
    if (entry.is_removed)
      for (const auto& [queue, next] : model.next)
        if (queue.first == topic) RC_ASSERT(fresh.queues().next_offset(topic, QueueId(queue.second)) == QueueOffset(next));
}

}  // namespace
}  // namespace fulmar::testing
