#!/usr/bin/env bash
# RocketMQ's own clients, unmodified, against `fulmar dev`: they come from their registries, pinned, into a temporary directory.
#   tests/interop/run.sh [CLIENT…]     CLIENT: ali-ons, java-5.3.3, java-4.9.8; all when none is named. --self-test: of the checks, without a client
# One line for each client and scenario: "PASS ali-ons 3.12.0: …", "FAIL …", or "skipped: …" when the registry is not reachable.
# Servers listen on 127.0.0.1 only and are ended by their process id. Exit 1 when something failed.
source "$(dirname "$0")/../real/lib.sh"
here=$PWD/tests/interop
[ "$*" != --self-test ] || { python3 "$here/check.py" --self-test; exit; }
failed=0

# start_dev [PORT NAMESRV_PORT]: sets $dev, $port and $namesrv; the store stays from start to start.
start_dev() {
  start_server "$work/ready.json" "$fulmar" dev --dir "$work/dev" --port "${1:-0}" --namesrv-port "${2:-0}" --json
  dev=$started
  port=$(field "$work/ready.json" port)
  namesrv_port=$(field "$work/ready.json" namesrvPort)
  namesrv=127.0.0.1:$namesrv_port
}
# A server that was gone before, or does not stop cleanly, says how it ended.
stop_dev() {
  local status=0
  kill "$dev" 2>/dev/null || echo "the server was gone"
  wait "$dev" || status=$?
  [ $status = 0 ] || { failed=1; echo "FAIL: the server ended with status $status"; tail -n 20 "$work/server.log"; }
}
topic() { "$fulmar" topic create "$1" --queues "$2" --namesrv "$namesrv" >/dev/null; }
# wait_for FILE PATTERN: up to 60 s.
wait_for() { for _ in $(seq 600); do grep -qE "$2" "$1" && return; sleep 0.1; done; return 1; }
count_of() { grep -c '^key-' "$1" || true; }
client=()        # its command line
# say NAME VERB ARGUMENT…: what it prints is $work/NAME.out
say() { local name=$1; shift; timeout 180 "${client[@]}" "$@" >"$work/$name.out" 2>"$work/$name.err"; }
check() { local first=$1 count=$2; shift 2; python3 "$here/check.py" "$first" "$count" "${@/#/$work/}" >"$work/check.err"; }

# --- scenarios --------------------------------------------------------------------------------------------------------------------------

# A thousand messages with tags, keys, UTF-8 and binary bodies, compressed ones among them, there and back; then some of the tags only.
round_trip() {
  topic round-trip 8
  say produce produce "$namesrv" round-trip 0 1000 && say consume consume "$namesrv" round-trip round-trip-group 60 1000 && check 0 1000 consume.out &&
    say tags consume "$namesrv" round-trip tag-group 60 667 'TagA || Ünïcode' && [ "$(count_of "$work/tags.out")" = 667 ]
}
# Two consumers of a group: each has half of the queues, together they have everything.
sharing() {
  topic sharing 8
  local member members=() is_shared=1
  for member in first second; do
    "${client[@]}" consume "$namesrv" sharing sharing-group 120 -1 >"$work/$member.out" 2>"$work/$member.err" &
    members+=("$!")
    pids+=("$!")
  done
  wait_for "$work/first.out" '^queues 4' && wait_for "$work/second.out" '^queues 4' && say produce produce "$namesrv" sharing 0 400 || is_shared=0
  for _ in $(seq 300); do
    [ $is_shared = 0 ] || [ $(($(count_of "$work/first.out") + $(count_of "$work/second.out"))) -ge 400 ] && break
    sleep 0.1
  done
  kill "${members[@]}"
  wait "${members[@]}" || true
  [ $is_shared = 1 ] && check 0 400 first.out second.out && [ "$(count_of "$work/first.out")" -gt 0 ] && [ "$(count_of "$work/second.out")" -gt 0 ]
}
# A consumer takes what is there and leaves, the broker restarts, the next consumer takes exactly the rest.
restart() {
  topic restart 4
  say produce produce "$namesrv" restart 0 200 && say before consume "$namesrv" restart restart-group 60 200 && say produce produce "$namesrv" restart 200 100 || return 1
  stop_dev
  start_dev "$port" "$namesrv_port"
  say after consume "$namesrv" restart restart-group 60 100 && check 0 300 before.out after.out
}
# Batches and one-way sends, read by a consumer that assigns queues to itself.
batches_one_way_and_lite_pull() {
  topic batches 4
  say batch batch "$namesrv" batches 0 100 && say one_way one_way "$namesrv" batches 100 100 && say lite lite "$namesrv" batches 200 && check 0 200 lite.out
}
# By key, by offset id, by the client's own id.
query() { topic query 2 && say query query "$namesrv" query 0 20; }
# The client's other header encoding, by the VIP port.
binary_headers_by_vip_port() {
  local client=("${client[0]}" -Drocketmq.serialize.type=ROCKETMQ -Dcom.rocketmq.sendMessageWithVIPChannel=true "${client[@]:1}")
  topic binary 4
  say produce produce "$namesrv" binary 0 100 && say consume consume "$namesrv" binary binary-group 60 100 && check 0 100 consume.out
}

# run NAME SCENARIO…: each at a fresh server.
run() {
  local name=$1 scenario
  shift
  for scenario in "$@"; do
    start_dev
    if $scenario; then
      echo "PASS $name: ${scenario//_/ }"
    else
      failed=1
      echo "FAIL $name: ${scenario//_/ }"
      tail -n 20 "$work"/*.err "$work/server.log" 2>/dev/null | head -80
    fi
    stop_dev
    rm -rf "$work/dev" "$work"/*.out "$work"/*.err
  done
}

# --- clients ----------------------------------------------------------------------------------------------------------------------------

ali_ons() {
  local name="ali-ons 3.12.0"
  command -v npm >/dev/null || { echo "skipped: $name: npm is not installed"; return; }
  mkdir -p "$work/npm"
  (cd "$work/npm" && timeout 120 npm install --no-fund --no-audit --loglevel error --prefix "$work/npm" "ali-ons@${name#* }") >"$work/npm.log" 2>&1 ||
    { echo "skipped: $name: not reachable"; return; }
  export NODE_PATH=$work/npm/node_modules
  client=(node "$here/ali_ons.js")
  run "$name" round_trip sharing restart
}

# java VERSION: of org.apache.rocketmq:rocketmq-client
java_client() {
  local name="java $1" jars=$work/java-$1
  command -v mvn >/dev/null && command -v javac >/dev/null || { echo "skipped: $name: mvn or javac is not installed"; return; }
  mkdir -p "$jars"
  cat >"$jars/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>fulmar</groupId><artifactId>interop</artifactId><version>1</version>
<dependencies><dependency><groupId>org.apache.rocketmq</groupId><artifactId>rocketmq-client</artifactId><version>$1</version></dependency></dependencies></project>
POM
  (cd "$jars" && timeout 300 mvn -q -B dependency:copy-dependencies -DoutputDirectory=lib -DincludeScope=runtime) >"$work/mvn.log" 2>&1 ||
    { echo "skipped: $name: not reachable"; return; }
  javac -encoding UTF-8 -nowarn -cp "$jars/lib/*" -d "$jars" "$here/Interop.java" 2>"$work/javac.log" || { failed=1; echo "FAIL $name: does not compile"; cat "$work/javac.log"; return; }
  client=(java -Duser.home="$work/home" -Dfile.encoding=UTF-8 -cp "$jars:$jars/lib/*" Interop)
  run "$name" round_trip sharing restart batches_one_way_and_lite_pull query binary_headers_by_vip_port
}

[ $# -gt 0 ] || set -- ali-ons java-5.3.3 java-4.9.8
for one in "$@"; do
  case $one in
    ali-ons) ali_ons ;;
    java-*) java_client "${one#java-}" ;;
    *) fail "no client '$one': ali-ons, java-VERSION" ;;
  esac
done
exit $failed
