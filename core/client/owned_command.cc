#include "core/client/owned_command.h"

#include <cstring>
#include <variant>

namespace fulmar {
namespace {

// Calls visit(view) for each borrowed view of the command.
template <class Visit>
void for_each_view(Command& command, Visit visit) {
  std::visit(
      [&visit](auto& c) {
        if constexpr (requires { c.topic; }) visit(c.topic);
        if constexpr (requires { c.group; }) visit(c.group);
        if constexpr (requires { c.subscription; }) visit(c.subscription);
        if constexpr (requires { c.key; }) visit(c.key);
        if constexpr (requires { c.after; }) visit(c.after);
        if constexpr (requires { c.client; }) visit(c.client);
        if constexpr (requires { c.client_id; }) visit(c.client_id);
        if constexpr (requires { c.version.data(); }) visit(c.version);
        if constexpr (requires { c.key; c.value; }) visit(c.value);
        if constexpr (requires { c.cluster; }) visit(c.cluster);
        if constexpr (requires { c.broker_name; }) visit(c.broker_name);
        if constexpr (requires { c.host; }) visit(c.host);
        if constexpr (requires { c.broker; }) visit(c.broker);
        if constexpr (requires { c.properties; }) visit(c.properties);
        if constexpr (requires { c.body; }) visit(c.body);
        if constexpr (requires { c.packed; }) visit(c.packed);
      },
      command);
}

}  // namespace

OwnedCommand::OwnedCommand(const Command& command) : command_(command) {
  for_each_view(command_, [this](auto& view) { bytes_ += view.size(); });
  block_ = std::make_unique<uint8_t[]>(bytes_);
  uint8_t* at = block_.get();
  for_each_view(command_, [&at](auto& view) {
    using View = std::decay_t<decltype(view)>;
    const size_t size = view.size();
    if (size != 0) std::memcpy(at, view.data(), size);
    view = View(reinterpret_cast<decltype(view.data())>(at), size);
    at += size;
  });
}

}  // namespace fulmar
