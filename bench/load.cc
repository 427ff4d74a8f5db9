// Load over the native protocol, to see what a running broker costs: connections x window sends in flight, or pulls one after the other.
//
//   bench_load --port P [--pid PID] [--topic T] [--queues 16] [--conns 16] [--window 256] [--size 128] [--secs 2] [--reps 5]
//   bench_load --port P --count N …        stores N messages and stops
//   bench_load --port P --pull 256 …       pulls that many at a time, each connection its own queue, again and again from the start
//
// One line comes out, tab-separated: what was asked, messages/s (median, least, most), MB/s of bodies, CPU seconds of the broker's process
// (all its threads) and of this one per million messages, latencies of every seventh request, refusals. The topic must exist or be made
// by the broker.

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/wire/framer.h"
#include "core/wire/native/codec.h"

namespace {

using namespace fulmar;

struct Options {
  std::string topic = "BenchmarkTest";
  int port = 10911, pid = 0, queues = 16, conns = 16, window = 256, pull = 0, reps = 5;
  size_t size = 128;
  double secs = 2, warm = 1;
  uint64_t count = 0;
  bool has_key = true;
};

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "bench_load: %s\n", what.c_str());
  std::exit(1);
}

uint64_t clock_ns(clockid_t id) {
  timespec t{};
  clock_gettime(id, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

// CPU time of a process, all its threads, those that have ended too: fields 14 and 15 of /proc/PID/stat, in clock ticks.
double process_cpu_seconds(int pid) {
  if (pid == 0) return 0;
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  FILE* file = std::fopen(path.c_str(), "r");
  if (file == nullptr) fail("no process " + std::to_string(pid));
  char line[1024];
  const size_t bytes = std::fread(line, 1, sizeof line - 1, file);
  std::fclose(file);
  line[bytes] = 0;
  const char* p = std::strrchr(line, ')');   // the name may hold blanks
  unsigned long user = 0, system = 0;
  if (p == nullptr || std::sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2) fail("cannot read " + path);
  return static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

int dial(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<uint16_t>(port));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd < 0 || connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0) fail("cannot connect to port " + std::to_string(port) + ": " + std::strerror(errno));
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return fd;
}

// Requests of a connection are numbered; numbers are never more than a window apart, so a ring of start times is enough.
struct Connection {
  int fd = -1, queue = 0;
  std::vector<uint8_t> out;
  size_t out_at = 0;
  bool wants_write = false;
  native::Framer framer{native::kFrameBytesMaxResponse};
  uint32_t next = 0;            // opaque of the next request; the nth request of a connection has number n
  uint64_t in_flight = 0;
  std::vector<uint64_t> begun = std::vector<uint64_t>(8192);   // by opaque, modulo
  int64_t offset = 0;
  uint64_t paused_until = 0;    // a refusal said when to try again
};

class Load {
 public:
  explicit Load(Options options) : options_(std::move(options)), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    for (size_t i = 0; i < options_.size; ++i) body_.push_back(static_cast<uint8_t>('a' + (i * 7 + i / 13) % 26));
    for (int queue = 0; queue < options_.queues; ++queue) frames_.push_back(send_frame(queue));
    for (int i = 0; i < options_.conns; ++i) open(i);
  }

  void run() {
    for (auto& c : connections_) fill(*c);
    measure(options_.warm, nullptr);
    if (options_.count != 0) {
      while (answered_ < options_.count) {
        turn();
        now_ = clock_ns(CLOCK_MONOTONIC);   // a pause ends also when nothing comes in
      }
      std::printf("stored %llu, refused %llu\n", static_cast<unsigned long long>(answered_), static_cast<unsigned long long>(refused_));
      return;
    }
    is_sampling_ = true;
    std::vector<Sample> samples(static_cast<size_t>(options_.reps));
    for (Sample& sample : samples) measure(options_.secs, &sample);
    print(samples);
  }

 private:
  struct Sample { double rate = 0, broker = 0, client = 0; };

  std::vector<uint8_t> send_frame(int queue) {
    command::SendMessage c;
    c.topic = options_.topic;
    c.queue_id = queue;
    c.born = Wall{1'700'000'000'000};
    // What every RocketMQ client adds.
    c.properties = as_bytes(options_.has_key ? std::string_view("UNIQ_KEY\x01" "7F00000100012A139A552F3B8C1E0000\x02WAIT\x01true\x02") : std::string_view());
    c.body = body_;
    std::vector<uint8_t> frame;
    if (!codec_.encode_request(0x7A7A7A7A, false, c, frame)) fail("cannot encode a send");
    return frame;
  }

  void open(int index) {
    auto c = std::make_unique<Connection>();
    c->fd = dial(options_.port);
    c->queue = index % options_.queues;
    c->out.assign(native::kPreamble.begin(), native::kPreamble.end());
    command::Hello hello;
    hello.client = "bench_load";
    if (!codec_.encode_request(c->next++, false, hello, c->out)) fail("cannot encode a hello");
    ++c->in_flight;
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = c.get();
    epoll_ctl(epoll_, EPOLL_CTL_ADD, c->fd, &event);
    connections_.push_back(std::move(c));
  }

  void fill(Connection& c) {
    if (now_ < c.paused_until) return flush(c);
    if (options_.pull > 0) {
      if (c.in_flight == 0 || c.next == 1) pull(c);
    } else {
      const auto window = static_cast<uint64_t>(options_.window);
      while (c.in_flight < window && (options_.count == 0 || begun_ < options_.count)) send(c);
    }
    flush(c);
  }
  // The frame of that queue with its own opaque number, at the place where the encoder put 0x7A7A7A7A.
  void send(Connection& c) {
    const std::vector<uint8_t>& frame = frames_[c.next % frames_.size()];
    if (opaque_at_ == 0) opaque_at_ = find_opaque(frame);
    const size_t at = c.out.size();
    c.out.insert(c.out.end(), frame.begin(), frame.end());
    store_le<uint32_t>(c.out.data() + at + opaque_at_, c.next);
    begin(c);
  }
  static size_t find_opaque(const std::vector<uint8_t>& frame) {
    for (size_t at = native::kLengthBytes; at + 4 <= frame.size(); at += 4)
      if (load_le<uint32_t>(frame.data() + at) == 0x7A7A7A7A) return at;
    fail("a frame without its number");
  }
  void pull(Connection& c) {
    command::PullMessages p;
    p.group = "bench";
    p.topic = options_.topic;
    p.queue_id = c.queue;
    p.offset = QueueOffset(c.offset);
    p.count_max = options_.pull;
    p.bytes_max = 8 << 20;
    if (!codec_.encode_request(c.next, false, p, c.out)) fail("cannot encode a pull");
    begin(c);
  }
  void begin(Connection& c) {
    c.begun[c.next % c.begun.size()] = now_;
    ++c.next;
    ++c.in_flight;
    ++begun_;
  }

  void flush(Connection& c) {
    while (c.out_at < c.out.size()) {
      const ssize_t written = write(c.fd, c.out.data() + c.out_at, c.out.size() - c.out_at);
      if (written < 0) {
        if (errno != EAGAIN && errno != EINTR) fail(std::string("write: ") + std::strerror(errno));
        break;
      }
      c.out_at += static_cast<size_t>(written);
    }
    const bool is_rest = c.out_at < c.out.size();
    if (!is_rest) {
      c.out.clear();
      c.out_at = 0;
    }
    if (is_rest == c.wants_write) return;
    c.wants_write = is_rest;
    epoll_event event{};
    event.events = EPOLLIN | (is_rest ? EPOLLOUT : 0u);
    event.data.ptr = &c;
    epoll_ctl(epoll_, EPOLL_CTL_MOD, c.fd, &event);
  }

  void take(Connection& c, Bytes frame) {
    const auto decoded = codec_.decode_response(frame);
    if (!decoded) fail("a response does not parse: " + decoded.error().error.text());
    --c.in_flight;
    if (std::holds_alternative<reply::Hello>(decoded->reply)) return;
    if (is_sampling_ && decoded->opaque % 7 == 0) latencies_.push_back(static_cast<uint32_t>((now_ - c.begun[decoded->opaque % c.begun.size()]) / 1000));
    if (const auto* sent = std::get_if<reply::Sent>(&decoded->reply); sent != nullptr && sent->code == Code::Success) {
      ++answered_;
    } else if (const auto* pulled = std::get_if<reply::Pulled>(&decoded->reply)) {
      answered_ += static_cast<uint64_t>(pulled->count);
      c.offset = pulled->count == 0 ? 0 : pulled->next.value();
      if (pulled->count == 0 && pulled->max.value() == 0) fail("the queues are empty");
    } else {
      --begun_;   // to be sent again
      if (const auto* refusal = std::get_if<Refusal>(&decoded->reply)) c.paused_until = now_ + uint64_t{refusal->retry_after_ms} * 1'000'000;
      if (refused_++ == 0) std::fprintf(stderr, "first refusal: %s\n", describe(decoded->reply).c_str());
    }
  }

  void turn() {
    epoll_event events[64];
    const int count = epoll_wait(epoll_, events, 64, 5);
    for (auto& c : connections_) {
      if (c->paused_until == 0 || now_ < c->paused_until) continue;
      c->paused_until = 0;
      fill(*c);
    }
    for (int i = 0; i < count; ++i) {
      Connection& c = *static_cast<Connection*>(events[i].data.ptr);
      if ((events[i].events & EPOLLIN) != 0) {
        const ssize_t bytes = read(c.fd, buffer_.data(), buffer_.size());
        if (bytes == 0) fail("the broker closed a connection");
        now_ = clock_ns(CLOCK_MONOTONIC);
        if (bytes > 0) c.framer.feed(Bytes(buffer_).first(static_cast<size_t>(bytes)));
        while (bytes > 0) {
          const auto frame = c.framer.next();
          if (!frame) fail(frame.error().text());
          if (frame->empty()) break;
          take(c, *frame);
        }
      }
      fill(c);
    }
  }

  void measure(double seconds, Sample* sample) {
    const uint64_t start = clock_ns(CLOCK_MONOTONIC), answered = answered_, client = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    const double broker = process_cpu_seconds(options_.pid);
    now_ = start;
    while (static_cast<double>(now_ - start) < seconds * 1e9) {
      turn();
      now_ = clock_ns(CLOCK_MONOTONIC);
      if (options_.count != 0 && answered_ >= options_.count) return;
    }
    if (sample == nullptr) return;
    const double messages = std::max(1.0, static_cast<double>(answered_ - answered));
    sample->rate = messages / static_cast<double>(now_ - start) * 1e9;
    sample->broker = (process_cpu_seconds(options_.pid) - broker) / messages * 1e6;
    sample->client = static_cast<double>(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - client) / 1e9 / messages * 1e6;
  }

  static std::string spread(std::vector<double> v, const char* format) {
    std::sort(v.begin(), v.end());
    char text[128];
    std::snprintf(text, sizeof text, format, v[v.size() / 2], v.front(), v.back());
    return text;
  }
  uint32_t percentile(double p) const {
    return latencies_.empty() ? 0 : latencies_[std::min(latencies_.size() - 1, static_cast<size_t>(p * static_cast<double>(latencies_.size())))];
  }
  void print(const std::vector<Sample>& samples) {
    std::vector<double> rate, broker, client;
    for (const Sample& s : samples) {
      rate.push_back(s.rate);
      broker.push_back(s.broker);
      client.push_back(s.client);
    }
    std::sort(latencies_.begin(), latencies_.end());
    std::vector<double> sorted = rate;
    std::sort(sorted.begin(), sorted.end());
    std::printf("%s\t%zu B\t%d conns\t%s %d\t%s\t%.1f MB/s\tbroker %s s/M\tclient %s s/M\tp50 %u p99 %u p99.9 %u max %u us\trefused %llu\n", options_.pull > 0 ? "pull" : "send",
                options_.size, options_.conns, options_.pull > 0 ? "messages" : "window", options_.pull > 0 ? options_.pull : options_.window,
                spread(rate, "%.0f [%.0f..%.0f] msg/s").c_str(), sorted[sorted.size() / 2] * static_cast<double>(options_.size) / 1e6,
                spread(broker, "%.3f [%.3f..%.3f]").c_str(), spread(client, "%.3f [%.3f..%.3f]").c_str(), percentile(0.5), percentile(0.99), percentile(0.999),
                percentile(1.0), static_cast<unsigned long long>(refused_));
  }

  Options options_;
  int epoll_;
  native::Codec codec_;
  std::vector<uint8_t> body_;
  std::vector<std::vector<uint8_t>> frames_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<uint8_t> buffer_ = std::vector<uint8_t>(1u << 20);
  std::vector<uint32_t> latencies_;   // microseconds
  size_t opaque_at_ = 0;
  uint64_t now_ = 0, answered_ = 0, refused_ = 0, begun_ = 0;
  bool is_sampling_ = false;
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--port") o.port = std::stoi(value);
    else if (name == "--pid") o.pid = std::stoi(value);
    else if (name == "--topic") o.topic = value;
    else if (name == "--queues") o.queues = std::stoi(value);
    else if (name == "--conns") o.conns = std::stoi(value);
    else if (name == "--window") o.window = std::stoi(value);
    else if (name == "--size") o.size = std::stoul(value);
    else if (name == "--secs") o.secs = std::stod(value);
    else if (name == "--warm") o.warm = std::stod(value);
    else if (name == "--reps") o.reps = std::stoi(value);
    else if (name == "--count") o.count = std::stoull(value);
    else if (name == "--pull") o.pull = std::stoi(value);
    else if (name == "--key") o.has_key = value != "0";
    else fail("unknown option " + name);
  }
  if (argc % 2 == 0 || o.queues < 1 || o.conns < 1 || o.window < 1 || o.window > 8192 || o.reps < 1) fail("usage: see the head of bench/load.cc");
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  Load(parse(argc, argv)).run();
  return 0;
}
