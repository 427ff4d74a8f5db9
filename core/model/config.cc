#include "core/model/config.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <variant>

#include "core/base/nearest.h"
#include "core/model/ignored_keys.h"

namespace fulmar {

namespace {

// One row of the table: where a value lives and what it may be. `least` and `most` bound the number, the bytes of a text or the items
// of a list; `multiple` is for file sizes that hold whole pages or entries.
template <class C>
using Member = std::variant<std::string C::*, std::vector<std::string> C::*, bool C::*, FlushDiskType C::*, CompressionType C::*, HourSet C::*, MetricsExporter C::*, uint16_t C::*, int32_t C::*,
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
  {"vipChannelEnabled", &BrokerConfig::is_vip_enabled, "listen at the port minus 2, too: older clients and the dashboard of RocketMQ send there"},
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
  {"flushIntervalConsumeQueue", &BrokerConfig::consume_queue_flush_interval_ms, "ms between flushes of queues and index; with many queues they are rarer", 1, kDayMs},
  {"flushConsumeQueueThoroughInterval", &BrokerConfig::consume_queue_flush_interval_max_ms, "ms between them at most, however many queues there are", 1, kDayMs},
  {"consumeQueueRoundCostUs", &BrokerConfig::queue_round_cost_us, "CPU microseconds that writing one queue takes: flushes are so rare that they take a fiftieth of a CPU; 0: never rarer, and a stop writes them all", 0, 10'000'000},
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
  {"metricsExporterType", &BrokerConfig::metrics_exporter, "PROM: /metrics, /healthz and /readyz on a port of their own; DISABLE: no such port"},
  {"metricsPromExporterHost", &BrokerConfig::metrics_host, "the address of that port; empty: listenHost", 0, 255},
  {"metricsPromExporterPort", &BrokerConfig::metrics_port, "that port; 0: a free one", 0, 65535},
  {"prepareAheadBytesMax", &BrokerConfig::prepare_ahead_bytes_max, "bytes of commit log allocated and zeroed ahead of the writer", 64 * kKiB, 2 * kGiB},
};
constexpr Field<NameServerConfig> kNameServerFields[] = {
  {"listenHost", &NameServerConfig::listen_host, "the address to listen at", 1, 255, 1, "bindAddress"},
  {"listenPort", &NameServerConfig::listen_port, "the port to listen at; 0: a free one", 0, 65535},
  {"brokerExpiry", &NameServerConfig::broker_expiry_ms, "ms of silence after which a broker is forgotten", 10, kDayMs},
  {"metricsExporterType", &NameServerConfig::metrics_exporter, "PROM: /metrics, /healthz and /readyz on a port of their own; DISABLE: no such port"},
  {"metricsPromExporterHost", &NameServerConfig::metrics_host, "the address of that port; empty: listenHost", 0, 255},
  {"metricsPromExporterPort", &NameServerConfig::metrics_port, "that port; 0: a free one", 0, 65535},
};
constexpr Field<ClientConfig> kClientFields[] = {
  {"namesrvAddr", &ClientConfig::name_servers, "name servers as host:port, separated by ';'", 0, 64},
  {"clientId", &ClientConfig::client_id, "how this client is called", 1, 255},
  {"sendMsgTimeout", &ClientConfig::send_timeout_ms, "ms for a send in all, resends included", 1, kDayMs},
  {"retryTimesWhenSendFailed", &ClientConfig::resends, "resends after a failure", 0, 1000},
  {"pollNameServerInterval", &ClientConfig::route_refresh_ms, "ms between route queries", 10, kDayMs},
  {"maxMessageSize", &ClientConfig::body_bytes_max, "bytes of a body", 1, 128 * kMiB},
  {"sendMsgMaxTimeoutPerRequest", &ClientConfig::attempt_timeout_ms, "ms for one attempt at most; 0: its share of what is left", 0, kDayMs},
  {"sendLatencyEnable", &ClientConfig::is_latency_judged, "avoid brokers that answer slowly, as those that do not answer"},
  {"compressMsgBodyOverHowmuch", &ClientConfig::compress_over_bytes, "bodies of so many bytes and more are compressed; 0: none", 0, kIntMax},
  {"compressLevel", &ClientConfig::compress_level, "1 is fast, 9 is small", 1, 9},
  {"compressType", &ClientConfig::compress_type, "ZLIB, which every client reads, LZ4 or ZSTD"},
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

constexpr bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\f'; }

std::string_view trimmed(std::string_view text) {
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
Result<void> parse_into(MetricsExporter& out, std::string_view text, Bounds) {
  if (text == "PROM") out = MetricsExporter::Prometheus;
  else if (text == "DISABLE") out = MetricsExporter::Disabled;
  else return bad(fmt::format("'{}' is neither DISABLE nor PROM; what asks for OTLP or log files is served by whoever scrapes PROM", text));
  return {};
}
Result<void> parse_into(CompressionType& out, std::string_view text, Bounds) {
  if (text == "ZLIB") out = CompressionType::Zlib;
  else if (text == "LZ4") out = CompressionType::Lz4;
  else if (text == "ZSTD") out = CompressionType::Zstd;
  else return bad(fmt::format("'{}' is neither ZLIB nor LZ4 nor ZSTD", text));
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
std::string text_of(MetricsExporter value) { return value == MetricsExporter::Prometheus ? "PROM" : "DISABLE"; }
std::string text_of(CompressionType value) { return value == CompressionType::Zlib ? "ZLIB" : value == CompressionType::Lz4 ? "LZ4" : "ZSTD"; }
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

template <class C>
std::string unknown_sentence(const Table<C>& table, std::string_view key) {
  std::vector<std::string_view> known;
  for (const Field<C>& field : table.fields) {
    known.push_back(field.name);
    if (!field.also.empty()) known.push_back(field.also);
  }
  for (const IgnoredKeys& row : table.ignored) for_each_part(row.names, ' ', [&known](std::string_view name) { known.push_back(name); });
  const std::string_view nearest = nearest_name(key, known);
  if (nearest.empty()) return "unknown key; `fulmar config explain` lists all";
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

// --- lines ----------------------------------------------------------------------------------------------------------------------------

// As java.util.Properties reads them: '#' and '!' begin comments, a backslash at the end joins the next line, key and value are separated
// by '=', ':' or blanks, a backslash takes the meaning from what follows it. Blanks at the end of a value are dropped, which Java does not.
struct Entry {
  int line = 0;                    // the first, when lines were joined
  std::string text, key, value;
  enum class Separator : uint8_t { None, Blank, Sign } separator = Separator::None;
};

bool ends_with_escape(std::string_view text) {
  size_t backslashes = 0;
  while (backslashes < text.size() && text[text.size() - 1 - backslashes] == '\\') ++backslashes;
  return backslashes % 2 == 1;
}

void append_utf8(std::string& out, uint32_t code) {
  if (code >= 0xD800 && code <= 0xDFFF) code = 0xFFFD;   // half of a pair: no key or value of ours needs one
  if (code < 0x80) { out += static_cast<char>(code); return; }
  if (code < 0x800) out += static_cast<char>(0xC0 | code >> 6);
  else { out += static_cast<char>(0xE0 | code >> 12); out += static_cast<char>(0x80 | (code >> 6 & 0x3F)); }
  out += static_cast<char>(0x80 | (code & 0x3F));
}

std::string without_escapes(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) { out += text[i]; continue; }
    const char c = text[++i];
    uint32_t code = 0;
    const char* const digits = text.data() + i + 1;
    if (c == 'u' && text.size() - i > 4 && std::from_chars(digits, digits + 4, code, 16).ptr == digits + 4) {
      append_utf8(out, code);
      i += 4;
    } else {
      out += c == 't' ? '\t' : c == 'n' ? '\n' : c == 'r' ? '\r' : c == 'f' ? '\f' : c;
    }
  }
  return out;
}

// Where key and value part: [key, value) is what separates them. A backslash protects what follows it.
void split(Entry& entry) {
  const std::string_view text = entry.text;
  const auto is_sign = [](char c) { return c == '=' || c == ':'; };
  size_t end = 0;
  while (end < text.size() && !is_blank(text[end]) && !is_sign(text[end])) end += text[end] == '\\' ? 2 : 1;
  end = std::min(end, text.size());
  size_t value = end;
  while (value < text.size() && is_blank(text[value])) ++value;
  if (value < text.size() && is_sign(text[value])) {
    entry.separator = Entry::Separator::Sign;
    ++value;
  } else if (value > end) {
    entry.separator = Entry::Separator::Blank;
  }
  entry.key = without_escapes(text.substr(0, end));
  while (value < text.size() && is_blank(text[value])) ++value;
  entry.value = without_escapes(text.substr(value));
}

// Takes the next entry off `properties`; `line` counts the lines read so far.
std::optional<Entry> next_entry(std::string_view& properties, int& line) {
  const auto next_line = [&] {
    const size_t end = properties.find('\n');
    std::string_view text = properties.substr(0, end);
    properties.remove_prefix(end == std::string_view::npos ? properties.size() : end + 1);
    ++line;
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\f"), text.size()));
    if (text.ends_with('\r')) text.remove_suffix(1);
    return text;
  };
  while (!properties.empty()) {
    std::string_view text = next_line();
    if (text.empty() || text.front() == '#' || text.front() == '!') continue;
    Entry entry;
    entry.line = line;
    while (ends_with_escape(text)) {
      entry.text += text.substr(0, text.size() - 1);
      text = next_line();   // empty at the end of the file
    }
    entry.text += text;
    while (!entry.text.empty() && is_blank(entry.text.back()) && !ends_with_escape(std::string_view(entry.text).substr(0, entry.text.size() - 1))) entry.text.pop_back();
    split(entry);
    return entry;
  }
  return std::nullopt;
}

template <class C>
bool is_known(const Table<C>& table, std::string_view key) {
  const auto is_field = [key](const Field<C>& f) { return key == f.name || (!f.also.empty() && key == f.also); };
  return std::any_of(table.fields.begin(), table.fields.end(), is_field) ||
         std::any_of(table.ignored.begin(), table.ignored.end(), [key](const IgnoredKeys& row) { return has_word(row.names, key); });
}

// Of a key that stands twice, the later line counts; the earlier one is told of.
void note_repeated(std::map<std::string, int, std::less<>>& lines, const Entry& entry, std::vector<ConfigNote>* notes) {
  const auto [before, is_first] = lines.try_emplace(entry.key, entry.line);
  if (is_first) return;
  if (notes != nullptr) notes->push_back({ConfigNote::Kind::Ignored, before->second, entry.key, fmt::format("set again in line {}, which counts", entry.line)});
  before->second = entry.line;
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
  std::map<std::string, int, std::less<>> lines;   // where each key stands last
  int line = 0;
  while (const auto entry = next_entry(properties, line)) {
    // With blanks alone between, nobody but a known key is taken for one: the line may be prose.
    const bool is_pair = entry->separator == Entry::Separator::Sign || (entry->separator == Entry::Separator::Blank && is_known(table, entry->key));
    const std::string& key = is_pair ? entry->key : entry->text;
    const auto verdict = !is_pair || key.empty() ? Verdict{ConfigNote::Kind::Bad, "is not of the form key=value"} : apply(table, config, key, entry->value);
    if (!verdict || verdict->kind == ConfigNote::Kind::Ignored) note_repeated(lines, *entry, notes);
    if (!verdict) continue;
    if (verdict->kind != ConfigNote::Kind::Ignored && !first_error) first_error = bad(fmt::format("line {}: {}: {}", entry->line, key, verdict->sentence));
    if (notes != nullptr) notes->push_back({verdict->kind, entry->line, key, verdict->sentence});
  }
  if (first_error) return *std::move(first_error);
  if (const std::optional<Conflict> conflict = conflict_of(config)) {
    const auto found = lines.find(conflict->key);
    const int set_in = found == lines.end() ? 0 : found->second;
    if (notes != nullptr) notes->push_back({ConfigNote::Kind::Conflict, set_in, std::string(conflict->key), conflict->sentence});
    return bad(fmt::format("line {}: {}: {}", set_in, conflict->key, conflict->sentence));
  }
  return config;
}

// So that reading it gives the same value back.
std::string with_escapes(std::string_view value) {
  std::string out;
  for (size_t i = 0; i < value.size(); ++i) {
    const bool is_edge = i == 0 || i + 1 == value.size();
    if (value[i] == '\\' || (is_edge && value[i] == ' ')) out += '\\';
    out += value[i];
  }
  return out;
}

template <class C>
std::string write(const C& config) {
  std::string out;
  for (const Field<C>& field : table_of(config).fields) out += fmt::format("{}={}\n", field.name, with_escapes(value_text(field, config)));
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
