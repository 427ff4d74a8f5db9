#pragma once
#include "core/base/time.h"

namespace fulmar {

// The times of a step, frozen for its length. zone_s (seconds east of UTC) only for "04:00" and the names of index files.
struct Moment {
  Monotonic monotonic;
  Wall wall;
  int32_t zone_s = 0;
};

}  // namespace fulmar
