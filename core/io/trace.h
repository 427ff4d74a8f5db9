#pragma once
// Typed events: what a node says about itself. They are its log (the driver prints them), the simulator's eyes (oracles read them) and
// part of the step hash. An event is a struct with FULMAR_EVENT and values(); noting one draws nothing and decides nothing.
//
//   struct LogTruncated {
//     FULMAR_EVENT(LogTruncated, Warning, "log cut at {} of {}");   // {}: the values in order, then {} for text()
//     PhysicalOffset at, end;
//     auto values() const { return std::array{at.value(), end.value()}; }
//   };

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/prng.h"
#include "core/base/time.h"
#include "core/io/moment.h"

namespace fulmar {

enum class Level : uint8_t { Debug, Info, Warning, Error };
std::string_view to_string(Level level);

struct EventInfo {
  uint64_t id;        // hash_text(name): no central list, the same in every build
  const char* name;
  const char* text;   // fmt-style template
  Level level;
};

struct TraceRecord {
  const EventInfo* info = nullptr;
  Monotonic at;
  uint8_t count = 0;
  std::array<uint64_t, 6> values{};
  std::string_view text;  // borrowed for the call
  template <class Event> bool is() const { return info->id == Event::kInfo.id; }
  std::string describe() const;  // the template filled in
};

// Gets every event as it is noted: the driver's log or the simulator's oracles.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  virtual void on_event(const TraceRecord& record) = 0;
};

class Trace {
 public:
  explicit Trace(TraceSink* sink = nullptr, size_t ring_records = 64) : sink_(sink), ring_(ring_records) {}
  // Set by whoever makes the step, before it.
  void begin_step(const Moment& now) { at_ = now.monotonic; ++step_; }
  template <class Event> void note(const Event& event) {
    TraceRecord record;
    record.info = &Event::kInfo;
    record.at = at_;
    const auto values = event.values();
    static_assert(values.size() <= 6);
    record.count = static_cast<uint8_t>(values.size());
    for (size_t i = 0; i < values.size(); ++i) record.values[i] = static_cast<uint64_t>(values[i]);
    if constexpr (requires { event.text(); }) record.text = event.text();
    add(record);
  }
  uint64_t step_hash() const { return hash_; }
  uint64_t step() const { return step_; }
  // The last events, oldest first, one a line: for crash reports.
  std::string recent() const;

 private:
  void add(const TraceRecord& record);
  struct Kept { TraceRecord record; std::string text; };
  TraceSink* sink_;
  std::vector<Kept> ring_;
  uint64_t noted_ = 0;
  uint64_t hash_ = 0x46756C6D6172u;
  uint64_t step_ = 0;
  Monotonic at_;
};

#define FULMAR_EVENT(Name, LevelName, template_text) \
  static constexpr ::fulmar::EventInfo kInfo { ::fulmar::hash_text(#Name), #Name, template_text, ::fulmar::Level::LevelName }

}  // namespace fulmar
