#include "tests/unit/facade/server.h"

#include "tests/unit/facade/dev_server.h"

namespace facade_test {

struct Server::Parts { fulmar::test::DevServer server; };

Server::Server() : parts_(std::make_unique<Parts>()) {}
Server::~Server() = default;
std::string Server::name_server() const { return parts_->server.name_server(); }
void Server::kill_broker() { parts_->server.kill_broker(); }
void Server::start_broker() { parts_->server.start_broker(); }

}  // namespace facade_test
