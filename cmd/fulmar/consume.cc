// fulmar consume: follow a topic for a group from a shell. fulmar try: ten messages there and back.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <set>

#include "cmd/fulmar/brokers.h"
#include "cmd/fulmar/client_host.h"
#include "cmd/fulmar/program.h"
#include "cmd/fulmar/records.h"
#include "net/host.h"

namespace fulmar::cmd {

namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kEndLimitMs = 2000;   // a broker that is away keeps nobody

// A subscription whose batches are handled on the caller's thread and acknowledged one by one.
class Subscription {
 public:
  Subscription(ClientHost& client, std::string group, std::string topic, std::string expression, bool from_last) : client_(client) {
    auto owned = std::make_shared<std::array<std::string, 3>>(std::array{std::move(group), std::move(topic), std::move(expression)});
    id_ = client.post(
        [owned, from_last] {
          command::Subscribe s;
          s.group = (*owned)[0];
          s.topic = (*owned)[1];
          s.subscription = (*owned)[2];
          s.from = from_last ? command::Subscribe::From::Last : command::Subscribe::From::First;
          s.count_max = 256;
          return Command(s);
        },
        [this](Reply reply) {
          const std::lock_guard lock(mutex_);
          replies_.push_back(std::move(reply));
          changed_.notify_all();
        },
        true);
  }
  // The next batch, or nothing within `wait`.
  std::optional<Reply> next(std::chrono::milliseconds wait) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, wait, [this] { return !replies_.empty(); })) return {};
    Reply reply = std::move(replies_.front());
    replies_.pop_front();
    return reply;
  }
  // `next`: inside the batch, what lies behind comes again to whoever follows.
  void consumed(const reply::Delivered& batch, QueueOffset next) {
    auto broker = std::make_shared<std::string>(batch.broker);
    client_.post([id = id_, broker, queue = batch.queue_id, next] { return Command(command::Consumed{id, *broker, queue, next}); }, [](Reply) {});
  }
  // Commits what was consumed; then no callback comes any more.
  void end() {
    client_.call([id = id_] { return Command(command::Unsubscribe{id}); }, kEndLimitMs);
    client_.forget(id_);
  }

 private:
  ClientHost& client_;
  uint64_t id_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Reply> replies_;
};

struct ConsumeOptions {
  std::string name_servers, topic, group, subscription = "*", from = "first", format = "line";
  uint64_t count = 0;
  int64_t idle_ms = 0;
  bool is_json = false;
};

void print_record(const ConsumeOptions& options, const RecordView& record) {
  const Message& m = record.message;
  const std::string_view key = property::find(m.properties, property::kUniqueKey).value_or("");
  if (options.is_json || options.format == "json") {
    say("{{\"id\":{},\"topic\":{},\"queueId\":{},\"queueOffset\":{},\"tags\":{},\"keys\":{},\"bornTimestamp\":{},\"body\":{}}}\n", json_text(key), json_text(m.topic), m.queue_id,
               record.place.queue, json_text(property::find(m.properties, property::kTags).value_or("")), json_text(property::find(m.properties, property::kKeys).value_or("")), m.born.ms,
               json_text(as_text(m.body)));
  } else if (options.format == "id") {
    say("{}\n", key);
  } else if (options.format == "body") {
    say("{}\n", as_text(m.body));
  } else {
    say("{} {} {}\n", m.queue_id, record.place.queue, as_text(m.body));
  }
}

int run_consume(const ConsumeOptions& options) {
  std::atomic<bool> is_stopped = false, is_following = false;
  net::StopSignals signals([&](int signal) {
    if (!is_following) std::_Exit(128 + signal);   // there is nothing to commit yet
    is_stopped = true;
  });
  ClientHost client(options.name_servers);
  if (std::string why; !client.is_reachable(why)) return complain(kNotConnected, why);
  const Reply route = client.call([topic = options.topic] { return Command(command::QueryRoute{topic}); });
  if (const auto* refusal = std::get_if<Refusal>(&route); refusal != nullptr && refusal->code == Code::TopicNotExist) {
    std::vector<BrokerPlace> brokers;
    if (find_brokers(client, options.name_servers, brokers) == kDone) complain(kDone, fmt::format("there is no topic {} yet; waiting for it", options.topic));
    else complain(kDone, "waiting for a broker");
  }
  is_following = true;
  Subscription subscription(client, options.group, options.topic, options.subscription, options.from == "last");
  uint64_t received = 0;
  int status = kDone;
  Clock::time_point last = Clock::now();
  while (!is_stopped && (options.count == 0 || received < options.count)) {
    const std::optional<Reply> reply = subscription.next(std::chrono::milliseconds(50));
    if (!reply) {
      if (options.idle_ms > 0 && Clock::now() - last > std::chrono::milliseconds(options.idle_ms)) break;
      continue;
    }
    last = Clock::now();
    if (const auto* refusal = std::get_if<Refusal>(&*reply)) {
      status = complain(kFailed, *refusal);
      break;
    }
    const auto* batch = std::get_if<reply::Delivered>(&*reply);
    if (batch == nullptr) continue;
    QueueOffset next = batch->next;
    const bool is_whole = for_each_record(batch->records, [&](const RecordView& record) {
      if (options.count != 0 && received == options.count) {
        next = std::min(next, record.place.queue);
        return;
      }
      print_record(options, record);
      ++received;
    });
    if (is_output_broken()) {  // nobody has seen these: they are not consumed
      status = kFailed;
      break;
    }
    if (!is_whole) {
      status = complain(kFailed, fmt::format("a record of {} {} behind offset {} does not parse or has a wrong checksum", batch->broker, batch->queue_id, batch->first));
      break;
    }
    subscription.consumed(*batch, next);
  }
  subscription.end();
  client.stop();
  return status;
}

struct TryOptions { std::string name_servers, topic = "fulmar_try"; bool is_json = false; };

int run_try(const TryOptions& options) {
  ClientHost client(options.name_servers);
  if (std::string why; !client.is_reachable(why)) return complain(kNotConnected, why);
  std::set<std::string> waiting;
  std::vector<int64_t> latencies_us;
  for (int i = 0; i < 10; ++i) {
    const std::string id = make_unique_key();
    auto owned = std::make_shared<std::array<std::string, 3>>();
    (*owned)[0] = options.topic;
    (*owned)[1] = fmt::format("hello {}", i);
    (void)property::add((*owned)[2], property::kUniqueKey, id);
    const Clock::time_point begin = Clock::now();
    const Reply reply = client.call([owned] {
      command::SendMessage m;
      m.topic = (*owned)[0];
      m.body = as_bytes((*owned)[1]);
      m.properties = as_bytes((*owned)[2]);
      m.born = net::read_moment().wall;
      return Command(m);
    });
    const auto took = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count();
    const auto* sent = std::get_if<reply::Sent>(&reply);
    if (sent == nullptr) {
      if (const auto* refusal = std::get_if<Refusal>(&reply)) return complain(kFailed, *refusal);
      return complain(kFailed, describe(reply));
    }
    waiting.insert(id);
    latencies_us.push_back(took);
    if (!options.is_json) say("sent {}  queue {} offset {}  acknowledged in {} us\n", id, sent->queue_id, sent->queue_offset, took);
  }
  Subscription subscription(client, "fulmar_try_group", options.topic, "*", false);
  const Clock::time_point limit = Clock::now() + std::chrono::seconds(10);
  uint64_t received = 0;
  while (!waiting.empty() && Clock::now() < limit) {
    const std::optional<Reply> reply = subscription.next(std::chrono::milliseconds(100));
    if (!reply) continue;
    if (const auto* refusal = std::get_if<Refusal>(&*reply)) return complain(kFailed, *refusal);
    const auto* batch = std::get_if<reply::Delivered>(&*reply);
    if (batch == nullptr) continue;
    for_each_record(batch->records, [&](const RecordView& record) {
      const std::string id(property::find(record.message.properties, property::kUniqueKey).value_or(""));
      if (waiting.erase(id) == 0) return;  // of an earlier try
      ++received;
      if (!options.is_json) say("got  {}  queue {} offset {}  {}\n", id, record.message.queue_id, record.place.queue, as_text(record.message.body));
    });
    subscription.consumed(*batch, batch->next);
  }
  subscription.end();
  client.stop();
  std::sort(latencies_us.begin(), latencies_us.end());
  if (options.is_json) say("{{\"sent\":10,\"received\":{},\"ackMedianMicros\":{},\"ackMaxMicros\":{}}}\n", received, latencies_us[5], latencies_us.back());
  else say("10 sent, {} received; acknowledged in {} us (median), {} us (slowest)\n", received, latencies_us[5], latencies_us.back());
  return waiting.empty() ? kDone : complain(kFailed, fmt::format("{} messages did not come back within 10 s", waiting.size()));
}

}  // namespace

void add_consume(CLI::App& app, Run& run) {
  CLI::App* verb = app.add_subcommand("consume", "follow a topic for a group and print its messages; ^C commits what was printed and ends, exit 0");
  auto options = std::make_shared<ConsumeOptions>();
  verb->add_option("topic", options->topic, "topic")->required();
  verb->add_option("-g,--group", options->group, "consumer group; its progress is kept by the broker")->required();
  verb->add_option("-s,--subscription", options->subscription, "tags: 'a || b', or '*'");
  verb->add_option("--from", options->from, "where a group without progress begins")->check(CLI::IsMember({"first", "last"}));
  verb->add_option("--count", options->count, "stop after so many messages; 0: never");
  verb->add_option("--idle-ms", options->idle_ms, "stop when nothing came for so long");
  verb->add_option("--format", options->format, "what to print a message")->check(CLI::IsMember({"line", "body", "id", "json"}));
  verb->add_flag("--json", options->is_json, "one JSON object a message");
  add_name_servers_option(verb, options->name_servers);
  verb->callback([options, &run] { run = [options] { return run_consume(*options); }; });
}

void add_try(CLI::App& app, Run& run) {
  CLI::App* verb = app.add_subcommand("try", "send and consume ten messages against a running server");
  auto options = std::make_shared<TryOptions>();
  verb->add_option("--topic", options->topic, "topic to use");
  verb->add_flag("--json", options->is_json, "one JSON object");
  add_name_servers_option(verb, options->name_servers);
  verb->callback([options, &run] { run = [options] { return run_try(*options); }; });
}

}  // namespace fulmar::cmd
