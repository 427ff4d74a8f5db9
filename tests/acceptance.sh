#!/usr/bin/env bash
# Every promise of what exists, one line each, over built binaries (build/release; the hash also build/clang and build/asan).
#   tests/acceptance.sh [--full] [--again] [NAME…]
# The short form takes some 6 minutes, --full the figures of the promises themselves (some 25). Lines that passed for this revision and form are not
# run again unless --again is given or they are named. Logs: build/acceptance/NAME.log. Exit 1 when a line failed, 2 for wrong usage.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

form=short is_again=false wanted=()
for word in "$@"; do
  case $word in
    --full) form=full ;;
    --again) is_again=true ;;
    -*) echo "usage: tests/acceptance.sh [--full] [--again] [NAME…]" >&2; exit 2 ;;
    *) wanted+=("$word") ;;
  esac
done
is_full() { [ $form = full ]; }
logs=build/acceptance
mkdir -p "$logs"
revision=$(git rev-parse HEAD 2>/dev/null || echo none)-$(git status --porcelain 2>/dev/null | cksum | cut -d' ' -f1)
bin=build/release/bin
for program in fulmar fulmar-sim bench_core bench_load; do
  [ -x $bin/$program ] || { echo "acceptance: $bin/$program is not built (cmake --preset release && cmake --build --preset release)" >&2; exit 1; }
done

# --- the lines: each a function that prints what it found and fails when the promise does not hold --------------------------------------------

quickstart() { bash cmd/quickstart.sh; }
quickstart_self_test() {
  local output status=0
  output=$(bash cmd/quickstart.sh --self-test) || status=$?
  printf '%s\n' "$output"
  [ $status -eq 1 ] && tail -n 1 <<<"$output" | grep -q ' lost 1 '
}
start() { python3 tests/real/start.py; }
residence() { if is_full; then bash tests/real/residence.sh 1024; else bash tests/real/residence.sh 128; fi; }
takeover() { bash tests/real/takeover.sh; }
takeover_self_test() { bash tests/real/takeover.sh --self-test; }
kill9() { bash tests/real/kill9.sh "$(is_full && echo 100 || echo 10)"; }
flush() { bash tests/real/flush.sh; }
flush_self_test() { bash tests/real/flush.sh --self-test; }
diskfull() { bash tests/real/diskfull.sh; }
examples() { bash tests/examples/run.sh; }
retention() { bash tests/real/retention.sh "$(is_full && echo 20 || echo 5)"; }
scale() { is_full && python3 tests/real/scale.py || python3 tests/real/scale.py --connections 2000 --queues 10000 --gib 20 --report; }
interop() { bash tests/interop/run.sh; }
interop_self_test() { bash tests/interop/run.sh --self-test; }
bad_input() { python3 tests/real/badinput.py; }
metrics() { python3 tests/real/metrics.py; }
metrics_self_test() { python3 tests/real/metrics.py --self-test; }

# No violation; in full: at least 3,000 seeds and a million acknowledged messages, and every fault but those that break the promise fired and mattered.
swarm() {
  local seconds=60
  is_full && seconds=600
  "$bin/fulmar-sim" swarm --for ${seconds}s --start $((16#${revision:0:7})) --failures 0 --json >"$logs/swarm.json" 2>"$logs/swarm.progress"
  python3 - "$logs/swarm.json" $form <<'PYTHON'
import json, sys
r = json.load(open(sys.argv[1]))
failed = [f"{f['oracle']}: {f['sentence']}\n  {f['replay']}" for f in r['failures']]
# Pages of the log that cannot be read are a fault that no profile draws yet.
idle = sorted(n for n, c in r['faults'].items() if n != 'unreadable-page' and (not c['fired'] or not c['mattered']))
print(f"{r['seeds']} seeds, {r['simulated_hours']:.1f} simulated hours, acked {r['acked']} lost {r['lost']}, {len(failed)} violations; idle faults: {' '.join(idle) or 'none'}")
for line in failed: print(line)
if failed or r['lost']: sys.exit(1)
if sys.argv[2] == 'full' and (r['seeds'] < 3000 or r['acked'] < 1_000_000 or idle): sys.exit(1)
PYTHON
}
one_hash() {
  for build in clang asan; do
    [ -x build/$build/bin/fulmar-sim ] || { echo "build/$build is not built"; return 1; }
  done
  bash tests/hash_matrix.sh --seeds "$(is_full && echo 200 || echo 20)" --start 1 build/release build/clang build/asan
}
explore() { "$bin/fulmar-sim" explore && "$bin/fulmar-sim" explore --async && "$bin/fulmar-sim" explore --retention && "$bin/fulmar-sim" explore --retention --async; }
mutants() {
  if is_full; then "$bin/fulmar-sim" mutants; else "$bin/fulmar-sim" mutants --short; fi
}
purity() { ctest --test-dir build/release --no-tests=error --output-on-failure -R '^tidy'; }
derived_files() { ctest --test-dir build/release --no-tests=error --output-on-failure -R 'DeletedFiles'; }
# Costs of a running broker in steady state beside the yardstick ($FULMAR_LIMITS: where tools/limits was built) and Redis; in full the goals are judged.
speed() { python3 tests/real/speed.py --rounds "$(is_full && echo 7 || echo 1)" $(is_full && echo --judge); }
# Figures, not goals: printed for bench/results.md.
bench() { "$bin/bench_core" --benchmark_min_time="$(is_full && echo 0.5 || echo 0.05)"; }

# --- the runner -------------------------------------------------------------------------------------------------------------------------------

lines=(quickstart quickstart_self_test start residence kill9 takeover takeover_self_test flush flush_self_test diskfull retention scale bad_input interop interop_self_test metrics metrics_self_test examples swarm one_hash explore mutants purity derived_files speed bench)
for name in "${wanted[@]}"; do
  [[ " ${lines[*]} " == *" $name "* ]] || { echo "acceptance: no line is named $name; there are: ${lines[*]}" >&2; exit 2; }
done
if [ ${#wanted[@]} -eq 0 ]; then wanted=("${lines[@]}"); else is_again=true; fi
passed=0 failed=0
for name in "${wanted[@]}"; do
  log=$logs/$name.log stamp=$logs/$name.passed began=$SECONDS
  if ! $is_again && [ "$(cat "$stamp" 2>/dev/null)" = "$form $revision" ]; then
    passed=$((passed + 1))
    printf 'ok     %-22s (before) %s\n' "$name" "$(tail -n 1 "$log")"
    continue
  fi
  rm -f "$stamp"
  if "$name" >"$log" 2>&1 </dev/null; then
    passed=$((passed + 1))
    echo "$form $revision" >"$stamp"
    printf 'ok     %-22s %4d s  %s\n' "$name" $((SECONDS - began)) "$(tail -n 1 "$log")"
  else
    failed=$((failed + 1))
    printf 'FAILED %-22s %4d s  see %s\n' "$name" $((SECONDS - began)) "$log"
    tail -n 15 "$log" | sed 's/^/         /'
  fi
done
printf '%d passed, %d failed (%s form)\n' "$passed" "$failed" "$form"
[ "$failed" -eq 0 ]
