// parse(serialise(c)) == c for every configuration that the bounds allow.

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "core/model/config.h"

namespace fulmar {
namespace {

std::string a_name() {
  return *rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::elementOf(std::string("abcXYZ019=#!;-_%|/."))));
}
template <class T>
T in(T least, T most, T multiple = 1) {
  const T steps = (most - least) / multiple;
  const T step = *rc::gen::oneOf(rc::gen::just(T{0}), rc::gen::just(steps), rc::gen::inRange<T>(0, steps));
  return least + step * multiple;
}
std::vector<std::string> servers() {
  return *rc::gen::container<std::vector<std::string>>(rc::gen::map(rc::gen::inRange(1, 65536), [](int port) { return fmt::format("ns-{}:{}", port % 7, port); }));
}

RC_GTEST_PROP(Config, BrokersComeBack, ()) {
  BrokerConfig c;
  c.cluster = a_name();
  c.broker_name = a_name();
  c.broker_id = in<int64_t>(0, INT32_MAX);
  c.broker_ip = *rc::gen::element<std::string>("", "10.0.0.1", "::1");
  c.listen_host = a_name();
  c.listen_port = in<uint16_t>(0, 65534);
  c.name_servers = servers();
  RC_PRE(c.name_servers.size() <= 64u && c.cluster.size() <= 127u && c.broker_name.size() <= 127u && c.listen_host.size() <= 255u);
  c.store_path = a_name();
  c.flush_disk_type = *rc::gen::element(FlushDiskType::Sync, FlushDiskType::Async);
  c.commit_log_file_bytes = in<uint64_t>(65536, 2147479552, 4096);
  c.consume_queue_file_bytes = in<uint64_t>(160, 1'073'741'820, 20);
  c.index_slot_count = in<uint64_t>(8, 30'000'000);
  c.index_entry_count = in<uint64_t>(8, 100'000'000);
  c.is_index_enabled = *rc::gen::arbitrary<bool>();
  c.async_unflushed_bytes_max = in<uint64_t>(65536, 64ull << 30);
  c.flush_interval_ms = in<int64_t>(1, 86'400'000);
  c.sync_flush_timeout_ms = in<int64_t>(1, 86'400'000);
  c.body_bytes_max = in<uint32_t>(1, 128u << 20);
  c.is_topic_auto_created = *rc::gen::arbitrary<bool>();
  c.default_topic_queues = in<int32_t>(1, 1024);
  c.is_crc_property_on = *rc::gen::arbitrary<bool>();
  c.disk_refuse_percent = in<uint32_t>(1, 99);
  c.disk_free_bytes_min = in<uint64_t>(0, INT64_MAX - 1);
  c.register_interval_ms = in<int64_t>(10, 86'400'000);
  c.prepare_ahead_bytes_max = in<uint64_t>(65536, 2ull << 30);
  c.metrics_exporter = *rc::gen::element(MetricsExporter::Disabled, MetricsExporter::Prometheus);
  c.metrics_host = *rc::gen::element<std::string>("", "10.0.0.1", "::1");
  c.metrics_port = in<uint16_t>(0, 65534);
  const auto back = parse_broker_config(serialise(c), nullptr);
  RC_LOG() << serialise(c) << (back ? "" : back.error().text());
  RC_ASSERT(back.has_value());
  RC_ASSERT(*back == c);
}
RC_GTEST_PROP(Config, NameServersAndClientsComeBack, ()) {
  const NameServerConfig n{a_name(), in<uint16_t>(0, 65534), in<int64_t>(10, 86'400'000), *rc::gen::element(MetricsExporter::Disabled, MetricsExporter::Prometheus),
                           *rc::gen::element<std::string>("", "10.0.0.1", "::1"), in<uint16_t>(0, 65534)};
  const ClientConfig c{servers(), a_name(), in<int64_t>(1, 86'400'000), in<int32_t>(0, 1000), in<int64_t>(10, 86'400'000), in<uint32_t>(1, 128u << 20),
                       in<int64_t>(0, 86'400'000), *rc::gen::arbitrary<bool>(), in<uint32_t>(0, 1u << 30), in<int32_t>(1, 9),
                       *rc::gen::element(CompressionType::Zlib, CompressionType::Lz4, CompressionType::Zstd)};
  RC_PRE(c.name_servers.size() <= 64u && n.listen_host.size() <= 255u && c.client_id.size() <= 255u);
  RC_ASSERT(parse_name_server_config(serialise(n), nullptr).value() == n);
  RC_ASSERT(parse_client_config(serialise(c), nullptr).value() == c);
}
RC_GTEST_PROP(Config, NoTextBreaksTheReader, (const std::string& text)) {
  std::vector<ConfigNote> notes;
  (void)parse_broker_config(text, &notes);
  (void)parse_broker_config("brokerName=" + text, &notes);
}

}  // namespace
}  // namespace fulmar
