#pragma once
// The test's server without a header of the core: tests see what users see.

#include <memory>
#include <string>

namespace facade_test {

class Server {
 public:
  Server();
  ~Server();
  std::string name_server() const;  // "127.0.0.1:port"
  void kill_broker();               // kill -9, to its files and to its peers
  void start_broker();              // at the port it had

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace facade_test
