// fulmar store verify / dump (repair, rebuild, export: store_change.cc): offline reading of a store directory, also one written by Apache RocketMQ. Nothing is changed.

#include <fmt/format.h>

#include <cstdio>
#include <cstring>

#include "cmd/fulmar/program.h"
#include "cmd/fulmar/store_files.h"
#include "core/store/meta.h"
#include "core/store/record_search.h"

namespace fulmar::cmd {

namespace {

constexpr size_t kSearchWindow = 1u << 20;

struct StoreOptions {
  std::string root;
  uint64_t from = 0, count = 0;
  bool is_json = false, is_queues = false;
};

// What the walk over the log found out.
struct LogWalk {
  uint64_t records = 0, bytes = 0, end = 0;
  std::vector<std::string> faults, notes;
  // By topic and queue: queue offset -> physical offset and size of the record.
  std::map<std::pair<std::string, int32_t>, std::map<int64_t, std::pair<uint64_t, uint32_t>>> queues;
  // First offset behind what the deletion of a topic took out of sight; no entry need stand below it.
  std::map<std::pair<std::string, int32_t>, int64_t> retired;
};

bool is_dispatched(const RecordView& r) {
  const uint32_t kind = r.message.sys_flag & sys_flag::kTransactionMask;
  return kind == 0 || kind == sys_flag::kCommit;
}

// The next good record at or behind `from`, below `limit`.
std::optional<uint64_t> next_good(const StoreFiles& store, uint64_t from, uint64_t limit) {
  uint64_t wanted = 0, looked_to = from;
  for (uint64_t at = from; at < limit;) {
    if (at >= looked_to) {
      at = store.next_data(at);
      if (at >= limit) break;
      looked_to = at + kSearchWindow;
    }
    const Bytes bytes = store.at(at);
    if (bytes.size() < kRecordBytesMin) {
      at += std::max<size_t>(bytes.size(), 1);
      continue;
    }
    // Window by window, so that holes are passed over; store.at() reaches to the end of its file.
    const SearchStep step = search_window(bytes.first(std::min(bytes.size(), std::max<size_t>(kSearchWindow, wanted))), at, at + bytes.size());
    if (step.is_found) return step.at;
    at = step.at;
    wanted = step.wanted;
  }
  return {};
}

LogWalk walk_log(const StoreFiles& store) {
  LogWalk walk;
  uint64_t at = store.begin();
  const uint64_t flushed = store.checkpoint ? store.checkpoint->flushed.value() : 0;
  while (at < store.limit()) {
    const Bytes bytes = store.at(at);
    const ParsedRecord parsed = parse_record(bytes, PhysicalOffset(at), Verify::Checksums);
    if (parsed.kind == RecordKind::Message) {
      ++walk.records;
      const RecordView& r = parsed.record;
      if (is_dispatched(r)) {
        auto& queue = walk.queues[{std::string(r.message.topic), r.message.queue_id.value()}];
        const auto [it, is_new] = queue.emplace(r.place.queue.value(), std::pair(at, parsed.bytes));
        if (!is_new) walk.faults.push_back(fmt::format("queue offset {} of {} {} is given twice: at {} and at {}", r.place.queue, r.message.topic, r.message.queue_id, it->second.first, at));
      }
      if (r.message.topic == kMetaTopic)
        for_each_removal(r.message.body, [&](std::string_view topic, int32_t queue, QueueOffset next) {
          int64_t& first = walk.retired[{std::string(topic), queue}];
          first = std::max(first, next.value());
        });
      at += parsed.bytes;
    } else if (parsed.kind == RecordKind::Filler && parsed.bytes == bytes.size()) {
      at += parsed.bytes;
    } else {
      const char* why = parsed.kind == RecordKind::Nothing ? "zeros" : parsed.kind == RecordKind::Filler ? "filler length" : parsed.why;
      // Nothing was ever stored behind the append limit: a recycled segment ahead shows its earlier life there.
      const uint64_t limit = store.checkpoint ? std::min(store.limit(), std::max(store.checkpoint->append_limit.value(), flushed)) : store.limit();
      const std::optional<uint64_t> good = next_good(store, at + 1, limit);
      if (!store.checkpoint && good) {
        // Records of earlier life stand behind a torn tail, and behind damage: without the flushed offset nobody can tell which it is.
        walk.faults.push_back(fmt::format("no record at {} ({}), and good ones from {} on: damage or a torn tail, which cannot be told without the checkpoint of this store. "
                                          "A start may cut the log there; bring the checkpoint back, or keep a copy of the directory first",
                                          at, why, *good));
      } else if (at < flushed || (good && *good < flushed)) {
        walk.faults.push_back(fmt::format("log damaged at {} ({}), the next good record is at {}", at, why, good ? fmt::format("{}", *good) : "none"));
        if (good) {
          at = *good;
          continue;
        }
      } else if (good) {
        walk.notes.push_back(fmt::format("torn tail: the log ends at {} ({}), records behind it up to {} were never known to be flushed; a start cuts them", at, why, store.limit()));
      } else if (parsed.kind != RecordKind::Nothing) {
        walk.notes.push_back(fmt::format("torn tail: the log ends at {} ({}); a start cuts it{}", at, why, store.checkpoint ? "" : ". Without a checkpoint it may also be damage of the last record"));
      }
      break;
    }
  }
  walk.end = at;
  walk.bytes = at - store.begin();
  if (at < flushed) walk.faults.push_back(fmt::format("the log ends at {}, but {} bytes were flushed", at, flushed));
  return walk;
}

// Every entry of a record below `derived` must be there and name its record; whatever else stands in the files a start drops.
void verify_queues(const StoreFiles& store, LogWalk& walk) {
  const uint64_t derived = store.checkpoint ? std::min(store.checkpoint->derived.value(), walk.end) : 0;
  // Segments below are on their way out: queues and index need not know them any more.
  const uint64_t begin = store.checkpoint ? store.checkpoint->log_begin.value() : 0;
  for (const auto& [key, offsets] : walk.queues) {
    int64_t expected = -1;
    for (const auto& [offset, place] : offsets) {
      if (expected >= 0 && offset != expected) walk.faults.push_back(fmt::format("queue {} {} has no record for offsets [{}, {})", key.first, key.second, expected, offset));
      expected = offset + 1;
      if (place.first < begin || place.first >= derived) continue;
      if (const auto gone = walk.retired.find(key); gone != walk.retired.end() && offset < gone->second) continue;
      const auto files = store.queues.find(key);
      std::optional<QueueEntry> entry;
      if (files != store.queues.end())
        for (const QueueFile& file : files->second) {
          const uint64_t byte = static_cast<uint64_t>(offset) * kQueueEntryBytes;
          if (byte >= file.start && byte + kQueueEntryBytes <= file.start + file.file.bytes().size()) entry = decode_queue_entry(file.file.bytes().subspan(byte - file.start, kQueueEntryBytes));
        }
      if (!entry) walk.faults.push_back(fmt::format("queue {} {} has no entry {} although its record at {} was derived (to {})", key.first, key.second, offset, place.first, derived));
      else if (entry->at.value() != place.first || entry->bytes != place.second)
        walk.faults.push_back(fmt::format("entry {} of queue {} {} names {} ({} bytes), the record is at {} ({} bytes)", offset, key.first, key.second, entry->at, entry->bytes, place.first, place.second));
      if (walk.faults.size() > 100) return;
    }
  }
}

void verify_index(const StoreFiles& store, LogWalk& walk) {
  for (const IndexFileFound& file : store.index) {
    Reader r(file.file.bytes());
    r.skip(32);
    const uint32_t slots_used = r.u32(), count = r.u32();
    (void)slots_used;
    if (40 + uint64_t{count} * 20 > file.file.bytes().size()) walk.faults.push_back(fmt::format("index file {} counts {} entries, more than it can hold", file.name, count));
  }
}

int verify(const StoreOptions& options) {
  std::vector<std::string> oddities;
  Result<StoreFiles> store = StoreFiles::open(options.root, oddities);
  if (!store) return complain(kFailed, store.error().detail);
  if (store->checkpoint && store->checkpoint->version > kStoreVersion)
    return complain(kFailed, fmt::format("the store has version {}, this program knows versions up to {}", store->checkpoint->version, kStoreVersion));
  LogWalk walk = walk_log(*store);
  verify_queues(*store, walk);
  verify_index(*store, walk);
  for (const std::string& oddity : oddities) (oddity.starts_with("gap") ? walk.faults : walk.notes).push_back(oddity);
  if (options.is_json) {
    std::string faults, notes;
    for (const std::string& f : walk.faults) faults += (faults.empty() ? "" : ",") + json_text(f);
    for (const std::string& n : walk.notes) notes += (notes.empty() ? "" : ",") + json_text(n);
    say("{{\"clean\":{},\"records\":{},\"queues\":{},\"begin\":{},\"end\":{},\"flushed\":{},\"derived\":{},\"faults\":[{}],\"notes\":[{}]}}\n", walk.faults.empty(), walk.records, walk.queues.size(),
               store->begin(), walk.end, store->checkpoint ? store->checkpoint->flushed.value() : 0, store->checkpoint ? store->checkpoint->derived.value() : 0, faults, notes);
  } else {
    for (const std::string& note : walk.notes) say("note: {}\n", note);
    for (const std::string& fault : walk.faults) say("FAULT: {}\n", fault);
    say("{}: {} records in {} queues, log [{}, {}), {}\n", options.root, walk.records, walk.queues.size(), store->begin(), walk.end, walk.faults.empty() ? "clean" : fmt::format("{} faults", walk.faults.size()));
  }
  return walk.faults.empty() ? kDone : kFailed;
}

void dump_record(const RecordView& r, bool is_json) {
  const Message& m = r.message;
  const std::string_view tags = property::find(m.properties, property::kTags).value_or(""), keys = property::find(m.properties, property::kKeys).value_or("");
  const std::string_view unique = property::find(m.properties, property::kUniqueKey).value_or("");
  if (is_json)
    say("{{\"physicalOffset\":{},\"size\":{},\"topic\":{},\"queueId\":{},\"queueOffset\":{},\"storeTimestamp\":{},\"bornTimestamp\":{},\"bornHost\":\"{}\",\"sysFlag\":{},\"flag\":{},\"tags\":{},"
               "\"keys\":{},\"uniqKey\":{},\"bodyBytes\":{},\"body\":{}}}\n",
               r.place.physical, r.total_bytes, json_text(m.topic), m.queue_id, r.place.queue, r.place.stored.ms, m.born.ms, m.born_host.text(), m.sys_flag, m.flag, json_text(tags), json_text(keys),
               json_text(unique), m.body.size(), json_text(as_text(m.body.first(std::min<size_t>(m.body.size(), 200)))));
  else
    say("{:>12} {:>7} {} {} offset {} stored {} tags '{}' keys '{}' body {} bytes\n", r.place.physical, r.total_bytes, m.topic, m.queue_id, r.place.queue, r.place.stored.ms, tags, keys, m.body.size());
}

int dump(const StoreOptions& options) {
  std::vector<std::string> oddities;
  Result<StoreFiles> store = StoreFiles::open(options.root, oddities);
  if (!store) return complain(kFailed, store.error().detail);
  if (options.is_queues) {
    for (const auto& [key, files] : store->queues)
      for (const QueueFile& file : files)
        for (uint64_t at = 0; at + kQueueEntryBytes <= file.file.bytes().size(); at += kQueueEntryBytes) {
          const QueueEntry entry = decode_queue_entry(file.file.bytes().subspan(at, kQueueEntryBytes));
          if (entry.bytes == 0) continue;
          say("{} {} entry {} -> {} ({} bytes) tags code {}\n", key.first, key.second, (file.start + at) / kQueueEntryBytes, entry.at, entry.bytes, entry.tag_code);
        }
    return kDone;
  }
  uint64_t at = std::max(options.from, store->begin()), shown = 0;
  while (at < store->limit() && (options.count == 0 || shown < options.count)) {
    const Bytes bytes = store->at(at);
    const ParsedRecord parsed = parse_record(bytes, PhysicalOffset(at), Verify::Checksums);
    if (parsed.kind == RecordKind::Message) {
      dump_record(parsed.record, options.is_json);
      ++shown;
      at += parsed.bytes;
    } else if (parsed.kind == RecordKind::Filler && parsed.bytes == bytes.size()) {
      at += parsed.bytes;
    } else if (parsed.kind == RecordKind::Nothing) {
      break;
    } else {
      return complain(kFailed, fmt::format("no record at {}: {}", at, parsed.kind == RecordKind::Filler ? "filler length" : parsed.why));
    }
  }
  return kDone;
}

}  // namespace

void add_store(CLI::App& app, Run& run) {
  CLI::App* noun = app.add_subcommand("store", "offline work on a store directory");
  noun->require_subcommand(1);
  auto options = std::make_shared<StoreOptions>();
  CLI::App* check = noun->add_subcommand("verify", "check every record, queue entry and index file; exit 1 when anything is wrong");
  check->add_option("directory", options->root, "store directory (storePathRootDir)")->required();
  check->add_flag("--json", options->is_json, "JSON");
  check->callback([options, &run] { run = [options] { return verify(*options); }; });
  add_store_changes(noun, run);
  CLI::App* show = noun->add_subcommand("dump", "print the records of the commit log, or the entries of the queues");
  show->add_option("directory", options->root, "store directory (storePathRootDir)")->required();
  show->add_option("--from", options->from, "physical offset of a record to begin at");
  show->add_option("--count", options->count, "at most so many records");
  show->add_flag("--queues", options->is_queues, "the entries of the consume queues instead");
  show->add_flag("--json", options->is_json, "one JSON object a record");
  show->callback([options, &run] { run = [options] { return dump(*options); }; });
}

}  // namespace fulmar::cmd
