#!/usr/bin/env bash
# The whole test suite, from a fresh clone: installs what is missing, builds, runs every stage, and ends with one line.
#   tests/run.sh            everything
#   tests/run.sh --quick    only the release build and its CTest suite
# Sizes: FULMAR_SWARM_SEEDS (240), FULMAR_HASH_SEEDS (20), FULMAR_KILLS (5), FULMAR_FRESH (800). Logs: build/test-logs/. Exit 1 when anything failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
is_quick=false
case "${1:-}" in
  '') ;;
  --quick) is_quick=true ;;
  *) echo "usage: tests/run.sh [--quick]" >&2; exit 2 ;;
esac

jobs=$(nproc)
logs=build/test-logs
mkdir -p "$logs"
# A cache filled by one checkout serves the next.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CMAKE_BUILD_PARALLEL_LEVEL=$jobs
export UBSAN_OPTIONS=print_stacktrace=1
revision=$(git rev-parse HEAD 2>/dev/null || echo 1)
# Fresh seeds for each commit, the same for whoever tests that commit.
first_seed=$((16#${revision:0:8}))

passed_total=0 failed_total=0
stage_name='' stage_passed=0 stage_failed=0 stage_skipped=0 stage_start=0
summary=()

begin() {
  stage_name=$1 stage_passed=0 stage_failed=0 stage_skipped=0 stage_start=$SECONDS
  printf '\n=== %s\n' "$1"
}
end() {
  local took=$((SECONDS - stage_start))
  printf '    %d passed, %d failed in %d s\n' "$stage_passed" "$stage_failed" "$took"
  summary+=("$(printf '%-44s %6d %6d %7d %6d s' "$stage_name" "$stage_passed" "$stage_failed" "$stage_skipped" "$took")")
  passed_total=$((passed_total + stage_passed))
  failed_total=$((failed_total + stage_failed))
}
# check NAME COMMAND…: one command that counts as one test; its output goes to a log, the end of which is shown when it fails.
check() {
  local name=$1 log start=$SECONDS
  log=$logs/${name//[^A-Za-z0-9_.-]/_}.log
  shift
  if "$@" >"$log" 2>&1 </dev/null; then
    stage_passed=$((stage_passed + 1))
    printf '    ok   %s (%d s): %s\n' "$name" $((SECONDS - start)) "$(tail -n 1 "$log")"
  else
    local status=$?
    stage_failed=$((stage_failed + 1))
    printf '    FAIL %s (exit %d after %d s), see %s\n' "$name" "$status" $((SECONDS - start)) "$log"
    tail -n 40 "$log" | sed 's/^/         /'
    return 1
  fi
}
# build PRESET [OPTION…]: not a test; but a build that fails is a failure.
build() {
  local preset=$1 log=$logs/build-$1.log start=$SECONDS
  if { cmake --preset "$@" && cmake --build --preset "$preset"; } >"$log" 2>&1 </dev/null; then
    printf '    built build/%s in %d s\n' "$preset" $((SECONDS - start))
  else
    stage_failed=$((stage_failed + 1))
    printf '    FAIL build of %s, see %s\n' "$preset" "$log"
    grep -E -A 5 'error|FAILED' "$log" | tail -n 40 | sed 's/^/         /'
    return 1
  fi
}
# suite PRESET [CTEST OPTION…]: the numbers come from CTest's own report.
suite() {
  local preset=$1 log=$logs/ctest-$1.log report=$PWD/$logs/ctest-$1.xml line tests failures skipped
  shift
  rm -f "$report"
  ctest --test-dir "build/$preset" -j "$jobs" --timeout 600 --no-tests=error --output-on-failure --output-junit "$report" "$@" >"$log" 2>&1 </dev/null
  local status=$?
  line=$(grep -m 1 -A 8 '<testsuite ' "$report" 2>/dev/null | tr '\n' ' ')
  count() { sed -n "s/.*[[:space:]]$1=\"\([0-9]*\)\".*/\1/p" <<<"$line"; }
  tests=$(count tests) failures=$(count failures) skipped=$(count skipped)
  tests=${tests:-0} failures=${failures:-0} skipped=${skipped:-0}
  # CTest also fails when it could not run a program at all.
  if [ $status -ne 0 ] && [ "$failures" -eq 0 ]; then failures=1; [ "$tests" -gt 0 ] || tests=1; fi
  stage_failed=$((stage_failed + failures))
  stage_skipped=$((stage_skipped + skipped))
  stage_passed=$((stage_passed + tests - failures - skipped))
  printf '    ctest: %d tests, %d failed, %d skipped\n' "$tests" "$failures" "$skipped"
  if [ "$failures" -ne 0 ]; then
    python3 tests/failures.py "$report" 2>/dev/null | head -n 200 | sed 's/^/    /'
    printf '         see %s\n' "$log"
  fi
}
sim() { build/release/bin/fulmar-sim "$@"; }
# A quickstart that lost a record must say so: its account ends with `lost 1`, its status is 1.
quickstart_self_test() {
  local output status=0
  output=$(bash cmd/quickstart.sh --self-test) || status=$?
  printf '%s\n' "$output"
  [ "$status" -eq 1 ] && tail -n 1 <<<"$output" | grep -q ' lost 1 '
}

release_stage() {
  begin "release (gcc): every CTest test"
  build release && suite release
  end
}
clang_stage() {
  begin "clang: unit, property, golden, contract, scenario"
  build clang && suite clang -R '^(unit_|property_|golden|contract_|scenario)'
  end
}
asan_stage() {
  begin "asan: the same and the fuzz corpora"
  build asan && suite asan -R '^(unit_|property_|golden|contract_|scenario|fuzz_corpus)'
  end
}
seeds_stage() {
  begin "simulator: the first seeds of each profile, fresh ones of all, and one hash from each compiler"
  check swarm_store sim swarm --profile store --seeds "${FULMAR_SWARM_SEEDS:-240}" --start 1 --jobs "$jobs"
  check swarm_network sim swarm --profile network --seeds 120 --start 1 --jobs "$jobs"
  check swarm_calm sim swarm --profile calm --seeds 60 --start 1 --jobs "$jobs"
  check swarm_edge sim swarm --profile edge --seeds 60 --start 1 --jobs "$jobs"
  check hash_matrix bash tests/hash_matrix.sh --seeds "${FULMAR_HASH_SEEDS:-20}" --start 1 build/release build/clang build/asan
  # Drawn from the commit, and so many on every machine: what they find is a bug that somebody has to look at before the commit lands.
  check swarm_fresh sim swarm --seeds "${FULMAR_FRESH:-800}" --start "$first_seed" --jobs "$jobs" --failures 0
  end
}
mutants_stage() {
  begin "planted bugs: each is killed by its oracle"
  check mutants sim mutants --short
  end
}
real_stage() {
  begin "real processes, real files"
  check kill9 bash tests/real/kill9.sh "${FULMAR_KILLS:-5}"
  check takeover bash tests/real/takeover.sh
  check flush bash tests/real/flush.sh
  check flush_self_test bash tests/real/flush.sh --self-test
  check diskfull bash tests/real/diskfull.sh
  check start python3 tests/real/start.py
  check residence bash tests/real/residence.sh 128 30
  check badinput python3 tests/real/badinput.py
  check metrics python3 tests/real/metrics.py
  check metrics_self_test python3 tests/real/metrics.py --self-test
  check interop bash tests/interop/run.sh
  check interop_self_test bash tests/interop/run.sh --self-test
  check examples bash tests/examples/run.sh
  check quickstart bash cmd/quickstart.sh
  check quickstart_self_test quickstart_self_test
  end
}

if ! bash tests/setup.sh; then
  printf '\n0 passed, 1 failed\n'
  exit 1
fi
release_stage
if ! $is_quick; then
  clang_stage
  asan_stage
  seeds_stage
  mutants_stage
  real_stage
fi

printf '\n%-44s %6s %6s %7s %8s\n' stage passed failed skipped time
printf '%s\n' "${summary[@]}"
printf '\nrevision %s, first seed %d, %d s in all\n' "${revision:0:12}" "$first_seed" "$SECONDS"
printf '%d passed, %d failed\n' "$passed_total" "$failed_total"
[ "$failed_total" -eq 0 ] && [ "$passed_total" -gt 0 ]
