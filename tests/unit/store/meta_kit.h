#pragma once
// Meta over a log of vectors and queues in memory.

#include <optional>
#include <vector>

#include "core/store/meta.h"

namespace fulmar::testing {

struct FakeMetaLog : MetaLog {
  struct Entry { PhysicalOffset at; std::vector<uint8_t> body; };
  std::vector<Entry> records;
  std::optional<Errc> failing;
  Result<Appended> append_meta(Ctx&, Bytes body) override {
    if (failing) return *failing;
    const PhysicalOffset at = end();
    records.push_back({at, {body.begin(), body.end()}});
    return Appended{at, end(), QueueOffset(static_cast<int64_t>(records.size() - 1))};
  }
  PhysicalOffset end() const { return records.empty() ? PhysicalOffset(0) : records.back().at + ByteCount(100 + records.back().body.size()); }
};

class MetaKit {
 public:
  Moment now{Monotonic{1'000'000'000}, Wall{1'700'000'000'000}, 0};
  Outbox out;
  Files files;
  Timers timers;
  Prng prng{Seed{1}};
  Trace trace;
  Ctx ctx{now, out, files, timers, prng, trace};
  FakeMetaLog log;

  Meta& meta() { return meta_; }
  ConsumeQueues& queues() { return queues_; }
  PhysicalOffset place_of(size_t index) const { return log.records[index].at; }
  void assign(std::string_view topic, int32_t queue, int64_t count) {
    queues_.next_offset(topic, QueueId(queue));
    queues_.assigned(topic, QueueId(queue), EntryCount(count));
  }
  // Dispatch reads the log again, from record `first` to its end.
  void redispatch_from(size_t first) {
    for (size_t i = first; i < log.records.size(); ++i) {
      RecordView record;
      record.message.topic = kMetaTopic;
      record.message.body = log.records[i].body;
      record.place.physical = log.records[i].at;
      CHECK(meta_.apply(ctx, record));
    }
  }
  void take_records(const MetaKit& from) { log.records = from.log.records; }

 private:
  Watermarks watermarks_;
  CommitLog commit_log_{CommitLog::Options{.directory = "store/commitlog"}, watermarks_};
  ConsumeQueues queues_{ConsumeQueues::Options{.directory = "store/consumequeue"}, commit_log_, watermarks_};
  Meta meta_{log, queues_};
};

}  // namespace fulmar::testing
