#include "sim/oracles/fsck.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "core/base/prng.h"

namespace fulmar::sim {
namespace {

constexpr std::string_view kSystemPrefix = "rmq_sys_";
constexpr size_t kProblemsMax = 8;

class Checker {
 public:
  Checker(const StoreFiles& files, const FsckOptions& options) : files_(files), options_(options) {}
  StoreReport run() {
    if (const auto it = files_.find(options_.root + "/checkpoint"); it != files_.end()) {
      if (const std::optional<CheckpointClaim> claim = read_checkpoint(it->second)) gone_to_ = claim->log_begin;
    }
    read_log();
    read_checkpoint_file();
    if (options_.is_clean || options_.is_claimed) {
      read_queues();
      read_index();
    }
    return std::move(report_);
  }

 private:
  void problem(std::string text) {
    if (report_.problems.size() < kProblemsMax) report_.problems.push_back(std::move(text));
  }
  // Files of a directory whose names are `digits` digits, in order of name.
  std::vector<std::pair<std::string, Bytes>> numbered(const std::string& directory, size_t digits) const {
    std::vector<std::pair<std::string, Bytes>> out;
    const std::string prefix = options_.root + "/" + directory + "/";
    for (auto it = files_.lower_bound(prefix); it != files_.end() && it->first.starts_with(prefix); ++it) {
      const std::string name = it->first.substr(prefix.size());
      const bool is_number = name.size() == digits && std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
      // A crash may leave the name of a file that was being made, without its length.
      if (is_number && !(options_.may_be_torn && it->second.empty())) out.emplace_back(name, it->second);
    }
    return out;
  }
  static uint64_t number(std::string_view text) {
    uint64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  }

  void read_log() {
    const auto segments = numbered("commitlog", 20);
    if (segments.empty()) return;
    report_.log_begin = report_.log_end = number(segments.front().first);
    for (const auto& [name, bytes] : segments) {
      const uint64_t base = number(name);
      if (base != report_.log_end) {
        if (is_ended_) return;   // files made ahead
        return problem(fmt::format("the log goes on at {} in file {}", report_.log_end, name));
      }
      if (!read_segment(base, bytes)) return;
    }
  }

  // True: the log goes on in the next file.
  bool read_segment(uint64_t base, Bytes bytes) {
    uint64_t at = 0;
    while (at + 8 <= bytes.size()) {
      const RecordOutcome outcome = read_stored_record(bytes.subspan(at));
      report_.log_end = base + at;
      switch (outcome.kind) {
        case RecordOutcome::Kind::Zeros: return is_ended_ = true, false;
        case RecordOutcome::Kind::Broken:
          if (!options_.may_be_torn) problem(fmt::format("log byte {}: {}", base + at, outcome.why));
          return is_ended_ = true, false;
        case RecordOutcome::Kind::Filler:
          if (outcome.filler_bytes != bytes.size() - at) {
            if (!options_.may_be_torn) problem(fmt::format("log byte {}: a filler of {} bytes where {} are left", base + at, outcome.filler_bytes, bytes.size() - at));
            return is_ended_ = true, false;
          }
          return report_.log_end = base + bytes.size(), true;
        case RecordOutcome::Kind::Record:
          if (options_.has_crc && outcome.record.user_properties().size() == outcome.record.properties.size()) {
            if (!options_.may_be_torn) problem(fmt::format("log byte {}: the record's checksum is missing", base + at));
            return is_ended_ = true, false;
          }
          if (static_cast<uint64_t>(outcome.record.physical) != base + at) {
            if (!options_.may_be_torn) problem(fmt::format("log byte {}: the record says that it stands at {}", base + at, outcome.record.physical));
            return is_ended_ = true, false;
          }
          add_record(outcome.record, bytes.subspan(at, outcome.record.bytes));
          at += outcome.record.bytes;
      }
    }
    report_.log_end = base + at;
    problem(fmt::format("the file that ends at log byte {} has no filler", base + bytes.size()));
    return false;
  }

  void add_record(const StoredRecord& r, Bytes bytes) {
    std::vector<LogRecord>& queue = report_.queues[{std::string(r.topic), r.queue_id}];
    if (!queue.empty() && queue.back().queue_offset + 1 != r.queue_offset) {
      problem(fmt::format("log byte {}: {}/{} goes from offset {} to {}", r.physical, r.topic, r.queue_id, queue.back().queue_offset, r.queue_offset));
    }
    if (r.stored_ms < newest_ms_) problem(fmt::format("log byte {}: stamped {}, after {}", r.physical, r.stored_ms, newest_ms_));
    newest_ms_ = std::max(newest_ms_, r.stored_ms);
    // Retention has let it go, and its file is about to be removed.
    if (static_cast<uint64_t>(r.physical) < gone_to_) return;
    if (r.topic == "rmq_sys_fulmar_meta") read_meta(r.body);
    LogRecord record;
    record.physical = static_cast<uint64_t>(r.physical);
    record.bytes = r.bytes;
    record.queue_offset = r.queue_offset;
    record.crc = plain_crc32(bytes);
    if (const auto tags = r.property("TAGS")) {
      const std::optional<int32_t> code = ascii_hash(*tags);
      record.has_tag_code = code.has_value();
      record.tag_code = code.value_or(0);
    }
    if (const auto unique = r.property("UNIQ_KEY")) add_key(record, r.topic, *unique);
    std::string_view keys = r.property("KEYS").value_or("");
    while (!keys.empty()) {
      const size_t end = keys.find(' ');
      if (const std::string_view word = keys.substr(0, end); !word.empty()) add_key(record, r.topic, word);
      if (end == std::string_view::npos) break;
      keys.remove_prefix(end + 1);
    }
    queue.push_back(std::move(record));
  }
  // Version, then per item kind, bytes, name (u16 and text) and more: 1 makes a topic, 2 ends one and says per queue where a topic of that
  // name goes on, 4 is the floor of a queue, 5 makes a group, 6 ends one.
  void read_meta(Bytes body) {
    Reader in(body);
    in.skip(1);
    while (in.ok() && in.remaining() > 0) {
      const uint8_t kind = in.u8();
      Reader item(in.bytes(in.u32()));
      const uint16_t name_bytes = item.u16();
      const std::string name(item.text(name_bytes));
      if (!in.ok() || !item.ok()) return problem("a record about topics and offsets does not parse");
      if (kind == 1) report_.topics.insert(name);
      if (kind == 5) report_.groups.insert(name);
      if (kind == 6) report_.groups.erase(name);
      if (kind == 2) {
        for (uint16_t left = item.u16(); left > 0 && item.ok(); --left) {
          const int32_t queue = item.i32();
          int64_t& next = retired_[{name, queue}];
          next = std::max(next, item.i64());
        }
      }
      if (kind != 4) continue;
      const int32_t queue = item.i32();
      report_.floors[{name, queue}] = item.i64();
    }
  }
  static void add_key(LogRecord& record, std::string_view topic, std::string_view key) {
    const std::optional<int32_t> hash = ascii_hash(fmt::format("{}#{}", topic, key));
    if (!hash) return;
    record.key_hashes.push_back(*hash == INT32_MIN ? 0u : static_cast<uint32_t>(*hash < 0 ? -*hash : *hash));
  }

  void read_checkpoint_file() {
    const auto it = files_.find(options_.root + "/checkpoint");
    if (report_.log_end == report_.log_begin && !options_.is_clean) return void(derived_to_ = 0);   // nothing was ever appended
    derived_to_ = options_.is_claimed ? 0 : derived_to_;
    if (it == files_.end()) return problem("there is no checkpoint");
    const std::optional<CheckpointClaim> claim = read_checkpoint(it->second);
    if (!claim) return problem("the checkpoint has no good slot");
    if (claim->flushed > report_.log_end) problem(fmt::format("the checkpoint claims a log flushed to {}, which ends at {}", claim->flushed, report_.log_end));
    if (claim->derived > claim->flushed) problem(fmt::format("the checkpoint claims {} derived of {} flushed", claim->derived, claim->flushed));
    if (options_.is_claimed) derived_to_ = std::max(claim->derived, options_.derived_to);
    if (claim->append_limit < report_.log_end) problem(fmt::format("the append limit is {}, the log ends at {}", claim->append_limit, report_.log_end));
    if (!options_.is_clean) return;
    if (!claim->is_clean) problem("the checkpoint of a clean stop does not say so");
    const bool has_marker = files_.contains(options_.root + "/abort");
    if (options_.is_unwritten) {
      derived_to_ = claim->derived;
      if (!has_marker) problem(fmt::format("{} of {} are derived, and no abort marker says so", claim->derived, report_.log_end));
      return;
    }
    if (claim->derived != report_.log_end) problem(fmt::format("after a clean stop {} of {} are derived", claim->derived, report_.log_end));
    if (has_marker) problem("the abort marker is there after a clean stop");
  }

  void read_queues() {
    for (const auto& [key, records] : report_.queues) {
      const auto& [topic, queue_id] = key;
      const auto segments = numbered(fmt::format("consumequeue/{}/{}", topic, queue_id), 20);
      // The files of a deleted topic's queues go one by one, and a power cut keeps any of their removals.
      const auto retired = retired_.find(key);
      const int64_t goes_on_at = retired == retired_.end() ? 0 : retired->second;
      for (const LogRecord& record : records) {
        if (record.physical >= derived_to_) break;
        const std::string what = fmt::format("{}/{} offset {}", topic, queue_id, record.queue_offset);
        const Bytes entry = entry_at(segments, static_cast<uint64_t>(record.queue_offset) * 20);
        if (record.queue_offset < goes_on_at && is_blank(entry)) continue;
        if (entry.empty()) { problem(what + " has no queue entry"); break; }
        Reader in(entry);
        const uint64_t physical = in.u64();
        const uint32_t bytes = in.u32();
        const int64_t tag_code = in.i64();
        if (physical != record.physical || bytes != record.bytes || (record.has_tag_code && tag_code != record.tag_code)) {
          problem(fmt::format("{}: the entry says log byte {} size {} tags {}, the record {} {} {}", what, physical, bytes, tag_code, record.physical, record.bytes, record.tag_code));
          break;
        }
      }
      if (!options_.is_clean) continue;
      const Bytes behind = entry_at(segments, static_cast<uint64_t>(records.back().queue_offset + 1) * 20);
      if (!behind.empty() && std::any_of(behind.begin(), behind.end(), [](uint8_t b) { return b != 0; })) {
        problem(fmt::format("{}/{} has an entry behind its last record at offset {}", topic, queue_id, records.back().queue_offset));
      }
    }
  }
  // Never written, or a pre-blank: what stands before the first entry of a queue that does not begin at 0.
  static bool is_blank(Bytes entry) {
    if (std::all_of(entry.begin(), entry.end(), [](uint8_t b) { return b == 0; })) return true;
    return load_be<uint64_t>(entry.data()) == 0 && load_be<uint32_t>(entry.data() + 8) == INT32_MAX;
  }
  static Bytes entry_at(const std::vector<std::pair<std::string, Bytes>>& segments, uint64_t byte) {
    for (const auto& [name, bytes] : segments) {
      const uint64_t base = number(name);
      if (byte >= base && byte + 20 <= base + bytes.size()) return bytes.subspan(byte - base, 20);
    }
    return {};
  }

  void read_index() {
    if (options_.index_slots == 0) return;
    std::set<std::pair<uint32_t, uint64_t>> linked;   // (hash, physical)
    for (const auto& [name, bytes] : numbered("index", 17)) read_index_file(name, bytes, linked);
    for (const auto& [key, records] : report_.queues) {
      for (const LogRecord& record : records) {
        if (record.physical >= derived_to_) break;
        for (const uint32_t hash : record.key_hashes) {
          if (linked.contains({hash, record.physical})) continue;
          return problem(fmt::format("a key of the record at log byte {} ({}/{} offset {}) is not in the index", record.physical, key.first, key.second, record.queue_offset));
        }
      }
    }
  }
  void read_index_file(const std::string& name, Bytes bytes, std::set<std::pair<uint32_t, uint64_t>>& linked) {
    const uint64_t entries_at = 40 + options_.index_slots * 4;
    if (bytes.size() != entries_at + options_.index_entries * 20) return problem(fmt::format("index file {} has {} bytes", name, bytes.size()));
    const uint32_t count = load_be<uint32_t>(bytes.data() + 36);
    if (count > options_.index_entries) return problem(fmt::format("index file {} counts {} of {} entries", name, count, options_.index_entries));
    for (uint64_t slot = 0; slot < options_.index_slots; ++slot) {
      uint32_t number_now = load_be<uint32_t>(bytes.data() + 40 + slot * 4);
      // Slots are stored before the count: after a crash a chain may begin behind it.
      while (number_now != 0 && (options_.is_clean ? number_now <= count : number_now < options_.index_entries)) {
        const uint8_t* entry = bytes.data() + entries_at + uint64_t{number_now} * 20;
        if (number_now >= options_.index_entries) return problem(fmt::format("index file {}: slot {} leads to entry {}", name, slot, number_now));
        const uint32_t hash = load_be<uint32_t>(entry), before = load_be<uint32_t>(entry + 16);
        if (hash % options_.index_slots != slot) return problem(fmt::format("index file {}: entry {} of hash {} hangs in slot {}", name, number_now, hash, slot));
        if (before >= number_now) return problem(fmt::format("index file {}: entry {} links to {}", name, number_now, before));
        linked.emplace(hash, load_be<uint64_t>(entry + 4));
        number_now = before;
      }
    }
  }

  const StoreFiles& files_;
  const FsckOptions& options_;
  StoreReport report_;
  int64_t newest_ms_ = 0;
  std::map<std::pair<std::string, int32_t>, int64_t> retired_;   // offsets below were of a topic that is deleted
  uint64_t gone_to_ = 0;               // the log begins here, by the checkpoint
  uint64_t derived_to_ = UINT64_MAX;   // queues and index are judged up to here
  bool is_ended_ = false;
};

}  // namespace

uint64_t StoreReport::digest() const {
  uint64_t h = 1;
  for (const auto& [key, records] : queues) {
    if (key.first.starts_with(kSystemPrefix)) continue;
    h = mix64(mix64(h, hash_text(key.first)), static_cast<uint64_t>(key.second));
    for (const LogRecord& record : records) h = mix64(mix64(h, record.physical), record.crc);
  }
  return h;
}

uint64_t StoreReport::record_count() const {
  uint64_t n = 0;
  for (const auto& [key, records] : queues) n += records.size();
  return n;
}

std::optional<CheckpointClaim> read_checkpoint(Bytes page) {
  std::optional<CheckpointClaim> best;
  for (const size_t at : {size_t{1024}, size_t{2048}}) {
    if (page.size() < at + 92) continue;
    const Bytes slot = page.subspan(at, 92);
    if (as_text(slot.first(8)) != "FULMCKPT" || load_be<uint32_t>(slot.data() + 88) != plain_crc32(slot.first(88))) continue;
    Reader in(slot.subspan(8));
    in.skip(4);
    CheckpointClaim claim;
    claim.is_clean = (in.u32() & 1) != 0;
    claim.sequence = in.u64();
    claim.flushed = in.u64();
    claim.append_limit = in.u64();
    claim.derived = in.u64();
    in.skip(24);
    claim.log_begin = in.u64();
    if (!best || claim.sequence > best->sequence) best = claim;
  }
  return best;
}

StoreReport fsck(const StoreFiles& files, const FsckOptions& options) { return Checker(files, options).run(); }

}  // namespace fulmar::sim
