#include "core/model/message.h"

#include <charconv>

#include "core/base/marks.h"

namespace fulmar {

std::string HostAddress::text() const {
  if (!is_v6) return fmt::format("{}.{}.{}.{}:{}", bytes[0], bytes[1], bytes[2], bytes[3], port);
  std::string out = "[";
  for (size_t i = 0; i < 16; i += 2) out += fmt::format("{}{:x}", i == 0 ? "" : ":", bytes[i] << 8 | bytes[i + 1]);
  return out + fmt::format("]:{}", port);
}

namespace {
bool parse_v4(std::string_view host, uint8_t* out) {
  for (int part = 0; part < 4; ++part) {
    unsigned value = 0;
    const auto [end, error] = std::from_chars(host.data(), host.data() + host.size(), value);
    if (error != std::errc() || value > 255 || end == host.data() || end - host.data() > 3) return false;
    out[part] = static_cast<uint8_t>(value);
    host.remove_prefix(static_cast<size_t>(end - host.data()));
    if (part < 3) {
      if (host.empty() || host.front() != '.') return false;
      host.remove_prefix(1);
    }
  }
  return host.empty();
}

// RFC 4291, section 2.2: groups of hex digits, one "::", and an IPv4 tail.
bool parse_v6(std::string_view host, std::array<uint8_t, 16>& out) {
  std::array<uint8_t, 16> front{}, back{};
  size_t front_bytes = 0, back_bytes = 0;
  bool is_gap_seen = false;
  if (host.starts_with("::")) {
    is_gap_seen = true;
    host.remove_prefix(2);
  }
  while (!host.empty()) {
    auto& into = is_gap_seen ? back : front;
    size_t& at = is_gap_seen ? back_bytes : front_bytes;
    const size_t end = host.find(':');
    const std::string_view group = host.substr(0, end);
    if (group.find('.') != std::string_view::npos) {
      if (end != std::string_view::npos || at + 4 > 16 || !parse_v4(group, &into[at])) return false;
      at += 4;
      host = {};
      break;
    }
    unsigned value = 0;
    const auto [stop, error] = std::from_chars(group.data(), group.data() + group.size(), value, 16);
    if (error != std::errc() || stop != group.data() + group.size() || group.empty() || group.size() > 4 || at + 2 > 16) return false;
    into[at++] = static_cast<uint8_t>(value >> 8);
    into[at++] = static_cast<uint8_t>(value);
    if (end == std::string_view::npos) break;
    host.remove_prefix(end + 1);
    if (host.starts_with(':')) {
      if (is_gap_seen) return false;
      is_gap_seen = true;
      host.remove_prefix(1);
    } else if (host.empty()) {
      return false;
    }
  }
  if (is_gap_seen ? front_bytes + back_bytes > 14 : front_bytes != 16) return false;
  out = front;
  if (is_gap_seen) std::copy(back.begin(), back.begin() + static_cast<ptrdiff_t>(back_bytes), out.begin() + static_cast<ptrdiff_t>(16 - back_bytes));
  return true;
}
}  // namespace

Result<HostAddress> HostAddress::parse(std::string_view host, uint16_t port) {
  HostAddress out;
  out.port = port;
  if (parse_v4(host, out.bytes.data())) return out;
  out.bytes = {};
  out.is_v6 = true;
  if (parse_v6(host, out.bytes)) return out;
  return Error(Errc::BadAddress, fmt::format("'{}' is not a numeric address", host));
}

namespace property {

std::optional<std::string_view> find(Bytes properties, std::string_view name) {
  std::optional<std::string_view> out;
  // Java's map keeps the last of equal names, so we do too.
  for_each(properties, [&](std::string_view n, std::string_view v) { if (n == name) out = v; });
  return out;
}

Result<void> add(std::string& encoded, std::string_view name, std::string_view value) {
  const auto is_bad = [](std::string_view t) { return t.empty() || t.find(kNameEnd) != std::string_view::npos || t.find(kPairEnd) != std::string_view::npos; };
  if (is_bad(name)) return Error(Errc::InvalidArgument, "a property name is empty or holds a separator (0x01, 0x02)");
  if (is_bad(value)) return Error(Errc::InvalidArgument, fmt::format("the value of property '{}' is empty or holds a separator (0x01, 0x02)", name));
  encoded.append(name).push_back(kNameEnd);
  encoded.append(value).push_back(kPairEnd);
  return {};
}

}  // namespace property

namespace {
Result<void> check_name(std::string_view what, std::string_view name, size_t bytes_max) {
  if (name.empty()) return Error(Errc::InvalidArgument, fmt::format("the {} is empty", what));
  if (name.size() > bytes_max) return Error(Errc::InvalidArgument, fmt::format("the {} has {} bytes, at most {} are allowed", what, name.size(), bytes_max));
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool is_good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '%' || c == '|';
    if (!is_good)
      return Error(Errc::InvalidArgument, fmt::format("the {} has byte 0x{:02x} at position {}; allowed are letters, digits and _ - % |", what, static_cast<uint8_t>(c), i));
  }
  return {};
}
}  // namespace

Result<void> check_topic_name(std::string_view topic) { return check_name("topic", topic, topic.starts_with("%RETRY%") ? 255 : 127); }
Result<void> check_group_name(std::string_view group) { return check_name("group", group, 120); }

bool is_system_topic(std::string_view topic) {
  return topic.starts_with("rmq_sys_") || topic == "SCHEDULE_TOPIC_XXXX" || topic == "RMQ_SYS_TRANS_HALF_TOPIC" ||
         topic == "RMQ_SYS_TRANS_OP_HALF_TOPIC" || topic == "TRANS_CHECK_MAX_TIME_TOPIC" || topic == "OFFSET_MOVED_EVENT";
}

}  // namespace fulmar
