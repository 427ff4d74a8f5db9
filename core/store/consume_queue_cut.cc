// Where queues begin once the log begins later, and the files that nobody needs then.

#include "core/store/consume_queue_impl.h"

namespace fulmar {

namespace {

// Reads of the measuring, told from those of pulls by what no slot of theirs has.
constexpr uint64_t kCutTokens = 0xFFFF'FF00'0000'0000;
bool is_cut_token(uint64_t token) { return token >= kCutTokens && token != UINT64_MAX; }

}  // namespace

void ConsumeQueues::begin_cut(Ctx& ctx, PhysicalOffset cut) {
  impl_->cut = cut;
  impl_->is_cutting = true;
  impl_->cut_jobs.clear();
  impl_->cut_next = 0;
  ctx.out.step_again();
}

bool ConsumeQueues::is_cut_measured() const { return impl_->is_cutting && impl_->cut_jobs.empty() && impl_->cut_next == impl_->queues.size(); }

void ConsumeQueues::Impl::take_cut_tokens() {
  std::erase_if(ready, [&](uint64_t token) {
    if (!is_cut_token(token)) return false;
    const auto job = cut_jobs.find(static_cast<uint32_t>(token));
    if (job != cut_jobs.end()) job->second.is_waiting = false;
    return true;
  });
}

void ConsumeQueues::Impl::pump_cut(Ctx& ctx, ConsumeQueues& self) {
  if (!is_cutting) return;
  take_cut_tokens();
  uint32_t started = 0;
  while (cut_next < queues.size() && cut_jobs.size() < static_cast<size_t>(limits::kQueueFilesBusyMax)) {
    if (started++ == limits::kDispatchRecordsPerStep) return ctx.out.step_again();
    QueueState& q = *queues[cut_next++];
    q.cut_min = q.min;
    const bool begins_behind = q.first_at_index == q.min && q.first_at >= cut;
    if (q.min == q.max || begins_behind) continue;
    cut_jobs.emplace(q.index, CutJob{q.min, q.max, false});
  }
  for (auto it = cut_jobs.begin(); it != cut_jobs.end();) {
    QueueState& q = *queues[it->first];
    if (it->second.is_waiting || !step_cut(ctx, self, q, it->second)) { ++it; continue; }
    q.cut_min = it->second.low;
    it = cut_jobs.erase(it);
    ctx.out.step_again();   // the next one begins, or the measuring is done
  }
}

// Places in the log rise along a queue.
bool ConsumeQueues::Impl::step_cut(Ctx& ctx, ConsumeQueues& self, QueueState& q, CutJob& job) {
  // A topic was deleted meanwhile.
  job.low = std::max(job.low, q.min);
  while (job.low < job.high) {
    // Most queues keep all they have, or lose a little.
    const int64_t middle = job.low == q.min ? job.low : job.low + (job.high - job.low) / 2;
    cut_entries.clear();
    if (!self.read(ctx, *q.topic, QueueId(q.id), QueueOffset(middle), EntryCount(1), kCutTokens | q.index, cut_entries)) {
      job.is_waiting = true;
      return false;
    }
    // What cannot be read bounds the search: the queue begins no later than there.
    if (cut_entries.empty()) break;
    const QueueEntry& entry = cut_entries.front();
    const bool is_dead = entry.bytes == 0 || entry.bytes == kPreBlankBytes || entry.at < cut;
    if (!is_dead) {
      q.first_at_index = middle;
      q.first_at = entry.at;
    }
    (is_dead ? job.low : job.high) = is_dead ? middle + 1 : middle;
  }
  return true;
}

void ConsumeQueues::for_each_cut(const std::function<void(const Cut&)>& visit) const {
  for (const auto& [topic, list] : impl_->topics)
    for (const auto& [id, index] : list.queues) {
      const QueueState& q = *impl_->queues[index];
      const int64_t new_min = std::max(q.min, q.cut_min);
      if (q.max > 0) visit({topic, QueueId(id), QueueOffset(q.min), QueueOffset(new_min), QueueOffset(q.max), q.next == q.max});
    }
}

uint64_t ConsumeQueues::apply_cut() {
  uint64_t gone = 0;
  for (auto& q : impl_->queues) {
    // Entries that lead nowhere may be younger than what is durable.
    const int64_t new_min = std::max(q->min, std::min(q->cut_min, q->stored));
    if (new_min == q->min || MUTANT(RetentionMinStays)) continue;
    gone += static_cast<uint64_t>(new_min - q->min);
    q->min = new_min;
  }
  impl_->entries -= gone;
  return gone;
}

// Whole files; the last one stays, for it says where the queue goes on.
void ConsumeQueues::remove_behind_cut() {
  impl_->is_cutting = false;
  for (auto& q : impl_->queues) {
    size_t count = 0;
    while (count + 1 < q->files.size() && impl_->first_index(q->files[count] + impl_->options.file_bytes) <= q->min) ++count;
    for (size_t i = 0; i < count; ++i) impl_->old_files.push_back({q->index, q->files[i]});
    q->files.erase(q->files.begin(), q->files.begin() + static_cast<ptrdiff_t>(count));
  }
  SOMETIMES("store: files of a queue go with the log", !impl_->old_files.empty());
}

void ConsumeQueues::Impl::pump_old_files(Ctx& ctx) {
  if (!may_remove) return;   // a table on the disk may name them
  for (size_t left = old_files.size(); left > 0 && old_files_out < static_cast<size_t>(limits::kQueueFilesBusyMax); --left) {
    const FileKey key = old_files.front();
    old_files.pop_front();
    const auto it = open_files.find(key);
    if (it != open_files.end() && (it->second.busy != 0 || !it->second.waiting.empty())) {
      old_files.push_back(key);   // its answers come home first
      continue;
    }
    if (it != open_files.end()) close(ctx, it);
    ++old_files_out;
    const Ticket ticket = tickets.issue({What::RemoveOld, key.queue, key.start, 0, {}});
    ctx.out.remove(ticket, path(*queues[key.queue], key.start));
  }
}

}  // namespace fulmar
