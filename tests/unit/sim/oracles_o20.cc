// O20, the second reader, on stores of a few bytes.

#include "history.h"
#include "sim/oracles/fsck.h"

namespace fulmar::sim {
namespace {

constexpr size_t kSegment = 64 * 1024;

struct FsckTest : testing::Test {
  std::map<std::string, std::vector<uint8_t>> files;
  uint64_t end = 0;
  std::vector<uint8_t>& file(const std::string& path, size_t bytes) {
    std::vector<uint8_t>& f = files[path];
    if (f.size() < bytes) f.resize(bytes);
    return f;
  }
  void append(uint64_t number, int64_t queue_offset, bool has_entry = true) {
    SentMessage m = message(number);
    m.physical = end;
    m.queue_offset = queue_offset;
    const auto bytes = stored(m);
    std::copy(bytes.begin(), bytes.end(), file("store/commitlog/00000000000000000000", kSegment).begin() + static_cast<ptrdiff_t>(end));
    if (has_entry) {
      uint8_t* entry = file("store/consumequeue/topic-0/1/00000000000000000000", 2000).data() + queue_offset * 20;
      store_be<uint64_t>(entry, end);
      store_be<uint32_t>(entry + 8, static_cast<uint32_t>(bytes.size()));
    }
    end += bytes.size();
  }
  // The broker's own record that topic-0 is deleted, its queue 1 going on at `next`.
  void append_removal(int64_t next) {
    std::vector<uint8_t> body{1, 2, 0, 0, 0, 23, 0, 7, 't', 'o', 'p', 'i', 'c', '-', '0', 0, 1, 0, 0, 0, 1};
    body.resize(body.size() + 8);
    store_be<int64_t>(body.data() + body.size() - 8, next);
    SentMessage m = message(1);
    m.topic = "rmq_sys_fulmar_meta";
    m.queue.queue_id = 0;
    m.queue_offset = 0;
    m.physical = end;
    m.properties.clear();
    const auto bytes = stored_with(m, body);
    std::copy(bytes.begin(), bytes.end(), file("store/commitlog/00000000000000000000", kSegment).begin() + static_cast<ptrdiff_t>(end));
    uint8_t* entry = file("store/consumequeue/rmq_sys_fulmar_meta/0/00000000000000000000", 2000).data();
    store_be<uint64_t>(entry, end);
    store_be<uint32_t>(entry + 8, static_cast<uint32_t>(bytes.size()));
    end += bytes.size();
  }
  void checkpoint(uint64_t flushed, uint64_t derived, uint64_t limit) {
    uint8_t* slot = file("store/checkpoint", 4096).data() + 1024;
    std::memcpy(slot, "FULMCKPT", 8);
    store_be<uint32_t>(slot + 8, 1);
    store_be<uint32_t>(slot + 12, 1);
    const uint64_t values[] = {1, flushed, limit, derived};
    for (size_t i = 0; i < 4; ++i) store_be(slot + 16 + 8 * i, values[i]);
    store_be(slot + 88, plain_crc32({slot, 88}));
  }
  StoreReport check(FsckOptions options) {
    StoreFiles views;
    for (const auto& [path, bytes] : files) views.emplace(path, bytes);
    return fsck(views, options);
  }
  StoreReport check() {
    FsckOptions options;
    options.is_clean = true;
    return check(options);
  }
  StoreReport check_crashed(uint64_t derived_to = 0) {
    FsckOptions options;
    options.is_claimed = options.may_be_torn = true;
    options.derived_to = derived_to;
    return check(options);
  }
};

TEST_F(FsckTest, GoodStore) {
  append(1, 0), append(2, 1);
  checkpoint(end, end, end + 100);
  const StoreReport report = check();
  EXPECT_TRUE(report.problems.empty()) << report.problems[0];
  EXPECT_EQ(report.log_end, end);
  EXPECT_EQ(report.record_count(), 2u);
}
TEST_F(FsckTest, EmptyLogWithItsCheckpoint) {
  file("store/commitlog/00000000000000000000", kSegment);
  checkpoint(0, 0, 100);
  EXPECT_TRUE(check().problems.empty());
}
TEST_F(FsckTest, FillerLeadsToTheNextFile) {
  append(1, 0);
  uint8_t* filler = file("store/commitlog/00000000000000000000", kSegment).data() + end;
  store_be<uint32_t>(filler, static_cast<uint32_t>(kSegment - end));
  store_be<uint32_t>(filler + 4, 0xCBD43194u);
  file("store/commitlog/00000000000000065536", kSegment);
  checkpoint(kSegment, kSegment, kSegment + 1);
  const StoreReport report = check();
  EXPECT_TRUE(report.problems.empty()) << report.problems[0];
  EXPECT_EQ(report.log_end, kSegment);
}
TEST_F(FsckTest, FlippedBit) {
  append(1, 0), append(2, 1);
  checkpoint(end, end, end);
  files["store/commitlog/00000000000000000000"][120] ^= 1;
  EXPECT_FALSE(check().problems.empty());
}
TEST_F(FsckTest, OffsetsHaveAHole) {
  append(1, 0), append(2, 2);
  checkpoint(end, end, end);
  EXPECT_FALSE(check().problems.empty());
}
TEST_F(FsckTest, EntryIsMissing) {
  append(1, 0), append(2, 1, false);
  checkpoint(end, end, end);
  EXPECT_FALSE(check().problems.empty());
}
// Seed fulmar1:churn:96cc0d69: of two files that were being removed a power cut kept the first one.
TEST_F(FsckTest, FilesOfADeletedTopicGoInAnyOrder) {
  append(1, 0), append(2, 1, false), append(3, 2), append(4, 3, false);
  append_removal(4);
  append(5, 4);
  checkpoint(end, end, end);
  const StoreReport report = check();
  EXPECT_TRUE(report.problems.empty()) << report.problems[0];
}
TEST_F(FsckTest, WhatFollowsADeletionIsThere) {
  append(1, 0, false);
  append_removal(1);
  append(2, 1, false);
  checkpoint(end, end, end);
  EXPECT_FALSE(check().problems.empty());
}
TEST_F(FsckTest, EntryPointsElsewhere) {
  append(1, 0), append(2, 1);
  files["store/consumequeue/topic-0/1/00000000000000000000"][27] ^= 1;
  checkpoint(end, end, end);
  EXPECT_FALSE(check().problems.empty());
}
TEST_F(FsckTest, CheckpointClaimsTooMuch) {
  append(1, 0);
  checkpoint(end + 1, end, end + 100);
  EXPECT_FALSE(check().problems.empty());
}
TEST_F(FsckTest, AfterACrashOnlyWhatIsClaimedMustBeDerived) {
  append(1, 0);
  const uint64_t derived = end;
  append(2, 1, false);
  checkpoint(end, derived, end);
  EXPECT_TRUE(check_crashed().problems.empty());
  EXPECT_FALSE(check_crashed(end).problems.empty());
}
TEST_F(FsckTest, AfterACrashTheClaimIsNotThere) {
  append(1, 0), append(2, 1, false);
  checkpoint(end, end, end);
  EXPECT_FALSE(check_crashed().problems.empty());
}
TEST_F(FsckTest, AfterACrashNoSlotIsGood) {
  append(1, 0);
  checkpoint(end, end, end);
  files["store/checkpoint"][1024 + 20] ^= 1;
  EXPECT_FALSE(check_crashed().problems.empty());
}
TEST_F(FsckTest, AbortMarkerAfterACleanStop) {
  append(1, 0);
  checkpoint(end, end, end);
  file("store/abort", 1);
  EXPECT_FALSE(check().problems.empty());
}

}  // namespace
}  // namespace fulmar::sim
