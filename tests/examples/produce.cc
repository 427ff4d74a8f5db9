// Sends a few orders and waits for each answer: the simplest way, and the one to begin with.
//   produce [NAMESRV] [COUNT]
// An answer says that the broker has stored the message, and that it is durable as far as the broker promises (SYNC_FLUSH: on the disk).

#include <fulmar/client.h>

#include <cstdlib>
#include <iostream>

int main(int argc, char** argv) {
  fulmar::Client client({.name_servers = {argc > 1 ? argv[1] : "127.0.0.1:9876"}});
  const int count = argc > 2 ? std::atoi(argv[2]) : 10;

  // Topics are not made by a first send, except by `fulmar dev`. Doing it again is fine.
  if (const auto made = client.create_topic("orders", 4); !made) {
    std::cerr << "cannot make the topic: " << made.refusal().text() << '\n';
    return 1;
  }

  fulmar::Producer producer(client);
  for (int i = 0; i < count; ++i) {
    const auto message = fulmar::Message("orders", "order " + std::to_string(i))
                             .with_tags(i % 2 == 0 ? "paid" : "open")       // consumers may ask for one of them
                             .with_key("o-" + std::to_string(i))            // `fulmar message query orders o-3` finds it
                             .with_property("shop", "berlin");              // anything else
    const auto sent = producer.send(message);
    if (!sent) {
      // Refused is not stored. Unknown may be stored: whoever sends it again may store it twice, with the same id.
      const fulmar::Refusal& why = sent.refusal();
      std::cerr << (why.is_outcome_unknown ? "perhaps sent: " : "not sent: ") << why.text() << '\n';
      return 1;
    }
    std::cout << sent->id << ' ' << sent->queue.broker << " queue " << sent->queue.id << " offset " << sent->queue_offset << '\n';
  }
  std::cout << "sent " << count << '\n';
}
