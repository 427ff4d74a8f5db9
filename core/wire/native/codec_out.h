#pragma once
// What a frame under construction holds beside its header, and the first thing that is wrong with it.
// A part of codec.cc, included there and nowhere else.

#include <capnp/message.h>
#include <fmt/format.h>

#include <optional>

#include "core/wire/native/codec.h"
#include "core/wire/native/codec_limits.h"
#include "core/wire/native/fulmar.capnp.h"

namespace fulmar::native {
namespace {

// Collects what does not go into the header, and the first thing that is wrong. Views are borrowed until the frame is written.
class Out {
 public:
  // Empty text stays a null pointer, which reads as empty: one form for each value.
  template <class B>
  void text(const char* field, B& builder, capnp::Text::Builder (B::*init)(unsigned), std::string_view value) {
    if (value.size() > kTextBytesMax) return fail(fmt::format("{} is {} bytes long, at most {}", field, value.size(), kTextBytesMax));
    if (value.find('\0') != std::string_view::npos) return fail(fmt::format("{} contains a NUL", field));
    if (!value.empty()) std::memcpy((builder.*init)(static_cast<unsigned>(value.size())).begin(), value.data(), value.size());
  }
  void attach(Bytes bytes) { attachment_ = bytes; }
  // A table, entry by entry (the layouts stand in fulmar.capnp).
  template <class T> Out& put(T value) {
    built_.resize(built_.size() + sizeof(T));
    store_be(built_.data() + built_.size() - sizeof(T), value);
    return *this;
  }
  Out& put_text(std::string_view text) {
    if (text.size() > UINT16_MAX) fail(fmt::format("a text of {} bytes in a table", text.size()));
    else if (text.find('\0') != std::string_view::npos) fail("a text in a table contains a NUL");
    put(static_cast<uint16_t>(text.size()));
    built_.insert(built_.end(), text.begin(), text.end());
    return *this;
  }
  void attach(const std::vector<fulmar::TopicConfig>& topics) {
    topics_ = &topics;
    for (const fulmar::TopicConfig& topic : topics) {
      if (topic.name.size() > UINT16_MAX) return fail(fmt::format("a topic name of {} bytes", topic.name.size()));
      if (topic.name.find('\0') != std::string::npos) return fail("a topic name contains a NUL");
      table_bytes_ += kTableEntryBytesMin + topic.name.size();
    }
  }
  void fail(std::string sentence) {
    if (!wrong_) wrong_ = Error(Errc::InvalidArgument, std::move(sentence));
  }

  uint64_t attachment_bytes() const { return attachment_.size() + built_.size() + table_bytes_; }
  std::optional<Error>& wrong() { return wrong_; }
  void write_attachment(Writer& to) const {
    to.bytes(attachment_);
    to.bytes(built_);
    if (topics_ == nullptr) return;
    for (const fulmar::TopicConfig& topic : *topics_) {
      to.u16(static_cast<uint16_t>(topic.name.size()));
      to.text(topic.name);
      to.i32(topic.read_queues);
      to.i32(topic.write_queues);
      to.u32(topic.perm);
    }
  }

 private:
  Bytes attachment_;
  std::vector<uint8_t> built_;
  const std::vector<fulmar::TopicConfig>* topics_ = nullptr;
  uint64_t table_bytes_ = 0;
  std::optional<Error> wrong_;
};

// A union member that is text selects its method even when it is empty.
void write_name(Out& out, Request::Builder root, capnp::Text::Builder (Request::Builder::*init)(unsigned), std::string_view name) {
  if (name.empty()) (root.*init)(0);
  out.text("name", root, init, name);
}

}  // namespace
}  // namespace fulmar::native
