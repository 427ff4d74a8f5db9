#include "sim/scenario.h"

#include <fmt/format.h>

#include "core/model/config.h"

namespace fulmar::sim {

std::string broker_properties(const BrokerGeometry& g) {
  BrokerConfig config;
  config.broker_name = g.name;
  config.listen_host = "0.0.0.0";
  config.is_vip_enabled = false;   // nobody here dials it, and what a run draws stays what it was
  config.name_servers = g.name_servers;
  config.flush_disk_type = g.is_sync ? FlushDiskType::Sync : FlushDiskType::Async;
  config.commit_log_file_bytes = g.log_file_bytes;
  config.consume_queue_file_bytes = g.queue_file_entries * 20;
  config.index_slot_count = g.index_slots;
  config.index_entry_count = g.index_entries;
  config.async_unflushed_bytes_max = g.unflushed_bytes_max;
  config.flush_interval_ms = g.flush_interval_ms;
  config.consume_queue_flush_interval_ms = g.queue_flush_interval_ms;
  config.consume_queue_flush_interval_max_ms = g.queue_flush_interval_max_ms;
  config.queue_round_cost_us = g.queue_round_cost_us;
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
  g.name_servers = config->name_servers;
  g.is_sync = config->flush_disk_type == FlushDiskType::Sync;
  g.log_file_bytes = config->commit_log_file_bytes;
  g.queue_file_entries = config->consume_queue_file_bytes / 20;
  g.index_slots = config->is_index_enabled ? config->index_slot_count : 0;
  g.index_entries = config->index_entry_count;
  g.unflushed_bytes_max = config->async_unflushed_bytes_max;
  g.flush_interval_ms = config->flush_interval_ms;
  g.queue_flush_interval_ms = config->consume_queue_flush_interval_ms;
  g.queue_flush_interval_max_ms = config->consume_queue_flush_interval_max_ms;
  g.queue_round_cost_us = config->queue_round_cost_us;
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

namespace {
uint32_t add_host(Scenario& s, const std::string& name) {
  DiskProfile disk;
  disk.capacity_bytes = 64u << 20;
  s.hosts.push_back({name, {}, disk});
  return static_cast<uint32_t>(s.hosts.size() - 1);
}
}  // namespace

void add_broker(Scenario& s, const BrokerGeometry& geometry) {
  s.nodes.push_back({geometry.name, NodeKind::Broker, add_host(s, geometry.name), broker_properties(geometry)});
}

void add_client(Scenario& s, const std::string& name, const std::vector<std::string>& name_servers) {
  ClientConfig client;
  client.name_servers = name_servers;
  client.client_id = name;
  client.route_refresh_ms = 5'000;
  uint64_t draw = s.seed.value;
  for (const NodePlan& node : s.nodes) {
    if (node.kind == NodeKind::Client) draw /= 3;
  }
  client.compress_over_bytes = draw == s.seed.value ? 64 : 200;
  client.compress_type = static_cast<CompressionType>(draw % 3);
  s.nodes.push_back({name, NodeKind::Client, add_host(s, name), serialise(client)});
}

void add_name_server(Scenario& s, const std::string& name) {
  s.nodes.push_back({name, NodeKind::NameServer, add_host(s, name), serialise(NameServerConfig{})});
}

Scenario plain_scenario(Seed seed, const BrokerGeometry& geometry) {
  Scenario s;
  s.seed = seed;
  add_name_server(s, "namesrv");
  add_broker(s, geometry);
  add_client(s, "client-1", geometry.name_servers);
  return s;
}

}  // namespace fulmar::sim
