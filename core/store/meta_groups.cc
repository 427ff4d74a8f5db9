// Groups in the meta topic: their configurations, and what becomes of their offsets when they are removed.

#include "core/base/marks.h"
#include "core/store/meta.h"
#include "core/store/meta_body.h"

namespace fulmar {

namespace {
constexpr size_t kGroupCountMax = 1u << 17;   // made, or removed once
}  // namespace

// --- changes ----------------------------------------------------------------------------------------------------------------------------

Result<Appended> Meta::set_group(Ctx& ctx, const GroupConfig& config) {
  if (!groups_.contains(config.name) && groups_.size() >= kGroupCountMax)
    return Error(Errc::Full, fmt::format("the broker has known {} groups, its limit", groups_.size()));
  BodyWriter body;
  put_group(body, config);
  FULMAR_TRY(const Appended appended, log_.append_meta(ctx, body.bytes()));
  take_group(config, appended.begin);
  return appended;
}

Result<Appended> Meta::remove_group(Ctx& ctx, std::string_view name) {
  if (group(name) == nullptr && !has_offsets(name)) return Error(Errc::NotFound, fmt::format("there is no group '{}'", name));
  if (!groups_.contains(name) && groups_.size() >= kGroupCountMax)
    return Error(Errc::Full, fmt::format("the broker has known {} groups, its limit", groups_.size()));
  if (!settle(ctx)) return Error(Errc::LogRolling, "offsets that recovery lowered wait for their place in the log");
  BodyWriter body;
  body.begin(kGroupRemoved);
  body.name(name);
  body.end();
  FULMAR_TRY(const Appended appended, log_.append_meta(ctx, body.bytes()));
  take_group_removal(name, appended.begin);
  return appended;
}

// --- questions --------------------------------------------------------------------------------------------------------------------------

const GroupConfig* Meta::group(std::string_view name) const {
  const auto found = groups_.find(name);
  return found == groups_.end() || !found->second.is_made ? nullptr : &found->second.config;
}

bool Meta::has_offsets(std::string_view group) const {
  const auto first = offsets_.lower_bound(OffsetKey{std::string(group), {}, INT32_MIN});
  return first != offsets_.end() && first->first.group == group;
}

std::optional<std::string> Meta::next_group(std::string_view after) const {
  auto made = groups_.upper_bound(after);
  while (made != groups_.end() && !made->second.is_made) ++made;
  // No name holds a character below this one.
  const auto committed = offsets_.lower_bound(OffsetKey{std::string(after) + '\x01', {}, INT32_MIN});
  if (made == groups_.end() && committed == offsets_.end()) return std::nullopt;
  if (made == groups_.end()) return committed->first.group;
  if (committed == offsets_.end()) return made->first;
  return std::min(made->first, committed->first.group);
}

std::vector<std::pair<OffsetKey, QueueOffset>> Meta::offsets_of(std::string_view group, size_t count_max) const {
  std::vector<std::pair<OffsetKey, QueueOffset>> out;
  auto it = offsets_.lower_bound(OffsetKey{std::string(group), {}, INT32_MIN});
  for (; it != offsets_.end() && it->first.group == group && out.size() < count_max; ++it) out.emplace_back(it->first, it->second.offset);
  return out;
}

// --- the fold ---------------------------------------------------------------------------------------------------------------------------

bool Meta::apply_group_item(uint8_t kind, Reader& in, PhysicalOffset at) {
  GroupConfig config;
  config.name = in.text(in.u16());
  if (kind == kGroupSet) {
    const uint8_t flags = in.u8();
    config.is_consume_enabled = (flags & kConsume) != 0;
    config.is_from_min_enabled = (flags & kFromMin) != 0;
    config.is_broadcast_enabled = (flags & kBroadcast) != 0;
    config.is_orderly = (flags & kOrderly) != 0;
    config.is_notified = (flags & kNotified) != 0;
    config.retry_queues = in.i32();
    config.retry_max = in.i32();
    config.timeout_minutes = in.i32();
    config.sys_flag = in.i32();
    config.broker_id = in.i64();
    config.slow_broker_id = in.i64();
  }
  if (!in.ok()) return false;
  if (kind == kGroupSet) take_group(std::move(config), at);
  else take_group_removal(config.name, at);
  return true;
}

bool Meta::take_group(GroupConfig config, PhysicalOffset at) {
  auto [it, is_new] = groups_.try_emplace(config.name);
  GroupEntry& entry = it->second;
  if (!is_new && at < entry.at) return false;
  const bool is_change = !entry.is_made || entry.config != config;
  stamp(entry.at, !entry.is_made, at);
  entry.is_made = true;
  entry.config = std::move(config);
  if (is_change) ++changes_;
  return true;
}

// Removed groups stand for no record: whatever they would undo is older than they are, and leaves the log before them.
bool Meta::take_group_removal(std::string_view name, PhysicalOffset at) {
  auto [it, is_new] = groups_.try_emplace(std::string(name));
  GroupEntry& entry = it->second;
  has_records_ = true;
  for (auto offset = offsets_.lower_bound(OffsetKey{it->first, {}, INT32_MIN});
       offset != offsets_.end() && offset->first.group == it->first;) {
    if (offset->second.at >= at) {
      ++offset;
      continue;
    }
    unstamp(offset->second.at);
    offset = offsets_.erase(offset);
    ++changes_;
  }
  entry.removed_at = std::max(entry.removed_at.value_or(at), at);
  if (!is_new && at < entry.at) return false;
  if (entry.is_made) unstamp(entry.at);
  if (entry.is_made) ++changes_;
  entry.is_made = false;
  entry.at = at;
  entry.config = {};
  return true;
}

}  // namespace fulmar
