// A broker node in memory: what is answered, when, and what is still there after a crash.

#include "core/node/broker.h"

#include <gtest/gtest.h>

#include "core/base/mutants.h"
#include "tests/unit/node/broker_harness.h"

namespace fulmar::testing {
namespace {

using Harness = BrokerHarness;

Code code_of(const Reply& reply) {
  if (const auto* refusal = std::get_if<Refusal>(&reply)) return refusal->code;
  if (const auto* sent = std::get_if<reply::Sent>(&reply)) return sent->code;
  if (const auto* pulled = std::get_if<reply::Pulled>(&reply)) return pulled->code;
  return Code::Success;
}

TEST(Broker, ListensAtOnceAndRefusesUntilTheStoreServes) {
  Harness h;
  const uint64_t early = h.tell(command::QueryRoute{"t"});
  ASSERT_NE(h.told(early), nullptr);
  EXPECT_EQ(code_of(*h.told(early)), Code::ServiceNotAvailable);
  EXPECT_GT(std::get<Refusal>(*h.told(early)).retry_after_ms, 0u);
  EXPECT_FALSE(h.driver.has_event("BrokerServing"));
  const uint64_t status = h.tell(command::GetStatus{});
  EXPECT_TRUE(std::holds_alternative<reply::Status>(*h.told(status)));
  EXPECT_TRUE(h.driver.has_event("BrokerListening"));
  EXPECT_TRUE(h.serve());
}

// From the port that it really got; without it a broker is whole all the same.
TEST(Broker, ListensAtTheVipPort) {
  for (const bool is_taken : {false, true}) {
    Harness h;
    h.is_vip_taken = is_taken;
    ASSERT_TRUE(h.serve());
    EXPECT_EQ(h.listened, (std::vector<Address>{{"0.0.0.0", 0}, {"0.0.0.0", 10909}}));
    EXPECT_EQ(h.driver.has_event("VipPortNotFree"), is_taken);
  }
  BrokerConfig config = small_broker_config();
  config.is_vip_enabled = false;
  Harness h(config);
  ASSERT_TRUE(h.serve());
  EXPECT_EQ(h.listened.size(), 1u);
}

// Its sender waits for the flush, whatever the mode: not for the end of an interval that is longer than the patience.
TEST(Broker, FlushesAtOnceForAnAsynchronousStoreWhenSomebodyWaits) {
  BrokerConfig config = small_broker_config();
  config.flush_disk_type = FlushDiskType::Async;
  config.flush_interval_ms = 10'000;
  config.sync_flush_timeout_ms = 20;
  Harness h(config);
  ASSERT_TRUE(h.serve());
  const Monotonic before = h.driver.now.monotonic;
  for (const char* topic : {"a", "b", "c"}) EXPECT_EQ(describe(h.create(topic)), "Ok");
  EXPECT_LT(h.driver.now.monotonic - before, Duration::milliseconds(20));
}

TEST(Broker, StoresAndGivesBack) {
  Harness h;
  ASSERT_TRUE(h.serve());
  EXPECT_EQ(describe(h.create("t")), "Ok");
  EXPECT_EQ(h.ask_text(Harness::message("t", "one")), "Sent SUCCESS queue 0 offset 0 count 1");
  EXPECT_EQ(h.ask_text(Harness::message("t", "two")), "Sent SUCCESS queue 0 offset 1 count 1");
  const Reply reply = h.ask(Harness::pull("t", 0));
  EXPECT_EQ(describe(reply), "Pulled SUCCESS count 2 next 2 min 0 max 2");
  EXPECT_EQ(Harness::bodies(std::get<reply::Pulled>(reply).records), (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(h.ask_text(Harness::pull("t", 2)), "Pulled PULL_NOT_FOUND count 0 next 2 min 0 max 2");
  EXPECT_EQ(h.ask_text(Harness::pull("t", 9)), "Pulled PULL_OFFSET_MOVED count 0 next 2 min 0 max 2");
  EXPECT_EQ(h.ask_text(command::QueryQueue{"t", 0, {}}), "Queue min 0 max 2");
}

TEST(Broker, AcknowledgesOnlyWhatIsFlushed) {
  Harness h;
  ASSERT_TRUE(h.serve());
  h.create("t");
  h.settle();
  const uint64_t call = h.tell(Harness::message("t", "one"));
  for (int i = 0; i < 5; ++i) h.step();
  EXPECT_EQ(h.told(call), nullptr);
  h.driver.is_flush_failing = true;
  EXPECT_FALSE(h.run_until([&] { return h.told(call) != nullptr; }));
  ASSERT_TRUE(h.driver.halted().has_value());
  EXPECT_EQ(h.driver.halted()->code, Errc::FlushFailed);
}

TEST(Broker, SaysFlushDiskTimeoutWhenTheDiskIsLate) {
  Harness h;
  ASSERT_TRUE(h.serve());
  h.create("t");
  h.settle();
  const uint64_t call = h.tell(Harness::message("t", "one"));
  h.driver.advance(Duration::milliseconds(4999));
  h.step();
  EXPECT_EQ(h.told(call), nullptr);
  h.driver.advance(Duration::milliseconds(2));
  h.step();
  ASSERT_NE(h.told(call), nullptr);
  EXPECT_EQ(code_of(*h.told(call)), Code::FlushDiskTimeout);
  EXPECT_EQ(h.driver.events().back().values.back(), 0u) << "MessageAcked must not promise a flush";
}

TEST(Broker, RefusesBadSends) {
  Harness h;
  ASSERT_TRUE(h.serve());
  h.create("t", 2);
  h.ask(command::CreateTopic{"reads", 1, 1, kPermRead});
  const std::string large(64 * 1024 + 1, 'x'), long_name(128, 'n'), properties(32'768, 'p');
  EXPECT_EQ(code_of(h.ask(Harness::message("t", ""))), Code::MessageIllegal);
  EXPECT_EQ(code_of(h.ask(Harness::message("t", large))), Code::MessageIllegal);
  EXPECT_EQ(code_of(h.ask(Harness::message("t", "x", properties))), Code::MessageIllegal);
  EXPECT_EQ(code_of(h.ask(Harness::message("t", "x", "DELAY\x01" "3\x02"))), Code::MessageIllegal);
  EXPECT_EQ(code_of(h.ask(Harness::message("t", "x", {}, 2))), Code::InvalidParameter);
  EXPECT_EQ(code_of(h.ask(Harness::message("../t", "x"))), Code::InvalidParameter);
  EXPECT_EQ(code_of(h.ask(Harness::message(long_name, "x"))), Code::InvalidParameter);
  EXPECT_EQ(code_of(h.ask(Harness::message("unknown", "x"))), Code::TopicNotExist);
  EXPECT_EQ(code_of(h.ask(Harness::message(kMetaTopic, "x"))), Code::NoPermission);
  EXPECT_EQ(code_of(h.ask(Harness::message("reads", "x"))), Code::NoPermission);
  command::SendMessage half = Harness::message("t", "x");
  half.sys_flag = sys_flag::kPrepared;
  EXPECT_EQ(code_of(h.ask(half)), Code::MessageIllegal);
  EXPECT_EQ(h.ask_text(command::QueryQueue{"t", 0, {}}), "Queue min 0 max 0");
}

TEST(Broker, ChoosesQueuesInTurn) {
  Harness h;
  ASSERT_TRUE(h.serve());
  h.create("t", 3);
  std::string queues;
  for (int i = 0; i < 6; ++i) queues += fmt::format("{} ", std::get<reply::Sent>(h.ask(Harness::message("t", "x", {}, -1))).queue_id);
  EXPECT_EQ(queues, "0 1 2 0 1 2 ");
}

TEST(Broker, StoresABatchWholeOrNotAtAll) {
  Harness h;
  ASSERT_TRUE(h.serve());
  h.create("t");
  std::vector<uint8_t> packed;
  for (const char* body : {"a", "b", "c"}) append_batch_item(packed, BatchItem{0, {}, as_bytes(body)});
  command::SendBatch batch;
  batch.topic = "t";
  batch.packed = packed;
  EXPECT_EQ(h.ask_text(batch), "Sent SUCCESS queue 0 offset 0 count 3");
  append_batch_item(packed, BatchItem{0, {}, {}});   // an empty body at its end
  batch.packed = packed;
  EXPECT_EQ(code_of(h.ask(batch)), Code::MessageIllegal);
  packed.resize(packed.size() - 1);
  batch.packed = packed;
  EXPECT_EQ(code_of(h.ask(batch)), Code::MessageIllegal);
  EXPECT_EQ(h.read_all("t"), (std::vector<std::string>{"a", "b", "c"}));
}

TEST(Broker, MakesTopicsWhenConfigured) {
  BrokerConfig config = small_broker_config();
  config.is_topic_auto_created = true;
  Harness h(config);
  ASSERT_TRUE(h.serve());
  EXPECT_EQ(h.ask_text(command::QueryRoute{"t"}), "Route 1 brokers 1 queue groups");
  EXPECT_EQ(h.ask_text(Harness::message("t", "x", {}, -1)), "Sent SUCCESS queue 0 offset 0 count 1");
  EXPECT_EQ(h.ask_text(command::DescribeTopic{"t"}), "Topic t read 8 write 8 perm 6");
}

// --- consuming ------------------------------------------------------------------------------------------------------------------------

TEST(Broker, FiltersByTagAndAdvances) {
  Harness h;
  ASSERT_TRUE(h.serve());
  h.create("t");
  // "polygenelubricants" hashes to the least integer: negative codes are codes.
  for (const char* tag : {"TagA", "TagB", "polygenelubricants", "TagA"}) h.ask(Harness::message("t", tag, fmt::format("TAGS\x01{}\x02", tag)));
  const Reply reply = h.ask(Harness::pull("t", 0, 0, " TagA || polygenelubricants "));
  EXPECT_EQ(describe(reply), "Pulled SUCCESS count 3 next 4 min 0 max 4");
  EXPECT_EQ(Harness::bodies(std::get<reply::Pulled>(reply).records), (std::vector<std::string>{"TagA", "polygenelubricants", "TagA"}));
  EXPECT_EQ(h.ask_text(Harness::pull("t", 1, 0, "TagC")), "Pulled PULL_RETRY_IMMEDIATELY count 0 next 4 min 0 max 4");
  EXPECT_EQ(code_of(h.ask(Harness::pull("t", 0, 0, "||"))), Code::SubscriptionParseFailed);
}

TEST(Broker, BoundsAPullByCountAndBytes) {
  Harness h;
  ASSERT_TRUE(h.serve());
  h.create("t");
  for (int i = 0; i < 10; ++i) h.ask(Harness::message("t", fmt::format("{}{}", i, std::string(1000, 'x'))));
  command::PullMessages pull = Harness::pull("t", 0);
  pull.count_max = 3;
  EXPECT_EQ(h.ask_text(pull), "Pulled SUCCESS count 3 next 3 min 0 max 10");
  pull.count_max = 32;
  pull.bytes_max = 2500;
  EXPECT_EQ(h.ask_text(pull), "Pulled SUCCESS count 2 next 2 min 0 max 10");
  pull.bytes_max = 1;   // the first message leaves whatever its size
  EXPECT_EQ(h.ask_text(pull), "Pulled SUCCESS count 1 next 1 min 0 max 10");
  EXPECT_EQ(h.read_all("t").size(), 10u);
}

TEST(Broker, HoldsAPullUntilSomethingArrives) {
  Harness h;
  ASSERT_TRUE(h.serve());
  h.create("t");
  const uint64_t call = h.tell(Harness::pull("t", 0, 10'000));
  h.settle();
  EXPECT_EQ(h.told(call), nullptr);
  const uint64_t send = h.tell(Harness::message("t", "one"));
  h.settle();
  ASSERT_NE(h.told(send), nullptr);
  ASSERT_NE(h.told(call), nullptr);
  EXPECT_EQ(describe(*h.told(call)), "Pulled SUCCESS count 1 next 1 min 0 max 1");
}

TEST(Broker, AQueryWalksThroughMoreColdIndexFilesThanItMayFetchInVain) {
  BrokerConfig config = small_broker_config();
  config.index_slot_count = 8;
  config.index_entry_count = 8;
  Harness h(config);
  ASSERT_TRUE(h.serve());
  h.create("t");
  for (int i = 0; i < 200; ++i) h.ask(Harness::message("t", "body", fmt::format("KEYS\x01" "key{}\x02", i)));
  h.run_for(Duration::seconds(3));
  h.cut_power({1, 1});
  ASSERT_TRUE(h.serve());
  h.driver.advance(Duration::seconds(60));
  EXPECT_EQ(h.ask_text(command::QueryMessages{"t", "key0", 32, {}, {}, {}}), "Messages 1");
}

TEST(Broker, HoldsAPullNoLongerThanItsDeadline) {
  Harness h;
  ASSERT_TRUE(h.serve());
  h.create("t");
  const uint64_t call = h.tell(Harness::pull("t", 0, 1000));
  h.settle();
  h.driver.advance(Duration::milliseconds(999));
  h.step();
  EXPECT_EQ(h.told(call), nullptr);
  h.driver.advance(Duration::milliseconds(1));
  h.step();
  ASSERT_NE(h.told(call), nullptr);
  EXPECT_EQ(describe(*h.told(call)), "Pulled PULL_NOT_FOUND count 0 next 0 min 0 max 0");
}

TEST(Broker, AHeldPullPassesOverOtherTagsAndSaysHowFarItCame) {
  Harness h;
  ASSERT_TRUE(h.serve());
  h.create("t");
  const uint64_t call = h.tell(Harness::pull("t", 0, 1000, "TagA"));
  h.tell(Harness::message("t", "other", "TAGS\x01TagB\x02"));
  h.settle();
  EXPECT_EQ(h.told(call), nullptr);
  h.driver.advance(Duration::milliseconds(1000));
  h.step();
  ASSERT_NE(h.told(call), nullptr);
  EXPECT_EQ(describe(*h.told(call)), "Pulled PULL_RETRY_IMMEDIATELY count 0 next 1 min 0 max 1");
}

TEST(Broker, AnArrivalInTheStepOfParkingWakesThePull) {
  BrokerConfig config = small_broker_config();
  config.flush_disk_type = FlushDiskType::Async;
  Harness h(config);
  ASSERT_TRUE(h.serve());
  h.create("t");
  h.step({Told{CallId(900), Harness::pull("t", 0, 10'000)}, Told{CallId(901), Harness::message("t", "one")}});
  h.settle();
  ASSERT_NE(h.told(900), nullptr);
  EXPECT_EQ(describe(*h.told(900)), "Pulled SUCCESS count 1 next 1 min 0 max 1");
}

TEST(Broker, ReadsColdPagesOffTheLoop) {
  Harness h;
  ASSERT_TRUE(h.serve());
  h.create("t");
  for (int i = 0; i < 40; ++i) h.ask(Harness::message("t", fmt::format("body {} {}", i, std::string(4000, 'x')), fmt::format("KEYS\x01key{}\x02", i)));
  h.ask(command::Stop{Duration::seconds(5)});
  h.wake();
  h.driver.kill();
  ASSERT_TRUE(h.serve());
  EXPECT_EQ(h.read_all("t").size(), 40u);
  EXPECT_EQ(h.ask_text(command::QueryMessages{"t", "key7", 32, {}, {}, {}}), "Messages 1");
}

TEST(Broker, FindsMessagesByKeyAndByOffset) {
  Harness h;
  ASSERT_TRUE(h.serve());
  h.create("t");
  h.create("u");
  h.ask(Harness::message("t", "one", "KEYS\x01red blue\x02UNIQ_KEY\x01id1\x02"));
  const Reply two = h.ask(Harness::message("t", "two", "KEYS\x01red\x02"));
  h.ask(Harness::message("u", "three", "KEYS\x01red\x02"));
  const Reply found = h.ask(command::QueryMessages{"t", "red", 32, {}, {}, {}});
  EXPECT_EQ(Harness::bodies(std::get<reply::Messages>(found).records), (std::vector<std::string>{"two", "one"}));
  EXPECT_EQ(h.ask_text(command::QueryMessages{"t", "red", 1, {}, {}, {}}), "Messages 1");
  EXPECT_EQ(h.ask_text(command::QueryMessages{"t", "id1", 32, {}, {}, {}}), "Messages 1");
  EXPECT_EQ(h.ask_text(command::QueryMessages{"t", "re", 32, {}, {}, {}}), "Messages 0");
  EXPECT_EQ(h.ask_text(command::QueryMessages{"t", "red", 32, Wall{1}, Wall{2}, {}}), "Messages 0");
  const PhysicalOffset at = std::get<reply::Sent>(two).physical_offset;
  EXPECT_EQ(Harness::bodies(std::get<reply::Messages>(h.ask(command::ViewMessage{at, {}})).records), (std::vector<std::string>{"two"}));
  for (const uint64_t wrong : {at.value() + 1, uint64_t{0} - 1, uint64_t{1} << 40})
    EXPECT_EQ(code_of(h.ask(command::ViewMessage{PhysicalOffset(wrong), {}})), Code::QueryNotFound);
}

TEST(Broker, CommitsAtOnceThenOnceASecond) {
  Harness h;
  ASSERT_TRUE(h.serve());
  h.create("t");
  for (int i = 0; i < 9; ++i) h.ask(Harness::message("t", "x"));
  const auto commit = [](int64_t offset) { return command::CommitOffset{"g", "t", 0, QueueOffset(offset), false, {}}; };
  EXPECT_EQ(code_of(h.ask(command::QueryOffset{"g", "t", 0, {}})), Code::QueryNotFound);
  h.settle();
  const uint64_t first = h.tell(commit(3));
  ASSERT_NE(h.told(first), nullptr);
  EXPECT_EQ(h.ask_text(command::QueryOffset{"g", "t", 0, {}}), "Offset 3");
  const uint64_t second = h.tell(commit(5)), third = h.tell(commit(4));
  EXPECT_EQ(h.told(second), nullptr);
  EXPECT_EQ(h.ask_text(command::QueryOffset{"g", "t", 0, {}}), "Offset 3");
  h.run_until([&] { return h.told(third) != nullptr; });
  ASSERT_NE(h.told(second), nullptr);
  EXPECT_EQ(h.ask_text(command::QueryOffset{"g", "t", 0, {}}), "Offset 4");
  EXPECT_EQ(code_of(h.ask(commit(10))), Code::InvalidParameter);
  EXPECT_EQ(code_of(h.ask(commit(-1))), Code::InvalidParameter);
  h.kill();
  ASSERT_TRUE(h.serve());
  EXPECT_EQ(h.ask_text(command::QueryOffset{"g", "t", 0, {}}), "Offset 4");
}

TEST(Broker, ACommitThatAsksForItIsAnsweredWhenFlushed) {
  Harness h;
  ASSERT_TRUE(h.serve());
  h.create("t");
  h.ask(Harness::message("t", "x"));
  h.settle();
  const uint64_t call = h.tell(command::CommitOffset{"g", "t", 0, QueueOffset(1), true, {}});
  EXPECT_EQ(h.told(call), nullptr);
  h.settle();
  ASSERT_NE(h.told(call), nullptr);
  h.cut_power({0, 1});
  ASSERT_TRUE(h.serve());
  EXPECT_EQ(h.ask_text(command::QueryOffset{"g", "t", 0, {}}), "Offset 1");
}

// --- topics ---------------------------------------------------------------------------------------------------------------------------

// Seen on a filled store: garbage in a queue file made pulls pass over messages that stand whole in the log.
TEST(BrokerPull, StandsBeforeADamagedQueueEntryUntilTheNextStartBuildsItAgain) {
  BrokerHarness h;
  ASSERT_TRUE(h.serve());
  h.create("t");
  const std::vector<std::string> bodies{"a", "b", "c", "d", "e"};
  for (const std::string& body : bodies) h.ask(BrokerHarness::message("t", body));
  h.run_for(Duration::seconds(5));   // a round and its checkpoint
  h.kill();
  const std::string path = "store/consumequeue/t/0/00000000000000000000";
  std::vector<uint8_t> file(h.driver.contents(path).begin(), h.driver.contents(path).end());
  std::copy(file.begin(), file.begin() + 20, file.begin() + 2 * 20);   // a true entry, of another place
  h.driver.put(path, file);
  ASSERT_TRUE(h.serve());
  mutants::plant(Mutant::PullBelievesItsQueue);
  EXPECT_EQ(h.read_all("t"), (std::vector<std::string>{"a", "b", "a", "d", "e"}));
  mutants::plant(Mutant::None);
  const Reply before = h.ask(BrokerHarness::pull("t", 0));
  EXPECT_EQ(BrokerHarness::bodies(std::get<reply::Pulled>(before).records), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(std::get<reply::Pulled>(before).next, QueueOffset(2));
  EXPECT_EQ(h.ask_text(BrokerHarness::pull("t", 2)),
            "Refusal SYSTEM_ERROR (queue 0 of topic 't' is damaged at offset 2: the next start of the broker builds it again from the log; 1 queues are broken; retry after 0 ms)");
  EXPECT_TRUE(h.driver.has_event("QueueEntryDamaged"));
  h.ask(BrokerHarness::message("t", "f"));
  h.run_for(Duration::seconds(5));
  h.kill();
  ASSERT_TRUE(h.serve());
  EXPECT_TRUE(h.driver.has_event("QueuesRebuilt"));
  EXPECT_EQ(h.read_all("t"), (std::vector<std::string>{"a", "b", "c", "d", "e", "f"}));
}

TEST(BrokerStop, DoesNotWaitForRoomOnAFullDisk) {
  BrokerHarness h;
  ASSERT_TRUE(h.serve());
  h.create("t");
  h.driver.is_disk_full = true;
  h.ask(BrokerHarness::message("t", "a"));   // the log has room prepared, the queue has no file
  h.tell(command::Stop{Duration::seconds(60)});
  const Monotonic begin = h.driver.now.monotonic;
  h.run_for(Duration::seconds(60));
  ASSERT_TRUE(h.driver.halted().has_value());
  EXPECT_LT((h.driver.now.monotonic - begin).ms(), 5000);
  EXPECT_NE(h.driver.halted()->text().find("the disk is full"), std::string::npos) << h.driver.halted()->text();
  h.driver.is_disk_full = false;
  h.kill();
  ASSERT_TRUE(h.serve());
  EXPECT_EQ(h.read_all("t"), std::vector<std::string>{"a"});
}

TEST(BrokerAdmin, ATopicKeepsItsQueuesThatHoldMessages) {
  BrokerHarness h;
  ASSERT_TRUE(h.serve());
  h.create("t", 4);
  for (const int32_t queue : {1, 3, 3}) h.ask(BrokerHarness::message("t", "x", "", queue));
  EXPECT_EQ(h.ask_text(command::CreateTopic{"t", 1, 1, 6}),
            "Refusal INVALID_PARAMETER (with 1 read queues topic 't' would hide messages: make the write queues fewer, and the read queues when those are gone; queue 1 holds 1, queue 3 holds 2; retry after 0 ms)");
  EXPECT_EQ(h.ask_text(command::CreateTopic{"t", 3, 3, 6}).substr(0, 26), "Refusal INVALID_PARAMETER ");
  EXPECT_EQ(h.ask_text(command::CreateTopic{"t", 4, 1, 6}), "Ok");   // nothing new comes into the others, and what is there can be read
  EXPECT_EQ(h.ask_text(command::CreateTopic{"t", 8, 8, 4}), "Ok");
  EXPECT_EQ(h.ask_text(command::CreateTopic{"t", 4, 4, 6}), "Ok");
}

TEST(Broker, TopicsSurviveAndOffsetsGoOnAfterDeletion) {
  Harness h;
  ASSERT_TRUE(h.serve());
  EXPECT_EQ(code_of(h.ask(command::CreateTopic{"rmq_sys_x", 1, 1, 6})), Code::NoPermission);
  EXPECT_EQ(code_of(h.ask(command::CreateTopic{"t", 0, 2000, 6})), Code::InvalidParameter);
  EXPECT_EQ(code_of(h.ask(command::CreateTopic{"t", 1, 1, 8})), Code::InvalidParameter);
  h.create("t");
  for (int i = 0; i < 3; ++i) h.ask(Harness::message("t", fmt::format("old {}", i)));
  const uint64_t held = h.tell(Harness::pull("t", 3, 10'000));
  EXPECT_EQ(h.ask_text(command::DeleteTopic{"t"}), "Ok");
  ASSERT_NE(h.told(held), nullptr);
  EXPECT_EQ(code_of(*h.told(held)), Code::TopicNotExist);
  EXPECT_EQ(code_of(h.ask(Harness::message("t", "x"))), Code::TopicNotExist);
  h.cut_power({1, 2});
  ASSERT_TRUE(h.serve());
  EXPECT_EQ(code_of(h.ask(command::DescribeTopic{"t"})), Code::TopicNotExist);
  h.create("t");
  EXPECT_EQ(h.ask_text(Harness::message("t", "new")), "Sent SUCCESS queue 0 offset 3 count 1");
  EXPECT_EQ(h.ask_text(Harness::pull("t", 0)), "Pulled PULL_OFFSET_MOVED count 0 next 3 min 3 max 4");
  EXPECT_EQ(h.read_all("t", 3), (std::vector<std::string>{"new"}));
  h.kill();
  ASSERT_TRUE(h.serve());
  EXPECT_EQ(h.read_all("t", 3), (std::vector<std::string>{"new"}));
  EXPECT_EQ(h.ask_text(command::ListTopics{"", 10}), "Topics 1");
}

TEST(Broker, AMessageInFlightDoesNotOutliveItsTopic) {
  Harness h;
  ASSERT_TRUE(h.serve());
  h.create("t");
  h.settle();
  h.tell(Harness::message("t", "old"));            // appended, not yet dispatched
  h.tell(command::DeleteTopic{"t"});
  h.tell(command::CreateTopic{"t", 1, 1, 6});
  h.settle();
  EXPECT_EQ(h.ask_text(Harness::message("t", "new")), "Sent SUCCESS queue 0 offset 1 count 1");
  EXPECT_EQ(h.read_all("t", 1), (std::vector<std::string>{"new"}));
  EXPECT_EQ(h.ask_text(command::QueryQueue{"t", 0, {}}), "Queue min 1 max 2");
}

// --- crash, stop ----------------------------------------------------------------------------------------------------------------------

TEST(Broker, KeepsWhatItAcknowledged) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Harness h(small_broker_config(), Seed{seed});
    h.driver.is_in_order = false;
    ASSERT_TRUE(h.serve());
    h.create("t");
    std::vector<std::string> acked;
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < 30; ++i) {
        const std::string body = fmt::format("{} {} {}", round, i, std::string(i * 50, 'b'));
        if (code_of(h.ask(Harness::message("t", body))) == Code::Success) acked.push_back(body);
      }
      h.tell(Harness::message("t", "maybe"));
      h.cut_power({1, 2});
      ASSERT_TRUE(h.serve()) << "seed " << seed << (h.driver.halted() ? h.driver.halted()->text() : "");
      std::vector<std::string> read = h.read_all("t");
      std::erase(read, "maybe");
      ASSERT_EQ(read, acked) << "seed " << seed;
    }
  }
}

TEST(Broker, StopsCleanly) {
  Harness h;
  ASSERT_TRUE(h.serve());
  h.create("t");
  for (int i = 0; i < 5; ++i) h.ask(Harness::message("t", "x"));
  const auto commit = [](int64_t offset) { return command::CommitOffset{"g", "t", 0, QueueOffset(offset), false, {}}; };
  h.ask(commit(1));
  const uint64_t held = h.tell(commit(2)), pull = h.tell(Harness::pull("t", 5, 60'000)), send = h.tell(Harness::message("t", "last"));
  const uint64_t stop = h.tell(command::Stop{Duration::seconds(5)});
  const uint64_t late = h.tell(Harness::message("t", "too late"));
  EXPECT_EQ(code_of(*h.told(late)), Code::ServiceNotAvailable);
  EXPECT_TRUE(h.run_until([&] { return h.is_stopped; }));
  EXPECT_EQ(describe(*h.told(stop)), "Ok");
  EXPECT_EQ(describe(*h.told(held)), "Ok");
  EXPECT_EQ(code_of(*h.told(pull)), Code::PullNotFound);
  EXPECT_EQ(code_of(*h.told(send)), Code::Success);
  EXPECT_FALSE(h.driver.exists("store/abort"));
  EXPECT_TRUE(h.driver.exists("store/config/topics.json"));
  h.cut_power({0, 1});
  ASSERT_TRUE(h.serve());
  EXPECT_EQ(h.read_all("t").size(), 6u);
  EXPECT_EQ(h.ask_text(command::QueryOffset{"g", "t", 0, {}}), "Offset 2");
}

TEST(Broker, HaltsWhenItCannotStopInTime) {
  Harness h;
  ASSERT_TRUE(h.serve());
  h.create("t");
  h.settle();
  h.tell(Harness::message("t", "x"));
  h.tell(command::Stop{Duration::seconds(1)});
  h.driver.advance(Duration::seconds(1));
  h.step();   // nothing came home meanwhile
  ASSERT_TRUE(h.driver.halted().has_value());
  EXPECT_EQ(h.driver.halted()->code, Errc::TimedOut);
}

TEST(Broker, TakesCommitsWhileTheDiskIsFull) {
  Harness h;
  ASSERT_TRUE(h.serve());
  h.create("t");
  h.ask(Harness::message("t", "x"));
  h.driver.is_disk_full = true;
  h.run_for(Duration::seconds(3));
  const Reply refused = h.ask(Harness::message("t", "y"));
  EXPECT_EQ(code_of(refused), Code::ServiceNotAvailable);
  EXPECT_NE(std::get<Refusal>(refused).measured.find("used 99 %"), std::string::npos) << describe(refused);
  EXPECT_EQ(h.ask_text(command::CommitOffset{"g", "t", 0, QueueOffset(1), false, {}}), "Ok");
  EXPECT_EQ(h.read_all("t").size(), 1u);
  h.driver.is_disk_full = false;
  h.run_for(Duration::seconds(3));
  EXPECT_EQ(code_of(h.ask(Harness::message("t", "y"))), Code::Success);
}

// --- connections ----------------------------------------------------------------------------------------------------------------------

TEST(Broker, ServesAConnection) {
  Harness h;
  ASSERT_TRUE(h.serve());
  const ConnId conn = h.connect();
  h.request(conn, 1, command::CreateTopic{"t", 1, 1, 6});
  h.settle();
  EXPECT_EQ(h.responses(conn), "1: Ok\n");
  h.request(conn, 2, Harness::message("t", "one"));
  h.request(conn, 3, Harness::message("t", "two"), true);
  h.settle();
  EXPECT_EQ(h.responses(conn), "2: Sent SUCCESS queue 0 offset 0 count 1\n");
  h.request(conn, 4, Harness::pull("t", 0));
  h.settle();
  EXPECT_EQ(h.responses(conn), "4: Pulled SUCCESS count 2 next 2 min 0 max 2\n");
  EXPECT_EQ(Harness::bodies(h.attached), (std::vector<std::string>{"one", "two"}));
  const ParsedRecord first = parse_received_record(h.attached, Verify::Checksums);
  EXPECT_EQ(first.record.message.born_host.text(), "10.0.0.9:4000");
  EXPECT_EQ(first.record.message.store_host.text(), "10.0.0.1:10911");
  h.request(conn, 5, Harness::pull("t", 2, 10'000));
  h.step({Closed{conn, Errc::PeerClosed}});
  h.ask(Harness::message("t", "three"));   // nobody is woken
  EXPECT_EQ(h.responses(conn), "");
}

TEST(Broker, APullWaitsForAConnectionThatDoesNotRead) {
  BrokerConfig config = small_broker_config();
  config.commit_log_file_bytes = 4u << 20;
  config.async_unflushed_bytes_max = 16u << 20;
  config.body_bytes_max = 1u << 20;
  Harness h(config);
  ASSERT_TRUE(h.serve());
  const ConnId conn = h.connect();
  h.create("t");
  const std::string body(700 * 1024, 'x');
  for (int i = 0; i < 2; ++i) ASSERT_EQ(code_of(h.ask(Harness::message("t", body))), Code::Success);
  h.is_sent_held_back = true;
  h.request(conn, 1, Harness::pull("t", 0));
  h.request(conn, 2, Harness::pull("t", 1));
  h.settle();
  EXPECT_EQ(h.responses(conn), "1: Pulled SUCCESS count 1 next 1 min 0 max 2\n");
  h.is_sent_held_back = false;
  h.step({h.held_back.begin(), h.held_back.end()});
  h.settle();
  EXPECT_EQ(h.responses(conn), "2: Pulled SUCCESS count 1 next 2 min 0 max 2\n");
}

TEST(Broker, RegistersWithEveryNameServerAndGoesOnWithoutOne) {
  BrokerConfig config = small_broker_config();
  config.name_servers = {"ns1:9876", "[::1]:9877"};
  Harness h(config);
  ASSERT_TRUE(h.serve());
  h.run_for(Duration::seconds(2));
  ASSERT_GE(h.dialed.size(), 2u);
  EXPECT_EQ(h.dialed[0], (Address{"ns1", 9876}));
  EXPECT_EQ(h.dialed[1], (Address{"::1", 9877}));
  EXPECT_TRUE(h.driver.has_event("NameServerLost"));
  EXPECT_EQ(describe(h.create("t")), "Ok");
}

// By this route clients find a broker that has no topic, to create the first one there.
TEST(Broker, WithoutTopicsIsFoundByItsMetaTopic) {
  BrokerConfig config = small_broker_config();
  config.name_servers = {"ns:9876"};
  Harness h(config);
  h.is_dial_answered = true;
  ASSERT_TRUE(h.serve());
  ASSERT_TRUE(h.run_until([&] { return !h.streams.empty(); }));
  native::Framer framer(native::kFrameBytesMaxRequest);
  native::Codec codec;
  framer.feed(Bytes(h.streams.begin()->second).subspan(native::kPreamble.size()));
  std::vector<std::string> registered;
  for (auto frame = framer.next(); frame && !frame->empty(); frame = framer.next()) {
    const auto request = codec.decode_request(*frame);
    ASSERT_TRUE(request.has_value());
    if (const auto* c = std::get_if<command::RegisterBroker>(&request->command))
      for (const TopicConfig& t : c->topics) registered.push_back(fmt::format("{} {} {} {}", t.name, t.read_queues, t.write_queues, t.perm));
  }
  EXPECT_EQ(registered, std::vector<std::string>{"rmq_sys_fulmar_meta 1 1 4"});

  const Reply answer = h.ask(command::QueryRoute{kMetaTopic});
  const auto* route = std::get_if<reply::Route>(&answer);
  ASSERT_NE(route, nullptr) << describe(answer);
  ASSERT_EQ(route->brokers.size(), 1u);
  EXPECT_EQ(route->brokers[0].name, config.broker_name);
  ASSERT_EQ(route->queues.size(), 1u);
  EXPECT_EQ(route->queues[0].perm, kPermRead);
  EXPECT_EQ(code_of(h.ask(command::QueryRoute{"t"})), Code::TopicNotExist);
}

}  // namespace
}  // namespace fulmar::testing
