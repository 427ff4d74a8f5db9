#pragma once
// A message as the field knows it: topic, properties, body, flags. No protocol and no disk; the stored form is store/record.h.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/bytes.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/model/ids.h"

namespace fulmar {

// RocketMQ's sysFlag bits (store.md 2.3).
namespace sys_flag {
inline constexpr uint32_t kCompressed = 0x1;
inline constexpr uint32_t kMultiTags = 0x2;
inline constexpr uint32_t kTransactionMask = 0xC;
inline constexpr uint32_t kPrepared = 0x4;
inline constexpr uint32_t kCommit = 0x8;
inline constexpr uint32_t kRollback = 0xC;
inline constexpr uint32_t kBornHostV6 = 0x10;
inline constexpr uint32_t kStoreHostV6 = 0x20;
}  // namespace sys_flag

// A numeric address as records carry it: 4 or 16 bytes and a port of 4 bytes.
struct HostAddress {
  std::array<uint8_t, 16> bytes{};
  bool is_v6 = false;
  uint32_t port = 0;
  friend bool operator==(const HostAddress&, const HostAddress&) = default;
  size_t address_bytes() const { return is_v6 ? 16 : 4; }
  size_t encoded_bytes() const { return address_bytes() + 4; }
  std::string text() const;  // "127.0.0.1:1234", "[::1]:1234"
  // Numeric hosts only (no names): "127.0.0.1", "::1". BadAddress.
  static Result<HostAddress> parse(std::string_view host, uint16_t port);
};

// Everything about a message that its sender decides. Views are borrowed.
struct Message {
  std::string_view topic;
  QueueId queue_id;
  int32_t flag = 0;
  uint32_t sys_flag = 0;
  Wall born;
  HostAddress born_host, store_host;
  int32_t reconsume_times = 0;
  int64_t prepared_transaction_offset = 0;
  Bytes properties;  // encoded: name 0x01 value 0x02, repeated
  Bytes body;
};

namespace property {
inline constexpr std::string_view kKeys = "KEYS";          // words separated by a blank
inline constexpr std::string_view kTags = "TAGS";
inline constexpr std::string_view kUniqueKey = "UNIQ_KEY"; // client-made unique id
inline constexpr std::string_view kWait = "WAIT";
inline constexpr std::string_view kCrc32 = "__CRC32#";
inline constexpr char kNameEnd = 1;
inline constexpr char kPairEnd = 2;

// Value of `name`, or nothing. A pair counts only when both name and value are not empty (store.md 2.4).
std::optional<std::string_view> find(Bytes properties, std::string_view name);
// Appends one pair to an encoded string. InvalidArgument when name or value is empty or holds 0x01 or 0x02.
Result<void> add(std::string& encoded, std::string_view name, std::string_view value);
// Calls visit(name, value) for each valid pair in order.
template <class Visit>
void for_each(Bytes properties, Visit visit) {
  std::string_view rest = as_text(properties);
  while (!rest.empty()) {
    const size_t end = rest.find(kPairEnd);
    const std::string_view pair = rest.substr(0, end);
    const size_t split = pair.find(kNameEnd);
    if (split != std::string_view::npos && split > 0 && split + 1 < pair.size()) visit(pair.substr(0, split), pair.substr(split + 1));
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
}
}  // namespace property

// Names that a stranger may use. InvalidArgument with a sentence that says which character or length is wrong.
// Topics: 1 to 127 bytes of [%|a-zA-Z0-9_-] (%RETRY% ones up to 255); groups: 1 to 120 of the same (store.md 12).
Result<void> check_topic_name(std::string_view topic);
Result<void> check_group_name(std::string_view group);
// Topics that belong to the broker: clients may not create, delete or send to them.
bool is_system_topic(std::string_view topic);
inline constexpr std::string_view kMetaTopic = "rmq_sys_fulmar_meta";

}  // namespace fulmar
