// Reads a topic from its beginning, queue by queue, without disturbing any group: assign and seek instead of subscribe.
//   replay [NAMESRV] [TOPIC]

#include <fulmar/client.h>

#include <chrono>
#include <iostream>

int main(int argc, char** argv) {
  fulmar::Client client({.name_servers = {argc > 1 ? argv[1] : "127.0.0.1:9876"}});
  const std::string topic = argc > 2 ? argv[2] : "orders";
  const auto found = client.describe_topic(topic);
  if (!found) {
    std::cerr << found.refusal().text() << '\n';
    return 1;
  }

  // Without auto commit and without commit() nothing is stored about this group.
  fulmar::PullConsumer consumer(client, {.group = "replay", .is_auto_commit = false});
  int64_t expected = 0;
  if (const auto assigned = consumer.assign(found->queues); !assigned) {
    std::cerr << assigned.refusal().text() << '\n';
    return 1;
  }
  for (const fulmar::Queue& queue : found->queues) {
    const auto range = consumer.range(queue);
    if (!range || !consumer.seek(queue, range->min)) return 1;
    expected += range->max - range->min;
    std::cout << queue.broker << " queue " << queue.id << " holds [" << range->min << ", " << range->max << ")\n";
  }

  int64_t read = 0;
  while (read < expected) {
    const auto batch = consumer.poll(std::chrono::seconds(5));
    if (!batch || batch->empty()) {
      std::cerr << (batch ? "nothing came in 5 s" : batch.refusal().text()) << '\n';
      return 1;
    }
    read += static_cast<int64_t>(batch->size());
    std::cout << batch->front().queue.id << ": " << batch->front().body << (batch->size() > 1 ? " ..." : "") << '\n';
  }
  std::cout << "replayed " << read << " of " << expected << '\n';
}
