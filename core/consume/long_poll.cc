#include "core/consume/long_poll.h"

#include "core/base/marks.h"
#include "core/store/owners.h"

namespace fulmar {

namespace {
constexpr TimerId kTimer{uint64_t{owner::kLongPoll} << 56};
}  // namespace

bool LongPoll::hold(Ctx& ctx, PullRequest& request) {
  if (held_.size() >= capacity_) return false;
  const uint64_t sequence = next_sequence_++;
  by_queue_[Key{request.topic, request.queue_id}].insert(sequence);
  by_deadline_.emplace(request.hold_until, sequence);
  if (!request.asker.is_host) by_conn_.emplace(request.asker.conn, sequence);
  held_.emplace(sequence, Held{std::move(request), ctx.now.monotonic});
  ctx.timers.set(kTimer, by_deadline_.begin()->first);
  return true;
}

// Every index names every held pull, so that taking one is one walk down each.
PullRequest LongPoll::take(uint64_t sequence) {
  const auto found = held_.find(sequence);
  CHECK(found != held_.end());
  PullRequest request = std::move(found->second.request);
  held_.erase(found);
  const auto queue = by_queue_.find(Key{request.topic, request.queue_id});
  CHECK(queue != by_queue_.end());
  queue->second.erase(sequence);
  if (queue->second.empty()) by_queue_.erase(queue);
  by_deadline_.erase({request.hold_until, sequence});
  by_conn_.erase({request.asker.conn, sequence});
  return request;
}

void LongPoll::on_arrival(Ctx& ctx, const Arrival& arrival, std::vector<PullRequest>& out) {
  const auto found = by_queue_.find(Key{arrival.topic, arrival.queue_id.value()});
  if (found == by_queue_.end()) return;
  std::vector<uint64_t> woken;
  for (const uint64_t sequence : found->second) {
    const Held& held = held_.at(sequence);
    const bool is_new = held.since == ctx.now.monotonic;   // parked in this very step
    SOMETIMES("long poll: arrival in the step of parking", is_new);
    if (is_new && MUTANT(LongPollLosesArrival)) continue;
    if (arrival.max > held.request.scanned_to) woken.push_back(sequence);
  }
  for (const uint64_t sequence : woken) out.push_back(take(sequence));
}

void LongPoll::take_due(Ctx& ctx, std::vector<PullRequest>& out) {
  while (!by_deadline_.empty() && by_deadline_.begin()->first <= ctx.now.monotonic) out.push_back(take(by_deadline_.begin()->second));
  ctx.timers.set(kTimer, by_deadline_.empty() ? Monotonic::never() : by_deadline_.begin()->first);
}

void LongPoll::take_topic(std::string_view topic, std::vector<PullRequest>& out) {
  std::vector<uint64_t> gone;
  for (auto it = by_queue_.lower_bound(Key{std::string(topic), INT32_MIN}); it != by_queue_.end() && it->first.topic == topic; ++it)
    gone.insert(gone.end(), it->second.begin(), it->second.end());
  for (const uint64_t sequence : gone) out.push_back(take(sequence));
}

void LongPoll::take_group(std::string_view group, std::string_view topic, int32_t queue_id, std::vector<PullRequest>& out) {
  const auto found = by_queue_.find(Key{std::string(topic), queue_id});
  if (found == by_queue_.end()) return;
  std::vector<uint64_t> moved;
  for (const uint64_t sequence : found->second)
    if (held_.at(sequence).request.group == group) moved.push_back(sequence);
  for (const uint64_t sequence : moved) out.push_back(take(sequence));
}

void LongPoll::take_all(std::vector<PullRequest>& out) {
  while (!held_.empty()) out.push_back(take(held_.begin()->first));
}

void LongPoll::drop(ConnId conn) {
  for (auto it = by_conn_.lower_bound({conn, 0}); it != by_conn_.end() && it->first == conn; it = by_conn_.lower_bound({conn, 0})) take(it->second);
}

}  // namespace fulmar
