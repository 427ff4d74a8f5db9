#include "sim/scenario.h"

#include <fmt/format.h>

#include "core/model/config.h"

namespace fulmar::sim {

std::string broker_properties(const BrokerGeometry& g) {
  BrokerConfig config;
  config.broker_name = g.name;
  config.listen_host = "0.0.0.0";
  config.name_servers = {"namesrv:9876"};
  config.flush_disk_type = g.is_sync ? FlushDiskType::Sync : FlushDiskType::Async;
  config.commit_log_file_bytes = g.log_file_bytes;
  config.consume_queue_file_bytes = g.queue_file_entries * 20;
  config.index_slot_count = g.index_slots;
  config.index_entry_count = g.index_entries;
  config.async_unflushed_bytes_max = g.unflushed_bytes_max;
  config.flush_interval_ms = g.flush_interval_ms;
  config.consume_queue_flush_interval_ms = g.queue_flush_interval_ms;
  config.sync_flush_timeout_ms = g.sync_flush_timeout_ms;
  config.is_crc_property_on = g.has_crc;
  config.is_topic_auto_created = g.creates_topics;
  config.default_topic_queues = 3;
  config.disk_free_bytes_min = 0;
  config.file_reserved_ms = g.reserved_ms;
  config.file_reserved_hours = 100'000;
  config.retain_bytes_max = g.retain_bytes_max;
  config.is_deleting_forcibly = g.deletes_forcibly;
  config.is_unread_kept = g.keeps_unread;
  config.delete_hours.mask = g.delete_hours;
  return serialise(config);
}

BrokerGeometry geometry_of(const NodePlan& plan) {
  const Result<BrokerConfig> config = parse_broker_config(plan.config, nullptr);
  CHECK(config.has_value(), "{}", plan.config);
  BrokerGeometry g;
  g.name = config->broker_name;
  g.is_sync = config->flush_disk_type == FlushDiskType::Sync;
  g.log_file_bytes = config->commit_log_file_bytes;
  g.queue_file_entries = config->consume_queue_file_bytes / 20;
  g.index_slots = config->is_index_enabled ? config->index_slot_count : 0;
  g.index_entries = config->index_entry_count;
  g.unflushed_bytes_max = config->async_unflushed_bytes_max;
  g.flush_interval_ms = config->flush_interval_ms;
  g.queue_flush_interval_ms = config->consume_queue_flush_interval_ms;
  g.sync_flush_timeout_ms = config->sync_flush_timeout_ms;
  g.has_crc = config->is_crc_property_on;
  g.creates_topics = config->is_topic_auto_created;
  g.reserved_ms = config->file_reserved_ms;
  g.retain_bytes_max = config->retain_bytes_max;
  g.deletes_forcibly = config->is_deleting_forcibly;
  g.keeps_unread = config->is_unread_kept;
  g.delete_hours = config->delete_hours.mask;
  return g;
}

Scenario plain_scenario(Seed seed, const BrokerGeometry& geometry) {
  Scenario s;
  s.seed = seed;
  DiskProfile disk;
  disk.capacity_bytes = 64u << 20;
  s.hosts.push_back({"namesrv", {}, disk});
  s.hosts.push_back({geometry.name, {}, disk});
  s.hosts.push_back({"client-1", {}, disk});
  s.nodes.push_back({"namesrv", NodeKind::NameServer, 0, serialise(NameServerConfig{})});
  s.nodes.push_back({geometry.name, NodeKind::Broker, 1, broker_properties(geometry)});
  ClientConfig client;
  client.name_servers = {"namesrv:9876"};
  client.client_id = "client-1";
  client.route_refresh_ms = 5'000;
  client.compress_over_bytes = 64;
  client.compress_type = static_cast<CompressionType>(seed.value % 3);
  s.nodes.push_back({"client-1", NodeKind::Client, 2, serialise(client)});
  return s;
}

}  // namespace fulmar::sim
