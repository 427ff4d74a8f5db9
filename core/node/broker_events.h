#pragma once
// What a broker says about itself: the driver's log, the ready line of the programs, and the simulator's oracles read these.

#include <array>
#include <string_view>

#include "core/io/trace.h"
#include "core/model/ids.h"

namespace fulmar {

struct BrokerListening {
  FULMAR_EVENT(BrokerListening, Info, "listening on port {}: {}");
  uint64_t port;
  std::string_view address;
  auto values() const { return std::array{port}; }
  std::string_view text() const { return address; }
};
struct VipPortNotFree {
  FULMAR_EVENT(VipPortNotFree, Warning, "no VIP port beside port {}: {}");
  uint64_t port;
  std::string_view why;
  auto values() const { return std::array{port}; }
  std::string_view text() const { return why; }
};
struct BrokerServing {
  FULMAR_EVENT(BrokerServing, Info, "serving: log [{}, {}), {} topics ({})");
  uint64_t begin, end, topics;
  std::string_view mode;   // "read-write", "read-only: damaged"
  auto values() const { return std::array{begin, end, topics}; }
  std::string_view text() const { return mode; }
};
// At the moment an acknowledgement is handed to the connection (or to the host). Oracle O1a: with needs_flush, every byte below `end` is
// durable now.
struct MessageAcked {
  FULMAR_EVENT(MessageAcked, Debug, "acknowledged bytes [{}, {}) as queue {} offset {} count {} needs flush {}");
  PhysicalOffset begin, end;
  int32_t queue_id;
  QueueOffset queue_offset;
  int32_t count;
  bool needs_flush;
  auto values() const {
    return std::array<uint64_t, 6>{begin.value(), end.value(), static_cast<uint64_t>(queue_id), static_cast<uint64_t>(queue_offset.value()),
                                   static_cast<uint64_t>(count), needs_flush ? 1u : 0u};
  }
};
struct RequestRefused {
  FULMAR_EVENT(RequestRefused, Debug, "refused with code {}: {}");
  int32_t code;
  std::string_view cause;
  auto values() const { return std::array<uint64_t, 1>{static_cast<uint64_t>(code)}; }
  std::string_view text() const { return cause; }
};
struct NameServerLost {
  FULMAR_EVENT(NameServerLost, Warning, "a name server does not take our registration: {}");
  std::string_view why;
  auto values() const { return std::array<uint64_t, 0>{}; }
  std::string_view text() const { return why; }
};
struct NameServerKnowsUs {
  FULMAR_EVENT(NameServerKnowsUs, Info, "registered with a name server, topics version {}: {}");
  uint64_t version;
  std::string_view address;
  auto values() const { return std::array{version}; }
  std::string_view text() const { return address; }
};
struct BrokerStopping {
  FULMAR_EVENT(BrokerStopping, Info, "stopping: {} sends and {} pulls wait");
  uint64_t sends, pulls;
  auto values() const { return std::array{sends, pulls}; }
};
struct BrokerStopped {
  FULMAR_EVENT(BrokerStopped, Info, "stopped: {} messages taken, {} given");
  uint64_t taken, given;
  auto values() const { return std::array{taken, given}; }
};

}  // namespace fulmar
