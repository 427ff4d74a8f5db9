// What stands in records that retention lets go is written down again.

#include "core/base/marks.h"
#include "core/store/meta.h"
#include "core/store/meta_body.h"

namespace fulmar {

namespace {
constexpr size_t kCarryPerStep = 4096;   // entries looked at
}  // namespace

bool Meta::carry_over(Ctx& ctx, PhysicalOffset cut, const std::vector<Floor>& floors) {
  if (MUTANT(RetentionIgnoresClaims)) return true;
  if (carry_.cut != cut) carry_ = {.cut = cut, .topic = {}, .group = {}, .offset = {{}, {}, INT32_MIN}};
  size_t budget = kCarryPerStep;
  if (!settle(ctx) || !carry_some(ctx, floors, budget)) {
    if (budget == 0) ctx.out.step_again();
    return false;
  }
  carry_ = {};
  // Floors of queues that have messages again stand for nothing any more.
  for (auto it = floors_.begin(); it != floors_.end();) {
    if (it->second.at >= cut) { ++it; continue; }
    unstamp(it->second.at);
    it = floors_.erase(it);
  }
  CHECK(claim() >= cut, "topics, groups and offsets still stand at {}, the log shall begin at {}", claim(), cut);
  return true;
}

// False: for now, and `budget` is used up or the log takes nothing.
bool Meta::carry_some(Ctx& ctx, const std::vector<Floor>& floors, size_t& budget) {
  const auto put_topic_entry = [](BodyWriter& body, const std::string& name, const TopicEntry& entry) {
    if (entry.is_removed || !entry.next.empty()) put_removal(body, name, entry.next);
    if (!entry.is_removed) put_topic(body, entry.config);
    return true;
  };
  const auto put_offset_entry = [](BodyWriter& body, const OffsetKey& key, const OffsetEntry& entry) { return put_offset(body, key, entry.offset), true; };
  // Removed groups stand for no record (meta_groups.cc).
  const auto put_group_entry = [](BodyWriter& body, const std::string&, const GroupEntry& entry) {
    if (entry.is_made && !MUTANT(RetentionForgetsGroups)) put_group(body, entry.config);
    return entry.is_made;
  };
  for (; carry_.stage < 4; ++carry_.stage) {
    const bool is_done = carry_.stage == 0 ? carry(ctx, topics_, carry_.topic, budget, put_topic_entry)
                       : carry_.stage == 1 ? carry(ctx, offsets_, carry_.offset, budget, put_offset_entry)
                       : carry_.stage == 2 ? carry(ctx, groups_, carry_.group, budget, put_group_entry)
                                           : carry_floors(ctx, floors, budget);
    if (!is_done) return false;
  }
  return true;
}

// put(body, key, entry) writes what is still true of an entry and says whether there is anything.
template <class Entries, class Put>
bool Meta::carry(Ctx& ctx, Entries& entries, typename Entries::key_type& from, size_t& budget, Put put) {
  for (auto it = entries.lower_bound(from); it != entries.end();) {
    if (budget == 0) return false;
    BodyWriter body;
    std::vector<PhysicalOffset*> carried;
    for (; it != entries.end() && budget > 0 && body.bytes().size() < kBodyBytesMax; ++it, --budget) {
      if (it->second.at < carry_.cut && put(body, it->first, it->second)) carried.push_back(&it->second.at);
    }
    if (!carried.empty()) {
      const Result<Appended> appended = log_.append_meta(ctx, body.bytes());
      if (!appended) return false;
      for (PhysicalOffset* at : carried) stamp(*at, false, appended->begin);
      SOMETIMES("meta: topics are carried over before their segment goes", carry_.stage == 0);
      SOMETIMES("meta: offsets are carried over before their segment goes", carry_.stage == 1);
      SOMETIMES("meta: groups are carried over before their segment goes", carry_.stage == 2);
    }
    if (it != entries.end()) from = it->first;
  }
  return true;
}

bool Meta::carry_floors(Ctx& ctx, const std::vector<Floor>& floors, size_t& budget) {
  if (MUTANT(RetentionForgetsFloors)) return true;
  while (carry_.floor < floors.size()) {
    if (budget == 0) return false;
    BodyWriter body;
    std::vector<const Floor*> carried;
    size_t to = carry_.floor;
    for (; to < floors.size() && budget > 0 && body.bytes().size() < kBodyBytesMax; ++to, --budget) {
      const Floor& floor = floors[to];
      const auto known = floors_.find({floor.topic, floor.queue_id});
      if (known != floors_.end() && known->second.at >= carry_.cut && known->second.next == floor.next) continue;
      body.begin(kQueueFloor);
      body.name(floor.topic);
      body.put<int32_t>(floor.queue_id);
      body.put<int64_t>(floor.next.value());
      body.end();
      carried.push_back(&floor);
    }
    if (!carried.empty()) {
      const Result<Appended> appended = log_.append_meta(ctx, body.bytes());
      if (!appended) return false;
      for (const Floor* floor : carried) take_floor(floor->topic, floor->queue_id, floor->next, appended->begin);
      SOMETIMES("meta: the floor of an empty queue is written down", true);
    }
    carry_.floor = to;
  }
  return true;
}

}  // namespace fulmar
