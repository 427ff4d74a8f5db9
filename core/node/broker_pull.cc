// Pulls, long polls, queries, and committed offsets.

#include "core/base/marks.h"
#include "core/node/broker.h"
#include "core/node/broker_events.h"

namespace fulmar {

std::optional<Refusal> Broker::find_queue(std::string_view topic, int32_t queue_id) {
  const TopicConfig* config = store_.meta().topic(topic);
  if (config == nullptr) return Refusal{Code::TopicNotExist, fmt::format("there is no topic '{}'", topic.substr(0, 255)), "", 0};
  const int32_t queues = std::max(config->read_queues, config->write_queues);
  if (queue_id < 0 || queue_id >= queues) return Refusal{Code::InvalidParameter, fmt::format("topic '{}' has no queue {}", topic, queue_id), fmt::format("{} queues", queues), 0};
  return std::nullopt;
}

// --- pull ---------------------------------------------------------------------------------------------------------------------------

void Broker::on_pull(Ctx& ctx, const Asker& asker, const command::PullMessages& c) {
  if (const auto name = check_group_name(c.group); !name) return refuse(ctx, asker, {Code::InvalidParameter, name.error().detail, "", 0});
  if (auto refusal = find_queue(c.topic, c.queue_id)) return refuse(ctx, asker, std::move(*refusal));
  const TopicConfig* config = store_.meta().topic(c.topic);
  if ((config->perm & kPermRead) == 0) return refuse(ctx, asker, {Code::NoPermission, fmt::format("topic '{}' gives no messages", c.topic), fmt::format("perm {}", config->perm), 0});
  if (c.offset.value() < 0) return refuse(ctx, asker, {Code::InvalidParameter, "the offset is negative", fmt::format("offset {}", c.offset), 0});
  if (const GroupConfig* group = store_.meta().group(c.group); group != nullptr && !group->is_consume_enabled)
    return refuse(ctx, asker, {Code::NoPermission, fmt::format("group '{}' may not consume", c.group), "consumeEnable=false", 0});
  if (!resets_.empty() && answer_moved(ctx, asker, c)) return;
  std::string_view expression = c.subscription;
  if (asker.is_remoting && expression.empty()) {   // RocketMQ's push consumers say it in their heartbeats only
    const std::string* registered = groups_.expression(asker.conn, c.group, c.topic);
    if (registered == nullptr)
      return refuse(ctx, asker, {Code::SubscriptionNotExist, fmt::format("no member of group '{}' subscribes to topic '{}'", c.group, c.topic),
                                 fmt::format("{} members", groups_.member_count(c.group)), 0});
    expression = *registered;
  }
  Result<TagFilter> filter = TagFilter::parse(expression);
  if (!filter) return refuse(ctx, asker, {Code::SubscriptionParseFailed, filter.error().detail, "", 0});
  PullRequest request;
  request.group = c.group;
  request.topic = c.topic;
  request.queue_id = c.queue_id;
  request.offset = c.offset;
  request.count_max = std::clamp(c.count_max, 1, limits::kPullCountMax);
  request.bytes_max = static_cast<uint64_t>(std::max(c.bytes_max, 1));
  request.filter = std::move(*filter);
  request.asker = asker;
  if (c.suspend_ms > 0) request.hold_until = ctx.now.monotonic + std::min(Duration::milliseconds(c.suspend_ms), limits::kSuspendMax);
  run_pull(ctx, std::move(request), false);
}

// `is_again`: it has been held, or waited for the disk or for room.
void Broker::run_pull(Ctx& ctx, PullRequest request, bool is_again) {
  const Asker asker = request.asker;
  if (is_again && store_.meta().topic(request.topic) == nullptr)
    return refuse(ctx, asker, {Code::TopicNotExist, fmt::format("topic '{}' was deleted", request.topic), "", 0});
  if (!asker.is_host && !endpoint_.has_room_for_slices(asker.conn, 1)) return wait_for_room(ctx, std::move(request));
  const Result<std::optional<PullAnswer>> result = pulls_.run(ctx, request, store_.holes());
  if (!result && result.code() == Errc::StoreDamaged) return refuse(ctx, asker, {Code::SystemError, result.error().detail, fmt::format("{} queues are broken", store_.queues().broken_count()), 0});
  if (!result) return refuse(ctx, asker, {Code::SystemBusy, "too many pulls wait for the disk", result.error().detail, 100});
  if (!result->has_value()) return;   // it has asked the disk for what it needs
  const PullAnswer& found = **result;
  if (found.count > 0 && !asker.is_host && !endpoint_.has_room_for_slices(asker.conn, found.bytes)) {
    request.scanned_to = request.offset;
    return wait_for_room(ctx, std::move(request));
  }
  // A held pull that saw only messages of other tags goes on waiting behind them; at its deadline it says how far it came.
  const bool is_empty = found.code == Code::PullNotFound || (is_again && found.code == Code::PullRetryImmediately && found.next == found.max);
  if (is_empty && request.hold_until > ctx.now.monotonic && state_ == State::Running) {
    if (long_poll_.hold(ctx, request)) return;
    SOMETIMES("broker: no more pulls can be held", true);
  }
  answer_pull(ctx, request, found);
}

void Broker::answer_pull(Ctx& ctx, const PullRequest& request, const PullAnswer& found) {
  totals_.got_messages += static_cast<uint64_t>(found.count);
  totals_.got_bytes += found.bytes;
  if (found.count > 0) traffic_.given(request.topic, request.group, request.queue_id, found.next, static_cast<uint64_t>(found.count), found.bytes);
  reply::Pulled pulled;
  pulled.code = found.code;
  pulled.next = found.next;
  pulled.min = found.min;
  pulled.max = found.max;
  pulled.count = found.count;
  answer_with_records(ctx, request.asker, std::move(pulled), found.slices);
}

// Slices go to a connection as they are; the host gets a copy of the bytes.
template <class R>
void Broker::answer_with_records(Ctx& ctx, const Asker& asker, R reply, std::span<const FileSlice> slices) {
  if (!asker.is_host) return endpoint_.reply_with_slices(RequestRef{asker.conn, asker.opaque, asker.is_one_way, asker.is_remoting}, Reply(std::move(reply)), slices);
  for (const FileSlice& slice : slices) {
    const Bytes bytes = ctx.files.at(slice.file).view(slice.range);
    reply.records.insert(reply.records.end(), bytes.begin(), bytes.end());
  }
  ctx.out.tell(asker.call, Reply(std::move(reply)));
}

void Broker::answer_held(Ctx& ctx, const PullRequest& request) {
  const QueueRange range = store_.queues().range(request.topic, QueueId(request.queue_id));
  PullAnswer nothing;
  nothing.code = request.scanned_to > request.offset ? Code::PullRetryImmediately : Code::PullNotFound;
  nothing.next = std::max(request.scanned_to, request.offset);
  nothing.min = range.min;
  nothing.max = range.max;
  answer_pull(ctx, request, nothing);
}

void Broker::wait_for_room(Ctx& ctx, PullRequest request) {
  if (room_count_ >= limits::kRoomPullsMax)
    return refuse(ctx, request.asker, {Code::SystemBusy, "too many pulls wait for connections that do not read", fmt::format("{} wait", room_count_), 100});
  SOMETIMES("broker: a pull waits for its connection", true);
  ++room_count_;
  const ConnId conn = request.asker.conn;
  room_[conn].push_back(std::move(request));
}

void Broker::pump_room(Ctx& ctx) {
  if (!std::exchange(is_room_made_, false)) return;
  std::vector<PullRequest> ready;
  for (auto it = room_.begin(); it != room_.end();) {
    if (!endpoint_.has_room_for_slices(it->first, 1)) { ++it; continue; }
    for (PullRequest& request : it->second) ready.push_back(std::move(request));
    it = room_.erase(it);
  }
  room_count_ -= static_cast<uint32_t>(ready.size());
  for (PullRequest& request : ready) run_pull(ctx, std::move(request), true);
}

void Broker::pump_pulls(Ctx& ctx) {
  for (const uint64_t token : store_.queues().take_ready()) {
    if (Searches::is_mine(token)) searches_.on_fetched(token, {});
    else pulls_.on_queue_ready(token);
  }
  for (const uint64_t token : store_.index().take_ready()) queries_.on_index_ready(token);
  for (const Warmed& warmed : store_.take_warmed()) {
    if (warmed.token.who == WarmFor::Pull && Searches::is_mine(warmed.token.what)) searches_.on_fetched(warmed.token.what, warmed.outcome);
    else if (warmed.token.who == WarmFor::Pull) pulls_.on_warmed(warmed);
    else queries_.on_warmed(warmed);
  }
  for (Pulls::Retry& retry : pulls_.take_ready()) {
    if (retry.outcome) run_pull(ctx, std::move(retry.request), true);
    else refuse(ctx, retry.request.asker, {Code::SystemError, "the disk cannot read what this pull needs", retry.outcome.error().text(), 1000});
  }
  for (Queries::Retry& retry : queries_.take_ready()) {
    if (retry.outcome) run_query(ctx, std::move(retry.query));
    else refuse(ctx, retry.query.asker, {Code::SystemError, "the disk cannot read what this query needs", retry.outcome.error().text(), 1000});
  }
  for (Searches::Retry& retry : searches_.take_ready()) {
    if (retry.outcome) run_search(ctx, std::move(retry.search));
    else refuse(ctx, retry.search.asker, {Code::SystemError, "the disk cannot read what this search needs", retry.outcome.error().text(), 1000});
  }
  std::vector<PullRequest> woken;
  for (const Arrival& arrival : store_.queues().take_arrivals()) long_poll_.on_arrival(ctx, arrival, woken);
  SOMETIMES("broker: a held pull is woken", !woken.empty());
  for (PullRequest& request : woken) run_pull(ctx, std::move(request), true);
  std::vector<PullRequest> due;
  long_poll_.take_due(ctx, due);
  for (const PullRequest& request : due) answer_held(ctx, request);
  pump_room(ctx);
}

void Broker::refuse_waiting(Ctx& ctx) {
  std::vector<PullRequest> held;
  long_poll_.take_all(held);
  for (const PullRequest& request : held) answer_held(ctx, request);
  std::vector<Asker> askers = pulls_.take_askers();
  for (const Asker& asker : queries_.take_askers()) askers.push_back(asker);
  for (const Asker& asker : searches_.take_askers()) askers.push_back(asker);
  groups_.answer_all(ctx);
  for (auto& [conn, requests] : room_)
    for (const PullRequest& request : requests) askers.push_back(request.asker);
  room_.clear();
  room_count_ = 0;
  for (const Asker& asker : askers) refuse(ctx, asker, store_.refusal(Error(Errc::Stopping, "the broker is stopping")));
}

// --- queries ------------------------------------------------------------------------------------------------------------------------

void Broker::on_query(Ctx& ctx, const Asker& asker, MessageQuery query) {
  query.asker = asker;
  run_query(ctx, std::move(query));
}

void Broker::run_query(Ctx& ctx, MessageQuery query) {
  const Asker asker = query.asker;
  Result<std::optional<QueryAnswer>> result = queries_.run(ctx, query);
  if (!result) {
    if (result.code() == Errc::NotFound) return refuse(ctx, asker, {Code::QueryNotFound, result.error().detail, fmt::format("log [{}, {})", store_.watermarks().begin, store_.watermarks().dispatched), 0});
    return refuse(ctx, asker, {Code::SystemBusy, "too many queries wait for the disk", result.error().detail, 200});
  }
  if (!result->has_value()) return ctx.out.step_again();
  reply::Messages messages;
  messages.count = (*result)->count;
  messages.records = std::move((*result)->records);
  answer(ctx, asker, std::move(messages));
}

// --- committed offsets --------------------------------------------------------------------------------------------------------------

void Broker::on_commit(Ctx& ctx, const Asker& asker, const command::CommitOffset& c) {
  if (const auto name = check_group_name(c.group); !name) return refuse(ctx, asker, {Code::InvalidParameter, name.error().detail, "", 0});
  if (auto refusal = find_queue(c.topic, c.queue_id)) return refuse(ctx, asker, std::move(*refusal));
  const QueueRange range = store_.queues().range(c.topic, QueueId(c.queue_id));
  if (c.offset.value() < 0 || c.offset > range.max)
    return refuse(ctx, asker, {Code::InvalidParameter, "the offset lies outside the queue", fmt::format("offset {}, queue [{}, {}]", c.offset, range.min, range.max), 0});
  const OffsetKey key{std::string(c.group), std::string(c.topic), c.queue_id};
  if (resets_.contains(key)) {
    SOMETIMES("broker: a commit of a group that was moved is ignored", true);
    return answer(ctx, asker, reply::Ok{});
  }
  if (c.needs_flush)
    if (auto refusal = check_gate(flush_gate_)) return refuse(ctx, asker, std::move(*refusal));
  if (!commits_.commit(ctx, key, c.offset, c.needs_flush, asker))
    refuse(ctx, asker, {Code::SystemBusy, "too many commits wait", fmt::format("{} wait", commits_.waiting_count()), 1000});
}

void Broker::pump_commits(Ctx& ctx) {
  for (const Commits::Settled& settled : commits_.take_settled()) {
    if (!settled.outcome) refuse(ctx, settled.asker, store_.refusal(settled.outcome.error()));
    else if (settled.needs_flush) answer_when_flushed(ctx, settled.asker, settled.end);
    else answer(ctx, settled.asker, reply::Ok{});
  }
}

}  // namespace fulmar
