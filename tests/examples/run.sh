#!/usr/bin/env bash
# Installs build/release into a fresh prefix, builds the examples against it in a clean directory as a stranger would, runs each against a
# `fulmar dev` of its own, and reads what they print. Also the README's project, word for word.
#   tests/examples/run.sh [BUILD]      BUILD: build/release
# The last line: "examples: N run, M failed". Exit 1 when one failed.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${1:-$root/build/release}
work=$(mktemp -d "${TMPDIR:-/tmp}/fulmar-examples-XXXXXX")
dev=
cleanup() {
  if [ -n "$dev" ]; then kill "$dev" 2>/dev/null; wait "$dev" 2>/dev/null; fi
  rm -rf "$work"
}
trap cleanup EXIT
die() { echo "examples: $*" >&2; exit 1; }

cmake --install "$build" --component fulmar --prefix "$work/prefix" >"$work/install.log" 2>&1 || { cat "$work/install.log"; die "cannot install"; }
grep -rnE '#include *[<"](uv|fmt|capnp|kj|tl|core|net)[/.]' "$work/prefix/include" && die "a public header includes what users need not have"

# Away from this tree, without its environment.
mkdir "$work/project" && cp "$here"/*.cc "$here/CMakeLists.txt" "$work/project"
(cd "$work/project" && cmake -B build -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS="-Wall -Wextra -Wshadow -Werror" -DCMAKE_PREFIX_PATH="$work/prefix" &&
  cmake --build build) >"$work/build.log" 2>&1 </dev/null || { tail -n 40 "$work/build.log"; die "the examples do not build against the installed tree"; }

"$work/prefix/bin/fulmar" dev --dir "$work/dev" --port 0 --namesrv-port 0 --json >"$work/ready.json" 2>"$work/dev.log" &
dev=$!
for _ in $(seq 150); do [ -s "$work/ready.json" ] && break; kill -0 "$dev" 2>/dev/null || break; sleep 0.1; done
namesrv=127.0.0.1:$(sed -n 's/.*"namesrvPort":\([0-9]*\).*/\1/p' "$work/ready.json")
[ "$namesrv" != 127.0.0.1: ] || { cat "$work/ready.json" "$work/dev.log"; die "fulmar dev did not start"; }

run=0 failed=0
# expect NAME PATTERN PROGRAM ARGUMENT…: ends with status 0 within 60 s, its last line is PATTERN.
expect() {
  local name=$1 pattern=$2 last
  shift 2
  run=$((run + 1))
  if timeout 60 "$@" >"$work/$name.out" 2>"$work/$name.err" </dev/null && last=$(tail -n 1 "$work/$name.out") && grep -qE "^$pattern\$" <<<"$last"; then
    printf 'ok   %-16s %s\n' "$name" "$last"
  else
    failed=$((failed + 1))
    printf 'FAIL %-16s wanted "%s", the end of it:\n' "$name" "$pattern"
    tail -n 5 "$work/$name.out" "$work/$name.err"
  fi
}
bin=$work/project/build
expect produce 'sent 10' "$bin/produce" "$namesrv" 10
expect consume 'consumed 10' "$bin/consume" "$namesrv" 10
# Where the group stood is kept: what comes next is new.
expect produce_more 'sent 5' "$bin/produce" "$namesrv" 5
expect consume_more 'consumed 5' "$bin/consume" "$namesrv" 5
expect async_produce 'acked 10000 failed 0 last acked, [0-9]+ a second' "$bin/async_produce" "$namesrv" 10000
expect ordered 'read 50 events of 5 accounts, 0 out of order' "$bin/ordered" "$namesrv"
expect replay 'replayed 15 of 15' "$bin/replay" "$namesrv" orders

# The README's section "From C++": its blocks become files by the name in their first line.
mkdir "$work/readme"
python3 - "$root/README.md" "$work/readme" <<'PYTHON'
import pathlib, re, sys
text = pathlib.Path(sys.argv[1]).read_text()
section = text.split('## From C++', 1)[1].split('\n## ', 1)[0]
for name, body in re.findall(r'`([\w.]+)`:\n\n((?:(?:    .*)?\n)+)', section):
    pathlib.Path(sys.argv[2], name).write_text('\n'.join(line[4:] for line in body.rstrip().split('\n')) + '\n')
PYTHON
sed -i "s/127\.0\.0\.1:9876/$namesrv/" "$work"/readme/*.cc
run=$((run + 1))
if (cd "$work/readme" && cmake -B build -DCMAKE_PREFIX_PATH="$work/prefix" && cmake --build build) >"$work/readme.log" 2>&1 </dev/null; then
  printf 'ok   %-16s built\n' readme
  expect readme_hello 'stored as .*' "$work/readme/build/hello"
else
  failed=$((failed + 1))
  tail -n 20 "$work/readme.log"
fi

# pkg-config, for those who build otherwise.
run=$((run + 1))
if PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name fulmar.pc)") && export PKG_CONFIG_PATH &&
  c++ -std=c++20 "$here/produce.cc" $(pkg-config --cflags --libs fulmar) -o "$work/by_pkg_config" >"$work/pkg.log" 2>&1; then
  printf 'ok   %-16s built\n' pkg_config
else
  failed=$((failed + 1))
  tail -n 20 "$work/pkg.log"
fi

kill "$dev"; wait "$dev"; status=$?; dev=
[ $status -eq 0 ] || { failed=$((failed + 1)); echo "FAIL fulmar dev ended with $status"; }
echo "examples: $run run, $failed failed"
[ $failed -eq 0 ]
