// fulmar send: produce from a shell. Bodies from arguments, files (a line a message) or stdin.

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <mutex>
#include <thread>

#include "cmd/fulmar/client_host.h"
#include "cmd/fulmar/program.h"
#include "cmd/fulmar/records.h"
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

  bool wait_for_room() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::milliseconds(options_.ack_timeout_ms), [this] { return in_flight_ < options_.window; });
  }
  bool wait_for_all() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::milliseconds(options_.ack_timeout_ms), [this] { return in_flight_ == 0; });
  }
  void sent() {
    const std::lock_guard lock(mutex_);
    ++in_flight_;
    ++sent_;
  }
  void answered(const std::string& id, const Reply& reply) {
    {
      const std::lock_guard lock(mutex_);
      --in_flight_;
      if (const auto* ok = std::get_if<reply::Sent>(&reply); ok != nullptr && ok->code == Code::Success) {
        ++acked_;
        unwritten_.emplace_back(id, *ok);
      } else {
        ++failed_;
        last_failure_ = reply;
      }
    }
    changed_.notify_all();
  }
  int finish() {
    end_writer();
    const std::lock_guard lock(mutex_);
    if (options_.is_json) say("{{\"sent\":{},\"acked\":{},\"failed\":{}}}\n", sent_, acked_, failed_ + in_flight_);
    else if (sent_ > 1 || options_.is_quiet) say("sent {} acked {}\n", sent_, acked_);
    if (acked_ == sent_) return kDone;
    if (const auto* refusal = std::get_if<Refusal>(&last_failure_)) return complain(kFailed, *refusal);
    return complain(kFailed, fmt::format("{} of {} were not acknowledged: {}", sent_ - acked_, sent_, describe(last_failure_)));
  }

 private:
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
  Account account(options);
  if (account.is_ack_log_broken()) return complain(kFailed, fmt::format("cannot write {}", options.ack_log));
  ClientHost client(options.name_servers);
  if (std::string why; !client.is_reachable(why)) return complain(kNotConnected, why);

  bool is_stuck = false;
  const auto begin = std::chrono::steady_clock::now();
  uint64_t sent = 0;
  const auto send = [&](std::string body) {
    if (options.rate > 0) std::this_thread::sleep_until(begin + std::chrono::microseconds(sent * 1'000'000 / options.rate));
    ++sent;
    if (is_stuck || !(account.wait_for_room())) {
      is_stuck = true;
      return;
    }
    const std::string id = make_unique_key();
    std::string properties = common;
    (void)property::add(properties, property::kUniqueKey, id);
    account.sent();
    // The views of the command point into this function object, which lives until the step is over.
    struct Owned { std::string topic, body, properties; int32_t queue; };
    auto owned = std::make_shared<Owned>(Owned{options.topic, std::move(body), std::move(properties), options.queue});
    client.post(
        [owned] {
          command::SendMessage m;
          m.topic = owned->topic;
          m.queue_id = owned->queue;
          m.born = net::read_moment().wall;
          m.properties = as_bytes(owned->properties);
          m.body = as_bytes(owned->body);
          return Command(m);
        },
        [&account, id](Reply reply) { account.answered(id, reply); });
  };
  const auto send_lines = [&](std::istream& in) { for (std::string line; std::getline(in, line);) if (!line.empty()) send(std::move(line)); };
  for (const std::string& body : options.bodies) send(body);
  for (const std::string& file : options.files) {
    std::ifstream in(file, std::ios::binary);
    if (!in) return complain(kFailed, fmt::format("cannot read {}", file));
    send_lines(in);
  }
  if (options.bodies.empty() && options.files.empty()) send_lines(std::cin);
  if (!account.wait_for_all() || is_stuck) complain(kFailed, fmt::format("no answer for {} ms", options.ack_timeout_ms));
  client.stop();
  return account.finish();
}

}  // namespace

void add_send(CLI::App& app, Run& run) {
  CLI::App* verb = app.add_subcommand("send", "send messages: bodies from arguments, files or stdin (a line a message, empty lines left out)");
  auto options = std::make_shared<SendOptions>();
  verb->add_option("topic", options->topic, "topic")->required();
  verb->add_option("bodies", options->bodies, "message bodies");
  verb->add_option("-f,--file", options->files, "send each line of the file; may be repeated");
  verb->add_option("-k,--keys", options->keys, "KEYS, words separated by blanks");
  verb->add_option("-t,--tags", options->tags, "TAGS");
  verb->add_option("-p,--property", options->properties, "name=value; may be repeated");
  verb->add_option("-q,--queue", options->queue, "queue id; default: in turn");
  verb->add_option("--window", options->window, "messages in flight")->check(CLI::Range(1, 10'000));
  verb->add_option("--rate", options->rate, "at most so many messages a second; 0: as fast as they are acknowledged");
  verb->add_option("--ack-timeout-ms", options->ack_timeout_ms, "give up when nothing is acknowledged for so long");
  verb->add_option("--ack-log", options->ack_log, "append a line for every acknowledged message: unique id, broker, queue id, queue offset");
  verb->add_flag("--quiet", options->is_quiet, "only the closing line");
  verb->add_flag("--json", options->is_json, "closing line as JSON");
  add_name_servers_option(verb, options->name_servers);
  verb->callback([options, &run] { run = [options] { return run_send(*options); }; });
}

}  // namespace fulmar::cmd
