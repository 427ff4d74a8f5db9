// The table of queues. The input is what follows the checksum; as a whole file it either parses and encodes to itself, or is refused.

#include "core/base/check.h"
#include "core/base/crc32.h"
#include "core/store/queue_table.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fulmar;
  const std::vector<uint8_t> empty = encode_queue_table({});
  std::vector<uint8_t> file(empty.begin(), empty.begin() + 16);
  file.insert(file.end(), data, data + size);
  Writer(MutableBytes(file).subspan(12, 4)).u32(crc32(Bytes(data, size)));
  if (const auto parsed = parse_queue_table(file)) CHECK(encode_queue_table(*parsed) == file, "{} topics", parsed->topics.size());
  CHECK(!parse_queue_table(Bytes(data, size)) || size >= 16);
  return 0;
}
