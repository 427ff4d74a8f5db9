#pragma once
// Producers, consumers, committers and readers with a memory of what they were promised. They live outside the world's hosts and speak to
// client nodes as an application does: by Told commands.

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/court.h"

namespace fulmar::sim {

class Workload final : public WorldObserver {
 public:
  Workload(World& world, Court& court, const Scenario& scenario);

  // Creates the topics, then producers and committers work and groups subscribe.
  void begin();
  void end_sending() { is_sending_ = false; }
  // Nobody waits for an answer, subscriptions aside.
  bool is_quiet() const;
  // A send to every topic through every client, until each of them succeeded.
  void begin_probe();
  bool is_probed() const { return probes_open_ == 0; }
  bool has_topics() const { return topics_open_ == 0 && churns_open_ == 0; }
  // Asks the name servers over and over until end_watching(): who was known stays known.
  void begin_watching() { is_watching_routes_ = true, watch_routes(false); }
  void end_watching() { is_watching_routes_ = false; }
  // Every queue of every broker from its minimum to its maximum, every key, every committed offset; asks again until all is answered.
  void begin_reading(std::string reader);
  bool is_reading() const { return reading_.is_running; }
  void unsubscribe_all();
  // workload_groups.cc: what groups of several members promise when nothing disturbs them.
  bool has_members() const { return plan_.members > 1; }
  void end_leaving() { is_leaving_ = false; }
  // Empty when every queue of every group has one owner.
  std::string sharing_complaint() const;
  void demand_sharing(std::string_view when);
  // A client whose members own something; its members are gone in the eyes of the oracle until they say something again.
  std::optional<NodeId> lose_a_client();
  void begin_reset();                      // a group begins anew, while it consumes
  bool is_reset_seen() const { return resets_open_ == 0; }
  void begin_wipe();                       // a broker takes no messages for a while
  bool is_wiped() const { return wipes_open_ == 0; }
  std::string state() const;

  uint64_t sent() const { return sequence_total_; }

  // --- WorldObserver ------------------------------------------------------------------------------------------------------------------
  void on_reply(World& world, Life who, CallId call, const Reply& reply) override;
  void on_life(World& world, Life who, LifeChange change, const Error* why) override;

 private:
  using OnReply = std::function<void(const Reply&)>;
  struct Call { NodeId client; OnReply on_reply; bool has_many_answers = false; };
  struct Producer {
    uint32_t number = 0;
    NodeId client;
    KeyedStream draws, manners;   // manners: how a message is sent, apart from what it is
    uint64_t sequence = 0;
    uint32_t in_flight = 0;
  };
  struct Member { NodeId client; CallId call; bool is_subscribed = false; KeyedStream draws, churn_draws; uint64_t turn = 0; };   // turn: of its subscriptions
  // One topic of a group, and who consumes it. `label` is its name for oracles: the members of one group may consume different topics.
  struct Group { std::string name, label, topic, expression; std::set<std::string> tags; bool is_pipelined = false; std::vector<Member> members; };
  struct Place { size_t group = 0, member = 0; };
  struct Committer { std::string group; NodeId client; KeyedStream draws; std::map<QueueKey, int64_t> last; size_t turn = 0; };
  struct Reading {
    bool is_running = false;
    std::string reader;
    size_t open = 0;      // questions without an answer
  };
  struct QueueRead { QueueKey queue; int64_t min = 0, max = 0, at = 0, known_end = 0; std::vector<Court::Item> items; };

  void after(Duration delay, std::function<void()> what);
  // Asks; the answer comes later, as a Refusal with an unknown outcome when the client dies. False: the client is not up.
  bool ask(NodeId client, const Command& command, Duration limit, OnReply on_reply, bool has_many_answers = false, CallId* call = nullptr);
  // Asks until `is_done` accepts the answer.
  void ask_until(NodeId client, std::function<Command()> make, std::function<bool(const Reply&)> is_done, Duration limit = Duration::seconds(12));
  void settle_inbox();

  void create_topic(const std::string& topic);
  void start_producing();
  void produce(size_t producer);
  void send_one(Producer& producer, bool is_probe, const std::string& topic);
  // New messages, packed as one batch and entered into the ledger.
  std::vector<MessageId> pack_batch(Producer& producer, const std::string& topic, uint64_t count, int64_t born_ms, std::vector<uint8_t>& packed);
  void send_batch(Producer& producer);
  SentMessage new_message(Producer& producer, const std::string& topic);
  void choose_manner(Producer& producer, SentMessage& message, const command::SendMessage& send);
  void on_sent(const std::vector<MessageId>& ids, const std::string& topic, const Reply& reply);
  void probe_topics();
  Group new_group(uint32_t number, const std::string& topic);
  void add_members(Group& group, uint32_t from, uint32_t count);
  Member& member(Place place) { return groups_[place.group].members[place.member]; }
  void subscribe(Place place);
  void let_go(Place place);                // it is subscribed no more
  void on_delivered(Place place, const reply::Delivered& delivered);
  void commit(size_t committer);
  bool is_ours(NodeId node) const;
  // workload_churn.cc
  void delete_later();
  void make_groups();
  void group_goes();
  void delete_topic();
  void make_again(const std::string& topic);
  bool leave(Place place);                 // a member goes away with the batch it was just given, and comes back
  void send_one_way(size_t peer);
  void probe_flood();
  void watch_routes(bool was_complete);
  void wipe(const std::string& broker);
  void expect_perm(const std::string& broker, bool is_writable, std::function<void()> then);
  void search_in(const QueueRead& read);   // an offset by time, of a queue that was read
  std::vector<Ownership::Queue> all_queues() const;
  void read_queue_of(const QueueKey& queue);
  void read_page(std::shared_ptr<QueueRead> read);
  void read_keys();
  void read_key(const KeyIndex::Query& query, KeyIndex::Window window);
  void read_offsets();
  void read_metrics();
  void read_metrics_of(size_t broker, MetricCursor at, std::shared_ptr<std::vector<reply::Metrics>> pages);
  void question_done();
  std::string topic_name(size_t index) const;
  NodeId reader_client() const { return clients_.front(); }

  World& world_;
  Court& court_;
  const Scenario& scenario_;
  const WorkloadPlan& plan_;
  std::vector<NodeId> clients_;
  std::vector<std::string> topics_;
  std::vector<Producer> producers_, peers_;   // peers speak to brokers without a client node
  std::vector<Group> groups_;
  std::vector<Committer> committers_;
  std::map<CallId, Call> calls_;
  std::deque<std::pair<CallId, Reply>> inbox_;
  uint64_t next_call_ = 1, sequence_total_ = 0;
  std::map<std::pair<std::string, QueueKey>, int64_t> reset_to_;   // by label: where a batch must begin now
  // A batch may come before the answer that says where it must begin.
  std::map<std::pair<std::string, QueueKey>, std::set<int64_t>> began_since_reset_;
  bool is_resetting_ = false;
  size_t resets_open_ = 0, wipes_open_ = 0;
  size_t topics_open_ = 0, churns_open_ = 0, probes_open_ = 0, quiet_calls_ = 0;
  KeyedStream churn_draws_, made_draws_;
  uint32_t deletions_left_ = 0;
  bool is_watching_routes_ = false;
  bool is_sending_ = true, is_leaving_ = true, is_settling_ = false, is_subscribing_ = true;
  Reading reading_;
  int phase_ = 0;       // of a reading: queues, keys, offsets, metrics
  std::vector<uint8_t> body_;
};

}  // namespace fulmar::sim
