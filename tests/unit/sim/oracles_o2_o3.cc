// O2 and O3 by hand-made histories.

#include "history.h"
#include "sim/oracles/o2_authentic.h"
#include "core/client/compression.h"
#include "sim/oracles/o3_places.h"
#include "sim/oracles/o3_queue_order.h"

namespace fulmar::sim {
namespace {

struct AuthenticTest : testing::Test {
  Ledger ledger;
  Heard heard;
  Authentic oracle{ledger, heard};
};

TEST_F(AuthenticTest, WhatWasSentIsRead) {
  const SentMessage m = ledger.add(message(1));
  const auto bytes = stored(m);
  EXPECT_EQ(oracle.read(seen(bytes)), m.id);
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(AuthenticTest, UnknownOutcomesMayBeThere) {
  const auto bytes = stored(ledger.add(message(1, Fate::Unknown)));
  (void)oracle.read(seen(bytes));
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(AuthenticTest, MissingLastSeparatorIsNoChange) {
  SentMessage m = message(1);
  m.properties.pop_back();
  const auto bytes = stored(ledger.add(m));
  (void)oracle.read(seen(bytes));
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(AuthenticTest, Phantom) {
  const auto bytes = stored(message(1));
  EXPECT_FALSE(oracle.read(seen(bytes)));
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(AuthenticTest, RefusedIsRead) {
  const auto bytes = stored(ledger.add(message(1, Fate::Refused)));
  (void)oracle.read(seen(bytes));
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(AuthenticTest, RefusedAfterItWasRead) {
  const SentMessage m = ledger.add(message(1));
  const auto bytes = stored(m);
  (void)oracle.read(seen(bytes));
  oracle.refused(m);
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(AuthenticTest, OtherBody) {
  const SentMessage m = ledger.add(message(1));
  SentMessage other = m;
  other.body_bytes += 1;
  const auto bytes = stored(other);
  (void)oracle.read(seen(bytes));
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(AuthenticTest, OtherQueueThanAsked) {
  const auto bytes = stored(ledger.add(message(1)));
  (void)oracle.read(seen(bytes, {"broker-a", "topic-0", 2}));
  EXPECT_EQ(heard.said.size(), 1u);
}

struct CompressedTest : AuthenticTest {
  SentMessage m = message(1);
  std::vector<uint8_t> packed, bytes;
  // The record of `m` with its body packed, and flags that say so or do not.
  void read(CompressionType type, uint32_t flags) {
    m.is_compressible = true;
    m.body_bytes = 900;
    std::vector<uint8_t> body;
    fill_body(m, body);
    ASSERT_TRUE(compress(type, 5, body, packed));
    m.compressed_bytes = static_cast<uint32_t>(packed.size());
    ledger.add(m);
    Message stored_message;
    stored_message.topic = m.topic;
    stored_message.queue_id = QueueId(m.queue.queue_id);
    stored_message.sys_flag = flags;
    stored_message.born = {m.born_ms};
    stored_message.born_host = stored_message.store_host = *HostAddress::parse("127.0.0.1", 10911);
    stored_message.properties = as_bytes(m.properties);
    stored_message.body = packed;
    bytes.resize(*record_bytes(stored_message, true));
    EXPECT_EQ(bytes.size(), stored_bytes(m));
    encode_record(bytes, stored_message, {PhysicalOffset(m.physical), QueueOffset(m.queue_offset), {m.born_ms}}, true);
    (void)oracle.read(seen(bytes));
  }
};
TEST_F(CompressedTest, ZlibIsInflated) {
  read(CompressionType::Zlib, 0x301);
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(CompressedTest, Lz4IsInflated) {
  read(CompressionType::Lz4, 0x101);
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(CompressedTest, ZstdIsInflated) {
  read(CompressionType::Zstd, 0x201);
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(CompressedTest, AFlagThatIsMissing) {
  read(CompressionType::Zlib, 0);
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(CompressedTest, AFlagOfAnotherFormat) {
  read(CompressionType::Zlib, 0x201);
  EXPECT_EQ(heard.said.size(), 1u);
}

struct PlacesTest : testing::Test {
  Heard heard;
  Places oracle{heard};
  SentMessage m = message(1);
  void read_at(int32_t queue_id, int64_t offset) {
    m.queue.queue_id = queue_id;
    m.queue_offset = offset;
    const auto bytes = stored(m);
    oracle.read(seen(bytes, m.queue), m);
  }
};
TEST_F(PlacesTest, OrdinaryCopiesStandAnywhere) {
  read_at(1, 1), read_at(2, 5);
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(PlacesTest, OneWayStandsOnce) {
  m.is_one_way = true;
  read_at(1, 1), read_at(1, 1);
  EXPECT_TRUE(heard.is_silent());
  read_at(1, 2);
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(PlacesTest, CopiesWithAShardingKeyStandInOneQueue) {
  m.sharding_key = "k";
  read_at(1, 1), read_at(1, 2);
  EXPECT_TRUE(heard.is_silent());
  read_at(2, 1);
  EXPECT_EQ(heard.said.size(), 1u);
}

struct OrderTest : testing::Test {
  Heard heard;
  QueueOrder oracle{heard};
  std::vector<std::vector<uint8_t>> kept;
  void read(const SentMessage& m, int64_t stamp = 1'700'000'000'500) {
    kept.push_back(stored(m, stamp));
    oracle.read(seen(kept.back()), m.id);
  }
};

TEST_F(OrderTest, AcksAndReadersAgree) {
  SentMessage a = message(0), b = message(1);
  a.answered_ns = 10, b.asked_ns = 20, b.answered_ns = 30;
  oracle.acked(a), oracle.acked(b);
  read(a), read(b), read(a);
  oracle.read_all("r", kQueue, 0, 2, {0, 1});
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(OrderTest, ConcurrentSendsMayLandInAnyOrder) {
  SentMessage a = message(5), b = message(2);
  a.asked_ns = 10, a.answered_ns = 40, b.asked_ns = 20, b.answered_ns = 50;
  oracle.acked(a), oracle.acked(b);
  EXPECT_TRUE(heard.is_silent());
}
TEST_F(OrderTest, AfterACutOffsetsAreGivenAgain) {
  read(message(0)), read(message(1));
  oracle.cut({"broker-a", 1000, 5});
  SentMessage other = message(9);
  other.queue_offset = 1;
  other.physical = 1000;
  read(other);
  EXPECT_TRUE(heard.is_silent());
  EXPECT_EQ(oracle.end_of(kQueue), 2);
}
TEST_F(OrderTest, TwoMessagesAtOneOffset) {
  read(message(1));
  SentMessage other = message(2);
  other.queue_offset = 1;
  read(other);
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(OrderTest, PlacesFall) {
  read(message(1));
  SentMessage other = message(2);
  other.physical = 900;
  read(other);
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(OrderTest, StampsFall) {
  read(message(1), 1'700'000'000'500);
  read(message(2), 1'700'000'000'499);
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(OrderTest, HoleInAQueue) {
  oracle.read_all("r", kQueue, 0, 4, {0, 1, 3});
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(OrderTest, OnlyWhatWasDamagedMayBeMissing) {
  oracle.lost(kQueue, 2);
  oracle.lost(kQueue, 4);
  oracle.read_all("r", kQueue, 0, 5, {0, 1, 3});
  EXPECT_TRUE(heard.is_silent());
  oracle.read_all("r", kQueue, 0, 5, {0, 3});
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(OrderTest, ProducerOverturned) {
  SentMessage a = message(5), b = message(2);
  a.asked_ns = 10, a.answered_ns = 20, b.asked_ns = 30, b.answered_ns = 40;
  oracle.acked(a), oracle.acked(b);
  EXPECT_EQ(heard.said.size(), 1u);
}
TEST_F(OrderTest, QueueEndsBeforeWhatWasThere) {
  read(message(0)), read(message(1));
  oracle.read_all("r", kQueue, 0, 1, {0}, 1);   // asked before the others were known
  EXPECT_TRUE(heard.is_silent());
  oracle.read_all("r", kQueue, 0, 1, {0});
  EXPECT_EQ(heard.said.size(), 1u);
}

}  // namespace
}  // namespace fulmar::sim
