#pragma once
// Remoting frames for tests, written by FrameWriter or by hand.

#include <initializer_list>
#include <string>
#include <vector>

#include "core/wire/framer.h"
#include "core/wire/remoting/commands.h"

namespace fulmar::test {

struct Spoken {
  remoting::RequestCode code{};
  std::vector<remoting::Field> fields = {};
  std::string_view body = {};
  int32_t opaque = 7;
  remoting::Encoding encoding = remoting::Encoding::Json;
  uint32_t flag = 0;
};

inline void append(std::vector<uint8_t>& to, const Spoken& s) {
  remoting::FrameWriter::Start start;
  start.encoding = s.encoding;
  start.code = static_cast<int32_t>(s.code);
  start.opaque = s.opaque;
  start.flag = s.flag;
  start.language = remoting::Language::Java;
  start.version = 121;
  remoting::FrameWriter writer(to, start);
  for (const remoting::Field& field : s.fields) writer.field(field.name, field.value);
  writer.finish(as_bytes(s.body));
}
inline std::vector<uint8_t> frame_of(const Spoken& s) {
  std::vector<uint8_t> out;
  append(out, s);
  return out;
}

// A frame of this encoding around a header that nobody has checked.
inline std::vector<uint8_t> raw_frame(std::string_view header, std::string_view body = {}, uint8_t encoding = 0) {
  std::vector<uint8_t> out(8);
  store_be(out.data(), static_cast<uint32_t>(4 + header.size() + body.size()));
  store_be(out.data() + 4, static_cast<uint32_t>(header.size()) | uint32_t{encoding} << 24);
  out.insert(out.end(), header.begin(), header.end());
  out.insert(out.end(), body.begin(), body.end());
  return out;
}

inline std::vector<uint8_t> from_hex(std::string_view hex) {
  std::string digits;
  for (const char c : hex) if (c != ' ') digits += c;
  std::vector<uint8_t> out;
  for (size_t i = 0; i + 1 < digits.size(); i += 2) out.push_back(static_cast<uint8_t>(std::stoul(digits.substr(i, 2), nullptr, 16)));
  return out;
}

// "7: code 0 (remark) offset=3 | body", one line for every frame in `bytes`.
inline std::string spoken(Bytes bytes) {
  Framer framer(remoting::kFrameBytesMax, remoting::frame_bytes);
  remoting::FrameReader reader;
  std::string text;
  framer.feed(bytes);
  while (true) {
    const auto whole = framer.next();
    if (!whole) return text + whole.error().text() + "\n";
    if (whole->empty()) return text;
    const auto read = reader.read(*whole);
    if (!read) {
      text += read.error().text() + "\n";
      continue;
    }
    const remoting::Frame& frame = **read;
    text += fmt::format("{}: {} {}", frame.opaque, frame.is_response() ? "code" : "request", frame.code);
    if (!frame.remark.empty()) text += fmt::format(" ({})", frame.remark);
    for (const remoting::Field& field : frame.fields) text += fmt::format(" {}={}", field.name, field.value);
    if (!frame.body.empty()) text += fmt::format(" | {}", as_text(frame.body));
    text += "\n";
  }
}

}  // namespace fulmar::test
