// Counts operator new, so that benchmarks can say whether a warm path allocates.

#include <cstdint>
#include <cstdlib>
#include <new>

namespace {
uint64_t count = 0;
}

void* operator new(size_t bytes) {
  ++count;
  if (void* p = std::malloc(bytes)) return p;
  std::abort();
}
// std::stable_sort's buffer comes from this one and goes by the plain delete.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++count;
  return std::malloc(bytes);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace fulmar::bench {
uint64_t allocations() { return count; }
}  // namespace fulmar::bench
