#pragma once
// The owner of an endpoint, in tests of the endpoint.

#include <string>
#include <vector>

#include "core/node/endpoint.h"

namespace fulmar::test {

// Remembers requests; answers when a test says so.
struct Recorder : RequestHandler {
  std::vector<RequestRef> requests;
  std::vector<std::string> names;
  std::vector<ConnId> closed;
  void on_request(Ctx&, const RequestRef& from, const Command& command) override {
    requests.push_back(from);
    names.emplace_back(name_of(command));
  }
  void on_connection_closed(Ctx&, ConnId conn) override { closed.push_back(conn); }
};

}  // namespace fulmar::test
