#include "core/base/timers.h"

namespace fulmar {

void Timers::set(TimerId id, Monotonic at) {
  cancel(id);
  if (at == Monotonic::never()) return;
  const Key key{at, sequence_++};
  due_.emplace(key, id);
  keys_.emplace(id, key);
}

void Timers::cancel(TimerId id) {
  const auto found = keys_.find(id);
  if (found == keys_.end()) return;
  due_.erase(found->second);
  keys_.erase(found);
}

std::optional<TimerId> Timers::pop_due(Monotonic now) {
  if (due_.empty() || due_.begin()->first.at > now) return std::nullopt;
  const TimerId id = due_.begin()->second;
  due_.erase(due_.begin());
  keys_.erase(id);
  return id;
}

Monotonic Timers::next() const { return due_.empty() ? Monotonic::never() : due_.begin()->first.at; }

}  // namespace fulmar
