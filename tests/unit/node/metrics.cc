// Metrics and health as the host asks for them: values that agree with what was sent and consumed, in pages of any size.

#include <gtest/gtest.h>

#include "core/base/mutants.h"
#include "core/node/name_server.h"
#include "tests/unit/node/broker_harness.h"
#include "tests/unit/node/step_kit.h"

namespace fulmar::testing {
namespace {

// "name{label=value,…}" -> value; of a histogram the sum, and its counts under "name{…} counts".
using Values = std::map<std::string, std::string>;

std::string key_of(const MetricSample& sample) {
  std::string out(sample.family->name);
  char separator = '{';
  for (const MetricLabel& label : sample.labels) {
    out += fmt::format("{}{}={}", separator, label.name, label.value);
    separator = ',';
  }
  return separator == ',' ? out + "}" : out;
}

// All pages of `samples_max` samples. `ask` gives a page.
template <class Ask>
Values all_of(Ask ask, int32_t samples_max = 1000, int* pages = nullptr) {
  Values out;
  MetricCursor at;
  std::vector<const MetricFamily*> families;
  for (int count = 1; count < 10'000; ++count) {
    const reply::Metrics page = ask(command::GetMetrics{at.family, at.group, at.topic, samples_max});
    EXPECT_FALSE(page.common.empty());
    for (const MetricSample& sample : page.samples) {
      if (families.empty() || families.back() != sample.family) {
        EXPECT_EQ(std::count(families.begin(), families.end(), sample.family), 0) << sample.family->name << " comes in two parts";
        families.push_back(sample.family);
      }
      EXPECT_TRUE(out.emplace(key_of(sample), fmt::format("{}", sample.value)).second) << key_of(sample) << " comes twice";
      if (sample.family->kind != MetricKind::Histogram) continue;
      EXPECT_EQ(sample.counts.size(), sample.family->bounds.size() + 1);
      out[key_of(sample) + " counts"] = fmt::format("{}", fmt::join(sample.counts, " "));
    }
    if (pages != nullptr) *pages = count;
    if (!page.next) return out;
    if (std::tuple(page.next->family, page.next->group, page.next->topic) == std::tuple(at.family, at.group, at.topic)) {
      ADD_FAILURE() << "a page that does not go on, at family " << at.family << " group " << at.group << " topic " << at.topic;
      return out;
    }
    at = *page.next;
  }
  ADD_FAILURE() << "pages without end";
  return out;
}
Values all_of(BrokerHarness& h, int32_t samples_max = 1000, int* pages = nullptr) {
  return all_of([&h](const command::GetMetrics& c) { return std::get<reply::Metrics>(h.ask(c)); }, samples_max, pages);
}

class Planted {
 public:
  explicit Planted(Mutant mutant) { mutants::plant(mutant); }
  ~Planted() { mutants::plant(Mutant::None); }
};

command::PullMessages pull(std::string_view group, std::string_view topic, int64_t offset, int32_t count) {
  command::PullMessages c = BrokerHarness::pull(topic, offset);
  c.group = group;
  c.count_max = count;
  return c;
}

Reply commit(BrokerHarness& h, std::string_view group, std::string_view topic, int64_t offset) {
  command::CommitOffset c;
  c.group = group;
  c.topic = topic;
  c.offset = QueueOffset(offset);
  return h.ask(c);
}

TEST(BrokerMetrics, AgreeWithWhatWasSentAndConsumed) {
  BrokerHarness h;
  ASSERT_TRUE(h.serve());
  h.create("orders", 2);
  for (int i = 0; i < 5; ++i) h.ask(BrokerHarness::message("orders", std::string(100, 'x'), {}, i % 2));
  h.ask(BrokerHarness::message("orders", std::string(2000, 'y'), std::string("__SHARDINGKEY\1k\2"), 0));
  h.ask(pull("billing", "orders", 0, 3));
  commit(h, "billing", "orders", 1);
  h.run_for(Duration::seconds(2));

  Values v = all_of(h);
  const std::string normal = "{topic=orders,message_type=normal,is_system=false}", fifo = "{topic=orders,message_type=fifo,is_system=false}";
  EXPECT_EQ(v["rocketmq_messages_in_total" + normal], "5");
  EXPECT_EQ(v["rocketmq_messages_in_total" + fifo], "1");
  EXPECT_EQ(v["rocketmq_message_size" + normal + " counts"], "5 0 0 0 0 0 0");
  EXPECT_EQ(v["rocketmq_message_size" + fifo + " counts"], "0 1 0 0 0 0 0");
  EXPECT_EQ(v["rocketmq_message_size" + fifo], v["rocketmq_throughput_in_total" + fifo]);
  EXPECT_GT(std::stoi(v["rocketmq_throughput_in_total" + normal]), 500);
  const std::string billing = "{topic=orders,consumer_group=billing,is_system=false}", lag = "{consumer_group=billing,topic=orders,is_retry=false,is_system=false}";
  EXPECT_EQ(v["rocketmq_messages_out_total" + billing], "3");
  EXPECT_GT(std::stoi(v["rocketmq_throughput_out_total" + billing]), 300);
  // Queue 0 holds 4, of which 3 are given and 1 is committed; queue 1 holds 2, of which the group has committed nothing.
  EXPECT_EQ(v["rocketmq_consumer_lag_messages" + lag], "5");
  EXPECT_EQ(v["rocketmq_consumer_inflight_messages" + lag], "2");
  EXPECT_EQ(v["rocketmq_consumer_ready_messages" + lag], "3");
  EXPECT_EQ(v["rocketmq_rpc_latency{protocol_type=native,request_code=send_message,response_code=success} counts"].substr(0, 1), "6");
  EXPECT_EQ(v["rocketmq_broker_permission"], "6");
  EXPECT_EQ(v["rocketmq_topic_number"], "1");
  EXPECT_EQ(v["rocketmq_storage_flush_behind_bytes{storage_type=local,storage_medium=disk}"], "0");
  EXPECT_EQ(v["rocketmq_storage_dispatch_behind_bytes{storage_type=local,storage_medium=disk}"], "0");
  EXPECT_EQ(v["fulmar_sends_acknowledged_total"], "6");
  EXPECT_GE(std::stoi(v["fulmar_flushes_total"]), 6);
  EXPECT_EQ(v["fulmar_broker_ready"], "1");

  h.ask(BrokerHarness::message("nowhere", "x"));
  EXPECT_EQ(all_of(h)["fulmar_refusals_total{code=TOPIC_NOT_EXIST}"], "1");
}

TEST(BrokerMetrics, MembersThatBeginAtTheFirstMessageHaveAllOfItBeforeThem) {
  BrokerHarness h;
  ASSERT_TRUE(h.serve());
  h.create("t");
  for (int i = 0; i < 3; ++i) h.ask(BrokerHarness::message("t", "x"));
  command::Heartbeat first{.client_id = "c1", .group = "first", .version = "7", .from = StartFrom::First, .subscriptions = {{"t", "*"}}};
  command::Heartbeat last = first;
  last.group = "last";
  last.from = StartFrom::Last;
  h.ask(first);
  h.ask(last);
  Values v = all_of(h);
  EXPECT_EQ(v["rocketmq_consumer_lag_messages{consumer_group=first,topic=t,is_retry=false,is_system=false}"], "3");
  EXPECT_EQ(v["rocketmq_consumer_lag_messages{consumer_group=last,topic=t,is_retry=false,is_system=false}"], "0");
  EXPECT_EQ(v["rocketmq_consumer_connections{consumer_group=first,version=7,consume_mode=push,is_system=false}"], "1");
  EXPECT_EQ(v["fulmar_consumer_members"], "2");
}

// Many topics and groups; every size of page gives the same, and no page more than was asked for.
void fill(BrokerHarness& h) {
  ASSERT_TRUE(h.serve());
  for (int i = 0; i < 12; ++i) {
    const std::string topic = fmt::format("t{:02}", i);
    h.create(topic);
    h.ask(BrokerHarness::message(topic, "one"));
    h.ask(BrokerHarness::message(topic, "two", std::string("__SHARDINGKEY\1k\2")));
    for (int g = 0; g < i % 4; ++g) {
      h.ask(pull(fmt::format("g{}", g), topic, 0, 1));
      commit(h, fmt::format("g{}", g), topic, 1);
    }
    const std::string group = fmt::format("h{}", i);
    if (i % 3 == 0) h.ask(command::Heartbeat{.client_id = "c", .group = group, .version = "1", .from = StartFrom::First, .subscriptions = {{topic, "*"}, {"t11", "*"}}});
  }
  h.run_for(Duration::seconds(2));
}

TEST(BrokerMetrics, PagesOfAnySizeGiveTheSame) {
  BrokerHarness h;
  fill(h);
  const auto steady = [](Values v) {   // what asking does not change
    std::erase_if(v, [](const auto& one) { return one.first.starts_with("fulmar_requests_total"); });
    return v;
  };
  int pages = 0;
  const Values whole = steady(all_of(h, 4000, &pages));
  EXPECT_EQ(pages, 1);
  EXPECT_EQ(std::count_if(whole.begin(), whole.end(), [](const auto& v) { return v.first.starts_with("rocketmq_messages_in_total{"); }), 24);
  EXPECT_EQ(std::count_if(whole.begin(), whole.end(), [](const auto& v) { return v.first.starts_with("rocketmq_messages_out_total{"); }), 18);
  EXPECT_EQ(std::count_if(whole.begin(), whole.end(), [](const auto& v) { return v.first.starts_with("rocketmq_consumer_lag_messages{"); }), 18 + 4 * 2);
  for (const int32_t size : {1, 2, 3, 5, 7, 50}) EXPECT_EQ(steady(all_of(h, size, &pages)), whole) << size;
  EXPECT_GT(pages, 3);
  {
    const Planted planted(Mutant::MetricsPageSkipsTopic);
    EXPECT_NE(steady(all_of(h, 3)), whole) << "the planted bug is not seen";
  }
  {
    const Planted planted(Mutant::MetricsLagFromBegin);
    for (int i = 0; i < 2; ++i) h.ask(BrokerHarness::message("t01", "more"));
    EXPECT_NE(all_of(h)["rocketmq_consumer_lag_messages{consumer_group=g0,topic=t01,is_retry=false,is_system=false}"], "3") << "the planted bug is not seen";
  }
}

TEST(BrokerMetrics, WhatIsDeletedBetweenTwoPagesHarmsNobody) {
  BrokerHarness h;
  fill(h);
  for (int32_t size : {1, 4}) {
    MetricCursor at;
    int deleted = 0;
    int pages = 0;
    for (bool is_more = true; is_more;) {
      ASSERT_LT(++pages, 1000);
      const auto page = std::get<reply::Metrics>(h.ask(command::GetMetrics{at.family, at.group, at.topic, size}));
      is_more = page.next.has_value();
      if (is_more) at = *page.next;
      if (is_more && !at.topic.empty() && deleted < 4) {
        h.ask(command::DeleteTopic{at.topic});
        ++deleted;
      }
    }
    EXPECT_EQ(deleted, 4);
  }
  const Reply beyond = h.ask(command::GetMetrics{1'000'000, "x", "y", -5});
  EXPECT_TRUE(std::get<reply::Metrics>(beyond).samples.empty());
  EXPECT_FALSE(std::get<reply::Metrics>(h.ask(command::GetMetrics{-7})).samples.empty());
}

TEST(BrokerMetrics, GroupsBeyondTheBoundAreCountedTogether) {
  Traffic traffic(TrafficLimits{2, 4});
  for (const char* group : {"a", "b", "c", "d", "a"}) traffic.given("t", group, 1, QueueOffset(5), 10, 100);
  traffic.given("t", "a", 3, QueueOffset(9), 1, 1);    // its fourth place would be the fifth of all
  const Traffic::Topic& topic = traffic.topics().at("t");
  ASSERT_EQ(topic.out.size(), 3u);
  EXPECT_EQ(topic.out.at("").messages, 20u);
  EXPECT_EQ(topic.out.at("a").messages, 21u);
  EXPECT_EQ(topic.out.at("a").pulled.size(), 2u);
  traffic.forget("t");
  traffic.forget("t");
  EXPECT_EQ(traffic.out("t", "a"), nullptr);
  traffic.given("u", "c", 3, QueueOffset(1), 1, 1);
  EXPECT_EQ(traffic.topics().at("u").out.at("c").pulled.size(), 4u);
}

// --- health -------------------------------------------------------------------------------------------------------------------------------

TEST(BrokerHealth, SaysWhatItWants) {
  BrokerConfig config = small_broker_config();
  config.name_servers = {"n:9876"};
  BrokerHarness h(config);
  const uint64_t early = h.tell(command::GetHealth{});
  ASSERT_NE(h.told(early), nullptr) << "a recovery that keeps its host waiting";
  EXPECT_NE(describe(*h.told(early)).find("recovering"), std::string::npos) << describe(*h.told(early));
  const uint64_t page = h.tell(command::GetMetrics{});
  ASSERT_NE(h.told(page), nullptr);
  EXPECT_FALSE(std::get<reply::Metrics>(*h.told(page)).next.has_value());
  ASSERT_TRUE(h.serve());
  EXPECT_NE(h.ask_text(command::GetHealth{}).find("registered with none of 1 name servers"), std::string::npos) << h.ask_text(command::GetHealth{});
  h.tell(command::Stop{Duration::seconds(5)});
  const uint64_t late = h.tell(command::GetHealth{});
  ASSERT_NE(h.told(late), nullptr);
  EXPECT_EQ(describe(*h.told(late)), "Health not ready: the broker is stopping");
}

TEST(BrokerHealth, IsReadyWithoutNameServers) {
  BrokerHarness h;
  ASSERT_TRUE(h.serve());
  EXPECT_EQ(h.ask_text(command::GetHealth{}), "Health ready");
}

// A connection cannot ask: neither has a place in the protocol.
TEST(BrokerHealth, IsTheHostsAlone) {
  native::Codec codec;
  std::vector<uint8_t> bytes;
  EXPECT_FALSE(codec.encode_request(1, false, command::GetHealth{}, bytes).has_value());
  EXPECT_FALSE(codec.encode_request(1, false, command::GetMetrics{}, bytes).has_value());
}

// --- name server --------------------------------------------------------------------------------------------------------------------------

TEST(NameServerMetrics, NameEveryBrokerInPagesOfAnySize) {
  Files files;
  Trace trace;
  Outbox out;
  Moment now;
  NameServer node(NameServerConfig{}, Seed{1}, files, trace);
  const auto step = [&](std::vector<Input> inputs) {
    out.clear();
    node.step(now, inputs, out);
  };
  uint64_t call = 0;
  const auto ask = [&](const Command& command) {
    step({Told{CallId(++call), command}});
    return std::get<request::Tell>(out.requests().back()).reply;
  };
  step({});
  const Ticket ticket = std::get<request::Listen>(out.requests()[0]).ticket;
  EXPECT_EQ(describe(ask(command::GetHealth{})), "Health not ready: the name server does not listen yet");
  step({Listening{ticket, Address{"0.0.0.0", 9876}}});
  EXPECT_EQ(describe(ask(command::GetHealth{})), "Health ready");
  for (int i = 0; i < 5; ++i)
    for (int id = 0; id < 12; id += 11) {
      command::RegisterBroker c;
      const std::string name = fmt::format("b{}", i);
      c.cluster = "c";
      c.broker_name = name;
      c.broker_id = BrokerId(id);
      c.host = "h";
      c.port = static_cast<uint16_t>(1000 + i * 20 + id);
      c.topics_version = 1;
      c.topics = {{"t", 1, 1, 6}};
      ask(c);
    }
  now.monotonic = Monotonic{1'500'000'000};
  const auto page = [&](const command::GetMetrics& c) { return std::get<reply::Metrics>(ask(c)); };
  int pages = 0;
  Values whole = all_of(page, 1000, &pages);
  EXPECT_EQ(pages, 1);
  EXPECT_EQ(whole["fulmar_namesrv_brokers"], "10");
  EXPECT_EQ(whole["fulmar_namesrv_registrations_total"], "10");
  EXPECT_EQ(whole["fulmar_namesrv_broker_silence_seconds{cluster=c,broker=b3,broker_id=11,address=h:1071}"], "1500");
  EXPECT_EQ(whole["fulmar_namesrv_broker_topics{cluster=c,broker=b3,broker_id=0,address=h:1060}"], "1");
  EXPECT_EQ(whole["fulmar_namesrv_broker_writable{cluster=c,broker=b4,broker_id=0,address=h:1080}"], "1");
  for (const int32_t size : {1, 2, 3, 7}) EXPECT_EQ(all_of(page, size, &pages), whole) << size;
  EXPECT_GT(pages, 3);
}

}  // namespace
}  // namespace fulmar::testing
