#pragma once
// O4c  In a run that nothing disturbs a message is stored at one place, and a group gets it once.

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/oracles/facts.h"

namespace fulmar::sim {

class CalmExactlyOnce {
 public:
  CalmExactlyOnce(Verdicts& verdicts, bool is_calm) : verdicts_(verdicts), is_calm_(is_calm) {}
  void delivered(const std::string& group, const QueueKey& queue, const std::vector<int64_t>& offsets);
  // An operator moves the group: from now on what it gets may come again.
  void moves(const std::string& group) { moved_.insert(group); }
  // Of a complete reading: the message was found at so many places.
  void found(MessageId id, uint64_t places);

 private:
  Verdicts& verdicts_;
  bool is_calm_;
  std::map<std::pair<std::string, QueueKey>, std::set<int64_t>> delivered_;
  std::set<std::string> moved_;
};

}  // namespace fulmar::sim
