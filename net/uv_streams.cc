#include "net/uv_streams.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "net/errno.h"
#include "net/uv_streams_parts.h"

namespace fulmar::net {

namespace {

constexpr int kBacklog = 1024;
constexpr size_t kReadPerTurnMax = 256 * 1024;  // of one connection, so that a loud peer leaves room for the others
constexpr int kDescriptorReserve = 64;          // when files took more than their share, connections end before the last descriptors do
constexpr int kSynRetries = 3;                  // a dial into the void ends after about 15 s
constexpr unsigned kKeepAliveSeconds = 60;

Address to_address(const sockaddr_storage& from) {
  char text[INET6_ADDRSTRLEN] = {};
  Address out;
  if (from.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(from);
    uv_ip6_name(&v6, text, sizeof text);
    out.port = ntohs(v6.sin6_port);
  } else {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(from);
    uv_ip4_name(&v4, text, sizeof text);
    out.port = ntohs(v4.sin_port);
  }
  out.host = std::strncmp(text, "::ffff:", 7) == 0 ? text + 7 : text;  // an IPv4 peer of an IPv6 listener
  return out;
}

bool parse_numeric(const Address& address, sockaddr_storage& out) {
  std::memset(&out, 0, sizeof out);
  const char* host = address.host.empty() ? "0.0.0.0" : address.host.c_str();
  return uv_ip4_addr(host, address.port, reinterpret_cast<sockaddr_in*>(&out)) == 0 ||
         uv_ip6_addr(host, address.port, reinterpret_cast<sockaddr_in6*>(&out)) == 0;
}

}  // namespace

UvStreams::UvStreams(uv_loop_t& loop, size_t read_arena_bytes, MappedFiles& files, std::vector<Input>& inputs)
    : loop_(loop), arena_(read_arena_bytes), files_(files), inputs_(inputs) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  descriptors_max_ = limit.rlim_cur > 1u << 30 ? 1 << 30 : static_cast<int>(limit.rlim_cur);
  keep_spare_descriptor();
}

UvStreams::~UvStreams() {
  if (spare_descriptor_ >= 0) ::close(spare_descriptor_);
}

void UvStreams::begin_turn() {
  arena_.begin_turn();
  ++turn_;
}

UvStreams::Connection* UvStreams::find(ConnId id) {
  const auto found = connections_.find(id.value());
  return found == connections_.end() ? nullptr : found->second;
}

Peer UvStreams::peer_of(const Connection& connection) const {
  Peer peer;
  sockaddr_storage at{};
  int bytes = sizeof at;
  if (uv_tcp_getpeername(&connection.tcp, reinterpret_cast<sockaddr*>(&at), &bytes) == 0) peer.remote = to_address(at);
  bytes = sizeof at;
  if (uv_tcp_getsockname(&connection.tcp, reinterpret_cast<sockaddr*>(&at), &bytes) == 0) peer.local = to_address(at);
  return peer;
}

// --- names ------------------------------------------------------------------------------------------------------------------------------

void UvStreams::resolve(const Address& address, OnResolved then) {
  sockaddr_storage numeric;
  if (parse_numeric(address, numeric)) return then(0, {numeric});
  auto* resolving = new Resolving{{}, this, std::move(then)};
  resolving->request.data = resolving;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  const std::string port = std::to_string(address.port);
  const auto on_answer = [](uv_getaddrinfo_t* request, int status, addrinfo* list) {
    const std::unique_ptr<Resolving> self(static_cast<Resolving*>(request->data));
    Addresses found;
    for (const addrinfo* a = list; a != nullptr; a = a->ai_next) {
      if (a->ai_family != AF_INET && a->ai_family != AF_INET6) continue;
      sockaddr_storage copy{};
      std::memcpy(&copy, a->ai_addr, a->ai_addrlen);
      found.push_back(copy);
    }
    uv_freeaddrinfo(list);
    self->owner->resolvings_.erase(self.get());
    if (status == 0 && found.empty()) status = UV_EAI_NODATA;
    if (!self->owner->is_down_) self->then(status, std::move(found));
  };
  const int failed = uv_getaddrinfo(&loop_, &resolving->request, on_answer, address.host.c_str(), port.c_str(), &hints);
  if (failed == 0) {
    resolvings_.insert(resolving);
    return;
  }
  const OnResolved answer = std::move(resolving->then);
  delete resolving;
  answer(failed == UV_EINVAL || failed == UV_E2BIG ? UV_EAI_NONAME : failed, {});
}

// --- listening --------------------------------------------------------------------------------------------------------------------------

void UvStreams::carry_out(const request::Listen& r) {
  resolve(r.at, [this, r](int status, Addresses addresses) {
    const std::string text = r.at.text();
    if (status != 0) {
      inputs_.emplace_back(Listening{r.ticket, network_error(status, "listen at " + text)});
      return;
    }
    const auto v4 = std::find_if(addresses.begin(), addresses.end(), [](const sockaddr_storage& a) { return a.ss_family == AF_INET; });
    listen_at(r.ticket, r.port, v4 != addresses.end() ? *v4 : addresses.front(), text);
  });
}

void UvStreams::listen_at(Ticket ticket, Port port, const sockaddr_storage& at, const std::string& text) {
  CHECK(listeners_.count(port) == 0, "port {} listens already", port);
  auto* listener = new Listener{{}, this, port};
  listener->tcp.data = listener;
  uv_tcp_init(&loop_, &listener->tcp);
  const auto on_connection = [](uv_stream_t* stream, int status) {
    auto* self = static_cast<Listener*>(stream->data);
    self->owner->accept_from(*self, status);
  };
  int failed = uv_tcp_bind(&listener->tcp, reinterpret_cast<const sockaddr*>(&at), 0);
  if (failed == 0) failed = uv_listen(reinterpret_cast<uv_stream_t*>(&listener->tcp), kBacklog, on_connection);
  sockaddr_storage real{};
  int bytes = sizeof real;
  if (failed == 0) failed = uv_tcp_getsockname(&listener->tcp, reinterpret_cast<sockaddr*>(&real), &bytes);
  if (failed != 0) {
    inputs_.emplace_back(Listening{ticket, network_error(failed, "listen at " + text)});
    close_and_delete(listener);
    return;
  }
  listeners_[port] = listener;
  inputs_.emplace_back(Listening{ticket, to_address(real)});
}

void UvStreams::carry_out(const request::Unlisten& r) {
  const auto found = listeners_.find(r.port);
  if (found == listeners_.end()) return;
  close_and_delete(found->second);
  listeners_.erase(found);
}

void UvStreams::keep_spare_descriptor() {
  if (spare_descriptor_ < 0) spare_descriptor_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
}

// Without descriptors a waiting connection can be neither taken nor refused, and the loop would find it again and again. So connections
// end before the last descriptors do, and if files took even those, the spare one lets us take the connection and close it.
void UvStreams::accept_from(Listener& listener, int status) {
  if (status < 0) {
    if ((status == UV_EMFILE || status == UV_ENFILE) && spare_descriptor_ >= 0) ::close(std::exchange(spare_descriptor_, -1));
    return;
  }
  auto* connection = new Connection(this);
  uv_tcp_init(&loop_, &connection->tcp);
  uv_os_fd_t fd = -1;
  const bool is_taken = uv_accept(reinterpret_cast<uv_stream_t*>(&listener.tcp), reinterpret_cast<uv_stream_t*>(&connection->tcp)) == 0 &&
                        uv_fileno(reinterpret_cast<uv_handle_t*>(&connection->tcp), &fd) == 0;
  // The kernel gives the lowest free number, so a number near the limit means that nearly all are taken.
  if (!is_taken || spare_descriptor_ < 0 || fd >= descriptors_max_ - kDescriptorReserve ||
      connections_.size() >= static_cast<size_t>(descriptors_max_ - (descriptors_max_ > kFileDescriptors ? kFileDescriptors : descriptors_max_ / 2))) {
    ++counters_.refused_for_descriptors;
    close_and_delete(connection);
    keep_spare_descriptor();
    return;
  }
  ++counters_.accepted;
  open(*connection);
  inputs_.emplace_back(Accepted{connection->id, listener.port, peer_of(*connection)});
  start_reading(*connection);
}

// --- dialing ----------------------------------------------------------------------------------------------------------------------------

void UvStreams::carry_out(const request::Dial& r) {
  auto* dialing = new Dialing{{}, this, r.ticket, r.peer.text(), {}, nullptr};
  dialing->request.data = dialing;
  dialings_.insert(dialing);
  resolve(r.peer, [this, dialing](int status, Addresses addresses) {
    std::reverse(addresses.begin(), addresses.end());  // tried from the back
    dialing->addresses = std::move(addresses);
    if (status == 0) dial_next(*dialing);
    else on_connected(*dialing, status);
  });
}

void UvStreams::dial_next(Dialing& dialing) {
  const sockaddr_storage at = dialing.addresses.back();
  dialing.addresses.pop_back();
  dialing.connection = new Connection(this);
  uv_tcp_t& tcp = dialing.connection->tcp;
  uv_tcp_init_ex(&loop_, &tcp, at.ss_family);
  uv_os_fd_t fd = -1;
  if (uv_fileno(reinterpret_cast<uv_handle_t*>(&tcp), &fd) == 0)
    ::setsockopt(fd, IPPROTO_TCP, TCP_SYNCNT, &kSynRetries, sizeof kSynRetries);
  const int failed = uv_tcp_connect(&dialing.request, &tcp, reinterpret_cast<const sockaddr*>(&at), [](uv_connect_t* request, int status) {
    auto* self = static_cast<Dialing*>(request->data);
    self->owner->on_connected(*self, status);
  });
  if (failed != 0) on_connected(dialing, failed);
}

void UvStreams::on_connected(Dialing& dialing, int status) {
  Connection* connection = std::exchange(dialing.connection, nullptr);
  if (status != 0 && connection != nullptr && uv_is_closing(reinterpret_cast<uv_handle_t*>(&connection->tcp)) == 0)
    close_and_delete(connection);
  if (status != 0 && !is_down_ && !dialing.addresses.empty()) return dial_next(dialing);
  const std::unique_ptr<Dialing> done(&dialing);
  dialings_.erase(&dialing);
  if (is_down_) return;
  if (status != 0) {
    inputs_.emplace_back(Dialed{dialing.ticket, network_error(status, "reach " + dialing.text)});
    return;
  }
  ++counters_.dialed;
  open(*connection);
  inputs_.emplace_back(Dialed{dialing.ticket, Connected{connection->id, peer_of(*connection)}});
  start_reading(*connection);
}

void UvStreams::open(Connection& connection) {
  connection.id = ConnId(next_conn_++);
  connections_.emplace(connection.id.value(), &connection);
  uv_tcp_nodelay(&connection.tcp, 1);
  uv_tcp_keepalive(&connection.tcp, 1, kKeepAliveSeconds);
}

// --- reading ----------------------------------------------------------------------------------------------------------------------------

void UvStreams::start_reading(Connection& connection) {
  const auto on_room = [](uv_handle_t* handle, size_t, uv_buf_t* room) {
    auto* self = static_cast<Connection*>(handle->data);
    if (std::exchange(self->read_turn, self->owner->turn_) != self->owner->turn_) self->read_bytes = 0;
    const MutableBytes taken = self->read_bytes < kReadPerTurnMax ? self->owner->arena_.take() : MutableBytes{};
    *room = uv_buf_init(reinterpret_cast<char*>(taken.data()), static_cast<unsigned>(taken.size()));
  };
  const auto on_bytes = [](uv_stream_t* stream, ssize_t count, const uv_buf_t*) {
    auto* self = static_cast<Connection*>(stream->data);
    self->owner->on_read(*self, count);
  };
  const int failed = uv_read_start(reinterpret_cast<uv_stream_t*>(&connection.tcp), on_room, on_bytes);
  if (failed != 0 && failed != UV_EALREADY) finish(connection, network_error(failed, "read"), true);
}

void UvStreams::on_read(Connection& connection, ssize_t count) {
  if (count == 0 || count == UV_ENOBUFS) return;  // ENOBUFS: this turn is full, the kernel keeps the rest for the next
  if (count < 0) return finish(connection, network_error(static_cast<int>(count), "read from the peer"), true);
  ++counters_.reads;
  counters_.bytes_in += static_cast<uint64_t>(count);
  connection.read_bytes += static_cast<size_t>(count);
  inputs_.emplace_back(Received{connection.id, arena_.keep(static_cast<size_t>(count))});
}

void UvStreams::carry_out(const request::Pause& r) {
  if (Connection* connection = find(r.conn)) uv_read_stop(reinterpret_cast<uv_stream_t*>(&connection->tcp));
}

void UvStreams::carry_out(const request::Resume& r) {
  if (Connection* connection = find(r.conn)) start_reading(*connection);
}

// --- closing ----------------------------------------------------------------------------------------------------------------------------

void UvStreams::carry_out(const request::Close& r) {
  Connection* connection = find(r.conn);
  if (connection == nullptr) return;
  if (!connection->batch.sends.empty()) write_batch(*connection);  // a last word of this step still leaves, if there is room for it
  if (find(r.conn) != nullptr) finish(*connection, Error(Errc::Canceled, "the connection was closed by us"), false);
}

void UvStreams::finish(Connection& connection, const Error& why, bool is_news) {
  for (Writing* writing : std::exchange(connection.writing, {})) redeem(writing->sends, why, files_, inputs_);  // freed by its callback
  redeem(connection.batch.sends, why, files_, inputs_);
  if (is_news) inputs_.emplace_back(Closed{connection.id, why.code});
  ++counters_.closed;
  connections_.erase(connection.id.value());
  close_and_delete(&connection);
}

void UvStreams::shut_down() {
  is_down_ = true;
  for (const auto& [port, listener] : std::exchange(listeners_, {})) close_and_delete(listener);
  while (!connections_.empty()) finish(*connections_.begin()->second, Error(Errc::Stopping), false);
  for (Dialing* dialing : dialings_) {
    if (dialing->connection != nullptr) close_and_delete(std::exchange(dialing->connection, nullptr));  // its callback deletes the rest
  }
  for (Resolving* resolving : resolvings_) uv_cancel(reinterpret_cast<uv_req_t*>(&resolving->request));
  // Those still waiting for a name have no handle; their answer finds us down.
  std::vector<Dialing*> nameless;
  for (Dialing* dialing : dialings_) {
    if (dialing->request.handle == nullptr) nameless.push_back(dialing);
  }
  for (Dialing* dialing : nameless) {
    dialings_.erase(dialing);
    delete dialing;
  }
}

}  // namespace fulmar::net
