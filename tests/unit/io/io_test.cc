// The boundary's own pieces: the outbox as text, tickets, mapped files, the trace.

#include <gtest/gtest.h>

#include "core/io/mapped_file.h"
#include "core/io/outbox.h"
#include "core/io/tickets.h"
#include "core/io/trace.h"

namespace fulmar {
namespace {

TEST(Outbox, ReadsAsText) {
  Outbox out;
  const Ticket t(1, 0, 1);
  out.listen(t, Port(0), {"::1", 10911});
  out.dial(t, {"broker-a", 9876});
  const Piece pieces[] = {as_bytes("123456789"), FileSlice{FileId(3), {10, 20}}};
  out.send(t, ConnId(7), pieces);
  out.send(t, ConnId(7), as_bytes("x"));
  out.pause(ConnId(7));
  out.resume(ConnId(7));
  out.close(ConnId(7), Errc::FrameBroken);
  out.list(t, "store");
  out.map(t, "store/commitlog/0", 65536, Open::New);
  out.map(t, "store/checkpoint", 0, Open::ReadOnly);
  out.prepare(t, FileId(3), {0, 4096});
  const FileSlice slices[] = {{FileId(3), {0, 8}}, {FileId(4), {8, 16}}};
  out.warm(t, slices);
  out.cool(FileId(3), {0, 4096});
  out.flush(t, FileId(3), {0, 4096});
  out.read(t, "abort", 100);
  out.replace(t, "topics.json", as_bytes("123456789"));
  out.rename(t, FileId(3), "store/commitlog/1");
  out.unmap(FileId(3));
  out.remove(t, "abort");
  out.space(t, "store");
  out.unlisten(Port(0));
  out.tell(CallId(9), reply::Ok{});
  EXPECT_EQ(out.text(),
            "listen 0 [::1]:10911\ndial broker-a:9876\nsend 7 9 bytes crc cbf43926 slice 3 [10, 20)\nsend 7 1 bytes crc 8cdc1683\npause 7\nresume 7\n"
            "close 7 FrameBroken\nlist store\nmap store/commitlog/0 65536 new\nmap store/checkpoint 0 read-only\nprepare 3 [0, 4096)\nwarm 3 [0, 8) 4 [8, 16)\n"
            "cool 3 [0, 4096)\nflush 3 [0, 4096)\nread abort 100\nreplace topics.json 9 bytes crc cbf43926\nrename 3 store/commitlog/1\nunmap 3\nremove abort\n"
            "space store\nunlisten 0\ntell 9 Ok\n");
  out.clear();
  EXPECT_TRUE(out.empty());
  EXPECT_EQ(out.text(), "");
}
TEST(Outbox, CopiesBytesAtOnce) {
  Outbox out;
  std::string text = "before";
  out.send(Ticket(1, 0, 1), ConnId(1), as_bytes(text));
  text = "after!";
  EXPECT_EQ(as_text(out.bytes_of(out.pieces().at(0))), "before");
}
TEST(Outbox, TheFirstReasonToHaltIsTheTrueOne) {
  Outbox out;
  EXPECT_EQ(out.halted(), nullptr);
  out.halt(Errc::FlushFailed, "fdatasync of 3");
  out.halt(Errc::Internal);
  out.stopped();
  out.step_again();
  EXPECT_EQ(out.text(), "halt FlushFailed: fdatasync of 3\nstopped\nstep again\n");
  EXPECT_FALSE(out.empty());
  out.clear();
  EXPECT_EQ(out.halted(), nullptr);
  EXPECT_FALSE(out.wants_step_again());
}

TEST(Tickets, AreRedeemedOnce) {
  TicketBook<std::string> book(5);
  const Ticket a = book.issue("a"), b = book.issue("b");
  EXPECT_EQ(a.owner(), 5);
  EXPECT_NE(a, b);
  EXPECT_EQ(book.out_count(), 2u);
  EXPECT_EQ(*book.peek(a), "a");
  EXPECT_EQ(book.redeem(a), "a");
  EXPECT_EQ(book.peek(a), nullptr);
  const Ticket c = book.issue("c");  // the slot again, another generation
  EXPECT_EQ(c.slot(), a.slot());
  EXPECT_NE(c, a);
  EXPECT_EQ(book.peek(a), nullptr);
  EXPECT_EQ(book.redeem(b), "b");
  EXPECT_EQ(book.redeem(c), "c");
  EXPECT_EQ(book.out_count(), 0u);
}
TEST(TicketsDeathTest, AStrangeTicketIsABug) {
  TicketBook<int> book(5);
  const Ticket t = book.issue(1);
  EXPECT_EQ(book.peek(Ticket(6, 0, t.generation())), nullptr);
  EXPECT_EQ(book.peek(Ticket(5, 99, 1)), nullptr);
  (void)book.redeem(t);
  EXPECT_DEATH((void)book.redeem(t), "is not out");
}
TEST(Tickets, PackOwnerSlotAndGeneration) {
  constexpr Ticket t(0xAB, 0x123456, 0xDEADBEEF);
  EXPECT_EQ(t.owner(), 0xAB);
  EXPECT_EQ(t.slot(), 0x123456u);
  EXPECT_EQ(t.generation(), 0xDEADBEEFu);
}

struct Eye : MemoryEye {
  void on_writable(MappedFile& file, Range range) override { seen += fmt::format("w{} [{}, {}) ", file.serial(), range.begin, range.end); }
  void on_view(const MappedFile& file, Range range) override { seen += fmt::format("r{} [{}, {}) ", file.serial(), range.begin, range.end); }
  std::string seen;
};
TEST(MappedFile, TheEyeSeesEachAccess) {
  std::vector<uint8_t> memory(64);
  Eye eye;
  MappedFile file(memory.data(), memory.size(), true, 8, &eye);
  file.writable({4, 6})[1] = 9;
  EXPECT_EQ(file.view({5, 6})[0], 9);
  EXPECT_EQ(eye.seen, "w8 [4, 6) r8 [5, 6) ");
}
TEST(MappedFileDeathTest, RangesStayInside) {
  std::vector<uint8_t> memory(64);
  MappedFile file(memory.data(), memory.size(), true, 1, nullptr), read_only(memory.data(), memory.size(), false, 2, nullptr);
  EXPECT_DEATH((void)file.writable({0, 65}), "of 64");
  EXPECT_DEATH((void)file.view({9, 8}), "of 64");
  EXPECT_DEATH((void)read_only.writable({0, 1}), "is_writable_");
  EXPECT_TRUE(file.view({64, 64}).empty());
}
TEST(Files, IdsAreNeverGivenTwice) {
  std::vector<uint8_t> memory(8);
  Files files;
  const auto file = [&](uint64_t serial) { return std::make_unique<MappedFile>(memory.data(), memory.size(), true, serial, nullptr); };
  const FileId first = files.put(file(1));
  files.take_out(first);
  const FileId second = files.put(file(2));
  EXPECT_NE(first, second);
  EXPECT_EQ(files.find(first), nullptr);
  EXPECT_EQ(files.find(FileId(0)), nullptr);
  EXPECT_EQ(files.at(second).serial(), 2u);
  EXPECT_DEATH((void)files.at(first), "is not mapped");
}

struct Cut {
  FULMAR_EVENT(Cut, Warning, "log cut at {} of {} because {}");
  uint64_t at, end;
  std::string_view why;
  auto values() const { return std::array{at, end}; }
  std::string_view text() const { return why; }
};
struct Started {
  FULMAR_EVENT(Started, Info, "started");
  auto values() const { return std::array<uint64_t, 0>{}; }
};
struct Sink : TraceSink {
  void on_event(const TraceRecord& record) override {
    last = fmt::format("{} {}", to_string(record.info->level), record.describe());
    is_cut = record.is<Cut>();
  }
  std::string last;
  bool is_cut = false;
};
TEST(Trace, DescribesAndHandsOn) {
  Sink sink;
  Trace trace(&sink, 2);
  trace.begin_step({Monotonic{5}, {}, 0});
  trace.note(Started{});
  EXPECT_EQ(sink.last, "info started");
  trace.note(Cut{1, 2, "torn"});
  EXPECT_EQ(sink.last, "warning log cut at 1 of 2 because torn");
  EXPECT_TRUE(sink.is_cut);
  trace.begin_step({Monotonic{6}, {}, 0});
  trace.note(Cut{3, 4, "rot"});
  EXPECT_EQ(trace.step(), 2u);
  EXPECT_EQ(trace.recent(), "             5 Cut log cut at 1 of 2 because torn\n             6 Cut log cut at 3 of 4 because rot\n");
}
TEST(Trace, TheHashIsOfEventsInOrderAndNothingElse) {
  Trace a, b, c, d(nullptr, 1);
  EXPECT_EQ(a.step_hash(), 0x46756C6D6172u);
  a.note(Started{});
  EXPECT_EQ(a.step_hash(), 0xC4A53D821728BD9Bu);
  a.note(Cut{1, 2, "x"});
  b.note(Cut{1, 2, "x"});
  b.note(Started{});
  EXPECT_NE(a.step_hash(), b.step_hash());  // order
  c.note(Started{});
  c.note(Cut{1, 2, "y"});
  EXPECT_NE(a.step_hash(), c.step_hash());  // text
  d.begin_step({Monotonic{99}, {}, 0});
  d.note(Started{});
  d.note(Cut{1, 2, "x"});
  EXPECT_EQ(a.step_hash(), d.step_hash());  // neither time nor ring
}

}  // namespace
}  // namespace fulmar
