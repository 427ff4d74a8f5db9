#pragma once
// The broker node: routes inputs to its machines, fires their timers, runs their pumps, and nothing else. What clients may ask is
// answered in broker_send.cc, broker_pull.cc, broker_groups.cc, broker_admin.cc, and what its host asks in broker_metrics.cc.
//
//   Created --first step--> Running --Stop--> Stopping --all persisted, all replies out--> stopped
//                              '--address not free, store not usable--> halt     '--its deadline--> halt (TimedOut)
//
// It listens at once; until the store can read, every request but the status is refused with how far recovery is.

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/consume/groups.h"
#include "core/consume/long_poll.h"
#include "core/consume/offsets.h"
#include "core/consume/pull.h"
#include "core/consume/query.h"
#include "core/consume/search.h"
#include "core/io/node.h"
#include "core/model/config.h"
#include "core/node/broker_limits.h"
#include "core/node/endpoint.h"
#include "core/node/link.h"
#include "core/node/metric_page.h"
#include "core/node/traffic.h"
#include "core/store/store.h"

namespace fulmar {

class Broker final : public Node, private RequestHandler, private ReplyHandler {
 public:
  Broker(BrokerConfig config, Seed seed, Files& files, Trace& trace);

  void step(const Moment& now, std::span<const Input> inputs, Outbox& out) override;
  Monotonic next_deadline() const override { return timers_.next(); }

 private:
  enum class State : uint8_t { Created, Running, Stopping, Stopped };
  // A send that is stored and waits until it may be acknowledged.
  struct HeldSend {
    Asker asker;
    int32_t queue_id = 0, count = 1;
    QueueOffset queue_offset;
    PhysicalOffset begin, end;
    HostAddress store_host;
    Monotonic asked;
  };
  // From a send to its answer.
  static constexpr int64_t kSendTimeBounds[] = {1'000, 3'000, 5'000, 7'000, 10'000, 100'000, 1'000'000, 2'000'000, 3'000'000};   // us; RocketMQ's
  struct SendTimes { std::array<uint64_t, std::size(kSendTimeBounds) + 1> counts{}; uint64_t microseconds = 0; };
  // Topics that a group subscribes to, kept while the pairs of a page are walked.
  struct Subscribed { std::string group; std::vector<std::string> topics; bool is_known = false; };
  struct Backlog { int64_t lag = 0, ready = 0; int32_t queues = 0; };
  struct Hosts { HostAddress born, store; };
  // What the properties of a message ask of the broker, or say about it.
  struct Wishes {
    bool waits = true;                            // WAIT is not "false"; of equal names the last counts
    bool is_fifo = false;                         // it has a sharding key
    std::optional<std::string_view> delay;        // a later delivery that nobody here would keep; stored as an ordinary message it would come at once
  };
  static Wishes wishes_of(Bytes properties);
  struct Target { const TopicConfig* topic = nullptr; int32_t queue_id = 0; Traffic::Topic* traffic = nullptr; };
  struct NameServer {
    Address address;
    uint64_t version_known = 0, version_sent = 0;   // of the table it has from us, and of the registration in flight
    bool needs_topics = true, is_asked = false, is_failing = false;
    std::string failure;                            // while is_failing, for people
    Monotonic next;
  };

  // --- broker.cc: composition
  void start(Ctx& ctx);
  void route(Ctx& ctx, const Input& input);
  void route_done(Ctx& ctx, Ticket ticket, const Input& input);
  void on_listening(Ctx& ctx, const Listening& listening);
  void fire(Ctx& ctx, TimerId timer);
  void pump(Ctx& ctx);
  void on_request(Ctx& ctx, const RequestRef& from, const Command& command) override;
  void on_connection_closed(Ctx& ctx, ConnId conn) override;
  void on_command(Ctx& ctx, const Asker& asker, const Command& command);
  void on_stop(Ctx& ctx, const Asker& asker, const command::Stop& c);
  void pump_stop(Ctx& ctx);
  bool is_answered() const;            // nobody waits for anything but the end
  void answer(Ctx& ctx, const Asker& asker, const Reply& reply);
  template <class R> void answer_with_records(Ctx& ctx, const Asker& asker, R reply, std::span<const FileSlice> slices);
  void refuse(Ctx& ctx, const Asker& asker, Refusal refusal);

  // --- broker_send.cc
  void on_send(Ctx& ctx, const Asker& asker, const command::SendMessage& c);
  void on_send_batch(Ctx& ctx, const Asker& asker, const command::SendBatch& c);
  std::optional<Refusal> find_target(Ctx& ctx, std::string_view topic, int32_t queue_id, uint32_t sys_flag, Target& target);
  std::optional<Refusal> check_message(Bytes body, Bytes properties, Wishes& wishes) const;
  std::optional<Refusal> check_gate(const AckGate& gate) const;
  Message message_for(const Asker& asker, const Target& target, uint32_t sys_flag, Wall born);
  const Hosts& hosts_of(const Asker& asker);
  void on_stored(Ctx& ctx, const Asker& asker, const Appended& appended, const Message& message, int32_t count, const Target& target, const Wishes& wishes);
  void acknowledge(Ctx& ctx, const HeldSend& held, bool is_late, bool needs_flush);
  void answer_when_flushed(Ctx& ctx, const Asker& asker, PhysicalOffset end);   // Ok, once everything below `end` is durable
  void pump_gates(Ctx& ctx);

  // --- broker_pull.cc
  void on_pull(Ctx& ctx, const Asker& asker, const command::PullMessages& c);
  void run_pull(Ctx& ctx, PullRequest request, bool is_again);
  void answer_pull(Ctx& ctx, const PullRequest& request, const PullAnswer& answer);
  void answer_held(Ctx& ctx, const PullRequest& request);                       // nothing came in time
  void wait_for_room(Ctx& ctx, PullRequest request);
  void on_query(Ctx& ctx, const Asker& asker, MessageQuery query);
  void run_query(Ctx& ctx, MessageQuery query);
  void pump_pulls(Ctx& ctx);
  void pump_room(Ctx& ctx);
  std::optional<Refusal> find_queue(std::string_view topic, int32_t queue_id);
  void on_commit(Ctx& ctx, const Asker& asker, const command::CommitOffset& c);
  void pump_commits(Ctx& ctx);
  void refuse_waiting(Ctx& ctx);                                                // at stop

  // --- broker_groups.cc
  void on_heartbeat(Ctx& ctx, const Asker& asker, const command::Heartbeat& c);
  void on_list_groups(Ctx& ctx, const Asker& asker, const command::ListGroups& c);
  void on_describe_group(Ctx& ctx, const Asker& asker, const command::DescribeGroup& c);
  void on_create_group(Ctx& ctx, const Asker& asker, const command::CreateGroup& c);
  void on_delete_group(Ctx& ctx, const Asker& asker, const command::DeleteGroup& c);
  void on_search_offset(Ctx& ctx, const Asker& asker, const command::SearchOffset& c);
  void on_reset_offset(Ctx& ctx, const Asker& asker, const command::ResetOffset& c);
  void run_search(Ctx& ctx, OffsetSearch search);
  void reset_offsets(Ctx& ctx, const OffsetSearch& search);                     // to what the search has found
  bool answer_moved(Ctx& ctx, const Asker& asker, const command::PullMessages& c);   // the first pull after a reset
  void pump_groups(Ctx& ctx);

  // --- broker_admin.cc
  void on_query_route(Ctx& ctx, const Asker& asker, const command::QueryRoute& c);
  std::optional<Refusal> check_no_queue_is_hidden(const command::CreateTopic& c);
  void on_create_topic(Ctx& ctx, const Asker& asker, const command::CreateTopic& c);
  void on_delete_topic(Ctx& ctx, const Asker& asker, const command::DeleteTopic& c);
  void on_list_topics(Ctx& ctx, const Asker& asker, const command::ListTopics& c);
  void on_describe_topic(Ctx& ctx, const Asker& asker, const command::DescribeTopic& c);
  void on_get_status(Ctx& ctx, const Asker& asker);
  void on_get_config(Ctx& ctx, const Asker& asker);
  void on_update_config(Ctx& ctx, const Asker& asker, const command::UpdateConfig& c);
  void pump_registration(Ctx& ctx);
  void register_with(Ctx& ctx, size_t index);
  void unregister(Ctx& ctx);
  void on_reply(Ctx& ctx, uint64_t token, Result<Reply> reply) override;

  // --- broker_metrics.cc. Each adds a part of a family behind the page's cursor; false: the page is full and there is more.
  void on_get_metrics(Ctx& ctx, const Asker& asker, const command::GetMetrics& c);
  bool add_node_metrics(Ctx& ctx, MetricPage& page);
  bool add_topic_metrics(MetricPage& page);
  bool add_given_metrics(MetricPage& page);
  bool add_backlog_metrics(MetricPage& page);
  bool add_member_metrics(MetricPage& page);
  bool next_consumed(std::string& group, std::string& topic, Subscribed& known);
  Backlog backlog(const std::string& group, const TopicConfig& topic);
  reply::Health health(Ctx& ctx) const;
  size_t registered_count() const;             // name servers that know us

  BrokerConfig config_;
  Files& files_;
  Trace& trace_;
  Prng prng_;
  Timers timers_;
  State state_ = State::Created;
  TicketBook<int> tickets_;                       // of listen
  Endpoint endpoint_;
  Links links_;
  Store store_;
  Pulls pulls_;
  Queries queries_;
  LongPoll long_poll_;
  Searches searches_;
  Commits commits_;
  Groups groups_;
  std::map<OffsetKey, QueueOffset> resets_;       // groups that were moved and have not pulled since: their commits are ignored
  AckGate gate_{limits::kSendsHeldMax}, flush_gate_{limits::kFlushWaitersMax};
  SlotBook<HeldSend> sends_{limits::kSendsHeldMax};
  SlotBook<Asker> flush_waiters_{limits::kFlushWaitersMax};
  std::map<ConnId, Hosts> hosts_;                 // of connections that send
  std::map<ConnId, std::deque<PullRequest>> room_;  // pulls whose connection has enough to write
  uint32_t room_count_ = 0;
  Traffic traffic_;
  std::vector<NameServer> name_servers_;
  std::vector<BatchItem> batch_;                  // scratch
  std::vector<AckGate::Released> released_;       // scratch
  Reply sent_reply_ = reply::Sent{};              // scratch: a warm send allocates nothing
  Address listening_;                             // port 0: not yet
  bool is_serving_ = false, is_room_made_ = false, is_store_stopping_ = false;
  CallId stop_call_;
  Monotonic stop_deadline_ = Monotonic::never(), gate_armed_ = Monotonic::never();
  uint32_t unregistering_ = 0;
  Wall booted_;
  struct Totals { uint64_t put_messages = 0, put_bytes = 0, got_messages = 0, got_bytes = 0, acked = 0, late = 0, requests = 0, refused = 0; } totals_;
  SendTimes send_times_[2];                       // answered SEND_OK, and FLUSH_DISK_TIMEOUT
  std::map<Code, uint64_t> refused_;
};

}  // namespace fulmar
