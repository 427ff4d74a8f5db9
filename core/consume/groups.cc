#include "core/consume/groups.h"

#include <algorithm>
#include <array>

#include "core/base/marks.h"
#include "core/base/prng.h"
#include "core/model/message.h"
#include "core/store/owners.h"

namespace fulmar {

namespace {
constexpr TimerId kTimer{uint64_t{owner::kGroups} << 56};

struct MemberJoined {
  FULMAR_EVENT(MemberJoined, Debug, "member {} joined: {}");
  uint64_t serial;
  std::string_view who;
  auto values() const { return std::array{serial}; }
  std::string_view text() const { return who; }
};
struct MemberLeft {
  FULMAR_EVENT(MemberLeft, Info, "member {} left, {} remain: {}");
  uint64_t serial, remain;
  std::string_view who;
  auto values() const { return std::array{serial, remain}; }
  std::string_view text() const { return who; }
};
struct GroupConflict {
  FULMAR_EVENT(GroupConflict, Warning, "the {} members of a group differ: {}");
  uint64_t members;
  std::string_view what;
  auto values() const { return std::array{members}; }
  std::string_view text() const { return what; }
};

const Subscription* find_topic(const std::vector<Subscription>& subscriptions, std::string_view topic) {
  const auto at = std::lower_bound(subscriptions.begin(), subscriptions.end(), topic, [](const Subscription& s, std::string_view t) { return s.topic < t; });
  return at != subscriptions.end() && at->topic == topic ? &*at : nullptr;
}

uint64_t hash_of(std::string_view client_id, GroupModel model, bool is_id_shared, const std::vector<Subscription>& subscriptions) {
  uint64_t hash = mix64(hash_text(client_id), static_cast<uint64_t>(model) << 1 | uint64_t{is_id_shared});
  for (const Subscription& s : subscriptions) hash = mix64(mix64(hash, hash_text(s.topic)), hash_text(s.expression));
  return hash;
}

size_t text_bytes_of(const command::Heartbeat& c) {
  size_t bytes = c.client_id.size() + c.group.size() + c.version.size();
  for (const Subscription& s : c.subscriptions) bytes += s.topic.size() + s.expression.size();
  return bytes;
}
}  // namespace

// 0 means "none known", so it is nobody's.
uint64_t Groups::Group::generation() const { return std::max<uint64_t>(mix64(sum, members.size()), 1); }

// --- what members say -------------------------------------------------------------------------------------------------------------------

std::optional<Refusal> Groups::check(const command::Heartbeat& c, bool is_remoting) const {
  const auto wrong = [](std::string cause, std::string measured) { return Refusal{Code::InvalidParameter, std::move(cause), std::move(measured), 0}; };
  if (const auto name = check_group_name(c.group); !name) return wrong(name.error().detail, "group");
  if (c.client_id.empty() || c.client_id.size() > limits_.client_id_bytes_max)
    return wrong("a member has a client id", fmt::format("{} bytes, 1 to {} are allowed", c.client_id.size(), limits_.client_id_bytes_max));
  if (c.version.size() > limits_.version_bytes_max)
    return wrong("the version is too long", fmt::format("{} bytes, at most {}", c.version.size(), limits_.version_bytes_max));
  // RocketMQ's clients that pull by hand are members without subscriptions.
  if ((c.subscriptions.empty() && !is_remoting) || c.subscriptions.size() > limits_.subscriptions_max)
    return wrong("a member subscribes to something", fmt::format("{} topics, 1 to {} are allowed", c.subscriptions.size(), limits_.subscriptions_max));
  const Subscription* last = nullptr;
  for (const Subscription& s : c.subscriptions) {
    if (const auto name = check_topic_name(s.topic); !name) return wrong(name.error().detail, "a subscription");
    if (last != nullptr && s.topic <= last->topic) return wrong("subscriptions are ordered by topic, each once", s.topic);
    if (s.expression.size() > limits_.expression_bytes_max)
      return wrong("the expression of a subscription is too long",
                   fmt::format("{}: {} bytes, at most {}", s.topic, s.expression.size(), limits_.expression_bytes_max));
    last = &s;
  }
  return std::nullopt;
}

std::optional<Refusal> Groups::find_room(const command::Heartbeat& c, const Member* known, size_t text_bytes) const {
  const auto full = [](std::string measured) { return Refusal{Code::SystemBusy, "this broker knows too many members of groups", std::move(measured), 1000}; };
  const size_t others = text_bytes_ - (known == nullptr ? 0 : known->text_bytes);
  if (others + text_bytes > limits_.text_bytes_max) return full(fmt::format("{} bytes of subscriptions, at most {}", others, limits_.text_bytes_max));
  if (known != nullptr) return std::nullopt;
  if (members_.size() >= limits_.members_total_max) return full(fmt::format("{} members, at most {}", members_.size(), limits_.members_total_max));
  const auto group = groups_.find(c.group);
  if (group == groups_.end() && groups_.size() >= limits_.groups_max) return full(fmt::format("{} groups, at most {}", groups_.size(), limits_.groups_max));
  if (group != groups_.end() && group->second.members.size() >= limits_.members_max)
    return full(fmt::format("{} members of this group, at most {}", group->second.members.size(), limits_.members_max));
  return std::nullopt;
}

void Groups::on_heartbeat(Ctx& ctx, const Asker& asker, std::string_view address, const command::Heartbeat& c) {
  const auto refuse = [&](Refusal refusal) { answers_.push_back({asker, std::move(refusal)}); };
  if (auto refusal = check(c, asker.is_remoting)) return refuse(std::move(*refusal));
  uint64_t serial = 0;
  Member* member = nullptr;
  if (const auto group = groups_.find(c.group); group != groups_.end()) {
    if (const auto found = group->second.members.find(c.client_id); found != group->second.members.end()) {
      serial = found->second;
      member = &members_.at(serial);
    }
  }
  const size_t text_bytes = text_bytes_of(c);
  if (auto refusal = find_room(c, member, text_bytes)) return refuse(std::move(*refusal));
  const ConnId conn = asker.is_host ? ConnId() : asker.conn;
  if (member == nullptr) member = join(ctx, c, conn, serial);
  else if (member->held) answer_held(ctx, *member, serial);   // one is held of each member
  if (conn > member->conn) {
    // It has dialled again; when its old connection is closed late, that says nothing of this one.
    SOMETIMES("groups: a member comes back on a new connection", true);
    by_conn_.erase({member->conn, serial});
    member->conn = conn;
    by_conn_.emplace(member->conn, serial);
  } else if (conn < member->conn) {
    SOMETIMES("groups: two clients share an id", true);
    member->is_id_shared = true;
  }
  member->is_remoting = asker.is_remoting;
  take_words(ctx, *member, c, address, text_bytes);
  const Duration suspend = std::min(Duration::milliseconds(c.suspend_ms), limits_.suspend_max);
  member->held = Held{asker, c.generation_known, ctx.now.monotonic + suspend};
  ++held_count_;
  set_due(*member, serial, member->held->until);
  // Somebody who waits for changes that are about to be told is told then.
  const Group& group = groups_.find(c.group)->second;
  const bool is_settling = group.notice.has_value() || ctx.now.monotonic < grace_until_;
  if (suspend.ns == 0 || (group.generation() != c.generation_known && !is_settling)) answer_held(ctx, *member, serial);
  arm(ctx);
}

Groups::Member* Groups::join(Ctx& ctx, const command::Heartbeat& c, ConnId conn, uint64_t& serial) {
  serial = next_serial_++;
  Member& member = members_[serial];
  member.group = c.group;
  member.client_id = c.client_id;
  member.conn = conn;
  by_conn_.emplace(conn, serial);
  member.next = ctx.now.monotonic + limits_.expiry;
  due_.emplace(member.next, serial);
  Group& group = groups_.try_emplace(member.group).first->second;
  group.members.emplace(member.client_id, serial);
  SOMETIMES("groups: a second member joins", group.members.size() == 2);
  ctx.trace.note(MemberJoined{serial, fmt::format("{} of {}", member.client_id, member.group)});
  return &member;
}

void Groups::take_words(Ctx& ctx, Member& member, const command::Heartbeat& c, std::string_view address, size_t text_bytes) {
  member.last_word = ctx.now.monotonic;
  member.address = address;
  member.version = c.version;
  member.model = c.model;
  member.from = c.from;
  member.from_time = c.from_time;
  text_bytes_ += text_bytes - member.text_bytes;
  member.text_bytes = text_bytes;
  const uint64_t hash = hash_of(c.client_id, c.model, member.is_id_shared, c.subscriptions);
  if (hash == member.hash) return;
  member.subscriptions = c.subscriptions;
  Group& group = groups_.find(member.group)->second;
  group.sum += hash - member.hash;
  member.hash = hash;
  note_change(ctx, member.group, group);
}

void Groups::on_leave(Ctx& ctx, const Asker& asker, const command::LeaveGroup& c) {
  answers_.push_back({asker, reply::Ok{}});
  const auto group = groups_.find(c.group);
  if (group == groups_.end()) return;
  const auto found = group->second.members.find(c.client_id);
  if (found == group->second.members.end()) return;
  remove(ctx, found->second, "it said so");
  arm(ctx);
}

void Groups::on_closed(Ctx& ctx, ConnId conn) {
  for (auto it = by_conn_.lower_bound({conn, 0}); it != by_conn_.end() && it->first == conn; it = by_conn_.lower_bound({conn, 0})) {
    SOMETIMES("groups: a member goes with its connection", true);
    if (MUTANT(GroupsForgetClosedConnections)) {
      by_conn_.erase(it);
      continue;
    }
    remove(ctx, it->second, "its connection closed");
  }
  arm(ctx);
}

void Groups::remove(Ctx& ctx, uint64_t serial, std::string_view why) {
  Member& member = members_.at(serial);
  if (member.held) answer_held(ctx, member, serial);
  const auto group = groups_.find(member.group);
  CHECK(group != groups_.end() && group->second.members.contains(member.client_id), "{} of {}", member.client_id, member.group);
  group->second.members.erase(member.client_id);
  group->second.sum -= member.hash;
  ctx.trace.note(MemberLeft{serial, group->second.members.size(), fmt::format("{} of {}, {}", member.client_id, member.group, why)});
  if (!group->second.members.empty()) {
    note_change(ctx, member.group, group->second);
  } else {
    if (group->second.notice) notices_.erase({*group->second.notice, group->first});
    groups_.erase(group);
  }
  due_.erase({member.next, serial});
  by_conn_.erase({member.conn, serial});
  text_bytes_ -= member.text_bytes;
  members_.erase(serial);
}

// --- telling ----------------------------------------------------------------------------------------------------------------------------

void Groups::note_change(Ctx& ctx, const std::string& name, Group& group) {
  if (group.notice) return;
  const Monotonic settled = ctx.now.monotonic + limits_.settle + limits_.settle_per_member * static_cast<int64_t>(group.members.size());
  group.notice = std::max(settled, grace_until_);
  notices_.emplace(*group.notice, name);
}

void Groups::set_due(Member& member, uint64_t serial, Monotonic at) {
  due_.erase({member.next, serial});
  member.next = at;
  due_.emplace(at, serial);
}

void Groups::answer_held(Ctx& ctx, Member& member, uint64_t serial) {
  const Group& group = groups_.find(member.group)->second;
  const bool is_known = group.generation() == member.held->known;
  answers_.push_back({member.held->asker, list_for(group, member, is_known)});
  member.held.reset();
  --held_count_;
  member.last_word = ctx.now.monotonic;   // it could not say anything while we kept its heartbeat
  set_due(member, serial, member.last_word + expiry_of(member));
}

reply::Members Groups::list_for(const Group& group, const Member& member, bool is_known) const {
  reply::Members out;
  out.generation = group.generation();
  if (is_known) return out;
  std::map<std::string_view, std::vector<uint32_t>> absent;
  for (const auto& [id, serial] : group.members) {
    const Member& other = members_.at(serial);
    if (other.model != member.model) continue;   // they share nothing
    const auto index = static_cast<uint32_t>(out.members.size());
    if (other.hash != member.hash)
      for (const Subscription& s : member.subscriptions)
        if (find_topic(other.subscriptions, s.topic) == nullptr) absent[s.topic].push_back(index);
    out.members.push_back(id);
  }
  SOMETIMES("groups: a member does not subscribe to what another does", !absent.empty());
  for (auto& [topic, members] : absent) out.absent.push_back({std::string(topic), std::move(members)});
  out.conflict = conflict_of(group);
  return out;
}

// In what the members differ, each from the first; one difference is enough to look for.
std::string Groups::conflict_of(const Group& group) const {
  const Member& first = members_.at(group.members.begin()->second);
  for (const auto& [id, serial] : group.members) {
    const Member& other = members_.at(serial);
    if (other.is_id_shared) return fmt::format("two clients call themselves '{}'", id);
    if (other.model != first.model)
      return fmt::format("'{}' consumes by {}, '{}' by {}", first.client_id, to_string(first.model), id, to_string(other.model));
    if (other.subscriptions == first.subscriptions) continue;
    for (const Subscription& s : first.subscriptions) {
      const Subscription* same = find_topic(other.subscriptions, s.topic);
      if (same == nullptr) return fmt::format("'{}' subscribes to topic '{}', '{}' does not", first.client_id, s.topic, id);
      if (same->expression != s.expression)
        return fmt::format("'{}' subscribes to topic '{}' by '{:.100}', '{}' by '{:.100}'", first.client_id, s.topic, s.expression, id, same->expression);
    }
    for (const Subscription& s : other.subscriptions)
      if (find_topic(first.subscriptions, s.topic) == nullptr) return fmt::format("'{}' subscribes to topic '{}', '{}' does not", id, s.topic, first.client_id);
  }
  return {};
}

void Groups::pump(Ctx& ctx) {
  const Monotonic now = ctx.now.monotonic;
  while (!notices_.empty() && notices_.begin()->first <= now) {
    const auto found = groups_.find(notices_.begin()->second);
    notices_.erase(notices_.begin());
    CHECK(found != groups_.end());
    found->second.notice.reset();
    if (const std::string conflict = conflict_of(found->second); !conflict.empty())
      ctx.trace.note(GroupConflict{found->second.members.size(), fmt::format("group '{}': {}", found->first, conflict)});
    const uint64_t generation = found->second.generation();
    for (const auto& [id, serial] : found->second.members) {
      Member& member = members_.at(serial);
      const bool is_news = member.held && member.held->known != generation;
      SOMETIMES("groups: a held heartbeat is answered by a change", is_news);
      if (is_news) answer_held(ctx, member, serial);
      if (member.is_remoting && member.model == GroupModel::Clustering && !MUTANT(GroupsTellNobody)) pushes_.push_back({member.conn, found->first});
    }
  }
  while (!due_.empty() && due_.begin()->first <= now) {
    const uint64_t serial = due_.begin()->second;
    Member& member = members_.at(serial);
    if (member.held) {
      answer_held(ctx, member, serial);
    } else {
      SOMETIMES("groups: a silent member expires", true);
      if (MUTANT(GroupsKeepSilentMembers)) set_due(member, serial, now + expiry_of(member));
      else remove(ctx, serial, "it was silent too long");
    }
  }
  arm(ctx);
}

void Groups::answer_all(Ctx& ctx) {
  for (auto& [serial, member] : members_)
    if (member.held) answer_held(ctx, member, serial);
}

void Groups::arm(Ctx& ctx) {
  Monotonic next = due_.empty() ? Monotonic::never() : due_.begin()->first;
  if (!notices_.empty()) next = std::min(next, notices_.begin()->first);
  if (next == armed_) return;
  armed_ = next;
  ctx.timers.set(kTimer, next);
}

// --- questions --------------------------------------------------------------------------------------------------------------------------

const std::string* Groups::next_group(std::string_view after) const {
  const auto next = groups_.upper_bound(after);
  return next == groups_.end() ? nullptr : &next->first;
}

size_t Groups::member_count(std::string_view group) const {
  const auto found = groups_.find(group);
  return found == groups_.end() ? 0 : found->second.members.size();
}

GroupModel Groups::model(std::string_view group) const {
  const auto found = groups_.find(group);
  return found == groups_.end() ? GroupModel::Clustering : members_.at(found->second.members.begin()->second).model;
}

bool Groups::begins_at_first(std::string_view group) const {
  const auto found = groups_.find(group);
  return found != groups_.end() && members_.at(found->second.members.begin()->second).from == StartFrom::First;
}

std::vector<reply::GroupMember> Groups::members(std::string_view group) const {
  std::vector<reply::GroupMember> out;
  const auto found = groups_.find(group);
  if (found == groups_.end()) return out;
  for (const auto& [id, serial] : found->second.members) {
    const Member& member = members_.at(serial);
    out.push_back({id, member.address, member.version, member.model, member.from, member.subscriptions});
  }
  return out;
}

const std::string* Groups::expression(ConnId conn, std::string_view group, std::string_view topic) const {
  const auto found = groups_.find(group);
  const std::string* first = nullptr;
  if (found == groups_.end()) return first;
  for (const auto& [id, serial] : found->second.members) {
    const Member& member = members_.at(serial);
    const Subscription* subscription = find_topic(member.subscriptions, topic);
    if (subscription == nullptr) continue;
    if (member.conn == conn) return &subscription->expression;
    if (first == nullptr) first = &subscription->expression;
  }
  return first;
}

std::string Groups::conflict(std::string_view group) const {
  const auto found = groups_.find(group);
  return found == groups_.end() ? std::string() : conflict_of(found->second);
}

std::vector<std::string> Groups::topics(std::string_view group) const {
  std::set<std::string> topics;
  const auto found = groups_.find(group);
  if (found == groups_.end()) return {};
  for (const auto& [id, serial] : found->second.members)
    for (const Subscription& s : members_.at(serial).subscriptions) topics.insert(s.topic);
  return {topics.begin(), topics.end()};
}

}  // namespace fulmar
