#include "core/base/result.h"

namespace fulmar {

std::string_view to_string(Errc code) {
  switch (code) {
#define FULMAR_NAME(x) \
  case Errc::x: return #x
    FULMAR_NAME(DiskFull);
    FULMAR_NAME(ReadOnly);
    FULMAR_NAME(NotPermitted);
    FULMAR_NAME(NotFound);
    FULMAR_NAME(Exists);
    FULMAR_NAME(WrongSize);
    FULMAR_NAME(Unreadable);
    FULMAR_NAME(IoFailed);
    FULMAR_NAME(FlushFailed);
    FULMAR_NAME(Locked);
    FULMAR_NAME(AddressInUse);
    FULMAR_NAME(BadAddress);
    FULMAR_NAME(Refused);
    FULMAR_NAME(Reset);
    FULMAR_NAME(PeerClosed);
    FULMAR_NAME(Unreachable);
    FULMAR_NAME(TimedOut);
    FULMAR_NAME(FrameTooLarge);
    FULMAR_NAME(FrameBroken);
    FULMAR_NAME(HeaderBroken);
    FULMAR_NAME(UnknownProtocol);
    FULMAR_NAME(PeerTooSlow);
    FULMAR_NAME(LogRolling);
    FULMAR_NAME(RecordTooLarge);
    FULMAR_NAME(RecordBroken);
    FULMAR_NAME(EndOfSegment);
    FULMAR_NAME(EndOfLog);
    FULMAR_NAME(UnflushedLimit);
    FULMAR_NAME(StoreDamaged);
    FULMAR_NAME(StoreVersion);
    FULMAR_NAME(InvalidArgument);
    FULMAR_NAME(OutOfRange);
    FULMAR_NAME(Full);
    FULMAR_NAME(NotReady);
    FULMAR_NAME(Stopping);
    FULMAR_NAME(Canceled);
    FULMAR_NAME(Unsupported);
    FULMAR_NAME(Internal);
#undef FULMAR_NAME
  }
  return "Unknown";
}

std::string Error::text() const {
  std::string out{to_string(code)};
  if (!detail.empty()) out += ": " + detail;
  return out;
}

}  // namespace fulmar
