// Links on one side, an Endpoint on the other, a bad network between: every call ends exactly once, with the answer to its own question
// or with an error, and once the network is good and the peer answers, everything ends. The same run with a bug planted must complain.

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <deque>
#include <set>

#include "core/base/mutants.h"
#include "core/node/endpoint.h"
#include "core/node/link.h"

namespace fulmar {
namespace {

// One connection: bytes on their way, and what the server owes.
struct Pipe {
  std::deque<uint8_t> to_server, to_client;
  bool is_paused = false, is_open = true;
  native::Framer answers{native::kFrameBytesMaxResponse};
  std::multiset<uint32_t> owed;   // opaque numbers of requests that want an answer
};

class World : RequestHandler, ReplyHandler {
 public:
  explicit World(uint64_t seed) : dice_(Seed{seed}) {
    EndpointLimits limits;
    limits.requests_in_flight_max = 3;
    endpoint_ = std::make_unique<Endpoint>(1, "server", limits);
    LinkLimits link_limits;
    link_limits.backoff_max = Duration::milliseconds(200);
    links_ = std::make_unique<Links>(1, "client", link_limits);
  }

  // The first thing that is wrong, or nothing.
  std::string run() {
    for (int i = 0; i < 400 && complaint_.empty(); ++i) chaos();
    for (int i = 0; i < 4000 && complaint_.empty() && ended_.size() < called_.size(); ++i) calm();
    if (complaint_.empty() && ended_.size() != called_.size())
      complain(fmt::format("{} of {} calls never ended", called_.size() - ended_.size(), called_.size()));
    if (complaint_.empty() && client_.out.requests().size() > 0) complain("requests were left");
    return complaint_;
  }

 private:
  struct Side {
    Moment now;
    Outbox out;
    Files files;
    Timers timers;
    Prng prng{Seed{5}};
    Trace trace;
    Ctx ctx{now, out, files, timers, prng, trace};
  };

  void complain(std::string what) { if (complaint_.empty()) complaint_ = std::move(what); }
  bool one_in(uint64_t n) { return dice_.below(n) == 0; }

  void chaos() {
    if (one_in(2)) call();
    if (one_in(30)) reset();
    deliver_something(8);
    if (one_in(3)) answer();
    pass(dice_.below(20));
    carry_out(true);
  }
  void calm() {
    deliver_something(1);
    deliver_something(1);
    answer();
    pass(1);
    carry_out(false);
  }

  void call() {
    const Address to{one_in(3) ? "a" : "b", 1};
    const uint64_t token = next_token_++;
    const std::string body = fmt::format("{}", token);
    command::SendMessage c;
    c.topic = "t";
    c.body = as_bytes(body);
    if (one_in(6)) {
      (void)links_->call_one_way(client_.ctx, to, c);
      return;
    }
    const Monotonic deadline = one_in(2) ? Monotonic::never() : client_.now.monotonic + Duration::milliseconds(dice_.between(1, 400));
    if (links_->call(client_.ctx, to, c, token, deadline)) called_.insert(token);
  }

  void on_reply(Ctx&, uint64_t token, Result<Reply> reply) override {
    if (!called_.contains(token) || !ended_.insert(token).second) return complain(fmt::format("call {} ended twice", token));
    if (!reply) return;
    const auto* offset = std::get_if<reply::Offset>(&*reply);
    if (offset == nullptr || offset->offset.value() != static_cast<int64_t>(token))
      complain(fmt::format("call {} got {}", token, describe(*reply)));
  }

  void on_request(Ctx&, const RequestRef& from, const Command& command) override {
    const auto& body = std::get<command::SendMessage>(command).body;
    held_.push_back({from, std::stoll(std::string(as_text(body)))});
    if (!from.is_one_way) pipes_[from.conn.value()].owed.insert(from.opaque);
  }
  void on_connection_closed(Ctx&, ConnId conn) override {
    std::erase_if(held_, [conn](const Held& h) { return h.from.conn == conn; });
  }

  void answer() {
    if (held_.empty()) return;
    const size_t at = dice_.below(held_.size());
    const Held held = held_[at];
    held_.erase(held_.begin() + static_cast<ptrdiff_t>(at));
    endpoint_->reply(held.from, reply::Offset{QueueOffset(held.number)});
  }

  void deliver_something(uint64_t odds) {
    for (auto& [id, pipe] : pipes_) {
      if (!pipe.is_open) continue;
      if (!pipe.is_paused && one_in(odds))
        if (const auto chunk = take(pipe.to_server); !chunk.empty())
          endpoint_->on_received(server_.ctx, Received{ConnId(id), chunk}, *this);
      if (one_in(odds))
        if (const auto chunk = take(pipe.to_client); !chunk.empty()) links_->on_received(client_.ctx, Received{ConnId(id), chunk}, *this);
    }
  }
  std::vector<uint8_t> take(std::deque<uint8_t>& from) {
    const size_t bytes = std::min<size_t>(from.size(), one_in(2) ? 1 + dice_.below(9) : 1 + dice_.below(600));
    std::vector<uint8_t> chunk(from.begin(), from.begin() + static_cast<ptrdiff_t>(bytes));
    from.erase(from.begin(), from.begin() + static_cast<ptrdiff_t>(bytes));
    return chunk;
  }

  void reset() {
    for (auto& [id, pipe] : pipes_) {
      if (!pipe.is_open || one_in(2)) continue;
      pipe.is_open = false;
      links_->on_closed(client_.ctx, Closed{ConnId(id), Errc::Reset}, *this);
      endpoint_->on_closed(server_.ctx, Closed{ConnId(id), Errc::Reset}, *this);
    }
  }

  void pass(uint64_t ms) {
    client_.now.monotonic = client_.now.monotonic + Duration::milliseconds(static_cast<int64_t>(ms));
    server_.now = client_.now;
    while (client_.timers.pop_due(client_.now.monotonic)) links_->on_timer(client_.ctx, *this);
    while (server_.timers.pop_due(server_.now.monotonic)) endpoint_->on_timer(server_.ctx);
  }

  void carry_out(bool is_chaos) {
    links_->flush(client_.ctx);
    endpoint_->read_on(server_.ctx, *this);
    endpoint_->flush(server_.ctx);
    const auto client_requests = client_.out.requests();
    for (const Request& any : client_requests) {
      if (const auto* send = std::get_if<request::Send>(&any)) {
        Pipe& pipe = pipes_[send->conn.value()];
        if (pipe.is_open) for (const uint8_t byte : bytes_of(client_.out, *send)) pipe.to_server.push_back(byte);
        links_->on_sent(client_.ctx, Sent{send->ticket, {}});
      } else if (const auto* dial = std::get_if<request::Dial>(&any)) {
        dialed(dial->ticket, is_chaos && one_in(4));
      } else if (const auto* close = std::get_if<request::Close>(&any)) {
        Pipe& pipe = pipes_[close->conn.value()];
        if (std::exchange(pipe.is_open, false)) endpoint_->on_closed(server_.ctx, Closed{close->conn, Errc::PeerClosed}, *this);
      }
    }
    client_.out.clear();
    carry_out_server();
    links_->flush(client_.ctx);  // sends of what the above opened wait for the next turn in the outbox
    if (!client_.out.requests().empty()) carry_out(is_chaos);
  }

  void dialed(Ticket ticket, bool fails) {
    if (fails) { links_->on_dialed(client_.ctx, Dialed{ticket, Errc::Refused}, *this); return; }
    const ConnId conn(++last_conn_);
    pipes_[conn.value()];
    endpoint_->on_accepted(server_.ctx, Accepted{conn, Port(1), {}});
    links_->on_dialed(client_.ctx, Dialed{ticket, Connected{conn, {}}}, *this);
  }

  void carry_out_server() {
    const auto requests = server_.out.requests();
    for (const Request& any : requests) {
      if (const auto* send = std::get_if<request::Send>(&any)) {
        Pipe& pipe = pipes_[send->conn.value()];
        const auto bytes = bytes_of(server_.out, *send);
        check_answers(pipe, bytes);
        if (pipe.is_open) for (const uint8_t byte : bytes) pipe.to_client.push_back(byte);
        endpoint_->on_sent(server_.ctx, Sent{send->ticket, {}});
      } else if (const auto* pause = std::get_if<request::Pause>(&any)) {
        pipes_[pause->conn.value()].is_paused = true;
      } else if (const auto* resume = std::get_if<request::Resume>(&any)) {
        pipes_[resume->conn.value()].is_paused = false;
      } else if (const auto* close = std::get_if<request::Close>(&any)) {
        Pipe& pipe = pipes_[close->conn.value()];
        if (std::exchange(pipe.is_open, false)) links_->on_closed(client_.ctx, Closed{close->conn, Errc::PeerClosed}, *this);
      }
    }
    // What on_sent asked while we carried out comes behind what we have seen.
    std::vector<Request> rest(server_.out.requests().begin() + static_cast<ptrdiff_t>(requests.size()), server_.out.requests().end());
    server_.out.clear();
    for (const Request& any : rest) {
      if (const auto* resume = std::get_if<request::Resume>(&any)) pipes_[resume->conn.value()].is_paused = false;
      else if (const auto* close = std::get_if<request::Close>(&any)) {
        if (std::exchange(pipes_[close->conn.value()].is_open, false))
          links_->on_closed(client_.ctx, Closed{close->conn, Errc::PeerClosed}, *this);
      }
    }
  }

  // At most one answer to each request that wants one, on its own connection.
  void check_answers(Pipe& pipe, Bytes bytes) {
    pipe.answers.feed(bytes);
    for (auto frame = pipe.answers.next(); frame && !frame->empty(); frame = pipe.answers.next()) {
      const auto decoded = codec_.decode_response(*frame);
      if (!decoded) return complain("an answer does not parse");
      if (decoded->opaque == 0) {
        if (!std::holds_alternative<reply::Hello>(decoded->reply)) complain(fmt::format("the hello got {}", describe(decoded->reply)));
        continue;
      }
      const auto owed = pipe.owed.find(decoded->opaque);
      if (owed == pipe.owed.end()) return complain(fmt::format("an answer to {} that nobody wants", decoded->opaque));
      pipe.owed.erase(owed);
    }
  }

  static std::vector<uint8_t> bytes_of(const Outbox& out, const request::Send& send) {
    std::vector<uint8_t> bytes;
    for (uint32_t i = 0; i < send.piece_count; ++i) {
      const Bytes piece = out.bytes_of(out.pieces()[send.first_piece + i]);
      bytes.insert(bytes.end(), piece.begin(), piece.end());
    }
    return bytes;
  }

  struct Held { RequestRef from; int64_t number = 0; };
  Prng dice_;
  Side client_, server_;
  native::Codec codec_;
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<Links> links_;
  std::map<uint64_t, Pipe> pipes_;
  std::vector<Held> held_;
  std::set<uint64_t> called_, ended_;
  uint64_t next_token_ = 1, last_conn_ = 0;
  std::string complaint_;
};

RC_GTEST_PROP(LinkAndEndpoint, EveryCallEndsOnceWithItsOwnAnswer, (uint64_t seed)) { RC_ASSERT(World(seed).run() == ""); }

TEST(LinkAndEndpoint, PlantedBugsAreFound) {
  for (const Mutant mutant : {Mutant::FramerForgetsCutHeader, Mutant::EndpointAnswersNewestOpaque, Mutant::EndpointAnswersOneWay,
                              Mutant::EndpointNeverResumes, Mutant::LinkAnswersOldestCall, Mutant::LinkForgetsCallsOfLostConnection}) {
    mutants::plant(mutant);
    std::string complaint;
    for (uint64_t seed = 0; seed < 30 && complaint.empty(); ++seed) complaint = World(seed).run();
    EXPECT_NE(complaint, "") << static_cast<int>(mutant);
    mutants::plant(Mutant::None);
  }
}

}  // namespace
}  // namespace fulmar
