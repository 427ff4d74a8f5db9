#include "sim/owned_command.h"

#include "core/base/crc32.h"
#include "core/base/prng.h"

namespace fulmar::sim {

namespace {

// Visits every borrowed field of a command, in a fixed order.
template <class Visit> void borrowed(command::Hello& c, Visit v) { v(c.client); }
template <class Visit> void borrowed(command::SendMessage& c, Visit v) { v(c.topic); v(c.properties); v(c.body); v(c.broker); }
template <class Visit> void borrowed(command::SendBatch& c, Visit v) { v(c.topic); v(c.packed); v(c.broker); }
template <class Visit> void borrowed(command::PullMessages& c, Visit v) { v(c.group); v(c.topic); v(c.subscription); v(c.broker); }
template <class Visit> void borrowed(command::CommitOffset& c, Visit v) { v(c.group); v(c.topic); v(c.broker); }
template <class Visit> void borrowed(command::QueryOffset& c, Visit v) { v(c.group); v(c.topic); v(c.broker); }
template <class Visit> void borrowed(command::QueryQueue& c, Visit v) { v(c.topic); v(c.broker); }
template <class Visit> void borrowed(command::QueryRoute& c, Visit v) { v(c.topic); }
template <class Visit> void borrowed(command::CreateTopic& c, Visit v) { v(c.topic); }
template <class Visit> void borrowed(command::DeleteTopic& c, Visit v) { v(c.topic); }
template <class Visit> void borrowed(command::ListTopics& c, Visit v) { v(c.after); }
template <class Visit> void borrowed(command::DescribeTopic& c, Visit v) { v(c.topic); }
template <class Visit> void borrowed(command::QueryMessages& c, Visit v) { v(c.topic); v(c.key); v(c.broker); }
template <class Visit> void borrowed(command::ViewMessage& c, Visit v) { v(c.broker); }
template <class Visit> void borrowed(command::GetStatus& c, Visit v) { v(c.broker); }
template <class Visit> void borrowed(command::RegisterBroker& c, Visit v) { v(c.cluster); v(c.broker_name); v(c.host); v(c.version); }
template <class Visit> void borrowed(command::UnregisterBroker& c, Visit v) { v(c.cluster); v(c.broker_name); }
template <class Visit> void borrowed(command::Heartbeat& c, Visit v) { v(c.client_id); v(c.group); v(c.version); }
template <class Visit> void borrowed(command::LeaveGroup& c, Visit v) { v(c.client_id); v(c.group); }
template <class Visit> void borrowed(command::ListGroups& c, Visit v) { v(c.after); v(c.broker); }
template <class Visit> void borrowed(command::DescribeGroup& c, Visit v) { v(c.group); v(c.broker); }
template <class Visit> void borrowed(command::CreateGroup&, Visit) {}
template <class Visit> void borrowed(command::DeleteGroup& c, Visit v) { v(c.group); }
template <class Visit> void borrowed(command::SearchOffset& c, Visit v) { v(c.topic); v(c.broker); }
template <class Visit> void borrowed(command::ResetOffset& c, Visit v) { v(c.group); v(c.topic); v(c.broker); }
template <class Visit> void borrowed(command::QueryCluster&, Visit) {}
template <class Visit> void borrowed(command::WipeWritePerm& c, Visit v) { v(c.broker_name); }
template <class Visit> void borrowed(command::AddWritePerm& c, Visit v) { v(c.broker_name); }
template <class Visit> void borrowed(command::GetConfig& c, Visit v) { v(c.broker); }
template <class Visit> void borrowed(command::UpdateConfig& c, Visit v) { v(c.key); v(c.value); v(c.broker); }
template <class Visit> void borrowed(command::Stop&, Visit) {}
template <class Visit> void borrowed(command::Subscribe& c, Visit v) { v(c.group); v(c.topic); v(c.subscription); }
template <class Visit> void borrowed(command::Consumed& c, Visit v) { v(c.broker); }
template <class Visit> void borrowed(command::Unsubscribe&, Visit) {}
template <class Visit> void borrowed(command::GetMetrics& c, Visit v) { v(c.group); v(c.topic); }
template <class Visit> void borrowed(command::GetHealth&, Visit) {}

}  // namespace

OwnedCommand::OwnedCommand(const Command& command) : command_(command) {
  const auto keep = [this](auto& view) {
    using View = std::decay_t<decltype(view)>;
    if constexpr (std::is_same_v<View, Bytes>) {
      kept_.emplace_back(as_text(view));
      view = as_bytes(kept_.back());
    } else {
      kept_.emplace_back(view);
      view = kept_.back();
    }
  };
  std::visit([&](auto& c) { borrowed(c, keep); }, command_);
}

uint64_t OwnedCommand::digest() const {
  uint64_t h = hash_text(name_of(command_));
  for (const std::string& text : kept_) h = mix64(h, mix64(text.size(), crc32(as_bytes(text))));
  return h;
}

}  // namespace fulmar::sim
