// The native protocol: encoding and decoding of a send and its reply, and the framer over a chunk of frames.

#include <benchmark/benchmark.h>

#include "core/wire/framer.h"
#include "core/wire/native/codec.h"

namespace fulmar::bench {
namespace {

constexpr std::string_view kProperties = "UNIQ_KEY\x01" "7F00000100012A139A552F3B8C1E0000\x02" "WAIT\x01true\x02";

struct SendCase {
  explicit SendCase(const benchmark::State& state) : body(static_cast<size_t>(state.range(0)), 'x') {
    command.topic = "BenchmarkTest";
    command.queue_id = 3;
    command.properties = as_bytes(kProperties);
    command.body = body;
  }
  std::vector<uint8_t> body;
  command::SendMessage command;
};

reply::Sent sent_reply() {
  reply::Sent sent;
  sent.queue_id = 3;
  sent.queue_offset = QueueOffset(123456789);
  sent.physical_offset = PhysicalOffset(123456789012);
  sent.message_id = "7F00000100002A9F0000001CBE991A14";
  return sent;
}

void encode_send(benchmark::State& state) {
  SendCase c(state);
  const Command command = c.command;
  native::Codec codec;
  std::vector<uint8_t> out;
  for (auto _ : state) {
    out.clear();
    benchmark::DoNotOptimize(codec.encode_request(7, false, command, out));
  }
}
BENCHMARK(encode_send)->ArgName("body")->Arg(128)->Arg(1024);

void decode_send(benchmark::State& state) {
  SendCase c(state);
  native::Codec codec;
  std::vector<uint8_t> frame;
  if (!codec.encode_request(7, false, c.command, frame)) std::abort();
  for (auto _ : state) {
    auto decoded = codec.decode_request(frame);
    benchmark::DoNotOptimize(decoded);
  }
}
BENCHMARK(decode_send)->ArgName("body")->Arg(128)->Arg(1024);

void encode_sent(benchmark::State& state) {
  const Reply reply = sent_reply();
  native::Codec codec;
  std::vector<uint8_t> out;
  for (auto _ : state) {
    out.clear();
    benchmark::DoNotOptimize(codec.encode_response(7, reply, 0, out));
  }
}
BENCHMARK(encode_sent);

void decode_sent(benchmark::State& state) {
  native::Codec codec;
  std::vector<uint8_t> frame;
  if (!codec.encode_response(7, sent_reply(), 0, frame)) std::abort();
  for (auto _ : state) {
    auto decoded = codec.decode_response(frame);
    benchmark::DoNotOptimize(decoded);
  }
}
BENCHMARK(decode_sent);

// Frames a second when 64 KiB arrive at a time, cut anywhere.
void framer(benchmark::State& state) {
  SendCase c(state);
  native::Codec codec;
  std::vector<uint8_t> stream;
  int64_t frames = 0;
  while (stream.size() < 4u << 20) {
    if (!codec.encode_request(7, false, c.command, stream)) std::abort();
  }
  native::Framer framer(native::kFrameBytesMaxRequest);
  size_t at = 0;
  for (auto _ : state) {
    const size_t bytes = std::min<size_t>(64u << 10, stream.size() - at);
    framer.feed(Bytes(stream).subspan(at, bytes));
    at = (at + bytes) % stream.size();
    while (true) {
      const auto frame = framer.next();
      if (!frame || frame->empty()) break;
      ++frames;
    }
  }
  state.SetItemsProcessed(frames);
  state.counters["per frame"] = benchmark::Counter(static_cast<double>(frames), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(framer)->ArgName("body")->Arg(128)->Arg(1024);

}  // namespace
}  // namespace fulmar::bench
