// What the codec says about malformed headers, and the bounds it keeps.

#include "core/wire/native/codec.h"

#include <gtest/gtest.h>

#include "core/wire/framer.h"

namespace fulmar {
namespace {

using native::Codec;

std::vector<uint8_t> request(const Command& command, uint32_t opaque = 5) {
  Codec codec;
  std::vector<uint8_t> out;
  EXPECT_TRUE(codec.encode_request(opaque, false, command, out).has_value());
  return out;
}

command::SendMessage send_of(std::string_view topic, std::string_view body) {
  command::SendMessage c;
  c.topic = topic;
  c.body = as_bytes(body);
  return c;
}

TEST(NativeCodec, AppendsBehindWhatIsThere) {
  Codec codec;
  std::vector<uint8_t> out = {1, 2, 3};
  ASSERT_TRUE(codec.encode_request(9, true, command::QueryRoute{"t"}, out).has_value());
  const auto decoded = codec.decode_request(Bytes(out).subspan(3));
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->opaque, 9u);
  EXPECT_TRUE(decoded->is_one_way);
  EXPECT_EQ(std::get<command::QueryRoute>(decoded->command).topic, "t");
}

TEST(NativeCodec, AnEmptyTopicStillNamesItsMethod) {
  const auto frame = request(command::DescribeTopic{""});
  Codec codec;
  EXPECT_TRUE(std::holds_alternative<command::DescribeTopic>(codec.decode_request(frame)->command));
}

// Answers to sends are made from one header that is kept. What stands behind the frame's length is the same as built from nothing, which an
// answer with something following it is.
TEST(NativeCodec, AnswersToSendsAreWhatTheyWouldBeBuiltAnew) {
  Codec codec;
  for (const size_t id_bytes : {32, 32, 56, 0, 32, 64, 65}) {
    reply::Sent sent;
    sent.code = id_bytes == 56 ? Code::FlushDiskTimeout : Code::Success;
    sent.queue_id = static_cast<int32_t>(id_bytes) - 40;
    sent.queue_offset = QueueOffset(INT64_MAX - static_cast<int64_t>(id_bytes));
    sent.count = 7;
    sent.physical_offset = PhysicalOffset(uint64_t{1} << id_bytes % 63);
    sent.message_id.assign(id_bytes, static_cast<char>('A' + id_bytes % 7));
    std::vector<uint8_t> kept, anew;
    ASSERT_TRUE(codec.encode_response(11, sent, 0, kept).has_value());
    ASSERT_TRUE(codec.encode_response(11, sent, 8, anew).has_value());
    ASSERT_EQ(kept.size(), anew.size());
    EXPECT_TRUE(std::equal(kept.begin() + 4, kept.end(), anew.begin() + 4)) << id_bytes;
    const auto decoded = codec.decode_response(kept);
    ASSERT_TRUE(decoded.has_value()) << id_bytes;
    const auto& back = std::get<reply::Sent>(decoded->reply);
    EXPECT_EQ(back.message_id, sent.message_id);
    EXPECT_EQ(back.queue_offset, sent.queue_offset);
  }
  reply::Sent with_nul;
  with_nul.message_id = std::string(32, '\0');
  std::vector<uint8_t> none;
  EXPECT_FALSE(codec.encode_response(11, with_nul, 0, none).has_value());
}

TEST(NativeCodec, TheBodyIsNotCopied) {
  const auto frame = request(send_of("t", "body"));
  Codec codec;
  const auto decoded = codec.decode_request(frame);
  const Bytes body = std::get<command::SendMessage>(decoded->command).body;
  EXPECT_EQ(body.data() + body.size(), frame.data() + frame.size());
}

TEST(NativeCodec, HostCommandsDoNotTravel) {
  Codec codec;
  std::vector<uint8_t> out = {7};
  const auto outcome = codec.encode_request(1, false, command::Stop{}, out);
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().text(), "InvalidArgument: only the host may say this");
  EXPECT_EQ(out.size(), 1u);
  EXPECT_FALSE(codec.encode_response(1, reply::Delivered{}, 0, out).has_value());
}

TEST(NativeCodec, HeadersAreAtMost64KiB) {
  Codec codec;
  std::vector<uint8_t> out;
  const std::string properties(8 * native::kHeaderWordsMax - 8, 'p');
  command::SendMessage c = send_of("t", "b");
  c.properties = as_bytes(properties);
  const auto outcome = codec.encode_request(1, false, c, out);
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().text(), "InvalidArgument: does not fit a header of 65536 bytes");
  EXPECT_TRUE(out.empty());
  c.properties = c.properties.first(32767);
  ASSERT_TRUE(codec.encode_request(1, false, c, out).has_value());  // the scratch is clean again
  EXPECT_EQ(std::get<command::SendMessage>(codec.decode_request(out)->command).properties.size(), 32767u);
}

TEST(NativeCodec, SlicesThatFollowAreCounted) {
  Codec codec;
  std::vector<uint8_t> out;
  reply::Pulled pulled;
  pulled.count = 2;
  ASSERT_TRUE(codec.encode_response(3, pulled, 100, out).has_value());
  EXPECT_EQ(load_le<uint32_t>(out.data()) + 4, out.size() + 100);
  out.resize(out.size() + 100, 0xEE);
  EXPECT_EQ(std::get<reply::Pulled>(codec.decode_response(out)->reply).records.size(), 100u);
}

TEST(NativeCodec, NamesTheFieldThatIsWrong) {
  Codec codec;
  const auto failure_of = [&codec](const std::vector<uint8_t>& frame) {
    const auto decoded = codec.decode_request(frame);
    EXPECT_FALSE(decoded.has_value());
    return decoded ? std::string()
                   : fmt::format("{} {} {}", decoded.error().has_opaque, decoded.error().opaque, decoded.error().error.text());
  };

  auto with_nul = request(send_of("topic", ""));
  const auto at = as_text(with_nul).find("topic");
  with_nul[at + 2] = 0;
  EXPECT_EQ(failure_of(with_nul), "true 5 HeaderBroken: send.topic contains a NUL");

  auto without_end = request(send_of("topic", ""));
  without_end[at + 5] = 'x';  // the NUL behind the text
  EXPECT_EQ(failure_of(without_end), "true 5 HeaderBroken: send.topic does not parse");

  command::PullMessages pull;
  pull.count_max = -3;
  EXPECT_EQ(failure_of(request(pull)), "true 5 HeaderBroken: pull.countMax is negative: -3");

  auto with_attachment = request(command::GetStatus{});
  with_attachment.push_back('!');
  store_le(with_attachment.data(), load_le<uint32_t>(with_attachment.data()) + 1);
  EXPECT_EQ(failure_of(with_attachment), "true 5 HeaderBroken: status.attachment of 1 bytes is not expected");

  auto later = request(command::GetStatus{});
  store_le<uint16_t>(later.data() + 8 + 8 + 6, 400);  // the union's tag, in the fourth 16 bits of the data section
  EXPECT_EQ(failure_of(later), "true 5 Unsupported: request 400 is not known to version 1 of the native protocol");

  EXPECT_EQ(failure_of({4, 0, 0, 0, 0, 0, 0, 0}), "false 0 HeaderBroken: request does not parse");
}

TEST(NativeCodec, TopicTablesAreMeasured) {
  command::RegisterBroker c;
  c.broker_name = "b";
  c.topics = {{"first", 4, 4, 6}, {"second", 8, 8, 4}};
  Codec codec;
  const auto whole = request(c);
  auto cut = whole;
  cut.pop_back();
  store_le(cut.data(), load_le<uint32_t>(cut.data()) - 1);
  EXPECT_EQ(codec.decode_request(cut).error().error.detail, "registerBroker.topic table ends inside entry 2 of 2");
  auto longer = whole;
  longer.push_back(0);
  store_le(longer.data(), load_le<uint32_t>(longer.data()) + 1);
  EXPECT_EQ(codec.decode_request(longer).error().error.detail, "registerBroker.topic table has 1 bytes after its last entry");
  ASSERT_TRUE(codec.decode_request(whole).has_value());
}

TEST(NativeCodec, MemberTablesAreMeasured) {
  reply::Members r;
  r.members = {"a", "b"};
  r.absent = {{"T", {1}}};
  Codec codec;
  std::vector<uint8_t> whole;
  ASSERT_TRUE(codec.encode_response(1, r, 0, whole).has_value());
  const auto failure_of = [&codec](std::vector<uint8_t> frame) {
    store_le(frame.data(), static_cast<uint32_t>(frame.size() - 4));
    const auto decoded = codec.decode_response(frame);
    return decoded ? std::string("decodes") : decoded.error().error.detail;
  };
  auto cut = whole;
  cut.pop_back();
  EXPECT_EQ(failure_of(cut), "members.member table has 3 bytes for 1 entries");
  auto longer = whole;
  longer.push_back(0);
  EXPECT_EQ(failure_of(longer), "members.member table has 1 bytes after its last entry");
  auto stranger = whole;
  stranger.back() = 2;
  EXPECT_EQ(failure_of(stranger), "members.member table names member 2 of 2");
  auto many = whole;
  many[many.size() - 5] = 200;   // the number of absent members
  EXPECT_EQ(failure_of(many), "members.member table has 4 bytes for 200 entries");
  EXPECT_EQ(failure_of(whole), "decodes");
}

TEST(NativeFramer, RefusesWhatCannotBeAFrame) {
  const auto outcome = [](std::vector<uint8_t> bytes) {
    native::Framer framer(1000);
    framer.feed(bytes);
    const auto frame = framer.next();
    return frame ? fmt::format("{} bytes", frame->size()) : frame.error().text();
  };
  EXPECT_EQ(outcome({4, 0, 0, 0, 0, 0, 0, 0}), "8 bytes");
  EXPECT_EQ(outcome({4, 0, 0}), "0 bytes");
  EXPECT_EQ(outcome({3, 0, 0, 0}), "FrameBroken: a frame of 3 bytes has no room for its header length");
  EXPECT_EQ(outcome({0xE9, 3, 0, 0}), "FrameTooLarge: a frame of 1001 bytes, at most 1000");
  EXPECT_EQ(outcome({4, 0, 0, 0, 1, 0, 0, 0}), "FrameBroken: a header of 1 words in a frame of 4 bytes");
  EXPECT_EQ(outcome({0xE8, 3, 0, 0, 1, 0x20, 0, 0}), "FrameBroken: a header of 8193 words, at most 8192");
}

TEST(NativeFramer, KeepsOnlyTheRest) {
  native::Framer framer(1000);
  const std::vector<uint8_t> chunk = {4, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0};
  framer.feed(chunk);
  EXPECT_EQ(framer.next()->data(), chunk.data());  // in place
  EXPECT_TRUE(framer.next()->empty());
  EXPECT_EQ(framer.buffered_bytes(), 5u);
  const std::vector<uint8_t> more = {0, 0, 0, 'a', 'b', 'c', 'd'};
  framer.feed(more);
  EXPECT_TRUE(framer.next()->empty());
  const std::vector<uint8_t> rest = {'e', 4, 0};
  framer.feed(rest);
  EXPECT_EQ(framer.next()->size(), 13u);
  EXPECT_TRUE(framer.next()->empty());
  EXPECT_EQ(framer.buffered_bytes(), 2u);
}

}  // namespace
}  // namespace fulmar
