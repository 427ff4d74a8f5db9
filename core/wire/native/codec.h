#pragma once
// Cap'n Proto <-> typed command: the only file in core that sees capnp or an exception. The layout of a frame stands in fulmar.capnp.
// Decoding copies the header into aligned scratch (capnp 0.9 throws on unaligned input), never the attachment. Limits: traversal = header
// words, nesting 16. Errors carry our own text.

#include <array>
#include <cstdint>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/result.h"
#include "core/model/command.h"

namespace fulmar::native {

inline constexpr uint16_t kVersion = 1;
// "FULMAR" + version, big-endian: what a native client sends first (decision 16).
inline constexpr std::array<uint8_t, 8> kPreamble = {'F', 'U', 'L', 'M', 'A', 'R', 0, kVersion};

struct DecodedRequest {
  uint32_t opaque = 0;
  bool is_one_way = false;
  Command command;          // views into the frame and the codec's scratch: good until the next decode
};
struct DecodedResponse {
  uint32_t opaque = 0;
  Reply reply;              // owns
};
// A header that does not parse: the opaque number when it could be read, so that the refusal finds its request.
struct DecodeFailure { uint32_t opaque = 0; bool has_opaque = false; bool is_one_way = false; Error error{Errc::HeaderBroken}; };

class Codec {
 public:
  Codec();
  ~Codec();
  Codec(const Codec&) = delete;
  Codec& operator=(const Codec&) = delete;

  // `frame`: one whole frame as the Framer gives it. HeaderBroken: does not parse, names the field; Unsupported: a method of a later
  // version. Bounds that belong to the protocol (negative counts, text with NUL) are checked here; rules of the broker are not.
  tl::expected<DecodedRequest, DecodeFailure> decode_request(Bytes frame);
  tl::expected<DecodedResponse, DecodeFailure> decode_response(Bytes frame);

  // Appends one whole frame to `out`. InvalidArgument: a command that only the host may say, or a header over 64 KiB.
  Result<void> encode_request(uint32_t opaque, bool is_one_way, const Command& command, std::vector<uint8_t>& out);
  // As above; `following_bytes` are counted as part of the attachment but written by the caller after this (file slices).
  Result<void> encode_response(uint32_t opaque, const Reply& reply, uint64_t following_bytes, std::vector<uint8_t>& out);

 private:
  struct Scratch;
  Scratch* scratch_;
};

}  // namespace fulmar::native
