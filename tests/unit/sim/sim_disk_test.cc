#include "tests/unit/sim/disk_fixture.h"

namespace fulmar::sim {
namespace {

TEST_F(DiskTest, FlushMakesDurableWhatWasStoredBefore) {
  make({}, 4);
  store_page(0, 1);
  EXPECT_EQ(disk_->durable_prefix(kPath, {0, kPageBytes}), 0u);
  const DiskOp flush = disk_->flush(file_, {0, 4 * kPageBytes});
  EXPECT_FALSE(disk_->is_durable(kPath, {0, kPageBytes}));  // in flight is not durable
  store(100, 8, 2);                                         // after the flush was asked for: not covered
  store_page(1, 3);
  disk_->commit(flush);
  EXPECT_EQ(disk_->durable_prefix(kPath, {0, 2 * kPageBytes}), 100u);
  EXPECT_EQ(disk_->durable_prefix(kPath, {108, 2 * kPageBytes}), kPageBytes);
  crash(1, ImagePattern::None);
  EXPECT_TRUE(is_all(page(0), 1));
  EXPECT_TRUE(is_all(page(1), 0));
}

TEST_F(DiskTest, TwoFlushesInFlightCommitInAnyOrder) {
  make({}, 2);
  store_page(0, 1);
  const DiskOp first = disk_->flush(file_, {0, kPageBytes});
  store_page(0, 2);
  const DiskOp second = disk_->flush(file_, {0, kPageBytes});
  store_page(0, 3);
  disk_->commit(second);
  disk_->commit(first);
  crash(1, ImagePattern::None);
  EXPECT_TRUE(is_all(page(0), 1) || is_all(page(0), 2));
}

TEST_F(DiskTest, AFailedFlushLosesPagesThatALaterOneDoesNotSee) {
  make({}, 2);
  store_page(0, 1);
  disk_->fail(disk_->flush(file_, {0, kPageBytes}));
  EXPECT_EQ(counts_[FaultClass::FlushError].mattered, 1u);
  flush({0, kPageBytes});  // succeeds, and lies
  EXPECT_TRUE(is_all(page(0), 1));
  EXPECT_FALSE(disk_->is_durable(kPath, {0, kPageBytes}));
  SimDisk image = disk_->clone();
  CrashReport report;
  Prng prng(Seed{3});
  image.crash_with(ImagePattern::All, prng, report);
  EXPECT_TRUE(is_all(image.contents(kPath).first(kPageBytes), 0));
  store_page(0, 1);  // stored again: dirty again
  flush({0, kPageBytes});
  EXPECT_TRUE(disk_->is_durable(kPath, {0, kPageBytes}));
}

TEST_F(DiskTest, OldBytesReappearWhereTheProfileSaysSo) {
  DiskProfile profile;
  profile.after_failed_flush = AfterFailedFlush::OldReappears;
  make(profile, 1);
  store_page(0, 1);
  disk_->fail(disk_->flush(file_, {0, kPageBytes}));
  EXPECT_TRUE(is_all(page(0), 1));
  disk_->close(file_);
  disk_->process_gone();
  EXPECT_TRUE(is_all(page(0), 0));
}

TEST_F(DiskTest, EverySpaceTakerMeetsAFullDisk) {
  DiskProfile profile;
  profile.capacity_bytes = 16 * kPageBytes;
  make(profile, 4);  // file, two directories, four blocks: 7
  EXPECT_EQ(disk_->space().used, 7 * kPageBytes);
  const auto other = disk_->create("store/log/1", 8 * kPageBytes, Wall{1});
  ASSERT_TRUE(other);
  const auto too_much = disk_->prepare(other->inode, {0, 9 * kPageBytes - kPageBytes});
  ASSERT_TRUE(too_much);  // exactly fits: 8 + 8
  EXPECT_EQ(disk_->space().free, 0u);
  EXPECT_EQ(disk_->create("store/log/2", kPageBytes, Wall{1}).code(), Errc::DiskFull);
  EXPECT_EQ(disk_->create("store/new/0", kPageBytes, Wall{1}).code(), Errc::DiskFull);
  EXPECT_EQ(disk_->replace("store/meta", as_bytes("x"), Wall{1}).code(), Errc::DiskFull);
  EXPECT_EQ(disk_->rename(file_, "store/elsewhere/0").code(), Errc::DiskFull);
  disk_->commit(*too_much);
  const auto removed = disk_->remove("store/log/1");
  ASSERT_TRUE(removed);
  EXPECT_EQ(disk_->space().free, 0u);  // removed, not yet freed
  disk_->commit(*removed);
  EXPECT_EQ(disk_->space().free, 9 * kPageBytes);
  disk_->set_used_by_others(9 * kPageBytes);
  EXPECT_EQ(disk_->replace("store/meta", as_bytes("x"), Wall{1}).code(), Errc::DiskFull);
}

TEST_F(DiskTest, StoresNeedPreparedBlocks) {
  make({}, 2);
  const auto sparse = disk_->create("store/log/1", 4 * kPageBytes, Wall{1});
  ASSERT_TRUE(sparse);
  EXPECT_FALSE(disk_->is_allocated(sparse->inode, {0, 1}));
  ASSERT_TRUE(disk_->prepare(sparse->inode, {kPageBytes, 2 * kPageBytes}));
  EXPECT_TRUE(disk_->is_allocated(sparse->inode, {kPageBytes, 2 * kPageBytes}));
  EXPECT_FALSE(disk_->is_allocated(sparse->inode, {kPageBytes, 2 * kPageBytes + 1}));
}

TEST_F(DiskTest, PrepareInFlightLeavesEachPageOldOrZero) {
  bool has_old = false, has_zero = false;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    make({}, 4);
    for (uint64_t i = 0; i < 4; ++i) store_page(i, 9);
    flush({0, 4 * kPageBytes});
    ASSERT_TRUE(disk_->prepare(file_, {0, 4 * kPageBytes}));
    crash(seed);
    for (uint64_t i = 0; i < 4; ++i) {
      ASSERT_TRUE(is_all(page(i), 9) || is_all(page(i), 0));
      (is_all(page(i), 9) ? has_old : has_zero) = true;
    }
  }
  EXPECT_TRUE(has_old && has_zero);
}

TEST_F(DiskTest, PrepareIsDurableWhenDone) {
  make({}, 2);
  store_page(0, 9);
  store_page(1, 8);
  const auto prepared = disk_->prepare(file_, {0, kPageBytes + 16});
  ASSERT_TRUE(prepared);
  disk_->commit(*prepared);
  crash(1, ImagePattern::None);
  EXPECT_TRUE(is_all(page(0), 0));
  EXPECT_TRUE(is_all(page(1), 0));  // never flushed
}

TEST_F(DiskTest, UnreadablePagesAndRot) {
  make({}, 4);
  store_page(2, 5);
  flush({0, 4 * kPageBytes});
  Prng prng(Seed{1});
  const auto bad = disk_->make_unreadable("log", prng);
  ASSERT_TRUE(bad);
  EXPECT_FALSE(disk_->check_readable(file_, {0, 4 * kPageBytes}));
  EXPECT_EQ(disk_->read(kPath, 1u << 20).code(), Errc::Unreadable);
  EXPECT_TRUE(disk_->check_readable(file_, {bad->offset + kPageBytes, bad->offset + kPageBytes}));
  disk_->rot_at(kPath, 2 * kPageBytes + 7, 0x10);
  crash(1, ImagePattern::All);
  EXPECT_EQ(disk_->contents(kPath)[2 * kPageBytes + 7], 5 ^ 0x10);
}

TEST_F(DiskTest, ACloneIsEqualAndIndependent) {
  make({}, 4);
  store_page(1, 5);
  SimDisk other = disk_->clone();
  EXPECT_EQ(other.digest(), disk_->digest());
  store_page(1, 6);
  EXPECT_NE(other.digest(), disk_->digest());
  EXPECT_TRUE(is_all(other.contents(kPath).subspan(kPageBytes, kPageBytes), 5));
}

}  // namespace
}  // namespace fulmar::sim
