// JSON as RocketMQ writes it, and everything that a file or a peer may send instead.

#include <gtest/gtest.h>

#include "core/base/json.h"

namespace fulmar {
namespace {

Json parsed(std::string_view text, const JsonBounds& bounds = {}) {
  auto out = Json::parse(text, bounds);
  EXPECT_TRUE(out.has_value()) << text.substr(0, 200) << ": " << (out ? "" : out.error().text());
  return out ? std::move(*out) : Json();
}
Errc refused(std::string_view text, const JsonBounds& bounds = {}) {
  const auto out = Json::parse(text, bounds);
  EXPECT_FALSE(out.has_value()) << text.substr(0, 200);
  return out ? Errc::Internal : out.code();
}

TEST(Json, ReadsConsumerOffsets) {
  const Json file = parsed(R"({"dataVersion":{"counter":3,"stateVersion":0,"timestamp":1700000000000},
    "offsetTable":{"orders@billing":{0:120,1:98},"%RETRY%billing@billing":{0:4}}})");
  const Json* table = file.find("offsetTable");
  ASSERT_NE(table, nullptr);
  ASSERT_EQ(table->members().size(), 2u);
  EXPECT_EQ(table->members()[0].first, "orders@billing");
  EXPECT_EQ(table->members()[0].second.members()[1].first, "1");
  EXPECT_EQ(table->members()[0].second.find("1")->as_int64(), 98);
  EXPECT_EQ(file.find("dataVersion")->find("timestamp")->as_int64(), 1'700'000'000'000);
  EXPECT_EQ(file.find("nothing"), nullptr);
}
TEST(Json, QuotesKeysOnlyWhereKeysStand) {
  EXPECT_EQ(parsed("{ -1 : [0,1,-2], \"a:{1\":{2:3} , 4\t:5}").members()[3 - 1].first, "4");
  EXPECT_EQ(parsed(R"({"a\"{1:":[{7:[8]}]})").find("a\"{1:")->items()[0].find("7")->items()[0].as_int64(), 8);
  EXPECT_EQ(parsed(R"({"a":"{1:2,3:4}"})").find("a")->as_text(), "{1:2,3:4}");
}
TEST(Json, KeepsAll64Bits) {
  const Json v = parsed("[9223372036854775807,-9223372036854775808,18446744073709551615,18446744073709551616,1.0,1e3,\"77\",-0]");
  const auto& items = v.items();
  EXPECT_EQ(items[0].as_int64(), INT64_MAX);
  EXPECT_EQ(items[1].as_int64(), INT64_MIN);
  EXPECT_EQ(items[2].as_uint64(), UINT64_MAX);
  EXPECT_EQ(items[2].as_int64(), std::nullopt);
  EXPECT_EQ(items[3].as_uint64(), std::nullopt);
  EXPECT_EQ(items[3].number_text(), "18446744073709551616");
  EXPECT_EQ(items[4].as_int64(), std::nullopt);
  EXPECT_EQ(items[5].as_int64(), std::nullopt);
  EXPECT_EQ(items[6].as_int64(), 77);
  EXPECT_EQ(items[7].as_int64(), 0);
}
TEST(Json, KindsDoNotTurnIntoEachOther) {
  const Json v = parsed(R"([null,true,false,"","x",{},[]])");
  EXPECT_TRUE(v.items()[0].is_null());
  EXPECT_EQ(v.items()[0].as_int64(), std::nullopt);
  EXPECT_EQ(v.items()[1].as_bool(), true);
  EXPECT_EQ(v.items()[2].as_bool(), false);
  EXPECT_EQ(v.items()[3].as_text(), "");
  EXPECT_EQ(v.items()[3].as_int64(), std::nullopt);
  EXPECT_EQ(v.items()[4].as_bool(), std::nullopt);
  EXPECT_TRUE(v.items()[5].is_object());
  EXPECT_TRUE(v.items()[6].is_array());
  EXPECT_EQ(v.items()[1].as_text(), std::nullopt);
}
TEST(Json, TheLastOfEqualKeysCounts) { EXPECT_EQ(parsed(R"({"a":1,"b":2,"a":3})").find("a")->as_int64(), 3); }
TEST(Json, Unescapes) {
  EXPECT_EQ(parsed(R"(["\u0041\uD83D\uDE00\n\"\\\/"])").items()[0].as_text(), "A\xF0\x9F\x98\x80\n\"\\/");
  EXPECT_EQ(parsed(R"(["\u0000"])").items()[0].as_text(), std::string_view("\0", 1));
}

TEST(Json, RefusesWhatIsNotJson) {
  for (const std::string_view text : {"", " ", "{", "}", "[1,", "[1 2]", "{1}", "{1:}", "{1:2,}", "{,}", "nul", "[01]", "[1.]", "[+1]", "{a:1}", "{-:1}", "{1.5:2}",
                                      "{\"a\":1}x", "\"abc", "\"\\", "\"\\u12", "\"\\uD800\"", "\"\\uDE00\"", "{\"\\uDE00\":1}", "[NaN]", "[Infinity]", "['a']", "{\"a\" 1}", "[\"\x01\"]", "// a"})
    EXPECT_EQ(refused(text), Errc::InvalidArgument) << text;
  EXPECT_EQ(refused(std::string_view("{}\0{}", 5)), Errc::InvalidArgument);
  EXPECT_EQ(refused(std::string_view("[\"a\0b\"]", 7)), Errc::InvalidArgument);
  EXPECT_EQ(refused("[\"\xFF\"]"), Errc::InvalidArgument);
  EXPECT_EQ(refused("[\"\xC0\x80\"]"), Errc::InvalidArgument);
}
TEST(Json, EveryTruncationIsRefused) {
  const std::string_view whole = R"({"offsetTable":{"orders@billing":{0:120,1:98}},"x":[true,null,"\u00e9"]})";
  (void)parsed(whole);
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_EQ(refused(whole.substr(0, size)), Errc::InvalidArgument) << size;
}
TEST(Json, BoundsDepthSizeAndCount) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  (void)parsed(nested(64));
  EXPECT_EQ(refused(nested(65)), Errc::OutOfRange);
  EXPECT_EQ(refused(nested(10'000)), Errc::OutOfRange);
  EXPECT_EQ(refused(std::string(10'000, '[')), Errc::OutOfRange);
  (void)parsed(nested(10'000), {.depth_max = 10'000});
  EXPECT_EQ(refused(std::string(10'000, '['), {.depth_max = 10'000}), Errc::InvalidArgument);
  std::string objects;
  for (int i = 0; i < 10'000; ++i) objects += "{1:";
  EXPECT_EQ(refused(objects, {.depth_max = 10'000}), Errc::InvalidArgument);
  EXPECT_EQ(refused("[1,2,3]", {.bytes_max = 6}), Errc::OutOfRange);
  (void)parsed("[1,2,3]", {.bytes_max = 7, .values_max = 4});
  EXPECT_EQ(refused("[1,2,3]", {.values_max = 3}), Errc::OutOfRange);
}
TEST(Json, HugeNumbersAreTextOrRefused) {
  const std::string digits(300, '9'), too_many(100'000, '9');
  EXPECT_EQ(parsed("[" + digits + "]").items()[0].number_text(), digits);
  EXPECT_EQ(parsed("[" + digits + "]").items()[0].as_uint64(), std::nullopt);
  EXPECT_EQ(parsed("{" + too_many + ":1}").members()[0].first, too_many);
  EXPECT_EQ(refused("[" + too_many + "]"), Errc::InvalidArgument);  // beyond the range of a double, as the library counts
  EXPECT_EQ(refused("[1e99999]"), Errc::InvalidArgument);
}

TEST(JsonWriter, WritesIntegerKeysWithoutQuotes) {
  JsonWriter out;
  out.begin_object().key("offsetTable").begin_object().key("orders@billing").begin_object().key(0).value(12).key(1).value(7);
  out.end_object().end_object().key("flags").begin_array().value(true).null().value("a\"\\\n\x01").value(UINT64_MAX).value(INT64_MIN).end_array().end_object();
  EXPECT_EQ(out.take(),
            R"({"offsetTable":{"orders@billing":{0:12,1:7}},"flags":[true,null,"a\"\\\n\u0001",18446744073709551615,-9223372036854775808]})");
}
TEST(JsonWriter, PrettyIndentsByTabs) {
  JsonWriter out(JsonWriter::Layout::Pretty);
  out.begin_object().key("a").value(1).key("b").begin_object().end_object().key("c").begin_array().value(1).value(2).end_array().end_object();
  EXPECT_EQ(out.take(), "{\n\t\"a\":1,\n\t\"b\":{},\n\t\"c\":[\n\t\t1,\n\t\t2\n\t]\n}");
}
TEST(JsonWriterDeathTest, MisuseIsOurOwnBug) {
  EXPECT_DEATH(JsonWriter().begin_object().value(1), "needs a key");
  EXPECT_DEATH(JsonWriter().begin_array().key("a"), "CHECK failed");
  EXPECT_DEATH(JsonWriter().begin_array().end_object(), "CHECK failed");
  EXPECT_DEATH((void)JsonWriter().begin_array().take(), "CHECK failed");
  EXPECT_DEATH(JsonWriter().value(1).value(2), "one document");
}

}  // namespace
}  // namespace fulmar
