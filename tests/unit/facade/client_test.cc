// The library as an application uses it, against a name server and a broker in this process. Includes the public header as users do.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "fulmar/client.h"
#include "tests/unit/facade/server.h"

namespace {

using namespace std::chrono_literals;

// True as soon as `is_fine()` is; gives up after ten seconds.
template <class Is>
bool eventually(Is is_fine) {
  for (int i = 0; i < 1000; ++i) {
    if (is_fine()) return true;
    std::this_thread::sleep_for(10ms);
  }
  return is_fine();
}

struct Facade : ::testing::Test {
  facade_test::Server server;
  fulmar::ClientOptions options() const {
    fulmar::ClientOptions o;
    o.name_servers = {server.name_server()};
    return o;
  }
};

TEST_F(Facade, WhatIsSentComesBackWhole) {
  fulmar::Client client(options());
  ASSERT_TRUE(client.create_topic("orders", 2).ok());
  fulmar::Producer producer(client);
  fulmar::Message message("orders", std::string("bytes\0and\xff", 10));
  message.with_tags("paid").with_key("o-17").with_key("c-9").with_property("region", "eu").with_sharding_key("c-9").flag = 7;
  const auto sent = producer.send(message);
  ASSERT_TRUE(sent.ok()) << sent.refusal().text();
  EXPECT_TRUE(sent->is_durable());
  EXPECT_EQ(sent->id.size(), 32u);
  fulmar::PullConsumer consumer(client, {.group = "readers"});
  ASSERT_TRUE(consumer.subscribe("orders").ok());
  const auto got = consumer.poll(10s);
  ASSERT_TRUE(got.ok()) << got.refusal().text();
  ASSERT_EQ(got->size(), 1u);
  const fulmar::ReceivedMessage& m = got->front();
  EXPECT_EQ(m.body, message.body);
  EXPECT_EQ(m.tags, "paid");
  EXPECT_EQ(m.keys, (std::vector<std::string>{"o-17", "c-9"}));
  EXPECT_EQ(m.properties.at("region"), "eu");
  EXPECT_EQ(m.sharding_key, "c-9");
  EXPECT_EQ(m.flag, 7);
  EXPECT_EQ(m.id, sent->id);
  EXPECT_EQ(m.queue, sent->queue);
  EXPECT_EQ(m.queue_offset, sent->queue_offset);
  EXPECT_LT(std::chrono::system_clock::now() - m.stored, 60s);
}

TEST_F(Facade, RefusalsSayWhy) {
  fulmar::Client client(options());
  fulmar::Producer producer(client);
  const auto refused = [&](const fulmar::Message& message) {
    const auto sent = producer.send(message);
    EXPECT_FALSE(sent.ok());
    return sent.ok() ? fulmar::Refusal{} : sent.refusal();
  };
  EXPECT_EQ(refused({"bad topic", "x"}).code, fulmar::Code::MessageIllegal);
  EXPECT_EQ(refused({"t", ""}).cause, "the body is empty");
  EXPECT_EQ(refused({"t", std::string((4u << 20) + 1, 'x')}).measured, "body 4194305 bytes, at most 4194304 bytes");
  EXPECT_EQ(refused(fulmar::Message("t", "x").with_key("two words")).code, fulmar::Code::MessageIllegal);
  EXPECT_EQ(refused(fulmar::Message("t", "x").with_property("KEYS", "k")).code, fulmar::Code::MessageIllegal);
  EXPECT_EQ(refused(fulmar::Message("t", "x").with_property("a\x01", "k")).code, fulmar::Code::MessageIllegal);
  EXPECT_EQ(client.describe_topic("no_such").refusal().code, fulmar::Code::TopicNotExist);
  fulmar::Client nowhere({.name_servers = {"no port"}});
  EXPECT_EQ(fulmar::Producer(nowhere).send({"t", "x"}).refusal().code, fulmar::Code::InvalidParameter);
  EXPECT_THROW((void)producer.send({"t", ""}).value(), std::logic_error);
}

TEST_F(Facade, ManyThreadsSendInEveryWay) {
  fulmar::Client client(options());
  ASSERT_TRUE(client.create_topic("busy", 4).ok());
  constexpr int kThreads = 4, kEach = 100;
  std::atomic<int> acked{0}, failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      fulmar::Producer producer(client);
      std::vector<std::future<fulmar::Result<fulmar::SendReceipt>>> futures;
      for (int i = 0; i < kEach; ++i) {
        const fulmar::Message message("busy", std::to_string(t) + " " + std::to_string(i));
        const auto count = [&](const auto& result) { ++(result.ok() ? acked : failed); };
        if (i % 4 == 0) count(producer.send(message));
        else if (i % 4 == 1) futures.push_back(producer.send_async(message, fulmar::WhenFull::Block));
        else if (i % 4 == 2 && !producer.send_async(message, count, fulmar::WhenFull::Block)) ++failed;
        else if (i % 4 == 3) count(producer.send_batch(std::vector<fulmar::Message>{message, message}));
      }
      for (auto& future : futures) ++(future.get().ok() ? acked : failed);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(eventually([&] { return acked + failed == kThreads * kEach; }));
  EXPECT_EQ(failed, 0);
}

TEST_F(Facade, FullRefusesOrWaits) {
  fulmar::ClientOptions narrow = options();
  narrow.requests_max = 2;
  narrow.callback_threads = 1;
  fulmar::Client client(narrow);
  fulmar::Producer producer(client);
  std::promise<void> gate;
  std::shared_future<void> opened(gate.get_future());
  std::atomic<int> called{0};
  std::atomic<bool> was_full_inside{false};
  const auto callback = [&](const fulmar::Result<fulmar::SendReceipt>&) {
    opened.wait();
    // Waiting for room here might last for ever.
    if (called++ == 0) was_full_inside = !producer.send_async({"t", "x"}, [](const auto&) {}, fulmar::WhenFull::Block);
  };
  ASSERT_TRUE(producer.send_async({"t", "x"}, callback).ok());
  ASSERT_TRUE(producer.send_async({"t", "x"}, callback).ok());
  const auto full = producer.send_async({"t", "x"}, callback);
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.refusal().code, fulmar::Code::SystemBusy);
  EXPECT_EQ(full.refusal().retry_after, 10ms);
  std::thread opener([&] { std::this_thread::sleep_for(50ms), gate.set_value(); });
  EXPECT_TRUE(producer.send({"t", "x"}, fulmar::WhenFull::Block).ok());
  opener.join();
  EXPECT_TRUE(eventually([&] { return called == 2; }));
  EXPECT_TRUE(was_full_inside);
}

TEST_F(Facade, ShardingKeysStayTogetherAndInOrder) {
  fulmar::Client client(options());
  ASSERT_TRUE(client.create_topic("accounts", 4).ok());
  fulmar::Producer producer(client);
  std::map<std::string, std::set<int32_t>> queues;
  for (int i = 0; i < 60; ++i) {
    const std::string key = "account-" + std::to_string(i % 6);
    const auto sent = producer.send(fulmar::Message("accounts", std::to_string(i)).with_sharding_key(key));
    ASSERT_TRUE(sent.ok()) << sent.refusal().text();
    queues[key].insert(sent->queue.id);
  }
  std::set<int32_t> used;
  for (const auto& [key, ids] : queues) {
    EXPECT_EQ(ids.size(), 1u) << key;
    used.insert(ids.begin(), ids.end());
  }
  EXPECT_GT(used.size(), 1u);
  fulmar::PullConsumer consumer(client, {.group = "auditors"});
  const auto topic = client.describe_topic("accounts");
  ASSERT_TRUE(topic.ok());
  EXPECT_EQ(topic->queues.size(), 4u);
  const auto assigned = consumer.assign(topic->queues);
  ASSERT_TRUE(assigned.ok()) << assigned.refusal().text();
  std::map<std::string, int> last;
  int count = 0;
  while (count < 60) {
    const auto got = consumer.poll(10s);
    ASSERT_TRUE(got.ok() && !got->empty());
    for (const auto& m : *got) {
      const int number = std::stoi(m.body);
      const auto [at, is_first] = last.emplace(m.sharding_key, number);
      EXPECT_TRUE(is_first || std::exchange(at->second, number) < number);
      ++count;
    }
  }
  ASSERT_TRUE(consumer.commit().ok());
  ASSERT_TRUE(consumer.committed(topic->queues[0]).ok());
  // Again from the beginning.
  for (const auto& queue : topic->queues) ASSERT_TRUE(consumer.seek_to_begin(queue).ok());
  const auto again = consumer.poll(10s);
  ASSERT_TRUE(again.ok() && !again->empty());
  EXPECT_EQ(again->front().queue_offset, 0);
  for (const auto& queue : topic->queues) ASSERT_TRUE(consumer.seek_to_end(queue).ok());
  const auto nothing = consumer.poll(100ms);
  ASSERT_TRUE(nothing.ok());
  EXPECT_TRUE(nothing->empty());
}

TEST_F(Facade, LargeBodiesTravelCompressed) {
  for (const auto compression : {fulmar::Compression::Zlib, fulmar::Compression::Lz4, fulmar::Compression::Zstd, fulmar::Compression::None}) {
    fulmar::ClientOptions o = options();
    o.compression = compression;
    fulmar::Client client(o);
    fulmar::Producer producer(client);
    const std::string body(100'000, 'z');
    ASSERT_TRUE(producer.send({"large", body}).ok());
    fulmar::PullConsumer consumer(client, {.group = "g"});
    ASSERT_TRUE(consumer.subscribe("large").ok());
    const auto got = consumer.poll(10s);
    ASSERT_TRUE(got.ok() && got->size() == 1);
    EXPECT_EQ(got->front().body, body);
    EXPECT_EQ(got->front().body_problem, "");
    ASSERT_TRUE(consumer.commit().ok());
  }
}

TEST_F(Facade, OneWayArrives) {
  fulmar::Client client(options());
  ASSERT_TRUE(client.create_topic("hints", 1).ok());
  fulmar::Producer producer(client);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(producer.send_one_way({"hints", std::to_string(i)}).ok());
  fulmar::PullConsumer consumer(client, {.group = "g"});
  ASSERT_TRUE(consumer.subscribe("hints").ok());
  size_t count = 0;
  while (count < 20) {
    const auto got = consumer.poll(10s);
    ASSERT_TRUE(got.ok() && !got->empty());
    count += got->size();
  }
  EXPECT_EQ(count, 20u);
  EXPECT_FALSE(producer.send_one_way({"bad topic", "x"}).ok());
}

TEST_F(Facade, PushedMessagesAreRetriedAndCommitted) {
  fulmar::Client client(options());
  ASSERT_TRUE(client.create_topic("work", 3).ok());
  fulmar::Producer producer(client);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(producer.send(fulmar::Message("work", std::to_string(i)).with_tags(i % 2 == 0 ? "even" : "odd")).ok());
  std::mutex mutex;
  std::map<std::string, int> seen;
  std::atomic<int> successes{0};
  fulmar::PushOptions push{.group = "workers"};
  push.threads = 4;
  push.retry_delay = 50ms;
  {
    fulmar::PushConsumer consumer(client, push, [&](const fulmar::ReceivedMessage& m) {
      const std::lock_guard lock(mutex);
      const int times = seen[m.body]++;
      EXPECT_EQ(m.reconsume_times, times);
      if (m.body == "10" && times < 2) return fulmar::ConsumeResult::Later;
      if (m.body == "12" && times < 1) throw std::runtime_error("listeners may throw");
      ++successes;
      return fulmar::ConsumeResult::Success;
    });
    ASSERT_TRUE(consumer.subscribe("work", "even || none").ok());
    EXPECT_FALSE(consumer.subscribe("bad topic").ok());
    EXPECT_TRUE(eventually([&] { return successes == 50; }));
    EXPECT_TRUE(consumer.stop().ok());
  }
  EXPECT_EQ(seen.size(), 50u);
  EXPECT_EQ(seen["10"], 3);
  EXPECT_EQ(seen["12"], 2);
  // All of it is committed: the next one gets only what is new.
  ASSERT_TRUE(producer.send(fulmar::Message("work", "new").with_tags("even")).ok());
  std::atomic<int> again{0};
  fulmar::PushConsumer second(client, push, [&](const fulmar::ReceivedMessage& m) {
    EXPECT_EQ(m.body, "new");
    ++again;
    return fulmar::ConsumeResult::Success;
  });
  ASSERT_TRUE(second.subscribe("work", "even").ok());
  EXPECT_TRUE(eventually([&] { return again == 1; }));
}

TEST_F(Facade, ASendSurvivesABrokerThatIsKilledAndComesBack) {
  fulmar::Client client(options());
  fulmar::Producer producer(client);
  ASSERT_TRUE(producer.send({"durable", "before"}).ok());
  server.kill_broker();
  std::thread starter([this] { std::this_thread::sleep_for(1s), server.start_broker(); });
  const auto sent = producer.send({"durable", "meanwhile"});
  starter.join();
  EXPECT_TRUE(sent.ok()) << sent.refusal().text();
}

TEST_F(Facade, StopEndsEverythingInTime) {
  fulmar::ClientOptions o = options();
  o.stop_timeout = 500ms;
  fulmar::Client client(o);
  fulmar::Producer producer(client);
  ASSERT_TRUE(producer.send({"t", "x"}).ok());
  server.kill_broker();
  std::atomic<int> refused{0};
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(producer.send_async({"t", "x"}, [&](const auto& result) { refused += result.ok() ? 0 : 1; }).ok());
  }
  auto future = producer.send_async({"t", "x"});
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(client.stop());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 3s);
  EXPECT_EQ(refused, 10);
  EXPECT_FALSE(future.get().ok());
  EXPECT_EQ(producer.send({"t", "x"}).refusal().cause, "this client is stopped");
  EXPECT_TRUE(client.stop());
}

TEST_F(Facade, ACallbackThatDoesNotComeBackIsLeftBehind) {
  auto never = std::make_shared<std::promise<void>>();
  {
    fulmar::ClientOptions o = options();
    o.stop_timeout = 200ms;
    fulmar::Client client(o);
    ASSERT_TRUE(fulmar::Producer(client).send_async({"t", "x"}, [never](const auto&) { never->get_future().wait(); }).ok());
    EXPECT_FALSE(client.stop());
  }
  never->set_value();
  std::this_thread::sleep_for(50ms);
}

TEST_F(Facade, AChildOfForkIsRefused) {
  fulmar::Client client(options());
  fulmar::Producer producer(client);
  ASSERT_TRUE(producer.send({"t", "x"}).ok());
  const pid_t child = ::fork();
  if (child == 0) {
    const auto sent = producer.send({"t", "x"});
    const bool is_refused = !sent.ok() && sent.refusal().cause.find("fork") != std::string::npos;
    { fulmar::Client moved_in_spirit = fulmar::Client({.name_servers = {"127.0.0.1:1"}}); }  // one made in the child is fine
    ::_exit(is_refused && client.stop() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(producer.send({"t", "y"}).ok());
}

}  // namespace
