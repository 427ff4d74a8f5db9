// fulmar send: produce from a shell. Bodies from arguments, files (a line a message) or stdin.

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <thread>

#include "cmd/fulmar/brokers.h"
#include "cmd/fulmar/client_host.h"
#include "cmd/fulmar/program.h"
#include "cmd/fulmar/records.h"
#include "core/client/caller.h"
#include "net/host.h"

namespace fulmar::cmd {

std::string make_unique_key() {
  static const uint64_t start = net::random_seed().value;
  static uint64_t next = 0;
  return fmt::format("{:016X}{:016X}", start, next++);
}

namespace {

struct SendOptions {
  std::string name_servers, topic, keys, tags, ack_log;
  std::vector<std::string> bodies, files, properties;
  int32_t queue = -1;
  uint32_t window = 256, rate = 0;
  int64_t ack_timeout_ms = 30'000;
  bool is_json = false, is_quiet = false, is_one_way_allowed = false;
};

using Clock = std::chrono::steady_clock;

// A message on its way. Views of its command point into it, so it lives until it is answered.
struct Outgoing { std::string id, topic, body, properties; int32_t queue = -1; };
using OutgoingPtr = std::shared_ptr<const Outgoing>;

// What the sender remembers: written by the client's thread, read by ours. Files and terminals are written by a thread of its own: one that
// is slow must not hold up the client, whose time-outs run.
class Account {
 public:
  explicit Account(const SendOptions& options) : options_(options) {
    if (!options.ack_log.empty()) ack_log_ = std::fopen(options.ack_log.c_str(), "a");
    writer_ = std::thread([this] { write_acks(); });
  }
  ~Account() {
    end_writer();
    if (ack_log_ != nullptr) std::fclose(ack_log_);
  }
  bool is_ack_log_broken() const { return !options_.ack_log.empty() && ack_log_ == nullptr; }

  using Post = std::function<void(const OutgoingPtr&)>;
  // False: nothing was acknowledged for --ack-timeout-ms. What a broker refused for now goes out again meanwhile, through `post`.
  bool wait_for_room(const Post& post) { return wait(post, [this] { return in_flight_ + again_.size() < options_.window; }); }
  bool wait_for_all(const Post& post) { return wait(post, [this] { return in_flight_ == 0 && again_.empty(); }); }
  void sent() {
    const std::lock_guard lock(mutex_);
    if (in_flight_ == 0 && again_.empty()) progress_ = Clock::now();   // nobody owed us anything before
    ++in_flight_;
    ++sent_;
  }
  void answered(const OutgoingPtr& message, const Reply& reply) {
    {
      const std::lock_guard lock(mutex_);
      --in_flight_;
      const auto* ok = std::get_if<reply::Sent>(&reply);
      if (ok != nullptr && ok->code == Code::Success) {
        ++acked_;
        progress_ = Clock::now();
        unwritten_.emplace_back(message->id, *ok);
      } else {
        last_failure_ = reply;
        if (const auto* refusal = std::get_if<Refusal>(&reply); refusal != nullptr && may_pass(*refusal))
          again_.push_back({message, Clock::now() + std::chrono::milliseconds(refusal->retry_after_ms)});
        else ++failed_;
      }
    }
    changed_.notify_all();
  }
  bool has_no_topic() {
    const std::lock_guard lock(mutex_);
    const auto* refusal = std::get_if<Refusal>(&last_failure_);
    return acked_ == 0 && refusal != nullptr && refusal->code == Code::TopicNotExist;
  }
  void interrupt() {
    const std::lock_guard lock(mutex_);
    complain(kFailed, fmt::format("interrupted: sent {} acked {}; what was not acknowledged may or may not be stored", sent_, acked_));
    if (ack_log_ != nullptr) std::fflush(ack_log_);
    (void)is_output_broken();
  }
  int finish() {
    end_writer();
    const std::lock_guard lock(mutex_);
    if (options_.is_json) say("{{\"sent\":{},\"acked\":{},\"failed\":{}}}\n", sent_, acked_, failed_ + in_flight_ + again_.size());
    else if (sent_ > 1 || options_.is_quiet) say("sent {} acked {}\n", sent_, acked_);
    if (acked_ == sent_) return kDone;
    if (const auto* refusal = std::get_if<Refusal>(&last_failure_)) return complain(kFailed, *refusal);
    return complain(kFailed, fmt::format("{} of {} were not acknowledged: {}", sent_ - acked_, sent_, describe(last_failure_)));
  }

 private:
  // Refused means not stored, so sending again makes no second one; of an unknown outcome that cannot be said. A topic that nobody knew
  // before is a typo; one that took messages has a broker that is away.
  bool may_pass(const Refusal& refusal) const {
    return refusal.retry_after_ms > 0 && !is_outcome_unknown(refusal) && (refusal.code != Code::TopicNotExist || acked_ > 0);
  }
  template <class Is> bool wait(const Post& post, Is is_fine) {
    std::unique_lock lock(mutex_);
    while (true) {
      const Clock::time_point now = Clock::now();
      const bool is_owed = in_flight_ > 0 || !again_.empty();
      if (is_owed && now - progress_ > std::chrono::milliseconds(options_.ack_timeout_ms)) return false;
      if (is_fine()) return true;
      if (!again_.empty() && again_.front().due <= now && in_flight_ < options_.window) {
        const OutgoingPtr message = again_.front().message;
        again_.pop_front();
        ++in_flight_;
        lock.unlock();
        post(message);
        lock.lock();
        continue;
      }
      changed_.wait_for(lock, std::chrono::milliseconds(again_.empty() ? 200 : 10));
    }
  }
  struct Again { OutgoingPtr message; Clock::time_point due; };
  using Ack = std::pair<std::string, reply::Sent>;
  void write_acks() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return !unwritten_.empty() || is_ending_; });
      if (unwritten_.empty()) return;
      const std::vector<Ack> acks = std::exchange(unwritten_, {});
      lock.unlock();
      for (const auto& [id, ok] : acks) write(id, ok);
      if (ack_log_ != nullptr) std::fflush(ack_log_);
      (void)is_output_broken();   // flushes
      lock.lock();
    }
  }
  void end_writer() {
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
    }
    changed_.notify_all();
    if (writer_.joinable()) writer_.join();
  }
  void write(const std::string& id, const reply::Sent& ok) {
    if (ack_log_ != nullptr) std::fprintf(ack_log_, "%s %s %d %lld\n", id.c_str(), ok.broker.c_str(), ok.queue_id, static_cast<long long>(ok.queue_offset.value()));
    if (options_.is_json || options_.is_quiet) return;
    say("{} {} queue {} offset {} id {}\n", id, ok.broker, ok.queue_id, ok.queue_offset, ok.message_id);
  }
  const SendOptions& options_;
  std::FILE* ack_log_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint32_t in_flight_ = 0;
  uint64_t sent_ = 0, acked_ = 0, failed_ = 0;
  Reply last_failure_ = reply::Ok{};
  std::deque<Again> again_;
  Clock::time_point progress_ = Clock::now();
  std::vector<Ack> unwritten_;
  bool is_ending_ = false;
  std::thread writer_;
};

int run_send(const SendOptions& options) {
  std::string common;
  const auto add = [&common](std::string_view name, std::string_view value) { return property::add(common, name, value); };
  if (!options.keys.empty())
    if (Result<void> ok = add(property::kKeys, options.keys); !ok) return complain(kUsage, ok.error().detail);
  if (!options.tags.empty())
    if (Result<void> ok = add(property::kTags, options.tags); !ok) return complain(kUsage, ok.error().detail);
  for (const std::string& pair : options.properties) {
    const size_t split = pair.find('=');
    if (split == std::string::npos) return complain(kUsage, fmt::format("--property {}: want name=value", pair));
    if (Result<void> ok = add(pair.substr(0, split), pair.substr(split + 1)); !ok) return complain(kUsage, ok.error().detail);
  }
  std::atomic<Account*> telling = nullptr;
  net::StopSignals signals([&telling](int signal) {   // ^C: whoever waits for a line is not woken, so the account is told from here
    if (Account* account = telling.load()) account->interrupt();
    std::_Exit(128 + signal);
  });
  Account account(options);
  if (account.is_ack_log_broken()) return complain(kFailed, fmt::format("cannot write {}", options.ack_log));
  telling = &account;
  const std::shared_ptr<void> forget_it(nullptr, [&telling](void*) { telling = nullptr; });   // before the account goes
  ClientHost client(options.name_servers);
  if (std::string why; !client.is_reachable(why)) return complain(kNotConnected, why);

  bool is_stuck = false;
  const Account::Post post = [&client, &account](const OutgoingPtr& message) {
    client.post(
        [message] {
          command::SendMessage m;
          m.topic = message->topic;
          m.queue_id = message->queue;
          m.born = net::read_moment().wall;
          m.properties = as_bytes(message->properties);
          m.body = as_bytes(message->body);
          return Command(m);
        },
        [&account, message](Reply reply) { account.answered(message, reply); });
  };
  const Clock::time_point begin = Clock::now();
  uint64_t sent = 0;
  // False: nothing was acknowledged for so long that there is no point in reading on.
  const auto send = [&](std::string body) {
    if (options.rate > 0) std::this_thread::sleep_until(begin + std::chrono::microseconds(sent * 1'000'000 / options.rate));
    ++sent;
    if (!account.wait_for_room(post)) return is_stuck = true, false;
    auto message = std::make_shared<Outgoing>(Outgoing{make_unique_key(), options.topic, std::move(body), common, options.queue});
    (void)property::add(message->properties, property::kUniqueKey, message->id);
    account.sent();
    post(std::move(message));
    return true;
  };
  const auto send_lines = [&](std::istream& in) {
    for (std::string line; !is_stuck && std::getline(in, line);) if (!line.empty()) (void)send(std::move(line));
  };
  for (const std::string& body : options.bodies) if (!send(body)) break;
  for (const std::string& file : options.files) {
    if (is_stuck) break;
    std::ifstream in(file, std::ios::binary);
    if (!in) return complain(kFailed, fmt::format("cannot read {}", file));
    send_lines(in);
    if (!in.bad()) continue;   // a directory opens, and cannot be read
    account.wait_for_all(post);
    complain(kFailed, fmt::format("cannot read {}{}", file, sent == 0 ? "" : fmt::format(" to its end; sent {} messages before", sent)));
    return kFailed;
  }
  if (options.bodies.empty() && options.files.empty()) send_lines(std::cin);
  is_stuck = is_stuck || !account.wait_for_all(post);
  if (is_stuck) complain(kFailed, fmt::format("nothing was acknowledged for {} ms", options.ack_timeout_ms));
  // A topic that nobody knows may only mean that no broker is there: that is another sentence.
  std::vector<BrokerPlace> brokers;
  const bool is_nobody_there = account.has_no_topic() && find_brokers(client, options.name_servers, brokers) == kNotConnected;
  client.stop();
  return is_nobody_there ? int{kNotConnected} : account.finish();
}

}  // namespace

void add_send(CLI::App& app, Run& run) {
  CLI::App* verb = app.add_subcommand("send", "send messages: bodies from arguments, files or stdin (a line a message, empty lines left out); ^C tells what was acknowledged, exit 130");
  auto options = std::make_shared<SendOptions>();
  verb->add_option("topic", options->topic, "topic")->required();
  verb->add_option("bodies", options->bodies, "message bodies");
  verb->add_option("-f,--file", options->files, "send each line of the file; may be repeated");
  verb->add_option("-k,--keys", options->keys, "KEYS, words separated by blanks");
  verb->add_option("-t,--tags", options->tags, "TAGS");
  verb->add_option("-p,--property", options->properties, "name=value; may be repeated");
  verb->add_option("-q,--queue", options->queue, "queue id; default: in turn")->check(CLI::Range(0, 65'535));
  verb->add_option("--window", options->window, "messages in flight")->check(CLI::Range(1, 4096));   // what a client takes
  verb->add_option("--rate", options->rate, "at most so many messages a second; 0: as fast as they are acknowledged");
  verb->add_option("--ack-timeout-ms", options->ack_timeout_ms, "give up when nothing is acknowledged for so long; until then what a broker refuses for now is sent again")->check(CLI::Range(1, 86'400'000));
  verb->add_option("--ack-log", options->ack_log, "append a line for every acknowledged message: unique id, broker, queue id, queue offset");
  verb->add_flag("--quiet", options->is_quiet, "only the closing line");
  verb->add_flag("--json", options->is_json, "closing line as JSON");
  add_name_servers_option(verb, options->name_servers);
  verb->callback([options, &run] { run = [options] { return run_send(*options); }; });
}

}  // namespace fulmar::cmd
