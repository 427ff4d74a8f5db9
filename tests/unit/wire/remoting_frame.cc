// RocketMQ's frames: bytes computed from the format's definition (remoting.md 1 and 16), what readers must put up with, and the bounds.

#include "core/wire/remoting/frame.h"

#include <gtest/gtest.h>

#include "remoting_kit.h"

namespace fulmar {
namespace {

using namespace remoting;
using test::from_hex;
using test::raw_frame;

std::string error_of(std::string_view header, uint8_t encoding = 0) {
  FrameReader reader;
  const auto read = reader.read(raw_frame(header, {}, encoding));
  return read ? "read" : read.error().text();
}
std::string measured(std::string_view hex, uint32_t bytes_max = kFrameBytesMax) {
  const auto size = frame_bytes(from_hex(hex), bytes_max);
  return size ? std::to_string(*size) : size.error().text();
}

TEST(RemotingFrame, LengthWords) {
  EXPECT_EQ(measured("0000005e 0000005a"), "98");
  EXPECT_EQ(measured("0000005e"), "0");
  EXPECT_EQ(measured("000000"), "0");
  EXPECT_EQ(measured("00000025 01000021"), "41");
  EXPECT_EQ(measured("00000003"), "FrameBroken: a frame of 3 bytes has no room for its header length");
  EXPECT_EQ(measured("00000004 00000001"), "FrameBroken: a header of 1 bytes in a frame of 4");
  EXPECT_EQ(measured("0000005e 0200005a"), "FrameBroken: a header in encoding 2, 0 and 1 are known");
  EXPECT_EQ(measured("00fffffd"), "FrameTooLarge: a frame of 16777213 bytes, at most 16777212");
  EXPECT_EQ(measured("00fffffc 00100001"), "FrameBroken: a header of 1048577 bytes, at most 1048576");
  EXPECT_EQ(measured("47455420"), "FrameTooLarge: a frame of 1195725856 bytes, at most 16777212");   // "GET "
}

TEST(RemotingFrame, GoldenBinaryRequest) {
  const auto bytes = from_hex("00000025 01000021 0069 00 01df 00000001 00000000 00000000 0000000c 0005 746f706963 00000001 54");
  FrameReader reader;
  const Frame& frame = **reader.read(bytes);
  EXPECT_EQ(frame.encoding, Encoding::Binary);
  EXPECT_EQ(frame.code, 105);
  EXPECT_EQ(frame.language, Language::Java);
  EXPECT_EQ(frame.version, 479);
  EXPECT_EQ(frame.opaque, 1);
  EXPECT_EQ(frame.flag, 0u);
  EXPECT_EQ(frame.find("topic"), "T");
  EXPECT_TRUE(frame.body.empty());

  std::vector<uint8_t> out;
  FrameWriter(out, {Encoding::Binary, 105, 1, 0, {}, Language::Java, 479}).field("topic", "T").finish();
  EXPECT_EQ(out, bytes);
}

TEST(RemotingFrame, GoldenJsonReply) {
  std::vector<uint8_t> out;
  FrameWriter(out, {Encoding::Json, 0, 17, kResponseFlag, {}, Language::Cpp, 409}).field("offset", 42).finish(as_bytes("body"));
  const std::string header = R"({"code":0,"extFields":{"offset":"42"},"flag":1,"language":"CPP","opaque":17,"version":409})";
  EXPECT_EQ(out, raw_frame(header, "body"));
  out.clear();
  FrameWriter(out, {Encoding::Json, 17, -3, kResponseFlag, "no \"topic\"\n", Language::Cpp, 409}).finish();
  EXPECT_EQ(out, raw_frame(R"({"code":17,"extFields":{},"flag":1,"language":"CPP","opaque":-3,"remark":"no \"topic\"\u000a","version":409})"));
}

TEST(RemotingFrame, BodyThatFollowsIsCounted) {
  std::vector<uint8_t> out;
  FrameWriter(out, {}).finish(as_bytes("ab"), 1000);
  EXPECT_EQ(load_be<uint32_t>(out.data()) + 4, out.size() + 1000);
}

TEST(RemotingFrame, ReadsWhatClientsWrite) {
  FrameReader reader;
  // Any order, white space, a newline behind it, numbers and booleans among the fields, nulls, keys without quotes, unknown keys of any kind.
  const auto bytes = raw_frame("{ \"opaque\":\t5, version:\"333\", extFields:{\"queueId\":3,e:-1,\"m\":true,\"n\":null,\"i\":\"\"} ,\n\"code\":310,"
                               "\"serializeTypeCurrentRPC\":\"JSON\", 0:[{\"a]\":[1,{}]}], other:{b:{}},\"language\":\"KLINGON\",\"remark\":null,\"flag\":2}\n", "b");
  const auto read = reader.read(bytes);
  ASSERT_TRUE(read.has_value()) << read.error().text();
  const Frame& frame = **read;
  EXPECT_EQ(frame.opaque, 5);
  EXPECT_EQ(frame.code, 310);
  EXPECT_EQ(frame.version, 333);
  EXPECT_EQ(frame.language, Language::Other);
  EXPECT_EQ(frame.find("queueId"), "3");
  EXPECT_EQ(frame.find("e"), "-1");
  EXPECT_EQ(frame.find("m"), "true");
  EXPECT_EQ(frame.find("n"), std::nullopt);
  EXPECT_EQ(frame.find("i"), "");
  EXPECT_TRUE(frame.is_one_way());
  EXPECT_EQ(as_text(frame.body), "b");
}

TEST(RemotingFrame, LanguageMayBeANumber) {
  FrameReader reader;
  EXPECT_EQ((*reader.read(raw_frame(R"({"code":1,"opaque":1,"language":9})")))->language, Language::Go);
  EXPECT_EQ((*reader.read(raw_frame(R"({"code":1,"opaque":1,"language":99})")))->language, Language::Other);
}

TEST(RemotingFrame, UnescapesText) {
  FrameReader reader;
  const auto bytes = raw_frame(R"({"code":1,"opaque":1,"extFields":{"p":"TAGS\u0001a\u0002\"\\\/\b\f\n\r\t","u":"\u00e9\u20ac\ud83d\ude00","lone":"\ud83dx\ude00","plain":"żółw"}})");
  const Frame& frame = **reader.read(bytes);
  EXPECT_EQ(frame.find("p"), std::string_view("TAGS\1a\2\"\\/\b\f\n\r\t"));
  EXPECT_EQ(frame.find("u"), "é€😀");
  EXPECT_EQ(frame.find("lone"), "?x?");
  EXPECT_EQ(frame.find("plain"), "żółw");
}

TEST(RemotingFrame, OfEqualNamesTheLastCounts) {
  FrameReader reader;
  EXPECT_EQ((*reader.read(raw_frame(R"({"code":1,"opaque":1,"extFields":{"a":"1","a":"2"}})")))->find("a"), "2");
}

TEST(RemotingFrame, WritesTextOfAnyBytesAsJson) {
  std::vector<uint8_t> out;
  FrameWriter(out, {}).field("a", "x\xFFy\xED\xA0\x80z\xC3").field("b", "é€😀\x7F\1").finish();
  FrameReader reader;
  const Frame& frame = **reader.read(out);
  EXPECT_EQ(frame.find("a"), "x?y???z?");
  EXPECT_EQ(frame.find("b"), "é€😀\x7F\1");
}

TEST(RemotingFrame, NamesWhatIsWrongWithAHeader) {
  EXPECT_EQ(error_of("{}"), "HeaderBroken: a header without code");
  EXPECT_EQ(error_of(R"({"code":1})"), "HeaderBroken: a header without opaque");
  EXPECT_EQ(error_of(""), "HeaderBroken: no object at byte 0 of the header");
  EXPECT_EQ(error_of(R"({"code":1.5,"opaque":1})"), "HeaderBroken: code is no 32-bit number at byte 11 of the header");
  EXPECT_EQ(error_of(R"({"code":99999999999,"opaque":1})"), "HeaderBroken: code is no 32-bit number at byte 19 of the header");
  EXPECT_EQ(error_of(R"({"code":1,"opaque":[1]})"), "HeaderBroken: opaque is no 32-bit number at byte 22 of the header");
  EXPECT_EQ(error_of(R"({"code":1,"opaque":1,"extFields":[]})"), "HeaderBroken: extFields is no object at byte 35 of the header");
  EXPECT_EQ(error_of(R"({"code":1,"opaque":1,"extFields":{"a":{}}})"),
            "HeaderBroken: a value of extFields is neither text nor number nor boolean at byte 40 of the header");
  EXPECT_EQ(error_of(R"({"code":1,"opaque":1,"x":"ab)"), "HeaderBroken: a string without end at byte 28 of the header");
  EXPECT_EQ(error_of(R"({"code":1,"opaque":1,"x":"\q"})"), "HeaderBroken: an escape that nobody knows at byte 26 of the header");
  EXPECT_EQ(error_of(R"({"code":1,"opaque":1,"x":"\u12"})"), "HeaderBroken: an escape without four hex digits at byte 26 of the header");
  EXPECT_EQ(error_of(R"({"code":1,"opaque":1} x)"), "HeaderBroken: something behind the object at byte 22 of the header");
  EXPECT_EQ(error_of(std::string_view("{\"code\":1,\"opaque\":1}\0", 22)), "HeaderBroken: a NUL at byte 21 of the header");
  EXPECT_EQ(error_of(R"({"code":1,"opaque":1,"x":nil})"), "HeaderBroken: no value at byte 28 of the header");
}

TEST(RemotingFrame, DepthAndCountAreBounded) {
  std::string deep = R"({"code":1,"opaque":1,"x":)" + std::string(10'000, '[');
  EXPECT_EQ(error_of(deep), "HeaderBroken: a value nested too deep at byte 57 of the header");
  EXPECT_EQ(error_of(R"({"code":1,"opaque":1,"x":)" + std::string(32, '[') + std::string(32, ']') + "}"), "read");
  std::string many = R"({"code":1,"opaque":1,"extFields":{)";
  for (size_t i = 0; i <= kFieldsMax; ++i) many += fmt::format("\"{}\":1,", i);
  many.back() = '}';
  EXPECT_TRUE(error_of(many + "}").starts_with("HeaderBroken: too many extFields"));
}

TEST(RemotingFrame, BinaryHeadersAreBounded) {
  const std::vector<uint8_t> good = from_hex("0069 00 01df 00000001 00000000 00000000 0000000c 0005 746f706963 00000001 54");
  for (size_t bytes = 0; bytes < good.size(); ++bytes)
    EXPECT_TRUE(error_of(as_text(good).substr(0, bytes), 1).starts_with("HeaderBroken: a binary header ends at byte")) << bytes;
  std::vector<uint8_t> lies = good;
  lies[20] = 11;   // the fields end inside the last value
  EXPECT_TRUE(error_of(as_text(lies), 1).starts_with("HeaderBroken: a binary header ends at byte"));
}

}  // namespace
}  // namespace fulmar
