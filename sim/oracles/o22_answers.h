#pragma once
// O22  A request gets at most one answer, on the connection it came by, and none when it is one-way; a call of the host is answered at most
// once, and by its deadline.

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "sim/oracles/facts.h"

namespace fulmar::sim {

class Answers {
 public:
  explicit Answers(Verdicts& verdicts) : verdicts_(verdicts) {}
  // --- calls of the host --------------------------------------------------------------------------------------------------------------
  void told(uint64_t call, const std::string& node, std::string_view what, int64_t deadline_ns, bool has_many_answers);
  void answered(uint64_t call, int64_t now_ns);
  void died(const std::string& node);              // its calls are answered by nobody any more
  void paused(const std::string& node, int64_t now_ns) { paused_[node] = now_ns; }   // it can answer nobody: its time stands still …
  void resumed(const std::string& node, int64_t now_ns);                            // … and its calls have so much longer
  void at(int64_t now_ns);
  size_t open() const { return calls_.size(); }
  // --- requests on a connection, as its server's side saw them ----------------------------------------------------------------------------
  void request(uint64_t connection, uint32_t opaque, bool is_one_way, std::string_view what);
  void response(uint64_t connection, uint32_t opaque);
  void broken(uint64_t connection, const std::string& why);      // a stream that is no sequence of frames

 private:
  struct Call { std::string node, what; int64_t deadline_ns; bool has_many_answers; };
  struct Request { std::string what; bool is_one_way; };
  Verdicts& verdicts_;
  std::map<uint64_t, Call> calls_;
  std::set<uint64_t> done_;
  std::map<std::string, int64_t> paused_;
  std::map<std::pair<uint64_t, uint32_t>, Request> requests_;
};

}  // namespace fulmar::sim
