#include "sim/step_hash.h"

#include "core/base/crc32.h"
#include "core/base/prng.h"

namespace fulmar::sim {

namespace {

class Mixer {
 public:
  explicit Mixer(uint64_t kind) : hash_(mix64(kind)) {}
  Mixer& add(uint64_t value) { hash_ = mix64(hash_, value); return *this; }
  Mixer& add(Ticket t) { return add(t.value()); }
  Mixer& add(Range r) { return add(r.begin).add(r.end); }
  Mixer& add(std::string_view text) { return add(hash_text(text)); }
  Mixer& add(Bytes bytes) { return add(bytes.size()).add(crc32(bytes)); }
  Mixer& add(const Address& a) { return add(std::string_view(a.host)).add(uint64_t{a.port}); }
  Mixer& add(const Error& e) { return add(uint64_t{1000} + static_cast<uint64_t>(e.code)); }
  template <class T> Mixer& add(Id<T> id) { return add(uint64_t{id.value()}); }
  Mixer& add(Port port) { return add(uint64_t{port.value()}); }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_;
};

template <class T, class Add>
void add_result(Mixer& m, const Result<T>& result, Add add) {
  if (result) add(*result);
  else m.add(result.error());
}

}  // namespace

uint64_t digest(const Input& input) {
  Mixer m(input.index());
  std::visit(
      [&m](const auto& i) {
        using I = std::decay_t<decltype(i)>;
        if constexpr (std::is_same_v<I, Accepted>) m.add(i.conn).add(i.port).add(i.peer.remote);
        else if constexpr (std::is_same_v<I, Received>) m.add(i.conn).add(i.bytes);
        else if constexpr (std::is_same_v<I, Closed>) m.add(i.conn).add(static_cast<uint64_t>(i.why));
        else if constexpr (std::is_same_v<I, Told>) m.add(i.call);
        else {
          m.add(i.ticket);
          if constexpr (std::is_same_v<I, Listening>) add_result(m, i.at, [&](const Address& a) { m.add(a); });
          else if constexpr (std::is_same_v<I, Dialed>) add_result(m, i.link, [&](const Connected& c) { m.add(c.conn).add(c.peer.remote); });
          else if constexpr (std::is_same_v<I, Mapped>) add_result(m, i.file, [&](FileId f) { m.add(f); });
          else if constexpr (std::is_same_v<I, Listed>) {
            add_result(m, i.files, [&](const std::vector<FileEntry>& files) {
              for (const FileEntry& f : files) m.add(std::string_view(f.path)).add(f.size_bytes).add(static_cast<uint64_t>(f.modified.ms));
            });
          } else if constexpr (std::is_same_v<I, Read>) add_result(m, i.contents, [&](Bytes b) { m.add(b); });
          else if constexpr (std::is_same_v<I, Space>) add_result(m, i.space, [&](const DiskSpace& s) { m.add(s.used).add(s.free); });
          else if (!i.outcome) m.add(i.outcome.error());
        }
      },
      input);
  return m.value();
}

uint64_t digest(const Request& request, const Outbox& outbox) {
  Mixer m(request.index() + 100);
  std::visit(
      [&](const auto& r) {
        using R = std::decay_t<decltype(r)>;
        if constexpr (requires { r.ticket; }) m.add(r.ticket);
        if constexpr (requires { r.port; }) m.add(r.port);
        if constexpr (requires { r.at; }) m.add(r.at);
        if constexpr (requires { r.peer; }) m.add(r.peer);
        if constexpr (requires { r.conn; }) m.add(r.conn);
        if constexpr (requires { r.directory; }) m.add(std::string_view(r.directory));
        if constexpr (requires { r.path; }) m.add(std::string_view(r.path));
        if constexpr (requires { r.file; }) m.add(r.file);
        if constexpr (requires { r.range; }) m.add(r.range);
        if constexpr (std::is_same_v<R, request::Map>) m.add(r.size_bytes).add(static_cast<uint64_t>(r.how));
        if constexpr (std::is_same_v<R, request::Replace>) m.add(Bytes(r.bytes));
        if constexpr (std::is_same_v<R, request::Warm>) {
          for (const FileSlice& s : r.slices) m.add(s.file).add(s.range);
        }
        if constexpr (std::is_same_v<R, request::Tell>) m.add(r.call).add(std::string_view(describe(r.reply)));
        if constexpr (std::is_same_v<R, request::Send>) {
          for (uint32_t i = 0; i < r.piece_count; ++i) {
            const Outbox::StoredPiece& p = outbox.pieces()[r.first_piece + i];
            if (p.is_slice) m.add(p.slice.file).add(p.slice.range);
            else m.add(outbox.bytes_of(p));
          }
        }
      },
      request);
  return m.value();
}

}  // namespace fulmar::sim
