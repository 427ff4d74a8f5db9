#pragma once
// The handles and requests behind UvStreams. libuv keeps their addresses, so each lives on the heap until its last callback.

#include "net/uv_streams.h"

namespace fulmar::net {

// One request::Send on its way: redeemed when all bytes before `end` of its batch are in the kernel's hands.
struct Sending {
  Ticket ticket;
  size_t end = 0;             // in bytes, from the start of the batch
  std::vector<FileId> pins;
};
struct Batch {
  std::vector<uv_buf_t> buffers;  // into the outbox's arena and into mapped files
  std::vector<bool> is_borrowed;  // of each buffer: in the outbox's arena, gone when the next step begins
  std::vector<Sending> sends;
  size_t bytes = 0;
};

inline void redeem(std::vector<Sending>& sends, const Result<void>& outcome, MappedFiles& files, std::vector<Input>& inputs) {
  for (Sending& send : sends) {
    inputs.emplace_back(Sent{send.ticket, outcome});
    for (const FileId file : send.pins) files.unpin(file);
  }
  sends.clear();
}

struct UvStreams::Connection {
  explicit Connection(UvStreams* streams) : owner(streams) { tcp.data = this; }
  uv_tcp_t tcp{};
  UvStreams* owner;
  ConnId id;
  uint64_t read_turn = 0;
  size_t read_bytes = 0;  // in that turn
  Batch batch;
  std::vector<Writing*> writing;  // in order
};
struct UvStreams::Listener {
  uv_tcp_t tcp;
  UvStreams* owner;
  Port port;
};
struct UvStreams::Dialing {
  uv_connect_t request;
  UvStreams* owner;
  Ticket ticket;
  std::string text;
  Addresses addresses;      // not tried yet, the next one last
  Connection* connection;
};
struct UvStreams::Resolving {
  uv_getaddrinfo_t request;
  UvStreams* owner;
  OnResolved then;
};
struct UvStreams::Writing {
  uv_write_t request;
  UvStreams* owner;
  Connection* connection;
  std::vector<uint8_t> copied;  // of what the outbox lent
  std::vector<Sending> sends;   // empty once redeemed by a close
};

// For a struct with a `tcp` handle whose data points to it.
template <class T>
void close_and_delete(T* with_handle) {
  uv_close(reinterpret_cast<uv_handle_t*>(&with_handle->tcp), [](uv_handle_t* handle) { delete static_cast<T*>(handle->data); });
}

}  // namespace fulmar::net
