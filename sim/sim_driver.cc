#include "sim/sim_driver.h"

#include <algorithm>
#include <cstring>

#include "sim/step_hash.h"

namespace fulmar::sim {

namespace {


constexpr uint64_t kUndeclaredEvery = 1024;  // steps between two looks at every clean page

struct CallOf {
  CallKind kind = CallKind::Any;  // Any: not an I/O call
  FileId file;
  std::string_view path;
  Range range;
  ConnId conn;
  uint64_t bytes = 0;
};

CallOf call_of(const Request& request, const Outbox& outbox) {
  CallOf out;
  std::visit(
      [&](const auto& r) {
        using R = std::decay_t<decltype(r)>;
        if constexpr (requires { r.file; }) out.file = r.file;
        if constexpr (requires { r.range; }) out.range = r.range;
        if constexpr (requires { r.path; }) out.path = r.path;
        if constexpr (std::is_same_v<R, request::Send>) {
          out.kind = CallKind::Send;
          out.conn = r.conn;
          for (uint32_t i = 0; i < r.piece_count; ++i) {
            const Outbox::StoredPiece& p = outbox.pieces()[r.first_piece + i];
            out.bytes += p.is_slice ? p.slice.range.size() : p.arena_bytes;
          }
        } else if constexpr (std::is_same_v<R, request::List>) {
          out.kind = CallKind::List;
          out.path = r.directory;
        } else if constexpr (std::is_same_v<R, request::Map>) out.kind = CallKind::Map;
        else if constexpr (std::is_same_v<R, request::Prepare>) out.kind = CallKind::Prepare;
        else if constexpr (std::is_same_v<R, request::Warm>) {
          out.kind = CallKind::Warm;
          if (!r.slices.empty()) out.file = r.slices.front().file, out.range = r.slices.front().range;
        } else if constexpr (std::is_same_v<R, request::Cool>) out.kind = CallKind::Cool;
        else if constexpr (std::is_same_v<R, request::Flush>) out.kind = CallKind::Flush;
        else if constexpr (std::is_same_v<R, request::Unmap>) out.kind = CallKind::Unmap;
        else if constexpr (std::is_same_v<R, request::Read>) out.kind = CallKind::Read;
        else if constexpr (std::is_same_v<R, request::Replace>) {
          out.kind = CallKind::Replace;
          out.bytes = r.bytes.size();
        } else if constexpr (std::is_same_v<R, request::Rename>) out.kind = CallKind::Rename;
        else if constexpr (std::is_same_v<R, request::Remove>) out.kind = CallKind::Remove;
        else if constexpr (std::is_same_v<R, request::Space>) out.kind = CallKind::Space;
      },
      request);
  return out;
}

}  // namespace

SimDriver::SimDriver(Engine& engine, SimNetwork& network, HostParts& host, NodeAccount& account, DriverOwner& owner, Life who,
                     const std::string& name, const NodeFactory& factory)
    : engine_(engine), network_(network), host_(host), account_(account), owner_(owner), who_(who), name_(name),
      batch_draws_(engine.seed, Domain::Batch, mix64(who.node.value(), who.life)),
      cost_draws_(engine.seed, Domain::Cost, mix64(who.node.value(), who.life)),
      disk_draws_(engine.seed, Domain::DiskLatency, mix64(who.node.value(), who.life)),
      fault_draws_(engine.seed, Domain::DiskFault, mix64(who.node.value(), who.life)),
      order_draws_(engine.seed, Domain::ListOrder, mix64(who.node.value(), who.life)), trace_(this) {
  const Seed seed{draw(engine.seed, Domain::NodeSeed, who.node.value(), who.life)};
  node_ = factory(seed, files_, trace_);
  CHECK(node_ != nullptr, "{} could not be made", name_);
  request_step(engine_.now());
}

SimDriver::~SimDriver() = default;

void SimDriver::end(bool is_with_host) {
  is_over_ = true;
  check_undeclared();
  node_.reset();
  if (!is_with_host) {
    for (auto& [id, operation] : operations_) {
      host_.disk.abandon(operation.op);
      if (operation.kind == CallKind::Map && operation.inode != Inode()) host_.disk.close(operation.inode);
    }
    for (uint64_t i = 0; i < open_.size(); ++i) {
      if (open_[i] != nullptr) unmap(FileId(i + 1));
    }
  }
  operations_.clear();
  inbox_.clear();
}

void SimDriver::fail(std::string sentence) { engine_.fail("boundary", fmt::format("{} life {}: {}", name_, who_.life, sentence)); }

// --- inputs and steps -----------------------------------------------------------------------------------------------------------------

void SimDriver::queue(Input input, std::vector<uint8_t> bytes, std::unique_ptr<OwnedCommand> owned) {
  if (is_over_) return;
  const uint64_t command_digest = owned != nullptr ? owned->digest() : 0;
  inbox_.push_back({std::move(input), std::move(bytes), std::move(owned), command_digest});
  const CpuProfile& cpu = engine_.profile.cpu;
  Duration wait;
  if (cpu.batch_wait.numerator > 0 && batch_draws_.chance(cpu.batch_wait)) {
    wait.ns = static_cast<int64_t>(batch_draws_.below(static_cast<uint64_t>(cpu.batch_wait_max.ns) + 1));
  }
  request_step(engine_.now() + wait);
}

void SimDriver::told(CallId call, const Command& command) {
  auto owned = std::make_unique<OwnedCommand>(command);
  engine_.tell_observers([&](WorldObserver& o) { o.on_told(engine_.world, who_, call, command); });
  const Command& copy = owned->command();
  queue(Told{call, copy}, {}, std::move(owned));
}

void SimDriver::request_step(SimTime at) {
  at = std::max({at, busy_until_, engine_.now()});
  if (is_over_ || step_at_ <= at) return;
  step_at_ = at;
  owner_.schedule(who_, at, EventClass::Step, DriverOwner::Timer::Step, ++step_generation_);
}

void SimDriver::on_timer(DriverOwner::Timer timer, uint64_t argument) {
  if (is_over_) return;
  if (timer == DriverOwner::Timer::Disk) return disk_done(argument);
  if (argument != step_generation_) return;
  step_at_ = SimTime::never();
  if (!is_paused_) run_step();
}

void SimDriver::pause(bool is_now_paused) {
  is_paused_ = is_now_paused;
  if (!is_paused_) request_step(engine_.now());
}

void SimDriver::take_inputs() {
  const CpuProfile& cpu = engine_.profile.cpu;
  uint64_t count = std::min<uint64_t>(inbox_.size(), cpu.batch_inputs_max);
  if (cpu.is_batch_drawn && count > 1) count = batch_draws_.log_between(1, count);
  inputs_.clear();
  taken_.clear();
  for (uint64_t i = 0; i < count; ++i) {
    taken_.push_back(std::move(inbox_.front()));
    inbox_.pop_front();
  }
  for (Queued& queued : taken_) {
    if (auto* received = std::get_if<Received>(&queued.input)) received->bytes = queued.bytes;
    if (auto* contents = std::get_if<Read>(&queued.input); contents != nullptr && contents->contents) *contents->contents = queued.bytes;
    engine_.mix(digest(queued.input));
    if (queued.digest != 0) engine_.mix(queued.digest);
    engine_.tell_observers([&](WorldObserver& o) { o.on_input(engine_.world, who_, queued.input); });
    const size_t kind = queued.input.index();
    std::visit([&](const auto& i) { if constexpr (requires { i.ticket; }) redeem(i.ticket, kind); }, queued.input);
    if (const auto* closed = std::get_if<Closed>(&queued.input)) conns_.erase(closed->conn);
    inputs_.push_back(std::move(queued.input));
  }
}

void SimDriver::redeem(Ticket ticket, size_t input_kind) {
  const auto found = tickets_.find(ticket);
  if (found == tickets_.end() || found->second != input_kind) return fail(fmt::format("ticket {:x} redeemed by input kind {}", ticket.value(), input_kind));
  tickets_.erase(found);
  const auto pinned = pinned_by_.extract(ticket);
  if (!pinned.empty()) {
    for (const FileId file : pinned.mapped()) unpin(file);
  }
}

void SimDriver::run_step() {
  const SimTime now = engine_.now();
  engine_.mix(static_cast<uint64_t>(now.ns));
  engine_.mix(uint64_t{who_.node.value()} << 32 | who_.life);
  take_inputs();
  const Moment moment = host_.clock.moment(now);
  CrashContext& context = crash_context();
  context.step = trace_.step() + 1;
  context.seed = engine_.seed.value;
  context.node = name_.c_str();
  trace_.begin_step(moment);
  outbox_.clear();
  is_in_step_ = true;
  node_->step(moment, inputs_, outbox_);
  is_in_step_ = false;
  engine_.mix(trace_.step_hash());
  if (trace_.step() % kUndeclaredEvery == 0) check_undeclared();
  if (crashing_) return finish_crash();
  if (outbox_.halted() != nullptr) {
    engine_.mix(outbox_.halted()->text());
    is_over_ = true;
    const Error why = *outbox_.halted();
    return owner_.on_halted(who_, why);
  }
  if (!carry_out()) return;
  if (outbox_.is_stopped()) {
    is_over_ = true;
    return owner_.on_stopped(who_);
  }
  if (outbox_.wants_step_again() || !inbox_.empty()) request_step(busy_until_);
  const Monotonic deadline = node_->next_deadline();
  if (deadline != Monotonic::never()) request_step(host_.clock.when(deadline));
}

// Answers false when a crash point was met on the way.
bool SimDriver::carry_out() {
  const CpuProfile& cpu = engine_.profile.cpu;
  const int64_t work = cpu.step.ns + cpu.input.ns * static_cast<int64_t>(inputs_.size() + outbox_.requests().size());
  const Duration cost{(work + static_cast<int64_t>(cost_draws_.below(static_cast<uint64_t>(work) / 2 + 1))) * account_.cpu_factor};
  busy_until_ = engine_.now() + cost;
  for (const Request& request : outbox_.requests()) {
    engine_.mix(digest(request, outbox_));
    const CallOf call = call_of(request, outbox_);
    if (call.kind == CallKind::Any) {
      start(request, cost);
      continue;
    }
    const OpenFile* open = open_at(call.file);
    const std::string path = open != nullptr ? open->path : std::string(call.path);
    const uint64_t nth = count_call({who_, engine_.now(), 0, call.kind, call.file, path, call.range, call.conn, call.bytes});
    if (!is_crashing(call.kind, nth)) {
      start(request, cost);
      continue;
    }
    KeyedStream begun(engine_.seed, Domain::CrashWords, mix64(who_.node.value(), nth));
    if (begun.chance({1, 2})) start(request, cost);
    finish_crash();
    return false;
  }
  run_deferred();
  return true;
}

uint64_t SimDriver::count_call(const IoCall& call) {
  IoCall counted = call;
  counted.nth = ++account_.calls;
  const uint64_t of_kind = ++account_.calls_of[static_cast<size_t>(call.kind)];
  engine_.tell_observers([&](WorldObserver& o) { o.on_call(engine_.world, counted); });
  owner_.on_call_counted(who_, call.kind, of_kind);
  return counted.nth;
}

bool SimDriver::is_crashing(CallKind kind, uint64_t nth) {
  if (account_.crash_points.empty()) return false;
  const auto found = account_.crash_points.find(nth);
  if (found == account_.crash_points.end()) return false;
  crashing_ = found->second;
  account_.crash_points.erase(found);
  engine_.mix(static_cast<uint64_t>(kind));
  return true;
}

// --- memory ---------------------------------------------------------------------------------------------------------------------------

void SimDriver::on_writable(MappedFile& file, Range range) {
  const FileId id(file.serial());
  OpenFile& open = *open_at(id);
  if (!is_in_step_) fail(fmt::format("writable [{}, {}) of {} outside of a step", range.begin, range.end, open.path));
  if (!host_.disk.is_allocated(open.inode, range)) fail(fmt::format("store to blocks of {} that were never prepared: [{}, {})", open.path, range.begin, range.end));
  if (open.slices > 0) check_slices(id, range, "store");
  check_prepares(id, range);
  open.warm.add(range);
  const auto copy_now = [&](FileId which, Range r) {
    const uint8_t* base = DriverAccess::base(files_.at(which));
    return std::vector<uint8_t>(base + r.begin, base + r.end);
  };
  if (crashing_) {
    // Everything from here on never happened. First, what the crash leaves of the range it fell into: all its stores are done now.
    if (!crash_after_) crash_after_ = copy_now(crash_range_.file, crash_range_.range);
    undo_.push_back({id, range, copy_now(id, range)});
  }
  host_.disk.note_store(open.inode, range);
  if (crashing_) return;
  const uint64_t nth = count_call({who_, engine_.now(), 0, CallKind::Writable, id, open.path, range, {}, range.size()});
  if (is_crashing(CallKind::Writable, nth)) {
    crash_range_ = {id, range, copy_now(id, range)};
    crash_after_.reset();
    undo_.clear();
    crash_report_ = {};
  }
}

void SimDriver::check_prepares(FileId file, Range range) {
  for (const auto& [id, operation] : operations_) {
    const auto* prepare = std::get_if<request::Prepare>(&operation.request);
    if (prepare == nullptr || prepare->file != file || prepare->range.begin >= range.end || range.begin >= prepare->range.end) continue;
    return fail(fmt::format("store to [{}, {}) of file {}, whose preparation is not done", range.begin, range.end, file));
  }
}

void SimDriver::check_undeclared() {
  if (const auto place = host_.disk.undeclared_store()) fail(fmt::format("{} changed at {} without writable()", place->path, place->offset));
}

void SimDriver::on_view(const MappedFile& file, Range range) {
  const OpenFile& open = *open_at(FileId(file.serial()));
  if (!open.warm.contains(range)) fail(fmt::format("view of [{}, {}) of {}, which is neither prepared nor warm", range.begin, range.end, open.path));
}

// The step is over. If the crash fell into a writable() of it, memory goes back to that moment, with a random subset of the words that
// were being stored.
void SimDriver::finish_crash() {
  is_over_ = true;
  const CrashPoint point = *crashing_;
  const MappedFile* hit = crash_range_.range.empty() ? nullptr : files_.find(crash_range_.file);
  if (hit != nullptr) {
    uint8_t* base = DriverAccess::base(files_.at(crash_range_.file));
    const Range range = crash_range_.range;
    if (!crash_after_) crash_after_.emplace(base + range.begin, base + range.end);
    for (auto it = undo_.rbegin(); it != undo_.rend(); ++it) {
      std::memcpy(DriverAccess::base(files_.at(it->file)) + it->range.begin, it->before.data(), it->before.size());
    }
    KeyedStream words(engine_.seed, Domain::CrashWords, mix64(mix64(who_.node.value(), point.nth), 1));
    const uint64_t shape = words.below(5);  // none, few, half, most, a prefix
    const uint64_t cut = words.below(range.size() / 8 + 2);
    uint64_t index = 0;
    for (uint64_t at = range.begin; at < range.end; ++index) {
      const uint64_t next = std::min(range.end, (at / 8 + 1) * 8);
      const bool is_kept = shape == 4 ? index < cut : shape != 0 && words.chance({static_cast<uint32_t>(shape == 1 ? 1 : shape == 2 ? 8 : 15), 16});
      const std::vector<uint8_t>& from = is_kept ? *crash_after_ : crash_range_.before;
      const uint64_t offset = at - range.begin;
      if (std::memcmp(crash_after_->data() + offset, crash_range_.before.data() + offset, next - at) != 0) {
        ++(is_kept ? crash_report_.words_kept : crash_report_.words_lost);
      }
      std::memcpy(base + at, from.data() + offset, next - at);
      at = next;
    }
    engine_.faults.fired(FaultClass::KillInStep, !undo_.empty() || crash_report_.words_lost > 0);
    if (crash_report_.words_lost > 0) engine_.faults.fired(FaultClass::TornWords, crash_report_.words_kept > 0);
  }
  owner_.on_crash_point(who_, point, crash_report_);
}

void SimDriver::on_event(const TraceRecord& record) {
  if (crashing_) return;  // what the node says after its death is not heard
  engine_.tell_observers([&](WorldObserver& o) { o.on_trace(engine_.world, who_, record); });
  if (!account_.is_event_watched) return;
  const uint64_t nth = ++account_.events_of[record.info->id];
  owner_.on_event_counted(who_, record.info->id, nth);
}

}  // namespace fulmar::sim
