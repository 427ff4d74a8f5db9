#pragma once
// A node whose behaviour is a script: a coroutine that asks, waits for the answer, and looks at it. It is stepped like every node; the
// script runs inside steps only. When it ends, the node waits for the tickets still out and then says stopped(), so that a driver which
// forgets a ticket is seen as a time-out; a ticket redeemed twice, or by the wrong kind of input, fails the test at once.
//
//   [&](ScriptNode& n) -> Script {
//     const Result<FileId> file = co_await n.mapped(n.map("/store/a", 4096, Open::New));
//   }
//
// A script is made in the first step, which a driver makes at once, without input.

#include <gtest/gtest.h>

#include <coroutine>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/io/node.h"

namespace fulmar::contract {

class Script {
 public:
  struct promise_type {
    Script get_return_object() { return Script(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_never initial_suspend() { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  Script() = default;
  explicit Script(std::coroutine_handle<promise_type> coroutine) : coroutine_(coroutine) {}
  Script(Script&& other) noexcept : coroutine_(std::exchange(other.coroutine_, {})) {}
  Script& operator=(Script&& other) noexcept { std::swap(coroutine_, other.coroutine_); return *this; }
  ~Script() { if (coroutine_) coroutine_.destroy(); }
  bool is_finished() const { return coroutine_ && coroutine_.done(); }

 private:
  std::coroutine_handle<promise_type> coroutine_;
};

// What a script knows about one connection.
struct Stream {
  std::vector<uint8_t> bytes;
  Port port;               // when accepted
  Peer peer;
  bool is_closed = false;  // Closed came
  Errc why = Errc::Internal;
};

class ScriptNode : public Node {
 public:
  using Main = std::function<Script(ScriptNode&)>;
  ScriptNode(Main& main, Files& file_table, Trace& trace_log) : files(file_table), trace(trace_log), main_(main) {}
  ~ScriptNode() override {
    if (!script_.is_finished()) std::fprintf(stderr, "the script waited at line %d, %zu tickets out\n", line_, waiting_.size());
  }

  Files& files;
  Trace& trace;
  std::vector<std::string> told;                    // name of each command, with its text where it has one
  std::vector<CallId> told_calls;
  std::vector<ConnId> accepted;                     // in order
  std::map<ConnId, Stream> streams;
  std::vector<std::string> network_history;         // "sent", "closed 1", in the order of the inputs
  uint64_t steps = 0;

  Outbox& out() { return *out_; }
  const Moment& now() const { return now_; }
  size_t tickets_out() const { return waiting_.size(); }
  bool is_redeemed(Ticket ticket) const { return came_.count(ticket) != 0; }

  // --- asking; the ticket is the answer's name ------------------------------------------------------------------------------------
  Ticket listen(Port port, Address at) { const Ticket t = issue("Listening"); out().listen(t, port, std::move(at)); return t; }
  Ticket dial(Address peer) { const Ticket t = issue("Dialed"); out().dial(t, std::move(peer)); return t; }
  Ticket send(ConnId conn, std::span<const Piece> pieces) { const Ticket t = issue("Sent"); out().send(t, conn, pieces); return t; }
  Ticket send(ConnId conn, Bytes bytes) { const Ticket t = issue("Sent"); out().send(t, conn, bytes); return t; }
  Ticket list(std::string_view directory) { const Ticket t = issue("Listed"); out().list(t, directory); return t; }
  Ticket map(std::string_view path, uint64_t size, Open how) { const Ticket t = issue("Mapped"); out().map(t, path, size, how); return t; }
  Ticket prepare(FileId file, Range range) { const Ticket t = issue("Done"); out().prepare(t, file, range); return t; }
  Ticket warm(std::span<const FileSlice> slices) { const Ticket t = issue("Done"); out().warm(t, slices); return t; }
  Ticket warm(FileId file, Range range) { const FileSlice slice{file, range}; return warm(std::span(&slice, 1)); }
  Ticket flush(FileId file, Range range) { const Ticket t = issue("Done"); out().flush(t, file, range); return t; }
  Ticket read(std::string_view path, uint64_t bytes_max) { const Ticket t = issue("Read"); out().read(t, path, bytes_max); return t; }
  Ticket replace(std::string_view path, Bytes bytes) { const Ticket t = issue("Done"); out().replace(t, path, bytes); return t; }
  Ticket rename(FileId file, std::string_view path) { const Ticket t = issue("Done"); out().rename(t, file, path); return t; }
  Ticket remove(std::string_view path) { const Ticket t = issue("Done"); out().remove(t, path); return t; }
  Ticket space(std::string_view path) { const Ticket t = issue("Space"); out().space(t, path); return t; }

  // --- waiting --------------------------------------------------------------------------------------------------------------------
  class Wait {
   public:
    // Looks again in every step, by `at` at the latest, and every `poll` when that is not zero.
    Wait(ScriptNode& node, std::function<bool()> ready, int line, Monotonic at = Monotonic::never(), Duration poll = {})
        : node_(node), ready_(std::move(ready)), line_(line), at_(at), poll_(poll) {}
    bool await_ready() const { return ready_(); }
    void await_suspend(std::coroutine_handle<> coroutine) {
      node_.resume_ = coroutine;
      node_.ready_ = ready_;
      node_.at_ = at_;
      node_.poll_ = poll_;
      node_.line_ = line_;
    }
    void await_resume() const {}

   protected:
    ScriptNode& node_;

   private:
    std::function<bool()> ready_;
    int line_;
    Monotonic at_;
    Duration poll_;
  };
  template <class Answer>
  class Redeemed : public Wait {
   public:
    Redeemed(ScriptNode& node, Ticket ticket, int line)
        : Wait(node, [&node, ticket] { return node.came_.count(ticket) != 0; }, line), ticket_(ticket) {}
    Answer await_resume() { return std::get<Answer>(std::move(Wait::node_.came_.extract(ticket_).mapped())); }

   private:
    Ticket ticket_;
  };
  using Contents = Result<std::vector<uint8_t>>;

  // Looks again in every step, and at least every 5 ms.
  Wait until(std::function<bool()> ready, int line = __builtin_LINE()) {
    return Wait(*this, std::move(ready), line, Monotonic::never(), Duration::milliseconds(5));
  }
  Wait sleep(Duration pause, int line = __builtin_LINE()) {
    const Monotonic at = now_.monotonic + pause;
    return Wait(*this, [this, at] { return now_.monotonic >= at; }, line, at);
  }
  Redeemed<Result<void>> done(Ticket ticket, int line = __builtin_LINE()) { return {*this, ticket, line}; }
  Redeemed<Result<Address>> listening(Ticket ticket, int line = __builtin_LINE()) { return {*this, ticket, line}; }
  Redeemed<Result<Connected>> dialed(Ticket ticket, int line = __builtin_LINE()) { return {*this, ticket, line}; }
  Redeemed<Result<FileId>> mapped(Ticket ticket, int line = __builtin_LINE()) { return {*this, ticket, line}; }
  Redeemed<Result<std::vector<FileEntry>>> listed(Ticket ticket, int line = __builtin_LINE()) { return {*this, ticket, line}; }
  Redeemed<Contents> contents(Ticket ticket, int line = __builtin_LINE()) { return {*this, ticket, line}; }
  Redeemed<Result<DiskSpace>> disk_space(Ticket ticket, int line = __builtin_LINE()) { return {*this, ticket, line}; }

  // --- being a node ---------------------------------------------------------------------------------------------------------------
  void step(const Moment& now, std::span<const Input> inputs, Outbox& outbox) override {
    EXPECT_GE(now.monotonic, now_.monotonic) << "monotonic time fell";
    now_ = now;
    out_ = &outbox;
    for (const Input& input : inputs) std::visit([this](const auto& event) { on(event); }, input);
    if (steps++ == 0) script_ = main_(*this);
    while (resume_ && ready_()) std::exchange(resume_, {}).resume();
    deadline_ = Monotonic::never();
    if (resume_) deadline_ = poll_ > Duration{} ? std::min(at_, now.monotonic + poll_) : at_;
    if (script_.is_finished() && waiting_.empty()) outbox.stopped();
    out_ = nullptr;
  }
  Monotonic next_deadline() const override { return deadline_; }

 private:
  using Answer = std::variant<Result<void>, Result<Address>, Result<Connected>, Result<FileId>, Result<std::vector<FileEntry>>,
                              Contents, Result<DiskSpace>>;

  Ticket issue(const char* kind) {
    const Ticket ticket(1, next_ticket_++, 1);
    waiting_[ticket] = kind;
    return ticket;
  }
  void redeem(Ticket ticket, const std::string& kind, Answer answer) {
    const auto found = waiting_.find(ticket);
    if (found == waiting_.end()) {
      ADD_FAILURE() << kind << " for ticket " << ticket.slot() << ", which is not out";
      return;
    }
    EXPECT_EQ(found->second, kind) << "ticket " << ticket.slot();
    waiting_.erase(found);
    came_.emplace(ticket, std::move(answer));
  }
  Stream* open_stream(ConnId conn, const char* what) {
    const auto found = streams.find(conn);
    if (found == streams.end()) ADD_FAILURE() << what << " for an unknown connection " << conn.value();
    else if (found->second.is_closed) ADD_FAILURE() << what << " after Closed of " << conn.value();
    else return &found->second;
    return nullptr;
  }
  Stream& new_stream(ConnId conn) {
    const auto [at, is_new] = streams.try_emplace(conn);
    EXPECT_TRUE(is_new) << "connection " << conn.value() << " came back";
    return at->second;
  }

  void on(const Listening& e) { redeem(e.ticket, "Listening", e.at); }
  void on(const Accepted& e) {
    Stream& stream = new_stream(e.conn);
    stream.port = e.port;
    stream.peer = e.peer;
    accepted.push_back(e.conn);
  }
  void on(const Dialed& e) {
    if (e.link) new_stream(e.link->conn).peer = e.link->peer;
    redeem(e.ticket, "Dialed", e.link);
  }
  void on(const Received& e) {
    EXPECT_FALSE(e.bytes.empty());
    if (Stream* stream = open_stream(e.conn, "Received")) stream->bytes.insert(stream->bytes.end(), e.bytes.begin(), e.bytes.end());
  }
  void on(const Closed& e) {
    Stream* stream = open_stream(e.conn, "Closed");
    if (stream == nullptr) return;
    stream->is_closed = true;
    stream->why = e.why;
    network_history.push_back("closed");
  }
  void on(const Sent& e) {
    network_history.push_back("sent");
    redeem(e.ticket, "Sent", e.outcome);
  }
  void on(const Mapped& e) {
    EXPECT_TRUE(!e.file || files.find(*e.file) != nullptr) << "Mapped before the file is in Files";
    redeem(e.ticket, "Mapped", e.file);
  }
  void on(const Listed& e) { redeem(e.ticket, "Listed", e.files); }
  void on(const Read& e) {
    if (e.contents) redeem(e.ticket, "Read", Contents(std::vector<uint8_t>(e.contents->begin(), e.contents->end())));
    else redeem(e.ticket, "Read", Contents(e.contents.error()));
  }
  void on(const Space& e) { redeem(e.ticket, "Space", e.space); }
  void on(const Done& e) { redeem(e.ticket, "Done", e.outcome); }
  void on(const Told& e) {
    told_calls.push_back(e.call);
    std::string text{name_of(e.command)};
    if (const auto* route = std::get_if<command::QueryRoute>(&e.command)) text += " " + std::string(route->topic);
    told.push_back(std::move(text));
  }

  Main& main_;
  Script script_;
  Moment now_{Monotonic{INT64_MIN}, {}, 0};
  Outbox* out_ = nullptr;
  std::coroutine_handle<> resume_;
  std::function<bool()> ready_;
  Monotonic at_ = Monotonic::never();
  Duration poll_;
  Monotonic deadline_ = Monotonic::never();
  int line_ = 0;
  uint32_t next_ticket_ = 0;
  std::map<Ticket, std::string> waiting_;
  std::map<Ticket, Answer> came_;
};

// In a script: fails the test and ends the script.
#define REQUIRE(condition)                    \
  if (!(condition)) {                         \
    ADD_FAILURE() << "required: " #condition; \
    co_return;                                \
  }

}  // namespace fulmar::contract
