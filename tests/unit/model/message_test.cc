// Names, properties and addresses: what a stranger may write, and what we make of it.

#include <gtest/gtest.h>

#include "core/model/command.h"
#include "core/model/message.h"

namespace fulmar {
namespace {

TEST(Names, TopicsHaveAnAlphabetAndALength) {
  EXPECT_TRUE(check_topic_name("orders-1_%|Z"));
  EXPECT_TRUE(check_topic_name(std::string(127, 'a')));
  EXPECT_EQ(check_topic_name("").error().detail, "the topic is empty");
  EXPECT_EQ(check_topic_name(std::string(128, 'a')).error().detail, "the topic has 128 bytes, at most 127 are allowed");
  EXPECT_EQ(check_topic_name("a/b").error().detail, "the topic has byte 0x2f at position 1; allowed are letters, digits and _ - % |");
  EXPECT_EQ(check_topic_name("..").code(), Errc::InvalidArgument);
  EXPECT_EQ(check_topic_name(std::string_view("a\0b", 3)).code(), Errc::InvalidArgument);
  EXPECT_EQ(check_topic_name("t\xC3\xA9").code(), Errc::InvalidArgument);
  EXPECT_EQ(check_topic_name(std::string(10 * 1024, 'x')).code(), Errc::InvalidArgument);
}
TEST(Names, RetryTopicsMayBeLonger) {
  EXPECT_TRUE(check_topic_name("%RETRY%" + std::string(120, 'g')));
  EXPECT_TRUE(check_topic_name("%RETRY%" + std::string(248, 'g')));
  EXPECT_FALSE(check_topic_name("%RETRY%" + std::string(249, 'g')));
}
TEST(Names, GroupsAreShorter) {
  EXPECT_TRUE(check_group_name(std::string(120, 'g')));
  EXPECT_FALSE(check_group_name(std::string(121, 'g')));
  EXPECT_FALSE(check_group_name("a b"));
}
TEST(Names, SystemTopicsAreOurs) {
  EXPECT_TRUE(is_system_topic(kMetaTopic));
  EXPECT_TRUE(is_system_topic("SCHEDULE_TOPIC_XXXX"));
  EXPECT_FALSE(is_system_topic("orders"));
}

TEST(Properties, PairsNeedNameAndValue) {
  std::string encoded;
  ASSERT_TRUE(property::add(encoded, "KEYS", "a b"));
  ASSERT_TRUE(property::add(encoded, "TAGS", "TagA"));
  EXPECT_EQ(encoded, "KEYS\x01" "a b\x02" "TAGS\x01TagA\x02");
  EXPECT_EQ(property::find(as_bytes(encoded), "TAGS"), "TagA");
  EXPECT_EQ(property::find(as_bytes(encoded), "TAG"), std::nullopt);
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, const char*>>{{"", "v"}, {"n", ""}, {"n\x01", "v"}, {"n", "v\x02"}})
    EXPECT_EQ(property::add(encoded, name, value).code(), Errc::InvalidArgument);
}
TEST(Properties, BrokenPairsAreSkipped) {
  std::string seen;
  const auto note = [&](std::string_view n, std::string_view v) { seen += fmt::format("{}={};", n, v); };
  property::for_each(as_bytes("a\x01" "1\x02\x02nosplit\x02\x01noname\x02novalue\x01\x02" "b\x01" "2\x01" "3\x02" "c\x01last"), note);
  EXPECT_EQ(seen, "a=1;b=2\x01" "3;c=last;");
  property::for_each({}, note);
}
TEST(Properties, TheLastOfEqualNamesCounts) { EXPECT_EQ(property::find(as_bytes("k\x01" "1\x02k\x01" "2\x02"), "k"), "2"); }

std::string address(std::string_view host) {
  const auto out = HostAddress::parse(host, 80);
  return out ? out->text() : out.error().text();
}
TEST(HostAddress, ReadsBothFamilies) {
  EXPECT_EQ(address("127.0.0.1"), "127.0.0.1:80");
  EXPECT_EQ(address("255.255.255.255"), "255.255.255.255:80");
  EXPECT_EQ(address("::"), "[0:0:0:0:0:0:0:0]:80");
  EXPECT_EQ(address("::1"), "[0:0:0:0:0:0:0:1]:80");
  EXPECT_EQ(address("fe80::a:B"), "[fe80:0:0:0:0:0:a:b]:80");
  EXPECT_EQ(address("1:2:3:4:5:6:7:8"), "[1:2:3:4:5:6:7:8]:80");
  EXPECT_EQ(address("1::"), "[1:0:0:0:0:0:0:0]:80");
  EXPECT_EQ(address("::ffff:10.0.0.1"), "[0:0:0:0:0:ffff:a00:1]:80");
}
TEST(HostAddress, RefusesNamesAndHalfAddresses) {
  for (const char* host : {"", "localhost", "1.2.3", "1.2.3.4.5", "256.1.1.1", "1.2.3.-4", "1.2.3.4 ", "0001.2.3.4", "1:2", ":", ":::", "1:2:3:4:5:6:7:8:9", "1::2::3", "12345::",
                           "g::", "1:2:3:4:5:6:7:8:", "::1.2.3", "1.2.3.4::", "::1.2.3.4:5", "[::1]", "1:2:3:4:5:6:7:1.2.3.4"})
    EXPECT_EQ(address(host), fmt::format("BadAddress: '{}' is not a numeric address", host));
}
TEST(HostAddress, EncodedSizes) {
  EXPECT_EQ(HostAddress::parse("1.2.3.4", 1)->encoded_bytes(), 8u);
  EXPECT_EQ(HostAddress::parse("::1", 1)->encoded_bytes(), 20u);
}

TEST(Commands, HaveTheirNames) {
  EXPECT_EQ(name_of(command::Hello{}), "Hello");
  EXPECT_EQ(name_of(command::PullMessages{}), "PullMessages");
  EXPECT_EQ(name_of(command::RegisterBroker{}), "RegisterBroker");
  EXPECT_EQ(name_of(command::Unsubscribe{}), "Unsubscribe");
  EXPECT_EQ(name_of(command::UpdateConfig{}), "UpdateConfig");
  EXPECT_EQ(name_of(command::Heartbeat{}), "Heartbeat");
  EXPECT_EQ(name_of(command::GetHealth{}), "GetHealth");
}
TEST(Replies, DescribeThemselves) {
  reply::Sent sent;
  sent.queue_id = 3;
  sent.queue_offset = QueueOffset(12);
  EXPECT_EQ(describe(sent), "Sent SUCCESS queue 3 offset 12 count 1");
  EXPECT_EQ(describe(Refusal{Code::SystemBusy, "the disk is full", "free 0 bytes", 250}), "Refusal SYSTEM_BUSY (the disk is full; free 0 bytes; retry after 250 ms)");
  reply::Pulled pulled;
  pulled.code = Code::PullNotFound;
  pulled.next = QueueOffset(5);
  EXPECT_EQ(describe(pulled), "Pulled PULL_NOT_FOUND count 0 next 5 min 0 max 0");
  EXPECT_EQ(describe(reply::Ok{}), "Ok");
  EXPECT_EQ(to_string(Code::FlushDiskTimeout), "FLUSH_DISK_TIMEOUT");
}

}  // namespace
}  // namespace fulmar
