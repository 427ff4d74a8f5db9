// Frames of RocketMQ's protocol: written and read again in both encodings, and cut in any way.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "../../unit/wire/remoting_kit.h"
#include "generators.h"

namespace fulmar::test {
namespace {

using namespace remoting;

// Text that is UTF-8, with everything in it that needs an escape.
std::string text(Generator& generate, size_t pieces_max) {
  constexpr std::string_view kPieces[] = {"a", "Z9", "\"", "\\", "\n", "\1", "\2", "/", " ", "é", "€", "😀", "\x7F", "{}", ":", "\\u0041"};
  std::string out;
  for (uint64_t left = generate.below(pieces_max + 1); left > 0; --left) out += kPieces[generate.below(std::size(kPieces))];
  return out;
}

RC_GTEST_PROP(RemotingFrame, RoundTrip, (uint64_t seed)) {
  Generator generate(seed);
  FrameWriter::Start start;
  start.encoding = generate.flag() ? Encoding::Json : Encoding::Binary;
  start.code = static_cast<int16_t>(generate.below(1u << 16));
  start.opaque = static_cast<int32_t>(generate.below(uint64_t{1} << 32));
  start.flag = static_cast<uint32_t>(generate.below(4));
  start.version = static_cast<int32_t>(generate.below(32'000));
  start.language = static_cast<Language>(generate.below(14));
  const std::string remark = text(generate, 10);
  start.remark = remark;
  std::vector<std::pair<std::string, std::string>> fields;
  for (uint64_t left = generate.below(12); left > 0; --left) fields.emplace_back("f" + text(generate, 5), text(generate, 20));
  const Bytes body = generate.bytes(200);
  std::vector<uint8_t> out;
  FrameWriter writer(out, start);
  for (const auto& [name, value] : fields) writer.field(name, value);
  writer.finish(body);

  FrameReader reader;
  for (int round = 0; round < 2; ++round) {
    const auto read = reader.read(out);
    RC_ASSERT(read.has_value());
    const Frame& frame = **read;
    RC_ASSERT(frame.encoding == start.encoding && frame.code == start.code && frame.opaque == start.opaque && frame.flag == start.flag);
    RC_ASSERT(frame.version == start.version && frame.language == start.language && frame.remark == remark);
    RC_ASSERT(equal(frame.body, body));
    // A binary text of length 0 is none.
    if (start.encoding == Encoding::Binary) std::erase_if(fields, [](const auto& field) { return field.second.empty(); });
    RC_ASSERT(frame.fields.size() == fields.size());
    for (size_t i = 0; i < fields.size(); ++i) {
      RC_ASSERT(frame.fields[i].name == fields[i].first);
      RC_ASSERT(frame.fields[i].value == fields[i].second);
    }
  }
}

// A frame with a byte that is another: read or refused, never more than that.
RC_GTEST_PROP(RemotingFrame, AnyByteMayBeWrong, (uint64_t seed)) {
  Generator generate(seed);
  Spoken spoken_by{RequestCode::SendMessageV2, {{"a", "group"}, {"b", "topic"}, {"e", "0"}, {"f", "0"}, {"g", "1"}, {"h", "0"}, {"i", "TAGS\1x\2"}}, "body"};
  spoken_by.encoding = generate.flag() ? Encoding::Json : Encoding::Binary;
  std::vector<uint8_t> bytes = frame_of(spoken_by);
  for (uint64_t left = 1 + generate.below(3); left > 0; --left) bytes[8 + generate.below(bytes.size() - 8)] = static_cast<uint8_t>(generate.below(256));
  Codec codec;
  const auto request = codec.decode_request(bytes);
  if (!request) {
    RC_ASSERT(request.error().code == Errc::HeaderBroken);
    return;
  }
  std::vector<uint8_t> out;
  if (request->answer) RC_ASSERT(Codec::encode_reply(request->ask, *request->answer, 0, out).has_value());
}

RC_GTEST_PROP(RemotingFramer, ChunksDoNotMatter, (uint64_t seed)) {
  Generator generate(seed);
  std::vector<uint8_t> stream;
  for (uint64_t left = generate.below(6); left > 0; --left) {
    const std::vector<uint8_t> one = raw_frame(as_text(generate.bytes(20)), as_text(generate.bytes(30)), generate.below(20) == 0 ? 2 : static_cast<uint8_t>(generate.below(2)));
    stream.insert(stream.end(), one.begin(), one.end());
  }
  const auto run = [&stream](auto next_chunk) {
    Framer framer(200, frame_bytes);
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
}  // namespace fulmar::test
