#!/usr/bin/env bash
# Same seed, same step hash, whatever the compiler: runs seeds with the simulator of each build and compares.
#   tests/hash_matrix.sh [--seeds N] [--start S] [--profile NAME] BUILD_DIR BUILD_DIR…
# Default: 20 seeds from 1. Prints each seed whose builds differ, with the commands that repeat it; exit 1 when there is one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seeds=20 start=1 options=() builds=()
while [ $# -gt 0 ]; do
  case $1 in
    --seeds) seeds=$2; shift 2 ;;
    --start) start=$2; shift 2 ;;
    --profile) options+=(--profile "$2"); shift 2 ;;
    -*) echo "hash_matrix: unknown option $1" >&2; exit 2 ;;
    *) builds+=("$1"); shift ;;
  esac
done
if [ ${#builds[@]} -lt 2 ]; then echo "hash_matrix: name at least two build directories" >&2; exit 2; fi
for build in "${builds[@]}"; do
  [ -x "$build/bin/fulmar-sim" ] || { echo "hash_matrix: $build/bin/fulmar-sim is not built" >&2; exit 1; }
done

# One line per seed and build: seed, build, hash. A violated promise is not our business here, a run without a hash is. The hash must be
# a JSON string: jq would round a number of 64 bits.
one() {
  local seed=$1 build=$2 hash
  shift 2
  hash=$("$build/bin/fulmar-sim" run --seed "$seed" --json "$@" 2>/dev/null | jq -r '.step_hash | strings' 2>/dev/null) || true
  echo "$seed $build ${hash:-none}"
}
export -f one
results=$(for ((seed = start; seed < start + seeds; ++seed)); do
  for build in "${builds[@]}"; do echo "$seed" "$build" "${options[@]}"; done
done | xargs -P "$(nproc)" -L 1 bash -c 'one "$@"' _ | sort -k1,1n -k2,2)

awk -v options="${options[*]}" -v expected="$((seeds * ${#builds[@]}))" '
  { lines++; if ($3 == "none") bad[$1] = 1; if (($1 in hash) && hash[$1] != $3) bad[$1] = 1; hash[$1] = $3; said[$1] = said[$1] sprintf("  %-16s %s/bin/fulmar-sim run --seed %s --json %s\n", $3, $2, $1, options) }
  END {
    for (seed in bad) { failures++; printf "seed %s differs or gave no hash:\n%s", seed, said[seed] }
    if (lines != expected) { failures++; printf "%d runs of %d reported\n", lines, expected }
    if (failures) exit 1
  }' <<<"$results"
echo "hash_matrix: $seeds seeds, one hash each in ${builds[*]}"
