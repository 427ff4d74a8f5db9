// The native protocol against strangers. The first byte chooses:
//   0  the rest is a stream of requests: framer and decoder        1  of responses
//   2  the rest is what a connection receives, preamble first. An endpoint must say the same however the bytes are cut.

#include <cstdlib>
#include <string>

#include "core/base/check.h"
#include "core/node/endpoint.h"

namespace {

using namespace fulmar;

constexpr size_t kBytesMax = 1u << 16;

void decode_all(Bytes stream, bool is_request) {
  native::Codec codec;
  native::Framer framer(is_request ? native::kFrameBytesMaxRequest : native::kFrameBytesMaxResponse);
  framer.feed(stream);
  while (true) {
    const auto frame = framer.next();
    if (!frame || frame->empty()) return;
    std::vector<uint8_t> again;
    if (is_request) {
      const auto decoded = codec.decode_request(*frame);
      if (!decoded) CHECK(!decoded.error().error.detail.empty());
      // What was understood can be said again, unless it was longer than it had to be.
      if (decoded) (void)codec.encode_request(decoded->opaque, decoded->is_one_way, decoded->command, again);
    } else {
      const auto decoded = codec.decode_response(*frame);
      if (decoded) (void)codec.encode_response(decoded->opaque, decoded->reply, 0, again);
    }
  }
}

// Answers everything at once and keeps what the peer would see.
class Conversation : RequestHandler {
 public:
  template <class NextChunk>
  std::string run(Bytes stream, NextChunk next_chunk) {
    endpoint_.on_accepted(ctx_, Accepted{kConn, Port(1), {}});
    while (!stream.empty() && !is_closed_) {
      const size_t bytes = std::min(stream.size(), next_chunk());
      endpoint_.on_received(ctx_, Received{kConn, stream.first(bytes)}, *this);
      stream = stream.subspan(bytes);
      carry_out();
    }
    CHECK(endpoint_.connection_count() == (is_closed_ ? 0u : 1u));
    return seen_ + (is_closed_ ? " closed" : " open");
  }

 private:
  static constexpr ConnId kConn{1};
  void on_request(Ctx&, const RequestRef& from, const Command& command) override {
    Refusal refusal;
    refusal.cause = name_of(command);
    refusal.measured = std::to_string(command.index());
    endpoint_.reply(from, refusal);
  }
  void on_connection_closed(Ctx&, ConnId) override {}

  void carry_out() {
    endpoint_.read_on(ctx_, *this);
    endpoint_.flush(ctx_);
    const std::vector<Request> requests = out_.requests();
    std::vector<Ticket> tickets;
    for (const Request& any : requests) {
      if (const auto* send = std::get_if<request::Send>(&any)) {
        for (uint32_t i = 0; i < send->piece_count; ++i) seen_ += as_text(out_.bytes_of(out_.pieces()[send->first_piece + i]));
        tickets.push_back(send->ticket);
      }
    }
    for (const Ticket ticket : tickets) endpoint_.on_sent(ctx_, Sent{ticket, {}});
    for (const Request& any : out_.requests()) is_closed_ |= std::holds_alternative<request::Close>(any);
    out_.clear();
  }

  Moment now_;
  Outbox out_;
  Files files_;
  Timers timers_;
  Prng prng_{Seed{1}};
  Trace trace_;
  Ctx ctx_{now_, out_, files_, timers_, prng_, trace_};
  Endpoint endpoint_{1, "fuzz"};
  std::string seen_;
  bool is_closed_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > kBytesMax) return 0;
  const Bytes rest(data + 1, size - 1);
  if (data[0] % 3 != 2) {
    decode_all(rest, data[0] % 3 == 0);
    return 0;
  }
  const std::string whole = Conversation().run(rest, [] { return kBytesMax; });
  const std::string bytewise = Conversation().run(rest, [] { return size_t{1}; });
  Prng dice(Seed{size});
  const std::string mixed = Conversation().run(rest, [&dice] { return static_cast<size_t>(1 + dice.below(40)); });
  CHECK(whole == bytewise && whole == mixed, "{} {} {}", whole.size(), bytewise.size(), mixed.size());
  return 0;
}
