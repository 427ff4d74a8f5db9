#include "net/host.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>

#include "net/turn_arena.h"
#include "tests/unit/net/temporary_directory.h"

namespace fulmar::net {

TEST(TurnArena, ReadsLieBehindEachOtherUntilTheTurnIsFull) {
  TurnArena arena(3 * TurnArena::kReadBytesMax);
  const uint8_t* first = arena.take().data();
  EXPECT_EQ(arena.take().size(), TurnArena::kReadBytesMax);
  EXPECT_EQ(arena.keep(100).data(), first);
  EXPECT_EQ(arena.take().data(), first + 100);
  arena.keep(TurnArena::kReadBytesMax);
  arena.keep(TurnArena::kReadBytesMax);
  EXPECT_EQ(arena.take().size(), TurnArena::kReadBytesMax - 100);
  arena.keep(TurnArena::kReadBytesMax - 100 - TurnArena::kReadBytesMin + 1);
  EXPECT_TRUE(arena.take().empty());
  arena.begin_turn();
  EXPECT_EQ(arena.take().data(), first);
}

TEST(Clocks, MonotonicDoesNotFall) {
  Moment before = read_moment();
  for (int i = 0; i < 1000; ++i) {
    const Moment now = read_moment();
    ASSERT_GE(now.monotonic, before.monotonic);
    before = now;
  }
}

TEST(StoreLock, NamesTheOwner) {
  const TemporaryDirectory directory;
  const std::string store = directory.at("a/store");
  {
    const auto held = StoreLock::take(store);
    ASSERT_TRUE(held) << held.error().text();
    const auto refused = StoreLock::take(store);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.code(), Errc::Locked);
    EXPECT_NE(refused.error().detail.find(fmt::format("process {}", ::getpid())), std::string::npos) << refused.error().detail;
  }
  EXPECT_TRUE(StoreLock::take(store));
}

TEST(StoreLock, NamesItsOwnerToOthers) {
  const TemporaryDirectory directory;
  const std::string store = directory.at("store");
  EXPECT_FALSE(lock_owner(store));
  {
    const auto held = StoreLock::take(store);
    EXPECT_EQ(lock_owner(store), fmt::format("process {}", ::getpid()));
  }
  EXPECT_FALSE(lock_owner(store));
}

// What a Java broker does: a POSIX lock on byte 0, the word "lock" as content. The kernel knows its pid.
TEST(StoreLock, IsShutOutByAPosixLock) {
  const TemporaryDirectory directory;
  const std::string path = directory.at("lock");
  int ready[2], done[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(done), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  char byte = 0;
  if (child == 0) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT, 0644);
    struct flock lock{};
    lock.l_type = F_WRLCK;
    lock.l_len = 1;
    const bool is_locked = ::fcntl(fd, F_SETLK, &lock) == 0 && ::write(fd, "lock", 4) == 4;
    const bool is_told = ::write(ready[1], "x", 1) == 1 && ::read(done[0], &byte, 1) == 1;
    ::_exit(is_locked && is_told ? 0 : 1);
  }
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  const auto refused = StoreLock::take(directory.path());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.code(), Errc::Locked);
  EXPECT_NE(refused.error().detail.find(fmt::format("process {}", child)), std::string::npos) << refused.error().detail;
  ASSERT_EQ(::write(done[1], "x", 1), 1);
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (const int fd : {ready[0], ready[1], done[0], done[1]}) ::close(fd);
}

struct PeerSaid {
  FULMAR_EVENT(PeerSaid, Warning, "{} bytes: {}");
  uint64_t bytes;
  std::string_view said;
  auto values() const { return std::array{bytes}; }
  std::string_view text() const { return said; }
};

TEST(LogSink, OneLineAnEvent) {
  const TemporaryDirectory directory;
  const Descriptor file(::open(directory.at("log").c_str(), O_RDWR | O_CREAT, 0644));
  LogSink sink("broker-a", Level::Info, file.get());
  Trace trace(&sink);
  trace.note(PeerSaid{4, "a\nb\x01"});
  sink.say(Level::Debug, "not this");
  char text[200] = {};
  ASSERT_GT(::pread(file.get(), text, sizeof text - 1, 0), 0);
  EXPECT_EQ(std::string(text).substr(24), " warning broker-a PeerSaid: 4 bytes: a b \n");
}

}  // namespace fulmar::net
