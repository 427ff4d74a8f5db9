#include "sim/oracles/o22_answers.h"

#include <fmt/format.h>

namespace fulmar::sim {

void Answers::told(uint64_t call, const std::string& node, std::string_view what, int64_t deadline_ns, bool has_many_answers) {
  calls_[call] = {node, std::string(what), deadline_ns, has_many_answers};
}

void Answers::answered(uint64_t call, int64_t now_ns) {
  const auto it = calls_.find(call);
  if (it == calls_.end()) {
    if (done_.contains(call)) verdicts_.violated("O22", fmt::format("call {} is answered a second time", call));
    return;
  }
  const Call& c = it->second;
  if (c.has_many_answers) return;
  if (now_ns > c.deadline_ns) {
    verdicts_.violated("O22", fmt::format("{} answers {} (call {}) {} ms after its deadline", c.node, c.what, call, (now_ns - c.deadline_ns) / 1'000'000));
  }
  calls_.erase(it);
  done_.insert(call);
}

void Answers::died(const std::string& node) {
  paused_.erase(node);
  std::erase_if(calls_, [&](const auto& entry) { return entry.second.node == node; });
}

void Answers::resumed(const std::string& node, int64_t now_ns) {
  const auto since = paused_.find(node);
  if (since == paused_.end()) return;
  for (auto& [id, call] : calls_)
    if (call.node == node) call.deadline_ns += now_ns - since->second;
  paused_.erase(since);
}

void Answers::at(int64_t now_ns) {
  for (auto it = calls_.begin(); it != calls_.end();) {
    const Call& c = it->second;
    if (c.has_many_answers || now_ns <= c.deadline_ns || paused_.contains(c.node)) { ++it; continue; }
    verdicts_.violated("O22", fmt::format("{} has not answered {} (call {}) by its deadline", c.node, c.what, it->first));
    it = calls_.erase(it);
  }
}

void Answers::request(uint64_t connection, uint32_t opaque, bool is_one_way, std::string_view what) {
  const auto [it, is_new] = requests_.emplace(std::pair(connection, opaque), Request{std::string(what), is_one_way});
  if (!is_new && !it->second.is_one_way) {
    verdicts_.violated("O22", fmt::format("opaque {} of {} is used for {} while it is in flight", opaque, it->second.what, what));
  }
}

void Answers::response(uint64_t connection, uint32_t opaque) {
  const auto it = requests_.find({connection, opaque});
  if (it == requests_.end()) return verdicts_.violated("O22", fmt::format("a response with opaque {} answers no request in flight on its connection", opaque));
  if (it->second.is_one_way) return verdicts_.violated("O22", fmt::format("the one-way {} (opaque {}) is answered", it->second.what, opaque));
  requests_.erase(it);
}

void Answers::broken(uint64_t connection, const std::string& why) {
  verdicts_.violated("O22", fmt::format("connection {} carries bytes that are no frames: {}", connection, why));
}

}  // namespace fulmar::sim
