#pragma once
// A whole broker node over the driver of vectors, with a network of one process: listening succeeds, what is sent arrives, the host asks.

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/node/broker.h"
#include "core/wire/framer.h"
#include "core/wire/native/codec.h"
#include "tests/unit/store/memory_driver.h"

namespace fulmar::testing {

inline BrokerConfig small_broker_config() {
  BrokerConfig c;
  c.store_path = "store";
  c.listen_port = 0;
  c.commit_log_file_bytes = 256 * 1024;
  c.consume_queue_file_bytes = 20 * 64;
  c.index_slot_count = 64;
  c.index_entry_count = 256;
  c.async_unflushed_bytes_max = 1u << 20;
  c.body_bytes_max = 64 * 1024;
  return c;
}

class BrokerHarness {
 public:
  explicit BrokerHarness(BrokerConfig c = small_broker_config(), Seed seed = Seed{7}) : driver(seed), config(std::move(c)) { driver.is_in_order = true; }

  // --- steps ----------------------------------------------------------------------------------------------------------------------------
  void step(std::vector<Input> inputs = {}) {
    while (!network_.empty()) { inputs.push_back(std::move(network_.front())); network_.pop_front(); }
    driver.step([&](Ctx& ctx) {
      if (broker == nullptr) broker = std::make_unique<Broker>(config, Seed{3}, ctx.files, ctx.trace);
      broker->step(driver.now, inputs, ctx.out);
      is_stopped = is_stopped || ctx.out.is_stopped();
      if (ctx.out.halted() == nullptr) take_network(ctx);
    });
  }
  // One thing happens: work that is ready, something comes home, or time goes on to the next deadline, `end` at the latest.
  void run_one(Monotonic end = Monotonic::never()) {
    if (broker == nullptr || driver.wants_step_again() || !network_.empty()) return step();
    if (driver.in_flight() > 0) return step({*driver.complete_one()});
    Monotonic next = broker->next_deadline();
    if (next != Monotonic::never()) next = next + Duration::milliseconds(1);
    next = std::min(next, end);
    if (next != Monotonic::never() && next > driver.now.monotonic) driver.advance(next - driver.now.monotonic);
    step();
  }
  template <class Until> bool run_until(Until until, int count = 20'000) {
    for (int i = 0; i < count && !until() && !driver.halted() && !is_stopped; ++i) run_one();
    return until();
  }
  void run_for(Duration time) {
    const Monotonic end = driver.now.monotonic + time;
    while (driver.now.monotonic < end && !driver.halted() && !is_stopped) run_one(end);
  }
  // Everything that is ready happens; time stands still.
  void settle() {
    for (int i = 0; i < 20'000 && !driver.halted() && (driver.wants_step_again() || !network_.empty() || driver.in_flight() > 0); ++i) run_one();
  }
  bool serve() {
    return run_until([&] { return driver.has_event("BrokerServing"); });
  }
  void wake() {
    broker.reset();
    network_.clear();
    streams.clear();
    driver.events().clear();
    is_stopped = false;
  }
  void kill() { driver.kill(); wake(); }
  void cut_power(Ratio keep) { driver.crash(keep); wake(); }

  // --- the host asks ----------------------------------------------------------------------------------------------------------------------
  uint64_t tell(const Command& command) {
    step({Told{CallId(++last_call_), command}});
    return last_call_;
  }
  const Reply* told(uint64_t call) const {
    const auto found = told_.find(call);
    return found == told_.end() ? nullptr : &found->second;
  }
  Reply ask(const Command& command) {
    const uint64_t call = tell(command);
    run_until([&] { return told(call) != nullptr; });
    CHECK(told(call) != nullptr, "{} was not answered{}", name_of(command), driver.halted() ? ": " + driver.halted()->text() : "");
    return *told(call);
  }
  std::string ask_text(const Command& command) { return describe(ask(command)); }
  Reply create(std::string_view topic, int32_t queues = 1) { return ask(command::CreateTopic{topic, queues, queues, 6}); }
  static command::SendMessage message(std::string_view topic, std::string_view body, std::string_view properties = {}, int32_t queue = 0) {
    command::SendMessage c;
    c.topic = topic;
    c.queue_id = queue;
    c.body = as_bytes(body);
    c.properties = as_bytes(properties);
    return c;
  }
  static command::PullMessages pull(std::string_view topic, int64_t offset, uint32_t suspend_ms = 0, std::string_view subscription = "*") {
    command::PullMessages c;
    c.group = "g";
    c.topic = topic;
    c.offset = QueueOffset(offset);
    c.suspend_ms = suspend_ms;
    c.subscription = subscription;
    return c;
  }
  // Bodies of stored records, back to back.
  static std::vector<std::string> bodies(Bytes records) {
    std::vector<std::string> out;
    while (!records.empty()) {
      const ParsedRecord parsed = parse_received_record(records, Verify::Checksums);
      CHECK(parsed.kind == RecordKind::Message, "{}", parsed.why);
      out.emplace_back(as_text(parsed.record.message.body));
      records = records.subspan(parsed.bytes);
    }
    return out;
  }
  // Everything in queue 0, by pulls from `offset` on.
  std::vector<std::string> read_all(std::string_view topic, int64_t offset = 0) {
    std::vector<std::string> out;
    while (true) {
      const Reply reply = ask(pull(topic, offset));
      const auto* pulled = std::get_if<reply::Pulled>(&reply);
      CHECK(pulled != nullptr, "{}", describe(reply));
      for (std::string& body : bodies(pulled->records)) out.push_back(std::move(body));
      if (pulled->code == Code::PullNotFound) return out;
      offset = pulled->next.value();
    }
  }

  // --- a connection ---------------------------------------------------------------------------------------------------------------------
  ConnId connect() {
    const ConnId conn(++last_conn_);
    Peer peer;
    peer.remote = {"10.0.0.9", 4000};
    peer.local = {"10.0.0.1", 10911};
    std::vector<uint8_t> hello(native::kPreamble.begin(), native::kPreamble.end());
    native::Codec codec;
    CHECK(codec.encode_request(0, false, command::Hello{}, hello).has_value());
    step({Accepted{conn, Port(1), peer}, Received{conn, hello}});
    settle();
    streams[conn].clear();
    return conn;
  }
  void request(ConnId conn, uint32_t opaque, const Command& command, bool is_one_way = false) {
    std::vector<uint8_t> bytes;
    native::Codec codec;
    CHECK(codec.encode_request(opaque, is_one_way, command, bytes).has_value());
    step({Received{conn, bytes}});
  }
  // "5: Sent SUCCESS …", one a line; they are then forgotten. Attachments of pulls are kept in `attached`.
  std::string responses(ConnId conn) {
    native::Framer framer(native::kFrameBytesMaxResponse);
    native::Codec codec;
    std::string text;
    framer.feed(streams[conn]);
    while (true) {
      const auto frame = framer.next();
      if (!frame || frame->empty()) break;
      const auto decoded = codec.decode_response(*frame);
      CHECK(decoded.has_value());
      if (const auto* pulled = std::get_if<reply::Pulled>(&decoded->reply)) attached = pulled->records;
      text += fmt::format("{}: {}\n", decoded->opaque, describe(decoded->reply));
    }
    streams[conn].clear();
    return text;
  }

  MemoryDriver driver;
  BrokerConfig config;
  std::unique_ptr<Broker> broker;
  std::map<ConnId, std::vector<uint8_t>> streams;   // what the broker wrote
  std::vector<uint8_t> attached;
  std::vector<Address> dialed, listened;
  bool is_vip_taken = false;
  bool is_stopped = false, is_dial_answered = false, is_sent_held_back = false;
  std::deque<Input> held_back;

 private:
  // Takes the network's part out of the outbox; the driver carries out the rest.
  void take_network(Ctx& ctx) {
    auto& requests = ctx.out.requests();
    std::vector<Request> rest;
    for (Request& request : requests) {
      if (const auto* listen = std::get_if<request::Listen>(&request)) carry_out(*listen);
      else if (const auto* tell = std::get_if<request::Tell>(&request)) told_[tell->call.value()] = tell->reply;
      else if (const auto* send = std::get_if<request::Send>(&request)) carry_out(ctx, *send);
      else if (const auto* dial = std::get_if<request::Dial>(&request)) carry_out(*dial);
      else if (std::holds_alternative<request::Close>(request) || std::holds_alternative<request::Pause>(request) ||
               std::holds_alternative<request::Resume>(request) || std::holds_alternative<request::Unlisten>(request)) continue;
      else rest.push_back(std::move(request));
    }
    requests = std::move(rest);
  }
  void carry_out(const request::Listen& listen) {
    listened.push_back(listen.at);
    if (listen.at.port == 0) network_.push_back(Listening{listen.ticket, Address{listen.at.host, 10911}});
    else if (is_vip_taken) network_.push_back(Listening{listen.ticket, Error(Errc::AddressInUse, "taken")});
    else network_.push_back(Listening{listen.ticket, listen.at});
  }
  void carry_out(Ctx& ctx, const request::Send& send) {
    auto& stream = streams[send.conn];
    for (uint32_t i = 0; i < send.piece_count; ++i) {
      const auto& piece = ctx.out.pieces()[send.first_piece + i];
      const Bytes bytes = piece.is_slice ? ctx.files.at(piece.slice.file).view(piece.slice.range) : ctx.out.bytes_of(piece);
      stream.insert(stream.end(), bytes.begin(), bytes.end());
    }
    (is_sent_held_back ? held_back : network_).push_back(Sent{send.ticket, {}});
  }
  void carry_out(const request::Dial& dial) {
    dialed.push_back(dial.peer);
    if (is_dial_answered) network_.push_back(Dialed{dial.ticket, Connected{ConnId(++last_conn_), {}}});
    else network_.push_back(Dialed{dial.ticket, Error(Errc::Refused)});
  }

  std::deque<Input> network_;
  std::map<uint64_t, Reply> told_;
  uint64_t last_call_ = 0, last_conn_ = 0;
};

}  // namespace fulmar::testing
