#pragma once
// What the world does is a Result; what we do is a CHECK. An Errc exists when some caller acts on it; the detail is for people.

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace fulmar {

enum class Errc : uint16_t {
  // files
  DiskFull,        // no block, no inode, no quota: refuse with cause, try again when space is back
  ReadOnly,        // the file system takes no writes any more
  NotPermitted,    // permissions
  NotFound,        // no such file
  Exists,          // map(New) of a name that is taken
  WrongSize,       // the file has not the length that was asked for
  Unreadable,      // a page of the file cannot be read from its medium
  IoFailed,        // any other failure of the disk
  FlushFailed,     // data may be lost although it is still readable: the end of this node
  Locked,          // another process owns the store
  // network
  AddressInUse,
  BadAddress,      // does not parse or does not resolve
  Refused,         // nobody listens there
  Reset,           // the peer or the network cut the connection
  PeerClosed,      // orderly end of the stream
  Unreachable,
  TimedOut,
  // protocol
  FrameTooLarge,
  FrameBroken,     // framing itself is wrong: close and count
  HeaderBroken,    // a frame whose header does not parse: answer, naming the field
  UnknownProtocol,
  PeerTooSlow,
  // store
  LogRolling,      // the place for the next record is not prepared yet: SYSTEM_BUSY
  RecordTooLarge,  // MESSAGE_ILLEGAL
  RecordBroken,    // does not parse or its checksum differs
  EndOfSegment,    // a filler: go on at the next segment
  EndOfLog,        // zeros: nothing was ever written here
  UnflushedLimit,  // appending now would pass the append limit: SYSTEM_BUSY
  StoreDamaged,    // rot inside the log: readable, not writable
  StoreVersion,    // written by a version that we do not know
  // general
  InvalidArgument,
  OutOfRange,
  Full,            // a bounded queue is full: SYSTEM_BUSY
  NotReady,        // still starting
  Stopping,
  Canceled,
  Unsupported,
  Internal,
};

// "DiskFull" for Errc::DiskFull.
std::string_view to_string(Errc code);

struct [[nodiscard]] Error {
  Errc code;
  std::string detail;  // a sentence with the values, or empty

  Error(Errc c) : code(c) {}  // NOLINT: `return Errc::DiskFull;` reads as it should
  Error(Errc c, std::string d) : code(c), detail(std::move(d)) {}
  friend bool operator==(const Error& a, const Error& b) { return a.code == b.code; }
  // "DiskFull: no space left for …"
  std::string text() const;
};

template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using Base = tl::expected<T, Error>;
  using Base::Base;
  Result(Base base) : Base(std::move(base)) {}                          // NOLINT
  Result(Errc code) : Base(tl::unexpect, Error(code)) {}                // NOLINT
  Result(Error error) : Base(tl::unexpect, std::move(error)) {}         // NOLINT
  Errc code() const { return this->error().code; }                      // only when !has_value()
};

}  // namespace fulmar

// FULMAR_TRY(auto x, f()): x is the value of f(), or the enclosing function returns its error.
#define FULMAR_TRY_CONCAT_(a, b) a##b
#define FULMAR_TRY_NAME_(line) FULMAR_TRY_CONCAT_(fulmar_try_, line)
#define FULMAR_TRY(declaration, expression)                                                    \
  auto FULMAR_TRY_NAME_(__LINE__) = (expression);                                              \
  if (!FULMAR_TRY_NAME_(__LINE__)) return ::fulmar::Error(std::move(FULMAR_TRY_NAME_(__LINE__).error())); \
  declaration = std::move(*FULMAR_TRY_NAME_(__LINE__))
#define FULMAR_TRY_VOID(expression)                                                            \
  if (auto fulmar_try_result = (expression); !fulmar_try_result) return ::fulmar::Error(std::move(fulmar_try_result.error()))
