#pragma once
// Messages by key and by physical offset. The index names candidates by the hash of their key; a hit counts when the record, read from
// the log, has this topic and this key (UNIQ_KEY, or a word of KEYS) and lies in the time window. Records are copied as they are found: they lie
// far apart, and waiting until all of them are warm at one moment need never end.
//
//   run --answered--> done      --index file or record is cold--> waiting --fetched--> run again, keeping what was found
//                               --too much was read in this step--> waiting --next step--> run again

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/consume/asker.h"
#include "core/consume/limits.h"
#include "core/store/commit_log.h"
#include "core/store/index_file.h"

namespace fulmar {

struct MessageQuery {
  std::string topic, key;
  Wall begin, end;                      // both included
  int32_t count_max = 32;               // 1 to kQueryCountMax
  std::optional<PhysicalOffset> at;     // instead of a key: the record that begins exactly here
  Asker asker;

  // how far it came
  uint64_t walk = 0;                    // the index knows its walk by this, however often the query waits; 0: not begun
  bool has_candidates = false;
  std::vector<KeyHit> candidates;       // newest first
  uint32_t asked = 0;                   // how many candidates the walk was to bring at most
  PhysicalOffset oldest{UINT64_MAX};    // the last one looked at: a longer walk goes on below it
  size_t judged = 0;                    // candidates looked at
  int32_t found = 0;
  std::vector<uint8_t> records;         // of what was found, back to back
  bool is_full = false;                 // the next one would pass kQueryBytesMax
  uint64_t walked = 0;                  // how far the walk was, of Index::walked
  size_t fetches = 0;                   // in a row without getting on
};

struct QueryAnswer { int32_t count = 0; std::vector<uint8_t> records; };

class Queries {
 public:
  struct Retry { MessageQuery query; Result<void> outcome; };

  Queries(Index& index, CommitLog& log, const Watermarks& watermarks) : index_(index), log_(log), watermarks_(watermarks), waiting_(limits::kQueriesMax) {}

  // Answers, or keeps the query until what it needs is fetched (nothing; take_ready() has it then). Full: too many wait already, or this
  // one had to fetch too often. NotFound: no record begins at `at`.
  Result<std::optional<QueryAnswer>> run(Ctx& ctx, MessageQuery& query);
  void on_index_ready(uint64_t walk);   // what Index::take_ready() names
  void on_warmed(const Warmed& warmed);
  // Once a step: who goes on now.
  std::vector<Retry> take_ready();
  std::vector<Asker> take_askers();   // the node stops: everybody who waits; nobody comes home any more
  void drop(ConnId conn);
  size_t waiting_count() const { return waiting_.size(); }

 private:
  enum class Look : uint8_t { Yes, No, Cold };
  Look look(Ctx& ctx, MessageQuery& query, PhysicalOffset at, uint64_t token);
  bool walk_index(Ctx& ctx, MessageQuery& query, uint64_t token);   // false: an index file is cold
  bool is_ready(Ctx& ctx, PhysicalOffset at, uint64_t bytes, uint64_t token);
  bool judge_candidates(Ctx& ctx, MessageQuery& query, uint64_t token);
  bool judge(Ctx& ctx, MessageQuery& query, uint64_t token);   // false: something is cold and being fetched, or the step has read enough
  Index& index_;
  CommitLog& log_;
  const Watermarks& watermarks_;
  SlotBook<MessageQuery> waiting_;
  std::map<uint64_t, uint64_t> walks_;   // walk in the index -> token of the query that waits for it
  uint64_t next_walk_ = 1;
  std::vector<Retry> ready_;
  std::vector<uint64_t> postponed_;      // tokens
  uint64_t step_bytes_ = 0;              // read and checked since take_ready()
};

}  // namespace fulmar
