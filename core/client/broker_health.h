#pragma once
// Which brokers a producer had better not choose for a while: those that did not answer, those that asked to be spared, and, when that is
// asked for, slow ones. Only a preference: where there is no other broker, an avoided one is tried all the same. A broker that answers at
// all, be it with a refusal, is alive: its failures are forgotten (the reference remembers an error reply until a later success).

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "core/base/time.h"

namespace fulmar {

class BrokerHealth {
 public:
  static constexpr size_t kBrokersMax = 1024;                      // then those that are not avoided any more make room
  static constexpr Duration kFailedFirst = Duration::seconds(1), kFailedMax = Duration::seconds(10);
  static constexpr Duration kSparedMax = Duration::seconds(1);     // however long a refusal asks for

  explicit BrokerHealth(bool is_latency_judged) : is_latency_judged_(is_latency_judged) {}

  void failed(Monotonic now, std::string_view broker);             // no answer, or none that makes sense
  void answered(Monotonic now, std::string_view broker, Duration latency);
  void refused_for_now(Monotonic now, std::string_view broker, Duration retry_after);
  bool is_avoided(Monotonic now, std::string_view broker) const;
  size_t size() const { return brokers_.size(); }

 private:
  struct Record { Monotonic avoided_until; uint32_t failures = 0; };
  Record* record_for(Monotonic now, std::string_view broker);

  const bool is_latency_judged_;
  std::map<std::string, Record, std::less<>> brokers_;
};

}  // namespace fulmar
