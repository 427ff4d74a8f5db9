#pragma once
// Who consumes in which group, as their heartbeats say. Members live as long as their connection and at most `expiry` behind their last
// word; the monotonic clock measures it. A heartbeat waits here until the membership is another than its client knows, or its time is over:
// so a change reaches every member at once, without a push.
//
//   member:     unknown --heartbeat--> alive --connection closed, leaves, silent for `expiry`--> unknown
//   heartbeat:  held --the generation is another than the known one, and the changes have settled--> answered with the members
//                    --suspend_ms over, or a newer one of the same member--> answered
//
// The generation is computed from the membership, not counted: two brokers with the same members, and a broker before and after its
// restart, say the same. Changes are told together, a moment after the first of them, so that a storm of joins costs each member little. A
// broker that has just begun to serve holds its first answers back until the members had time to come back: a list of half of them would
// make them share the queues anew twice.
//
// RocketMQ's clients are members like the others. They do not wait for answers: what would answer a held heartbeat is pushed to them.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/consume/asker.h"
#include "core/consume/limits.h"
#include "core/io/node.h"
#include "core/model/command.h"

namespace fulmar {

struct GroupLimits {
  size_t groups_max = 10'000, members_max = 1024;            // members: of one group. Above: SYSTEM_BUSY
  size_t members_total_max = 20'000;
  size_t subscriptions_max = 64, expression_bytes_max = 8192, client_id_bytes_max = 255, version_bytes_max = 64;  // INVALID_PARAMETER
  size_t text_bytes_max = 64u << 20;                         // of everything that members say about themselves: SYSTEM_BUSY
  Duration expiry = Duration::seconds(10), suspend_max = Duration::seconds(5);
  Duration remoting_expiry = Duration::seconds(120);         // RocketMQ's clients say a word every 30 s
  Duration settle = Duration::milliseconds(20), settle_per_member = Duration::microseconds(500);
  Duration grace = Duration::seconds(1);                     // after the first moment of service
};

class Groups {
 public:
  struct Answer { Asker asker; Reply reply; };
  struct Push { ConnId conn; std::string group; };
  explicit Groups(GroupLimits limits = {}) : limits_(limits) {}

  void begin(const Moment& now) { grace_until_ = now.monotonic + limits_.grace; }
  // Answered through take_answers(): Members, whose `members` are left out when the client knows this generation; SYSTEM_BUSY when full;
  // INVALID_PARAMETER. `address`: where the connection comes from.
  void on_heartbeat(Ctx& ctx, const Asker& asker, std::string_view address, const command::Heartbeat& c);
  void on_leave(Ctx& ctx, const Asker& asker, const command::LeaveGroup& c);   // Ok, also when it was no member
  void on_closed(Ctx& ctx, ConnId conn);
  void pump(Ctx& ctx);                        // end of step, and timer: what is due
  void answer_all(Ctx& ctx);                  // the node stops: nothing is held any more
  std::vector<Answer> take_answers() { return std::exchange(answers_, {}); }
  // Members of RocketMQ's protocol whose group has changed: they ask for the list when they are told.
  std::vector<Push> take_pushes() { return std::exchange(pushes_, {}); }

  // --- questions
  bool has_members(std::string_view group) const { return groups_.contains(group); }
  // Null when there is none above. In order of names.
  const std::string* next_group(std::string_view after) const;
  size_t member_count(std::string_view group) const;
  GroupModel model(std::string_view group) const;                   // of its first member
  std::vector<reply::GroupMember> members(std::string_view group) const;
  std::string conflict(std::string_view group) const;
  // By what the group consumes the topic: as the member on this connection says, else the first that has said it. Null: nobody has.
  const std::string* expression(ConnId conn, std::string_view group, std::string_view topic) const;
  // Topics that somebody of the group subscribes to, ascending: the union.
  std::vector<std::string> topics(std::string_view group) const;
  // Whether its first member begins at the first message where nothing is committed; false without members.
  bool begins_at_first(std::string_view group) const;
  // What each member says it is: visit(version).
  template <class Visit> void for_each_version(std::string_view group, Visit visit) const {
    const auto found = groups_.find(group);
    if (found == groups_.end()) return;
    for (const auto& [id, serial] : found->second.members) visit(std::string_view(members_.at(serial).version));
  }
  size_t group_count() const { return groups_.size(); }
  size_t members_total() const { return members_.size(); }
  size_t held_count() const { return held_count_; }

 private:
  struct Held { Asker asker; uint64_t known = 0; Monotonic until; };
  struct Member {
    std::string group, client_id, address, version;
    GroupModel model = GroupModel::Clustering;
    StartFrom from = StartFrom::Last;
    Wall from_time;
    std::vector<Subscription> subscriptions;
    ConnId conn;                              // the youngest that it was heard on
    bool is_remoting = false;
    bool is_id_shared = false;                // an older connection goes on speaking for it: two clients have one id
    uint64_t hash = 0;                        // of what it says, in the generation
    size_t text_bytes = 0;
    Monotonic last_word, next;                // next: its entry in due_
    std::optional<Held> held;
  };
  struct Group {
    std::map<std::string, uint64_t, std::less<>> members;   // serials, by client id
    uint64_t sum = 0;                         // of the hashes of the members
    std::optional<Monotonic> notice;          // changes are told then
    uint64_t generation() const;
  };
  using Due = std::pair<Monotonic, uint64_t>;

  std::optional<Refusal> check(const command::Heartbeat& c, bool is_remoting) const;
  std::optional<Refusal> find_room(const command::Heartbeat& c, const Member* known, size_t text_bytes) const;
  Member* join(Ctx& ctx, const command::Heartbeat& c, ConnId conn, uint64_t& serial);
  void take_words(Ctx& ctx, Member& member, const command::Heartbeat& c, std::string_view address, size_t text_bytes);
  void remove(Ctx& ctx, uint64_t serial, std::string_view why);
  void note_change(Ctx& ctx, const std::string& name, Group& group);
  void set_due(Member& member, uint64_t serial, Monotonic at);
  void answer_held(Ctx& ctx, Member& member, uint64_t serial);
  reply::Members list_for(const Group& group, const Member& member, bool is_known) const;
  std::string conflict_of(const Group& group) const;
  Duration expiry_of(const Member& member) const { return member.is_remoting ? limits_.remoting_expiry : limits_.expiry; }
  void arm(Ctx& ctx);

  GroupLimits limits_;
  std::map<std::string, Group, std::less<>> groups_;       // none without members
  std::map<uint64_t, Member> members_;                     // by serial
  std::set<Due> due_;                                      // one of each member: the end of its held heartbeat, or its expiry
  std::set<std::pair<ConnId, uint64_t>> by_conn_;
  std::set<std::pair<Monotonic, std::string>> notices_;
  std::vector<Answer> answers_;
  std::vector<Push> pushes_;
  uint64_t next_serial_ = 1;
  size_t text_bytes_ = 0, held_count_ = 0;
  Monotonic grace_until_;
  Monotonic armed_ = Monotonic::never();
};

}  // namespace fulmar
