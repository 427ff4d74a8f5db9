#pragma once
// Everything a node can ask for. Requests are recorded in order and carried out by the driver after the step; each one with a ticket
// comes home exactly once, in any order. An Outbox is reused from step to step so that a warm node allocates nothing.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/result.h"
#include "core/io/ids.h"
#include "core/model/command.h"

namespace fulmar {

struct FileSlice { FileId file; Range range; };
using Piece = std::variant<Bytes, FileSlice>;
enum class Open : uint8_t { New, Existing, ReadOnly };
enum class Zeros : uint8_t { Durable, Soon };

namespace request {
struct Listen   { Ticket ticket; Port port; Address at; };
struct Unlisten { Port port; };
struct Dial     { Ticket ticket; Address peer; };
// Pieces [first, first + count) of Outbox::pieces().
struct Send     { Ticket ticket; ConnId conn; uint32_t first_piece; uint32_t piece_count; };
struct Pause    { ConnId conn; };
struct Resume   { ConnId conn; };
struct Close    { ConnId conn; Errc why; };
struct List     { Ticket ticket; std::string directory; };
struct Map      { Ticket ticket; std::string path; uint64_t size_bytes; Open how; };
struct Prepare  { Ticket ticket; FileId file; Range range; Zeros zeros = Zeros::Durable; };
struct Warm     { Ticket ticket; std::vector<FileSlice> slices; };
struct Cool     { FileId file; Range range; };
struct Flush    { Ticket ticket; FileId file; Range range; };
struct Unmap    { FileId file; };
struct Read     { Ticket ticket; std::string path; uint64_t bytes_max; };
struct Replace  { Ticket ticket; std::string path; std::vector<uint8_t> bytes; };
struct Rename   { Ticket ticket; FileId file; std::string path; };
struct Remove   { Ticket ticket; std::string path; };
struct Space    { Ticket ticket; std::string path; };
struct Tell     { CallId call; Reply reply; };
}  // namespace request

using Request = std::variant<request::Listen, request::Unlisten, request::Dial, request::Send, request::Pause, request::Resume, request::Close,
                             request::List, request::Map, request::Prepare, request::Warm, request::Cool, request::Flush, request::Unmap,
                             request::Read, request::Replace, request::Rename, request::Remove, request::Space, request::Tell>;

class Outbox {
 public:
  // Of a recorded piece: either bytes in the outbox's own arena, or a slice of a mapped file.
  struct StoredPiece {
    bool is_slice = false;
    uint32_t arena_at = 0, arena_bytes = 0;  // when !is_slice
    FileSlice slice;                         // when is_slice
  };

  // --- network. Sent of every send of a connection comes before or at its Closed. -----------------------------------------------
  void listen(Ticket ticket, Port port, Address at);
  void unlisten(Port port);
  void dial(Ticket ticket, Address peer);                       // a name is resolved at every dial
  // Pieces leave in order. Bytes are copied at once; a FileSlice must be warm, pins its file, and its bytes must not change until
  // Sent, which means that nobody, the kernel included, will read them from the file again.
  void send(Ticket ticket, ConnId conn, std::span<const Piece> pieces);
  void send(Ticket ticket, ConnId conn, Bytes bytes);
  void pause(ConnId conn);                                      // stop reading a peer that outruns us
  void resume(ConnId conn);
  void close(ConnId conn, Errc why);                            // redeems its sends soon (Canceled unless done); no Closed follows

  // --- files. Paths are whole; a path has one request at a time. A ticket that names a file pins it: unmap, rename and remove wait
  // until none is out. ------------------------------------------------------------------------------------------------------------
  void list(Ticket ticket, std::string_view directory);         // the whole subtree, in any order; a missing directory lists as empty
  // New: the name must not exist (Exists); missing parents are made; length set, content zeros, name and size durable in every parent
  // once Mapped. Existing, ReadOnly: size_bytes 0 takes the length as it is, else it must match (WrongSize); NotFound; an empty
  // file is WrongSize. Existing: its name is durable once Mapped, whoever made it. Warms nothing.
  void map(Ticket ticket, std::string_view path, uint64_t size_bytes, Open how);
  // Then: blocks allocated, resident, zero (whatever was there before), clean and durable. DiskFull comes from here, from map and
  // from replace, never from a store into memory. After a crash before Done each page is old or zero.
  // Zeros::Soon: neither clean nor durable; the zeros are like stores that the next flush covers.
  void prepare(Ticket ticket, FileId file, Range range, Zeros zeros = Zeros::Durable);
  void warm(Ticket ticket, std::span<const FileSlice> slices);  // fetch cold pages off the loop; Unreadable when one cannot be read
  void cool(FileId file, Range range);                          // we will not touch this soon; it leaves our residence, not the cache
  // Covers what was stored in the range before the end of the step that asks. Durable once Done says so, not before. Once one has
  // failed, every other and later flush of that file fails (FlushFailed).
  void flush(Ticket ticket, FileId file, Range range);
  void unmap(FileId file);
  void read(Ticket ticket, std::string_view path, uint64_t bytes_max);   // NotFound; OutOfRange when the file is longer
  void replace(Ticket ticket, std::string_view path, Bytes contents);    // after a crash: old or new, never between; parents are made
  void rename(Ticket ticket, FileId file, std::string_view path);        // durable; same id, same bytes; replaces nothing (Exists)
  void remove(Ticket ticket, std::string_view path);            // durable; a file, or an empty directory; missing is fine
  void space(Ticket ticket, std::string_view path);

  // --- the host -------------------------------------------------------------------------------------------------------------------
  void tell(CallId call, Reply reply);                          // to whoever said Told; a subscription is told many times
  void halt(Errc why, std::string sentence = {});               // fail-stop: nothing of this step is carried out, the node is destroyed
  void stopped();                                               // the node has drained and persisted: its host may destroy it (not a crash)
  void step_again();                                            // more work is ready; do not wait for input

  // --- for drivers and tests ------------------------------------------------------------------------------------------------------
  std::vector<Request>& requests() { return requests_; }
  const std::vector<Request>& requests() const { return requests_; }
  const std::vector<StoredPiece>& pieces() const { return pieces_; }
  Bytes bytes_of(const StoredPiece& piece) const { return Bytes(arena_).subspan(piece.arena_at, piece.arena_bytes); }
  const Error* halted() const { return is_halted_ ? &halt_ : nullptr; }
  bool is_stopped() const { return is_stopped_; }
  bool wants_step_again() const { return wants_step_again_; }
  bool empty() const { return requests_.empty() && !is_halted_ && !is_stopped_; }
  void clear();
  // One request a line, in order, as unit tests compare them: "flush 3/00000000000000000000 [0, 4096)" and so on. Tickets are left
  // out; bytes are shown as their count and CRC-32.
  std::string text() const;

 private:
  void add_piece(const Piece& piece);
  std::vector<Request> requests_;
  std::vector<StoredPiece> pieces_;
  std::vector<uint8_t> arena_;
  Error halt_{Errc::Internal};
  bool is_halted_ = false, is_stopped_ = false, wants_step_again_ = false;
};

}  // namespace fulmar
