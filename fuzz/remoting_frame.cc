// RocketMQ's protocol against strangers. The first byte chooses; the rest is a stream of frames:
//   0  each becomes commands, and every refusal that comes of it can be said      1  each is written again, and reads as the same
// Connections, with the choice of the protocol, are those of native_frame.cc.

#include "core/base/check.h"
#include "core/wire/framer.h"
#include "core/wire/remoting/commands.h"

namespace {

using namespace fulmar;
using namespace fulmar::remoting;

constexpr size_t kBytesMax = 1u << 16;

void understand(Bytes bytes) {
  Codec codec;
  const auto request = codec.decode_request(bytes);
  if (!request) {
    CHECK(request.error().code == Errc::HeaderBroken && !request.error().detail.empty());
    return;
  }
  CHECK(request->parts.empty() || !request->answer);
  std::vector<uint8_t> out;
  Ask to = request->ask;
  if (request->answer) CHECK(Codec::encode_reply(to, *request->answer, 0, out).has_value());
  // What a broker would say to the topic or group that was named.
  CHECK(Codec::encode_reply(to, Refusal{Code::TopicNotExist, fmt::format("there is no topic '{}'", as_text(bytes).substr(0, 255)), "", 0}, 0, out).has_value());
}

std::vector<uint8_t> written(const Frame& frame) {
  FrameWriter::Start start;
  start.code = frame.code;
  start.opaque = frame.opaque;
  start.flag = frame.flag;
  start.remark = frame.remark;
  start.language = frame.language;
  start.version = frame.version;
  std::vector<uint8_t> out;
  FrameWriter writer(out, start);
  for (const Field& field : frame.fields) writer.field(field.name, field.value);
  writer.finish(frame.body);
  return out;
}

void write_again(Bytes bytes) {
  FrameReader reader, reader_again;
  const auto read = reader.read(bytes);
  if (!read) return;
  const std::vector<uint8_t> once = written(**read);
  const auto read_again = reader_again.read(once);
  CHECK(read_again.has_value() && (*read_again)->fields.size() == (*read)->fields.size());
  CHECK(written(**read_again) == once);   // after the first writing all text is UTF-8
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > kBytesMax) return 0;
  Framer framer(kFrameBytesMax, frame_bytes);
  framer.feed(Bytes(data + 1, size - 1));
  while (true) {
    const auto frame = framer.next();
    if (!frame || frame->empty()) return 0;
    if (data[0] % 2 == 0) understand(*frame);
    else write_again(*frame);
  }
}
