#include "cmd/fulmar/client_host.h"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <future>
#include <sstream>

#include "core/client/routes.h"
#include "core/node/make.h"
#include "net/host.h"

namespace fulmar::cmd {

std::string default_name_servers() {
  const char* given = std::getenv("NAMESRV_ADDR");  // RocketMQ's variable
  return given != nullptr && *given != 0 ? given : "127.0.0.1:9876";
}

std::string host_name() {
  char name[128] = {};
  return gethostname(name, sizeof name - 1) == 0 && name[0] != 0 ? name : "localhost";
}

void add_name_servers_option(CLI::App* verb, std::string& into) {
  into = default_name_servers();
  verb->add_option("-n,--namesrv", into, "name servers, host:port joined by ';' (default $NAMESRV_ADDR or 127.0.0.1:9876)")
      ->check([](const std::string& text) -> std::string {
        std::stringstream list(text);
        bool is_empty = true;
        for (std::string one; std::getline(list, one, ';');) {
          if (one.empty()) continue;
          is_empty = false;
          if (Result<Address> parsed = parse_address(one); !parsed) return parsed.error().detail;
        }
        return is_empty ? "wants HOST:PORT" : "";
      });
}

ClientHost::ClientHost(const std::string& name_servers, std::string client_id) {
  std::stringstream list(name_servers);
  for (std::string one; std::getline(list, one, ';');) if (!one.empty()) name_servers_.push_back(one);
  ClientConfig config;
  config.name_servers = name_servers_;
  // RocketMQ's form, ip@pid#time, by what tells two processes apart wherever they run.
  config.client_id = client_id.empty() ? fmt::format("{}@{}#{:x}", host_name(), getpid(), net::random_seed().value >> 32) : std::move(client_id);
  net::UvOptions options;
  options.name = "client";
  options.seed = net::random_seed();
  options.on_tell = [this](CallId call, Reply reply) { on_tell(call, std::move(reply)); };
  driver_ = std::make_unique<net::UvDriver>(
      [text = serialise(config)](Seed seed, Files& files, Trace& trace) {
        Result<std::unique_ptr<Node>> node = make_node(NodeKind::Client, text, seed, files, trace);
        return node ? std::move(*node) : nullptr;
      },
      std::move(options));
  thread_ = std::thread([this] { (void)driver_->run(); });
}

ClientHost::~ClientHost() {
  if (!thread_.joinable()) return;
  driver_->abandon();
  thread_.join();
}

bool ClientHost::is_reachable(std::string& sentence) const {
  std::string tried;
  for (const std::string& server : name_servers_) {
    const size_t colon = server.rfind(':');
    const std::string host = server.substr(0, colon), port = colon == std::string::npos ? "9876" : server.substr(colon + 1);
    addrinfo hints{}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) {
      tried += fmt::format("{}{} does not resolve", tried.empty() ? "" : ", ", server);
      continue;
    }
    bool is_connected = false;
    for (addrinfo* a = found; a != nullptr && !is_connected; a = a->ai_next) {
      const int fd = socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, a->ai_protocol);
      if (fd < 0) continue;
      int error = connect(fd, a->ai_addr, a->ai_addrlen) == 0 ? 0 : errno;
      if (error == EINPROGRESS) {
        pollfd waiting{fd, POLLOUT, 0};
        socklen_t bytes = sizeof error;
        if (poll(&waiting, 1, 1000) != 1 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) error = ETIMEDOUT;
      }
      is_connected = error == 0;
      close(fd);
    }
    freeaddrinfo(found);
    if (is_connected) return true;
    tried += fmt::format("{}{}", tried.empty() ? "" : ", ", server);
  }
  sentence = fmt::format("no name server answers at {}; is `fulmar dev` or `fulmar namesrv` running? Another address: -n HOST:PORT", tried);
  return false;
}

Reply ClientHost::call(net::CommandMaker make, int64_t limit_ms) {
  auto promise = std::make_shared<std::promise<Reply>>();
  std::future<Reply> future = promise->get_future();
  const uint64_t id = post(std::move(make), [promise](Reply reply) { promise->set_value(std::move(reply)); });
  if (future.wait_for(std::chrono::milliseconds(limit_ms)) == std::future_status::ready) return future.get();
  forget(id);
  return Refusal{Code::SystemError, "no answer", fmt::format("waited {} ms", limit_ms), 1000};
}

uint64_t ClientHost::post(net::CommandMaker make, OnReply on_reply, bool is_subscription) {
  uint64_t id;
  {
    const std::lock_guard lock(mutex_);
    id = next_call_++;
    waiting_[id] = {std::move(on_reply), is_subscription};
  }
  if (Result<void> posted = driver_->post(CallId(id), std::move(make)); !posted)
    on_tell(CallId(id), Refusal{Code::SystemBusy, "the client takes no more calls", posted.error().text(), 100});
  return id;
}

void ClientHost::forget(uint64_t call) {
  const std::lock_guard lock(mutex_);
  waiting_.erase(call);
}

void ClientHost::on_tell(CallId call, Reply reply) {
  OnReply on_reply;
  {
    const std::lock_guard lock(mutex_);
    const auto it = waiting_.find(call.value());
    if (it == waiting_.end()) return;
    on_reply = it->second.on_reply;
    if (!it->second.is_subscription) waiting_.erase(it);
  }
  on_reply(std::move(reply));
}

void ClientHost::stop() {
  if (!thread_.joinable()) return;
  driver_->request_stop(CallId(0), Duration::seconds(2));
  thread_.join();
}

}  // namespace fulmar::cmd
