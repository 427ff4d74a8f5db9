#pragma once
// A small HTTP server on threads of its own, one for each connection while it lasts: what answers may block, and a loop that is stuck keeps
// nobody but its own askers. GET and HEAD; libmicrohttpd reads the requests and refuses what is none.
//
// Bounded: connections_max connections (more wait in the kernel or are closed), idle_seconds without a byte either way, 32 KiB of a request.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/io/ids.h"

namespace fulmar::net {

struct HttpAnswer {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string text;                          // the body, or its begin
  // What follows, piece by piece; an empty one is the end. An error breaks the connection off: nobody takes the rest for the whole.
  std::function<Result<std::string>()> more;
};

struct HttpLimits {
  unsigned connections_max = 32, idle_seconds = 10;
};

class HttpServer {
 public:
  // `path`: without the query. Called on any number of threads at once; so is `more` of its answer, but that by one at a time.
  using Handler = std::function<HttpAnswer(std::string_view path)>;

  // Listens at once. AddressInUse, BadAddress, NotPermitted, …: the detail names address and cause.
  static Result<std::unique_ptr<HttpServer>> start(const Address& at, Handler handler, HttpLimits limits = {});
  ~HttpServer();                             // waits for answers that are being made
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  const Address& at() const { return at_; }  // with the port we really got

 private:
  HttpServer() = default;
  struct Glue;                               // what the library calls back
  Address at_;
  Handler handler_;
  void* daemon_ = nullptr;
};

}  // namespace fulmar::net
