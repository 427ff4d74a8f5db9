#pragma once
// What RocketMQ's JSON needs on top of a JSON library: map keys that are integers stand there without quotes ({0:12,1:7}), numbers must
// keep all 64 bits, and what comes from a file or a peer is bounded in size, depth and number of values. Read with RapidJSON, which works
// without exceptions. Numbers are kept as their text until somebody asks for an integer: no floating point anywhere.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"

namespace fulmar {

struct JsonBounds {
  size_t bytes_max = 64u << 20;
  uint32_t depth_max = 64;          // at most 10,000: values are destroyed by recursion
  uint32_t values_max = 1'000'000;  // each takes about 100 bytes of memory
};

class Json {
 public:
  enum class Kind : uint8_t { Null, Bool, Number, Text, Array, Object };
  using Member = std::pair<std::string, Json>;

  // InvalidArgument when it does not parse, with what and the byte where; OutOfRange when a bound is passed. UTF-8 is checked.
  static Result<Json> parse(std::string_view text, const JsonBounds& bounds = {});

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::Null; }
  bool is_object() const { return kind_ == Kind::Object; }
  bool is_array() const { return kind_ == Kind::Array; }
  // Nothing when the value is of another kind; integers also when they are written as text ("12"), as some writers do, and never when
  // they have a fraction or an exponent or do not fit.
  std::optional<bool> as_bool() const;
  std::optional<int64_t> as_int64() const;
  std::optional<uint64_t> as_uint64() const;
  std::optional<std::string_view> as_text() const;
  std::string_view number_text() const { return kind_ == Kind::Number ? std::string_view(text_) : std::string_view(); }
  // Empty for other kinds. Members in the order of the text, equal keys included; integer keys as their digits.
  const std::vector<Json>& items() const { return items_; }
  const std::vector<Member>& members() const { return members_; }
  // The last member of that name, as RocketMQ's library keeps it. Linear: walk members() of large tables. Null when there is none.
  const Json* find(std::string_view key) const;

 private:
  friend class JsonBuilder;
  Kind kind_ = Kind::Null;
  bool bool_ = false;
  std::string text_;  // of Text and Number
  std::vector<Json> items_;
  std::vector<Member> members_;
};

// Writes one document. Keys and values alternate in objects; a caller who forgets is a bug (CHECK). Pretty: a tab a level, as RocketMQ's
// files look.
class JsonWriter {
 public:
  enum class Layout : uint8_t { Compact, Pretty };
  explicit JsonWriter(Layout layout = Layout::Compact) : layout_(layout) {}
  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);
  JsonWriter& key(int64_t number);  // without quotes, for maps whose keys are integers
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(bool truth);
  JsonWriter& value(int64_t number);
  JsonWriter& value(uint64_t number);
  JsonWriter& value(int32_t number) { return value(int64_t{number}); }
  JsonWriter& value(uint32_t number) { return value(uint64_t{number}); }
  JsonWriter& null();
  // The document; every object and array must be closed.
  std::string take();

 private:
  struct Level { char closer; bool is_empty = true; };
  JsonWriter& open(char opener);
  JsonWriter& close(char closer);
  void before_key();
  void before_value();
  void separate();
  void quote(std::string_view text);
  std::string out_;
  std::vector<Level> levels_;
  Layout layout_;
  bool is_key_written_ = false;
};

}  // namespace fulmar
