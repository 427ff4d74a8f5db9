#include "core/client/broker_health.h"

#include <algorithm>
#include <array>

namespace fulmar {
namespace {

// RocketMQ's table: from so many ms of latency on, so many ms of rest.
struct Rest { int64_t from_ms, rest_ms; };
constexpr std::array<Rest, 5> kRests = {{{15'000, 30'000}, {5'000, 10'000}, {3'000, 6'000}, {1'800, 5'000}, {550, 2'000}}};

}  // namespace

BrokerHealth::Record* BrokerHealth::record_for(Monotonic now, std::string_view broker) {
  const auto found = brokers_.find(broker);
  if (found != brokers_.end()) return &found->second;
  if (brokers_.size() >= kBrokersMax) std::erase_if(brokers_, [now](const auto& entry) { return entry.second.avoided_until <= now; });
  if (brokers_.size() >= kBrokersMax) return nullptr;
  return &brokers_.emplace(broker, Record{now, 0}).first->second;
}

void BrokerHealth::failed(Monotonic now, std::string_view broker) {
  Record* record = record_for(now, broker);
  // A thousand sends that fail together are one failure.
  if (record == nullptr || (record->failures > 0 && now < record->avoided_until)) return;
  const Duration rest = std::min(kFailedMax, kFailedFirst * (int64_t{1} << std::min<uint32_t>(record->failures++, 10)));
  record->avoided_until = now + rest;
}

void BrokerHealth::answered(Monotonic now, std::string_view broker, Duration latency) {
  const auto found = brokers_.find(broker);
  if (found != brokers_.end() && found->second.failures > 0) found->second = {now, 0};
  if (!is_latency_judged_) return;
  const auto rest = std::find_if(kRests.begin(), kRests.end(), [&](const Rest& r) { return latency.ms() >= r.from_ms; });
  if (rest == kRests.end()) return;
  if (Record* record = record_for(now, broker)) record->avoided_until = std::max(record->avoided_until, now + Duration::milliseconds(rest->rest_ms));
}

void BrokerHealth::refused_for_now(Monotonic now, std::string_view broker, Duration retry_after) {
  if (Record* record = record_for(now, broker)) record->avoided_until = std::max(record->avoided_until, now + std::min(retry_after, kSparedMax));
}

bool BrokerHealth::is_avoided(Monotonic now, std::string_view broker) const {
  const auto found = brokers_.find(broker);
  return found != brokers_.end() && now < found->second.avoided_until;
}

}  // namespace fulmar
