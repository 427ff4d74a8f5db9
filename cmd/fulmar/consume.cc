// fulmar consume: follow a topic for a group from a shell. fulmar try: ten messages there and back.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <set>

#include "cmd/fulmar/broadcast_offsets.h"
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
  // `terms`: everything but the names.
  Subscription(ClientHost& client, std::string group, std::string topic, std::string expression, command::Subscribe terms) : client_(client) {
    auto owned = std::make_shared<std::array<std::string, 3>>(std::array{std::move(group), std::move(topic), std::move(expression)});
    terms.count_max = 256;
    id_ = client.post(
        [owned, terms = std::move(terms)] {
          command::Subscribe s = terms;
          s.group = (*owned)[0];
          s.topic = (*owned)[1];
          s.subscription = (*owned)[2];
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
  // Commits what was consumed; then no callback comes any more. What was told last is still to be had from next().
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
  std::string name_servers, topic, group, subscription = "*", from = "first", format = "line", client_id;
  bool is_broadcast = false;
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

// first, last, or a time in milliseconds since 1970.
bool parse_from(const std::string& text, command::Subscribe& terms) {
  if (text == "first" || text == "last") return terms.from = text == "last" ? StartFrom::Last : StartFrom::First, true;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), terms.from_time.ms);
  terms.from = StartFrom::Timestamp;
  return error == std::errc() && end == text.data() + text.size() && terms.from_time.ms >= 0;
}

// Broadcasting: where this client stood when it was last here. The broker keeps that for clustering groups only.
Result<command::Subscribe> terms_of(const ConsumeOptions& options, BroadcastOffsets& kept) {
  command::Subscribe terms;
  (void)parse_from(options.from, terms);   // it was checked
  if (!options.is_broadcast) return terms;
  terms.model = GroupModel::Broadcasting;
  if (const Result<void> loaded = kept.load(); !loaded) return loaded.error();
  for (const auto& [queue, next] : kept.all()) terms.positions.push_back({queue.first, queue.second, next});
  return terms;
}

// Everything but messages. False: it ends the subscription, or its file cannot be written.
bool take_news(const Reply& reply, BroadcastOffsets& kept, int& status) {
  if (const auto* refusal = std::get_if<Refusal>(&reply)) return status = complain(kFailed, *refusal), false;
  if (const auto* assigned = std::get_if<reply::Assigned>(&reply); assigned != nullptr && !assigned->conflict.empty())
    complain(kDone, "members of the group differ: " + assigned->conflict);
  if (const auto* progress = std::get_if<reply::Progress>(&reply)) {
    kept.set(progress->broker, progress->queue_id, progress->next);
    if (const Result<void> saved = kept.save(false); !saved) return status = complain(kFailed, saved.error().detail), false;
  }
  return true;
}

int run_consume(const ConsumeOptions& options) {
  const std::string client_id = options.client_id.empty() && options.is_broadcast ? host_name() + "@DEFAULT" : options.client_id;
  BroadcastOffsets kept(client_id, options.group, options.topic);
  const Result<command::Subscribe> terms = terms_of(options, kept);
  if (!terms) return complain(kFailed, terms.error().detail);
  std::atomic<bool> is_stopped = false, is_following = false;
  net::StopSignals signals([&](int signal) {
    if (!is_following) std::_Exit(128 + signal);   // there is nothing to commit yet
    is_stopped = true;
  });
  ClientHost client(options.name_servers, client_id);
  if (std::string why; !client.is_reachable(why)) return complain(kNotConnected, why);
  const Reply route = client.call([topic = options.topic] { return Command(command::QueryRoute{topic}); });
  if (const auto* refusal = std::get_if<Refusal>(&route); refusal != nullptr && refusal->code == Code::TopicNotExist) {
    std::vector<BrokerPlace> brokers;
    if (find_brokers(client, options.name_servers, brokers) == kDone) complain(kDone, fmt::format("there is no topic {} yet; waiting for it", options.topic));
    else complain(kDone, "waiting for a broker");
  }
  is_following = true;
  Subscription subscription(client, options.group, options.topic, options.subscription, *terms);
  uint64_t received = 0;
  int status = kDone;
  // Silence counts from when this member knows its queues, which a broker that has just begun lets it wait for.
  constexpr auto kPatience = std::chrono::seconds(5);
  bool is_assigned = false;
  Clock::time_point last = Clock::now();
  while (!is_stopped && (options.count == 0 || received < options.count)) {
    const std::optional<Reply> reply = subscription.next(std::chrono::milliseconds(50));
    if (!reply) {
      const auto limit = std::chrono::milliseconds(options.idle_ms) + (is_assigned ? std::chrono::seconds(0) : kPatience);
      if (options.idle_ms > 0 && Clock::now() - last > limit) break;
      continue;
    }
    if (!take_news(*reply, kept, status)) break;
    if (std::holds_alternative<reply::Assigned>(*reply) && !std::exchange(is_assigned, true)) last = Clock::now();
    const auto* batch = std::get_if<reply::Delivered>(&*reply);
    if (batch == nullptr) continue;
    last = Clock::now();
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
  int late = kDone;   // what is said to the end of a subscription changes nothing but the offsets that are kept here
  while (const std::optional<Reply> reply = subscription.next(std::chrono::milliseconds(0)))
    if (std::holds_alternative<reply::Progress>(*reply)) (void)take_news(*reply, kept, late);
  if (const Result<void> saved = kept.save(true); !saved) return complain(kFailed, saved.error().detail);
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
  Subscription subscription(client, "fulmar_try_group", options.topic, "*", {});
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
  verb->add_option("--from", options->from, "where a group without progress begins: first, last, or a time in milliseconds since 1970")->check([](const std::string& text) -> std::string {
    command::Subscribe ignored;
    return parse_from(text, ignored) ? "" : "wants first, last or milliseconds since 1970";
  });
  verb->add_flag("--broadcast", options->is_broadcast, "everything to every member; this one's progress is kept in a file here, by its client id");
  verb->add_option("--client-id", options->client_id, "how the group knows this member; two members never share one");
  verb->add_option("--count", options->count, "stop after so many messages; 0: never");
  verb->add_option("--idle-ms", options->idle_ms, "stop when nothing came for so long; 0: never")->check(CLI::NonNegativeNumber);
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
