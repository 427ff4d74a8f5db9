// Groups: who is a member, what a group is, and where it is moved to.

#include <algorithm>

#include "core/base/marks.h"
#include "core/node/broker.h"
#include "core/node/broker_events.h"

namespace fulmar {

namespace {
Refusal no_group(std::string_view group) { return {Code::SubscriptionGroupNotExist, fmt::format("there is no group '{}'", group.substr(0, 255)), "", 0}; }
}  // namespace

// --- members ----------------------------------------------------------------------------------------------------------------------------

void Broker::on_heartbeat(Ctx& ctx, const Asker& asker, const command::Heartbeat& c) {
  const GroupConfig* config = store_.meta().group(c.group);
  if (config != nullptr && c.model == GroupModel::Broadcasting && !config->is_broadcast_enabled)
    return refuse(ctx, asker, {Code::NoPermission, fmt::format("group '{}' may not consume by broadcasting", c.group), "consumeBroadcastEnable=false", 0});
  if (config != nullptr && !config->is_consume_enabled)
    return refuse(ctx, asker, {Code::NoPermission, fmt::format("group '{}' may not consume", c.group), "consumeEnable=false", 0});
  const Peer* peer = asker.is_host ? nullptr : endpoint_.peer(asker.conn);
  groups_.on_heartbeat(ctx, asker, peer == nullptr ? std::string() : peer->remote.text(), c);
}

void Broker::pump_groups(Ctx& ctx) {
  groups_.pump(ctx);
  for (Groups::Answer& one : groups_.take_answers()) {
    if (auto* refusal = std::get_if<Refusal>(&one.reply)) refuse(ctx, one.asker, std::move(*refusal));
    else answer(ctx, one.asker, one.reply);
  }
  for (const Groups::Push& one : groups_.take_pushes()) {
    const GroupConfig* config = store_.meta().group(one.group);
    if (config == nullptr || config->is_notified) endpoint_.tell_group_changed(one.conn, one.group);
  }
}

// --- groups -----------------------------------------------------------------------------------------------------------------------------

// Groups that somebody has made, that have committed something, or that have members now.
void Broker::on_list_groups(Ctx& ctx, const Asker& asker, const command::ListGroups& c) {
  const size_t count = static_cast<size_t>(std::clamp(c.count_max, 1, limits::kGroupPageMax));
  reply::Groups groups;
  for (std::string after(c.after); groups.groups.size() <= count;) {
    std::optional<std::string> next = store_.meta().next_group(after);
    const std::string* member = groups_.next_group(after);
    if (member != nullptr && (!next || *member < *next)) next = *member;
    if (!next) break;
    after = *next;
    groups.groups.push_back({*next, groups_.model(*next), static_cast<int32_t>(groups_.member_count(*next)), store_.meta().group(*next) != nullptr});
  }
  groups.has_more = groups.groups.size() > count;
  if (groups.has_more) groups.groups.pop_back();
  answer(ctx, asker, std::move(groups));
}

void Broker::on_describe_group(Ctx& ctx, const Asker& asker, const command::DescribeGroup& c) {
  const Meta& meta = store_.meta();
  const GroupConfig* config = meta.group(c.group);
  const std::vector<std::pair<OffsetKey, QueueOffset>> offsets = meta.offsets_of(c.group, limits::kGroupQueuesMax);
  if (config == nullptr && offsets.empty() && !groups_.has_members(c.group)) return refuse(ctx, asker, no_group(c.group));
  reply::Group group;
  if (config != nullptr) group.config = *config;
  group.config.name = c.group;
  group.is_configured = config != nullptr;
  group.members = groups_.members(c.group);
  group.conflict = groups_.conflict(c.group);
  std::map<std::pair<std::string, int32_t>, QueueOffset> queues;   // what was committed; -1 for what is only subscribed to
  for (const auto& [key, offset] : offsets) queues.emplace(std::pair(key.topic, key.queue_id), offset);
  for (const std::string& topic : groups_.topics(c.group)) {
    const TopicConfig* topic_config = meta.topic(topic);
    for (int32_t queue = 0; topic_config != nullptr && queue < topic_config->read_queues; ++queue) queues.emplace(std::pair(topic, queue), QueueOffset(-1));
  }
  for (const auto& [at, committed] : queues) {
    if (group.queues.size() >= limits::kGroupQueuesMax) break;
    const QueueRange range = store_.queues().range(at.first, QueueId(at.second));
    group.queues.push_back({at.first, at.second, committed, range.min, range.max});
  }
  answer(ctx, asker, std::move(group));
}

void Broker::on_create_group(Ctx& ctx, const Asker& asker, const command::CreateGroup& c) {
  const GroupConfig& config = c.config;
  if (const auto name = check_group_name(config.name); !name) return refuse(ctx, asker, {Code::InvalidParameter, name.error().detail, "", 0});
  if (config.retry_max < -1)
    return refuse(ctx, asker, {Code::InvalidParameter, "retryMaxTimes is out of range", fmt::format("{}, allowed -1 (for ever) and above", config.retry_max), 0});
  if (config.retry_queues < 0 || config.retry_queues > limits::kTopicQueuesMax)
    return refuse(ctx, asker, {Code::InvalidParameter, "retryQueueNums is out of range",
                               fmt::format("{}, allowed 0 to {}", config.retry_queues, limits::kTopicQueuesMax), 0});
  if (auto refusal = check_gate(flush_gate_)) return refuse(ctx, asker, std::move(*refusal));
  const Result<Appended> appended = store_.meta().set_group(ctx, config);
  if (!appended) return refuse(ctx, asker, store_.refusal(appended.error()));
  answer_when_flushed(ctx, asker, appended->end);
}

void Broker::on_delete_group(Ctx& ctx, const Asker& asker, const command::DeleteGroup& c) {
  const std::string group(c.group);
  if (groups_.has_members(group))
    return refuse(ctx, asker, {Code::SystemBusy, fmt::format("group '{}' has members; stop them first", group),
                               fmt::format("{} members", groups_.member_count(group)), 0});
  if (auto refusal = check_gate(flush_gate_)) return refuse(ctx, asker, std::move(*refusal));
  // What it has committed and what is still to be appended goes, too.
  for (const auto& [key, offset] : store_.meta().offsets_of(group, SIZE_MAX)) commits_.forget(key);
  const Result<Appended> appended = store_.meta().remove_group(ctx, group);
  if (!appended && appended.code() == Errc::NotFound) return refuse(ctx, asker, no_group(group));
  if (!appended) return refuse(ctx, asker, store_.refusal(appended.error()));
  for (auto it = resets_.lower_bound(OffsetKey{group, {}, INT32_MIN}); it != resets_.end() && it->first.group == group;) it = resets_.erase(it);
  answer_when_flushed(ctx, asker, appended->end);
}

// --- offsets by time, and groups that are moved -----------------------------------------------------------------------------------------

void Broker::on_search_offset(Ctx& ctx, const Asker& asker, const command::SearchOffset& c) {
  if (auto refusal = find_queue(c.topic, c.queue_id)) return refuse(ctx, asker, std::move(*refusal));
  OffsetSearch search;
  search.topic = c.topic;
  search.queues = {c.queue_id};
  search.stamp = c.stamp;
  search.asker = asker;
  run_search(ctx, std::move(search));
}

void Broker::on_reset_offset(Ctx& ctx, const Asker& asker, const command::ResetOffset& c) {
  if (const auto name = check_group_name(c.group); !name) return refuse(ctx, asker, {Code::InvalidParameter, name.error().detail, "", 0});
  if (auto refusal = find_queue(c.topic, std::max(c.queue_id, 0))) return refuse(ctx, asker, std::move(*refusal));
  OffsetSearch search;
  search.group = c.group;
  search.topic = c.topic;
  search.is_dry_run = c.is_dry_run;
  search.asker = asker;
  const int32_t queues = store_.meta().topic(c.topic)->read_queues;
  for (int32_t queue = 0; queue < queues; ++queue)
    if (c.queue_id < 0 || queue == c.queue_id) search.queues.push_back(queue);
  if (search.queues.empty())
    return refuse(ctx, asker, {Code::InvalidParameter, fmt::format("queue {} of topic '{}' cannot be read", c.queue_id, c.topic),
                               fmt::format("{} readable queues", queues), 0});
  if (c.to == command::ResetOffset::To::Timestamp) {
    search.stamp = c.stamp;
    return run_search(ctx, std::move(search));
  }
  for (const int32_t queue : search.queues) {
    const QueueRange range = store_.queues().range(c.topic, QueueId(queue));
    if (c.to == command::ResetOffset::To::Offset && (c.offset < range.min || c.offset > range.max))
      return refuse(ctx, asker, {Code::InvalidParameter, "the offset lies outside the queue",
                                 fmt::format("offset {}, queue {} [{}, {}]", c.offset, queue, range.min, range.max), 0});
    search.found.push_back(c.to == command::ResetOffset::To::First ? range.min : c.to == command::ResetOffset::To::Last ? range.max : c.offset);
  }
  reset_offsets(ctx, search);
}

void Broker::run_search(Ctx& ctx, OffsetSearch search) {
  const Asker asker = search.asker;
  // A topic that was deleted while the search waited has nothing to be found.
  if (store_.meta().topic(search.topic) == nullptr)
    return refuse(ctx, asker, {Code::TopicNotExist, fmt::format("topic '{}' was deleted", search.topic), "", 0});
  const Result<bool> is_done = searches_.run(ctx, search, store_.holes());
  if (!is_done) return refuse(ctx, asker, {Code::SystemBusy, "too many searches wait for the disk", is_done.error().detail, 100});
  if (!*is_done) return;   // it has asked the disk for what it needs
  if (search.group.empty()) return answer(ctx, asker, reply::Offset{search.found.front()});
  reset_offsets(ctx, search);
}

// The group is there from now on: what was committed before, or is committed until it pulls, counts no more (semantics.md 5.3).
void Broker::reset_offsets(Ctx& ctx, const OffsetSearch& search) {
  reply::OffsetsReset done;
  std::vector<std::pair<OffsetKey, QueueOffset>> offsets;
  for (size_t i = 0; i < search.queues.size(); ++i) {
    const OffsetKey key{search.group, search.topic, search.queues[i]};
    const QueueRange range = store_.queues().range(search.topic, QueueId(search.queues[i]));
    const QueueOffset to = std::clamp(search.found[i], range.min, range.max);
    done.queues.push_back({search.queues[i], store_.meta().offset(key).value_or(QueueOffset(-1)), to});
    offsets.emplace_back(key, to);
  }
  if (search.is_dry_run) return answer(ctx, search.asker, std::move(done));
  if (resets_.size() + offsets.size() > limits::kResetsMax)
    return refuse(ctx, search.asker, {Code::SystemBusy, "too many queues were moved and not pulled since",
                                      fmt::format("{} wait, at most {}", resets_.size(), limits::kResetsMax), 1000});
  for (const auto& [key, to] : offsets) commits_.forget(key);
  const Result<Appended> appended = store_.meta().set_offsets(ctx, offsets);
  if (!appended) return refuse(ctx, search.asker, store_.refusal(appended.error()));
  std::vector<PullRequest> held;
  for (const auto& [key, to] : offsets) {
    resets_.insert_or_assign(key, to);
    long_poll_.take_group(key.group, key.topic, key.queue_id, held);
  }
  answer(ctx, search.asker, std::move(done));
  // Who waits at the end of a queue is told at once, and pulls again.
  SOMETIMES("broker: a held pull of a group that was moved", !held.empty());
  for (const PullRequest& request : held) answer_held(ctx, request);
}

bool Broker::answer_moved(Ctx& ctx, const Asker& asker, const command::PullMessages& c) {
  const auto reset = resets_.find(OffsetKey{std::string(c.group), std::string(c.topic), c.queue_id});
  if (reset == resets_.end()) return false;
  const QueueRange range = store_.queues().range(c.topic, QueueId(c.queue_id));
  PullAnswer moved;
  moved.code = Code::PullOffsetMoved;
  moved.next = std::clamp(reset->second, range.min, range.max);
  moved.min = range.min;
  moved.max = range.max;
  resets_.erase(reset);
  if (moved.next == c.offset || MUTANT(ResetForgottenBeforePull)) return false;   // it begins there anyway
  SOMETIMES("broker: the first pull of a group that was moved", true);
  PullRequest request;
  request.asker = asker;
  answer_pull(ctx, request, moved);
  return true;
}

}  // namespace fulmar
