#pragma once
// Reads the fields of a header and of a table, and says at which of them something was wrong.
// A part of codec.cc, included there and nowhere else.

#include <capnp/message.h>
#include <fmt/format.h>

#include "core/wire/native/codec.h"
#include "core/wire/native/codec_limits.h"
#include "core/wire/native/fulmar.capnp.h"

namespace fulmar::native {
namespace {

// Thrown and caught in this file only.
struct Broken { std::string sentence; };

// Follows the fields of one header, so that whatever goes wrong is said of the field at which it went wrong.
// `at("topic").text(x.getTopic())`: the left side is evaluated first, so the name stands before capnp may throw.
class Fields {
 public:
  Fields(const char* what, Bytes attachment) : what_(what), attachment_(attachment) {}

  Fields& of(const char* what) { what_ = what; field_ = ""; return *this; }
  Fields& at(const char* field) { field_ = field; return *this; }
  std::string place() const { return *field_ == 0 ? std::string(what_) : fmt::format("{}.{}", what_, field_); }

  std::string_view text(capnp::Text::Reader value) const {
    if (value.size() > kTextBytesMax) fail(fmt::format("is {} bytes long, at most {}", value.size(), kTextBytesMax));
    const std::string_view out(value.begin(), value.size());
    if (out.find('\0') != std::string_view::npos) fail("contains a NUL");
    return out;
  }
  std::string owned(capnp::Text::Reader value) const { return std::string(text(value)); }
  Bytes data(capnp::Data::Reader value) const { return {value.begin(), value.size()}; }
  template <class T> T struct_of(T reader) const { return reader; }
  int32_t count(int32_t value) const {
    if (value < 0) fail(fmt::format("is negative: {}", value));
    return value;
  }
  uint64_t place_in_log(int64_t value) const {
    if (value < 0) fail(fmt::format("is negative: {}", value));
    return static_cast<uint64_t>(value);
  }

  Bytes attachment() { is_attachment_used_ = true; return attachment_; }
  std::vector<uint8_t> owned_attachment() { const Bytes all = attachment(); return {all.begin(), all.end()}; }
  // A topic table of exactly `entries` entries. Memory follows the bytes that are there, not the number that is claimed.
  std::vector<fulmar::TopicConfig> topic_table(uint32_t entries) {
    at("topic table");
    Reader in(attachment());
    if (entries > attachment_.size() / kTableEntryBytesMin) fail(fmt::format("has {} bytes for {} entries", attachment_.size(), entries));
    std::vector<fulmar::TopicConfig> out;
    out.reserve(entries);
    for (uint32_t i = 0; i < entries; ++i) {
      fulmar::TopicConfig topic;
      topic.name = in.text(in.u16());
      topic.read_queues = count(in.i32());
      topic.write_queues = count(in.i32());
      topic.perm = in.u32();
      if (!in.ok()) fail(fmt::format("ends inside entry {} of {}", i + 1, entries));
      if (topic.name.find('\0') != std::string::npos) fail(fmt::format("has a NUL in the name of entry {}", i + 1));
      out.push_back(std::move(topic));
    }
    if (in.remaining() != 0) fail(fmt::format("has {} bytes after its last entry", in.remaining()));
    return out;
  }
  // The attachment as entries that take() reads from a Reader; `claimed` of at least `entry_bytes_min` bytes each. Memory follows the bytes.
  template <class T, class Take>
  std::vector<T> table(Reader& in, uint32_t claimed, size_t entry_bytes_min, Take take) {
    if (claimed > in.remaining() / entry_bytes_min) fail(fmt::format("has {} bytes for {} entries", in.remaining(), claimed));
    std::vector<T> out;
    out.reserve(claimed);
    for (uint32_t i = 0; i < claimed; ++i) {
      out.push_back(take(in));
      if (!in.ok()) fail(fmt::format("ends inside entry {} of {}", i + 1, claimed));
    }
    return out;
  }
  std::string table_text(Reader& in) const {
    std::string out(in.text(in.u16()));
    if (out.find('\0') != std::string::npos) fail("has a NUL in a text");
    return out;
  }
  void finish(const Reader& in) const {
    if (in.remaining() != 0) fail(fmt::format("has {} bytes after its last entry", in.remaining()));
  }
  template <class E> E one_of(uint8_t value, E last) const {
    if (value > static_cast<uint8_t>(last)) fail(fmt::format("has the value {}, at most {}", value, static_cast<uint8_t>(last)));
    return static_cast<E>(value);
  }
  void finish() {
    at("attachment");
    if (!is_attachment_used_ && !attachment_.empty()) fail(fmt::format("of {} bytes is not expected", attachment_.size()));
  }

  [[noreturn]] void fail(std::string sentence) const { throw Broken{place() + " " + sentence}; }

 private:
  const char* what_;
  const char* field_ = "";
  Bytes attachment_;
  bool is_attachment_used_ = false;
};

}  // namespace
}  // namespace fulmar::native
