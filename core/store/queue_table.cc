#include "core/store/queue_table.h"

#include <fmt/format.h>

#include <cstring>

#include "core/base/crc32.h"
#include "core/base/marks.h"
#include "core/store/owners.h"

namespace fulmar {

namespace {

constexpr std::string_view kMagic = "FULMQTAB";
constexpr uint32_t kVersion = 1;
constexpr size_t kHeadBytes = 16, kQueueBytes = 32, kFixedBytes = 28;
constexpr uint64_t kTableBytesMax = 1ull << 30;

struct QueueTableFailedEvent {
  FULMAR_EVENT(QueueTableFailed, Warning, "the table of queues could not be kept, the next start looks into every queue: {}");
  std::string_view why;
  auto values() const { return std::array<uint64_t, 0>{}; }
  std::string_view text() const { return why; }
};

}  // namespace

std::vector<uint8_t> encode_queue_table(const QueueTableState& state) {
  size_t bytes = kHeadBytes + kFixedBytes;
  for (const QueueTableState::Topic& topic : state.topics) bytes += 6 + topic.name.size() + topic.queues.size() * kQueueBytes;
  std::vector<uint8_t> out(bytes);
  Writer w(out);
  w.text(kMagic);
  w.u32(kVersion);
  w.u32(0);
  w.u64(state.covers.value());
  w.u64(state.log_begin.value());
  w.u64(state.file_bytes);
  w.u32(static_cast<uint32_t>(state.topics.size()));
  for (const QueueTableState::Topic& topic : state.topics) {
    CHECK(topic.name.size() <= UINT16_MAX);
    w.u16(static_cast<uint16_t>(topic.name.size()));
    w.text(topic.name);
    w.u32(static_cast<uint32_t>(topic.queues.size()));
    for (const QueueTableState::Queue& q : topic.queues) {
      w.i32(q.id);
      w.i64(q.min);
      w.i64(q.max);
      w.u64(q.first_file);
      w.u32(q.files);
    }
  }
  Writer(MutableBytes(out).subspan(12, 4)).u32(crc32(Bytes(out).subspan(kHeadBytes)));
  return out;
}

std::optional<QueueTableState> parse_queue_table(Bytes file) {
  Reader r(file);
  if (r.text(kMagic.size()) != kMagic || r.u32() != kVersion) return {};
  const uint32_t crc = r.u32();
  if (!r.ok() || crc32(file.subspan(kHeadBytes)) != crc) return {};
  QueueTableState out;
  out.covers = PhysicalOffset(r.u64());
  out.log_begin = PhysicalOffset(r.u64());
  out.file_bytes = r.u64();
  const uint32_t topics = r.u32();
  for (uint32_t t = 0; t < topics && r.ok(); ++t) {
    QueueTableState::Topic topic;
    topic.name = r.text(r.u16());
    const uint32_t queues = r.u32();
    if (!r.ok() || queues > r.remaining() / kQueueBytes) return {};   // memory follows the bytes that are there
    topic.queues.reserve(queues);
    for (uint32_t i = 0; i < queues; ++i) {
      QueueTableState::Queue q;
      q.id = r.i32();
      q.min = r.i64();
      q.max = r.i64();
      q.first_file = r.u64();
      q.files = r.u32();
      if (q.id < 0 || q.min < 0 || q.max < q.min || (!topic.queues.empty() && topic.queues.back().id >= q.id)) return {};
      topic.queues.push_back(q);
    }
    if (!out.topics.empty() && out.topics.back().name >= topic.name) return {};
    out.topics.push_back(std::move(topic));
  }
  if (!r.ok() || r.remaining() != 0) return {};
  return out;
}

QueueTable::QueueTable(std::string path) : path_(std::move(path)), tickets_(owner::kQueueTable) {}

void QueueTable::read(Ctx& ctx, bool exists) {
  may_exist_ = exists;
  is_read_ = !exists;
  if (exists) ctx.out.read(tickets_.issue(What::Read), path_, kTableBytesMax);
}

void QueueTable::on_read(Ctx& ctx, const Read& read) {
  (void)tickets_.redeem(read.ticket);
  is_read_ = true;
  if (read.contents) found_ = parse_queue_table(*read.contents);
  if (found_) covers_ = found_->covers;
  SOMETIMES("store: a table of queues is found damaged", !found_);
  ctx.out.step_again();
}

void QueueTable::write(Ctx& ctx, const QueueTableState& state) {
  CHECK(!is_busy_);
  is_busy_ = may_exist_ = true;
  covers_ = state.covers;
  ctx.out.replace(tickets_.issue(What::Write), path_, encode_queue_table(state));
}

void QueueTable::clear(Ctx& ctx) {
  CHECK(!is_busy_);
  is_busy_ = true;
  ctx.out.remove(tickets_.issue(What::Clear), path_);
}

void QueueTable::on_done(Ctx& ctx, const Done& done) {
  const What what = tickets_.redeem(done.ticket);
  is_busy_ = false;
  if (what == What::Clear && done.outcome) {
    may_exist_ = false;
    covers_ = {};
  }
  if (!done.outcome) {
    ctx.trace.note(QueueTableFailedEvent{done.outcome.error().detail});
    retry_at_ = ctx.now.monotonic + Duration::seconds(1);
  }
  ctx.out.step_again();
}

}  // namespace fulmar
