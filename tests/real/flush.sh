#!/usr/bin/env bash
# Under a shim that records and can fail flushes: no SYNC_FLUSH acknowledgement leaves before a flush of the commit log that began
# after its message had arrived has returned; and after one that failed no further acknowledgement leaves.
#   tests/real/flush.sh             the test
#   tests/real/flush.sh --self-test the same checks against an ASYNC_FLUSH broker: they must find early acknowledgements
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
flush_type=SYNC_FLUSH
[ "${1:-}" != --self-test ] || flush_type=ASYNC_FLUSH
cc -shared -fPIC -O2 -o "$work/shim.so" tests/real/shim.c -ldl

start_server "$work/namesrv" "$fulmar" namesrv --listen 127.0.0.1:0 --json
namesrv=$(field "$work/namesrv" port)
# start_broker STORE FAIL_AT
start_broker() {
  : >"$work/shim.log"
  start_server "$work/broker" env LD_PRELOAD="$work/shim.so" SHIM_LOG="$work/shim.log" SHIM_FAIL_AT="$2" \
    "$fulmar" broker --listen 127.0.0.1:0 -n "127.0.0.1:$namesrv" --store "$work/$1" --json \
    --set autoCreateTopicEnable=true --set mappedFileSizeCommitLog=4194304 --set flushDiskType=$flush_type
  broker=$started
}

# One message at a time, so that each write to the client answers the read before it. The first exchange of a connection is the hello,
# which may have come together with the first message: 299 are left.
start_broker order 0
: >"$work/acks"
seq -f "line %g" 300 >"$work/lines"
"$fulmar" send flush -n "127.0.0.1:$namesrv" --file "$work/lines" --window 1 --quiet --ack-log "$work/acks" >/dev/null || fail "send"
kill "$broker"
wait "$broker" || fail "the broker did not stop cleanly"
sed -n '$=' "$work/acks" | grep -qx 300 || fail "not all of 300 messages were acknowledged"
check_order() {
  awk -v namesrv="$namesrv" '
    $1 == "R" && $3 != namesrv { read_at[$2] = NR; reads[$2]++ }
    $1 == "B" { begun[$2] = NR }
    $1 == "E" { if (begun[$2] > covered) covered = begun[$2] }   # every store before this line is durable
    $1 == "W" && $3 != namesrv {
      if (reads[$2] > 1 && answered[$2] != read_at[$2]) { writes++; if (covered < read_at[$2]) early++ }
      answered[$2] = read_at[$2]
    }
    END { printf "answers %d early %d\n", writes, early; exit !(writes >= 299 && early == 0) }' "$work/shim.log"
}
if [ "${1:-}" = --self-test ]; then
  if check_order; then fail "an ASYNC_FLUSH broker passed the check: it cannot fail"; fi
  echo "self-test: the check finds early acknowledgements"
  exit 0
fi
check_order || fail "an acknowledgement left before the flush that covers it"

# Many at a time, and the 40th flush fails: the broker ends with a sentence, and nothing is acknowledged after it.
start_broker failing 40
: >"$work/acks"
seq -f "line %g" 20000 >"$work/lines"
"$fulmar" send flush -n "127.0.0.1:$namesrv" --file "$work/lines" --window 64 --quiet --ack-log "$work/acks" --ack-timeout-ms 1000 >/dev/null 2>&1 || true
status=0
wait "$broker" || status=$?
[ "$status" -eq 1 ] || fail "the broker ended with status $status instead of 1"
grep -q 'flush of log bytes' "$work/server.log" || { tail -n 5 "$work/server.log" >&2; fail "no sentence about the failed flush"; }
late=$(awk -v namesrv="$namesrv" '$1 == "F" { failed = 1 } $1 == "W" && failed && $3 != namesrv { late++ } END { print late + 0 }' "$work/shim.log")
acked=$(wc -l <"$work/acks")
[ "$acked" -gt 0 ] && [ "$acked" -lt 20000 ] || fail "$acked messages were acknowledged around a failed flush"
[ "$late" -eq 0 ] || fail "$late writes to clients after the failed flush"
# The next start stores again what the failed flush may have dropped, and everything acknowledged is there.
start_broker failing 0
"$fulmar" consume flush -n "127.0.0.1:$namesrv" -g reader --format id --idle-ms 1000 >"$work/received" || fail "consume"
lost=$(comm -23 <(cut -d' ' -f1 "$work/acks" | sort -u) <(sort -u "$work/received") | wc -l)
[ "$lost" -eq 0 ] || fail "$lost acknowledged messages are lost"
echo "300 answers after their flush; $acked acknowledged before the failed one, 0 after it, lost 0"
