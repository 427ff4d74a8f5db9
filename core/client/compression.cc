#include "core/client/compression.h"

#include <fmt/format.h>
#include <libdeflate.h>
#include <lz4frame.h>
#include <zstd.h>

#include <algorithm>
#include <memory>

#include "core/base/marks.h"

namespace fulmar {
namespace {

// Longer windows than this are not needed for bodies we take: a stranger's frame may not make us hold more.
constexpr int kZstdWindowLogLeast = 23;
constexpr size_t kFirstBytes = 64u << 10;

struct Free {
  void operator()(libdeflate_compressor* c) const { libdeflate_free_compressor(c); }
  void operator()(libdeflate_decompressor* d) const { libdeflate_free_decompressor(d); }
  void operator()(ZSTD_DCtx* d) const { ZSTD_freeDCtx(d); }
  void operator()(LZ4F_dctx* d) const { LZ4F_freeDecompressionContext(d); }
};

Error broken(std::string_view what, std::string_view why) {
  return Error(Errc::RecordBroken, fmt::format("the flags say {}, the body is none: {}", what, why));
}
Error too_large(size_t compressed, size_t bytes_max) {
  return Error(Errc::RecordTooLarge, fmt::format("{} compressed bytes inflate to more than {}", compressed, bytes_max));
}
Error no_memory() { return Error(Errc::Full, "no memory to inflate a body"); }

// Room for more, at most `bytes_max` and one byte: the byte tells "exactly so much" from "more".
bool grow(std::vector<uint8_t>& scratch, size_t bytes_max) {
  if (scratch.size() > bytes_max) return false;
  scratch.resize(std::min(std::max(scratch.size() * 2, kFirstBytes), bytes_max + 1));
  return true;
}

Result<size_t> inflate_zlib(Bytes body, size_t bytes_max, std::vector<uint8_t>& scratch) {
  const std::unique_ptr<libdeflate_decompressor, Free> inflater(libdeflate_alloc_decompressor());
  if (inflater == nullptr) return no_memory();
  scratch.resize(std::min(std::max(body.size() * 4, kFirstBytes), bytes_max + 1));
  for (;;) {
    size_t taken = 0, made = 0;
    const libdeflate_result result = libdeflate_zlib_decompress_ex(inflater.get(), body.data(), body.size(), scratch.data(), scratch.size(), &taken, &made);
    if (result == LIBDEFLATE_SUCCESS && taken != body.size()) return broken("zlib", fmt::format("{} bytes stand behind its end", body.size() - taken));
    if (result == LIBDEFLATE_SUCCESS) return made;
    if (result != LIBDEFLATE_INSUFFICIENT_SPACE) return broken("zlib", "the stream does not parse");
    if (!grow(scratch, bytes_max)) return too_large(body.size(), bytes_max);
  }
}

Result<size_t> inflate_lz4(Bytes body, size_t bytes_max, std::vector<uint8_t>& scratch) {
  LZ4F_dctx* made_context = nullptr;
  if (LZ4F_isError(LZ4F_createDecompressionContext(&made_context, LZ4F_VERSION)) != 0) return no_memory();
  const std::unique_ptr<LZ4F_dctx, Free> context(made_context);
  size_t made = 0;
  scratch.clear();
  for (Bytes rest = body;;) {
    if (made == scratch.size() && !grow(scratch, bytes_max)) return too_large(body.size(), bytes_max);
    size_t room = scratch.size() - made, taken = rest.size();
    const size_t wanted = LZ4F_decompress(context.get(), scratch.data() + made, &room, rest.data(), &taken, nullptr);
    if (LZ4F_isError(wanted) != 0) return broken("LZ4", LZ4F_getErrorName(wanted));
    made += room;
    rest = rest.subspan(taken);
    if (wanted == 0) {
      if (!rest.empty()) return broken("LZ4", fmt::format("{} bytes stand behind its end", rest.size()));
      break;
    }
    if (room == 0 && taken == 0 && made < scratch.size()) return broken("LZ4", "it ends too early");
  }
  return made;
}

Result<size_t> inflate_zstd(Bytes body, size_t bytes_max, std::vector<uint8_t>& scratch) {
  const std::unique_ptr<ZSTD_DCtx, Free> context(ZSTD_createDCtx());
  if (context == nullptr) return no_memory();
  int window_log = kZstdWindowLogLeast;
  while (window_log < 30 && (size_t{1} << window_log) < bytes_max) ++window_log;
  ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, window_log);
  ZSTD_inBuffer in{body.data(), body.size(), 0};
  ZSTD_outBuffer out{nullptr, 0, 0};
  scratch.clear();
  for (;;) {
    if (out.pos == scratch.size() && !grow(scratch, bytes_max)) return too_large(body.size(), bytes_max);
    out.dst = scratch.data();
    out.size = scratch.size();
    const size_t in_before = in.pos, out_before = out.pos;
    const size_t wanted = ZSTD_decompressStream(context.get(), &out, &in);
    if (ZSTD_isError(wanted) != 0) return broken("ZSTD", ZSTD_getErrorName(wanted));
    if (wanted == 0) {
      if (in.pos != in.size) return broken("ZSTD", fmt::format("{} bytes stand behind its end", in.size - in.pos));
      break;
    }
    if (in.pos == in_before && out.pos == out_before && out.pos < out.size) return broken("ZSTD", "it ends too early");
  }
  return out.pos;
}

size_t compress_lz4(int32_t level, Bytes body, std::vector<uint8_t>& out) {
  LZ4F_preferences_t preferences{};
  preferences.frameInfo.contentSize = body.size();
  preferences.compressionLevel = level < 3 ? 0 : level;  // above 2 begins LZ4's slow search
  out.resize(LZ4F_compressFrameBound(body.size(), &preferences));
  const size_t made = LZ4F_compressFrame(out.data(), out.size(), body.data(), body.size(), &preferences);
  return LZ4F_isError(made) != 0 ? 0 : made;
}

size_t compress_zstd(int32_t level, Bytes body, std::vector<uint8_t>& out) {
  out.resize(ZSTD_compressBound(body.size()));
  const size_t made = ZSTD_compress(out.data(), out.size(), body.data(), body.size(), level);
  return ZSTD_isError(made) != 0 ? 0 : made;
}

size_t compress_zlib(int32_t level, Bytes body, std::vector<uint8_t>& out) {
  const std::unique_ptr<libdeflate_compressor, Free> compressor(libdeflate_alloc_compressor(level));
  if (compressor == nullptr) return 0;
  out.resize(body.size());  // what does not fit wins nothing
  return libdeflate_zlib_compress(compressor.get(), body.data(), body.size(), out.data(), out.size());
}

}  // namespace

bool compress(CompressionType type, int32_t level, Bytes body, std::vector<uint8_t>& out) {
  const int32_t bounded = std::clamp(level, 1, 9);
  size_t made = 0;
  switch (type) {
    case CompressionType::Zlib: made = compress_zlib(bounded, body, out); break;
    case CompressionType::Lz4: made = compress_lz4(bounded, body, out); break;
    case CompressionType::Zstd: made = compress_zstd(bounded, body, out); break;
  }
  out.resize(made);
  SOMETIMES("client: a body is not worth compressing", made == 0 || made >= body.size());
  return made != 0 && made < body.size();
}

Result<Bytes> plain_body(uint32_t flags, Bytes body, size_t bytes_max, std::vector<uint8_t>& scratch) {
  if ((flags & sys_flag::kCompressed) == 0) return body;
  const auto inflate = [&]() -> Result<size_t> {
    switch (flags & sys_flag::kCompressionMask) {
      case 0:
      case sys_flag::kZlib: return inflate_zlib(body, bytes_max, scratch);
      case sys_flag::kLz4: return inflate_lz4(body, bytes_max, scratch);
      case sys_flag::kZstd: return inflate_zstd(body, bytes_max, scratch);
      default: return Error(Errc::Unsupported, fmt::format("compression {:#x} is not known", flags & sys_flag::kCompressionMask));
    }
  };
  FULMAR_TRY(const size_t made, inflate());
  if (made > bytes_max) return too_large(body.size(), bytes_max);
  return Bytes(scratch).first(made);
}

}  // namespace fulmar
