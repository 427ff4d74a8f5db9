#pragma once
// O9  Every queue of a topic belongs to exactly one live member of a group, once the members have heard of each other: nothing lies between
// two members, nothing is consumed by both. While the membership changes, and for as long as messages to and from the brokers take, queues
// may have two owners or none; the caller says when that is over.

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/oracles/facts.h"

namespace fulmar::sim {

class Ownership {
 public:
  using Queue = std::pair<std::string, int32_t>;   // broker, queue id
  explicit Ownership(Verdicts& verdicts) : verdicts_(verdicts) {}
  // A member is told what it owns. Members are numbered by the caller.
  void assigned(const std::string& group, uint64_t member, const std::vector<Queue>& queues);
  // It died, left, or is so far away that its queues are others'.
  void gone(const std::string& group, uint64_t member);
  // What is wrong with the sharing of `queues` in the group; empty when each has one owner.
  std::string complaint(const std::string& group, const std::vector<Queue>& queues) const;
  // As above, as a violation.
  void demand(const std::string& group, const std::vector<Queue>& queues, std::string_view when);
  size_t owned(const std::string& group, uint64_t member) const;

 private:
  Verdicts& verdicts_;
  std::map<std::string, std::map<uint64_t, std::set<Queue>>> owned_;   // by group and member
};

}  // namespace fulmar::sim
