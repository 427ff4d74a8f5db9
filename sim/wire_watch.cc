#include "sim/wire_watch.h"

#include <fmt/format.h>

#include <algorithm>

namespace fulmar::sim {

void WireWatch::accepted(Life who, ConnId conn) {
  Connection& c = connections_[{who, conn}];
  c.serial = next_serial_++;
  c.in.greeting_left = 8;
}

WireWatch::Connection* WireWatch::find(Life who, ConnId conn) {
  const auto it = connections_.find({who, conn});
  return it == connections_.end() ? nullptr : &it->second;
}

// u32 bytes that follow, then as many: little-endian.
template <class Visit>
void WireWatch::feed(Connection& connection, Stream& stream, Bytes bytes, Visit visit) {
  if (stream.is_broken) return;
  const size_t greeting = std::min(stream.greeting_left, bytes.size());
  stream.greeting_left -= greeting;
  bytes = bytes.subspan(greeting);
  stream.bytes.insert(stream.bytes.end(), bytes.begin(), bytes.end());
  size_t at = 0;
  while (stream.bytes.size() - at >= 8) {
    const uint64_t length = uint64_t{4} + load_le<uint32_t>(stream.bytes.data() + at);
    const uint64_t words = load_le<uint32_t>(stream.bytes.data() + at + 4);
    if (8 + words * 8 > length) {
      stream.is_broken = true;
      return answers_.broken(connection.serial, fmt::format("a frame of {} bytes with a header of {} words", length, words));
    }
    if (stream.bytes.size() - at < length) break;
    visit(Bytes(stream.bytes).subspan(at, length));
    at += length;
  }
  stream.bytes.erase(stream.bytes.begin(), stream.bytes.begin() + static_cast<ptrdiff_t>(at));
}

void WireWatch::received(Life who, ConnId conn, Bytes bytes) {
  Connection* c = find(who, conn);
  if (c == nullptr) return;
  feed(*c, c->in, bytes, [&](Bytes frame) {
    const auto request = codec_.decode_request(frame);
    if (request) answers_.request(c->serial, request->opaque, request->is_one_way, name_of(request->command));
    if (request) {
      const auto* make = std::get_if<command::CreateTopic>(&request->command);
      const auto* remove = std::get_if<command::DeleteTopic>(&request->command);
      if (make == nullptr && remove == nullptr) return;
      const std::string topic(make != nullptr ? make->topic : remove->topic);
      c->topics[request->opaque] = {topic, topics_.asked(who, topic)};
    } else {
      answers_.broken(c->serial, request.error().error.text());
    }
  });
}

void WireWatch::sent(Life who, ConnId conn, Bytes bytes) {
  Connection* c = find(who, conn);
  if (c == nullptr) return;
  feed(*c, c->out, bytes, [&](Bytes frame) {
    const auto response = codec_.decode_response(frame);
    if (response) answers_.response(c->serial, response->opaque);
    if (const auto topic = response ? c->topics.extract(response->opaque) : decltype(c->topics)::node_type(); !topic.empty()) {
      topics_.answered(who, topic.mapped().first, topic.mapped().second, response->reply);
    }
    if (!response) answers_.broken(c->serial, response.error().error.text());
  });
}

void WireWatch::closed(Life who, ConnId conn) { connections_.erase({who, conn}); }

void WireWatch::died(NodeId node) {
  std::erase_if(connections_, [&](const auto& entry) { return entry.first.first.node == node; });
}

}  // namespace fulmar::sim
