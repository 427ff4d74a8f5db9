#include "core/io/outbox.h"

#include "core/base/crc32.h"

namespace fulmar {

namespace {
constexpr size_t kKeptArenaBytesMax = 4u << 20;
}

std::string Address::text() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

void Outbox::listen(Ticket ticket, Port port, Address at) { requests_.emplace_back(request::Listen{ticket, port, std::move(at)}); }
void Outbox::unlisten(Port port) { requests_.emplace_back(request::Unlisten{port}); }
void Outbox::dial(Ticket ticket, Address peer) { requests_.emplace_back(request::Dial{ticket, std::move(peer)}); }

void Outbox::add_piece(const Piece& piece) {
  StoredPiece stored;
  if (const auto* slice = std::get_if<FileSlice>(&piece)) {
    stored.is_slice = true;
    stored.slice = *slice;
  } else {
    const Bytes bytes = std::get<Bytes>(piece);
    stored.arena_at = static_cast<uint32_t>(arena_.size());
    stored.arena_bytes = static_cast<uint32_t>(bytes.size());
    arena_.insert(arena_.end(), bytes.begin(), bytes.end());
    CHECK(arena_.size() <= UINT32_MAX);
  }
  pieces_.push_back(stored);
}

void Outbox::send(Ticket ticket, ConnId conn, std::span<const Piece> pieces) {
  const auto first = static_cast<uint32_t>(pieces_.size());
  for (const Piece& piece : pieces) add_piece(piece);
  requests_.emplace_back(request::Send{ticket, conn, first, static_cast<uint32_t>(pieces.size())});
}
void Outbox::send(Ticket ticket, ConnId conn, Bytes bytes) {
  const Piece piece{bytes};
  send(ticket, conn, std::span(&piece, 1));
}
void Outbox::pause(ConnId conn) { requests_.emplace_back(request::Pause{conn}); }
void Outbox::resume(ConnId conn) { requests_.emplace_back(request::Resume{conn}); }
void Outbox::close(ConnId conn, Errc why) { requests_.emplace_back(request::Close{conn, why}); }

void Outbox::list(Ticket ticket, std::string_view directory) { requests_.emplace_back(request::List{ticket, std::string(directory)}); }
void Outbox::map(Ticket ticket, std::string_view path, uint64_t size_bytes, Open how) {
  requests_.emplace_back(request::Map{ticket, std::string(path), size_bytes, how});
}
void Outbox::prepare(Ticket ticket, FileId file, Range range, Zeros zeros) { requests_.emplace_back(request::Prepare{ticket, file, range, zeros}); }
void Outbox::warm(Ticket ticket, std::span<const FileSlice> slices) {
  requests_.emplace_back(request::Warm{ticket, {slices.begin(), slices.end()}});
}
void Outbox::cool(FileId file, Range range) { requests_.emplace_back(request::Cool{file, range}); }
void Outbox::flush(Ticket ticket, FileId file, Range range) { requests_.emplace_back(request::Flush{ticket, file, range}); }
void Outbox::unmap(FileId file) { requests_.emplace_back(request::Unmap{file}); }
void Outbox::read(Ticket ticket, std::string_view path, uint64_t bytes_max) {
  requests_.emplace_back(request::Read{ticket, std::string(path), bytes_max});
}
void Outbox::replace(Ticket ticket, std::string_view path, Bytes contents) {
  requests_.emplace_back(request::Replace{ticket, std::string(path), {contents.begin(), contents.end()}});
}
void Outbox::rename(Ticket ticket, FileId file, std::string_view path) {
  requests_.emplace_back(request::Rename{ticket, file, std::string(path)});
}
void Outbox::remove(Ticket ticket, std::string_view path) { requests_.emplace_back(request::Remove{ticket, std::string(path)}); }
void Outbox::space(Ticket ticket, std::string_view path) { requests_.emplace_back(request::Space{ticket, std::string(path)}); }
void Outbox::tell(CallId call, Reply reply) { requests_.emplace_back(request::Tell{call, std::move(reply)}); }

void Outbox::halt(Errc why, std::string sentence) {
  if (is_halted_) return;  // the first reason is the true one
  is_halted_ = true;
  halt_ = Error(why, std::move(sentence));
}
void Outbox::stopped() { is_stopped_ = true; }
void Outbox::step_again() { wants_step_again_ = true; }

void Outbox::clear() {
  requests_.clear();
  pieces_.clear();
  if (arena_.capacity() > kKeptArenaBytesMax) arena_ = {};   // of a step that answered very much
  arena_.clear();
  is_halted_ = is_stopped_ = wants_step_again_ = false;
}

std::string Outbox::text() const {
  std::string out;
  const auto line = [&out](std::string_view name, std::string rest) { out += fmt::format("{}{}{}\n", name, rest.empty() ? "" : " ", rest); };
  const auto range = [](FileId file, Range r) { return fmt::format("{} [{}, {})", file, r.begin, r.end); };
  for (const Request& any : requests_) {
    std::visit(
        [&](const auto& r) {
          using R = std::decay_t<decltype(r)>;
          if constexpr (std::is_same_v<R, request::Listen>) line("listen", fmt::format("{} {}", r.port, r.at.text()));
          else if constexpr (std::is_same_v<R, request::Unlisten>) line("unlisten", fmt::format("{}", r.port));
          else if constexpr (std::is_same_v<R, request::Dial>) line("dial", r.peer.text());
          else if constexpr (std::is_same_v<R, request::Send>) {
            std::string pieces = fmt::format("{}", r.conn);
            for (uint32_t i = 0; i < r.piece_count; ++i) {
              const StoredPiece& p = pieces_[r.first_piece + i];
              if (p.is_slice) pieces += " slice " + range(p.slice.file, p.slice.range);
              else pieces += fmt::format(" {} bytes crc {:08x}", p.arena_bytes, crc32(bytes_of(p)));
            }
            line("send", pieces);
          } else if constexpr (std::is_same_v<R, request::Pause>) line("pause", fmt::format("{}", r.conn));
          else if constexpr (std::is_same_v<R, request::Resume>) line("resume", fmt::format("{}", r.conn));
          else if constexpr (std::is_same_v<R, request::Close>) line("close", fmt::format("{} {}", r.conn, to_string(r.why)));
          else if constexpr (std::is_same_v<R, request::List>) line("list", r.directory);
          else if constexpr (std::is_same_v<R, request::Map>)
            line("map", fmt::format("{} {} {}", r.path, r.size_bytes, r.how == Open::New ? "new" : r.how == Open::Existing ? "existing" : "read-only"));
          else if constexpr (std::is_same_v<R, request::Prepare>) line(r.zeros == Zeros::Soon ? "prepare soon" : "prepare", range(r.file, r.range));
          else if constexpr (std::is_same_v<R, request::Warm>) {
            std::string slices;
            for (const FileSlice& s : r.slices) slices += (slices.empty() ? "" : " ") + range(s.file, s.range);
            line("warm", slices);
          } else if constexpr (std::is_same_v<R, request::Cool>) line("cool", range(r.file, r.range));
          else if constexpr (std::is_same_v<R, request::Flush>) line("flush", range(r.file, r.range));
          else if constexpr (std::is_same_v<R, request::Unmap>) line("unmap", fmt::format("{}", r.file));
          else if constexpr (std::is_same_v<R, request::Read>) line("read", fmt::format("{} {}", r.path, r.bytes_max));
          else if constexpr (std::is_same_v<R, request::Replace>)
            line("replace", fmt::format("{} {} bytes crc {:08x}", r.path, r.bytes.size(), crc32(Bytes(r.bytes))));
          else if constexpr (std::is_same_v<R, request::Rename>) line("rename", fmt::format("{} {}", r.file, r.path));
          else if constexpr (std::is_same_v<R, request::Remove>) line("remove", r.path);
          else if constexpr (std::is_same_v<R, request::Space>) line("space", r.path);
          else if constexpr (std::is_same_v<R, request::Tell>) line("tell", fmt::format("{} {}", r.call, describe(r.reply)));
        },
        any);
  }
  if (is_halted_) line("halt", halt_.text());
  if (is_stopped_) line("stopped", "");
  if (wants_step_again_) line("step again", "");
  return out;
}

}  // namespace fulmar
