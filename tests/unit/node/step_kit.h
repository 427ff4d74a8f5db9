#pragma once
// What a machine is given for a step, held together for tests.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/io/node.h"
#include "core/wire/framer.h"
#include "core/wire/native/codec.h"

namespace fulmar::test {

struct StepKit {
  Moment now;
  Outbox out;
  Files files;
  Timers timers;
  Prng prng{Seed{1}};
  Trace trace;
  Ctx ctx{now, out, files, timers, prng, trace};
  void at_ms(int64_t ms) { now.monotonic = Monotonic{ms * 1'000'000}; }

  // What was asked since the last call, as text.
  std::string asked() { std::string text = out.text(); out.clear(); return text; }
  // The bytes of the nth send since the last clear, slices left out; and its ticket.
  std::vector<uint8_t> sent_bytes(size_t n = 0) const {
    std::vector<uint8_t> bytes;
    const request::Send& send = sent(n);
    for (uint32_t i = 0; i < send.piece_count; ++i) {
      const auto& piece = out.pieces()[send.first_piece + i];
      if (piece.is_slice) continue;
      const Bytes b = out.bytes_of(piece);
      bytes.insert(bytes.end(), b.begin(), b.end());
    }
    return bytes;
  }
  const request::Send& sent(size_t n = 0) const {
    for (const Request& request : out.requests()) {
      if (const auto* send = std::get_if<request::Send>(&request)) if (n-- == 0) return *send;
    }
    CHECK(false, "there is no such send");
    return std::get<request::Send>(out.requests().front());
  }
  template <class R> std::vector<R> all() const {
    std::vector<R> found;
    for (const Request& request : out.requests()) if (const auto* r = std::get_if<R>(&request)) found.push_back(*r);
    return found;
  }
};

// "5: Sent SUCCESS …", one a line, for every response in `bytes`.
inline std::string responses(Bytes bytes) {
  native::Framer framer(native::kFrameBytesMaxResponse);
  native::Codec codec;
  std::string text;
  framer.feed(bytes);
  while (true) {
    const auto frame = framer.next();
    if (!frame || frame->empty()) return text;
    const auto decoded = codec.decode_response(*frame);
    text += decoded ? fmt::format("{}: {}\n", decoded->opaque, describe(decoded->reply)) : decoded.error().error.text() + "\n";
  }
}

inline std::vector<uint8_t> preamble() { return {native::kPreamble.begin(), native::kPreamble.end()}; }
inline void append(std::vector<uint8_t>& to, uint32_t opaque, const Command& command, bool is_one_way = false) {
  native::Codec codec;
  CHECK(codec.encode_request(opaque, is_one_way, command, to).has_value());
}
// Preamble and hello, as every native client begins.
inline std::vector<uint8_t> greeting() {
  auto bytes = preamble();
  append(bytes, 0, command::Hello{});
  return bytes;
}

}  // namespace fulmar::test
