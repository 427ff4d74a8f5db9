#include "cmd/fulmar/load.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "cmd/fulmar/program.h"
#include "core/wire/framer.h"
#include "core/wire/native/codec.h"

namespace fulmar::cmd {

namespace {

constexpr uint32_t kOpaqueMark = 0x7A7A7A7A;        // what frames are encoded with, to find the place of the number
constexpr uint64_t kPollNs = 5'000'000;             // how often the end of a phase is looked for
constexpr size_t kReadBytes = 1u << 20;
constexpr size_t kWindowMax = 8192;

uint64_t clock_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

Error failed(const Address& to, std::string_view what, int code) {
  return Error(Errc::Refused, fmt::format("{} {}: {}", what, to.text(), std::strerror(code)));
}

size_t opaque_place(const std::vector<uint8_t>& frame) {
  size_t at = native::kLengthBytes;
  while (at + 4 <= frame.size() && load_le<uint32_t>(frame.data() + at) != kOpaqueMark) at += 4;
  CHECK(at + 4 <= frame.size(), "a frame without its number");
  return at;
}

}  // namespace

struct Load::Codec {
  native::Codec native;
  size_t opaque_at = 0;
};

// Requests of a connection are numbered; those in flight are never more than a window apart, so a ring of times is enough.
struct Load::Connection {
  int fd = -1, index = 0;
  size_t target = 0;
  int32_t queue = 0;                // of pulls
  std::vector<uint8_t> out;
  size_t out_at = 0;
  bool wants_write = false;
  native::Framer framer{native::kFrameBytesMaxResponse};
  uint32_t next = 0;                // number of the next request
  int in_flight = 0;
  std::vector<uint64_t> begun = std::vector<uint64_t>(kWindowMax);
  QueueOffset offset, min;
  uint64_t paused_until = 0;        // a refusal said when to try again
  uint64_t sent_in_phase = 0;
};

Load::Load(LoadOptions options) : options_(std::move(options)), epoll_(epoll_create1(EPOLL_CLOEXEC)), codec_(std::make_unique<Codec>()), buffer_(kReadBytes) {
  options_.in_flight = std::clamp(options_.in_flight, 1, static_cast<int>(kWindowMax) - 1);
  for (size_t i = 0; i < options_.body_bytes; ++i) body_.push_back(static_cast<uint8_t>('a' + (i * 7 + i / 13) % 26));
}

Load::~Load() {
  for (const auto& c : connections_) close(c->fd);
  close(epoll_);
}

Result<std::unique_ptr<Load>> Load::open(LoadOptions options) {
  std::unique_ptr<Load> load(new Load(std::move(options)));
  FULMAR_TRY_VOID(load->encode_frames());
  for (int i = 0; i < load->options_.connections; ++i) FULMAR_TRY_VOID(load->dial(i));
  return load;
}

Result<void> Load::encode_frames() {
  constexpr std::string_view kProperties = "UNIQ_KEY\x01" "7F00000100012A139A552F3B8C1E0000\x02WAIT\x01true\x02";
  for (const LoadOptions::Target& target : options_.targets) {
    auto& of_target = frames_.emplace_back();
    for (int32_t queue = 0; queue < target.queues; ++queue) {
      command::SendMessage c;
      c.topic = options_.topic;
      c.queue_id = queue;
      c.born = Wall{1'700'000'000'000};
      c.properties = as_bytes(options_.has_key ? kProperties : std::string_view());
      c.body = body_;
      FULMAR_TRY_VOID(codec_->native.encode_request(kOpaqueMark, false, c, of_target.emplace_back()));
    }
  }
  codec_->opaque_at = opaque_place(frames_.front().front());
  return {};
}

Result<void> Load::dial(int index) {
  auto c = std::make_unique<Connection>();
  c->index = index;
  c->target = static_cast<size_t>(index) % options_.targets.size();
  const LoadOptions::Target& target = options_.targets[c->target];
  c->queue = static_cast<int32_t>(static_cast<size_t>(index) / options_.targets.size()) % target.queues;
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(target.address.host.c_str(), std::to_string(target.address.port).c_str(), &hints, &found) != 0)
    return Error(Errc::BadAddress, fmt::format("{} does not resolve", target.address.text()));
  c->fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int outcome = connect(c->fd, found->ai_addr, found->ai_addrlen);
  const int code = errno;
  freeaddrinfo(found);
  if (outcome != 0) {
    close(c->fd);
    return failed(target.address, "cannot connect to the broker at", code);
  }
  const int one = 1;
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  c->out.assign(native::kPreamble.begin(), native::kPreamble.end());
  command::Hello hello;
  hello.client = "fulmar bench";
  FULMAR_TRY_VOID(codec_->native.encode_request(c->next++, false, hello, c->out));
  ++c->in_flight;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = c.get();
  epoll_ctl(epoll_, EPOLL_CTL_ADD, c->fd, &event);
  connections_.push_back(std::move(c));
  return {};
}

// --- requests ---------------------------------------------------------------------------------------------------------------------------

// When the next request of this connection is due: the schedule deals them out to the connections in turn.
uint64_t Load::due_ns(const Connection& c) const {
  const double place = static_cast<double>(c.sent_in_phase * connections_.size() + static_cast<uint64_t>(c.index));
  return phase_began_ + static_cast<uint64_t>(place / options_.rate * 1e9);
}

Result<void> Load::fill(Connection& c) {
  if (now_ < c.paused_until) return flush(c);
  if (options_.pull_count > 0) {
    if (c.in_flight == 0 || c.next == 1) FULMAR_TRY_VOID(pull(c));
    return flush(c);
  }
  while (c.in_flight < options_.in_flight) {
    const uint64_t due = options_.rate > 0 ? due_ns(c) : now_;
    if (due > now_) break;
    send(c, due);
  }
  return flush(c);
}

void Load::send(Connection& c, uint64_t begun) {
  const auto& frames = frames_[c.target];
  const std::vector<uint8_t>& frame = frames[(c.next + static_cast<uint32_t>(c.index)) % frames.size()];
  const size_t at = c.out.size();
  c.out.insert(c.out.end(), frame.begin(), frame.end());
  store_le<uint32_t>(c.out.data() + at + codec_->opaque_at, c.next);
  begin(c, begun);
}

Result<void> Load::pull(Connection& c) {
  command::PullMessages p;
  p.group = "fulmar_bench";
  p.topic = options_.topic;
  p.queue_id = c.queue;
  p.offset = c.offset;
  p.count_max = options_.pull_count;
  p.bytes_max = 8 << 20;
  FULMAR_TRY_VOID(codec_->native.encode_request(c.next, false, p, c.out));
  begin(c, now_);
  return {};
}

void Load::begin(Connection& c, uint64_t begun) {
  c.begun[c.next % kWindowMax] = begun;
  ++c.next;
  ++c.in_flight;
  ++c.sent_in_phase;
}

Result<void> Load::flush(Connection& c) {
  while (c.out_at < c.out.size()) {
    const ssize_t written = ::send(c.fd, c.out.data() + c.out_at, c.out.size() - c.out_at, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) break;
    if (written < 0) return failed(options_.targets[c.target].address, "lost the connection to the broker at", errno);
    c.out_at += static_cast<size_t>(written);
  }
  const bool is_rest = c.out_at < c.out.size();
  if (!is_rest) {
    c.out.clear();
    c.out_at = 0;
  }
  if (is_rest == c.wants_write) return {};
  c.wants_write = is_rest;
  epoll_event event{};
  event.events = EPOLLIN | (is_rest ? EPOLLOUT : 0u);
  event.data.ptr = &c;
  epoll_ctl(epoll_, EPOLL_CTL_MOD, c.fd, &event);
  return {};
}

// --- answers ----------------------------------------------------------------------------------------------------------------------------

Result<void> Load::take(Connection& c, Bytes frame) {
  const auto decoded = codec_->native.decode_response(frame);
  if (!decoded) return Error(Errc::Refused, "an answer does not parse: " + decoded.error().error.text());
  --c.in_flight;
  if (std::holds_alternative<reply::Hello>(decoded->reply)) return {};
  const uint64_t begun = c.begun[decoded->opaque % kWindowMax];
  if (const auto* sent = std::get_if<reply::Sent>(&decoded->reply); sent != nullptr && sent->code == Code::Success) {
    ++counts_.messages;
    counts_.body_bytes += options_.body_bytes;
    latencies_.record(now_ - begun);
    return {};
  }
  if (const auto* pulled = std::get_if<reply::Pulled>(&decoded->reply)) {
    if (pulled->min == pulled->max) return Error(Errc::NotFound, fmt::format("queue {} of topic {} is empty: fill it first with `fulmar bench`", c.queue, options_.topic));
    counts_.messages += static_cast<uint64_t>(pulled->count);
    counts_.body_bytes += pulled->records.size();
    latencies_.record(now_ - begun);
    c.offset = pulled->next >= pulled->max || pulled->next < pulled->min ? pulled->min : pulled->next;   // at the end from the start again
    return {};
  }
  if (const auto* refusal = std::get_if<Refusal>(&decoded->reply)) {
    if (refusal->retry_after_ms == 0) return Error(Errc::Refused, fmt::format("{}: {} ({})", to_string(refusal->code), refusal->cause, refusal->measured));
    c.paused_until = now_ + uint64_t{refusal->retry_after_ms} * 1'000'000;
  }
  if (counts_.refused++ == 0) first_refusal_ = describe(decoded->reply);
  return {};
}

Result<void> Load::read(Connection& c) {
  const ssize_t bytes = recv(c.fd, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return {};
  if (bytes <= 0) return failed(options_.targets[c.target].address, "lost the connection to the broker at", bytes == 0 ? ECONNRESET : errno);
  c.framer.feed(Bytes(buffer_).first(static_cast<size_t>(bytes)));
  while (true) {
    const auto frame = c.framer.next();
    if (!frame) return frame.error();
    if (frame->empty()) return {};
    FULMAR_TRY_VOID(take(c, *frame));
  }
}

// --- the loop ---------------------------------------------------------------------------------------------------------------------------

Result<void> Load::turn(uint64_t wake_ns) {
  epoll_event events[64];
  const uint64_t left = wake_ns > now_ ? std::min(wake_ns - now_, kPollNs) : 0;
  const timespec wait{0, static_cast<long>(left)};
  const int count = epoll_pwait2(epoll_, events, 64, &wait, nullptr);
  now_ = clock_ns();
  for (int i = 0; i < count; ++i) {
    Connection& c = *static_cast<Connection*>(events[i].data.ptr);
    if ((events[i].events & ~static_cast<uint32_t>(EPOLLOUT)) != 0) FULMAR_TRY_VOID(read(c));
    FULMAR_TRY_VOID(fill(c));
  }
  return {};
}

Result<void> Load::run(const std::function<bool()>& is_over) {
  now_ = phase_began_ = clock_ns();
  for (auto& c : connections_) {
    c->sent_in_phase = 0;
    FULMAR_TRY_VOID(fill(*c));
  }
  for (uint64_t look_at = now_ + kPollNs;;) {
    uint64_t wake = look_at;
    if (options_.rate > 0 && options_.pull_count == 0) {
      for (const auto& c : connections_)
        if (c->in_flight < options_.in_flight) wake = std::min(wake, due_ns(*c));
    }
    FULMAR_TRY_VOID(turn(wake));
    if (options_.rate > 0) {
      for (auto& c : connections_)
        if (c->in_flight < options_.in_flight && due_ns(*c) <= now_) FULMAR_TRY_VOID(fill(*c));
    }
    if (now_ < look_at) continue;
    look_at = now_ + kPollNs;
    if (is_over()) return {};
    for (auto& c : connections_) {   // whose pause is over
      if (c->paused_until != 0 && c->paused_until <= now_) {
        c->paused_until = 0;
        FULMAR_TRY_VOID(fill(*c));
      }
    }
  }
}

Result<double> process_cpu_seconds(int pid) {
  const auto text = read_text(fmt::format("/proc/{}/stat", pid));
  if (!text) return Error(Errc::NotFound, fmt::format("there is no process {}", pid));
  unsigned long user = 0, system = 0;
  const size_t name_end = text->rfind(')');   // the name may hold blanks
  if (name_end == std::string::npos || std::sscanf(text->c_str() + name_end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
    return Error(Errc::Unreadable, fmt::format("cannot read /proc/{}/stat", pid));
  return static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace fulmar::cmd
