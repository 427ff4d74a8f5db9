#pragma once
// What a call came to: a value, or a refusal that names one cause, what was measured and when to try again.

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

// One version of the library's interface; user code says fulmar::Client and never sees the name.
#ifdef FULMAR_FACADE_IMPLEMENTATION
#define FULMAR_FACADE_NAMESPACE fulmar::v1
#else
namespace fulmar {
inline namespace v1 {}
}  // namespace fulmar
#define FULMAR_FACADE_NAMESPACE fulmar::inline v1
#endif

namespace FULMAR_FACADE_NAMESPACE {

// RocketMQ's response codes. A broker of a later version may answer with others.
enum class Code : int32_t {
  Success = 0,
  SystemError = 1,
  SystemBusy = 2,               // for now; also: a bounded queue of this client is full
  RequestCodeNotSupported = 3,
  FlushDiskTimeout = 10,        // stored, not known to be durable
  SlaveNotAvailable = 11,
  FlushSlaveTimeout = 12,
  MessageIllegal = 13,          // too large, or a name or property that cannot be stored
  ServiceNotAvailable = 14,     // no broker answered, or it takes no writes; also: this client is stopped
  NoPermission = 16,
  TopicNotExist = 17,
  QueryNotFound = 22,
  SubscriptionParseFailed = 23,
  SubscriptionNotExist = 24,
  InvalidParameter = 29,
};
std::string_view to_string(Code code);  // "SERVICE_NOT_AVAILABLE"; "CODE" for one without a name here

struct Refusal {
  Code code = Code::SystemError;
  std::string cause;                         // one sentence: "topic orders does not exist, and no broker creates topics by itself"
  std::string measured;                      // with numbers and units: "used 93 % of 100 GiB, watermark 90 %"; may be empty
  std::chrono::milliseconds retry_after{0};  // 0: trying again will not help
  // False: it has certainly not been done. True: it may have been done, the answer was lost; doing it again may do it twice.
  bool is_outcome_unknown = false;
  std::string text() const;                  // all of it, on one line, for a log
};

// Either a T or a Refusal. value() and operator* of a refused one throw std::logic_error with its text.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : outcome_(std::move(value)) {}              // NOLINT: `return receipt;` reads as it should
  Result(Refusal refusal) : outcome_(std::move(refusal)) {}    // NOLINT
  bool ok() const { return outcome_.index() == 0; }
  explicit operator bool() const { return ok(); }
  const T& value() const& { return *checked(); }
  T& value() & { return *checked(); }
  T&& value() && { return std::move(*checked()); }
  const T& operator*() const& { return *checked(); }
  T& operator*() & { return *checked(); }
  T&& operator*() && { return std::move(*checked()); }
  const T* operator->() const { return checked(); }
  T* operator->() { return checked(); }
  const Refusal& refusal() const { return std::get<1>(outcome_); }  // only when !ok()

 private:
  const T* checked() const {
    if (!ok()) throw std::logic_error(refusal().text());
    return &std::get<0>(outcome_);
  }
  T* checked() { return const_cast<T*>(std::as_const(*this).checked()); }
  std::variant<T, Refusal> outcome_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Refusal refusal) : is_refused_(true), refusal_(std::move(refusal)) {}  // NOLINT
  bool ok() const { return !is_refused_; }
  explicit operator bool() const { return ok(); }
  const Refusal& refusal() const { return refusal_; }  // only when !ok()

 private:
  bool is_refused_ = false;
  Refusal refusal_;
};

}  // namespace FULMAR_FACADE_NAMESPACE
