#pragma once
// RocketMQ's requests <-> typed commands. A frame becomes one command, several (a heartbeat is one for each group; a pull may commit), or
// none at all, and is answered once: in the encoding it came in, under its own opaque number, with what its request code promises.
//
// What is wrong with a request is a refusal that names the field; only a header that cannot be read ends the connection (FrameReader). Codes
// that nobody serves are refused with REQUEST_CODE_NOT_SUPPORTED, which RocketMQ's clients take for "this broker is older".

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/model/command.h"
#include "core/wire/remoting/codes.h"
#include "core/wire/remoting/frame.h"

namespace fulmar::remoting {

// V4_9_8: what does not exist there (POP, assignments of the broker) is not served here.
inline constexpr int32_t kVersion = 409;

// What an answer needs to know of its request.
struct Ask {
  int32_t opaque = 0;
  RequestCode code{};
  Encoding encoding = Encoding::Json;
};

struct Request {
  struct Part {
    Command command;
    bool is_silent = false;            // its reply is nobody's: the offset that a pull commits by the way
  };
  Ask ask;
  bool is_one_way = false;
  std::span<const Part> parts;         // with views into the frame and the codec: good until the next decode
  std::optional<Reply> answer;         // nothing to be asked of anybody: no parts then
};

class Codec {
 public:
  // `frame`: one whole frame as the Framer gives it. HeaderBroken: close the connection. A response (nothing was asked here) is a Request
  // that is one-way and has no parts.
  Result<Request> decode_request(Bytes frame);

  // Appends one whole frame to `out`; `following_bytes` of its body are written by the caller after this (file slices). InvalidArgument: it
  // does not fit a frame; nothing was appended.
  static Result<void> encode_reply(const Ask& to, const Reply& reply, uint64_t following_bytes, std::vector<uint8_t>& out);
  // NOTIFY_CONSUMER_IDS_CHANGED, one-way, to a client of the group.
  static void encode_group_changed(int32_t opaque, std::string_view group, std::vector<uint8_t>& out);

 private:
  class Args;
  void decode(Args& args, Request& to);
  void send(Args& args, bool is_short, bool is_batch);
  void pull(Args& args);
  void heartbeat(Args& args, Request& to);
  std::optional<Refusal> heartbeat_of_group(const Json& group, std::string_view client_id);
  template <class C> void ask(C command) { parts_.push_back({std::move(command), false}); }

  FrameReader reader_;
  std::vector<Request::Part> parts_;
  Json body_;                          // views of commands may point into it
  std::string version_;                // of the client, in words
};

}  // namespace fulmar::remoting
