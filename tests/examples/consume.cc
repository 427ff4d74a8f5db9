// Consumes orders in a group: run it twice and the messages go on where they stopped. Ends after COUNT messages, or at ^C.
//   consume [NAMESRV] [COUNT]

#include <fulmar/client.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <thread>

namespace {
std::atomic<bool> is_interrupted{false};
}

int main(int argc, char** argv) {
  std::signal(SIGINT, [](int) { is_interrupted = true; });
  fulmar::Client client({.name_servers = {argc > 1 ? argv[1] : "127.0.0.1:9876"}});
  const int count = argc > 2 ? std::atoi(argv[2]) : 10;

  std::mutex output;
  std::atomic<int> consumed{0};
  fulmar::PushOptions options{.group = "order_readers", .from = fulmar::From::First};
  options.threads = 4;  // so many listeners run at the same time: what they share needs a lock
  options.on_refused = [](const std::string& topic, const fulmar::Refusal& why) { std::cerr << topic << ": " << why.text() << '\n'; };

  fulmar::PushConsumer consumer(client, options, [&](const fulmar::ReceivedMessage& order) {
    if (!order.body_problem.empty()) {
      std::cerr << order.id << ": " << order.body_problem << '\n';  // it will not get better: done with it
      return fulmar::ConsumeResult::Success;
    }
    // Delivery is at least once. If doing an order twice matters, remember order.id together with what you did.
    const std::lock_guard lock(output);
    std::cout << order.body << " (" << order.tags << ", " << order.properties.at("shop") << ")\n";
    ++consumed;
    return fulmar::ConsumeResult::Success;  // Later: comes again in options.retry_delay
  });
  if (const auto subscribed = consumer.subscribe("orders", "paid || open"); !subscribed) {
    std::cerr << subscribed.refusal().text() << '\n';
    return 1;
  }
  while (!is_interrupted && consumed < count) std::this_thread::sleep_for(std::chrono::milliseconds(10));

  // Lets listeners finish and commits what they did; the destructor would do the same, without a word.
  if (const auto stopped = consumer.stop(); !stopped) std::cerr << stopped.refusal().text() << '\n';
  std::cout << "consumed " << consumed << '\n';
}
