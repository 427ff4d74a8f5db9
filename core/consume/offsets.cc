#include "core/consume/offsets.h"

#include "core/base/marks.h"
#include "core/store/owners.h"

namespace fulmar {

namespace {
constexpr TimerId kTimer{uint64_t{owner::kCommits} << 56};
constexpr size_t kBatchMax = 4096;   // keys of one round of appending
}  // namespace

bool Commits::commit(Ctx& ctx, OffsetKey key, QueueOffset offset, bool needs_flush, const Asker& asker) {
  if (waiting_ >= capacity_) return false;
  auto [it, is_new] = pending_.try_emplace(std::move(key));
  Pending& pending = it->second;
  if (is_new) {
    pending.since = ctx.now.monotonic;
    const auto recent = recent_.find(it->first);
    const bool is_held = recent != recent_.end() && recent->second + limits::kCommitInterval > ctx.now.monotonic;
    SOMETIMES("commits: held for the rest of a second", is_held);
    make_due(it->first, pending, is_held ? recent->second + limits::kCommitInterval : ctx.now.monotonic);
  }
  SOMETIMES("commits: several of one queue together", !is_new);
  pending.offset = offset;
  pending.waiters.push_back({asker, needs_flush});
  ++waiting_;
  arm(ctx);
  return true;
}

void Commits::pump(Ctx& ctx) {
  const Monotonic now = ctx.now.monotonic;
  while (!recent_by_age_.empty() && recent_by_age_.begin()->first + limits::kCommitInterval <= now) {
    recent_.erase(recent_by_age_.begin()->second);
    recent_by_age_.erase(recent_by_age_.begin());
  }
  while (!due_.empty() && due_.begin()->first <= now) {
    std::vector<std::pair<OffsetKey, QueueOffset>> batch;
    size_t count = 0;
    for (auto it = due_.begin(); it != due_.end() && it->first <= now && count < kBatchMax; ++it, ++count) {
      const Pending& pending = pending_.at(it->second);
      if (it->first > pending.since && MUTANT(CommitNotAppended)) continue;
      batch.emplace_back(it->second, pending.offset);
    }
    const Result<Appended> appended = batch.empty() ? Result<Appended>(Appended{}) : meta_.set_offsets(ctx, batch);
    const bool is_passing = !appended && (appended.code() == Errc::LogRolling || appended.code() == Errc::UnflushedLimit);
    const Result<void> outcome = appended ? Result<void>() : Result<void>(appended.error());
    for (; count > 0; --count) {
      const OffsetKey key = due_.begin()->second;
      due_.erase(due_.begin());
      const auto found = pending_.find(key);
      CHECK(found != pending_.end());
      if (is_passing && now - found->second.since < limits::kCommitPatience) {
        make_due(key, found->second, now + limits::kCommitRetry);
        continue;
      }
      settle(found->second, appended ? appended->end : PhysicalOffset(), outcome);
      pending_.erase(found);
      if (appended && recent_.try_emplace(key, now).second) recent_by_age_.emplace(now, key);
    }
    SOMETIMES("commits: wait for their place in the log", is_passing);
  }
  arm(ctx);
}

void Commits::forget(const OffsetKey& key) {
  const auto found = pending_.find(key);
  if (found == pending_.end()) return;
  SOMETIMES("commits: held ones of a group that was moved", true);
  settle(found->second, PhysicalOffset(), {});
  due_.erase({found->second.due, key});
  pending_.erase(found);
}

void Commits::hurry(Ctx& ctx) {
  due_.clear();
  for (auto& [key, pending] : pending_) make_due(key, pending, ctx.now.monotonic);
  arm(ctx);
}

void Commits::settle(Pending& pending, PhysicalOffset end, const Result<void>& outcome) {
  for (const Waiter& waiter : pending.waiters) settled_.push_back({waiter.asker, waiter.needs_flush, end, outcome});
  waiting_ -= static_cast<uint32_t>(pending.waiters.size());
}

void Commits::make_due(const OffsetKey& key, Pending& pending, Monotonic at) {
  pending.due = at;
  due_.emplace(at, key);
}

void Commits::arm(Ctx& ctx) { ctx.timers.set(kTimer, due_.empty() ? Monotonic::never() : due_.begin()->first); }

}  // namespace fulmar
