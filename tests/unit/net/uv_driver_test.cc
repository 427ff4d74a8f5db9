#include "net/uv_driver.h"

#include <arpa/inet.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <thread>

#include "net/host.h"
#include "tests/contract/script_node.h"
#include "tests/unit/net/temporary_directory.h"

namespace fulmar::net {

namespace {

using contract::Script;
using contract::ScriptNode;

NodeFactory factory(ScriptNode::Main& main) {
  return [&main](Seed, Files& files, Trace& trace) { return std::make_unique<ScriptNode>(main, files, trace); };
}
double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}
int connect_to(uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
  return fd;
}

}  // namespace

TEST(UvDriver, AnIdleNodeCostsNothing) {
  ScriptNode::Main main = [](ScriptNode& n) -> Script {
    const Address any{"127.0.0.1", 0};
    const auto at = co_await n.listening(n.listen(Port(1), any));
    EXPECT_TRUE(at);
    co_await n.sleep(Duration::seconds(1));
  };
  UvDriver driver(factory(main), {});
  const double before = cpu_seconds();
  EXPECT_EQ(driver.run().kind, Outcome::Kind::Stopped);
  EXPECT_LT(cpu_seconds() - before, 0.1);
  EXPECT_LE(driver.counters().steps, 5u);
  EXPECT_LE(driver.counters().turns, 10u);
}

TEST(UvDriver, AStopThatIsNotHeardEndsInATimeOut) {
  ScriptNode::Main main = [](ScriptNode& n) -> Script { co_await n.sleep(Duration::seconds(60)); };
  UvDriver driver(factory(main), {});
  driver.request_stop(CallId(1), Duration::milliseconds(10));
  const Outcome outcome = driver.run();
  EXPECT_EQ(outcome.kind, Outcome::Kind::Halted);
  EXPECT_EQ(outcome.error.code, Errc::TimedOut);
}

// A deadline that passes between the step that names it and the poll is still a deadline.
TEST(UvDriver, ShortSleepsEnd) {
  ScriptNode::Main main = [](ScriptNode& n) -> Script {
    for (int64_t us = 0; us < 1500; us += 5) co_await n.sleep(Duration::nanoseconds(us * 1000));
  };
  UvDriver driver(factory(main), {});
  auto outcome = std::async(std::launch::async, [&driver] { return driver.run(); });
  if (outcome.wait_for(std::chrono::seconds(30)) != std::future_status::ready) driver.abandon();
  EXPECT_EQ(outcome.get().kind, Outcome::Kind::Stopped);
}

TEST(UvDriver, AFactoryThatCannotEndsAtOnce) {
  UvDriver driver([](Seed, Files&, Trace&) -> std::unique_ptr<Node> { return nullptr; }, {});
  const Outcome outcome = driver.run();
  EXPECT_EQ(outcome.kind, Outcome::Kind::Halted);
  EXPECT_EQ(outcome.error.code, Errc::NotReady);
  const auto late = driver.post(CallId(1), []() -> Command { return command::GetStatus{}; });
  ASSERT_FALSE(late);
  EXPECT_EQ(late.code(), Errc::Stopping);
}

TEST(UvDriver, PostsAreBoundedAndOwnWhatTheySay) {
  std::vector<std::string> told;
  ScriptNode::Main main = [&told](ScriptNode& n) -> Script {
    co_await n.until([&n] { return n.told.size() == 2; });
    told = n.told;
  };
  UvOptions options;
  options.posts_max = 2;
  UvDriver driver(factory(main), options);
  for (const char* topic : {"a topic with a long enough name", "another topic with a long name"}) {
    EXPECT_TRUE(driver.post(CallId(1), [owned = std::string(topic)]() -> Command { return command::QueryRoute{owned}; }));
  }
  const auto refused = driver.post(CallId(1), []() -> Command { return command::GetStatus{}; });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.code(), Errc::Full);
  EXPECT_EQ(driver.run().kind, Outcome::Kind::Stopped);
  EXPECT_EQ(told, (std::vector<std::string>{"QueryRoute a topic with a long enough name", "QueryRoute another topic with a long name"}));
}

TEST(UvDriver, NamesAreResolvedAtEachDial) {
  ScriptNode::Main main = [](ScriptNode& n) -> Script {
    const Address any{"localhost", 0};
    const auto at = co_await n.listening(n.listen(Port(1), any));
    REQUIRE(at);
    const Address there{"localhost", at->port};
    const auto link = co_await n.dialed(n.dial(there));
    EXPECT_TRUE(link);
    const Address nonsense{"no such host\x01", 1};
    const auto nowhere = co_await n.dialed(n.dial(nonsense));
    REQUIRE(!nowhere);
    EXPECT_EQ(nowhere.code(), Errc::BadAddress);
    EXPECT_NE(nowhere.error().detail.find("cannot reach"), std::string::npos);
  };
  UvDriver driver(factory(main), {});
  EXPECT_EQ(driver.run().kind, Outcome::Kind::Stopped);
}

// Near the limit of descriptors a connection is taken and closed, the loop does not spin, and those who were in stay in.
TEST(UvDriver, WithoutDescriptorsConnectionsAreRefusedQuietly) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  std::atomic<uint16_t> port{0};
  std::atomic<bool> is_over{false};
  ScriptNode::Main main = [&](ScriptNode& n) -> Script {
    const Address any{"127.0.0.1", 0};
    const auto at = co_await n.listening(n.listen(Port(1), any));
    REQUIRE(at);
    port = at->port;
    co_await n.until([&is_over] { return is_over.load(); });
    EXPECT_GT(n.accepted.size(), 0u);
    EXPECT_LT(n.accepted.size(), 50u);
  };
  const int lowest_free = ::dup(0);
  ::close(lowest_free);
  rlimit low = before;
  low.rlim_cur = static_cast<rlim_t>(lowest_free) + 64 + 30;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  UvDriver driver(factory(main), {});
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);  // for the clients below; the driver has read its limit
  std::thread clients([&] {
    while (port == 0) std::this_thread::yield();
    std::vector<int> open;
    size_t refused = 0;
    for (int i = 0; i < 50; ++i) {
      const int fd = connect_to(port);
      const timeval patience{0, 20'000};
      ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
      char byte = 0;
      if (::recv(fd, &byte, 1, 0) == 0) ++refused;
      open.push_back(fd);
    }
    EXPECT_GT(refused, 0u);
    for (const int fd : open) ::close(fd);
    is_over = true;
  });
  EXPECT_EQ(driver.run().kind, Outcome::Kind::Stopped);
  clients.join();
  EXPECT_GT(driver.stream_counters().refused_for_descriptors, 0u);
}

}  // namespace fulmar::net
