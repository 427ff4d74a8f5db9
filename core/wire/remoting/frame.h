#pragma once
// RocketMQ's remoting frame: two length words, a header in one of two encodings, a body. What header fields mean stands in commands.h.
//
//   u32 length of what follows | u8 encoding (0 JSON, 1 binary) | u24 header bytes | header | body        all big-endian (remoting.md 1.2)
//
// The reader is lenient where clients differ (any order of keys, values of extFields as numbers or booleans, unknown keys, keys without
// quotes); the writer is strict: every client reads its JSON, with all values of extFields as strings. One pass each, no tree: nearly every
// message of nearly every client goes through here.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/result.h"

namespace fulmar::remoting {

inline constexpr uint32_t kFrameBytesMax = 16u << 20;     // RocketMQ's, length words included
inline constexpr uint32_t kHeaderBytesMax = 1u << 20;     // properties of 32,767 bytes take six times that when all of them are escaped
inline constexpr size_t kFieldsMax = 256;
inline constexpr uint32_t kNestingMax = 32;               // of values that nobody reads

// FrameTooLarge; FrameBroken: the header is longer than the frame or its bound, or in an encoding that nobody knows.
Result<size_t> frame_bytes(Bytes start, uint32_t frame_bytes_max);

enum class Encoding : uint8_t { Json = 0, Binary = 1 };
inline constexpr uint32_t kResponseFlag = 1, kOneWayFlag = 2;

// By RocketMQ's numbers. A language that nobody knows is Other.
enum class Language : uint8_t { Java, Cpp, DotNet, Python, Delphi, Erlang, Ruby, Other, Http, Go, Php, Oms, Rust, NodeJs };
std::string_view to_string(Language language);   // "JAVA"

struct Field { std::string_view name, value; };

struct Frame {
  Encoding encoding = Encoding::Json;
  int32_t code = 0;
  Language language = Language::Other;
  int32_t version = 0;
  int32_t opaque = 0;
  uint32_t flag = 0;
  std::string_view remark;
  std::vector<Field> fields;         // extFields without nulls; of equal names the last counts
  Bytes body;
  bool is_response() const { return (flag & kResponseFlag) != 0; }
  bool is_one_way() const { return (flag & kOneWayFlag) != 0; }
  std::optional<std::string_view> find(std::string_view name) const;
};

// Reads frames one after the other; what it gives is good until its next read, and while `bytes` are.
class FrameReader {
 public:
  // `bytes`: one whole frame as the Framer gives it. HeaderBroken: names the place.
  Result<const Frame*> read(Bytes bytes);

 private:
  Frame frame_;
  std::string text_;   // of strings that were escaped
};

// Appends one frame to `out`: fields in the order in which they are given, then finish(). Text that is not UTF-8 is written with '?' in
// its place. Bound of a binary header: code and version are 16 bits, names 32,767 bytes (CHECKed; both are ours).
class FrameWriter {
 public:
  struct Start {
    Encoding encoding = Encoding::Json;
    int32_t code = 0;
    int32_t opaque = 0;
    uint32_t flag = kResponseFlag;
    std::string_view remark = {};
    Language language = Language::Cpp;
    int32_t version = 0;
  };
  FrameWriter(std::vector<uint8_t>& out, const Start& start);
  FrameWriter& field(std::string_view name, std::string_view value);
  FrameWriter& field(std::string_view name, int64_t value);
  // `following_bytes` of body are written by the caller after this, behind `body`. The length word counts them: at most kFrameBytesMax in all.
  void finish(Bytes body = {}, uint64_t following_bytes = 0);

 private:
  void raw(std::string_view text) { out_.insert(out_.end(), text.begin(), text.end()); }
  void number(int64_t value);
  void quoted(std::string_view text);
  template <class T> void be(T value);
  std::vector<uint8_t>& out_;
  Start start_;
  size_t begin_, fields_begin_ = 0;   // of the frame, and of what its binary field length counts
  bool has_fields_ = false;
};

}  // namespace fulmar::remoting
