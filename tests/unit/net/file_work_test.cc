#include "net/file_work.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "net/errno.h"
#include "tests/unit/net/temporary_directory.h"

namespace fulmar::net {

namespace {

constexpr uint64_t kPage = 4096;

std::unique_ptr<OpenFile> new_file(const TemporaryDirectory& directory, uint64_t bytes) {
  DurableDirectories directories;
  auto file = map_file(directory.at("store/file"), bytes, Open::New, directories);
  EXPECT_TRUE(file) << file.error().text();
  return std::move(*file);
}
bool is_filled(const OpenFile& file, Range range, uint8_t value) {
  return std::all_of(file.base + range.begin, file.base + range.end, [value](uint8_t b) { return b == value; });
}
uint64_t allocated_bytes(const OpenFile& file) {
  struct stat status{};
  EXPECT_EQ(::fstat(file.descriptor.get(), &status), 0);
  return static_cast<uint64_t>(status.st_blocks) * 512;
}

}  // namespace

TEST(Errno, IsWhatACallerActsOn) {
  EXPECT_EQ(file_error(ENOSPC, "x").code, Errc::DiskFull);
  EXPECT_EQ(file_error(EDQUOT, "x").code, Errc::DiskFull);
  EXPECT_EQ(file_error(EROFS, "x").code, Errc::ReadOnly);
  EXPECT_EQ(file_error(EACCES, "x").code, Errc::NotPermitted);
  EXPECT_EQ(file_error(ENOENT, "x").code, Errc::NotFound);
  EXPECT_EQ(file_error(EEXIST, "x").code, Errc::Exists);
  EXPECT_EQ(file_error(EMFILE, "x").code, Errc::Full);
  EXPECT_EQ(file_error(EIO, "x").code, Errc::IoFailed);
  EXPECT_EQ(file_error(ENOSPC, "create /store/0").detail, "cannot create /store/0: No space left on device");
  EXPECT_EQ(network_error(-EADDRINUSE, "x").code, Errc::AddressInUse);
  EXPECT_EQ(network_error(-ECONNREFUSED, "x").code, Errc::Refused);
  EXPECT_EQ(network_error(-ECONNRESET, "x").code, Errc::Reset);
  EXPECT_EQ(network_error(-EPIPE, "x").code, Errc::Reset);
  EXPECT_EQ(network_error(-4095 /* UV_EOF */, "x").code, Errc::PeerClosed);
  EXPECT_EQ(network_error(-3008 /* UV_EAI_NONAME */, "x").code, Errc::BadAddress);
  EXPECT_EQ(network_error(-EHOSTUNREACH, "x").code, Errc::Unreachable);
}

TEST(FileWork, ANewFileIsSparseUntilItIsPrepared) {
  const TemporaryDirectory directory;
  const auto file = new_file(directory, 256 * kPage);
  EXPECT_EQ(allocated_bytes(*file), 0u);
  ASSERT_TRUE(prepare_range(*file, {0, 64 * kPage}));
  EXPECT_GE(allocated_bytes(*file), 64 * kPage);
  EXPECT_LT(allocated_bytes(*file), 128 * kPage);
}

TEST(FileWork, PrepareZeroesExactlyItsRange) {
  const TemporaryDirectory directory;
  const auto file = new_file(directory, 2048 * kPage);
  ASSERT_TRUE(prepare_range(*file, {0, file->size}));
  for (const Range range : {Range{0, kPage}, Range{1, 2}, Range{kPage - 1, kPage + 1}, Range{100, 700 * kPage + 5},
                            Range{2047 * kPage + 1, 2048 * kPage}}) {
    std::memset(file->base, 0xAB, file->size);
    ASSERT_TRUE(prepare_range(*file, range));
    EXPECT_TRUE(is_filled(*file, {0, range.begin}, 0xAB));
    EXPECT_TRUE(is_filled(*file, range, 0));
    EXPECT_TRUE(is_filled(*file, {range.end, file->size}, 0xAB));
  }
  EXPECT_TRUE(prepare_range(*file, {5, 5}));
}

// 2,400 new queue files: each prepare read 8 MiB of holes from the disk's read-ahead, 11 ms of a core.
TEST(FileWork, PrepareReadsNothing) {
  const TemporaryDirectory directory;
  const auto file = new_file(directory, 1024 * kPage);
  rusage before{}, after{};
  ASSERT_EQ(getrusage(RUSAGE_SELF, &before), 0);
  for (uint64_t at = 0; at < 1024 * kPage; at += 64 * kPage) ASSERT_TRUE(prepare_range(*file, {at, at + 16 * kPage}));
  ASSERT_EQ(getrusage(RUSAGE_SELF, &after), 0);
  EXPECT_LE(after.ru_majflt - before.ru_majflt, 1);
}

TEST(FileWork, CoolForgetsNothing) {
  const TemporaryDirectory directory;
  const auto file = new_file(directory, 16 * kPage);
  ASSERT_TRUE(prepare_range(*file, {0, file->size}));
  std::memset(file->base, 0xCD, file->size);
  cool_range(*file, {0, file->size});
  cool_range(*file, {10, 20});
  ASSERT_TRUE(warm_range(*file, {3, file->size - 3}));
  EXPECT_TRUE(is_filled(*file, {0, file->size}, 0xCD));
}

// What is not mapped cannot be synced, so it stands for a disk that cannot.
TEST(FileWork, AFailedFlushIsFinalForItsFile) {
  const TemporaryDirectory directory;
  const auto file = new_file(directory, 4 * kPage);
  ASSERT_TRUE(prepare_range(*file, {0, file->size}));
  const Range all{0, file->size};
  EXPECT_TRUE(flush_range(*file, all, 0));
  EXPECT_TRUE(flush_range(*file, all, 1));
  ASSERT_EQ(::munmap(std::exchange(file->flush_views[1], nullptr), file->size), 0);
  const Result<void> failed = flush_range(*file, all, 1);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.code(), Errc::FlushFailed);
  const Result<void> later = flush_range(*file, all, 0);  // this view would succeed, and lie
  ASSERT_FALSE(later);
  EXPECT_EQ(later.code(), Errc::FlushFailed);
}

TEST(FileWork, APrepareThatReservesNothingSpoilsNoFlush) {
  const TemporaryDirectory directory;
  const auto file = new_file(directory, 4 * kPage);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Descriptor other_end(ends[1]);
  file->descriptor = Descriptor(ends[0]);
  EXPECT_FALSE(prepare_range(*file, {0, kPage}));  // a pipe has no blocks to reserve either
  EXPECT_TRUE(flush_range(*file, {0, kPage}, 0));  // nothing was stored, nothing lost
}

TEST(FileWork, LargeFilesAreRemovedWholly) {
  const TemporaryDirectory directory;
  DurableDirectories directories;
  { const auto file = new_file(directory, 3 * kFreeStepBytes + 4096); }
  EXPECT_TRUE(remove_path(directory.at("store/file"), false, directories));
  EXPECT_FALSE(std::filesystem::exists(directory.at("store/file")));
  EXPECT_TRUE(remove_path(directory.at("store/file"), false, directories));
  EXPECT_TRUE(remove_path(directory.at("nowhere/file"), false, directories));
  EXPECT_TRUE(remove_path(directory.at("store"), false, directories));
  // The directory is made again although its name was known to be durable.
  EXPECT_TRUE(replace_file(directory.at("store/x"), as_bytes("x"), directories));
}

TEST(FileWork, ADirectoryRemovedBehindOurBackIsMadeAgain) {
  const TemporaryDirectory directory;
  DurableDirectories directories;
  ASSERT_TRUE(replace_file(directory.at("a/b/c"), as_bytes("one"), directories));
  std::filesystem::remove_all(directory.at("a"));
  ASSERT_TRUE(replace_file(directory.at("a/b/c"), as_bytes("two"), directories));
  std::filesystem::remove_all(directory.at("a"));
  EXPECT_TRUE(map_file(directory.at("a/b/d"), kPage, Open::New, directories));
}

TEST(FileWork, SpaceOfAPathNotYetMadeIsThatOfItsDisk) {
  const TemporaryDirectory directory;
  const auto here = disk_space(directory.path()), later = disk_space(directory.at("not/yet/made"));
  ASSERT_TRUE(here && later);
  EXPECT_EQ(here->total, later->total);
}

TEST(FileWork, ErrorsNameThePath) {
  const TemporaryDirectory directory;
  DurableDirectories directories;
  ASSERT_TRUE(replace_file(directory.at("file"), as_bytes("not a directory"), directories));
  const auto below = map_file(directory.at("file/child"), kPage, Open::New, directories);
  ASSERT_FALSE(below);
  EXPECT_NE(below.error().detail.find(directory.at("file")), std::string::npos) << below.error().detail;
  const auto wrong = map_file(directory.at("file"), kPage, Open::Existing, directories);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().detail, directory.at("file") + " has 15 bytes, not 4096");
}

}  // namespace fulmar::net
