#pragma once
// Between the words of the interface and those of the core.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/client/caller.h"
#include "core/model/command.h"
#include "core/store/record.h"
#include "fulmar/client.h"

namespace fulmar::v1 {

Refusal refusal(Code code, std::string cause, std::string measured);
Refusal refusal(const fulmar::Refusal& refusal);
// Of an answer that is not the one that was asked for.
Refusal refusal(const fulmar::Reply& reply);

// A message as the node wants it, alive until it is answered; bodies of the compressing size are compressed here.
struct Outgoing {
  std::string topic, properties, id;
  std::vector<uint8_t> body;   // or a packed batch
  uint32_t sys_flag = 0;
  int32_t flag = 0, count = 1;
  bool is_batch = false, is_one_way = false;
  Wall born;
  size_t bytes() const { return topic.size() + properties.size() + body.size(); }
  Command command() const;     // borrows
};
using OutgoingPtr = std::shared_ptr<const Outgoing>;

Result<std::shared_ptr<Outgoing>> outgoing(const Message& message, const ClientOptions& options);
Result<std::shared_ptr<Outgoing>> outgoing_batch(std::span<const Message> messages, const ClientOptions& options);
Result<SendReceipt> receipt(const Outgoing& message, fulmar::Reply reply);

// Every record of `records`, up to one that does not parse: then `problem` says so.
std::vector<ReceivedMessage> received(std::string_view broker, Bytes records, size_t body_bytes_max, std::string& problem);

}  // namespace fulmar::v1
