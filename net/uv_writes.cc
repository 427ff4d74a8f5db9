// The sending half of UvStreams: one gathered write per connection and step.

#include <algorithm>
#include <cstring>

#include "net/errno.h"
#include "net/uv_streams_parts.h"

namespace fulmar::net {

namespace {

void add_buffer(Batch& batch, Bytes bytes, bool is_borrowed) {
  if (bytes.empty()) return;
  batch.bytes += bytes.size();
  auto* base = const_cast<char*>(reinterpret_cast<const char*>(bytes.data()));
  if (!batch.buffers.empty() && batch.is_borrowed.back() == is_borrowed && batch.buffers.back().base + batch.buffers.back().len == base) {
    batch.buffers.back().len += bytes.size();  // replies that were encoded one behind the other
    return;
  }
  batch.buffers.push_back(uv_buf_t{base, bytes.size()});
  batch.is_borrowed.push_back(is_borrowed);
}

}  // namespace

void UvStreams::carry_out(const request::Send& r, const Outbox& outbox) {
  Connection* connection = find(r.conn);
  if (connection == nullptr) {
    inputs_.emplace_back(Sent{r.ticket, Error(Errc::Canceled, "the connection is closed")});
    return;
  }
  Batch& batch = connection->batch;
  if (batch.sends.empty()) dirty_.push_back(r.conn);
  Sending send{r.ticket, 0, {}};
  for (uint32_t i = 0; i < r.piece_count; ++i) {
    const Outbox::StoredPiece& piece = outbox.pieces()[r.first_piece + i];
    if (piece.is_slice) {
      add_buffer(batch, files_.pin(piece.slice), false);
      send.pins.push_back(piece.slice.file);
    } else {
      add_buffer(batch, outbox.bytes_of(piece), true);
    }
  }
  send.end = batch.bytes;
  batch.sends.push_back(std::move(send));
}

void UvStreams::end_of_outbox() {
  for (size_t i = 0; i < dirty_.size(); ++i) {
    Connection* connection = find(dirty_[i]);
    if (connection != nullptr && !connection->batch.sends.empty()) write_batch(*connection);
  }
  dirty_.clear();
}

void UvStreams::write_batch(Connection& connection) {
  Batch& batch = connection.batch;
  ssize_t written = 0;
  if (!batch.buffers.empty() && connection.writing.empty()) {
    ++counters_.writes;
    written = uv_try_write(reinterpret_cast<uv_stream_t*>(&connection.tcp), batch.buffers.data(),
                           static_cast<unsigned>(batch.buffers.size()));
    if (written == UV_EAGAIN) written = 0;
    if (written < 0) return finish(connection, network_error(static_cast<int>(written), "write to the peer"), true);
    counters_.bytes_out += static_cast<uint64_t>(written);
  }
  const auto done = static_cast<size_t>(written);
  const auto first_open = connection.writing.empty()
                              ? std::find_if(batch.sends.begin(), batch.sends.end(), [done](const Sending& s) { return s.end > done; })
                              : batch.sends.begin();
  std::vector<Sending> sent(std::make_move_iterator(batch.sends.begin()), std::make_move_iterator(first_open));
  batch.sends.erase(batch.sends.begin(), first_open);
  redeem(sent, {}, files_, inputs_);
  if (!batch.sends.empty()) queue_rest(connection, done);
  batch.buffers.clear();
  batch.is_borrowed.clear();
  batch.sends.clear();
  batch.bytes = 0;
}

// What the socket did not take now waits in libuv's queue. Lent bytes are copied, for the outbox is used again; slices stay where they
// are, pinned.
void UvStreams::queue_rest(Connection& connection, size_t written) {
  Batch& batch = connection.batch;
  auto* writing = new Writing{{}, this, &connection, {}, std::move(batch.sends)};
  writing->request.data = writing;
  std::vector<uv_buf_t> rest;
  size_t copied_bytes = 0, first = 0;
  while (first < batch.buffers.size() && written >= batch.buffers[first].len) written -= batch.buffers[first++].len;
  for (size_t i = first; i < batch.buffers.size(); ++i) {
    uv_buf_t buffer = batch.buffers[i];
    if (i == first) {
      buffer.base += written;
      buffer.len -= written;
    }
    if (batch.is_borrowed[i]) copied_bytes += buffer.len;
    rest.push_back(buffer);
  }
  writing->copied.resize(copied_bytes);
  char* to = reinterpret_cast<char*>(writing->copied.data());
  for (size_t i = 0; i < rest.size(); ++i) {
    if (!batch.is_borrowed[first + i]) continue;
    std::memcpy(to, rest[i].base, rest[i].len);
    rest[i].base = to;
    to += rest[i].len;
  }
  for (const uv_buf_t& buffer : rest) counters_.bytes_out += buffer.len;
  ++counters_.writes_queued;
  if (rest.empty()) rest.push_back(uv_buf_init(nullptr, 0));  // an empty send behind others keeps its place
  connection.writing.push_back(writing);
  const int failed = uv_write(&writing->request, reinterpret_cast<uv_stream_t*>(&connection.tcp), rest.data(),
                              static_cast<unsigned>(rest.size()), [](uv_write_t* request, int status) {
                                const std::unique_ptr<Writing> self(static_cast<Writing*>(request->data));
                                self->owner->on_written(*self, status);
                              });
  if (failed == 0) return;
  connection.writing.pop_back();
  batch.sends = std::move(writing->sends);
  delete writing;
  finish(connection, network_error(failed, "write to the peer"), true);
}

void UvStreams::on_written(Writing& writing, int status) {
  if (writing.sends.empty()) return;  // the connection closed and redeemed them
  Connection& connection = *writing.connection;
  if (status < 0) return finish(connection, network_error(status, "write to the peer"), true);
  connection.writing.erase(connection.writing.begin());
  redeem(writing.sends, {}, files_, inputs_);
}

}  // namespace fulmar::net
