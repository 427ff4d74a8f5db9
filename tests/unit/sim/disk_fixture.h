#pragma once
// A disk with one prepared file, for tests of what survives.

#include <gtest/gtest.h>

#include <cstring>

#include "sim/sim_disk.h"

namespace fulmar::sim {

class DiskTest : public ::testing::Test {
 protected:
  static constexpr const char* kPath = "store/log/0";

  void make(DiskProfile profile, uint64_t pages) {
    disk_ = std::make_unique<SimDisk>(profile, Seed{7}, 1, &counts_);
    const auto begun = disk_->create(kPath, pages * kPageBytes, Wall{1});
    ASSERT_TRUE(begun);
    file_ = begun->inode;
    disk_->open(file_);
    disk_->commit(begun->op);
    const auto prepared = disk_->prepare(file_, {0, pages * kPageBytes});
    ASSERT_TRUE(prepared);
    disk_->commit(*prepared);
  }
  void store(uint64_t at, uint64_t bytes, uint8_t value) {
    disk_->note_store(file_, {at, at + bytes});
    std::memset(disk_->base(file_) + at, value, bytes);
  }
  void store_page(uint64_t page, uint8_t value) { store(page * kPageBytes, kPageBytes, value); }
  void flush(Range range) { disk_->commit(disk_->flush(file_, range)); }
  CrashReport crash(uint64_t seed, std::optional<ImagePattern> pattern = {}) {
    CrashReport report;
    Prng prng(Seed{seed});
    if (pattern) disk_->crash_with(*pattern, prng, report);
    else disk_->crash(CrashKind::PowerLoss, prng, report);
    return report;
  }
  Bytes page(uint64_t index) const { return disk_->contents(kPath).subspan(index * kPageBytes, kPageBytes); }
  static bool is_all(Bytes bytes, uint8_t value) {
    for (const uint8_t b : bytes) {
      if (b != value) return false;
    }
    return true;
  }

  FaultCounts counts_;
  std::unique_ptr<SimDisk> disk_;
  Inode file_;
};

}  // namespace fulmar::sim
