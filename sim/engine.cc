#include "sim/engine.h"

#include "core/base/crc32.h"

namespace fulmar::sim {

void Engine::mix_bytes(Bytes bytes) { mix(mix64(bytes.size(), crc32(bytes))); }

void Engine::fail(std::string_view oracle, std::string sentence) {
  // The first is the one to explain; the rest of the run is its shadow, but a few are kept to tell.
  if (failures.size() >= 16) return;
  failures.push_back({std::string(oracle), std::move(sentence), now(), schedule.events_run()});
  const Failure& failure = failures.back();
  const std::string name = failure.oracle, text = failure.sentence;
  tell_observers([&](WorldObserver& o) { o.on_failure(world, name, text); });
}

const char* to_string(LifeChange change) {
  switch (change) {
    case LifeChange::Started: return "started";
    case LifeChange::Stopped: return "stopped";
    case LifeChange::Halted: return "halted";
    case LifeChange::Killed: return "killed";
    case LifeChange::Paused: return "paused";
    case LifeChange::Resumed: return "resumed";
  }
  return "?";
}

}  // namespace fulmar::sim
