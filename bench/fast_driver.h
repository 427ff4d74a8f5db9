#pragma once
// A driver that costs next to nothing: files are plain memory, everything asked comes home in the next step, in order. What it measures is
// the core. Segments of the log take turns over a few buffers, as recycled segments do, so that no run pays for first touches of memory.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/io/node.h"

namespace fulmar::bench {

// Calls of operator new in this process, counted by bench/allocations.cc.
uint64_t allocations();

class FastDriver {
 public:
  static constexpr uint64_t kSegmentBytes = 64ull << 20;
  explicit FastDriver(Seed seed) : prng(seed) {
    for (Memory& memory : segments_) memory = make(kSegmentBytes, true);
  }

  Moment now{Monotonic{1'000'000'000}, Wall{1'700'000'000'000}, 0};
  void advance(Duration by) {
    now.monotonic = now.monotonic + by;
    elapsed_ns_ += static_cast<uint64_t>(by.ns);
    now.wall.ms = 1'700'000'000'000 + static_cast<int64_t>(elapsed_ns_ / 1'000'000);
  }

  // One step: `body` is given the inputs that came home; its outbox is carried out at once.
  template <class Body> void step(Body body) {
    std::swap(inputs_, next_inputs_);
    next_inputs_.clear();
    out.clear();
    trace.begin_step(now);
    Ctx ctx{now, out, files, timers, prng, trace};
    body(ctx, std::span<const Input>(inputs_));
    if (out.halted() != nullptr) {
      std::fprintf(stderr, "halted: %s\n", out.halted()->text().c_str());
      std::abort();
    }
    for (Request& request : out.requests()) std::visit([this](auto& r) { carry_out(r); }, request);
  }
  void deliver(Input input) { next_inputs_.push_back(std::move(input)); }
  bool has_inputs() const { return !next_inputs_.empty(); }
  bool is_busy() const { return out.wants_step_again() || has_inputs(); }

  // What left in the last step.
  uint64_t bytes_sent() const { return bytes_sent_; }
  uint64_t sends() const { return sends_; }

  Outbox out;
  Files files;
  Timers timers;
  Prng prng;
  Trace trace;

 private:
  using Memory = std::unique_ptr<uint8_t, decltype(&std::free)>;
  static Memory make(uint64_t bytes, bool is_touched) {
    // Untouched pages of index and queue files cost nothing until they are used.
    auto* base = static_cast<uint8_t*>(std::calloc(bytes, 1));
    if (base == nullptr) std::abort();
    if (is_touched) for (uint64_t at = 0; at < bytes; at += 4096) static_cast<volatile uint8_t*>(base)[at] = 1;
    return {base, &std::free};
  }

  void carry_out(request::Map& r) {
    if (r.how != Open::New) return deliver(Mapped{r.ticket, Error(Errc::NotFound)});
    uint8_t* base = nullptr;
    if (r.path.find("/commitlog/") != std::string::npos && r.size_bytes == kSegmentBytes) {
      base = segments_[turn_++ % kSegments].get();
    } else {
      others_.push_back(make(r.size_bytes, false));
      base = others_.back().get();
    }
    const FileId id(files.issued() + 1);
    deliver(Mapped{r.ticket, files.put(std::make_unique<MappedFile>(base, r.size_bytes, true, id.value(), nullptr))});
  }
  void carry_out(request::Prepare& r) { done(r.ticket); }   // zero, or about to be overwritten
  void carry_out(request::Warm& r) { done(r.ticket); }
  void carry_out(request::Flush& r) { done(r.ticket); }
  void carry_out(request::Replace& r) { done(r.ticket); }
  void carry_out(request::Rename& r) { done(r.ticket); }
  void carry_out(request::Remove& r) { done(r.ticket); }
  void carry_out(request::List& r) { deliver(Listed{r.ticket, std::vector<FileEntry>{}}); }
  void carry_out(request::Read& r) { deliver(Read{r.ticket, Error(Errc::NotFound)}); }
  void carry_out(request::Space& r) { deliver(Space{r.ticket, DiskSpace{uint64_t{100} << 30, uint64_t{10} << 30, uint64_t{90} << 30}}); }
  void carry_out(request::Listen& r) { deliver(Listening{r.ticket, Address{"127.0.0.1", 10911}}); }
  void carry_out(request::Send& r) {
    ++sends_;
    for (uint32_t i = 0; i < r.piece_count; ++i) {
      const Outbox::StoredPiece& piece = out.pieces()[r.first_piece + i];
      bytes_sent_ += piece.is_slice ? piece.slice.range.size() : piece.arena_bytes;
    }
    deliver(Sent{r.ticket, {}});
  }
  template <class R> void carry_out(R&) {}   // needs no answer
  void done(Ticket ticket) { deliver(Done{ticket, {}}); }

  static constexpr size_t kSegments = 4;
  Memory segments_[kSegments] = {{nullptr, &std::free}, {nullptr, &std::free}, {nullptr, &std::free}, {nullptr, &std::free}};
  size_t turn_ = 0;
  std::vector<Memory> others_;
  std::vector<Input> inputs_, next_inputs_;
  uint64_t elapsed_ns_ = 0, bytes_sent_ = 0, sends_ = 0;
};

}  // namespace fulmar::bench
