// The only file of the core that is built with exceptions: capnp throws on malformed input, and everything thrown here is caught here.

#include "core/wire/native/codec.h"

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <memory>

#include "core/base/marks.h"
#include "core/wire/framer.h"
#include "core/wire/native/codec_read.h"
#include "core/wire/native/codec_write.h"

namespace fulmar::native {

namespace {

// The answer to a send, built once and given new values from then on: its shape depends on nothing but the length of the message id.
class SentHeader {
 public:
  // The header's bytes, good until the next call; empty for what the other way must judge.
  Bytes fill(uint32_t opaque, const reply::Sent& r) {
    if (r.message_id.empty() || r.message_id.size() > kIdBytesMax || r.message_id.find('\0') != std::string::npos) return {};
    if (id_bytes_ != r.message_id.size()) build(r.message_id.size());
    root_.setOpaque(opaque);
    sent_.setCode(static_cast<int32_t>(r.code));
    sent_.setQueueId(r.queue_id);
    sent_.setQueueOffset(r.queue_offset.value());
    sent_.setCount(r.count);
    sent_.setPhysicalOffset(static_cast<int64_t>(r.physical_offset.value()));
    std::memcpy(id_, r.message_id.data(), id_bytes_);
    return header_;
  }

 private:
  static constexpr size_t kIdBytesMax = 64, kWords = 64;

  void build(size_t id_bytes) {
    std::memset(static_cast<void*>(words_.data()), 0, sizeof(words_));
    message_ = std::make_unique<capnp::MallocMessageBuilder>(kj::ArrayPtr<capnp::word>(words_.data(), kWords));
    root_ = message_->initRoot<Response>();
    sent_ = root_.initSent();
    id_ = sent_.initMessageId(static_cast<uint32_t>(id_bytes)).begin();
    id_bytes_ = id_bytes;
    const auto segments = message_->getSegmentsForOutput();
    CHECK(segments.size() == 1 && segments[0].begin() == words_.data(), "{} segments", segments.size());
    header_ = {reinterpret_cast<const uint8_t*>(segments[0].begin()), 8 * segments[0].size()};
  }

  std::array<capnp::word, kWords> words_;
  std::unique_ptr<capnp::MallocMessageBuilder> message_;
  Response::Builder root_{nullptr};
  Sent::Builder sent_{nullptr};
  char* id_ = nullptr;
  size_t id_bytes_ = SIZE_MAX;
  Bytes header_;
};

}  // namespace

struct Codec::Scratch {
  SentHeader sent;
  // What the last decode reads from: views of a command point here.
  std::unique_ptr<capnp::word[]> in{new capnp::word[kHeaderWordsMax]};
  // What the next encode builds in. Always zero between two calls, as capnp wants it.
  std::unique_ptr<capnp::word[]> out{new capnp::word[kHeaderWordsMax]()};
};

Codec::Codec() : scratch_(new Scratch) {}
Codec::~Codec() { delete scratch_; }

namespace {

constexpr int kNestingMax = 16;
constexpr uint16_t kRequestMethods = static_cast<uint16_t>(Request::UPDATE_CONFIG) + 1;
constexpr uint16_t kResponseMethods = static_cast<uint16_t>(Response::TOPICS_CHANGED) + 1;

struct Parts {
  kj::ArrayPtr<const capnp::word> header;
  Bytes attachment;
};

// `frame` as the Framer gives it, which has compared the two lengths.
Parts split(Bytes frame, capnp::word* scratch) {
  CHECK(frame.size() >= kLengthBytes && load_le<uint32_t>(frame.data()) + size_t{4} == frame.size(), "{}", frame.size());
  const size_t words = load_le<uint32_t>(frame.data() + 4);
  CHECK(words <= kHeaderWordsMax && kLengthBytes + 8 * words <= frame.size(), "{} words in {} bytes", words, frame.size());
  if (words != 0) std::memcpy(scratch, frame.data() + kLengthBytes, 8 * words);
  return {{scratch, words}, frame.subspan(kLengthBytes + 8 * words)};
}

// What both directions have in common. `Root` is Request or Response; take(root, fields) reads what is special.
template <class Root, class Take>
std::optional<DecodeFailure> decode(const Parts& parts, const char* what, uint16_t methods, Take take) {
  DecodeFailure failure;
  Fields fields(what, parts.attachment);
  try {
    capnp::ReaderOptions options;
    options.traversalLimitInWords = parts.header.size() + 1;  // capnp counts the root pointer twice; everything else is read once
    options.nestingLimit = kNestingMax;
    const kj::ArrayPtr<const capnp::word> segments[1] = {parts.header};
    capnp::SegmentArrayMessageReader message(segments, options);
    const auto root = message.getRoot<Root>();
    failure.opaque = root.getOpaque();
    failure.has_opaque = true;
    if constexpr (std::is_same_v<Root, Request>) failure.is_one_way = root.getOneWay();
    const auto method = static_cast<uint16_t>(root.which());
    if (method >= methods) {
      failure.error =
          Error(Errc::Unsupported, fmt::format("{} {} is not known to version {} of the native protocol", what, method, kVersion));
      return failure;
    }
    take(root, fields);
    fields.finish();
    return std::nullopt;
  } catch (const Broken& broken) {
    failure.error = Error(Errc::HeaderBroken, broken.sentence);
  } catch (const kj::Exception&) {  // its text names files of another machine
    failure.error = Error(Errc::HeaderBroken, fmt::format("{} does not parse", fields.place()));
  }
  SOMETIMES("wire: a broken header still tells its opaque number", failure.has_opaque);
  return failure;
}

template <class Root, class Fill>
Result<void> encode(capnp::word* scratch, uint32_t frame_bytes_max, uint64_t following_bytes, std::vector<uint8_t>& to, Fill fill) {
  Out out;
  try {
    capnp::MallocMessageBuilder message(kj::ArrayPtr<capnp::word>(scratch, kHeaderWordsMax));
    fill(out, message.initRoot<Root>());
    if (out.wrong()) return std::move(*out.wrong());
    const auto segments = message.getSegmentsForOutput();
    if (segments.size() != 1 || segments[0].size() > kHeaderWordsMax) {
      return Error(Errc::InvalidArgument, fmt::format("does not fit a header of {} bytes", 8 * kHeaderWordsMax));
    }
    const size_t header_bytes = 8 * segments[0].size();
    const uint64_t length = 4 + header_bytes + out.attachment_bytes() + following_bytes;
    if (length > frame_bytes_max)
      return Error(Errc::InvalidArgument, fmt::format("a frame of {} bytes, at most {}", length, frame_bytes_max));
    const size_t at = to.size();
    to.resize(at + kLengthBytes + header_bytes + out.attachment_bytes());
    store_le(to.data() + at, static_cast<uint32_t>(length));
    store_le(to.data() + at + 4, static_cast<uint32_t>(segments[0].size()));
    Writer writer(MutableBytes(to).subspan(at + kLengthBytes));
    writer.bytes({reinterpret_cast<const uint8_t*>(segments[0].begin()), header_bytes});
    out.write_attachment(writer);
    return {};
  } catch (const kj::Exception&) {
    return Error(Errc::InvalidArgument, "cannot be encoded");
  }
}

}  // namespace

tl::expected<DecodedRequest, DecodeFailure> Codec::decode_request(Bytes frame) {
  DecodedRequest out;
  auto failure =
      decode<Request>(split(frame, scratch_->in.get()), "request", kRequestMethods, [&out](Request::Reader root, Fields& fields) {
        out.opaque = root.getOpaque();
        out.is_one_way = root.getOneWay();
        out.command = read(fields, root);
      });
  if (failure) return tl::unexpected(std::move(*failure));
  return out;
}

tl::expected<DecodedResponse, DecodeFailure> Codec::decode_response(Bytes frame) {
  DecodedResponse out;
  auto failure =
      decode<Response>(split(frame, scratch_->in.get()), "response", kResponseMethods, [&out](Response::Reader root, Fields& fields) {
        out.opaque = root.getOpaque();
        out.reply = read(fields, root);
      });
  if (failure) return tl::unexpected(std::move(*failure));
  return out;
}

Result<void> Codec::encode_request(uint32_t opaque, bool is_one_way, const Command& command, std::vector<uint8_t>& out) {
  return encode<Request>(scratch_->out.get(), kFrameBytesMaxRequest, 0, out, [&](Out& to, Request::Builder root) {
    root.setOpaque(opaque);
    root.setOneWay(is_one_way);
    std::visit([&](const auto& c) { write(to, root, c); }, command);
  });
}

Result<void> Codec::encode_response(uint32_t opaque, const Reply& reply, uint64_t following_bytes, std::vector<uint8_t>& out) {
  if (const auto* sent = std::get_if<reply::Sent>(&reply); sent != nullptr && following_bytes == 0) {
    if (const Bytes header = scratch_->sent.fill(opaque, *sent); !header.empty()) {
      uint8_t lengths[kLengthBytes];
      store_le(lengths, static_cast<uint32_t>(4 + header.size()));
      store_le(lengths + 4, static_cast<uint32_t>(header.size() / 8));
      out.insert(out.end(), std::begin(lengths), std::end(lengths));
      out.insert(out.end(), header.begin(), header.end());
      return {};
    }
  }
  return encode<Response>(scratch_->out.get(), kFrameBytesMaxResponse, following_bytes, out, [&](Out& to, Response::Builder root) {
    root.setOpaque(opaque);
    std::visit([&](const auto& r) { write(to, root, r); }, reply);
  });
}

}  // namespace fulmar::native
