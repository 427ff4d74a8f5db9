#pragma once
// A driver over vectors for tests of the store's machines: it carries out an outbox (map, prepare, warm, flush, read, replace, rename,
// remove, list, space) and breaks: a power cut keeps any subset of what was stored and not flushed, a kill keeps everything stored and
// any 8-byte words of the last writable(). It is also the strict eye of io/mapped_file.h: stores only to prepared bytes, views only of
// pages that were prepared, stored to, or warmed less than a second ago, one request for a path at a time, pins while tickets are out.
//
//   MemoryDriver driver(Seed{1});
//   driver.step([&](Ctx& ctx) { machine.pump(ctx); });            // then the outbox is carried out
//   while (auto input = driver.complete_one()) driver.step([&](Ctx& ctx) { route(machine, ctx, *input); });

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/io/node.h"

namespace fulmar::testing {

class MemoryDriver : public MemoryEye {
 public:
  static constexpr uint64_t kPage = 4096, kSector = 512;
  struct Event { std::string name; std::vector<uint64_t> values; std::string text; };

  explicit MemoryDriver(Seed seed) : prng(seed), node_prng_(Seed{mix64(seed.value)}), trace_(&sink_) {}

  // --- faults, at any time -----------------------------------------------------------------------------------------------------------
  bool is_disk_full = false;         // map(New), prepare, replace
  uint64_t disk_bytes = uint64_t{100} << 30, disk_used_percent = 10;
  bool is_flush_failing = false;
  bool is_in_order = false;          // requests come home in the order they were asked, else in any order
  std::set<std::pair<std::string, uint64_t>> unreadable;   // path, page

  Prng prng;                         // the driver's own draws
  Moment now{Monotonic{1'000'000'000}, Wall{1'700'000'000'000}, 0};
  void advance(Duration by) {
    now.monotonic = now.monotonic + by;
    now.wall.ms += by.ms();
  }

  // --- life ----------------------------------------------------------------------------------------------------------------------------
  // One step of the node: `body` gets its Ctx; afterwards its outbox is carried out, unless the node has halted.
  template <class Body> void step(Body body) {
    trace_.begin_step(now);
    out_.clear();
    Ctx ctx{now, out_, *files_, *timers_, node_prng_, trace_};
    body(ctx);
    finish_kill();
    last_text_ = out_.text();
    wants_step_again_ = out_.wants_step_again() && !was_killed();
    if (was_killed()) return;   // nothing that comes later happened
    if (out_.halted() != nullptr) { halted_ = *out_.halted(); return; }
    for (Request& request : out_.requests()) std::visit([&](auto& r) { take(r); }, request);
  }
  // Carries out one request in flight and says what came of it; nothing when none is left. Borrowed bytes live until the next call.
  std::optional<Input> complete_one() {
    if (flights_.empty() || was_killed()) return {};
    const size_t index = is_in_order ? 0 : prng.below(flights_.size());
    Flight flight = std::move(flights_[index]);
    flights_.erase(flights_.begin() + static_cast<ptrdiff_t>(index));
    return complete(flight);
  }
  size_t in_flight() const { return flights_.size(); }
  bool wants_step_again() const { return wants_step_again_; }
  const std::string& last_text() const { return last_text_; }        // the outbox of the last step, readable
  const std::optional<Error>& halted() const { return halted_; }
  Timers& timers() { return *timers_; }
  // Next timer that is due, disarmed; time does not move.
  std::optional<TimerId> pop_due() { return timers_->pop_due(now.monotonic); }
  std::vector<Event>& events() { return sink_.events; }
  bool has_event(std::string_view name) const {
    for (const Event& event : sink_.events) if (event.name == name) return true;
    return false;
  }

  // --- death: the node is destroyed by the caller; a new one wakes on what is left ---------------------------------------------------------
  // Power cut: each page stored to and not flushed is kept with odds `keep`, whole or torn at sectors; requests in flight happened or not.
  void crash(Ratio keep) {
    for (Flight& flight : flights_) {
      if (!prng.chance(keep)) continue;
      if (std::holds_alternative<request::Flush>(flight.request)) continue;   // its pages are drawn below
      if (auto* prepare = std::get_if<request::Prepare>(&flight.request)) { half_prepare(*prepare); continue; }
      (void)complete(flight);
    }
    for (auto& [path, file] : disk_) {
      for (uint64_t page = 0; page < file->stored_at.size(); ++page) if (file->stored_at[page] != 0) keep_page(*file, page, keep);
      file->seen = file->durable;
    }
    wake();
  }
  // The process dies, the machine does not: everything stored is kept.
  void kill() { wake(); }
  // Arms a kill inside the n-th writable() from now (1: the next; 0: none): when reached, the image of that moment is kept aside with any subset
  // of the words then written; the step goes on unknowing and nothing is carried out any more. was_killed() then tells, and take_kill_image() makes that image
  // the disk.
  void arm_kill(uint64_t writables) { kill_countdown_ = writables; kill_image_.reset(); }
  bool was_killed() const { return kill_image_.has_value() && !kill_range_file_; }
  void take_kill_image() {
    for (auto& [path, bytes] : *kill_image_) {
      auto it = disk_.find(path);
      if (it != disk_.end()) it->second->seen = bytes;
    }
    kill_image_.reset();
    wake();
  }
  uint64_t writables() const { return writables_; }

  // --- the disk, for tests -------------------------------------------------------------------------------------------------------------
  bool exists(const std::string& path) const { return disk_.contains(path); }
  Bytes contents(const std::string& path) const { return disk_.at(path)->seen; }
  void put(const std::string& path, Bytes bytes) {
    auto file = std::make_unique<File>(bytes.size());
    std::copy(bytes.begin(), bytes.end(), file->seen.begin());
    file->durable = file->seen;
    file->prepared.assign(bytes.size(), true);
    disk_[path] = std::move(file);
  }
  void erase(const std::string& path) { disk_.erase(path); }
  std::vector<FileEntry> list(const std::string& directory) const {
    std::vector<FileEntry> out;
    const std::string prefix = directory + "/";
    for (const auto& [path, file] : disk_)
      if (path.starts_with(prefix)) out.push_back({path.substr(prefix.size()), file->seen.size(), now.wall, false});
    return out;
  }
  // How often files under `prefix` were asked to be mapped, ever.
  size_t maps_of(std::string_view prefix) const {
    size_t out = 0;
    for (const auto& [path, count] : maps_) out += path.starts_with(prefix) ? count : 0;
    return out;
  }
  size_t mapped_count() const {
    size_t count = 0;
    for (const auto& [path, file] : disk_) count += file->id.value() != 0;
    return count;
  }

  // --- the eye --------------------------------------------------------------------------------------------------------------------------
  void on_writable(MappedFile& mapped, Range range) override {
    File& file = of(mapped);
    ++writables_;
    finish_kill();
    for (uint64_t at = range.begin; at < range.end; ++at) CHECK(file.prepared[at], "store to unprepared byte {} of {}", at, path_of(file));
    if (range.empty()) return;
    if (kill_countdown_ > 0 && --kill_countdown_ == 0) {
      kill_image_.emplace();
      for (const auto& [path, each] : disk_) (*kill_image_)[path] = each->seen;
      kill_range_file_ = &file;
      kill_range_ = range;
    }
    for (uint64_t page = range.begin / kPage; page <= (range.end - 1) / kPage; ++page) {
      file.stored_at[page] = ++sequence_;
      file.resident_until[page] = Monotonic::never();
    }
  }
  void on_view(const MappedFile& mapped, Range range) override {
    if (range.empty()) return;
    File& file = of(mapped);
    for (uint64_t page = range.begin / kPage; page <= (range.end - 1) / kPage; ++page)
      CHECK(file.resident_until[page] >= now.monotonic, "view of cold page {} of {}", page, path_of(file));
  }

 private:
  struct File {
    explicit File(uint64_t size)
        : seen(size), durable(size), prepared(size), stored_at((size + kPage - 1) / kPage), durable_at((size + kPage - 1) / kPage), resident_until((size + kPage - 1) / kPage) {}
    std::vector<uint8_t> seen, durable;
    std::vector<bool> prepared;              // by byte: may be stored to; kept across lives, as blocks are
    std::vector<uint64_t> stored_at;         // by page: sequence of its last store, 0: clean
    std::vector<uint64_t> durable_at;        // by page: which stores are on the medium
    std::vector<Monotonic> resident_until;   // by page
    FileId id;                               // 0: not mapped
    int pins = 0;
    bool is_removed_when_free = false;
  };
  struct Flight {
    Request request;
    std::vector<uint8_t> snapshot;           // flush: what was stored at the end of the asking step
    uint64_t sequence = 0;
  };
  struct Sink : TraceSink {
    void on_event(const TraceRecord& record) override {
      events.push_back({record.info->name, {record.values.begin(), record.values.begin() + record.count}, std::string(record.text)});
    }
    std::vector<Event> events;
  };

  // What needs no ticket happens at once; the rest flies.
  void take(request::Cool& cool) {
    File* file = find(cool.file);
    CHECK(file != nullptr);
    for (uint64_t page = (cool.range.begin + kPage - 1) / kPage; (page + 1) * kPage <= cool.range.end; ++page) file->resident_until[page] = {};
  }
  void take(request::Unmap& unmap) {
    File* file = find(unmap.file);
    CHECK(file != nullptr && file->pins == 0, "unmap of file {}", unmap.file);
    std::fill(file->resident_until.begin(), file->resident_until.end(), Monotonic{});
    files_->take_out(unmap.file);
    file->id = FileId();
  }
  void take(request::Prepare& r) { pin(r.file); fly(r); }
  void take(request::Warm& r) { for (const FileSlice& slice : r.slices) pin(slice.file); fly(r); }
  void take(request::Flush& r) {
    File* file = pin(r.file);
    Flight flight{r, {}, sequence_};
    const uint64_t from = r.range.begin / kPage * kPage, to = std::min<uint64_t>((r.range.end + kPage - 1) / kPage * kPage, file->seen.size());
    flight.snapshot.assign(file->seen.begin() + static_cast<ptrdiff_t>(from), file->seen.begin() + static_cast<ptrdiff_t>(to));
    flights_.push_back(std::move(flight));
  }
  void take(request::Map& r) { ++maps_[r.path]; path_free(r.path); fly(r); }
  void take(request::Read& r) { path_free(r.path); fly(r); }
  void take(request::Replace& r) { path_free(r.path); fly(r); }
  void take(request::Rename& r) { path_free(r.path); pin(r.file); fly(r); }
  void take(request::Remove& r) { path_free(r.path); fly(r); }
  void take(request::List& r) { fly(r); }
  void take(request::Space& r) { fly(r); }
  template <class R> void take(R&) { CHECK(false, "this driver has no network"); }
  template <class R> void fly(R& request) { flights_.push_back({std::move(request), {}, 0}); }

  void path_free(const std::string& path) const {
    for (const Flight& flight : flights_)
      std::visit([&](const auto& r) { if constexpr (requires { r.path; }) CHECK(r.path != path, "two requests for {}", path); }, flight.request);
  }
  File* pin(FileId id) {
    File* file = find(id);
    CHECK(file != nullptr, "file {} is not mapped", id);
    ++file->pins;
    return file;
  }
  File* find(FileId id) {
    for (auto& [path, file] : disk_) if (id.value() != 0 && file->id == id) return file.get();
    return nullptr;
  }
  File& of(const MappedFile& mapped) {
    File* file = find(FileId(mapped.serial()));
    CHECK(file != nullptr);
    return *file;
  }
  std::string path_of(const File& wanted) const {
    for (const auto& [path, file] : disk_) if (file.get() == &wanted) return path;
    return "?";
  }
  bool is_unreadable(const std::string& path, Range range) const {
    for (uint64_t page = range.begin / kPage; page * kPage < range.end; ++page) if (unreadable.contains({path, page})) return true;
    return false;
  }

  Input complete(Flight& flight) {
    return std::visit([&](auto& r) { return carry_out(r, flight); }, flight.request);
  }
  Input carry_out(request::Map& r, Flight&) {
    auto it = disk_.find(r.path);
    if (r.how == Open::New) {
      if (it != disk_.end()) return Mapped{r.ticket, Error(Errc::Exists)};
      if (is_disk_full) return Mapped{r.ticket, Error(Errc::DiskFull, "the disk is full")};
      it = disk_.emplace(r.path, std::make_unique<File>(r.size_bytes)).first;
    } else if (it == disk_.end()) {
      return Mapped{r.ticket, Error(Errc::NotFound)};
    }
    File& file = *it->second;
    if (file.seen.empty() || (r.size_bytes != 0 && file.seen.size() != r.size_bytes)) return Mapped{r.ticket, Error(Errc::WrongSize)};
    CHECK(file.id.value() == 0, "{} is mapped twice", r.path);
    const FileId id(files_->issued() + 1);
    files_->put(std::make_unique<MappedFile>(file.seen.data(), file.seen.size(), r.how != Open::ReadOnly, id.value(), this));
    file.id = id;
    return Mapped{r.ticket, id};
  }
  Input carry_out(request::Prepare& r, Flight&) {
    File& file = *find(r.file);
    --file.pins;
    if (is_disk_full) return Done{r.ticket, Error(Errc::DiskFull, "the disk is full")};
    if (r.zeros == Zeros::Durable) zero(file, r.range);
    else zero_soon(file, r.range);
    for (uint64_t page = r.range.begin / kPage; page * kPage < r.range.end; ++page) file.resident_until[page] = Monotonic::never();
    for (uint64_t at = r.range.begin; at < r.range.end; ++at) file.prepared[at] = true;
    return Done{r.ticket, {}};
  }
  void zero(File& file, Range range) {
    CHECK(range.begin <= range.end && range.end <= file.seen.size(), "prepare [{}, {})", range.begin, range.end);
    std::fill(file.seen.begin() + static_cast<ptrdiff_t>(range.begin), file.seen.begin() + static_cast<ptrdiff_t>(range.end), uint8_t{0});
    std::fill(file.durable.begin() + static_cast<ptrdiff_t>(range.begin), file.durable.begin() + static_cast<ptrdiff_t>(range.end), uint8_t{0});
  }
  // As a store would: a power cut may bring back what was there.
  void zero_soon(File& file, Range range) {
    std::fill(file.seen.begin() + static_cast<ptrdiff_t>(range.begin), file.seen.begin() + static_cast<ptrdiff_t>(range.end), uint8_t{0});
    for (uint64_t page = range.begin / kPage; page * kPage < range.end; ++page) file.stored_at[page] = ++sequence_;
  }
  void half_prepare(request::Prepare& r) {
    File& file = *find(r.file);
    for (uint64_t at = r.range.begin; at < r.range.end; at = (at / kPage + 1) * kPage)
      if (prng.chance({1, 2})) zero(file, {at, std::min(r.range.end, (at / kPage + 1) * kPage)});
  }
  Input carry_out(request::Warm& r, Flight&) {
    Result<void> outcome;
    for (const FileSlice& slice : r.slices) {
      File& file = *find(slice.file);
      --file.pins;
      if (is_unreadable(path_of(file), slice.range)) { outcome = Error(Errc::Unreadable); continue; }
      for (uint64_t page = slice.range.begin / kPage; page * kPage < slice.range.end; ++page)
        file.resident_until[page] = std::max(file.resident_until[page], now.monotonic + Duration::seconds(1));
    }
    return Done{r.ticket, outcome};
  }
  Input carry_out(request::Flush& r, Flight& flight) {
    File& file = *find(r.file);
    --file.pins;
    if (is_flush_failing) return Done{r.ticket, Error(Errc::FlushFailed)};
    const uint64_t from = r.range.begin / kPage * kPage;
    for (uint64_t page = from / kPage; page * kPage < from + flight.snapshot.size(); ++page) {
      if (file.stored_at[page] <= flight.sequence) file.stored_at[page] = 0;
      // A flush that was asked for later may have come home first: the medium never goes back.
      if (flight.sequence < file.durable_at[page]) continue;
      file.durable_at[page] = flight.sequence;
      const uint64_t at = page * kPage - from, to = std::min<uint64_t>(at + kPage, flight.snapshot.size());
      std::copy(flight.snapshot.begin() + static_cast<ptrdiff_t>(at), flight.snapshot.begin() + static_cast<ptrdiff_t>(to), file.durable.begin() + static_cast<ptrdiff_t>(page * kPage));
    }
    return Done{r.ticket, {}};
  }
  Input carry_out(request::Read& r, Flight&) {
    auto it = disk_.find(r.path);
    if (it == disk_.end()) return Read{r.ticket, Error(Errc::NotFound)};
    if (it->second->seen.size() > r.bytes_max) return Read{r.ticket, Error(Errc::OutOfRange)};
    read_ = it->second->seen;
    return Read{r.ticket, Bytes(read_)};
  }
  Input carry_out(request::Replace& r, Flight&) {
    if (is_disk_full) return Done{r.ticket, Error(Errc::DiskFull, "the disk is full")};
    auto it = disk_.find(r.path);
    CHECK(it == disk_.end() || it->second->id.value() == 0, "{} is mapped", r.path);
    put(r.path, r.bytes);
    return Done{r.ticket, {}};
  }
  Input carry_out(request::Rename& r, Flight&) {
    File& file = *find(r.file);
    --file.pins;
    if (disk_.contains(r.path)) return Done{r.ticket, Error(Errc::Exists)};
    auto node = disk_.extract(path_of(file));
    node.key() = r.path;
    disk_.insert(std::move(node));
    return Done{r.ticket, {}};
  }
  Input carry_out(request::Remove& r, Flight&) {
    auto it = disk_.find(r.path);
    if (it != disk_.end()) {
      CHECK(it->second->id.value() == 0, "{} is removed while mapped", r.path);
      disk_.erase(it);
    }
    return Done{r.ticket, {}};
  }
  Input carry_out(request::List& r, Flight&) { return Listed{r.ticket, list(r.directory)}; }
  Input carry_out(request::Space& r, Flight&) {
    const uint64_t used = is_disk_full ? 100 : disk_used_percent;
    return Space{r.ticket, DiskSpace{disk_bytes, disk_bytes / 100 * used, disk_bytes / 100 * (100 - used)}};
  }
  template <class R> Input carry_out(R&, Flight&) { CHECK(false); __builtin_unreachable(); }

  void keep_page(File& file, uint64_t page, Ratio keep) {
    const bool is_whole = prng.chance({1, 2}), is_kept = prng.chance(keep);
    const uint64_t begin = page * kPage, end = std::min<uint64_t>(begin + kPage, file.seen.size());
    for (uint64_t at = begin; at < end; at += kSector) {
      const bool keep_sector = is_whole ? is_kept : prng.chance(keep);
      const uint64_t to = std::min(at + kSector, end);
      if (keep_sector) std::copy(file.seen.begin() + static_cast<ptrdiff_t>(at), file.seen.begin() + static_cast<ptrdiff_t>(to), file.durable.begin() + static_cast<ptrdiff_t>(at));
    }
  }
  // The range of an armed kill has been written: its words are in `seen` now, each of them reaches the image or not.
  void finish_kill() {
    if (kill_range_file_ == nullptr) return;
    auto& image = (*kill_image_)[path_of(*kill_range_file_)];
    for (uint64_t word = kill_range_.begin / 8; word * 8 < kill_range_.end; ++word) {
      if (!prng.chance({1, 2})) continue;
      for (uint64_t at = std::max(word * 8, kill_range_.begin); at < std::min(word * 8 + 8, kill_range_.end); ++at) image[at] = kill_range_file_->seen[at];
    }
    kill_range_file_ = nullptr;
  }
  // What was in flight is forgotten, nothing is mapped, what is seen may still be lost to a later power cut.
  void wake() {
    flights_.clear();
    kill_countdown_ = 0;
    kill_range_file_ = nullptr;
    halted_.reset();
    for (auto& [path, file] : disk_) {
      file->id = FileId();
      file->pins = 0;
      std::fill(file->resident_until.begin(), file->resident_until.end(), Monotonic{});
      for (uint64_t page = 0; page < file->stored_at.size(); ++page) {
        const uint64_t begin = page * kPage, end = std::min<uint64_t>(begin + kPage, file->seen.size());
        file->stored_at[page] = equal(Bytes(file->seen).subspan(begin, end - begin), Bytes(file->durable).subspan(begin, end - begin)) ? 0 : ++sequence_;
      }
    }
    files_ = std::make_unique<Files>();
    timers_ = std::make_unique<Timers>();
  }

  std::map<std::string, std::unique_ptr<File>> disk_;
  std::map<std::string, size_t> maps_;
  std::vector<Flight> flights_;
  std::unique_ptr<Files> files_ = std::make_unique<Files>();
  std::unique_ptr<Timers> timers_ = std::make_unique<Timers>();
  Outbox out_;
  Prng node_prng_;
  Sink sink_;
  Trace trace_;
  std::string last_text_;
  std::optional<Error> halted_;
  std::vector<uint8_t> read_;
  uint64_t sequence_ = 0, writables_ = 0, kill_countdown_ = 0;
  std::optional<std::map<std::string, std::vector<uint8_t>>> kill_image_;
  File* kill_range_file_ = nullptr;
  Range kill_range_;
  bool wants_step_again_ = false;
};

}  // namespace fulmar::testing
