// The very bytes of the native protocol, computed by hand from the definition of the frame (fulmar.capnp) and of Cap'n Proto's encoding
// (https://capnproto.org/encoding.html), not captured from our encoder. If one of these must change, so must the protocol's version.
//
// How to read them: a struct pointer is 4 bytes (distance in words << 2) and u16 data words, u16 pointers; a list pointer is 4 bytes
// (distance << 2 | 1) and 4 bytes (count << 3 | 2 for bytes); text counts its closing NUL; fields are XORed with their default.

#include <gtest/gtest.h>

#include <string>

#include "core/wire/native/codec.h"

namespace fulmar {
namespace {

std::vector<uint8_t> from_hex(std::string_view hex) {
  std::string digits;
  for (const char c : hex) if (c != ' ') digits += c;
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2) bytes.push_back(static_cast<uint8_t>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  return bytes;
}
std::string to_hex(Bytes bytes) {
  std::string hex;
  for (size_t i = 0; i < bytes.size(); ++i) hex += fmt::format("{}{:02x}", i != 0 && i % 4 == 0 ? " " : "", bytes[i]);
  return hex;
}
void expect_same(const std::vector<uint8_t>& encoded, std::string_view golden) { EXPECT_EQ(to_hex(encoded), to_hex(from_hex(golden))); }

// Request 0: hello, version 1, no features, client "c1".
constexpr std::string_view kHello =
    "44000000 08000000"   // 68 bytes follow the first word: 4 + 8 words of 8 bytes; header of 8 words
    "00000000 02000100"   // root: 2 data words, 1 pointer, right behind
    "00000000 00000000"   // opaque 0; one-way no (bit 32); method 0 (the last two bytes)
    "00000000 00000000"   // the numbers of other methods
    "00000000 02000100"   // hello: 2 data words, 1 pointer, right behind
    "01000000 00000000"   // version 1
    "00000000 00000000"   // features
    "01000000 1a000000"   // client: 3 bytes right behind (3 << 3 | 2)
    "63310000 00000000";  // "c1"

// Request 7: send to topic "T", queue 3, flag 5, sysFlag 1, born at 1000 ms, reconsumed twice, property K=v, body "hi".
constexpr std::string_view kSend =
    "5e000000 0b000000"   // 94 = 4 + 11 * 8 + 2
    "00000000 02000100"
    "07000000 00000100"   // opaque 7, method 1
    "00000000 00000000"
    "00000000 03000200"   // send: 3 data words, 2 pointers
    "fcffffff 05000000"   // queue 3 XOR -1 (the default), flag 5
    "01000000 02000000"   // sysFlag, reconsumeTimes (it fills the hole behind sysFlag)
    "e8030000 00000000"   // 1000
    "05000000 12000000"   // topic: one word further on, 2 bytes
    "05000000 22000000"   // properties: one word further on, 4 bytes, no NUL
    "54000000 00000000"   // "T"
    "4b017602 00000000"   // "K" 1 "v" 2
    "6869";               // the attachment: the body

// Response 7: sent, SUCCESS, queue 3, queue offset 42, one record, physical offset 4096, message id "AB".
constexpr std::string_view kSent =
    "54000000 0a000000"   // 84 = 4 + 10 * 8
    "00000000 02000100"
    "07000000 03000000"   // opaque 7, kind 3 (the two bytes behind opaque)
    "00000000 00000000"
    "00000000 04000100"   // sent: 4 data words, 1 pointer
    "00000000 03000000"   // SUCCESS, queue 3
    "2a000000 00000000"   // 42
    "01000000 00000000"   // one record
    "00100000 00000000"   // 4096
    "01000000 1a000000"   // message id: 3 bytes right behind
    "41420000 00000000";  // "AB"

// Request 9: heartbeat of client "c" of group "g", broadcasting, from 1000 ms on, topic "T" by "*", generation 5 known, held for 1000 ms.
constexpr std::string_view kHeartbeat =
    "94000000 12000000"   // 148 = 4 + 18 * 8
    "00000000 02000100"
    "09000000 00001100"   // opaque 9, method 17
    "00000000 00000000"
    "00000000 03000400"   // heartbeat: 3 data words, 4 pointers
    "01020000 e8030000"   // broadcasting, timestamp; 1000 ms fill the hole behind them
    "e8030000 00000000"   // 1000
    "05000000 00000000"   // 5
    "0d000000 12000000"   // client id: three words further on, 2 bytes
    "0d000000 12000000"   // group
    "00000000 00000000"   // no version
    "09000000 17000000"   // subscriptions: two words further on, structs, 2 words in all (2 << 3 | 7)
    "63000000 00000000"   // "c"
    "67000000 00000000"   // "g"
    "04000000 00000200"   // one element, no data, 2 pointers
    "05000000 12000000"   // topic: one word further on
    "05000000 12000000"   // expression
    "54000000 00000000"   // "T"
    "2a000000 00000000";  // "*"

// Response 9: generation 5, members "a" and "b", of which "b" does not subscribe to "T".
constexpr std::string_view kMembers =
    "4d000000 07000000"   // 77 = 4 + 7 * 8 + 17
    "00000000 02000100"
    "09000000 0d000000"   // opaque 9, kind 13
    "00000000 00000000"
    "00000000 02000100"   // members: 2 data words, 1 pointer
    "05000000 00000000"   // 5
    "02000000 01000000"   // 2 members, 1 absent
    "00000000 00000000"   // no conflict
    "000161 000162"       // the attachment, big-endian: "a", "b"
    "000154 00000001 00000001";  // "T", one member: 1

TEST(NativeGolden, Preamble) { EXPECT_EQ(to_hex(native::kPreamble), "46554c4d 41520001"); }  // FULMAR, version 1 big-endian

TEST(NativeGolden, Hello) {
  native::Codec codec;
  std::vector<uint8_t> frame;
  command::Hello c;
  c.client = "c1";
  ASSERT_TRUE(codec.encode_request(0, false, c, frame).has_value());
  expect_same(frame, kHello);
  const auto golden = from_hex(kHello);
  const auto decoded = codec.decode_request(golden);
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(std::get<command::Hello>(decoded->command).client, "c1");
}

TEST(NativeGolden, Send) {
  native::Codec codec;
  std::vector<uint8_t> frame;
  command::SendMessage c;
  c.topic = "T";
  c.queue_id = 3;
  c.flag = 5;
  c.sys_flag = 1;
  c.born = Wall{1000};
  c.reconsume_times = 2;
  c.properties = as_bytes("K\x01v\x02");
  c.body = as_bytes("hi");
  ASSERT_TRUE(codec.encode_request(7, false, c, frame).has_value());
  expect_same(frame, kSend);
  const auto golden = from_hex(kSend);
  const auto decoded = codec.decode_request(golden);
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->opaque, 7u);
  const auto& send = std::get<command::SendMessage>(decoded->command);
  EXPECT_EQ(send.topic, "T");
  EXPECT_EQ(send.queue_id, 3);
  EXPECT_EQ(as_text(send.properties), "K\x01v\x02");
  EXPECT_EQ(as_text(send.body), "hi");
}

TEST(NativeGolden, Sent) {
  native::Codec codec;
  std::vector<uint8_t> frame;
  reply::Sent r;
  r.queue_id = 3;
  r.queue_offset = QueueOffset(42);
  r.physical_offset = PhysicalOffset(4096);
  r.message_id = "AB";
  ASSERT_TRUE(codec.encode_response(7, r, 0, frame).has_value());
  expect_same(frame, kSent);
  const auto golden = from_hex(kSent);
  const auto decoded = codec.decode_response(golden);
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(describe(decoded->reply), "Sent SUCCESS queue 3 offset 42 count 1");
}

TEST(NativeGolden, Heartbeat) {
  native::Codec codec;
  std::vector<uint8_t> frame;
  command::Heartbeat c;
  c.client_id = "c";
  c.group = "g";
  c.model = GroupModel::Broadcasting;
  c.from = StartFrom::Timestamp;
  c.from_time = Wall{1000};
  c.subscriptions = {{"T", "*"}};
  c.generation_known = 5;
  c.suspend_ms = 1000;
  ASSERT_TRUE(codec.encode_request(9, false, c, frame).has_value());
  expect_same(frame, kHeartbeat);
  const auto golden = from_hex(kHeartbeat);
  const auto decoded = codec.decode_request(golden);
  ASSERT_TRUE(decoded.has_value());
  const auto& heartbeat = std::get<command::Heartbeat>(decoded->command);
  EXPECT_EQ(heartbeat.subscriptions, c.subscriptions);
  EXPECT_EQ(heartbeat.suspend_ms, 1000u);
}

TEST(NativeGolden, Members) {
  native::Codec codec;
  std::vector<uint8_t> frame;
  reply::Members r;
  r.generation = 5;
  r.members = {"a", "b"};
  r.absent = {{"T", {1}}};
  ASSERT_TRUE(codec.encode_response(9, r, 0, frame).has_value());
  expect_same(frame, kMembers);
  const auto golden = from_hex(kMembers);
  const auto decoded = codec.decode_response(golden);
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(describe(decoded->reply), "Members 0000000000000005 a,b");
  EXPECT_EQ(std::get<reply::Members>(decoded->reply).absent.at(0).members, std::vector<uint32_t>{1});
}

}  // namespace
}  // namespace fulmar
