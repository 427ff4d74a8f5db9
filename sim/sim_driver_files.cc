// Requests as they are carried out: files, and what is common to all.

#include <algorithm>

#include "sim/sim_driver.h"

namespace fulmar::sim {

namespace {

// Index in Input of the kind that redeems a request's ticket; order of the variant in core/io/input.h.
enum : size_t { kListening = 0, kDialed = 2, kSent = 5, kMapped = 6, kListed = 7, kRead = 8, kSpace = 9, kDone = 10 };
static_assert(std::is_same_v<std::variant_alternative_t<kListening, Input>, Listening>);
static_assert(std::is_same_v<std::variant_alternative_t<kDialed, Input>, Dialed>);
static_assert(std::is_same_v<std::variant_alternative_t<kSent, Input>, Sent>);
static_assert(std::is_same_v<std::variant_alternative_t<kMapped, Input>, Mapped>);
static_assert(std::is_same_v<std::variant_alternative_t<kListed, Input>, Listed>);
static_assert(std::is_same_v<std::variant_alternative_t<kRead, Input>, Read>);
static_assert(std::is_same_v<std::variant_alternative_t<kSpace, Input>, Space>);
static_assert(std::is_same_v<std::variant_alternative_t<kDone, Input>, Done>);

template <class R>
constexpr size_t redeemed_by() {
  if constexpr (std::is_same_v<R, request::Listen>) return kListening;
  else if constexpr (std::is_same_v<R, request::Dial>) return kDialed;
  else if constexpr (std::is_same_v<R, request::Send>) return kSent;
  else if constexpr (std::is_same_v<R, request::Map>) return kMapped;
  else if constexpr (std::is_same_v<R, request::List>) return kListed;
  else if constexpr (std::is_same_v<R, request::Read>) return kRead;
  else if constexpr (std::is_same_v<R, request::Space>) return kSpace;
  else return kDone;
}

}  // namespace

// --- one request ----------------------------------------------------------------------------------------------------------------------

void SimDriver::start(const Request& request, Duration delay) {
  std::visit(
      [&](const auto& r) {
        using R = std::decay_t<decltype(r)>;
        if constexpr (requires { r.ticket; }) {
          if (!tickets_.emplace(r.ticket, redeemed_by<R>()).second) fail(fmt::format("ticket {:x} is out already", r.ticket.value()));
        }
        if constexpr (std::is_same_v<R, request::Map> || std::is_same_v<R, request::Read> || std::is_same_v<R, request::Replace> ||
                      std::is_same_v<R, request::Rename> || std::is_same_v<R, request::Remove>) {
          take_path(r.path, name_.c_str());
        }
      },
      request);
  const auto needs_turn = [&] { return std::holds_alternative<request::Unmap>(request) || std::holds_alternative<request::Rename>(request) || std::holds_alternative<request::Remove>(request); };
  if (needs_turn() && (!deferred_.empty() || must_wait(request))) {
    deferred_.push_back(request);
    return;
  }
  begin(request, delay);
}

void SimDriver::begin(const Request& request, Duration delay) {
  const DiskProfile& disk = host_.disk.profile();
  const Wall wall = host_.clock.wall(engine_.now());
  std::visit(
      [&](const auto& r) {
        using R = std::decay_t<decltype(r)>;
        if constexpr (std::is_same_v<R, request::Listen>) network_.listen(host_.id, who_, *this, r.ticket, r.port, r.at);
        else if constexpr (std::is_same_v<R, request::Unlisten>) network_.unlisten(who_, r.port);
        else if constexpr (std::is_same_v<R, request::Dial>) network_.dial(host_.id, who_, *this, r.ticket, r.peer, delay);
        else if constexpr (std::is_same_v<R, request::Send>) start_send(r, delay);
        else if constexpr (std::is_same_v<R, request::Pause>) pause_conn(r.conn, true);
        else if constexpr (std::is_same_v<R, request::Resume>) pause_conn(r.conn, false);
        else if constexpr (std::is_same_v<R, request::Close>) close(r.conn);
        else if constexpr (std::is_same_v<R, request::Tell>) {
          engine_.tell_observers([&](WorldObserver& o) { o.on_reply(engine_.world, who_, r.call, r.reply); });
        } else if constexpr (std::is_same_v<R, request::List>) add_operation({CallKind::List, r.ticket, {}, {}, request, {}}, disk.call, delay);
        else if constexpr (std::is_same_v<R, request::Read>) add_operation({CallKind::Read, r.ticket, {}, {}, request, {}}, disk.call, delay);
        else if constexpr (std::is_same_v<R, request::Space>) add_operation({CallKind::Space, r.ticket, {}, {}, request, {}}, disk.call, delay);
        else if constexpr (std::is_same_v<R, request::Map>) start_map(r, delay);
        else if constexpr (std::is_same_v<R, request::Prepare>) {
          Operation operation{CallKind::Prepare, r.ticket, r.file, {}, request, {}};
          if (const OpenFile* open = checked(r.file, r.range, "prepare"); open != nullptr) {
            if (open->slices > 0) check_slices(r.file, r.range, "prepare");
            settle(operation, host_.disk.prepare(open->inode, r.range, r.zeros));
          } else operation.outcome = Errc::InvalidArgument;
          pin(r.ticket, r.file);
          add_operation(std::move(operation), disk.prepare, delay);
        } else if constexpr (std::is_same_v<R, request::Warm>) {
          for (const FileSlice& s : r.slices) {
            checked(s.file, s.range, "warm");
            pin(r.ticket, s.file);
          }
          add_operation({CallKind::Warm, r.ticket, {}, {}, request, {}}, disk.call, delay);
        } else if constexpr (std::is_same_v<R, request::Cool>) {
          if (OpenFile* open = checked(r.file, r.range, "cool")) open->warm.subtract(r.range);
        } else if constexpr (std::is_same_v<R, request::Flush>) start_flush(r, delay);
        else if constexpr (std::is_same_v<R, request::Unmap>) unmap(r.file);
        else if constexpr (std::is_same_v<R, request::Replace>) {
          Operation operation{CallKind::Replace, r.ticket, {}, {}, request, {}};
          settle(operation, host_.disk.replace(r.path, r.bytes, wall));
          add_operation(std::move(operation), disk.call, delay);
        } else if constexpr (std::is_same_v<R, request::Rename>) {
          Operation operation{CallKind::Rename, r.ticket, r.file, {}, request, {}};
          if (const OpenFile* open = checked(r.file, {}, "rename"); open != nullptr) settle(operation, host_.disk.rename(open->inode, r.path));
          else operation.outcome = Errc::InvalidArgument;
          if (operation.outcome && open_at(r.file) != nullptr) open_at(r.file)->path = r.path;
          pin(r.ticket, r.file);
          add_operation(std::move(operation), disk.rename, delay);
        } else {
          static_assert(std::is_same_v<R, request::Remove>);
          Operation operation{CallKind::Remove, r.ticket, {}, {}, request, {}};
          settle(operation, host_.disk.remove(r.path));
          add_operation(std::move(operation), disk.call, delay);
        }
      },
      request);
}

void SimDriver::settle(Operation& operation, Result<DiskOp> begun) {
  if (begun) operation.op = *begun;
  else operation.outcome = Error(begun.error());
}

void SimDriver::take_path(const std::string& path, const char* call) {
  if (!busy_paths_.insert(path).second) fail(fmt::format("{}: a second request for {} while one is out", call, path));
}

SimDriver::OpenFile* SimDriver::checked(FileId file, Range range, const char* call) {
  OpenFile* open = open_at(file);
  if (open == nullptr) {
    fail(fmt::format("{} of file {}, which is not mapped", call, file));
    return nullptr;
  }
  if (range.begin > range.end || range.end > host_.disk.size(open->inode)) {
    fail(fmt::format("{} of [{}, {}) of {}, which is shorter", call, range.begin, range.end, open->path));
    return nullptr;
  }
  return open;
}

void SimDriver::pin(Ticket ticket, FileId file) {
  OpenFile* open = open_at(file);
  if (open == nullptr) return;
  ++open->pins;
  pinned_by_[ticket].push_back(file);
}

void SimDriver::unpin(FileId file) {
  OpenFile* open = open_at(file);
  CHECK(open != nullptr && open->pins > 0, "file {}", file);
  --open->pins;
}

// Unmap, rename and remove wait until no ticket that names the file is out.
bool SimDriver::must_wait(const Request& request) const {
  const auto has_pins = [this](FileId file) {
    return file.value() != 0 && file.value() <= open_.size() && open_[file.value() - 1] != nullptr && open_[file.value() - 1]->pins > 0;
  };
  if (const auto* unmapping = std::get_if<request::Unmap>(&request)) return has_pins(unmapping->file);
  if (const auto* renaming = std::get_if<request::Rename>(&request)) return has_pins(renaming->file);
  const auto& removing = std::get<request::Remove>(request);
  return std::any_of(open_.begin(), open_.end(), [&](const auto& open) { return open != nullptr && open->pins > 0 && open->path == removing.path; });
}

void SimDriver::run_deferred() {
  std::vector<Request> waiting = std::move(deferred_);
  deferred_.clear();
  for (Request& request : waiting) {
    // Those of one file keep their order because the first of them still waits.
    if (must_wait(request)) deferred_.push_back(std::move(request));
    else begin(request, {});
  }
}

// --- operations on the disk -----------------------------------------------------------------------------------------------------------

void SimDriver::add_operation(Operation operation, const Latency& latency, Duration delay) {
  const uint64_t id = next_operation_++;
  operations_.emplace(id, std::move(operation));
  const Duration takes = latency.draw(disk_draws_);
  owner_.schedule(who_, engine_.now() + delay + takes, EventClass::Disk, DriverOwner::Timer::Disk, id);
}

void SimDriver::start_map(const request::Map& r, Duration delay) {
  Operation operation{CallKind::Map, r.ticket, {}, {}, r, {}};
  if (r.how == Open::New) {
    if (r.size_bytes == 0) {
      operation.outcome = Error(Errc::WrongSize, r.path);
    } else if (auto begun = host_.disk.create(r.path, r.size_bytes, host_.clock.wall(engine_.now())); begun) {
      operation.op = begun->op;
      operation.inode = begun->inode;
      host_.disk.open(begun->inode);
    } else {
      operation.outcome = Error(begun.error());
    }
  }
  add_operation(std::move(operation), host_.disk.profile().call, delay);
}

void SimDriver::start_flush(const request::Flush& r, Duration delay) {
  const DiskProfile& disk = host_.disk.profile();
  Operation operation{CallKind::Flush, r.ticket, r.file, {}, r, {}};
  Duration stall;
  if (const OpenFile* open = checked(r.file, r.range, "flush"); open != nullptr) {
    operation.op = host_.disk.flush(open->inode, r.range);
    operation.inode = open->inode;
    bool is_failing = disk.flush_error.numerator > 0 && fault_draws_.chance(disk.flush_error);
    if (host_.flush_errors > 0) {
      --host_.flush_errors;
      is_failing = true;
    }
    if (is_failing) {
      engine_.faults.fired(FaultClass::FlushError);
      operation.outcome = Error(Errc::FlushFailed, fmt::format("EIO from a flush of {}", open->path));
    }
    if (disk.flush_stall.numerator > 0 && fault_draws_.chance(disk.flush_stall)) {
      stall.ns = static_cast<int64_t>(fault_draws_.below(static_cast<uint64_t>(disk.flush_stall_max.ns) + 1));
    }
    if (host_.flush_stalls > 0) {
      --host_.flush_stalls;
      stall = stall + host_.flush_stall;
    }
    if (stall > Duration{}) engine_.faults.fired(FaultClass::FlushStall, stall > disk.flush.base + disk.flush.mean * 4);
  } else {
    operation.outcome = Errc::InvalidArgument;
  }
  pin(r.ticket, r.file);
  add_operation(std::move(operation), disk.flush, delay + stall);
}

void SimDriver::heal_flushes() {
  for (auto& [id, operation] : operations_) {
    if (operation.kind == CallKind::Flush && !operation.outcome && operation.outcome.error().code == Errc::FlushFailed) operation.outcome = {};
  }
}

Result<FileId> SimDriver::open_file(const request::Map& r, const Operation& operation) {
  Inode inode = operation.inode;
  if (r.how == Open::New) {
    if (!operation.outcome) return Error(operation.outcome.error());
    host_.disk.commit(operation.op);
  } else {
    const std::optional<Inode> found = host_.disk.lookup(r.path);
    if (!found) return Error(Errc::NotFound, r.path);
    inode = *found;
    const uint64_t size = host_.disk.size(inode);
    if (size == 0 || (r.size_bytes != 0 && size != r.size_bytes)) return Error(Errc::WrongSize, fmt::format("{} has {} bytes", r.path, size));
    // A name that an earlier life left pending is made durable before anything is stored behind it.
    if (r.how == Open::Existing) host_.disk.sync_name(r.path);
    host_.disk.open(inode);
  }
  const uint64_t serial = files_.issued() + 1;
  auto open = std::make_unique<OpenFile>();
  open->inode = inode;
  open->path = r.path;
  open_.push_back(std::move(open));
  const FileId id = files_.put(std::make_unique<MappedFile>(host_.disk.base(inode), host_.disk.size(inode), r.how != Open::ReadOnly, serial, this));
  CHECK(id.value() == serial && open_.size() == serial);
  return id;
}

void SimDriver::unmap(FileId file) {
  OpenFile* open = open_at(file);
  if (open == nullptr) return fail(fmt::format("unmap of file {}, which is not mapped", file));
  files_.take_out(file);
  const Inode inode = open->inode;
  open_[file.value() - 1].reset();
  host_.disk.close(inode);
}

void SimDriver::disk_done(uint64_t id) {
  const auto node = operations_.extract(id);
  if (node.empty()) return;
  Operation& operation = node.mapped();
  const Request& request = operation.request;
  const Ticket ticket = operation.ticket;
  if (const auto* r = std::get_if<request::List>(&request)) return queue(Listed{ticket, host_.disk.list(r->directory, order_draws_)});
  if (std::holds_alternative<request::Space>(request)) return queue(Space{ticket, host_.disk.space()});
  if (const auto* r = std::get_if<request::Read>(&request)) {
    busy_paths_.erase(r->path);
    Result<std::vector<uint8_t>> contents = host_.disk.read(r->path, r->bytes_max);
    if (!contents) return queue(Read{ticket, Error(contents.error())});
    return queue(Read{ticket, Bytes()}, std::move(*contents));
  }
  if (const auto* r = std::get_if<request::Map>(&request)) {
    busy_paths_.erase(r->path);
    Result<FileId> file = open_file(*r, operation);
    return queue(Mapped{ticket, std::move(file)});
  }
  if (const auto* r = std::get_if<request::Flush>(&request)) return queue(Done{ticket, finish_flush(*r, operation)});
  if (const auto* r = std::get_if<request::Warm>(&request)) {
    for (const FileSlice& s : r->slices) {
      OpenFile* open = open_at(s.file);
      if (open == nullptr) continue;
      if (Result<void> readable = host_.disk.check_readable(open->inode, s.range); !readable) operation.outcome = std::move(readable);
      else open->warm.add(s.range);
    }
  } else if (operation.outcome) {
    host_.disk.commit_with_directory(operation.op);
    if (const auto* p = std::get_if<request::Prepare>(&request); p != nullptr && open_at(p->file) != nullptr) open_at(p->file)->warm.add(p->range);
  }
  if (const auto* r = std::get_if<request::Replace>(&request)) busy_paths_.erase(r->path);
  if (const auto* r = std::get_if<request::Rename>(&request)) busy_paths_.erase(r->path);
  if (const auto* r = std::get_if<request::Remove>(&request)) busy_paths_.erase(r->path);
  queue(Done{ticket, operation.outcome});
}

// One failure is the end of a file for this life: what the kernel dropped, a later success would lie about.
Result<void> SimDriver::finish_flush(const request::Flush& r, Operation& operation) {
  if (operation.op == DiskOp()) return operation.outcome;
  if (!operation.outcome) {
    failed_.insert(operation.inode);
    host_.disk.fail(operation.op);
    return operation.outcome;
  }
  if (failed_.count(operation.inode) != 0) {
    host_.disk.abandon(operation.op);
    return Error(Errc::FlushFailed, fmt::format("an earlier flush of file {} failed", r.file));
  }
  host_.disk.commit(operation.op);
  return {};
}

}  // namespace fulmar::sim
