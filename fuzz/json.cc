// No text may crash the JSON reader, and what it accepts must come back from the writer as the same values.

#include <cstdint>

#include "core/base/bytes.h"
#include "core/base/json.h"

namespace {

void write(const fulmar::Json& v, fulmar::JsonWriter& out) {
  using Kind = fulmar::Json::Kind;
  switch (v.kind()) {
    case Kind::Null: out.null(); break;
    case Kind::Bool: out.value(*v.as_bool()); break;
    case Kind::Number:
      if (const auto i = v.as_int64()) out.value(*i);
      else if (const auto u = v.as_uint64()) out.value(*u);
      else out.value(v.number_text());  // as text: only integers are written
      break;
    case Kind::Text: out.value(*v.as_text()); break;
    case Kind::Array:
      out.begin_array();
      for (const auto& item : v.items()) write(item, out);
      out.end_array();
      break;
    case Kind::Object:
      out.begin_object();
      for (const auto& [key, value] : v.members()) {
        out.key(key);
        write(value, out);
      }
      out.end_object();
      break;
  }
}

std::string text_of(const fulmar::Json& v, fulmar::JsonWriter::Layout layout) {
  fulmar::JsonWriter out(layout);
  write(v, out);
  return out.take();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using Layout = fulmar::JsonWriter::Layout;
  const fulmar::JsonBounds bounds{1 << 20, 200, 10'000};
  const auto first = fulmar::Json::parse(fulmar::as_text({data, size}), bounds);
  if (!first) return 0;
  const std::string compact = text_of(*first, Layout::Compact);
  // Escapes may make a text longer, so the second reading has wider bounds.
  const auto second = fulmar::Json::parse(text_of(*first, Layout::Pretty), {16 << 20, 200, 10'000});
  CHECK(second.has_value(), "{}", compact);
  CHECK(text_of(*second, Layout::Compact) == compact);
  return 0;
}
