#pragma once
// Reads the frames of the native protocol on the server's side of every connection: requests from what it received, responses from what it
// sent. Frames are cut by code of its own.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/wire/native/codec.h"
#include "sim/observer.h"
#include "sim/oracles/o22_answers.h"

namespace fulmar::sim {

class WireWatch {
 public:
  // Told of each request that makes or deletes a topic when the broker gets it, and of its answer, with what was said to the request, when
  // its last byte enters the broker's kernel.
  struct TopicEvents {
    std::function<size_t(Life who, const std::string& topic)> asked;
    std::function<void(Life who, const std::string& topic, size_t mark, const Reply& reply)> answered;
  };
  WireWatch(Answers& answers, TopicEvents topics) : answers_(answers), topics_(std::move(topics)) {}
  void accepted(Life who, ConnId conn);
  void received(Life who, ConnId conn, Bytes bytes);
  void sent(Life who, ConnId conn, Bytes bytes);
  void closed(Life who, ConnId conn);
  void died(NodeId node);

 private:
  struct Stream { std::vector<uint8_t> bytes; size_t greeting_left = 0; bool is_broken = false; };
  struct Connection { uint64_t serial = 0; Stream in, out; std::map<uint32_t, std::pair<std::string, size_t>> topics; };   // of requests about topics, by opaque
  Connection* find(Life who, ConnId conn);
  template <class Visit> void feed(Connection& connection, Stream& stream, Bytes bytes, Visit visit);

  Answers& answers_;
  TopicEvents topics_;
  native::Codec codec_;
  std::map<std::pair<Life, ConnId>, Connection> connections_;
  uint64_t next_serial_ = 1;
};

}  // namespace fulmar::sim
