// The end of a run, as an application would look at it: every queue from its minimum to its maximum, every key, every committed offset.

#include <fmt/format.h>

#include <algorithm>

#include "sim/workload.h"

namespace fulmar::sim {
namespace {
constexpr int32_t kQueryCountMax = 64;
constexpr size_t kQueriesMax = 48;    // keys, per reading: spread over all that are known; each without a window and with one
}  // namespace

void Workload::begin_reading(std::string reader) {
  reading_ = {true, std::move(reader), 0};
  phase_ = 0;
  court_.begin_reading();
  ++reading_.open;
  for (const auto& broker : court_.brokers()) {
    for (const std::string& topic : topics_) {
      for (int32_t queue_id = 0; queue_id < plan_.queues; ++queue_id) read_queue_of({broker.geometry.name, topic, queue_id});
    }
  }
  question_done();
}

void Workload::question_done() {
  if (--reading_.open > 0) return;
  ++reading_.open;
  ++phase_;
  if (phase_ == 1) read_keys();
  else if (phase_ == 2) read_offsets();
  else if (phase_ == 3) read_metrics();
  if (phase_ < 4) return question_done();
  reading_.open = 0;
  reading_.is_running = false;
  court_.end_reading();
}

void Workload::read_queue_of(const QueueKey& queue) {
  ++reading_.open;
  const auto known_end = std::make_shared<int64_t>(0);
  ask_until(
      reader_client(),
      [this, queue, known_end] {
        *known_end = court_.order().end_of(queue);
        return Command(command::QueryQueue{.topic = queue.topic, .queue_id = queue.queue_id, .broker = queue.broker});
      },
      [this, queue, known_end](const Reply& reply) {
        const auto* range = std::get_if<reply::Queue>(&reply);
        if (range == nullptr) return false;
        auto read = std::make_shared<QueueRead>(QueueRead{queue, range->min.value(), range->max.value(), range->min.value(), *known_end, {}});
        read_page(std::move(read));
        return true;
      });
}

void Workload::read_page(std::shared_ptr<QueueRead> read) {
  if (read->at >= read->max) {
    court_.read_queue(reading_.reader, read->queue, read->min, read->max, read->known_end, read->items);
    search_in(*read);
    return question_done();
  }
  ask_until(
      reader_client(),
      [read] {
        return Command(command::PullMessages{.group = "reader", .topic = read->queue.topic, .queue_id = read->queue.queue_id, .offset = QueueOffset(read->at),
                                             .count_max = 64, .subscription = "*", .broker = read->queue.broker});
      },
      [this, read](const Reply& reply) {
        const auto* pulled = std::get_if<reply::Pulled>(&reply);
        if (pulled == nullptr) return false;
        if (pulled->code == Code::PullOffsetMoved && pulled->next.value() > read->at && pulled->next.value() <= read->max) {
          // Retention was faster: the queue begins there now. Everything that is read counts, what went before need not be.
          read->min = read->at = pulled->next.value();
          read->items.clear();
          read_page(read);
          return true;
        }
        if (pulled->code == Code::PullRetryImmediately) {
          if (pulled->next.value() <= read->at) return false;
          read->at = pulled->next.value();   // nothing of it can be given: what is missing, the oracle sees
          read_page(read);
          return true;
        }
        if (pulled->code != Code::Success) {  // it says that there is nothing: the oracle sees the gap
          court_.read_queue(reading_.reader, read->queue, read->min, read->max, read->known_end, read->items);
          question_done();
          return true;
        }
        std::vector<Court::Item> items = court_.read(reading_.reader, read->queue, pulled->records, true);
        if (static_cast<size_t>(pulled->count) != items.size()) {
          court_.fail("O2", fmt::format("a pull from {} says {} records and holds {}", read->queue.text(), pulled->count, items.size()));
        }
        for (const Court::Item& item : items) {
          if (item.queue_offset >= read->at && item.queue_offset < pulled->next.value()) continue;
          court_.fail("O3", fmt::format("a pull from {} at {} that goes on at {} holds offset {}", read->queue.text(), read->at, pulled->next, item.queue_offset));
        }
        std::move(items.begin(), items.end(), std::back_inserter(read->items));
        if (pulled->next.value() <= read->at) court_.fail("O4", fmt::format("a pull from {} at {} goes on at {}", read->queue.text(), read->at, pulled->next));
        read->at = pulled->next.value();
        read_page(read);
        return true;
      });
}

// The first message that was stored at the stamp of one of them, or later.
void Workload::search_in(const QueueRead& read) {
  const bool is_whole = static_cast<int64_t>(read.items.size()) == read.max - read.min && !read.items.empty();
  if (!is_whole || court_.is_hurt(read.queue) || court_.broker(read.queue.broker)->is_damaged) return;
  KeyedStream draws(scenario_.seed, load_domain(12), mix64(sequence_total_, hash_text(read.queue.text())));
  const int64_t stamp = read.items[draws.below(read.items.size())].stored_ms;
  // Offset and place of everything that may be the answer: retention may take the first ones before it is given.
  std::vector<std::pair<int64_t, uint64_t>> places;
  for (const Court::Item& item : read.items)
    if (item.stored_ms >= stamp) places.emplace_back(item.queue_offset, item.physical);
  ++reading_.open;
  ask_until(
      reader_client(),
      [queue = read.queue, stamp] { return Command(command::SearchOffset{.topic = queue.topic, .queue_id = queue.queue_id, .stamp = {stamp}, .broker = queue.broker}); },
      [this, queue = read.queue, stamp, places = std::move(places), max = read.max](const Reply& reply) {
        const auto* found = std::get_if<reply::Offset>(&reply);
        if (found == nullptr) return false;
        const int64_t offset = found->offset.value();
        const uint64_t log_begin = court_.broker(queue.broker)->log_begin;
        const bool is_skipping = std::any_of(places.begin(), places.end(), [&](const auto& place) { return place.first < offset && place.second >= log_begin; });
        if (offset < places.front().first || offset > max || is_skipping)
          court_.fail("O11", fmt::format("the first message of {} stored at {} ms or later is said to be {}, and is {}", queue.text(), stamp, offset, places.front().first));
        question_done();
        return true;
      });
}

void Workload::read_keys() {
  const std::vector<KeyIndex::Query> all = court_.index().queries();
  const size_t step = 1 + all.size() / kQueriesMax;
  const size_t first = all.empty() ? 0 : draw(scenario_.seed, Domain::Scenario, 77, sequence_total_) % step;
  for (size_t i = first; i < all.size(); i += step) {
    read_key(all[i], {});
    const std::vector<int64_t> stamps = court_.index().stamps(all[i]);
    if (stamps.empty()) continue;   // gone meanwhile
    KeyedStream draws(scenario_.seed, load_domain(7), mix64(sequence_total_, i));
    const int64_t one = stamps[draws.below(stamps.size())], other = stamps[draws.below(stamps.size())];
    read_key(all[i], {std::min(one, other), std::max(one, other)});
  }
}

void Workload::read_key(const KeyIndex::Query& query, KeyIndex::Window window) {
  ++reading_.open;
  ask_until(
      reader_client(),
      [query, window] {
        return Command(command::QueryMessages{.topic = query.topic, .key = query.key, .count_max = kQueryCountMax, .begin = {window.begin_ms},
                                              .end = {window.end_ms}, .broker = query.broker});
      },
      [this, query, window](const Reply& reply) {
        const auto* refusal = std::get_if<Refusal>(&reply);
        const auto* messages = std::get_if<reply::Messages>(&reply);
        if (messages == nullptr && (refusal == nullptr || refusal->code != Code::QueryNotFound)) return false;
        std::vector<std::pair<MessageId, std::vector<std::string>>> hits;
        if (messages != nullptr) {
          for (Court::Item& item : court_.read(reading_.reader, {query.broker, query.topic, 0}, messages->records, false)) {
            if (item.id) hits.emplace_back(*item.id, std::move(item.keys));
          }
        }
        court_.index().found(query, kQueryCountMax, hits, window);
        question_done();
        return true;
      });
}

void Workload::read_offsets() {
  for (const auto& broker : court_.brokers()) {
    for (const std::string& topic : topics_) {
      for (int32_t queue_id = 0; queue_id < plan_.queues; ++queue_id) {
        std::vector<std::string> groups;
        for (const Committer& c : committers_) groups.push_back(c.group);
        const QueueKey queue{broker.geometry.name, topic, queue_id};
        for (const std::string& group : groups) {
          ++reading_.open;
          const CommittedOffsets::Floor floor = court_.offsets().begin_query(group, queue);
          ask_until(
              reader_client(),
              [group, queue] { return Command(command::QueryOffset{.group = group, .topic = queue.topic, .queue_id = queue.queue_id, .broker = queue.broker}); },
              [this, group, queue, floor](const Reply& reply) {
                const auto* refusal = std::get_if<Refusal>(&reply);
                const auto* offset = std::get_if<reply::Offset>(&reply);
                if (offset == nullptr && (refusal == nullptr || refusal->code != Code::QueryNotFound)) return false;
                if (offset == nullptr) court_.offsets().answered(group, queue, floor, std::nullopt);
                else court_.offsets().answered(group, queue, floor, offset->offset.value());
                if (offset != nullptr) court_.metrics().committed(group, queue, offset->offset.value());
                if (offset != nullptr && !court_.is_hurt(queue)) court_.offsets().ended(group, queue, offset->offset.value(), court_.order().end_of(queue));
                question_done();
                return true;
              });
        }
      }
    }
  }
}

// As its host does, in small pages.
void Workload::read_metrics() {
  for (size_t i = 0; i < court_.brokers().size(); ++i) {
    ++reading_.open;
    read_metrics_of(i, {}, std::make_shared<std::vector<reply::Metrics>>());
  }
}

void Workload::read_metrics_of(size_t broker, MetricCursor at, std::shared_ptr<std::vector<reply::Metrics>> pages) {
  constexpr int32_t kSamplesOfPage = 3;
  ask_until(
      court_.brokers()[broker].node, [at] { return Command(command::GetMetrics{at.family, at.group, at.topic, kSamplesOfPage}); },
      [this, broker, pages](const Reply& reply) {
        const auto* page = std::get_if<reply::Metrics>(&reply);
        if (page == nullptr) return false;
        pages->push_back(*page);
        if (page->next) {
          read_metrics_of(broker, *page->next, pages);
          return true;
        }
        std::vector<std::string> groups;
        for (const Committer& c : committers_) groups.push_back(c.group);
        court_.judge_metrics(court_.brokers()[broker], *pages, groups);
        question_done();
        return true;
      });
}

}  // namespace fulmar::sim
