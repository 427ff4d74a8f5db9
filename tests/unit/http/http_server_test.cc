// Real sockets: what is answered, what is refused, and that one who waits holds up nobody else.

#include "net/http/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>

namespace fulmar::net {
namespace {

int dial(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval limit{10, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  return fd;
}
std::string read_all(int fd) {
  std::string out;
  char bytes[4096];
  for (ssize_t got; (got = read(fd, bytes, sizeof bytes)) > 0;) out.append(bytes, static_cast<size_t>(got));
  close(fd);
  return out;
}
void write_all(int fd, std::string_view text) { EXPECT_EQ(send(fd, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size())); }
std::string ask(uint16_t port, std::string_view request) {
  const int fd = dial(port);
  write_all(fd, request);
  return read_all(fd);
}
std::string get(uint16_t port, std::string_view path) { return ask(port, fmt::format("GET {} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path)); }

HttpAnswer say(std::string text) {
  HttpAnswer out;
  out.text = std::move(text);
  return out;
}

std::unique_ptr<HttpServer> serve(HttpServer::Handler handler, HttpLimits limits = {}) {
  auto server = HttpServer::start(Address{"127.0.0.1", 0}, std::move(handler), limits);
  EXPECT_TRUE(server.has_value());
  return *std::move(server);
}

TEST(HttpServer, AnswersGetAndHead) {
  const auto server = serve([](std::string_view path) { return say("you asked for " + std::string(path)); });
  ASSERT_NE(server->at().port, 0);
  const std::string got = get(server->at().port, "/here?with=query");
  EXPECT_TRUE(got.starts_with("HTTP/1.1 200 ")) << got;
  EXPECT_TRUE(got.ends_with("\r\n\r\nyou asked for /here")) << got;
  EXPECT_NE(got.find("Content-Length: 19"), std::string::npos) << got;
  EXPECT_NE(got.find("text/plain"), std::string::npos) << got;
  const std::string head = ask(server->at().port, "HEAD /here HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(head.starts_with("HTTP/1.1 200 ")) << head;
  EXPECT_TRUE(head.ends_with("\r\n\r\n")) << head;
}

TEST(HttpServer, RefusesWhatIsNeither) {
  int calls = 0;
  const auto server = serve([&calls](std::string_view) { return ++calls, say("never"); }, HttpLimits{8, 1});
  const uint16_t port = server->at().port;
  const std::string post = ask(port, "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc");
  EXPECT_TRUE(post.starts_with("HTTP/1.1 405 ")) << post;
  EXPECT_NE(post.find("Allow: GET, HEAD"), std::string::npos) << post;
  EXPECT_TRUE(ask(port, "DELETE / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").starts_with("HTTP/1.1 405 "));
  EXPECT_TRUE(ask(port, "GET /x HTTP/1.1\r\nConnection: close\r\n\r\n").starts_with("HTTP/1.1 400 "));   // no Host
  const std::string huge = ask(port, "GET /" + std::string(100'000, 'x') + " HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(huge.starts_with("HTTP/1.1 4") || huge.empty()) << huge.substr(0, 200);
  (void)ask(port, "\x16\x03\x01\x02\x00\x01 this is no HTTP\r\n\r\n");
  EXPECT_EQ(calls, 0);
  EXPECT_TRUE(get(port, "/x").starts_with("HTTP/1.1 200 "));
}

TEST(HttpServer, SendsPiecesAndBreaksOffWhenOneFails) {
  const auto server = serve([](std::string_view path) {
    HttpAnswer out = say("0");
    out.more = [is_good = path == "/good", i = 0]() mutable -> Result<std::string> {
      if (++i <= 3) return std::string(50'000, static_cast<char>('0' + i));
      return is_good ? Result<std::string>(std::string()) : Error(Errc::TimedOut);
    };
    return out;
  });
  const std::string good = get(server->at().port, "/good"), bad = get(server->at().port, "/bad");
  EXPECT_GT(good.size(), 150'000u);
  EXPECT_TRUE(good.ends_with("0\r\n\r\n")) << good.substr(good.size() - 20);    // the last chunk
  EXPECT_FALSE(bad.ends_with("0\r\n\r\n"));
}

TEST(HttpServer, WhoWaitsHoldsUpNobodyAndManyAreBounded) {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_open = false;
  const auto server = serve(
      [&](std::string_view path) {
        std::unique_lock lock(mutex);
        if (path == "/slow") changed.wait(lock, [&] { return is_open; });
        return say("done");
      },
      HttpLimits{8, 10});
  const uint16_t port = server->at().port;
  std::vector<int> waiting;
  for (int i = 0; i < 6; ++i) {
    waiting.push_back(dial(port));
    write_all(waiting.back(), "GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  }
  EXPECT_TRUE(get(port, "/quick").ends_with("done"));
  std::vector<int> many;
  for (int i = 0; i < 40; ++i) many.push_back(dial(port));   // eight are served, the others wait or are closed: nobody is harmed
  {
    const std::lock_guard lock(mutex);
    is_open = true;
  }
  changed.notify_all();
  for (const int fd : waiting) EXPECT_TRUE(read_all(fd).ends_with("done"));
  for (const int fd : many) close(fd);
  EXPECT_TRUE(get(port, "/quick").ends_with("done"));
}

TEST(HttpServer, APortThatIsTakenIsAnError) {
  const auto first = serve([](std::string_view) { return say(""); });
  const auto second = HttpServer::start(first->at(), [](std::string_view) { return say(""); });
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, Errc::AddressInUse);
  EXPECT_NE(second.error().detail.find(first->at().text()), std::string::npos) << second.error().detail;
  EXPECT_FALSE(HttpServer::start(Address{"no.such.host.invalid", 1}, [](std::string_view) { return say(""); }).has_value());
}

}  // namespace
}  // namespace fulmar::net
