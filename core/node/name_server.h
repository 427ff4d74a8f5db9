#pragma once
// The name server node: brokers register, clients ask where a topic lives. It keeps nothing on disk; after a restart it knows what the
// brokers tell it within their next heartbeats.
//
//   Starting --Listening--> Serving --Stop--> Draining --all replies out, or its deadline--> stopped
//      '--address not free--> halt

#include <memory>
#include <string>

#include "core/io/node.h"
#include "core/model/config.h"
#include "core/node/endpoint.h"
#include "core/node/metric_page.h"
#include "core/route/registry.h"

namespace fulmar {

class NameServer final : public Node, private RequestHandler {
 public:
  NameServer(NameServerConfig config, Seed seed, Files& files, Trace& trace);

  void step(const Moment& now, std::span<const Input> inputs, Outbox& out) override;
  Monotonic next_deadline() const override;

 private:
  enum class State : uint8_t { Created, Starting, Serving, Draining, Stopped };

  void on_input(Ctx& ctx, const Input& input);
  void on_listening(Ctx& ctx, const Listening& listening);
  void on_told(Ctx& ctx, const Told& told);
  void on_request(Ctx& ctx, const RequestRef& from, const Command& command) override;
  void on_connection_closed(Ctx&, ConnId conn) override { registry_.on_connection_closed(conn); }  // a broker lives until it expires

  // `peer_host` is empty when the host asks.
  Reply answer(Ctx& ctx, const Command& command, std::string_view peer_host, ConnId from);
  Reply register_broker(Ctx& ctx, const command::RegisterBroker& c, std::string_view peer_host, ConnId from);
  Reply set_writable(Ctx& ctx, std::string_view broker_name, bool is_writable);
  reply::Status status(const Moment& now) const;
  // name_server_metrics.cc
  reply::Health health() const;
  reply::Metrics metrics(const Moment& now, const command::GetMetrics& c) const;
  void add_node_metrics(const Moment& now, MetricPage& page) const;
  bool add_broker_metrics(const reply::Cluster& cluster, MetricPage& page) const;   // false: the page is full and there is more
  void fire_timers(Ctx& ctx);
  void expire(Ctx& ctx);
  void drain(Ctx& ctx);

  NameServerConfig config_;
  Files& files_;
  Trace& trace_;
  Prng prng_;
  Timers timers_;
  Endpoint endpoint_;
  Registry registry_;
  State state_ = State::Created;
  Monotonic started_;
  uint64_t registrations_ = 0, expired_ = 0;
  std::string address_;                                   // where we really listen
  CallId stop_call_;
  bool is_past_deadline_ = false;
};

}  // namespace fulmar
