#include "core/base/mutants.h"

#if FULMAR_INSTRUMENTED
#include <algorithm>

namespace fulmar {

// Process-wide on purpose: which marks were reached and which bug is planted are facts about the run, not about a node, and nothing
// but the planted branch itself reads them.
namespace marks {
namespace {
Mark* first_mark = nullptr;
}
Mark::Mark(const char* mark_name, const char* mark_kind) : name(mark_name), kind(mark_kind), next(first_mark) { first_mark = this; }

std::vector<Count> counts() {
  std::vector<Count> out;
  for (Mark* mark = first_mark; mark != nullptr; mark = mark->next) out.push_back({mark->name, mark->kind, mark->hits});
  std::sort(out.begin(), out.end(), [](const Count& a, const Count& b) { return a.name != b.name ? a.name < b.name : a.hits < b.hits; });
  std::vector<Count> merged;
  for (Count& count : out) {
    if (!merged.empty() && merged.back().name == count.name) merged.back().hits += count.hits;
    else merged.push_back(std::move(count));
  }
  return merged;
}

void reset() { for (Mark* mark = first_mark; mark != nullptr; mark = mark->next) mark->hits = 0; }
}  // namespace marks

namespace mutants {
namespace {
Mutant planted_mutant = Mutant::None;
uint64_t planted_tag = 0, fired_count = 0;
}  // namespace

uint64_t tag_of(Mutant mutant) {
  switch (mutant) {
    case Mutant::None: return 0;
#define FULMAR_MUTANT(name, oracle, sentence) case Mutant::name: return tag(#name);
#include "core/base/mutants.def"
#undef FULMAR_MUTANT
  }
  return 0;
}

std::vector<Description> all() {
  return {
#define FULMAR_MUTANT(name, oracle, sentence) {Mutant::name, #name, oracle, sentence},
#include "core/base/mutants.def"
#undef FULMAR_MUTANT
  };
}
void plant(Mutant mutant) {
  planted_mutant = mutant;
  planted_tag = tag_of(mutant);
  fired_count = 0;
}
Mutant planted() { return planted_mutant; }
uint64_t fired() { return fired_count; }
bool hit(uint64_t tag) {
  if (planted_tag != tag) return false;
  ++fired_count;
  return true;
}
}  // namespace mutants

}  // namespace fulmar
#endif
