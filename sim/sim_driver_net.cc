// The driver's side of the network: connections by id, sends and their pieces.

#include <algorithm>
#include <cstring>

#include "sim/sim_driver.h"

namespace fulmar::sim {

void SimDriver::on_listening(Ticket ticket, Result<Address> at) { queue(Listening{ticket, std::move(at)}); }

void SimDriver::on_accepted(uint64_t end, Port port, Peer peer) {
  const ConnId conn(next_conn_++);
  conns_[conn] = {end, false};
  conn_of_[end] = conn;
  queue(Accepted{conn, port, std::move(peer)});
}

void SimDriver::on_dialed(Ticket ticket, uint64_t end, Result<Peer> peer) {
  if (!peer) return queue(Dialed{ticket, Error(peer.error())});
  const ConnId conn(next_conn_++);
  conns_[conn] = {end, false};
  conn_of_[end] = conn;
  queue(Dialed{ticket, Connected{conn, std::move(*peer)}});
}

void SimDriver::on_received(uint64_t end, Bytes bytes) { queue(Received{conn_of_.at(end), {}}, {bytes.begin(), bytes.end()}); }

void SimDriver::on_closed(uint64_t end, Errc why) {
  const ConnId conn = conn_of_.at(end);
  conn_of_.erase(end);
  conns_.at(conn).is_lost = true;
  queue(Closed{conn, why});
}

void SimDriver::start_send(const request::Send& r, Duration delay) {
  Outgoing outgoing;
  outgoing.conn = r.conn;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < r.piece_count; ++i) {
    Outbox::StoredPiece piece = outbox_.pieces()[r.first_piece + i];
    if (piece.is_slice) {
      OpenFile* open = checked(piece.slice.file, piece.slice.range, "send");
      if (open == nullptr) continue;
      if (!open->warm.contains(piece.slice.range)) {
        fail(fmt::format("send of [{}, {}) of {}, which is not warm", piece.slice.range.begin, piece.slice.range.end, open->path));
      }
      pin(r.ticket, piece.slice.file);
      ++open->slices;
      bytes += piece.slice.range.size();
    } else {
      const Bytes from = outbox_.bytes_of(piece);
      piece.arena_at = static_cast<uint32_t>(outgoing.arena.size());
      outgoing.arena.insert(outgoing.arena.end(), from.begin(), from.end());
      bytes += from.size();
    }
    outgoing.pieces.push_back(piece);
  }
  outgoing_.emplace(r.ticket, std::move(outgoing));
  const auto conn = conns_.find(r.conn);
  if (conn != conns_.end() && !conn->second.is_lost) return network_.send(conn->second.end, r.ticket, bytes, delay);
  // Nobody to send to. When Closed is on its way to the node, Sent goes before it.
  finish_send(r.ticket);
  const auto closed = std::find_if(inbox_.begin(), inbox_.end(), [&](const Queued& q) {
    const auto* c = std::get_if<Closed>(&q.input);
    return c != nullptr && c->conn == r.conn;
  });
  Queued sent{Sent{r.ticket, Errc::Canceled}, {}, {}, 0};
  if (closed != inbox_.end()) inbox_.insert(closed, std::move(sent));
  else queue(std::move(sent.input));
}

void SimDriver::finish_send(Ticket ticket) {
  const auto outgoing = outgoing_.extract(ticket);
  if (outgoing.empty()) return;
  for (const Outbox::StoredPiece& p : outgoing.mapped().pieces) {
    if (!p.is_slice) continue;
    if (OpenFile* open = open_at(p.slice.file)) --open->slices;
  }
}

void SimDriver::on_take(uint64_t end, Ticket ticket, uint64_t from, MutableBytes into) {
  const Outgoing& outgoing = outgoing_.at(ticket);
  uint64_t at = 0, filled = 0;  // place in the send; bytes of `into` done
  for (const Outbox::StoredPiece& p : outgoing.pieces) {
    const uint64_t length = p.is_slice ? p.slice.range.size() : p.arena_bytes;
    const uint64_t begin = std::max(from + filled, at), stop = std::min(from + into.size(), at + length);
    if (begin < stop) {
      const uint8_t* source = p.is_slice ? host_.disk.base(open_at(p.slice.file)->inode) + p.slice.range.begin : outgoing.arena.data() + p.arena_at;
      std::memcpy(into.data() + filled, source + (begin - at), stop - begin);
      filled += stop - begin;
    }
    at += length;
  }
  CHECK(filled == into.size(), "{} of {} bytes", filled, into.size());
  const ConnId conn = conn_of_.at(end);
  engine_.tell_observers([&](WorldObserver& o) { o.on_sent_bytes(engine_.world, who_, conn, into); });
}

void SimDriver::on_sent(uint64_t, Ticket ticket, Result<void> outcome) {
  finish_send(ticket);
  queue(Sent{ticket, std::move(outcome)});
}

void SimDriver::pause_conn(ConnId conn, bool is_paused) {
  const auto found = conns_.find(conn);
  if (found == conns_.end() || found->second.is_lost) return;
  if (is_paused) network_.pause(found->second.end);
  else network_.resume(found->second.end);
}

// Our own close: what has arrived and was not yet read is nobody's any more, and no Closed follows.
void SimDriver::close(ConnId conn) {
  const auto found = conns_.find(conn);
  if (found == conns_.end()) return;
  if (!found->second.is_lost) {
    conn_of_.erase(found->second.end);
    network_.close(found->second.end);
  }
  conns_.erase(found);
  std::erase_if(inbox_, [conn](const Queued& q) {
    const auto* received = std::get_if<Received>(&q.input);
    const auto* closed = std::get_if<Closed>(&q.input);
    return (received != nullptr && received->conn == conn) || (closed != nullptr && closed->conn == conn);
  });
}

void SimDriver::check_slices(FileId file, Range range, const char* call) {
  for (const auto& [ticket, outgoing] : outgoing_) {
    for (const Outbox::StoredPiece& p : outgoing.pieces) {
      if (!p.is_slice || p.slice.file != file || p.slice.range.begin >= range.end || range.begin >= p.slice.range.end) continue;
      fail(fmt::format("{} of [{}, {}) of {}, which a send still reads", call, range.begin, range.end, open_at(file)->path));
      return;
    }
  }
}

}  // namespace fulmar::sim
