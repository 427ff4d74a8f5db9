#include "core/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace fulmar {

CrashContext& crash_context() {
  // Per thread because a process may run several nodes; it is only ever printed.
  static thread_local CrashContext context;
  return context;
}

void check_failed(const char* file, int line, const char* expression, const std::string& values) {
  const CrashContext& context = crash_context();
  std::string report = fmt::format("CHECK failed: {} at {}:{}", expression, file, line);
  if (!values.empty()) report += ": " + values;
  report += fmt::format(" [node {} step {} seed {}]", context.node, context.step, context.seed);
  std::fprintf(stderr, "%s\n", report.c_str());
  std::fflush(stderr);
  if (context.on_crash != nullptr) context.on_crash(report, context.arg);
  std::abort();
}

}  // namespace fulmar
