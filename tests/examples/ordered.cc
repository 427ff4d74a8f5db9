// Keeps the events of each account in order: the sharding key chooses the queue, a queue keeps its order, and one sender waits for each
// answer before it sends the next event of the same account. Then reads them back with a pull consumer.
//   ordered [NAMESRV]

#include <fulmar/client.h>

#include <chrono>
#include <iostream>
#include <map>
#include <string>

int main(int argc, char** argv) {
  fulmar::Client client({.name_servers = {argc > 1 ? argv[1] : "127.0.0.1:9876"}});
  // Make the topic before ordering matters: with another number of queues, keys go to other queues.
  if (const auto made = client.create_topic("account_events", 4); !made) {
    std::cerr << made.refusal().text() << '\n';
    return 1;
  }

  fulmar::Producer producer(client);
  constexpr int kAccounts = 5, kEvents = 10;
  for (int event = 0; event < kEvents; ++event) {
    for (int account = 0; account < kAccounts; ++account) {
      const auto sent = producer.send(fulmar::Message("account_events", std::to_string(event)).with_sharding_key("account-" + std::to_string(account)));
      if (sent) continue;
      std::cerr << sent.refusal().text() << '\n';
      return 1;
    }
  }

  fulmar::PullConsumer consumer(client, {.group = "ledger"});
  if (const auto subscribed = consumer.subscribe("account_events"); !subscribed) {
    std::cerr << subscribed.refusal().text() << '\n';
    return 1;
  }
  std::map<std::string, int> next;
  int read = 0, out_of_order = 0;
  while (read < kAccounts * kEvents) {
    const auto batch = consumer.poll(std::chrono::seconds(5));
    if (!batch || batch->empty()) {
      std::cerr << (batch ? "nothing came in 5 s" : batch.refusal().text()) << '\n';
      return 1;
    }
    for (const fulmar::ReceivedMessage& m : *batch) {
      // A copy of an earlier event (at least once) is no disorder: only going forward too far is.
      int& expected = next[m.sharding_key];
      const int event = std::stoi(m.body);
      if (event > expected) ++out_of_order;
      if (event == expected) ++expected;
      ++read;
    }
    if (const auto committed = consumer.commit(); !committed) std::cerr << committed.refusal().text() << '\n';
  }
  std::cout << "read " << read << " events of " << next.size() << " accounts, " << out_of_order << " out of order\n";
  return out_of_order == 0 ? 0 : 1;
}
