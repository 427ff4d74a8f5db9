#include "core/base/json.h"

#include <charconv>

#include "core/base/check.h"

#define RAPIDJSON_ASSERT(condition) CHECK(condition)
#define RAPIDJSON_NOEXCEPT_ASSERT(condition) CHECK(condition)
#if defined(__clang__)
// RapidJSON 1.1.0 adds to the null pointer of a stack that is still empty, only to compare: harmless, but not by the letter.
#pragma clang attribute push(__attribute__((no_sanitize("pointer-overflow"))), apply_to = function)
#endif
#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>
#if defined(__clang__)
#pragma clang attribute pop
#endif

namespace fulmar {

namespace {

// Puts quotes around integer keys and refuses what is nested too deep, both before the library sees it. Everything else, errors
// included, passes through as it is, so that the library remains the judge of what is JSON.
class KeyQuoter {
 public:
  explicit KeyQuoter(const JsonBounds& bounds) : bounds_(bounds) {}

  Result<std::string> quote(std::string_view text) {
    if (text.size() > bounds_.bytes_max)
      return Error(Errc::OutOfRange, fmt::format("the JSON text has {} bytes, at most {} are allowed", text.size(), bounds_.bytes_max));
    out_.reserve(text.size() + text.size() / 8);
    for (size_t at = 0; at < text.size();) {
      const char c = text[at];
      // The library takes NUL for the end and would not look at what follows.
      if (c == 0) return Error(Errc::InvalidArgument, fmt::format("NUL in JSON text at byte {}", at));
      if (c == '"') at = copy_string(text, at);
      else if (is_key_next_ && integer_bytes(text.substr(at)) != 0) at = copy_integer_key(text, at);
      else { FULMAR_TRY_VOID(copy_other(c)); ++at; }
    }
    return std::move(out_);
  }

 private:
  // Bytes of the integer at the front, 0 when there is none.
  static size_t integer_bytes(std::string_view text) {
    const size_t sign = text.starts_with('-') ? 1 : 0;
    const size_t end = std::min(text.find_first_not_of("0123456789", sign), text.size());
    return end > sign ? end : 0;
  }

  Result<void> copy_other(char c) {
    if (c == '{' || c == '[') {
      if (is_object_.size() >= bounds_.depth_max) return Error(Errc::OutOfRange, fmt::format("the JSON text is nested deeper than {}", bounds_.depth_max));
      is_object_.push_back(c == '{');
      is_key_next_ = c == '{';
    } else if (c == '}' || c == ']') {
      if (!is_object_.empty()) is_object_.pop_back();
      is_key_next_ = false;
    } else if (c == ',') {
      is_key_next_ = !is_object_.empty() && is_object_.back();
    } else if (c != ' ' && c != '\t' && c != '\n' && c != '\r') {
      is_key_next_ = false;
    }
    out_ += c;
    return {};
  }
  // A NUL inside goes on to the library, which refuses it there.
  size_t copy_string(std::string_view text, size_t at) {
    is_key_next_ = false;
    size_t end = at + 1;
    while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
    end = std::min(end + 1, text.size());
    out_.append(text.substr(at, end - at));
    return end;
  }
  size_t copy_integer_key(std::string_view text, size_t at) {
    is_key_next_ = false;
    const size_t bytes = integer_bytes(text.substr(at));
    out_ += '"';
    out_.append(text.substr(at, bytes));
    out_ += '"';
    return at + bytes;
  }

  JsonBounds bounds_;
  std::string out_;
  std::vector<bool> is_object_;  // one per open object or array
  bool is_key_next_ = false;
};

}  // namespace

// The library's events become values. Open containers are owned here, one per level, and moved into their parents when they close.
class JsonBuilder {
 public:
  explicit JsonBuilder(uint32_t values_max) : values_max_(values_max) {}
  bool Null() { return add({}); }
  bool Bool(bool truth) { Json v; v.kind_ = Json::Kind::Bool; v.bool_ = truth; return add(std::move(v)); }
  bool RawNumber(const char* text, rapidjson::SizeType size, bool) { return add_text(Json::Kind::Number, {text, size}); }
  bool String(const char* text, rapidjson::SizeType size, bool) { return add_text(Json::Kind::Text, {text, size}); }
  bool Key(const char* text, rapidjson::SizeType size, bool) {
    open_.back().key.assign(text, size);
    return check_surrogates(open_.back().key);
  }
  bool StartObject() { return open(Json::Kind::Object); }
  bool StartArray() { return open(Json::Kind::Array); }
  bool EndObject(rapidjson::SizeType) { return close(); }
  bool EndArray(rapidjson::SizeType) { return close(); }
  // Numbers come as text (kParseNumbersAsStringsFlag).
  bool Int(int) { return false; }
  bool Uint(unsigned) { return false; }
  bool Int64(int64_t) { return false; }
  bool Uint64(uint64_t) { return false; }
  bool Double(double) { return false; }  // never called; the interface names it

  bool is_over() const { return values_ > values_max_; }
  bool has_lone_surrogate() const { return has_lone_surrogate_; }
  Json take() { return std::move(root_); }

 private:
  struct Level { Json value; std::string key; };
  // RapidJSON 1.1.0 takes the escape of a second surrogate without its first, and encodes it as if it were a character: not UTF-8.
  bool check_surrogates(std::string_view text) {
    for (size_t at = text.find('\xED'); at != std::string_view::npos; at = text.find('\xED', at + 1))
      if (static_cast<uint8_t>(text[at + 1]) >= 0xA0) has_lone_surrogate_ = true;  // a character of three bytes, so at + 1 exists
    return !has_lone_surrogate_;
  }
  bool add_text(Json::Kind kind, std::string_view text) {
    Json v;
    v.kind_ = kind;
    v.text_ = text;
    return check_surrogates(text) && add(std::move(v));
  }
  bool add(Json v) { return ++values_ <= values_max_ && place(std::move(v)); }
  bool place(Json v) {
    if (open_.empty()) root_ = std::move(v);
    else if (Level& top = open_.back(); top.value.kind_ == Json::Kind::Array) top.value.items_.push_back(std::move(v));
    else top.value.members_.emplace_back(std::move(top.key), std::move(v));
    return true;
  }
  bool open(Json::Kind kind) {
    if (++values_ > values_max_) return false;
    open_.emplace_back();
    open_.back().value.kind_ = kind;
    return true;
  }
  bool close() {
    Json done = std::move(open_.back().value);
    open_.pop_back();
    return place(std::move(done));
  }
  Json root_;
  std::vector<Level> open_;
  uint32_t values_ = 0, values_max_;
  bool has_lone_surrogate_ = false;
};

Result<Json> Json::parse(std::string_view text, const JsonBounds& bounds) {
  CHECK(bounds.depth_max <= 10'000, "{}", bounds.depth_max);
  FULMAR_TRY(const std::string quoted, KeyQuoter(bounds).quote(text));
  rapidjson::MemoryStream stream(quoted.data(), quoted.size());
  JsonBuilder builder(bounds.values_max);
  rapidjson::Reader reader;
  // Iterative: depth costs heap, not stack.
  constexpr unsigned kFlags = rapidjson::kParseIterativeFlag | rapidjson::kParseNumbersAsStringsFlag | rapidjson::kParseValidateEncodingFlag;
  const rapidjson::ParseResult outcome = reader.Parse<kFlags>(stream, builder);
  if (builder.is_over()) return Error(Errc::OutOfRange, fmt::format("the JSON text has more than {} values", bounds.values_max));
  if (builder.has_lone_surrogate()) return Error(Errc::InvalidArgument, fmt::format("not JSON at about byte {}: half of a surrogate pair", outcome.Offset()));
  if (outcome.IsError())
    return Error(Errc::InvalidArgument, fmt::format("not JSON at about byte {}: {}", outcome.Offset(), rapidjson::GetParseError_En(outcome.Code())));
  return builder.take();
}

std::optional<bool> Json::as_bool() const { return kind_ == Kind::Bool ? std::optional(bool_) : std::nullopt; }
std::optional<std::string_view> Json::as_text() const { return kind_ == Kind::Text ? std::optional<std::string_view>(text_) : std::nullopt; }

namespace {
template <class Integer>
std::optional<Integer> whole(std::string_view text) {
  Integer value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}
}  // namespace
std::optional<int64_t> Json::as_int64() const { return whole<int64_t>(text_); }
std::optional<uint64_t> Json::as_uint64() const { return whole<uint64_t>(text_); }

const Json* Json::find(std::string_view key) const {
  for (auto member = members_.rbegin(); member != members_.rend(); ++member)
    if (member->first == key) return &member->second;
  return nullptr;
}

// --- writing --------------------------------------------------------------------------------------------------------------------------

void JsonWriter::separate() {
  if (levels_.empty()) { CHECK(out_.empty(), "one document"); return; }
  if (!levels_.back().is_empty) out_ += ',';
  levels_.back().is_empty = false;
  if (layout_ == Layout::Pretty) out_.append("\n").append(levels_.size(), '\t');
}
void JsonWriter::before_key() {
  CHECK(!levels_.empty() && levels_.back().closer == '}' && !is_key_written_);
  separate();
  is_key_written_ = true;
}
void JsonWriter::before_value() {
  CHECK(is_key_written_ || levels_.empty() || levels_.back().closer == ']', "a value in an object needs a key");
  if (!is_key_written_) separate();
  is_key_written_ = false;
}
JsonWriter& JsonWriter::open(char opener) {
  before_value();
  out_ += opener;
  levels_.push_back({opener == '{' ? '}' : ']'});
  return *this;
}
JsonWriter& JsonWriter::close(char closer) {
  CHECK(!levels_.empty() && levels_.back().closer == closer && !is_key_written_);
  const bool is_empty = levels_.back().is_empty;
  levels_.pop_back();
  if (layout_ == Layout::Pretty && !is_empty) out_.append("\n").append(levels_.size(), '\t');
  out_ += closer;
  return *this;
}
JsonWriter& JsonWriter::key(std::string_view name) { before_key(); quote(name); out_ += ':'; return *this; }
JsonWriter& JsonWriter::key(int64_t number) { before_key(); out_ += fmt::format("{}:", number); return *this; }
JsonWriter& JsonWriter::value(std::string_view text) { before_value(); quote(text); return *this; }
JsonWriter& JsonWriter::value(bool truth) { before_value(); out_ += truth ? "true" : "false"; return *this; }
JsonWriter& JsonWriter::value(int64_t number) { before_value(); out_ += fmt::format("{}", number); return *this; }
JsonWriter& JsonWriter::value(uint64_t number) { before_value(); out_ += fmt::format("{}", number); return *this; }
JsonWriter& JsonWriter::null() { before_value(); out_ += "null"; return *this; }

void JsonWriter::quote(std::string_view text) {
  out_ += '"';
  for (const char c : text) {
    switch (c) {
      case '"': out_ += "\\\""; break;
      case '\\': out_ += "\\\\"; break;
      case '\n': out_ += "\\n"; break;
      case '\r': out_ += "\\r"; break;
      case '\t': out_ += "\\t"; break;
      default:
        if (static_cast<uint8_t>(c) < 0x20) out_ += fmt::format("\\u{:04x}", static_cast<uint8_t>(c));
        else out_ += c;
    }
  }
  out_ += '"';
}

std::string JsonWriter::take() {
  CHECK(levels_.empty() && !is_key_written_ && !out_.empty());
  return std::move(out_);
}

}  // namespace fulmar
