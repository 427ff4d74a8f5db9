// Recovery against any disk. The input is a script that fills a small store: segments of 64 KiB with records, fillers, holes and flipped
// bits, queue and index files, a checkpoint, the abort marker, stray files, pages that cannot be read. A store must start on it, or refuse
// in a sentence, within a bounded number of steps; a crash and a second start must come to the same answer and the same queues.

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/store/record.h"
#include "tests/unit/store/store_harness.h"

namespace {

using namespace fulmar;
using fulmar::testing::StoreHarness;

constexpr size_t kScriptBytesMax = 4096, kOperationsMax = 400;
constexpr uint64_t kSegment = 64 * 1024;
constexpr int kStepsMax = 50'000;

// Bytes of the input, front to back; zeros when they are used up.
class Script {
 public:
  explicit Script(Bytes bytes) : bytes_(bytes) {}
  bool is_over() const { return at_ >= bytes_.size(); }
  uint8_t byte() { return is_over() ? 0 : bytes_[at_++]; }
  uint64_t word() {
    const uint64_t high = byte();
    return high << 8 | byte();
  }
  Bytes take(size_t count) {
    const Bytes out = bytes_.subspan(at_, std::min(count, bytes_.size() - at_));
    at_ += out.size();
    return out;
  }

 private:
  Bytes bytes_;
  size_t at_ = 0;
};

// The disk that a script describes. `at` is where the next record is written, as an offset of the log.
class Image {
 public:
  explicit Image(Script script) : script_(script) {
    const uint8_t flags = script_.byte(), sizes = script_.byte();
    config = fulmar::testing::small_store_config();
    config.flush_disk_type = flags & 1 ? FlushDiskType::Async : FlushDiskType::Sync;
    config.is_crc_property_on = (flags & 2) == 0;
    config.is_index_enabled = (flags & 4) == 0;
    if (flags & 8) files["abort"] = {'1'};
    is_reappending = (flags & 0x10) != 0;
    is_power_cut = (flags & 0x20) != 0;
    is_stopped_cleanly = (flags & 0xC0) == 0xC0;
    begin_ = (sizes & 4) != 0 ? kSegment * (sizes >> 4) : 0;
    log_.resize(kSegment * (sizes & 3));
    // Some stores end with a segment of another length.
    if ((sizes & 8) != 0 && !log_.empty()) log_.resize(log_.size() - 8 * (script_.word() % (kSegment / 8)));
    at_ = begin_;
  }

  void run() {
    for (size_t i = 0; i < kOperationsMax && !script_.is_over(); ++i) operate();
    for (uint64_t start = 0; start < log_.size(); start += kSegment) {
      const Bytes all(log_);
      const Bytes part = all.subspan(start, std::min(kSegment, log_.size() - start));
      files.emplace("commitlog/" + segment_name(begin_ + start), std::vector<uint8_t>(part.begin(), part.end()));
    }
  }

  BrokerConfig config;
  std::map<std::string, std::vector<uint8_t>> files;
  std::vector<std::pair<std::string, uint64_t>> unreadable;   // path and page
  bool is_reappending = false, is_power_cut = false, is_stopped_cleanly = false;

 private:
  struct Written { PhysicalOffset at; uint32_t bytes; int64_t tag_code; std::string topic; int32_t queue; int64_t offset; };

  void operate() {
    switch (script_.byte() % 20) {
      case 0: case 1: case 2: return record(at_, 0);
      case 3: return meta();
      case 4: return filler(left());
      case 5: return filler(script_.word());
      case 6: return flip();
      case 7: return fill(script_.word(), script_.word(), 0);
      case 8: return fill(script_.word(), script_.word(), script_.byte());
      case 9: return raw();
      case 10: at_ += script_.byte(); return;
      case 11: at_ = begin_ + 8 * script_.word(); return;
      case 12: return record(at_ + script_.byte() + 1, 0);      // a record of an earlier life
      case 13: return record(at_, script_.byte());               // its queue offset jumps
      case 14: return queue_file();
      case 15: return index_file();
      case 16: return checkpoint();
      case 17: return stray();
      case 18: return unreadable_page();
      case 19: return many();
    }
  }

  uint64_t left() const { return kSegment - at_ % kSegment; }
  void put(uint64_t at, Bytes bytes) {
    for (size_t i = 0; i < bytes.size(); ++i)
      if (at + i >= begin_ && at + i - begin_ < log_.size()) log_[at + i - begin_] = bytes[i];
  }
  void put_record(std::string_view topic, int32_t queue, Bytes properties, Bytes body, uint64_t stated, uint8_t jump) {
    Message m;
    m.topic = topic;
    m.queue_id = QueueId(queue);
    m.born = Wall{1'700'000'000'000};
    m.properties = properties;
    m.body = body;
    const Result<uint32_t> bytes = record_bytes(m, config.is_crc_property_on);
    if (!bytes) return;
    if (*bytes + kFillerBytes > left()) {
      const uint64_t shift = stated - at_;
      filler(left());
      stated = at_ + shift;
    }
    int64_t& next = next_[{std::string(topic), queue}];
    next += jump;
    std::vector<uint8_t> encoded(*bytes);
    encode_record(encoded, m, {PhysicalOffset(stated), QueueOffset(next), Wall{1'700'000'000'000 + static_cast<int64_t>(written_.size())}}, config.is_crc_property_on);
    put(at_, encoded);
    written_.push_back({PhysicalOffset(at_), *bytes, tag_code_of(m), std::string(topic), queue, next});
    ++next;
    at_ += *bytes;
  }
  void record(uint64_t stated, uint8_t jump) {
    const uint8_t who = script_.byte(), size = script_.byte();
    const std::vector<uint8_t> body(size < 200 ? size : (size - 199) * 300u, size);
    const std::string_view properties = who & 8 ? "KEYS\x01k1 k2\x02TAGS\x01red\x02" : "";
    put_record(who & 1 ? "b" : "a", who >> 1 & 3, as_bytes(properties), body, stated, jump);
  }
  void many() {
    const uint8_t count = script_.byte(), who = script_.byte();
    const std::vector<uint8_t> body(100, who);
    for (int i = 0; i < count; ++i) put_record(who & 1 ? "b" : "a", who >> 1 & 3, as_bytes("KEYS\x01k\x02"), body, at_, 0);
  }
  void meta() {
    const Bytes body = script_.take(script_.byte());
    put_record(kMetaTopic, 0, {}, body, at_, 0);
  }
  void filler(uint64_t bytes) {
    uint8_t encoded[kFillerBytes];
    encode_filler(encoded, static_cast<uint32_t>(bytes));
    put(at_, encoded);
    at_ += left();
  }
  void flip() {
    const uint64_t where = script_.word() * 3;
    if (where < log_.size()) log_[where] ^= script_.byte();
  }
  void fill(uint64_t where, uint64_t bytes, uint8_t value) {
    where *= 3;
    for (uint64_t i = where; i < std::min<uint64_t>(where + bytes, log_.size()); ++i) log_[i] = value;
  }
  void raw() {
    const Bytes bytes = script_.take(script_.byte());
    put(at_, bytes);
    at_ += bytes.size();
  }

  // What dispatch would have written for one queue, cut, shifted or overwritten.
  void queue_file() {
    const uint8_t who = script_.byte(), count_max = script_.byte(), damage = script_.byte();
    const std::string topic = who & 0x20 ? std::string(kMetaTopic) : who & 1 ? "b" : "a";
    const int32_t queue = who & 0x20 ? 0 : who >> 1 & 3;
    const uint64_t file_bytes = config.consume_queue_file_bytes;
    std::map<uint64_t, std::vector<uint8_t>> parts;
    int count = 0;
    for (const Written& w : written_) {
      if (w.topic != topic || w.queue != queue || count++ >= count_max) continue;
      const uint64_t at = static_cast<uint64_t>(w.offset) * kQueueEntryBytes;
      auto& part = parts[at / file_bytes * file_bytes];
      part.resize(file_bytes);
      encode_queue_entry(MutableBytes(part).subspan(at % file_bytes, kQueueEntryBytes), {w.at, w.bytes, w.tag_code});
    }
    if (parts.empty()) parts[0].resize(file_bytes);
    for (auto& [start, part] : parts) {
      if (damage & 1) part[script_.word() % part.size()] ^= script_.byte();
      if (damage & 2) part.resize(script_.word() % (file_bytes + 1));
      if (damage & 4) {
        const Bytes bytes = script_.take(script_.byte());
        std::copy(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(std::min(bytes.size(), part.size())), part.begin());
      }
      files[fmt::format("consumequeue/{}/{}/{}", topic, queue, segment_name(start + (damage & 8 ? script_.byte() * kQueueEntryBytes : 0)))] = part;
    }
  }
  void index_file() {
    std::vector<uint8_t> content(kIndexHeaderBytes + kIndexSlotBytes * config.index_slot_count + kIndexEntryBytes * config.index_entry_count);
    const uint8_t which = script_.byte(), damage = script_.byte();
    IndexHeader header;
    header.begin_time = header.end_time = Wall{1'700'000'000'000};
    header.count = script_.byte();
    header.used_slots = script_.byte();
    if (!written_.empty()) {
      header.begin_at = written_.front().at;
      header.end_at = written_.back().at;
    }
    encode_index_header(content, header);
    const Bytes bytes = script_.take(script_.byte());
    std::copy(bytes.begin(), bytes.end(), content.begin() + kIndexHeaderBytes);
    if (damage & 1) content.resize(script_.word() % (content.size() + 1));
    files[fmt::format("index/2023111422132000{}", which % 10)] = content;
  }
  void checkpoint() {
    std::vector<uint8_t> page(Checkpoint::kFileBytes);
    const uint8_t how = script_.byte();
    CheckpointState s;
    s.is_clean = (how & 1) != 0;
    s.sequence = how;
    const auto place = [this] {
      const uint8_t which = script_.byte();
      if (which == 255) return PhysicalOffset(UINT64_MAX - script_.byte());
      if (which >= 250) return PhysicalOffset(begin_ + script_.word() * 3);
      return which < written_.size() ? written_[which].at : PhysicalOffset(at_);
    };
    s.flushed = place();
    s.append_limit = place();
    s.derived = place();
    if ((how & 2) != 0) s.append_limit = s.append_limit + ByteCount(128 * 1024);
    s.queue_entries = how & 4 ? script_.byte() : written_.size();
    s.index_entries = script_.byte();
    s.newest_stamp = Wall{1'700'000'000'000};
    s.log_begin = PhysicalOffset(begin_);
    if ((how & 8) != 0) s.version = script_.byte();
    const auto found = files.find("checkpoint");
    if (found != files.end() && found->second.size() == page.size()) page = found->second;
    Checkpoint::encode_slot(MutableBytes(page).subspan(Checkpoint::kSlotAt[how >> 4 & 1], Checkpoint::kSlotBytes), s);
    if ((how & 32) != 0) page[Checkpoint::kSlotAt[0] + script_.byte()] ^= script_.byte();
    if ((how & 64) != 0) page.resize(script_.word() % (page.size() + 1));
    files["checkpoint"] = page;
  }
  void stray() {
    static constexpr const char* kNames[] = {"commitlog/junk", "commitlog/00000000000000131072", "commitlog/00000000000000196608", "consumequeue/a/x/0",
                                             "consumequeue/a/0/00000000000000000007", "consumequeue/c/0/00000000000000000000", "index/junk", "index/20231114221320009",
                                             "config/topics.json", "config/consumerOffset.json", "config/topics.json.bak", "lock", "abort", "checkpoint",
                                             "commitlog/99999999999999999999", "consumequeue/a/0/18446744073709551600"};
    const uint8_t which = script_.byte();
    const Bytes bytes = script_.take(script_.byte());
    files[kNames[which % std::size(kNames)]] = {bytes.begin(), bytes.end()};
  }
  void unreadable_page() {
    const uint8_t which = script_.byte();
    if (which % 4 == 3 && files.contains("checkpoint")) unreadable.push_back({"checkpoint", 0});
    else unreadable.push_back({"commitlog/" + segment_name(begin_ + kSegment * (which % 4)), which / 4u % 16});
  }

  Script script_;
  uint64_t begin_ = 0, at_ = 0;
  std::vector<uint8_t> log_;
  std::vector<Written> written_;
  std::map<std::pair<std::string, int32_t>, int64_t> next_;
};

// What a started store says of itself: how it stands, and for every queue its range and the records that its entries name.
struct Answer {
  std::string state;
  std::map<std::pair<std::string, int32_t>, std::map<int64_t, std::string>> queues;
  std::map<std::pair<std::string, int32_t>, std::pair<int64_t, int64_t>> ranges;
  friend bool operator==(const Answer&, const Answer&) = default;
};

std::string describe_entry(StoreHarness& h, Ctx& ctx, const QueueEntry& entry, bool& is_cold) {
  const CommitLog& log = h.store->log();
  if (entry.bytes > kSegment || entry.bytes < kRecordBytesMin) return "no record";
  switch (log.readiness(entry.at, entry.bytes, h.driver.now.monotonic)) {
    case CommitLog::Readiness::Outside: return "outside";
    case CommitLog::Readiness::Cold:
      is_cold = true;
      h.store->log().warm(ctx, entry.at, entry.bytes, {WarmFor::Pull, 1});
      return {};
    case CommitLog::Readiness::Ready: break;
  }
  const ParsedRecord parsed = parse_record(log.view(ctx, entry.at, entry.bytes), entry.at, Verify::Checksums);
  if (parsed.kind != RecordKind::Message) return "broken";
  const Message& m = parsed.record.message;
  return fmt::format("{} {} {} {} bytes {}", m.topic, m.queue_id, parsed.record.place.queue, m.body.size(), parsed.record.place.physical);
}

// One queue, from its least to its last entry; what cannot be read is named, not an error: the script may have broken it.
std::map<int64_t, std::string> read_queue(StoreHarness& h, const std::string& topic, int32_t queue) {
  std::map<int64_t, std::string> out;
  const QueueRange range = h.store->queues().range(topic, QueueId(queue));
  QueueOffset at = range.min;
  int cold = 0;
  for (int steps = 0; at < range.max && out.size() < 2000; ++steps) {
    CHECK(steps < kStepsMax && !h.driver.halted(), "reading {} {} at {} of [{}, {})", topic, queue, at, range.min, range.max);
    std::vector<QueueEntry> entries;
    bool is_read = false, is_cold = false;
    h.step(nullptr, [&](Ctx& ctx) {
      is_read = h.store->queues().read(ctx, topic, QueueId(queue), at, range.max - at, 7, entries);
      if (!is_read) return;
      if (entries.empty()) {   // an entry that cannot be read
        out[at.value()] = "no entry";
        at += EntryCount(1);
      }
      for (const QueueEntry& entry : entries) {
        const std::string text = describe_entry(h, ctx, entry, is_cold);
        if (is_cold && ++cold < 4) return;   // it is being fetched
        out[at.value()] = is_cold ? "unreadable" : text;
        is_cold = false;
        cold = 0;
        at += EntryCount(1);
      }
    });
    if (h.driver.in_flight() == 0 && !h.driver.wants_step_again() && !is_read) h.run(1);
    while (h.driver.in_flight() > 0 && !h.driver.halted()) h.run(1);
  }
  return out;
}

// Below the checkpoint's flushed offset recovery believes the disk; what dispatch cannot read there stops it, with a word (store.md FG-23).
bool is_dispatch_stopped(StoreHarness& h) { return h.driver.has_event("DispatchStopped"); }

bool is_settled(StoreHarness& h, PhysicalOffset end) {
  const Watermarks& marks = h.store->watermarks();
  return marks.flushed >= end && (marks.dispatched >= end || is_dispatch_stopped(h));
}

// Starts the store and asks it everything.
Answer start(StoreHarness& h) {
  Answer answer;
  const auto has_begun = [&] { return h.store->can_read(); };
  const bool is_up = h.run_until(has_begun, kStepsMax);
  if (h.driver.halted()) {
    CHECK(!h.driver.halted()->detail.empty());
    answer.state = fmt::format("halted: {}", to_string(h.driver.halted()->code));
    return answer;
  }
  const Watermarks& marks = h.store->watermarks();
  CHECK(is_up, "the store neither starts nor halts: {}, appended {}, flushed {}, dispatched {}, {} in flight", h.driver.events().back().name, marks.appended, marks.flushed,
        marks.dispatched, h.driver.in_flight());
  answer.state = h.store->state() == Store::State::Damaged ? "damaged" : "serving";
  // The tables of an imported store are records by now; they are seen once they are flushed.
  const PhysicalOffset end = h.store->watermarks().appended;
  if (answer.state == "serving") CHECK(h.run_until([&] { return is_settled(h, end); }, kStepsMax), "appended {}, dispatched {}", end, h.store->watermarks().dispatched);
  std::vector<std::pair<std::string, int32_t>> names;
  h.store->queues().for_each([&](std::string_view topic, QueueId queue, QueueRange range) {
    names.push_back({std::string(topic), queue.value()});
    answer.ranges[names.back()] = {range.min.value(), range.max.value()};
  });
  for (const auto& [topic, queue] : names) answer.queues[{topic, queue}] = read_queue(h, topic, queue);
  return answer;
}

// An append goes to the end of its queue, wherever that is, and is seen there.
void append(StoreHarness& h, Answer& answer) {
  const std::string topic = "a";
  Result<Appended> appended = Errc::Internal;
  for (int i = 0; i < 1000 && !h.driver.halted(); ++i) {
    appended = h.append(topic, 0, "appended");
    if (appended || appended.code() != Errc::LogRolling) break;
    h.run(1);
  }
  if (!appended) {
    CHECK(h.driver.halted() || !h.store->refusal(appended.error()).cause.empty());
    return;
  }
  const bool is_seen = h.run_until([&] { return is_settled(h, appended->end); }, kStepsMax);
  CHECK(is_seen, "appended [{}, {}), flushed {}, dispatched {}", appended->begin, appended->end, h.store->watermarks().flushed, h.store->watermarks().dispatched);
  const QueueRange range = h.store->queues().range(topic, QueueId(0));
  const auto before = answer.ranges.find({topic, 0});
  // Offsets only grow; a queue whose entries contradict each other may stand still, but never takes back what it showed.
  if (before != answer.ranges.end()) CHECK(range.max.value() >= before->second.second && range.min.value() == before->second.first);
  if (range.min == range.max) return;   // dispatch stands in front of it
  answer.queues[{topic, 0}] = read_queue(h, topic, 0);
  answer.ranges[{topic, 0}] = {range.min.value(), range.max.value()};
}

std::string difference(const Answer& a, const Answer& b) {
  std::string out = fmt::format("first start {}, second {}", a.state, b.state);
  for (const auto& [name, range] : a.ranges) {
    const auto other = b.ranges.find(name);
    if (other == b.ranges.end()) { out += fmt::format("; {} {} [{}, {}) is gone", name.first, name.second, range.first, range.second); continue; }
    if (other->second != range) out += fmt::format("; {} {} [{}, {}) became [{}, {})", name.first, name.second, range.first, range.second, other->second.first, other->second.second);
    const auto& second = b.queues.at(name);
    for (const auto& [offset, text] : a.queues.at(name))
      if (!second.contains(offset) || second.at(offset) != text) out += fmt::format("; {} {} {}: '{}' became '{}'", name.first, name.second, offset, text, second.contains(offset) ? second.at(offset) : "");
  }
  for (const auto& [name, range] : b.ranges) if (!a.ranges.contains(name)) out += fmt::format("; {} {} [{}, {}) is new", name.first, name.second, range.first, range.second);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > kScriptBytesMax) return 0;
  Image image(Script(Bytes(data, size)));
  image.run();
  StoreHarness h(Seed{size}, image.config);
  for (const auto& [path, content] : image.files) h.driver.put("store/" + path, content);
  for (const auto& [path, page] : image.unreadable) h.driver.unreadable.insert({"store/" + path, page});
  Answer first = start(h);
  if (first.state == "serving" && image.is_reappending) append(h, first);
  if (first.state == "serving" && image.is_stopped_cleanly && !is_dispatch_stopped(h)) {
    h.step(nullptr, [&](Ctx& ctx) { h.store->begin_stop(ctx); });
    CHECK(h.run_until(Store::State::Stopped, kStepsMax) || h.driver.halted(), "the store does not stop");
  }
  h.driver.events().clear();
  if (image.is_power_cut) h.cut_power({1, 2});
  else h.kill();
  const Answer second = start(h);
  CHECK(second == first, "{}", difference(first, second));
  return 0;
}
