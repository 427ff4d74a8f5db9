#include "net/http/http_server.h"

#include <fcntl.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "net/errno.h"
#include "net/file_work.h"
#include "net/thread.h"

namespace fulmar::net {

namespace {

constexpr size_t kRequestBytesMax = 32 * 1024, kPieceBytes = 32 * 1024;
constexpr int kBacklog = 64;

Result<Descriptor> listen_at(const Address& at) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  if (getaddrinfo(at.host.c_str(), std::to_string(at.port).c_str(), &hints, &found) != 0)
    return Error(Errc::BadAddress, fmt::format("{} does not resolve", at.host));
  Descriptor socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int one = 1;
  bool is_listening = socket.get() >= 0 && setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0;
  is_listening = is_listening && bind(socket.get(), found->ai_addr, found->ai_addrlen) == 0 && listen(socket.get(), kBacklog) == 0;
  const int code = errno;
  freeaddrinfo(found);
  if (!is_listening) return network_error(-code, "listen on " + at.text());
  return socket;
}

uint16_t port_of(int socket) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return 0;
  return address.ss_family == AF_INET6 ? ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port)
                                       : ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

// A body that is being sent: what of its present piece is out, and where more comes from.
struct Stream {
  std::string piece;
  size_t at = 0;
  std::function<Result<std::string>()> more;
};

ssize_t read_stream(void* self, uint64_t, char* into, size_t bytes_max) {
  Stream& stream = *static_cast<Stream*>(self);
  if (stream.at == stream.piece.size()) {
    Result<std::string> next = stream.more();
    if (!next) return MHD_CONTENT_READER_END_WITH_ERROR;
    if (next->empty()) return MHD_CONTENT_READER_END_OF_STREAM;
    stream.piece = *std::move(next);
    stream.at = 0;
  }
  const size_t bytes = std::min(bytes_max, stream.piece.size() - stream.at);
  std::memcpy(into, stream.piece.data() + stream.at, bytes);
  stream.at += bytes;
  return static_cast<ssize_t>(bytes);
}

MHD_Response* response_of(HttpAnswer answer) {
  if (!answer.more) return MHD_create_response_from_buffer(answer.text.size(), answer.text.data(), MHD_RESPMEM_MUST_COPY);
  auto stream = std::make_unique<Stream>(Stream{std::move(answer.text), 0, std::move(answer.more)});
  MHD_Response* response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, kPieceBytes, &read_stream, stream.get(), [](void* self) { delete static_cast<Stream*>(self); });
  if (response != nullptr) (void)stream.release();
  return response;
}

MHD_Result respond(MHD_Connection* connection, HttpAnswer answer) {
  const auto status = static_cast<unsigned>(answer.status);
  const std::string type = answer.content_type;
  MHD_Response* response = response_of(std::move(answer));
  if (response == nullptr) return MHD_NO;
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type.c_str());
  MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
  if (status == MHD_HTTP_METHOD_NOT_ALLOWED) MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  const MHD_Result queued = MHD_queue_response(connection, status, response);
  MHD_destroy_response(response);
  return queued;
}

}  // namespace

struct HttpServer::Glue {
  // The library asks twice: when it has the header, and when it has the whole request. A method that is none of ours need not send its body.
  static MHD_Result on_request(void* self, MHD_Connection* connection, const char* path, const char* method, const char*, const char*, size_t* bytes, void** seen) {
    static constexpr char kSeen = 0;
    const std::string_view verb = method;
    if (verb != MHD_HTTP_METHOD_GET && verb != MHD_HTTP_METHOD_HEAD) {
      HttpAnswer refusal;
      refusal.status = MHD_HTTP_METHOD_NOT_ALLOWED;
      refusal.text = "only GET and HEAD\n";
      return respond(connection, std::move(refusal));
    }
    if (*seen == nullptr) {
      *seen = const_cast<char*>(&kSeen);
      return MHD_YES;
    }
    if (*bytes != 0) {   // a body that nobody asked for
      *bytes = 0;
      return MHD_YES;
    }
    return respond(connection, static_cast<HttpServer*>(self)->handler_(path));
  }
  static void be_quiet(void*, const char*, va_list) {}
};

Result<std::unique_ptr<HttpServer>> HttpServer::start(const Address& at, Handler handler, HttpLimits limits) {
  FULMAR_TRY(Descriptor socket, listen_at(at));
  std::unique_ptr<HttpServer> out(new HttpServer());
  out->at_ = {at.host, port_of(socket.get())};
  out->handler_ = std::move(handler);
  const int own = fcntl(socket.get(), F_DUPFD_CLOEXEC, 0);   // the library's, which closes it
  // poll(): a broker's descriptors are more than select() can count.
  constexpr unsigned kFlags = MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_ERROR_LOG | MHD_USE_ITC;
  MHD_Daemon* daemon = MHD_start_daemon(kFlags, 0, nullptr, nullptr, &Glue::on_request, out.get(),
                                        MHD_OPTION_EXTERNAL_LOGGER, &Glue::be_quiet, nullptr,   // first: it is heard from then on
                                        MHD_OPTION_LISTEN_SOCKET, own, MHD_OPTION_CONNECTION_LIMIT, limits.connections_max,
                                        MHD_OPTION_CONNECTION_TIMEOUT, limits.idle_seconds, MHD_OPTION_THREAD_STACK_SIZE, kPoolStackBytes,
                                        MHD_OPTION_CONNECTION_MEMORY_LIMIT, kRequestBytesMax, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
  if (daemon == nullptr) {
    const Error error = network_error(-errno, "start the HTTP server");
    if (own >= 0) close(own);
    return error;
  }
  out->daemon_ = daemon;
  return out;
}

HttpServer::~HttpServer() {
  if (daemon_ != nullptr) MHD_stop_daemon(static_cast<MHD_Daemon*>(daemon_));
}

}  // namespace fulmar::net
