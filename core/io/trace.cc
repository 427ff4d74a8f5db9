#include "core/io/trace.h"

#include <fmt/format.h>

namespace fulmar {

std::string_view to_string(Level level) {
  switch (level) {
    case Level::Debug: return "debug";
    case Level::Info: return "info";
    case Level::Warning: return "warning";
    case Level::Error: return "error";
  }
  return "?";
}

std::string TraceRecord::describe() const {
  std::string out;
  size_t value = 0;
  for (const char* p = info->text; *p != 0; ++p) {
    if (p[0] == '{' && p[1] == '}') {
      if (value < count) out += fmt::format("{}", values[value++]);
      else out += text;
      ++p;
    } else {
      out += *p;
    }
  }
  return out;
}

void Trace::add(const TraceRecord& record) {
#if FULMAR_INSTRUMENTED   // only the simulator compares runs; two events a message would be a tenth of its cost
  uint64_t h = mix64(hash_, record.info->id);
  for (uint8_t i = 0; i < record.count; ++i) h = mix64(h, record.values[i]);
  hash_ = mix64(h, hash_text(record.text));
#endif
  if (!ring_.empty()) {
    Kept& kept = ring_[noted_ % ring_.size()];
    kept.record.info = record.info;
    kept.record.at = record.at;
    kept.record.count = record.count;
    for (uint8_t i = 0; i < record.count; ++i) kept.record.values[i] = record.values[i];
    kept.text.assign(record.text);
  }
  ++noted_;
  if (sink_ != nullptr) sink_->on_event(record);
}

std::string Trace::recent() const {
  std::string out;
  const uint64_t first = noted_ > ring_.size() ? noted_ - ring_.size() : 0;
  for (uint64_t i = first; i < noted_; ++i) {
    const Kept& kept = ring_[i % ring_.size()];
    TraceRecord record = kept.record;
    record.text = kept.text;
    out += fmt::format("{:>14} {} {}\n", record.at.ns, record.info->name, record.describe());
  }
  return out;
}

}  // namespace fulmar
