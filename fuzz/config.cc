// No configuration text may crash the parser, and what it accepts must come back from the writer as the same values.

#include <cstdint>

#include "core/base/bytes.h"
#include "core/base/check.h"
#include "core/model/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<fulmar::ConfigNote> notes;
  const auto config = fulmar::parse_broker_config(fulmar::as_text({data, size}), &notes);
  CHECK(config.has_value() || !notes.empty());
  if (!config) return 0;
  const auto again = fulmar::parse_broker_config(fulmar::serialise(*config), nullptr);
  CHECK(again.has_value() && *again == *config);
  return 0;
}
