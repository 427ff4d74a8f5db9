#include "net/facade/engine.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <future>

#include "core/client/routes.h"
#include "core/node/client.h"
#include "net/facade/convert.h"
#include "net/host.h"

namespace fulmar::v1 {
namespace {

using std::chrono::steady_clock;

std::atomic<unsigned> fork_count{0};  // in a child one higher than in its parent
const int fork_watch = pthread_atfork(nullptr, nullptr, [] { fork_count.fetch_add(1, std::memory_order_relaxed); });

std::vector<std::string> name_servers_of(const ClientOptions& options) {
  if (!options.name_servers.empty()) return options.name_servers;
  const char* given = std::getenv("NAMESRV_ADDR");  // RocketMQ's variable
  std::vector<std::string> out;
  std::string_view rest = given != nullptr && *given != 0 ? given : "127.0.0.1:9876";
  while (!rest.empty()) {
    const size_t end = rest.find(';');
    if (end != 0) out.emplace_back(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return out;
}

std::string made_client_id() {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  return fmt::format("{}@{}#{:08x}", host[0] == 0 ? "fulmar" : host, getpid(), static_cast<uint32_t>(net::random_seed().value));
}

fulmar::ClientConfig config_of(const ClientOptions& options) {
  fulmar::ClientConfig c;
  c.name_servers = name_servers_of(options);
  c.client_id = options.client_id.empty() ? made_client_id() : options.client_id;
  c.send_timeout_ms = std::max<int64_t>(options.send_timeout.count(), 1);
  c.resends = std::clamp(options.resends, 0, 1000);
  c.attempt_timeout_ms = std::max<int64_t>(options.attempt_timeout.count(), 0);
  c.is_latency_judged = options.is_latency_judged;
  c.body_bytes_max = static_cast<uint32_t>(std::min<size_t>(options.body_bytes_max, 128u << 20));
  c.compress_over_bytes = 0;  // callers' threads do it, the loop need not
  return c;
}

std::optional<Refusal> check(const ClientOptions& options) {
  for (const std::string& server : name_servers_of(options)) {
    if (const auto address = parse_address(server); !address) return refusal(Code::InvalidParameter, address.error().detail, "ClientOptions::name_servers");
  }
  return std::nullopt;
}

}  // namespace

Engine::Engine(ClientOptions options)
    : options_(std::move(options)),
      forks_(fork_count.load(std::memory_order_relaxed)),
      bad_option_(check(options_)),
      callbacks_("fulmar-callback", options_.callback_threads),
      completions_("fulmar-future", 1) {
  net::UvOptions uv;
  uv.name = "client";
  uv.seed = net::random_seed();
  uv.on_tell = [this](CallId call, fulmar::Reply reply) { on_tell(call, std::move(reply)); };
  driver_ = std::make_unique<net::UvDriver>(
      [config = config_of(options_)](Seed seed, Files& files, Trace& trace) -> std::unique_ptr<Node> {
        return std::make_unique<fulmar::Client>(config, seed, files, trace);
      },
      std::move(uv));
  loop_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "fulmar-client");
    (void)driver_->run();
    end_all_calls();
  });
}

Engine::~Engine() { (void)stop(); }

bool Engine::is_child() const { return forks_ != fork_count.load(std::memory_order_relaxed); }

std::optional<Refusal> Engine::unusable() const {
  if (is_child()) return refusal(Code::ServiceNotAvailable, "this client was made before fork(); make one in the child", "");
  if (is_stopping_.load(std::memory_order_acquire)) return refusal(Code::ServiceNotAvailable, "this client is stopped", "");
  return bad_option_;
}

// --- slots ------------------------------------------------------------------------------------------------------------------------------

std::optional<Refusal> Engine::take_slot(size_t bytes, WhenFull when_full) {
  if (std::optional<Refusal> why = unusable()) return why;
  if (bytes > options_.bytes_max) {
    return refusal(Code::MessageIllegal, "the message is larger than all that may be on its way", fmt::format("{} bytes, bytes_max {}", bytes, options_.bytes_max));
  }
  std::unique_lock lock(slots_mutex_);
  const auto has_room = [&] { return requests_ < options_.requests_max && bytes_ + bytes <= options_.bytes_max; };
  if (!has_room() && when_full == WhenFull::Block && !Pool::is_inside()) {
    slots_changed_.wait(lock, [&] { return has_room() || is_stopping_.load(std::memory_order_acquire); });
  }
  if (is_stopping_.load(std::memory_order_acquire)) return refusal(Code::ServiceNotAvailable, "this client is stopped", "");
  if (!has_room()) {
    Refusal full = refusal(Code::SystemBusy, "too much is on its way in this client",
                           fmt::format("{} requests of {} bytes, at most {} of {}", requests_, bytes_, options_.requests_max, options_.bytes_max));
    full.retry_after = std::chrono::milliseconds(10);
    return full;
  }
  ++requests_;
  bytes_ += bytes;
  return std::nullopt;
}

void Engine::give_slot(size_t bytes) {
  {
    const std::lock_guard lock(slots_mutex_);
    --requests_;
    bytes_ -= bytes;
  }
  slots_changed_.notify_all();
}

// --- calls ------------------------------------------------------------------------------------------------------------------------------

void Engine::post_as(uint64_t call, net::CommandMaker make, OnReply on_reply, bool is_subscription) {
  bool is_gone = false;
  auto shared = std::make_shared<OnReply>(std::move(on_reply));
  {
    const std::lock_guard lock(calls_mutex_);
    is_gone = is_loop_gone_;
    if (!is_gone) calls_.emplace(call, Pending{shared, is_subscription});
  }
  if (is_gone) return (*shared)(fulmar::Refusal{fulmar::Code::ServiceNotAvailable, "this client is stopped", "", 0});
  const fulmar::Result<void> posted = driver_->post(CallId(call), std::move(make));
  if (posted) return;
  const bool is_full = posted.code() == Errc::Full;
  on_tell(CallId(call), fulmar::Refusal{is_full ? fulmar::Code::SystemBusy : fulmar::Code::ServiceNotAvailable,
                                        is_full ? "too many commands wait for this client's thread" : "this client is stopped", posted.error().text(), is_full ? 10u : 0u});
}

std::optional<fulmar::Reply> Engine::call_until(net::CommandMaker make, SteadyTime deadline) {
  auto promise = std::make_shared<std::promise<fulmar::Reply>>();
  std::future<fulmar::Reply> future = promise->get_future();
  const uint64_t id = new_call();
  post_as(id, std::move(make), [promise](fulmar::Reply reply) { promise->set_value(std::move(reply)); }, false);
  if (future.wait_until(deadline) == std::future_status::ready) return future.get();
  forget(id);
  return std::nullopt;
}

fulmar::Reply Engine::call(net::CommandMaker make) {
  auto promise = std::make_shared<std::promise<fulmar::Reply>>();
  std::future<fulmar::Reply> future = promise->get_future();
  post(std::move(make), [promise](fulmar::Reply reply) { promise->set_value(std::move(reply)); });
  return future.get();  // every call ends: with an answer, at its deadline, or with the loop
}

void Engine::forget(uint64_t call) {
  const std::lock_guard lock(calls_mutex_);
  calls_.erase(call);
}

void Engine::on_tell(CallId call, fulmar::Reply reply) {
  std::shared_ptr<OnReply> on_reply;
  {
    const std::lock_guard lock(calls_mutex_);
    const auto it = calls_.find(call.value());
    if (it == calls_.end()) return;
    on_reply = it->second.on_reply;
    if (!it->second.is_subscription) calls_.erase(it);
  }
  (*on_reply)(std::move(reply));
}

void Engine::end_all_calls() {
  std::unordered_map<uint64_t, Pending> left;
  {
    const std::lock_guard lock(calls_mutex_);
    is_loop_gone_ = true;
    left.swap(calls_);
  }
  for (const auto& [id, pending] : left) {
    if (pending.is_subscription) continue;
    (*pending.on_reply)(fulmar::Refusal{fulmar::Code::ServiceNotAvailable, std::string(kOutcomeUnknown) + "the client stopped before an answer came", "", 0});
  }
}

// --- the end ----------------------------------------------------------------------------------------------------------------------------

void Engine::add_consumer(std::weak_ptr<Stoppable> consumer) {
  const std::lock_guard lock(calls_mutex_);
  std::erase_if(consumers_, [](const auto& c) { return c.expired(); });
  consumers_.push_back(std::move(consumer));
}

bool Engine::stop() {
  if (is_child()) return true;  // the threads and sockets are the parent's
  const std::lock_guard lock(stop_mutex_);
  if (std::exchange(is_stopped_, true)) return has_drained_;
  std::vector<std::weak_ptr<Stoppable>> consumers;
  {
    const std::lock_guard calls_lock(calls_mutex_);
    consumers.swap(consumers_);
  }
  for (const auto& each : consumers) {
    if (const auto consumer = each.lock()) (void)consumer->stop();
  }
  {
    const std::lock_guard slots_lock(slots_mutex_);  // so that nobody begins to wait for room after the last notification
    is_stopping_.store(true, std::memory_order_release);
  }
  slots_changed_.notify_all();
  const SteadyTime deadline = steady_clock::now() + options_.stop_timeout;
  driver_->request_stop(CallId(0), Duration::milliseconds(std::max<int64_t>(options_.stop_timeout.count(), 1)));
  loop_.join();
  // Callbacks get a moment even when the node has used all the time.
  const SteadyTime callbacks_deadline = std::max(deadline, steady_clock::now() + std::chrono::milliseconds(200));
  const bool has_completed = completions_.stop(callbacks_deadline);
  has_drained_ = callbacks_.stop(callbacks_deadline) && has_completed;
  return has_drained_;
}

}  // namespace fulmar::v1
