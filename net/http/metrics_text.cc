#include "net/http/metrics_text.h"

#include <fmt/format.h>

namespace fulmar::net {

namespace {

// Bytes of the character at the begin of `text`, 0 when it is none of UTF-8 (overlong forms and halves of pairs among them).
size_t utf8_bytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < bytes) return 0;
  for (size_t i = 1; i < bytes; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F) || (first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F)) return 0;
  return bytes;
}

std::string_view word(MetricKind kind) { return kind == MetricKind::Counter ? "counter" : kind == MetricKind::Gauge ? "gauge" : "histogram"; }

std::string escaped_help(std::string_view help) {
  std::string out;
  for (const char c : help) {
    if (c == '\\') out += "\\\\";
    else if (c == '\n') out += "\\n";
    else out += c;
  }
  return out;
}

}  // namespace

std::string decimal_text(int64_t value, int decimals) {
  std::string digits = fmt::format("{:0{}}", value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value), decimals + 1);
  if (decimals > 0) {
    digits.insert(digits.size() - static_cast<size_t>(decimals), ".");
    digits.erase(digits.find_last_not_of('0') + 1);
    if (digits.back() == '.') digits.pop_back();
  }
  return value < 0 ? "-" + digits : digits;
}

std::string escaped_label(std::string_view value) {
  std::string out;
  while (!value.empty()) {
    const size_t bytes = utf8_bytes(value);
    if (bytes == 0) out += "\xEF\xBF\xBD";
    else if (value.front() == '\\') out += "\\\\";
    else if (value.front() == '"') out += "\\\"";
    else if (value.front() == '\n') out += "\\n";
    else out += value.substr(0, bytes);
    value.remove_prefix(std::max<size_t>(bytes, 1));
  }
  return out;
}

void MetricsText::add(const reply::Metrics& page) {
  for (const MetricSample& sample : page.samples) {
    const MetricFamily& family = *sample.family;
    if (last_ != &family) {
      last_ = &family;
      text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", family.name, escaped_help(family.help), family.name, word(family.kind));
    }
    const std::string value = decimal_text(sample.value, family.decimals);
    if (family.kind != MetricKind::Histogram) {
      add_line(family, "", page, sample, "", value);
      continue;
    }
    uint64_t below = 0;
    for (size_t i = 0; i < sample.counts.size(); ++i) {
      below += sample.counts[i];
      add_line(family, "_bucket", page, sample, i < family.bounds.size() ? decimal_text(family.bounds[i], family.decimals) : "+Inf", fmt::format("{}", below));
    }
    add_line(family, "_sum", page, sample, "", value);
    add_line(family, "_count", page, sample, "", fmt::format("{}", below));
  }
}

void MetricsText::add_line(const MetricFamily& family, std::string_view suffix, const reply::Metrics& page, const MetricSample& sample, std::string_view le, std::string_view value) {
  text_ += family.name;
  text_ += suffix;
  char separator = '{';
  const auto add_label = [&](std::string_view name, std::string_view label) {
    text_ += separator;
    text_ += name;
    text_ += "=\"";
    text_ += escaped_label(label);
    text_ += '"';
    separator = ',';
  };
  for (const MetricLabel& label : page.common) add_label(label.name, label.value);
  for (const MetricLabel& label : sample.labels) add_label(label.name, label.value);
  if (!le.empty()) add_label("le", le);
  if (separator == ',') text_ += '}';
  text_ += ' ';
  text_ += value;
  text_ += '\n';
}

}  // namespace fulmar::net
