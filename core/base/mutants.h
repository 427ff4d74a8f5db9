#pragma once
// The names of all plantable bugs (mutants.def), for those who plant one.

#include "core/base/marks.h"

namespace fulmar {

enum class Mutant : uint16_t {
  None,
#define FULMAR_MUTANT(name, oracle, sentence) name,
#include "core/base/mutants.def"
#undef FULMAR_MUTANT
};

#if FULMAR_INSTRUMENTED
namespace mutants {
uint64_t tag_of(Mutant mutant);   // tag() of its name; 0 for None
}
#endif

}  // namespace fulmar
