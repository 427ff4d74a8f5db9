// What is encoded decodes to the same, and nothing that a stranger sends does more than fail.

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "core/wire/framer.h"
#include "core/wire/native/codec.h"
#include "generators.h"
#include "spelled.h"

namespace fulmar {
namespace {

using test::Generator;
using test::spelled;

RC_GTEST_PROP(NativeCodec, EveryCommandComesBack, (uint64_t seed, uint32_t opaque, bool is_one_way)) {
  native::Codec client, server;
  Generator generate(seed);
  for (uint64_t kind = 0; kind < Generator::kCommands; ++kind) {
    const Command command = generate.command(kind);
    RC_ASSERT(command.index() == kind);
    std::vector<uint8_t> frame;
    RC_ASSERT(client.encode_request(opaque, is_one_way, command, frame).has_value());
    const auto decoded = server.decode_request(frame);
    RC_ASSERT(decoded.has_value());
    RC_ASSERT(decoded->opaque == opaque);
    RC_ASSERT(decoded->is_one_way == is_one_way);
    RC_ASSERT(spelled(decoded->command) == spelled(command));
  }
}

RC_GTEST_PROP(NativeCodec, EveryReplyComesBack, (uint64_t seed, uint32_t opaque)) {
  native::Codec client, server;
  Generator generate(seed);
  for (uint64_t kind = 0; kind < Generator::kReplies; ++kind) {
    const Reply reply = generate.reply(kind);
    RC_ASSERT(reply.index() == kind);
    std::vector<uint8_t> frame;
    RC_ASSERT(server.encode_response(opaque, reply, 0, frame).has_value());
    const auto decoded = client.decode_response(frame);
    RC_ASSERT(decoded.has_value());
    RC_ASSERT(decoded->opaque == opaque);
    RC_ASSERT(spelled(decoded->reply) == spelled(reply));
  }
}

// A few bytes of a good frame are changed: either side decodes or says no, and the scratch is clean for the next.
RC_GTEST_PROP(NativeCodec, DamageIsOnlyAnError, (uint64_t seed)) {
  native::Codec codec;
  Generator generate(seed);
  std::vector<uint8_t> frame;
  const bool is_request = generate.flag();
  if (is_request) RC_ASSERT(codec.encode_request(7, false, generate.command(generate.below(Generator::kCommands)), frame).has_value());
  else RC_ASSERT(codec.encode_response(7, generate.reply(generate.below(Generator::kReplies)), 0, frame).has_value());
  const uint64_t header_end = native::kLengthBytes + 8 * uint64_t{load_le<uint32_t>(frame.data() + 4)};
  for (uint64_t left = 1 + generate.below(4); left > 0; --left) {
    const uint64_t at = native::kLengthBytes + generate.below(header_end - native::kLengthBytes);
    frame[at] ^= static_cast<uint8_t>(1 + generate.below(255));
  }
  if (is_request) {
    if (const auto decoded = codec.decode_request(frame); !decoded)
      RC_ASSERT(decoded.error().error.detail.find(".c++") == std::string::npos);
  } else {
    (void)codec.decode_response(frame);
  }
  std::vector<uint8_t> again;
  const Command command = generate.command(1);
  RC_ASSERT(codec.encode_request(8, false, command, again).has_value());
  const auto decoded = codec.decode_request(again);
  RC_ASSERT(decoded.has_value());
  RC_ASSERT(spelled(decoded->command) == spelled(command));
}

// Two frames in one buffer: the second begins where the first ends.
RC_GTEST_PROP(NativeCodec, FramesFollowEachOther, (uint64_t seed)) {
  native::Codec codec;
  Generator generate(seed);
  std::vector<uint8_t> stream;
  std::vector<std::string> sent;
  for (uint64_t left = 1 + generate.below(8); left > 0; --left) {
    const Command command = generate.command(generate.below(Generator::kCommands));
    RC_ASSERT(codec.encode_request(static_cast<uint32_t>(left), false, command, stream).has_value());
    sent.push_back(spelled(command));
  }
  native::Framer framer(native::kFrameBytesMaxRequest);
  std::vector<std::string> got;
  for (size_t at = 0; at < stream.size();) {
    const size_t bytes = std::min<size_t>(1 + generate.below(generate.flag() ? 12 : 900), stream.size() - at);
    const std::vector<uint8_t> chunk(stream.begin() + static_cast<ptrdiff_t>(at), stream.begin() + static_cast<ptrdiff_t>(at + bytes));
    at += bytes;
    framer.feed(chunk);
    while (true) {
      const auto frame = framer.next();
      RC_ASSERT(frame.has_value());
      if (frame->empty()) break;
      const auto decoded = codec.decode_request(*frame);
      RC_ASSERT(decoded.has_value());
      got.push_back(spelled(decoded->command));
    }
  }
  RC_ASSERT(got == sent);
  RC_ASSERT(framer.buffered_bytes() == 0u);
}

// Any bytes in any chunks: the framer gives the same frames and the same end as for one chunk.
RC_GTEST_PROP(NativeFramer, ChunksDoNotMatter, (uint64_t seed)) {
  Generator generate(seed);
  std::vector<uint8_t> stream;
  for (uint64_t left = generate.below(6); left > 0; --left) {
    const uint32_t words = static_cast<uint32_t>(generate.below(4));
    const Bytes rest = generate.bytes(30);
    const size_t at = stream.size();
    stream.resize(at + 8);
    store_le(stream.data() + at, static_cast<uint32_t>(4 + 8 * words + rest.size()));
    store_le(stream.data() + at + 4, words + (generate.below(20) == 0 ? 9u : 0u));
    stream.resize(stream.size() + 8 * words, 0xAA);
    stream.insert(stream.end(), rest.begin(), rest.end());
  }
  const auto run = [&stream](auto next_chunk) {
    native::Framer framer(200);
    std::vector<std::string> out;
    for (size_t at = 0; at < stream.size();) {
      const size_t bytes = std::min<size_t>(next_chunk(), stream.size() - at);
      framer.feed(Bytes(stream).subspan(at, bytes));
      at += bytes;
      while (true) {
        const auto frame = framer.next();
        if (!frame) { out.push_back(frame.error().text()); return out; }
        if (frame->empty()) break;
        out.emplace_back(as_text(*frame));
      }
    }
    return out;
  };
  const auto whole = run([] { return size_t{1} << 20; });
  RC_ASSERT(run([] { return size_t{1}; }) == whole);
  RC_ASSERT(run([&generate] { return 1 + generate.below(13); }) == whole);
}

}  // namespace
}  // namespace fulmar
