#pragma once
// Coverage marks and plantable bugs. Both exist only in the instrumented flavour; in production the macros are constants, and CI
// proves that no production object names a mark or a mutant.
//
//   SOMETIMES(name, condition)   some seed must make this true: a promise that the simulator reaches the place
//   ALWAYS(name, condition)      a CHECK that also counts how often it held
//   NEVER(name)                  reaching this is a failure
//   MUTANT(name)                 true when the bug of that name is planted (mutants.def): the wrong branch stands beside the right one
//
// Marks and mutants draw nothing from a node's random streams and change no step hash.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/check.h"

namespace fulmar {

// Defined in mutants.h, which only those include who plant one: a new mutant must not compile the whole tree again.
enum class Mutant : uint16_t;

#if FULMAR_INSTRUMENTED

namespace marks {
// One per place in the source; registers itself on first execution. Counted per process.
struct Mark {
  const char* name;
  const char* kind;  // "sometimes", "always"
  uint64_t hits = 0;
  Mark* next = nullptr;
  Mark(const char* mark_name, const char* mark_kind);
};
struct Count { std::string name, kind; uint64_t hits; };
// All marks executed in this process, by name.
std::vector<Count> counts();
void reset();
}  // namespace marks

namespace mutants {
struct Description { Mutant id; const char* name; const char* oracle; const char* sentence; };
std::vector<Description> all();
// Planted for the whole process, before any node is made. None by default.
void plant(Mutant mutant);
Mutant planted();
// How often the wrong branch was taken since it was planted.
uint64_t fired();
// A mutant as the places that ask know it: FNV-1a of its name.
consteval uint64_t tag(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash;
}
bool hit(uint64_t tag);
}  // namespace mutants

#define SOMETIMES(mark, condition)                                   \
  do {                                                               \
    if (condition) {                                                 \
      static ::fulmar::marks::Mark fulmar_mark(mark, "sometimes");   \
      ++fulmar_mark.hits;                                            \
    }                                                                \
  } while (false)
#define ALWAYS(mark, condition)                                      \
  do {                                                               \
    static ::fulmar::marks::Mark fulmar_mark(mark, "always");        \
    ++fulmar_mark.hits;                                              \
    CHECK(condition, "{}", mark);                                    \
  } while (false)
#define NEVER(mark) CHECK(false, "{}", mark)
#define MUTANT(name) (::fulmar::mutants::hit(::fulmar::mutants::tag(#name)))

#else

#define SOMETIMES(mark, condition) \
  do {                             \
  } while (false)
#define ALWAYS(mark, condition) \
  do {                          \
  } while (false)
#define NEVER(mark) \
  do {              \
  } while (false)
#define MUTANT(name) false

#endif

}  // namespace fulmar
