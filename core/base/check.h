#pragma once
// CHECK guards our own invariants, in every build, and aborts with the values, the step and the seed. AUDIT is the costly kind:
// on in the instrumented flavour (simulation and tests), absent from production.

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace fulmar {

// Who is running on this thread: printed by a failed CHECK. Set by drivers around each step; never read by decisions.
struct CrashContext {
  uint64_t step = 0;
  uint64_t seed = 0;
  const char* node = "";
  // Called with the report before the process aborts; the simulator writes the replay command here. May be null.
  void (*on_crash)(const std::string& report, void* arg) = nullptr;
  void* arg = nullptr;
};
CrashContext& crash_context();

[[noreturn]] void check_failed(const char* file, int line, const char* expression, const std::string& values);

}  // namespace fulmar

// CHECK(a <= b) or CHECK(a <= b, "appended {} flushed {}", a, b).
#define CHECK(condition, ...)                                                                                       \
  do {                                                                                                              \
    if (!(condition)) [[unlikely]]                                                                                  \
      ::fulmar::check_failed(__FILE__, __LINE__, #condition, ::fulmar::check_values(__VA_ARGS__));                  \
  } while (false)

#if FULMAR_INSTRUMENTED
#define AUDIT(condition, ...) CHECK(condition, ##__VA_ARGS__)
#else
#define AUDIT(condition, ...) \
  do {                        \
  } while (false)
#endif

namespace fulmar {
inline std::string check_values() { return {}; }
template <class... Args>
std::string check_values(fmt::format_string<Args...> text, Args&&... args) {
  return fmt::format(text, std::forward<Args>(args)...);
}
}  // namespace fulmar
