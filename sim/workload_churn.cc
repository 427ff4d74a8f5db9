// What an application does besides sending and consuming: topics go and come back, groups leave and come back, peers send without waiting
// for an answer or ask too much at once, and somebody keeps asking name servers who is there.

#include <fmt/format.h>

#include <algorithm>

#include "core/store/record.h"
#include "sim/workload.h"

namespace fulmar::sim {

// --- topics that go and come back -------------------------------------------------------------------------------------------------------

void Workload::delete_later() {
  if (deletions_left_ == 0) return;
  after(Duration{churn_draws_.between(plan_.deletion_gap_min.ns, plan_.deletion_gap_max.ns)}, [this] { delete_topic(); });
}

void Workload::delete_topic() {
  if (!is_sending_ || deletions_left_ == 0) return;
  --deletions_left_;
  ++churns_open_;
  const std::string topic = topics_.back();
  court_.topic_goes(topic);
  ask_until(
      reader_client(), [topic] { return Command(command::DeleteTopic{.topic = topic}); },
      [this, topic](const Reply& reply) {
        const auto* refusal = std::get_if<Refusal>(&reply);
        // Asked again after the answer was lost, the broker says that there is none.
        const bool is_gone = std::holds_alternative<reply::Ok>(reply) || (refusal != nullptr && refusal->code == Code::TopicNotExist);
        if (!is_gone) return false;
        court_.topic_is_gone(topic);
        after(Duration{churn_draws_.between(0, 1'500'000'000)}, [this, topic] { make_again(topic); });
        return true;
      });
}

void Workload::make_again(const std::string& topic) {
  ask_until(
      reader_client(), [this, topic] { return Command(command::CreateTopic{.topic = topic, .read_queues = plan_.queues, .write_queues = plan_.queues}); },
      [this](const Reply& reply) {
        if (!std::holds_alternative<reply::Ok>(reply)) return false;
        --churns_open_;
        delete_later();
        return true;
      });
}

// --- groups that are made ---------------------------------------------------------------------------------------------------------------

void Workload::make_groups() {
  for (const bool is_kept : {true, false}) {
    ++churns_open_;
    const GroupConfig config{.name = is_kept ? "made-to-stay" : "made-to-go", .retry_max = 3};
    ask_until(
        reader_client(), [config] { return Command(command::CreateGroup{.config = config}); },
        [this, is_kept](const Reply& reply) {
          if (!std::holds_alternative<reply::Ok>(reply)) return false;
          --churns_open_;
          if (is_kept) court_.group_is_made("made-to-stay");
          else after(Duration{made_draws_.between(100'000'000, 6'000'000'000)}, [this] { group_goes(); });
          return true;
        });
  }
}

// What becomes of it is nobody's to say: an answer that was lost is asked for again, and then there is none.
void Workload::group_goes() {
  if (!is_sending_) return;
  const auto then = [this](const Reply& reply) {
    const auto* refusal = std::get_if<Refusal>(&reply);
    const bool is_done = std::holds_alternative<reply::Ok>(reply) || (refusal != nullptr && refusal->code == Code::SubscriptionGroupNotExist);
    if (is_done) after(Duration{made_draws_.between(100'000'000, 6'000'000'000)}, [this] { group_goes(); });
    return is_done;
  };
  if (made_draws_.chance({1, 2})) ask_until(reader_client(), [] { return Command(command::DeleteGroup{.group = "made-to-go"}); }, then);
  else ask_until(reader_client(), [] { return Command(command::CreateGroup{.config = {.name = "made-to-go"}}); }, then);
}

// --- groups that leave and come back ----------------------------------------------------------------------------------------------------

bool Workload::leave(Place place) {
  Member& m = member(place);
  if (plan_.leaves.numerator == 0 || !is_sending_ || !is_leaving_ || !m.is_subscribed || !m.churn_draws.chance(plan_.leaves)) return false;
  const Life life = world_.life(m.client);
  const auto come_back = [this, place, life] {
    after(Duration{member(place).churn_draws.between(10'000'000, 4'000'000'000)}, [this, place, life] {
      // Who died meanwhile subscribes when it is back.
      if (world_.life(member(place).client) == life && is_subscribing_) subscribe(place);
    });
  };
  // What it was given and has not consumed comes again.
  const command::Unsubscribe goodbye{.subscription_call = m.call.value()};
  let_go(place);
  const bool is_asked = ask(m.client, goodbye, Duration::seconds(12), [come_back](const Reply&) { come_back(); });
  if (!is_asked) come_back();
  return true;
}

// --- peers without a client -------------------------------------------------------------------------------------------------------------

void Workload::send_one_way(size_t index) {
  if (!is_sending_ || sequence_total_ >= plan_.messages_max) return;
  Producer& p = peers_[index];
  const std::string topic = topics_[p.draws.below(topics_.size())];
  const std::string broker = court_.brokers()[p.draws.below(court_.brokers().size())].geometry.name;
  const uint64_t count = p.draws.chance(plan_.batched) ? p.draws.log_between(2, plan_.batch_max) : 1;
  const auto queue_id = static_cast<int32_t>(p.draws.below(static_cast<uint64_t>(plan_.queues)));
  std::vector<MessageId> ids;
  std::vector<uint8_t> packed;
  const int64_t born = world_.clock(world_.host_of(p.client)).wall(world_.now()).ms;
  // On its way is all that anybody ever hears of it.
  const auto settle = [this, &ids] {
    return [this, ids](const Reply& reply) { court_.settled(ids, std::holds_alternative<reply::Ok>(reply) ? Fate::Unknown : Fate::Refused); };
  };
  bool is_asked = false;
  if (count == 1) {
    const SentMessage& m = court_.ledger().add(new_message(p, topic));
    fill_body(m, body_);
    ids = {m.id};
    const command::SendMessage send{.topic = topic, .queue_id = queue_id, .flag = m.flag, .born = {m.born_ms}, .properties = as_bytes(m.properties), .body = body_, .broker = broker};
    is_asked = ask(p.client, send, Duration::seconds(6), settle());
  } else {
    ids = pack_batch(p, topic, count, born, packed);
    const command::SendBatch send{.topic = topic, .queue_id = queue_id, .born = {born}, .packed = packed, .broker = broker};
    is_asked = ask(p.client, send, Duration::seconds(6), settle());
  }
  if (!is_asked) court_.settled(ids, Fate::Refused);
  after(Duration{p.draws.between(plan_.gap_max.ns, plan_.gap_max.ns * 4)}, [this, index] { send_one_way(index); });
}

// Nobody may lose its turn for ever because it asked too much: the question behind the flood is answered, too.
void Workload::probe_flood() {
  for (const Producer& peer : peers_) {
    for (const auto& broker : court_.brokers()) {
      ++probes_open_;
      ask_until(
          peer.client,
          [this, name = broker.geometry.name] {
            return Command(command::PullMessages{.group = "flood", .topic = topics_.front(), .queue_id = 0, .offset = QueueOffset(0), .suspend_ms = 1500, .subscription = "*", .broker = name});
          },
          [this](const Reply& reply) {
            if (!std::holds_alternative<reply::Ok>(reply)) return false;
            --probes_open_;
            return true;
          },
          Duration::seconds(40));
    }
  }
}

// --- name servers -----------------------------------------------------------------------------------------------------------------------

// Once everything is healed and everybody is known, nobody is forgotten again.
void Workload::watch_routes(bool was_complete) {
  if (!is_watching_routes_) return;
  const bool is_asked = ask(reader_client(), command::QueryRoute{.topic = kMetaTopic}, Duration::seconds(12), [this, was_complete](const Reply& reply) {
    const auto* route = std::get_if<reply::Route>(&reply);
    const auto* refusal = std::get_if<Refusal>(&reply);
    const bool is_answer = route != nullptr || (refusal != nullptr && refusal->code == Code::TopicNotExist);
    const size_t known = route == nullptr ? 0 : route->brokers.size();
    if (is_answer && was_complete && is_watching_routes_ && known < court_.brokers().size()) {
      court_.fail("O17", fmt::format("the name server knew {} brokers and knows {} now, although they run and nothing disturbs them", court_.brokers().size(), known));
    }
    after(Duration::milliseconds(150), [this, is_complete = was_complete || known >= court_.brokers().size()] { watch_routes(is_complete); });
  });
  if (!is_asked) after(Duration::milliseconds(150), [this, was_complete] { watch_routes(was_complete); });
}

}  // namespace fulmar::sim
