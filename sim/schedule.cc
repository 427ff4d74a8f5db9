#include "sim/schedule.h"

#include <algorithm>
#include <tuple>

namespace fulmar::sim {

bool Schedule::later(const Event& a, const Event& b) {
  return std::tie(a.at, a.kind, a.tie, a.sequence) > std::tie(b.at, b.kind, b.tie, b.sequence);
}

void Schedule::add(SimTime at, EventClass kind, EventHandler& handler, uint64_t what, uint64_t argument) {
  if (at == SimTime::never()) return;
  const uint64_t tie = draw(seed_, Domain::TieBreak, handler.entity_, handler.scheduled_++);
  heap_.push_back({std::max(at, now_), kind, tie, sequence_++, &handler, what, argument});
  std::push_heap(heap_.begin(), heap_.end(), later);
}

bool Schedule::run_one(SimTime until) {
  if (heap_.empty() || heap_.front().at > until) {
    now_ = std::max(now_, until);
    return false;
  }
  std::pop_heap(heap_.begin(), heap_.end(), later);
  const Event event = heap_.back();
  heap_.pop_back();
  now_ = event.at;
  ++events_run_;
  event.handler->on_event(event.what, event.argument);
  return true;
}

}  // namespace fulmar::sim
