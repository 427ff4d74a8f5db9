#include <chrono>
#include <thread>

#include "core/client/routes.h"
#include "net/facade/convert.h"
#include "net/facade/engine.h"

namespace fulmar::v1 {

Client::Client(ClientOptions options) : engine_(std::make_shared<Engine>(std::move(options))) {}

Client::~Client() {
  if (engine_->is_child()) (void)new std::shared_ptr<Engine>(engine_);  // for ever: its locks and threads are the parent's
  else (void)engine_->stop();
}

bool Client::stop() { return engine_->is_child() || engine_->stop(); }

namespace {

// Asks and expects Ok.
template <class Make>
Result<void> ask(Engine& engine, Make make) {
  if (auto why = engine.unusable()) return *why;
  const fulmar::Reply reply = engine.call(make);
  if (std::holds_alternative<reply::Ok>(reply)) return {};
  return refusal(reply);
}

std::shared_ptr<const std::string> owned(const std::string& text) { return std::make_shared<const std::string>(text); }

}  // namespace

// Brokers tell name servers of a topic with their next registration. Whoever makes a topic wants to use it, so that is waited for.
Result<void> Client::create_topic(const std::string& topic, int32_t queues) {
  const Result<void> made = ask(*engine_, [topic = owned(topic), queues] { return Command(command::CreateTopic{.topic = *topic, .read_queues = queues, .write_queues = queues}); });
  if (!made) return made;
  const auto has_queues = [queues](const Result<TopicInfo>& info) { return info.ok() && info->write_queues == queues; };
  for (int i = 0; i < 150 && !has_queues(describe_topic(topic)); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return {};
}

Result<void> Client::delete_topic(const std::string& topic) {
  return ask(*engine_, [topic = owned(topic)] { return Command(command::DeleteTopic{*topic}); });
}

Result<TopicInfo> Client::describe_topic(const std::string& topic) {
  if (auto why = engine_->unusable()) return *why;
  const fulmar::Reply reply = engine_->call([topic = owned(topic)] { return Command(command::QueryRoute{*topic}); });
  const auto* answer = std::get_if<reply::Route>(&reply);
  if (answer == nullptr) return refusal(reply);
  TopicInfo out;
  out.name = topic;
  for (const TopicRoute::Broker& broker : TopicRoute(*answer).brokers) {
    out.read_queues = std::max(out.read_queues, broker.read_queues);
    out.write_queues = std::max(out.write_queues, broker.write_queues);
    for (int32_t id = 0; id < broker.read_queues; ++id) out.queues.push_back({topic, broker.name, id});
  }
  return out;
}

Result<std::vector<std::string>> Client::list_topics() {
  if (auto why = engine_->unusable()) return *why;
  std::vector<std::string> out;
  for (bool has_more = true; has_more;) {
    const fulmar::Reply reply = engine_->call([after = owned(out.empty() ? "" : out.back())] { return Command(command::ListTopics{.after = *after, .count_max = 1000}); });
    const auto* page = std::get_if<reply::Topics>(&reply);
    if (page == nullptr) return refusal(reply);
    for (const TopicConfig& topic : page->topics) out.push_back(topic.name);
    has_more = page->has_more && !page->topics.empty();
  }
  return out;
}

}  // namespace fulmar::v1
