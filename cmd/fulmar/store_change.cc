// fulmar store repair / rebuild / export: offline work that changes a store, or makes one that a Java broker opens.

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "cmd/fulmar/program.h"
#include "cmd/fulmar/progress.h"
#include "cmd/fulmar/served_node.h"
#include "cmd/fulmar/server_config.h"
#include "cmd/fulmar/store_files.h"
#include "core/store/record_search.h"
#include "net/host.h"

namespace fulmar::cmd {

namespace {

namespace fs = std::filesystem;

struct ChangeOptions {
  ServeOptions serve;
  std::string root, target;
  bool is_dry_run = false, is_yes = false, is_quiet = false;
};

// Nobody else may have the store while it is changed. Nothing: it has been told.
std::optional<net::StoreLock> lock_store(const std::string& root) {
  if (!fs::is_directory(root + "/commitlog")) {
    complain(kFailed, fmt::format("{} is not a store: it has no commitlog directory", root));
    return {};
  }
  Result<net::StoreLock> lock = net::StoreLock::take(root);
  if (lock) return std::move(*lock);
  complain(kFailed, fmt::format("{}; stop it first", lock.error().detail.empty() ? lock.error().text() : lock.error().detail));
  return {};
}

// --- rebuild ------------------------------------------------------------------------------------------------------------------------------

// A broker that nobody is told of builds what is missing, and stops in order.
int build_missing(const BrokerConfig& config, bool is_quiet) {
  ServedNode node("rebuild", NodeKind::Broker, serialise(config), Level::Warning, "BrokerListening", "BrokerServing");
  node.start();
  Progress progress(is_quiet);
  for (int seconds = 0; !node.wait_until_serving(1000);) {
    if (node.has_ended()) return complain(kFailed, "cannot build: " + node.join().error.text());
    progress.show(fmt::format("building for {} s", ++seconds));
  }
  node.request_stop(Duration::seconds(600));
  const net::Outcome outcome = node.join();
  progress.end();
  if (outcome.kind != net::Outcome::Kind::Stopped) return complain(kFailed, "built, but not stopped in order: " + outcome.error.text());
  return kDone;
}

int rebuild(const ChangeOptions& o) {
  std::optional<BrokerConfig> config = read_broker_config(o.serve);
  if (!config) return kUsage;
  const std::optional<net::StoreLock> lock = lock_store(o.root);
  if (!lock) return kFailed;
  config->store_path = o.root;
  config->name_servers.clear();
  config->listen_host = "127.0.0.1";
  config->listen_port = 0;
  config->queue_round_cost_us = 0;   // its stop writes all of them
  const std::vector<std::string> derived = {o.root + "/queues.fulmar", o.root + "/consumequeue", o.root + "/index"};
  if (o.is_dry_run) {
    for (const std::string& path : derived) say("would remove {} and build it again from the log\n", path);
    return kDone;
  }
  if (!is_confirmed(o.is_yes, fmt::format("Remove queues and index of {} and build them again from the log?", o.root))) return complain(kFailed, "not rebuilt");
  for (const std::string& path : derived) {
    std::error_code error;
    fs::remove_all(path, error);
    if (error) return complain(kFailed, fmt::format("cannot remove {}: {}", path, error.message()));
  }
  if (const int status = build_missing(*config, o.is_quiet); status != kDone) return status;
  say("queues and index of {} are built again\n", o.root);
  return kDone;
}

// --- repair -------------------------------------------------------------------------------------------------------------------------------

// Where the log stops being whole, and what stands behind.
struct Damage { uint64_t at = 0, good_at = 0, lost_records = 0, end = 0; std::string why; };

std::optional<Damage> find_damage(const StoreFiles& store) {
  for (uint64_t at = store.begin(); at < store.limit();) {
    const Bytes bytes = store.at(at);
    const ParsedRecord parsed = parse_record(bytes, PhysicalOffset(at), Verify::Checksums);
    if (parsed.kind == RecordKind::Message || (parsed.kind == RecordKind::Filler && parsed.bytes == bytes.size())) {
      at += parsed.bytes;
      continue;
    }
    Damage damage;
    damage.at = damage.end = at;
    damage.why = parsed.kind == RecordKind::Nothing ? "zeros" : parsed.kind == RecordKind::Filler ? "filler length" : parsed.why;
    for (uint64_t next = at + 1; next < store.limit();) {
      const Bytes rest = store.at(next);
      if (rest.size() < kRecordBytesMin) {
        next += std::max<size_t>(rest.size(), 1);
        continue;
      }
      const SearchStep step = search_window(rest, next, next + rest.size());
      next = step.at;
      if (!step.is_found) continue;
      if (damage.good_at == 0) damage.good_at = step.at;
      ++damage.lost_records;
      damage.end = next = step.at + step.parsed.bytes;
    }
    if (damage.good_at == 0 && parsed.kind == RecordKind::Nothing) return {};   // the end of the log, as it should be
    return damage;
  }
  return {};
}

Result<void> write_zeros(int fd, uint64_t from, uint64_t to, const std::string& path) {
  const std::vector<uint8_t> zeros(1u << 20);
  while (from < to) {
    const size_t bytes = static_cast<size_t>(std::min<uint64_t>(zeros.size(), to - from));
    const ssize_t written = pwrite(fd, zeros.data(), bytes, static_cast<off_t>(from));
    if (written < 0 && errno != EINTR) return Error(Errc::IoFailed, fmt::format("cannot write {}: {}", path, std::strerror(errno)));
    from += written > 0 ? static_cast<uint64_t>(written) : 0;
  }
  return {};
}

// Zeroes the log from `at` on: last files first, so that a repair that is cut short has left damage, not a gap.
Result<void> cut_log(const std::string& root, const StoreFiles& store, uint64_t at) {
  for (auto file = store.log.rbegin(); file != store.log.rend() && file->end() > at; ++file) {
    const std::string path = fmt::format("{}/commitlog/{:020}", root, file->start);
    if (file->start > at) {
      if (unlink(path.c_str()) != 0) return Error(Errc::IoFailed, fmt::format("cannot remove {}: {}", path, std::strerror(errno)));
      continue;
    }
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) return Error(Errc::IoFailed, fmt::format("cannot open {}: {}", path, std::strerror(errno)));
    Result<void> outcome = write_zeros(fd, at - file->start, file->end() - file->start, path);
    if (outcome && fsync(fd) != 0) outcome = Error(Errc::IoFailed, fmt::format("cannot flush {}: {}", path, std::strerror(errno)));
    close(fd);
    if (!outcome) return outcome;
  }
  return net::sync_directory(root + "/commitlog");
}

int repair(const ChangeOptions& o) {
  std::vector<std::string> oddities;
  const std::optional<net::StoreLock> lock = lock_store(o.root);
  if (!lock) return kFailed;
  Result<StoreFiles> store = StoreFiles::open(o.root, oddities);
  if (!store) return complain(kFailed, store.error().detail);
  for (const std::string& oddity : oddities)
    if (oddity.starts_with("gap")) return complain(kFailed, oddity + "; bring the missing file back, or move the files behind the gap away");
  const std::optional<Damage> damage = find_damage(*store);
  if (!damage) {
    say("{}: the log is whole; nothing to repair\n", o.root);
    return kDone;
  }
  const std::string found = fmt::format("the log is damaged at {} ({}); {}", damage->at, damage->why,
                                        damage->good_at == 0 ? "no good record follows" : fmt::format("{} good records follow, from {} to {}", damage->lost_records, damage->good_at, damage->end));
  if (o.is_dry_run) {
    say("{}\nwould cut the log at {}: {} records behind the damage would be lost; `fulmar store dump {} --from {} --json` shows them\n", found, damage->at, damage->lost_records, o.root, damage->good_at);
    return kDone;
  }
  complain(kDone, found);
  if (damage->lost_records > 0)
    complain(kDone, "a broker on this store as it is serves all that is whole, read-only; cutting is for when nothing better is left (a copy, a replica). Keep a copy of the directory");
  if (!is_confirmed(o.is_yes, fmt::format("Cut the log at {} and lose {} records behind it?", damage->at, damage->lost_records))) return complain(kFailed, "not repaired");
  // What is derived goes first: it may name what is cut, and is built again.
  for (const char* name : {"/checkpoint", "/queues.fulmar", "/consumequeue", "/index"}) {
    std::error_code error;
    fs::remove_all(o.root + name, error);
    if (error) return complain(kFailed, fmt::format("cannot remove {}{}: {}", o.root, name, error.message()));
  }
  if (const auto cut = cut_log(o.root, *store, damage->at); !cut) return complain(kFailed, cut.error().detail);
  say("{}: the log ends at {} now; {} records were lost. The next start builds queues and index\n", o.root, damage->at, damage->lost_records);
  return kDone;
}

// --- export -------------------------------------------------------------------------------------------------------------------------------

// Copies [0, bytes) of a file into a new one of the same length; what is zero stays a hole.
Result<void> copy_sparse(Bytes from, uint64_t bytes, const std::string& to) {
  const int fd = open(to.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  const auto failed = [&to] { return Error(Errc::IoFailed, fmt::format("cannot write {}: {}", to, std::strerror(errno))); };
  if (fd < 0) return failed();
  Result<void> outcome;
  if (ftruncate(fd, static_cast<off_t>(from.size())) != 0) outcome = failed();
  constexpr uint64_t kBlock = 64 * 1024;
  for (uint64_t at = 0; at < bytes && outcome; at += kBlock) {
    const Bytes block = from.subspan(at, std::min(kBlock, bytes - at));
    if (std::all_of(block.begin(), block.end(), [](uint8_t b) { return b == 0; })) continue;
    if (pwrite(fd, block.data(), block.size(), static_cast<off_t>(at)) != static_cast<ssize_t>(block.size())) outcome = failed();
  }
  if (outcome && fsync(fd) != 0) outcome = failed();
  close(fd);
  return outcome;
}

Result<void> copy_store(const ChangeOptions& o, const StoreFiles& store) {
  Progress progress(o.is_quiet);
  std::error_code error;
  for (const char* folder : {"/commitlog", "/index", "/config"}) fs::create_directories(o.target + folder, error);
  const uint64_t end = store.checkpoint->flushed.value();
  for (const LogFile& file : store.log) {
    if (progress.is_due()) progress.show(fmt::format("copying the log: {} of {} bytes", file.start - store.begin(), end - store.begin()));
    const uint64_t used = std::min<uint64_t>(file.file.bytes().size(), end - std::min(end, file.start));
    if (used == 0 && file.start > store.begin()) continue;   // made ahead, holds nothing
    FULMAR_TRY_VOID(copy_sparse(file.file.bytes(), used, fmt::format("{}/commitlog/{:020}", o.target, file.start)));
  }
  for (const auto& [key, files] : store.queues) {
    const std::string folder = fmt::format("{}/consumequeue/{}/{}", o.target, key.first, key.second);
    fs::create_directories(folder, error);
    for (const QueueFile& file : files) FULMAR_TRY_VOID(copy_sparse(file.file.bytes(), file.file.bytes().size(), fmt::format("{}/{:020}", folder, file.start)));
    if (progress.is_due()) progress.show(fmt::format("copying queues: {} {}", key.first, key.second));
  }
  for (const IndexFileFound& file : store.index) FULMAR_TRY_VOID(copy_sparse(file.file.bytes(), file.file.bytes().size(), o.target + "/index/" + file.name));
  for (const char* name : {"topics.json", "consumerOffset.json", "subscriptionGroup.json"}) {
    const std::string from = o.root + "/config/" + name;
    if (fs::exists(from)) fs::copy_file(from, o.target + "/config/" + name, fs::copy_options::overwrite_existing, error);
    if (error) return Error(Errc::IoFailed, fmt::format("cannot copy {}: {}", from, error.message()));
  }
  // RocketMQ's own three stamps stand first; what follows is ours.
  const Result<ReadOnlyFile> page = ReadOnlyFile::open(o.root + "/checkpoint");
  if (!page) return page.error();
  return copy_sparse(page->bytes(), 24, o.target + "/checkpoint");
}

int export_store(const ChangeOptions& o) {
  std::vector<std::string> oddities;
  const std::optional<net::StoreLock> lock = lock_store(o.root);
  if (!lock) return kFailed;
  Result<StoreFiles> store = StoreFiles::open(o.root, oddities);
  if (!store) return complain(kFailed, store.error().detail);
  if (store->has_abort || !store->checkpoint || !store->checkpoint->is_clean)
    return complain(kFailed, fmt::format("{} was not stopped in order: start the broker on it and stop it, so that everything is written (`fulmar store rebuild` does, however many the queues)", o.root));
  std::error_code error;
  if (fs::exists(o.target, error) && !fs::is_empty(o.target, error)) return complain(kFailed, fmt::format("{} is not empty", o.target));
  if (o.is_dry_run) {
    say("would copy {} (log [{}, {}), {} queues) to {}\n", o.root, store->begin(), store->checkpoint->flushed, store->queues.size(), o.target);
    return kDone;
  }
  if (const auto copied = copy_store(o, *store); !copied) return complain(kFailed, copied.error().detail);
  say("{}: log [{}, {}), {} queues, for a Java broker: storePathRootDir={}\n", o.target, store->begin(), store->checkpoint->flushed, store->queues.size(), o.target);
  return kDone;
}

CLI::App* add_verb(CLI::App* noun, const char* name, const char* text, const std::shared_ptr<ChangeOptions>& options, int (*body)(const ChangeOptions&), Run& run) {
  CLI::App* verb = noun->add_subcommand(name, text);
  verb->add_option("directory", options->root, "store directory (storePathRootDir)")->required();
  verb->add_flag("--dry-run", options->is_dry_run, "say what would happen");
  verb->callback([options, body, &run] { run = [options, body] { return body(*options); }; });
  return verb;
}

}  // namespace

void add_store_changes(CLI::App* store, Run& run) {
  auto options = std::make_shared<ChangeOptions>();
  CLI::App* again = add_verb(store, "rebuild", "remove queues and index and build them again from the log", options, rebuild, run);
  again->add_option("-c,--config", options->serve.config_file, "the broker's properties file: its file sizes are used");
  again->add_option("--set", options->serve.sets, "key=value, over the file; may be repeated");
  again->add_flag("--quiet", options->is_quiet, "no progress");
  again->add_flag("--yes", options->is_yes, "do not ask");
  CLI::App* mend = add_verb(store, "repair", "cut a damaged log at its first damage, so that it takes messages again; what stands behind is lost", options, repair, run);
  mend->add_flag("--yes", options->is_yes, "do not ask");
  CLI::App* copy = add_verb(store, "export", "copy a store that was stopped in order into one that a Java broker opens", options, export_store, run);
  copy->add_option("target", options->target, "a new or empty directory")->required();
  copy->add_flag("--quiet", options->is_quiet, "no progress");
}

}  // namespace fulmar::cmd
