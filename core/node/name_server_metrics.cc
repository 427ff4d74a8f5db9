// What a name server counts, all of it ours: RocketMQ's has no metrics. Names begin with fulmar_namesrv_, so that a process that serves a
// broker, too, has no name twice.

#include <charconv>

#include "core/model/version.h"
#include "core/node/metric_page.h"
#include "core/node/name_server.h"

namespace fulmar {

namespace {

enum Family : int32_t { kNode, kSilence, kTopicsOfBroker, kWritable, kFamilies };

using enum MetricKind;
constexpr MetricFamily kInfo{"fulmar_namesrv_info", "1; the labels say what runs"};
constexpr MetricFamily kIsReady{"fulmar_namesrv_ready", "1 when /readyz says so"};
constexpr MetricFamily kRuntime{"fulmar_namesrv_runtime_seconds", "Seconds since it began", Gauge, {}, 3};
constexpr MetricFamily kBrokers{"fulmar_namesrv_brokers", "Brokers that are registered"};
constexpr MetricFamily kTopics{"fulmar_namesrv_topics", "Topics that some broker has"};
constexpr MetricFamily kRegistrations{"fulmar_namesrv_registrations_total", "Registrations and heartbeats of brokers", Counter};
constexpr MetricFamily kExpired{"fulmar_namesrv_brokers_expired_total", "Brokers that were forgotten because they were silent", Counter};
constexpr MetricFamily kRequests{"fulmar_namesrv_requests_total", "Requests", Counter};
constexpr MetricFamily kConnections{"fulmar_namesrv_connections", "Open connections"};
constexpr MetricFamily kAccepted{"fulmar_namesrv_connections_accepted_total", "Connections that were accepted", Counter};
constexpr MetricFamily kConnectionsRefused{"fulmar_namesrv_connections_refused_total", "Connections that were closed for what their peer did", Counter};
constexpr MetricFamily kBrokerSilence{"fulmar_namesrv_broker_silence_seconds", "Seconds since a broker was last heard of", Gauge, {}, 3};
constexpr MetricFamily kBrokerTopics{"fulmar_namesrv_broker_topics", "Topics that a broker has registered"};
constexpr MetricFamily kBrokerWritable{"fulmar_namesrv_broker_writable", "0 while the write permission of a broker is wiped"};

}  // namespace

reply::Health NameServer::health() const {
  reply::Health out;
  if (state_ == State::Draining || state_ == State::Stopped) out.wants.emplace_back("the name server is stopping");
  else if (state_ != State::Serving) out.wants.emplace_back("the name server does not listen yet");
  return out;
}

reply::Metrics NameServer::metrics(const Moment& now, const command::GetMetrics& c) const {
  MetricPage page(c);
  page.label("node_type", "nameserver");
  page.label("node_id", address_);
  const reply::Cluster cluster = page.family() < kFamilies ? registry_.cluster(now.monotonic) : reply::Cluster{};   // a few hundred at most
  while (page.family() < kFamilies && !page.is_full()) {
    if (page.family() == kNode) add_node_metrics(now, page);
    else if (!add_broker_metrics(cluster, page)) break;
    page.end_family();
  }
  const bool has_more = page.family() < kFamilies;
  return page.take(has_more);
}

void NameServer::add_node_metrics(const Moment& now, MetricPage& page) const {
  const EndpointCounters& net = endpoint_.counters();
  page.add(kInfo, 1, {{"version", std::string(kProgramVersion)}});
  page.add(kIsReady, health().wants.empty());
  page.add(kRuntime, (now.monotonic - started_).ms());
  page.add(kBrokers, registry_.broker_count());
  page.add(kTopics, registry_.topic_count());
  page.add(kRegistrations, registrations_);
  page.add(kExpired, expired_);
  page.add(kRequests, net.requests);
  page.add(kConnections, endpoint_.connection_count());
  page.add(kAccepted, net.accepted);
  page.add(kConnectionsRefused, net.refused_protocol, {{"why", "protocol"}});
  page.add(kConnectionsRefused, net.refused_full, {{"why", "full"}});
  page.add(kConnectionsRefused, net.broken_frames, {{"why", "broken_frame"}});
  page.add(kConnectionsRefused, net.broken_headers, {{"why", "broken_header"}});
  page.add(kConnectionsRefused, net.too_slow, {{"why", "slow"}});
  page.add(kConnectionsRefused, net.deaf, {{"why", "deaf"}});
}

// The cursor is a broker's name, and its id as text.
bool NameServer::add_broker_metrics(const reply::Cluster& cluster, MetricPage& page) const {
  int64_t last_id = -1;
  std::from_chars(page.topic().data(), page.topic().data() + page.topic().size(), last_id);
  const std::pair<std::string, int64_t> last{page.group(), last_id};
  for (const reply::ClusterBroker& broker : cluster.brokers) {
    if (std::pair(broker.name, static_cast<int64_t>(broker.broker_id.value())) <= last) continue;
    if (page.is_full()) return false;
    const std::string id = fmt::format("{}", broker.broker_id);
    std::vector<MetricLabel> labels{{"cluster", broker.cluster}, {"broker", broker.name}, {"broker_id", id}, {"address", broker.address}};
    if (page.family() == kSilence) page.add(kBrokerSilence, broker.silent_ms, std::move(labels));
    else if (page.family() == kTopicsOfBroker) page.add(kBrokerTopics, broker.topics, std::move(labels));
    else page.add(kBrokerWritable, broker.is_writable, std::move(labels));
    page.passed(broker.name, id, 0);
  }
  return true;
}

}  // namespace fulmar
