#include "core/model/config.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <variant>

#include "core/model/ignored_keys.h"

namespace fulmar {

namespace {

// One row of the table: where a value lives and what it may be. `least` and `most` bound the number, the bytes of a text or the items
// of a list; `multiple` is for file sizes that hold whole pages or entries.
template <class C>
using Member = std::variant<std::string C::*, std::vector<std::string> C::*, bool C::*, FlushDiskType C::*, HourSet C::*, uint16_t C::*, int32_t C::*,
                            uint32_t C::*, int64_t C::*, uint64_t C::*>;
template <class C>
struct Field {
  std::string_view name;
  Member<C> member;
  std::string_view meaning;
  int64_t least = 0, most = 0;
  int64_t multiple = 1;
  std::string_view also = {};  // a second name for the same thing, read but not written
};

constexpr int64_t kKiB = 1024, kMiB = kKiB * 1024, kGiB = kMiB * 1024;
constexpr int64_t kDayMs = 24 * 3600 * 1000;
constexpr int64_t kIntMax = std::numeric_limits<int32_t>::max();

// clang-format off
constexpr Field<BrokerConfig> kBrokerFields[] = {
  {"brokerClusterName", &BrokerConfig::cluster, "the cluster this broker belongs to", 1, 127},
  {"brokerName", &BrokerConfig::broker_name, "the name under which queues of this broker are known; unique in the cluster", 1, 127},
  {"brokerId", &BrokerConfig::broker_id, "0 for a master", 0, kIntMax},
  {"brokerIP1", &BrokerConfig::broker_ip, "the address given to clients; empty: the one at which their connection reached us", 0, 255},
  {"listenHost", &BrokerConfig::listen_host, "the address to listen at", 1, 255, 1, "bindAddress"},
  {"listenPort", &BrokerConfig::listen_port, "the port to listen at; 0: a free one", 0, 65535},
  {"namesrvAddr", &BrokerConfig::name_servers, "name servers as host:port, separated by ';'", 0, 64},
  {"storePathRootDir", &BrokerConfig::store_path, "the directory of the store", 1, 4096},
  {"flushDiskType", &BrokerConfig::flush_disk_type, "SYNC_FLUSH: acknowledged when durable; ASYNC_FLUSH: acknowledged when written"},
  {"mappedFileSizeCommitLog", &BrokerConfig::commit_log_file_bytes, "bytes of a commit log file, whole pages", 64 * kKiB, 2 * kGiB - 4096, 4096},
  {"mappedFileSizeConsumeQueue", &BrokerConfig::consume_queue_file_bytes, "bytes of a consume queue file, whole entries of 20", 20 * 8, 1'073'741'820, 20},
  {"maxHashSlotNum", &BrokerConfig::index_slot_count, "hash slots of an index file", 8, 30'000'000},
  {"maxIndexNum", &BrokerConfig::index_entry_count, "entries of an index file; with the slots below 2 GiB, so that RocketMQ can map it", 8, 100'000'000},
  {"messageIndexEnable", &BrokerConfig::is_index_enabled, "index messages by key"},
  {"asyncUnflushedBytesMax", &BrokerConfig::async_unflushed_bytes_max, "bytes that may be written and not yet flushed; above it sends are refused", 64 * kKiB, 64 * kGiB},
  {"flushIntervalCommitLog", &BrokerConfig::flush_interval_ms, "ms between flushes with ASYNC_FLUSH", 1, kDayMs},
  {"flushIntervalConsumeQueue", &BrokerConfig::consume_queue_flush_interval_ms, "ms between flushes of queues and index", 1, kDayMs},
  {"syncFlushTimeout", &BrokerConfig::sync_flush_timeout_ms, "ms until a send that waits for its flush is answered FLUSH_DISK_TIMEOUT", 1, kDayMs},
  {"maxMessageSize", &BrokerConfig::body_bytes_max, "bytes of a body", 1, 128 * kMiB},
  {"autoCreateTopicEnable", &BrokerConfig::is_topic_auto_created, "make a topic when somebody sends to it"},
  {"defaultTopicQueueNums", &BrokerConfig::default_topic_queues, "queues of a topic made that way", 1, 1024},
  {"enabledAppendPropCRC", &BrokerConfig::is_crc_property_on, "store a checksum over topic, body and properties with each message"},
  {"diskSpaceWarningLevelRatio", &BrokerConfig::disk_refuse_percent, "refuse writes when the disk is fuller than this, in percent", 1, 99},
  {"diskFreeBytesMin", &BrokerConfig::disk_free_bytes_min, "refuse writes when fewer bytes are free", 0, std::numeric_limits<int64_t>::max()},
  {"fileReservedTime", &BrokerConfig::file_reserved_hours, "hours that messages are kept at least; a file goes when its youngest is older", 1, 1'000'000},
  {"fileReservedMs", &BrokerConfig::file_reserved_ms, "the same in ms, for stores that keep minutes; 0: fileReservedTime says it", 0, 3'600'000'000'000},
  {"deleteWhen", &BrokerConfig::delete_hours, "hours of the day, local time, in which expired files are deleted, two digits each, separated by ';'"},
  {"diskMaxUsedSpaceRatio", &BrokerConfig::disk_expired_percent, "when the disk is fuller than this, in percent, expired files are deleted at any hour", 10, 99},
  {"diskSpaceCleanForciblyRatio", &BrokerConfig::disk_forced_percent, "when the disk is fuller than this, in percent, the oldest file is deleted whatever its age", 30, 99},
  {"cleanFileForciblyEnable", &BrokerConfig::is_deleting_forcibly, "obey diskSpaceCleanForciblyRatio; false: writes are refused instead"},
  {"retainBytesMax", &BrokerConfig::retain_bytes_max, "bytes of commit log kept at most, whole files; 0: no bound", 0, std::numeric_limits<int64_t>::max()},
  {"neverDeleteUnread", &BrokerConfig::is_unread_kept, "keep whatever a group that has committed offsets has not consumed yet, even when the disk fills"},
  {"registerNameServerPeriod", &BrokerConfig::register_interval_ms, "ms between registrations; keep it well below the name server's brokerExpiry", 10, kDayMs},
  {"prepareAheadBytesMax", &BrokerConfig::prepare_ahead_bytes_max, "bytes of commit log allocated and zeroed ahead of the writer", 64 * kKiB, 2 * kGiB},
};
constexpr Field<NameServerConfig> kNameServerFields[] = {
  {"listenHost", &NameServerConfig::listen_host, "the address to listen at", 1, 255, 1, "bindAddress"},
  {"listenPort", &NameServerConfig::listen_port, "the port to listen at; 0: a free one", 0, 65535},
  {"brokerExpiry", &NameServerConfig::broker_expiry_ms, "ms of silence after which a broker is forgotten", 10, kDayMs},
};
constexpr Field<ClientConfig> kClientFields[] = {
  {"namesrvAddr", &ClientConfig::name_servers, "name servers as host:port, separated by ';'", 0, 64},
  {"clientId", &ClientConfig::client_id, "how this client is called", 1, 255},
  {"sendMsgTimeout", &ClientConfig::send_timeout_ms, "ms for a send in all, resends included", 1, kDayMs},
  {"retryTimesWhenSendFailed", &ClientConfig::resends, "resends after a failure", 0, 1000},
  {"pollNameServerInterval", &ClientConfig::route_refresh_ms, "ms between route queries", 10, kDayMs},
  {"maxMessageSize", &ClientConfig::body_bytes_max, "bytes of a body", 1, 128 * kMiB},
};
// clang-format on

// What a kind of node knows: its own rows, and RocketMQ's without effect.
template <class C>
struct Table {
  std::span<const Field<C>> fields;
  std::span<const IgnoredKeys> ignored;
};
Table<BrokerConfig> table_of(const BrokerConfig&) { return {kBrokerFields, ignored_broker_keys()}; }
Table<NameServerConfig> table_of(const NameServerConfig&) { return {kNameServerFields, ignored_name_server_keys()}; }
Table<ClientConfig> table_of(const ClientConfig&) { return {kClientFields, {}}; }

std::string_view trimmed(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\f'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// Visits each non-empty, trimmed part.
template <class Visit>
void for_each_part(std::string_view text, char separator, Visit visit) {
  for (;;) {
    const size_t end = text.find(separator);
    const std::string_view part = trimmed(text.substr(0, end));
    if (!part.empty()) visit(part);
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

bool has_word(std::string_view words, std::string_view word) {
  bool is_found = false;
  for_each_part(words, ' ', [&](std::string_view w) { is_found |= w == word; });
  return is_found;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

// --- values ---------------------------------------------------------------------------------------------------------------------------

struct Bounds { int64_t least, most, multiple; };
Error bad(std::string sentence) { return Error(Errc::InvalidArgument, std::move(sentence)); }

Result<int64_t> parse_number(std::string_view text, Bounds bounds) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) return bad(fmt::format("{} is not in [{}, {}]", text, bounds.least, bounds.most));
  if (error != std::errc() || end != text.data() + text.size()) return bad(fmt::format("'{}' is not a plain integer", text));
  if (value < bounds.least || value > bounds.most) return bad(fmt::format("{} is not in [{}, {}]", value, bounds.least, bounds.most));
  if (value % bounds.multiple != 0) return bad(fmt::format("{} is not a multiple of {}", value, bounds.multiple));
  return value;
}

Result<void> check_host_port(std::string_view item) {
  const size_t colon = item.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return bad(fmt::format("'{}' is not host:port", item));
  if (const auto port = parse_number(item.substr(colon + 1), {1, 65535, 1}); !port) return bad(fmt::format("the port of '{}' is not in [1, 65535]", item));
  return {};
}

Result<void> parse_into(std::string& out, std::string_view text, Bounds bounds) {
  if (text.empty() && bounds.least > 0) return bad("is empty");
  if (text.size() > static_cast<size_t>(bounds.most)) return bad(fmt::format("has {} bytes, at most {} are allowed", text.size(), bounds.most));
  for (const char c : text)
    if (static_cast<uint8_t>(c) < 0x20 || c == 0x7F) return bad(fmt::format("holds the control byte 0x{:02x}", static_cast<uint8_t>(c)));
  out = text;
  return {};
}
Result<void> parse_into(std::vector<std::string>& out, std::string_view text, Bounds bounds) {
  std::vector<std::string> items;
  Result<void> outcome;
  for_each_part(text, ';', [&](std::string_view item) {
    if (outcome) outcome = check_host_port(item);
    items.emplace_back(item);
  });
  if (outcome && items.size() > static_cast<size_t>(bounds.most)) return bad(fmt::format("has {} items, at most {} are allowed", items.size(), bounds.most));
  if (outcome) out = std::move(items);
  return outcome;
}
Result<void> parse_into(bool& out, std::string_view text, Bounds) {
  if (equal_ignoring_case(text, "true")) out = true;
  else if (equal_ignoring_case(text, "false")) out = false;
  else return bad(fmt::format("'{}' is neither true nor false", text));
  return {};
}
Result<void> parse_into(FlushDiskType& out, std::string_view text, Bounds) {
  if (text == "SYNC_FLUSH") out = FlushDiskType::Sync;
  else if (text == "ASYNC_FLUSH") out = FlushDiskType::Async;
  else return bad(fmt::format("'{}' is neither SYNC_FLUSH nor ASYNC_FLUSH", text));
  return {};
}
// RocketMQ's form: "04" or "04;16".
Result<void> parse_into(HourSet& out, std::string_view text, Bounds) {
  HourSet hours;
  Result<void> outcome;
  for_each_part(text, ';', [&](std::string_view part) {
    const auto hour = parse_number(part, {0, 23, 1});
    if (hour) hours.mask |= 1u << *hour;
    else if (outcome) outcome = bad(fmt::format("'{}' is not an hour from 00 to 23", part));
  });
  if (outcome && hours.mask == 0) return bad("names no hour; expired files would never be deleted");
  if (outcome) out = hours;
  return outcome;
}
template <class Number>
Result<void> parse_into(Number& out, std::string_view text, Bounds bounds) {
  FULMAR_TRY(const int64_t value, parse_number(text, bounds));
  out = static_cast<Number>(value);  // the bounds of each row fit its type
  return {};
}

std::string text_of(const std::string& value) { return value; }
std::string text_of(const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& item : items) out += (out.empty() ? "" : ";") + item;
  return out;
}
std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(FlushDiskType value) { return value == FlushDiskType::Sync ? "SYNC_FLUSH" : "ASYNC_FLUSH"; }
std::string text_of(HourSet hours) {
  std::string out;
  for (uint32_t hour = 0; hour < 24; ++hour)
    if (hours.has(hour)) out += fmt::format("{}{:02}", out.empty() ? "" : ";", hour);
  return out;
}
template <class Number>
std::string text_of(Number value) { return fmt::format("{}", value); }

template <class C>
std::string value_text(const Field<C>& field, const C& config) {
  return std::visit([&](auto member) { return text_of(config.*member); }, field.member);
}

// --- keys -----------------------------------------------------------------------------------------------------------------------------

// Levenshtein's distance, letters compared without case.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool is_same = equal_ignoring_case(a.substr(i - 1, 1), b.substr(j - 1, 1));
      const size_t change = diagonal + (is_same ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

constexpr size_t kKeyBytesMax = 256;  // longer ones are not compared with every known name

template <class C>
std::string unknown_sentence(const Table<C>& table, std::string_view key) {
  if (key.size() > kKeyBytesMax) return "unknown key";
  std::string_view nearest;
  size_t least = std::numeric_limits<size_t>::max();
  const auto consider = [&](std::string_view name) {
    const size_t distance = edit_distance(key, name);
    if (distance < least) { least = distance; nearest = name; }
  };
  for (const Field<C>& field : table.fields) {
    consider(field.name);
    if (!field.also.empty()) consider(field.also);
  }
  for (const IgnoredKeys& row : table.ignored) for_each_part(row.names, ' ', consider);
  return fmt::format("unknown key; the nearest known one is {}", nearest);
}

struct Verdict { ConfigNote::Kind kind; std::string sentence; };

// Nothing when the value was taken.
template <class C>
std::optional<Verdict> apply(const Table<C>& table, C& config, std::string_view key, std::string_view value) {
  for (const Field<C>& field : table.fields) {
    if (key != field.name && (field.also.empty() || key != field.also)) continue;
    const Bounds bounds{field.least, field.most, field.multiple};
    const auto outcome = std::visit([&](auto member) { return parse_into(config.*member, value, bounds); }, field.member);
    if (outcome) return std::nullopt;
    return Verdict{ConfigNote::Kind::Bad, outcome.error().detail};
  }
  for (const IgnoredKeys& row : table.ignored) {
    if (!has_word(row.names, key)) continue;
    if (row.accepted.empty() || value.empty() || has_word(row.accepted, value)) return Verdict{ConfigNote::Kind::Ignored, std::string(row.reason)};
    return Verdict{ConfigNote::Kind::Bad, row.accepted == "-" ? fmt::format("must stay empty: {}", row.reason)
                                                             : fmt::format("'{}' is not {}: {}", value, row.accepted, row.reason)};
  }
  return Verdict{ConfigNote::Kind::Unknown, unknown_sentence(table, key)};
}

// --- what no row can say alone --------------------------------------------------------------------------------------------------------

struct Conflict { std::string_view key; std::string sentence; };

// A retention that would delete what was just written.
std::optional<Conflict> conflict_of(const BrokerConfig& c) {
  constexpr int64_t kReservedMsMin = 10'000;
  if (c.file_reserved_ms != 0 && c.file_reserved_ms < kReservedMsMin)
    return Conflict{"fileReservedMs", fmt::format("{} would delete messages before anybody can read them: 0, or at least {}", c.file_reserved_ms, kReservedMsMin)};
  if (c.retain_bytes_max != 0 && c.retain_bytes_max < 2 * c.commit_log_file_bytes)
    return Conflict{"retainBytesMax", fmt::format("{} is less than two commit log files (mappedFileSizeCommitLog is {}): messages would go as soon as they are written",
                                                  c.retain_bytes_max, c.commit_log_file_bytes)};
  return std::nullopt;
}
std::optional<Conflict> conflict_of(const NameServerConfig&) { return std::nullopt; }
std::optional<Conflict> conflict_of(const ClientConfig&) { return std::nullopt; }

template <class C>
Result<C> parse(std::string_view properties, std::vector<ConfigNote>* notes) {
  C config;
  const Table<C> table = table_of(config);
  std::optional<Error> first_error;
  std::map<std::string, int, std::less<>> lines;  // where each key stands last
  for (int line = 1; !properties.empty(); ++line) {
    const size_t end = properties.find('\n');
    const std::string_view text = trimmed(properties.substr(0, end));
    properties.remove_prefix(end == std::string_view::npos ? properties.size() : end + 1);
    if (text.empty() || text.front() == '#' || text.front() == '!') continue;  // '!' also begins a comment in Java's properties
    const size_t split = text.find('=');
    const std::string_view key = trimmed(text.substr(0, split));
    const auto verdict = split == std::string_view::npos || key.empty() ? Verdict{ConfigNote::Kind::Bad, "is not of the form key=value"}
                                                                         : apply(table, config, key, trimmed(text.substr(split + 1)));
    if (!verdict) {
      lines[std::string(key)] = line;
      continue;
    }
    if (verdict->kind != ConfigNote::Kind::Ignored && !first_error) first_error = bad(fmt::format("line {}: {}: {}", line, key, verdict->sentence));
    if (notes != nullptr) notes->push_back({verdict->kind, line, std::string(key), verdict->sentence});
  }
  if (first_error) return *std::move(first_error);
  if (const std::optional<Conflict> conflict = conflict_of(config)) {
    const auto found = lines.find(conflict->key);
    const int line = found == lines.end() ? 0 : found->second;
    if (notes != nullptr) notes->push_back({ConfigNote::Kind::Bad, line, std::string(conflict->key), conflict->sentence});
    return bad(fmt::format("line {}: {}: {}", line, conflict->key, conflict->sentence));
  }
  return config;
}

template <class C>
std::string write(const C& config) {
  std::string out;
  for (const Field<C>& field : table_of(config).fields) out += fmt::format("{}={}\n", field.name, value_text(field, config));
  return out;
}

}  // namespace

Result<BrokerConfig> parse_broker_config(std::string_view properties, std::vector<ConfigNote>* notes) { return parse<BrokerConfig>(properties, notes); }
Result<NameServerConfig> parse_name_server_config(std::string_view properties, std::vector<ConfigNote>* notes) {
  return parse<NameServerConfig>(properties, notes);
}
Result<ClientConfig> parse_client_config(std::string_view properties, std::vector<ConfigNote>* notes) { return parse<ClientConfig>(properties, notes); }

std::string serialise(const BrokerConfig& config) { return write(config); }
std::string serialise(const NameServerConfig& config) { return write(config); }
std::string serialise(const ClientConfig& config) { return write(config); }

std::vector<ConfigKey> broker_config_keys() {
  const BrokerConfig defaults;
  const Table<BrokerConfig> table = table_of(defaults);
  std::vector<ConfigKey> out;
  for (const Field<BrokerConfig>& field : table.fields) out.push_back({field.name, value_text(field, defaults), field.meaning, false});
  for (const IgnoredKeys& row : table.ignored)
    for_each_part(row.names, ' ', [&](std::string_view name) { out.push_back({name, row.accepted == "-" ? "" : std::string(row.accepted), row.reason, true}); });
  return out;
}

}  // namespace fulmar
