# Shared by the tests with real processes: servers on 127.0.0.1, ended by their process id. Source it; it makes $work and cleans up.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
fulmar=${FULMAR_BIN:-$PWD/build/release/bin/fulmar}
[ -x "$fulmar" ] || { echo "$fulmar is not built" >&2; exit 1; }
work=$(mktemp -d)
pids=()
cleanup() {
  for pid in "${pids[@]}"; do kill_9 "$pid"; done
  if declare -F cleanup_more >/dev/null; then cleanup_more || true; fi
  rm -rf "$work"
}
trap cleanup EXIT

fail() { echo "FAIL: $*" >&2; exit 1; }

# start_server READY_FILE COMMAND…: starts it in the background, waits for its ready line; its pid is $started.
start_server() {
  local ready=$1
  shift
  : >"$ready"
  "$@" >"$ready" 2>>"$work/server.log" &
  started=$!
  pids+=("$started")
  for _ in $(seq 1500); do
    [ -s "$ready" ] && return
    kill -0 "$started" 2>/dev/null || break
    sleep 0.01
  done
  if [ ! -s "$ready" ]; then tail -n 10 "$work/server.log" >&2; fail "$* did not become ready"; fi
}
field() { sed -n "s/.*\"$2\":\([0-9]*\).*/\1/p" "$1"; }   # a number of a JSON line
kill_9() { kill -9 "$1" 2>/dev/null || true; wait "$1" 2>/dev/null || true; }
