#!/usr/bin/env bash
# Kills a broker with -9 again and again while messages flow. After each kill the store verifies clean; at the end every acknowledged
# message is there, and no queue offset was given to two of them.
#   tests/real/kill9.sh [ROUNDS=20]
rounds=${1:-20}
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

start_server "$work/namesrv" "$fulmar" namesrv --listen 127.0.0.1:0 --json
namesrv=$(field "$work/namesrv" port)
port=0
start_broker() {
  start_server "$work/broker" "$fulmar" broker --listen "127.0.0.1:$port" -n "127.0.0.1:$namesrv" --store "$work/store" --json \
    --set autoCreateTopicEnable=true --set mappedFileSizeCommitLog=1048576 --set mappedFileSizeConsumeQueue=20000
  port=$(field "$work/broker" port)
  broker=$started
}
: >"$work/acks"
for round in $(seq "$rounds"); do
  start_broker
  seq -f "round $round line %g of real work $(head -c $((RANDOM % 900 + 20)) /dev/zero | tr '\0' x)" 4000 >"$work/lines"
  "$fulmar" send kill9 -n "127.0.0.1:$namesrv" --file "$work/lines" --ack-log "$work/acks" --quiet --rate 5000 --window 100 --ack-timeout-ms 400 >/dev/null 2>&1 &
  sender=$!
  pids+=("$sender")
  before=$(wc -l <"$work/acks")
  # At least a few hundred acknowledged, then any moment.
  for _ in $(seq 1000); do [ "$(wc -l <"$work/acks")" -ge $((before + 200)) ] && break; sleep 0.005; done
  sleep "0.$(printf '%03d' $((RANDOM % 300)))"
  kill_9 "$broker"
  sleep 0.05           # acknowledgements that left the broker reach the log
  kill_9 "$sender"     # what it has in flight nobody will answer
  now=$(wc -l <"$work/acks")
  [ "$now" -ge $((before + 200)) ] || fail "round $round: only $((now - before)) messages were acknowledged"
  "$fulmar" store verify "$work/store" >"$work/verify" || { cat "$work/verify" >&2; fail "round $round: store verify"; }
  echo "round $round: $((now - before)) acknowledged, $(tail -n 1 "$work/verify" | sed "s|$work/||")"
done
start_broker
"$fulmar" consume kill9 -n "127.0.0.1:$namesrv" -g reader --format id --idle-ms 1500 >"$work/received" || fail "consume"
kill "$broker"
wait "$broker" || fail "the broker did not stop cleanly"
"$fulmar" store verify "$work/store" >"$work/verify" || { cat "$work/verify" >&2; fail "store verify after a clean stop"; }

cut -d' ' -f1 "$work/acks" | sort -u >"$work/acked"
sort -u "$work/received" >"$work/got"
lost=$(comm -23 "$work/acked" "$work/got" | wc -l)
# A place acknowledged to two different messages.
twice=$(sort -u "$work/acks" | cut -d' ' -f2-4 | sort | uniq -d | wc -l)
echo "rounds $rounds acked $(wc -l <"$work/acked") lost $lost offsets given twice $twice"
[ "$lost" -eq 0 ] && [ "$twice" -eq 0 ]
