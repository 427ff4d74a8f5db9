// A warm connection does not allocate: not for a request, not for its answer, not for slices.

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "core/node/endpoint.h"
#include "core/node/link.h"
#include "step_kit.h"

namespace {
uint64_t allocations = 0;
}
void* operator new(size_t bytes) {
  ++allocations;
  if (void* p = std::malloc(bytes)) return p;
  std::abort();
}
// std::stable_sort's buffer comes from this one and goes by the plain delete.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace fulmar {
namespace {

struct Prompt : RequestHandler {
  Endpoint* endpoint = nullptr;
  bool is_sliced = false;
  Reply answer = reply::Sent{};
  void on_request(Ctx&, const RequestRef& from, const Command&) override {
    const FileSlice slices[] = {{FileId(1), {0, 100}}, {FileId(2), {0, 100}}};
    if (is_sliced) endpoint->reply_with_slices(from, answer, slices);
    else endpoint->reply(from, answer);
  }
  void on_connection_closed(Ctx&, ConnId) override {}
};

uint64_t allocations_of(const Command& command, Prompt handler) {
  test::StepKit kit;
  Endpoint endpoint(1, "server");
  handler.endpoint = &endpoint;
  endpoint.on_accepted(kit.ctx, Accepted{ConnId(1), Port(1), {}});
  const auto greeting = test::greeting();
  endpoint.on_received(kit.ctx, Received{ConnId(1), greeting}, handler);
  std::vector<uint8_t> bytes;
  for (uint32_t i = 1; i <= 8; ++i) test::append(bytes, i, command);
  const auto turn = [&] {
    // Cut inside a frame, so that the framer has something to keep.
    endpoint.on_received(kit.ctx, Received{ConnId(1), Bytes(bytes).first(bytes.size() - 30)}, handler);
    endpoint.flush(kit.ctx);
    endpoint.on_received(kit.ctx, Received{ConnId(1), Bytes(bytes).last(30)}, handler);
    endpoint.flush(kit.ctx);
    for (const Request& request : kit.out.requests()) {
      if (const auto* send = std::get_if<request::Send>(&request)) endpoint.on_sent(kit.ctx, Sent{send->ticket, {}});
    }
    kit.out.clear();
  };
  for (int i = 0; i < 20; ++i) turn();
  const uint64_t before = allocations;
  for (int i = 0; i < 20; ++i) turn();
  return allocations - before;
}

TEST(Warm, SendsDoNotAllocate) {
  command::SendMessage send;
  send.topic = "orders";
  const std::vector<uint8_t> body(1000, 'b');
  send.body = body;
  send.properties = as_bytes("TAGS\x01red\x02");
  Prompt handler;
  reply::Sent sent;
  sent.message_id = "7F00000100002A9F0000000000000000";
  handler.answer = sent;
  EXPECT_EQ(allocations_of(send, handler), 0u);
}

TEST(Warm, PullsDoNotAllocate) {
  command::PullMessages pull;
  pull.group = "g";
  pull.topic = "orders";
  Prompt handler;
  handler.is_sliced = true;
  handler.answer = reply::Pulled{};
  EXPECT_EQ(allocations_of(pull, handler), 0u);
}

TEST(Warm, CallsDoNotAllocate) {
  struct Quiet : ReplyHandler {
    void on_reply(Ctx&, uint64_t, Result<Reply>) override {}
  } handler;
  test::StepKit kit;
  Links links(1, "client");
  const Address to{"a", 1};
  const command::QueryRoute route{"t"};
  const Command command = route;
  native::Codec codec;
  std::vector<uint8_t> answer;
  ASSERT_TRUE(links.call(kit.ctx, to, command, 1, Monotonic{1'000'000}).has_value());
  const Ticket ticket = kit.all<request::Dial>().at(0).ticket;
  links.on_dialed(kit.ctx, Dialed{ticket, Connected{ConnId(5), {}}}, handler);
  uint32_t opaque = 1;
  const auto turn = [&] {
    links.flush(kit.ctx);
    answer.clear();
    EXPECT_TRUE(codec.encode_response(opaque++, reply::Ok{}, 0, answer).has_value());
    links.on_received(kit.ctx, Received{ConnId(5), answer}, handler);
    for (const Request& request : kit.out.requests()) {
      if (const auto* send = std::get_if<request::Send>(&request)) links.on_sent(kit.ctx, Sent{send->ticket, {}});
    }
    kit.out.clear();
    EXPECT_TRUE(links.call(kit.ctx, to, command, opaque, Monotonic{int64_t{opaque} * 1'000'000}).has_value());
  };
  for (int i = 0; i < 20; ++i) turn();
  const uint64_t before = allocations;
  for (int i = 0; i < 20; ++i) turn();
  EXPECT_EQ(allocations - before, 0u);
}

}  // namespace
}  // namespace fulmar
