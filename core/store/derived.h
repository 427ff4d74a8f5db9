#pragma once
// What everything folded from the log can do. Dispatch feeds visible records in log order; a round writes what was folded to files of
// its own and makes it durable; after a crash the fold starts again from what was durable, so apply() must ignore what it already has.

#include "core/io/node.h"
#include "core/model/ids.h"
#include "core/store/record.h"

namespace fulmar {

class Derived {
 public:
  virtual ~Derived() = default;
  // `record` is borrowed. False: full, nothing was applied; dispatch stops before this record and asks again next step.
  virtual bool apply(Ctx& ctx, const RecordView& record) = 0;
  // Everything applied so far shall be written and flushed; is_round_done() turns true when it is.
  virtual void begin_round(Ctx& ctx) = 0;
  virtual bool is_round_done() const = 0;
  // A round is wanted early because memory fills.
  virtual bool wants_round() const = 0;
  // The oldest byte of the log it still needs (retention asks); PhysicalOffset(UINT64_MAX): none.
  virtual PhysicalOffset claim() const = 0;
};

}  // namespace fulmar
