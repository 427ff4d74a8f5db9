#include "core/wire/remoting/frame.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "core/base/marks.h"
#include "core/wire/framer.h"

namespace fulmar::remoting {

Result<size_t> frame_bytes(Bytes start, uint32_t frame_bytes_max) {
  if (start.size() < 4) return size_t{0};
  const uint32_t length = load_be<uint32_t>(start.data());
  if (length > frame_bytes_max - 4) return Error(Errc::FrameTooLarge, fmt::format("a frame of {} bytes, at most {}", length, frame_bytes_max - 4));
  if (length < 4) return Error(Errc::FrameBroken, fmt::format("a frame of {} bytes has no room for its header length", length));
  if (start.size() < kLengthBytes) return size_t{0};
  const uint32_t word = load_be<uint32_t>(start.data() + 4);
  const uint32_t header = word & 0xFFFFFF;
  if (word >> 24 > 1) return Error(Errc::FrameBroken, fmt::format("a header in encoding {}, 0 and 1 are known", word >> 24));
  if (header > length - 4) return Error(Errc::FrameBroken, fmt::format("a header of {} bytes in a frame of {}", header, length));
  if (header > kHeaderBytesMax) return Error(Errc::FrameBroken, fmt::format("a header of {} bytes, at most {}", header, kHeaderBytesMax));
  return size_t{4} + length;
}

namespace {

constexpr std::array<std::string_view, 14> kLanguages = {"JAVA", "CPP",  "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY",
                                                         "OTHER", "HTTP", "GO",     "PHP",    "OMS",    "RUST",   "NODE_JS"};

Language language_of(int64_t number) { return number >= 0 && number < static_cast<int64_t>(kLanguages.size()) ? static_cast<Language>(number) : Language::Other; }
Language language_of(std::string_view name) {
  for (size_t i = 0; i < kLanguages.size(); ++i)
    if (kLanguages[i] == name) return static_cast<Language>(i);
  SOMETIMES("wire: a language that nobody knows", true);
  return Language::Other;
}

template <class Integer>
bool read_number(std::string_view text, Integer& to) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to);
  return error == std::errc() && end == text.data() + text.size();
}

// --- JSON -------------------------------------------------------------------------------------------------------------------------------

// Walks a JSON header. After the first thing that is wrong it stands still and every question is answered with nothing; `wrong` says what.
class JsonWalk {
 public:
  enum class Kind : uint8_t { Text, Scalar, Null, Nested, None };
  struct Value { Kind kind = Kind::None; std::string_view text; };

  JsonWalk(std::string_view in, std::string& unescaped) : in_(in), unescaped_(unescaped) {}
  bool ok() const { return wrong_.empty(); }
  std::string wrong() const { return fmt::format("{} at byte {} of the header", wrong_, at_); }
  void fail(std::string_view what) {
    if (wrong_.empty()) wrong_ = what;
  }

  // visit(name) must read the member's value.
  template <class Visit>
  void object(Visit visit) {
    if (!take('{')) return fail("no object");
    if (take('}')) return;
    while (ok()) {
      const std::string_view name = key();
      if (ok() && !take(':')) fail("no ':'");
      if (!ok()) return;
      visit(name);
      if (!ok() || take('}')) return;
      if (!take(',')) return fail("neither ',' nor '}'");
    }
  }
  // Read whole; nobody hears of what is inside an object or array.
  Value value() {
    const char c = peek();
    if (c == '"') return {Kind::Text, string()};
    if (c == '{' || c == '[') {
      skip_nested();
      return {Kind::Nested, {}};
    }
    const std::string_view word = bare();
    if (word == "null") return {Kind::Null, {}};
    const bool is_number = !word.empty() && (word[0] == '-' || (word[0] >= '0' && word[0] <= '9'));
    if (!is_number && word != "true" && word != "false") fail("no value");
    return {Kind::Scalar, word};
  }
  // Only white space may follow a header: one client's ends with a newline.
  void end() {
    if (ok() && peek() != 0) fail("something behind the object");
    if (ok() && at_ != in_.size()) fail("a NUL");
  }
  char peek() {
    while (at_ < in_.size() && (in_[at_] == ' ' || in_[at_] == '\t' || in_[at_] == '\n' || in_[at_] == '\r')) ++at_;
    return ok() && at_ < in_.size() ? in_[at_] : '\0';
  }

 private:
  bool take(char wanted) {
    if (peek() != wanted) return false;
    ++at_;
    return true;
  }
  // Quoted, or a bare word as RocketMQ's library writes the keys of some maps.
  std::string_view key() { return peek() == '"' ? string() : bare(); }
  std::string_view bare() {
    peek();
    const size_t begin = at_;
    const auto is_word = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '+' || c == '.' || c == '$';
    };
    while (at_ < in_.size() && is_word(in_[at_])) ++at_;
    if (at_ == begin) fail("neither a word nor a string");
    return in_.substr(begin, at_ - begin);
  }
  std::string_view string() {
    const size_t begin = ++at_;
    while (at_ < in_.size() && in_[at_] != '"' && in_[at_] != '\\') ++at_;
    if (at_ < in_.size() && in_[at_] == '"') return in_.substr(begin, at_++ - begin);
    // Nothing becomes longer by unescaping, so that what was reserved for the whole header is enough and views stay good.
    const size_t unescaped_begin = unescaped_.size();
    unescaped_.append(in_.substr(begin, at_ - begin));
    while (at_ < in_.size() && in_[at_] != '"' && ok()) {
      if (in_[at_] == '\\') escape();
      else unescaped_ += in_[at_++];
    }
    if (at_ >= in_.size()) fail("a string without end");
    if (!ok()) return {};
    ++at_;
    return std::string_view(unescaped_).substr(unescaped_begin);
  }
  void escape() {
    const char c = at_ + 1 < in_.size() ? in_[at_ + 1] : '\0';
    constexpr std::string_view kNames = "\"\\/bfnrtu", kMeans = "\"\\/\b\f\n\r\t";
    const size_t which = c == 0 ? std::string_view::npos : kNames.find(c);
    if (which == std::string_view::npos) return fail("an escape that nobody knows");
    if (c != 'u') {
      at_ += 2;
      unescaped_ += kMeans[which];
      return;
    }
    uint32_t unit = 0;
    if (!hex(at_ + 2, unit)) return fail("an escape without four hex digits");
    at_ += 6;
    uint32_t second = 0;
    const bool is_first = unit >= 0xD800 && unit < 0xDC00;
    if (is_first && at_ + 1 < in_.size() && in_[at_] == '\\' && in_[at_ + 1] == 'u' && hex(at_ + 2, second) && second >= 0xDC00 && second < 0xE000) {
      at_ += 6;
      unit = 0x10000 + ((unit - 0xD800) << 10) + (second - 0xDC00);
    }
    put_utf8(unit);
  }
  bool hex(size_t at, uint32_t& to) const {
    if (at + 4 > in_.size()) return false;
    const auto [end, error] = std::from_chars(in_.data() + at, in_.data() + at + 4, to, 16);
    return error == std::errc() && end == in_.data() + at + 4;
  }
  // Half of a surrogate pair becomes '?', as Java writes it when it turns its text into bytes.
  void put_utf8(uint32_t c) {
    if (c >= 0xD800 && c < 0xE000) c = '?';
    const auto put = [this](uint32_t byte) { unescaped_ += static_cast<char>(byte); };
    if (c < 0x80) return put(c);
    if (c < 0x800) {
      put(0xC0 | c >> 6);
    } else if (c < 0x10000) {
      put(0xE0 | c >> 12);
      put(0x80 | (c >> 6 & 0x3F));
    } else {
      put(0xF0 | c >> 18);
      put(0x80 | (c >> 12 & 0x3F));
      put(0x80 | (c >> 6 & 0x3F));
    }
    put(0x80 | (c & 0x3F));
  }
  // Brackets and strings are counted, nothing more: nobody reads what is inside.
  void skip_nested() {
    uint32_t depth = 0;
    do {
      const char c = peek();
      if (c == 0) return fail("a value without end");
      if (c == '"') { (void)string(); continue; }
      if ((c == '{' || c == '[') && ++depth > kNestingMax) return fail("a value nested too deep");
      if (c == '}' || c == ']') --depth;
      ++at_;
    } while (depth > 0 && ok());
  }

  std::string_view in_;
  size_t at_ = 0;
  std::string& unescaped_;
  std::string_view wrong_;
};

template <class Integer>
void read_integer(JsonWalk& walk, std::string_view name, Integer& to) {
  const JsonWalk::Value value = walk.value();
  if (value.kind == JsonWalk::Kind::Null) return;
  const bool is_one = value.kind == JsonWalk::Kind::Text || value.kind == JsonWalk::Kind::Scalar;
  if (!is_one || !read_number(value.text, to)) walk.fail(name);
}

void read_fields(JsonWalk& walk, std::vector<Field>& fields) {
  if (walk.peek() != '{') {
    if (walk.value().kind != JsonWalk::Kind::Null) walk.fail("extFields is no object");
    return;
  }
  walk.object([&](std::string_view name) {
    const JsonWalk::Value value = walk.value();
    if (value.kind == JsonWalk::Kind::Null) return;
    if (value.kind == JsonWalk::Kind::Nested) return walk.fail("a value of extFields is neither text nor number nor boolean");
    if (fields.size() >= kFieldsMax) return walk.fail("too many extFields");
    fields.push_back({name, value.text});
  });
}

Result<void> read_json(std::string_view header, std::string& unescaped, Frame& frame) {
  unescaped.clear();
  unescaped.reserve(header.size());
  JsonWalk walk(header, unescaped);
  bool has_code = false, has_opaque = false;
  walk.object([&](std::string_view name) {
    if (name == "code") { has_code = true; read_integer(walk, "code is no 32-bit number", frame.code); }
    else if (name == "opaque") { has_opaque = true; read_integer(walk, "opaque is no 32-bit number", frame.opaque); }
    else if (name == "flag") read_integer(walk, "flag is no 32-bit number", frame.flag);
    else if (name == "version") read_integer(walk, "version is no 32-bit number", frame.version);
    else if (name == "extFields") read_fields(walk, frame.fields);
    else if (name == "remark") {
      const JsonWalk::Value value = walk.value();
      if (value.kind == JsonWalk::Kind::Text) frame.remark = value.text;
      else if (value.kind != JsonWalk::Kind::Null) walk.fail("remark is no text");
    } else if (name == "language") {
      const JsonWalk::Value value = walk.value();
      int64_t number = 0;
      frame.language = value.kind == JsonWalk::Kind::Scalar && read_number(value.text, number) ? language_of(number) : language_of(value.text);
    } else (void)walk.value();
  });
  walk.end();
  if (!walk.ok()) return Error(Errc::HeaderBroken, walk.wrong());
  if (!has_code || !has_opaque) return Error(Errc::HeaderBroken, fmt::format("a header without {}", has_code ? "opaque" : "code"));
  return {};
}

// --- binary -----------------------------------------------------------------------------------------------------------------------------

// A text of length 0 is none, as RocketMQ reads it.
Result<void> read_binary(Bytes header, Frame& frame) {
  Reader in(header);
  const auto cut = [&in] { return Error(Errc::HeaderBroken, fmt::format("a binary header ends at byte {}", in.at())); };
  frame.code = in.i16();
  frame.language = language_of(int64_t{in.u8()});
  frame.version = in.i16();
  frame.opaque = in.i32();
  frame.flag = in.u32();
  frame.remark = in.text(in.u32());
  const uint32_t fields_bytes = in.u32();
  if (!in.ok() || fields_bytes > in.remaining()) return cut();
  const size_t end = in.at() + fields_bytes;
  while (in.ok() && in.at() < end) {
    const std::string_view name = in.text(in.u16());
    const std::string_view value = in.text(in.u32());
    if (!in.ok() || in.at() > end) return cut();
    if (name.empty() || value.empty()) continue;
    if (frame.fields.size() >= kFieldsMax) return Error(Errc::HeaderBroken, "too many extFields");
    frame.fields.push_back({name, value});
  }
  return {};
}

}  // namespace

std::string_view to_string(Language language) { return kLanguages[static_cast<size_t>(language)]; }

std::optional<std::string_view> Frame::find(std::string_view name) const {
  for (auto field = fields.rbegin(); field != fields.rend(); ++field)
    if (field->name == name) return field->value;
  return std::nullopt;
}

Result<const Frame*> FrameReader::read(Bytes bytes) {
  CHECK(bytes.size() >= kLengthBytes && load_be<uint32_t>(bytes.data()) + size_t{4} == bytes.size(), "{}", bytes.size());
  const uint32_t word = load_be<uint32_t>(bytes.data() + 4);
  const size_t header_bytes = word & 0xFFFFFF;
  CHECK(kLengthBytes + header_bytes <= bytes.size(), "{} of {}", header_bytes, bytes.size());
  std::vector<Field> fields = std::move(frame_.fields);
  fields.clear();
  frame_ = Frame{};
  frame_.fields = std::move(fields);
  frame_.encoding = word >> 24 == 0 ? Encoding::Json : Encoding::Binary;
  frame_.body = bytes.subspan(kLengthBytes + header_bytes);
  const Bytes header = bytes.subspan(kLengthBytes, header_bytes);
  FULMAR_TRY_VOID(frame_.encoding == Encoding::Json ? read_json(as_text(header), text_, frame_) : read_binary(header, frame_));
  return &frame_;
}

// --- writing ----------------------------------------------------------------------------------------------------------------------------

template <class T>
void FrameWriter::be(T value) {
  out_.resize(out_.size() + sizeof value);
  store_be(out_.data() + out_.size() - sizeof value, value);
}

void FrameWriter::number(int64_t value) {
  char digits[24];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, value);
  raw({digits, static_cast<size_t>(end - digits)});
}

namespace {
// Bytes of the character at the front of `text`, which is not ASCII; 0 when it is no well-formed UTF-8.
size_t utf8_bytes(std::string_view text) {
  const auto at = [text](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0}; };
  const uint8_t first = at(0);
  const auto follows = [&](size_t i, uint8_t low = 0x80, uint8_t high = 0xBF) { return at(i) >= low && at(i) <= high; };
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool is_second = follows(1, first == 0xE0 ? 0xA0 : 0x80, first == 0xED ? 0x9F : 0xBF);
    return is_second && follows(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool is_second = follows(1, first == 0xF0 ? 0x90 : 0x80, first == 0xF4 ? 0x8F : 0xBF);
    return is_second && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}
}  // namespace

void FrameWriter::quoted(std::string_view text) {
  raw("\"");
  while (!text.empty()) {
    size_t plain = 0;
    while (plain < text.size() && text[plain] != '"' && text[plain] != '\\' && static_cast<uint8_t>(text[plain]) >= 0x20 && static_cast<uint8_t>(text[plain]) < 0x80) ++plain;
    raw(text.substr(0, plain));
    text.remove_prefix(plain);
    if (text.empty()) break;
    const uint8_t c = static_cast<uint8_t>(text.front());
    size_t taken = 1;
    if (c >= 0x80) {
      taken = utf8_bytes(text);
      raw(taken == 0 ? std::string_view("?") : text.substr(0, taken));
      taken = std::max<size_t>(taken, 1);
    } else if (c >= 0x20) {
      const char escaped[2] = {'\\', static_cast<char>(c)};
      raw({escaped, 2});
    } else {
      constexpr std::string_view kDigits = "0123456789abcdef";
      const char escaped[6] = {'\\', 'u', '0', '0', kDigits[c >> 4], kDigits[c & 15]};
      raw({escaped, 6});
    }
    text.remove_prefix(taken);
  }
  raw("\"");
}

FrameWriter::FrameWriter(std::vector<uint8_t>& out, const Start& start) : out_(out), start_(start), begin_(out.size()) {
  out_.resize(out_.size() + kLengthBytes);
  if (start.encoding == Encoding::Json) {
    raw("{\"code\":");
    number(start.code);
    raw(",\"extFields\":{");
    return;
  }
  CHECK(start.code >= INT16_MIN && start.code <= INT16_MAX && start.version >= 0 && start.version <= INT16_MAX, "{} {}", start.code, start.version);
  be(static_cast<int16_t>(start.code));
  be(static_cast<uint8_t>(start.language));
  be(static_cast<int16_t>(start.version));
  be(start.opaque);
  be(start.flag);
  be(static_cast<uint32_t>(start.remark.size()));
  raw(start.remark);
  be(uint32_t{0});
  fields_begin_ = out_.size();
}

FrameWriter& FrameWriter::field(std::string_view name, std::string_view value) {
  if (start_.encoding == Encoding::Json) {
    if (has_fields_) raw(",");
    has_fields_ = true;
    quoted(name);
    raw(":");
    quoted(value);
  } else if (!value.empty()) {   // a text of length 0 is read as none
    CHECK(!name.empty() && name.size() <= INT16_MAX && value.size() <= INT32_MAX);
    be(static_cast<uint16_t>(name.size()));
    raw(name);
    be(static_cast<uint32_t>(value.size()));
    raw(value);
  }
  return *this;
}

FrameWriter& FrameWriter::field(std::string_view name, int64_t value) {
  char digits[24];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, value);
  return field(name, std::string_view(digits, static_cast<size_t>(end - digits)));
}

void FrameWriter::finish(Bytes body, uint64_t following_bytes) {
  if (start_.encoding == Encoding::Json) {
    raw("},\"flag\":");
    number(start_.flag);
    raw(",\"language\":\"");
    raw(to_string(start_.language));
    raw("\",\"opaque\":");
    number(start_.opaque);
    if (!start_.remark.empty()) {
      raw(",\"remark\":");
      quoted(start_.remark);
    }
    raw(",\"version\":");
    number(start_.version);
    raw("}");
  } else {
    store_be(out_.data() + fields_begin_ - 4, static_cast<uint32_t>(out_.size() - fields_begin_));
  }
  const size_t header_bytes = out_.size() - begin_ - kLengthBytes;
  const uint64_t length = 4 + header_bytes + body.size() + following_bytes;
  CHECK(header_bytes <= kHeaderBytesMax && length + 4 <= kFrameBytesMax, "a header of {} bytes in a frame of {}", header_bytes, length);
  store_be(out_.data() + begin_, static_cast<uint32_t>(length));
  store_be(out_.data() + begin_ + 4, static_cast<uint32_t>(header_bytes) | static_cast<uint32_t>(start_.encoding) << 24);
  out_.insert(out_.end(), body.begin(), body.end());
}

}  // namespace fulmar::remoting
