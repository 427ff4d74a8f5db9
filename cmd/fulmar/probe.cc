#include "cmd/fulmar/probe.h"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "core/wire/framer.h"
#include "core/wire/native/codec.h"

namespace fulmar::cmd {

namespace {

using Clock = std::chrono::steady_clock;

class Probe {
 public:
  Probe(const Address& to, int limit_ms) : to_(to), until_(Clock::now() + std::chrono::milliseconds(limit_ms)) {}
  ~Probe() {
    if (fd_ >= 0) close(fd_);
  }

  Result<void> dial() {
    addrinfo hints{}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    if (getaddrinfo(to_.host.c_str(), std::to_string(to_.port).c_str(), &hints, &found) != 0) return Error(Errc::BadAddress, fmt::format("{} does not resolve", to_.host));
    int code = ECONNREFUSED;
    for (addrinfo* at = found; at != nullptr && code != 0; at = at->ai_next) {
      if (fd_ >= 0) close(fd_);
      fd_ = socket(at->ai_family, at->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
      code = connect(fd_, at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
      if (code != EINPROGRESS) continue;
      socklen_t bytes = sizeof code;
      if (!wait(POLLOUT)) code = ETIMEDOUT;
      else if (getsockopt(fd_, SOL_SOCKET, SO_ERROR, &code, &bytes) != 0) code = errno;
    }
    freeaddrinfo(found);
    if (code != 0) return Error(code == ETIMEDOUT ? Errc::TimedOut : Errc::Refused, fmt::format("cannot connect to {}: {}", to_.text(), std::strerror(code)));
    return {};
  }

  Result<Reply> ask(const Command& command) {
    std::vector<uint8_t> out(native::kPreamble.begin(), native::kPreamble.end());
    command::Hello hello;
    hello.client = "fulmar";
    FULMAR_TRY_VOID(codec_.encode_request(0, false, hello, out));
    FULMAR_TRY_VOID(codec_.encode_request(1, false, command, out));
    for (size_t at = 0; at < out.size();) {
      const ssize_t written = send(fd_, out.data() + at, out.size() - at, MSG_NOSIGNAL);
      if (written > 0) at += static_cast<size_t>(written);
      else if (errno != EAGAIN || !wait(POLLOUT)) return lost();
    }
    std::vector<uint8_t> chunk(64 * 1024);
    native::Framer framer(native::kFrameBytesMaxResponse);
    while (wait(POLLIN)) {
      const ssize_t bytes = recv(fd_, chunk.data(), chunk.size(), 0);
      if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (bytes <= 0) return lost();
      framer.feed(Bytes(chunk).first(static_cast<size_t>(bytes)));
      while (true) {
        const auto frame = framer.next();
        if (!frame) return stranger();
        if (frame->empty()) break;
        auto decoded = codec_.decode_response(*frame);
        if (!decoded) return stranger();
        if (decoded->opaque == 1) return std::move(decoded->reply);
        if (std::holds_alternative<Refusal>(decoded->reply)) return std::move(decoded->reply);   // of the greeting
      }
    }
    return Error(Errc::TimedOut, fmt::format("{} takes connections and does not answer", to_.text()));
  }

 private:
  bool wait(short events) {
    while (true) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until_ - Clock::now()).count();
      if (left <= 0) return false;
      pollfd waiting{fd_, events, 0};
      const int count = poll(&waiting, 1, static_cast<int>(left));
      if (count > 0) return true;
      if (count < 0 && errno != EINTR) return false;
    }
  }
  Error lost() const { return Error(Errc::FrameBroken, fmt::format("{} closes the connection: no fulmar server lives there", to_.text())); }
  Error stranger() const { return Error(Errc::FrameBroken, fmt::format("{} does not speak fulmar's protocol", to_.text())); }

  const Address to_;
  const Clock::time_point until_;
  native::Codec codec_;
  int fd_ = -1;
};

}  // namespace

Result<Reply> ask_server(const Address& to, const Command& command, int limit_ms) {
  Probe probe(to, limit_ms);
  FULMAR_TRY_VOID(probe.dial());
  return probe.ask(command);
}

std::string_view status_value(const reply::Status& status, std::string_view name) {
  for (const auto& [key, value] : status.values)
    if (key == name) return value;
  return {};
}

}  // namespace fulmar::cmd
