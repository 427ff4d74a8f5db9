#!/usr/bin/env bash
# A log of four segments of 1 MiB at most, with five times as much sent through it, killed with -9 on the way: segments go from the front and come
# back under new names, nothing acknowledged above the log's begin is missing, and a start without queues, index and checkpoint still knows the topic,
# where its queues go on and where its group stands.
#   tests/real/retention.sh [ROUNDS=5]
rounds=${1:-5}
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

start_server "$work/namesrv" "$fulmar" namesrv --listen 127.0.0.1:0 --json
namesrv=$(field "$work/namesrv" port)
port=0
start_broker() {
  start_server "$work/broker" "$fulmar" broker --listen "127.0.0.1:$port" -n "127.0.0.1:$namesrv" --store "$work/store" --json \
    --set autoCreateTopicEnable=true --set mappedFileSizeCommitLog=1048576 --set mappedFileSizeConsumeQueue=20000 --set retainBytesMax=4194304 \
    --set flushDiskType="$flush"
  port=$(field "$work/broker" port)
  broker=$started
}
send() {
  seq -f "line %g of real work $(head -c 900 /dev/zero | tr '\0' x)" "$1" >"$work/lines"
  "$fulmar" send keeping -n "127.0.0.1:$namesrv" --file "$work/lines" --ack-log "$work/acks" --quiet --window 100 --ack-timeout-ms 3000 >/dev/null 2>&1
}

for flush in SYNC_FLUSH ASYNC_FLUSH; do
  rm -rf "$work/store"
  : >"$work/acks"
  : >"$work/inodes"
  : >"$work/server.log"
  for round in $(seq "$rounds"); do
    start_broker
    send 5000 &
    sender=$!
    for _ in $(seq 600); do
      ls -i "$work/store/commitlog" 2>/dev/null | awk '{print $1, $2}' >>"$work/inodes"
      [ "$(wc -l <"$work/acks")" -ge $((round * 3000)) ] && break
      sleep 0.01
    done
    kill_9 "$broker"
    kill_9 "$sender"
    "$fulmar" store verify "$work/store" >"$work/verify" || { cat "$work/verify" >&2; fail "round $round: store verify"; }
    files=$(ls "$work/store/commitlog" | wc -l)
    # Four, one that is written and one on its way out; two being prepared and two recycled ahead of the writer; two written meanwhile.
    [ "$files" -le 12 ] || fail "round $round: $files segments for a log of four"
  done
  # One file that has had two names; inodes of removed files are given again, so the broker must say so, too.
  renamed=$(sort -u "$work/inodes" | awk '{print $1}' | uniq -d | wc -l)
  recycled=$(grep -c 'is gone (recycled)' "$work/server.log" || true)
  [ "$renamed" -gt 0 ] && [ "$recycled" -gt 0 ] || fail "$flush: no segment was recycled ($renamed inodes had two names, the broker tells of $recycled)"
  start_broker
  "$fulmar" consume keeping -n "127.0.0.1:$namesrv" -g reader --format id --idle-ms 1500 >"$work/received" || fail "consume"
  kill "$broker"
  wait "$broker" || fail "the broker did not stop cleanly"
  "$fulmar" store verify "$work/store" >"$work/verify" || { cat "$work/verify" >&2; fail "store verify after a clean stop"; }
  [ ! -s <(grep '^note' "$work/verify") ] || { cat "$work/verify" >&2; fail "a clean stop leaves notes"; }
  begin=$(ls "$work/store/commitlog" | head -1 | sed 's/^0*//')
  [ -n "$begin" ] || fail "$flush: nothing was deleted"
  # What was acknowledged last is there: the last 1,000 of at most four segments.
  tail -n 1000 "$work/acks" | cut -d' ' -f1 | sort -u >"$work/acked"
  sort -u "$work/received" >"$work/got"
  lost=$(comm -23 "$work/acked" "$work/got" | wc -l)
  [ "$lost" -eq 0 ] || fail "$flush: $lost of the last 1,000 acknowledged messages are missing"
  # Nothing but the log is left.
  rm -rf "$work/store/consumequeue" "$work/store/index" "$work/store/checkpoint" "$work/store/config"
  start_broker
  : >"$work/acks"
  send 10
  "$fulmar" consume keeping -n "127.0.0.1:$namesrv" -g reader --format id --idle-ms 1500 >"$work/received" || fail "consume"
  got=$(wc -l <"$work/received")
  [ "$got" -eq 10 ] || fail "$flush: the group got $got messages after the rebuild, 10 are new"
  kill "$broker"
  wait "$broker" || fail "the broker did not stop cleanly"
  echo "$flush: $rounds kills, log from $begin, $recycled segments recycled, group and offsets kept"
done
