#pragma once
// The body of a meta record under construction (store/meta.h).

#include <string_view>
#include <vector>

#include "core/base/bytes.h"

namespace fulmar {

inline constexpr uint8_t kMetaBodyVersion = 1;
enum MetaItem : uint8_t { kTopicSet = 1, kTopicRemoved = 2, kOffsetSet = 3, kGroupSet = 4, kGroupRemoved = 5 };

// A body under construction. Items are written back to back; sizes are patched when an item ends.
class BodyWriter {
 public:
  BodyWriter() { bytes_.push_back(kMetaBodyVersion); }
  void begin(uint8_t kind) {
    put<uint8_t>(kind);
    put<uint32_t>(0);
    item_at_ = bytes_.size();
  }
  void end() { store_be<uint32_t>(bytes_.data() + item_at_ - 4, static_cast<uint32_t>(bytes_.size() - item_at_)); }
  template <class T> void put(T value) {
    bytes_.resize(bytes_.size() + sizeof(T));
    store_be(bytes_.data() + bytes_.size() - sizeof(T), value);
  }
  void name(std::string_view text) {
    put<uint16_t>(static_cast<uint16_t>(text.size()));
    bytes_.insert(bytes_.end(), text.begin(), text.end());
  }
  Bytes bytes() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
  size_t item_at_ = 0;
};

}  // namespace fulmar
