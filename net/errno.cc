#include "net/errno.h"

#include <fmt/format.h>
#include <uv.h>

#include <cerrno>
#include <cstring>

namespace fulmar::net {

namespace {

Errc file_errc(int code) {
  switch (code) {
    case ENOSPC:
    case EDQUOT: return Errc::DiskFull;
    case EROFS: return Errc::ReadOnly;
    case EACCES:
    case EPERM: return Errc::NotPermitted;
    case ENOENT:
    case ENOTDIR: return Errc::NotFound;
    case EEXIST: return Errc::Exists;
    case EMFILE:
    case ENFILE: return Errc::Full;
    case EOPNOTSUPP:
    case ENOSYS: return Errc::Unsupported;
    default: return Errc::IoFailed;
  }
}

Errc network_errc(int uv_code) {
  switch (uv_code) {
    case UV_EADDRINUSE: return Errc::AddressInUse;
    case UV_EACCES:
    case UV_EPERM: return Errc::NotPermitted;
    case UV_EADDRNOTAVAIL:
    case UV_EAFNOSUPPORT:
    case UV_EINVAL: return Errc::BadAddress;
    case UV_ECONNREFUSED: return Errc::Refused;
    case UV_ETIMEDOUT: return Errc::TimedOut;
    case UV_ENETUNREACH:
    case UV_EHOSTUNREACH:
    case UV_ENETDOWN: return Errc::Unreachable;
    case UV_EOF: return Errc::PeerClosed;
    case UV_ECANCELED: return Errc::Canceled;
    case UV_EMFILE:
    case UV_ENFILE:
    case UV_ENOBUFS:
    case UV_ENOMEM: return Errc::Full;
    default: break;
  }
  if (uv_code <= UV_EAI_ADDRFAMILY && uv_code >= UV_EAI_PROTOCOL) return Errc::BadAddress;  // what the resolver says, as one block
  return Errc::Reset;
}

}  // namespace

Error file_error(int code, std::string_view what) {
  char text[128];
  return {file_errc(code), fmt::format("cannot {}: {}", what, ::strerror_r(code, text, sizeof text))};
}

Error network_error(int uv_code, std::string_view what) {
  return {network_errc(uv_code), fmt::format("cannot {}: {}", what, uv_strerror(uv_code))};
}

}  // namespace fulmar::net
