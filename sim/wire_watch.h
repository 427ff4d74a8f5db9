#pragma once
// Reads the frames of the native protocol on the server's side of every connection: requests from what it received, responses from what it
// sent. Frames are cut by code of its own.

#include <map>
#include <vector>

#include "core/wire/native/codec.h"
#include "sim/observer.h"
#include "sim/oracles/o22_answers.h"

namespace fulmar::sim {

class WireWatch {
 public:
  explicit WireWatch(Answers& answers) : answers_(answers) {}
  void accepted(Life who, ConnId conn);
  void received(Life who, ConnId conn, Bytes bytes);
  void sent(Life who, ConnId conn, Bytes bytes);
  void closed(Life who, ConnId conn);
  void died(NodeId node);

 private:
  struct Stream { std::vector<uint8_t> bytes; size_t greeting_left = 0; bool is_broken = false; };
  struct Connection { uint64_t serial = 0; Stream in, out; };
  Connection* find(Life who, ConnId conn);
  template <class Visit> void feed(Connection& connection, Stream& stream, Bytes bytes, Visit visit);

  Answers& answers_;
  native::Codec codec_;
  std::map<std::pair<Life, ConnId>, Connection> connections_;
  uint64_t next_serial_ = 1;
};

}  // namespace fulmar::sim
