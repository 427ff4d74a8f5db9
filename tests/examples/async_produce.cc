// Sends as fast as the broker takes it, with a bound on what is on its way: the next send waits for room instead of filling the memory.
//   async_produce [NAMESRV] [COUNT]

#include <fulmar/client.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>

int main(int argc, char** argv) {
  fulmar::ClientOptions options;
  options.name_servers = {argc > 1 ? argv[1] : "127.0.0.1:9876"};
  options.requests_max = 256;        // on their way at the same time...
  options.bytes_max = 8u << 20;      // ...and bytes of them
  options.stop_timeout = std::chrono::seconds(10);
  fulmar::Client client(options);
  const int count = argc > 2 ? std::atoi(argv[2]) : 10'000;
  if (const auto made = client.create_topic("metrics", 4); !made) {
    std::cerr << made.refusal().text() << '\n';
    return 1;
  }

  fulmar::Producer producer(client);
  std::atomic<int> acked{0}, failed{0};
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) {
    // Refuse (the default) would come back with SYSTEM_BUSY when the bound is reached: for callers that must not wait.
    const auto taken = producer.send_async(
        fulmar::Message("metrics", "cpu=" + std::to_string(i % 100)),
        [&](const fulmar::Result<fulmar::SendReceipt>& sent) {  // on a thread of the client's pool
          ++(sent ? acked : failed);
          if (!sent) std::cerr << sent.refusal().text() << '\n';
        },
        fulmar::WhenFull::Block);
    if (!taken) ++failed;  // the callback will never run
  }
  // Futures do as well. This one is behind all others in no queue in particular, so it says nothing about them.
  const auto last = producer.send_async(fulmar::Message("metrics", "last")).get();
  if (!client.stop()) std::cerr << "a callback did not come back\n";  // what is on its way ends first

  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin).count();
  std::cout << "acked " << acked << " failed " << failed << " last " << (last ? "acked" : "refused") << ", " << count * 1000LL / std::max<long long>(ms, 1) << " a second\n";
  return failed == 0 && last ? 0 : 1;
}
