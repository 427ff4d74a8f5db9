#!/usr/bin/env bash
# Two consumers of one group share a topic while messages flow. One is killed with -9: the other has its queues within two heartbeats (and
# what this machine needs besides), and nothing that was acknowledged is missing. Then the same with the broker killed in the same second.
#   tests/real/takeover.sh               the test
#   tests/real/takeover.sh --self-test   faults that it must notice: a consumer that only falls silent, and a record that is lost
mode=${1:-}
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
queues=8
limit_ms=${TAKEOVER_LIMIT_MS:-3500}
now_ms() { date +%s%3N; }

start_server "$work/namesrv" "$fulmar" namesrv --listen 127.0.0.1:0 --json
name_server=127.0.0.1:$(field "$work/namesrv" port)
port=0
start_broker() {
  start_server "$work/broker" "$fulmar" broker --listen "127.0.0.1:$port" -n "$name_server" --store "$work/store" --json --set mappedFileSizeCommitLog=16777216
  port=$(field "$work/broker" port)
  broker=$started
}
start_broker
"$fulmar" topic create takeover -q $queues -n "$name_server" >/dev/null || fail "topic create"

# start_consumer NAME: its messages go to $work/NAME, its process id to $consumer.
start_consumer() {
  "$fulmar" consume takeover -g readers --client-id "$1" -n "$name_server" --json >"$work/$1" 2>>"$work/server.log" &
  consumer=$!
  pids+=("$consumer")
}
members() { "$fulmar" group describe readers -n "$name_server" --json 2>/dev/null | grep -o '"clientId"' | wc -l; }
wait_for_members() {
  for _ in $(seq 300); do [ "$(members)" -eq "$1" ] && return; sleep 0.05; done
  fail "there are $(members) members, not $1"
}
ids() { cat "$@" | sed -n 's/.*"id":"\([^"]*\)".*/\1/p' | sort -u; }
# How many queues the messages of file $1 behind line $2 come from.
queues_since() { tail -n "+$(($2 + 1))" "$1" | sed -n 's/.*"queueId":\([0-9]*\).*/\1/p' | sort -u | wc -l; }

# round NAME SIGNAL: two consumers; the first gets the signal. Says how long the second needed.
round() {
  local name=$1 signal=$2 doomed sender line begin lost
  start_consumer "$name-doomed"
  doomed=$consumer
  start_consumer "$name-heir"
  wait_for_members 2
  : >"$work/$name-acks"
  seq 200000 >"$work/lines"
  "$fulmar" send takeover -n "$name_server" --file "$work/lines" --ack-log "$work/$name-acks" --quiet --rate 2000 --window 64 >/dev/null 2>&1 &
  sender=$!
  pids+=("$sender")
  for _ in $(seq 400); do
    [ "$(queues_since "$work/$name-doomed" 0)" -eq $((queues / 2)) ] && [ "$(queues_since "$work/$name-heir" 0)" -eq $((queues / 2)) ] && break
    sleep 0.05
  done
  [ "$(queues_since "$work/$name-doomed" 0)" -eq $((queues / 2)) ] || fail "$name: the first consumer has $(queues_since "$work/$name-doomed" 0) of $queues queues"
  sleep "0.$(printf '%03d' $((RANDOM % 1000)))"
  kill -"$signal" "$doomed"
  begin=$(now_ms)
  if [ "$name" = with_broker ]; then
    sleep "0.$(printf '%03d' $((RANDOM % 900)))"
    kill_9 "$broker"
    start_broker
    begin=$(now_ms)   # nobody can be told anything before
  fi
  line=$(wc -l <"$work/$name-heir")
  while [ "$(queues_since "$work/$name-heir" "$line")" -lt $queues ]; do
    if [ $(($(now_ms) - begin)) -gt "$limit_ms" ]; then fail "$name: after $limit_ms ms the second consumer has $(queues_since "$work/$name-heir" "$line") of $queues queues"; fi
    sleep 0.05
  done
  took=$(($(now_ms) - begin))
  sleep 0.5
  kill_9 "$sender"
  lost=none
  [ "$mode" != --lose-one ] || lost=$(cut -d' ' -f1 "$work/$name-acks" | tail -n 50 | head -n 1)
  # Everything that was acknowledged, within ten seconds at most.
  cut -d' ' -f1 "$work/$name-acks" | sort -u >"$work/$name-acked"
  for _ in $(seq 100); do
    ids "$work/$name-doomed" "$work/$name-heir" | grep -vx "$lost" >"$work/$name-got" || true
    missing=$(comm -23 "$work/$name-acked" "$work/$name-got" | wc -l)
    [ "$missing" -eq 0 ] && break
    sleep 0.1
  done
  kill "$consumer"
  local status=0
  wait "$consumer" || status=$?
  [ $status -eq 0 ] || [ $status -eq 143 ] || fail "$name: the second consumer ended with $status"
  twice=$(($(cat "$work/$name-doomed" "$work/$name-heir" | wc -l) - $(wc -l <"$work/$name-got")))
  echo "$name: taken over in $took ms, $(wc -l <"$work/$name-acked") acked, $missing missing, $twice consumed twice"
  [ "$missing" -eq 0 ] || fail "$name: $missing acknowledged messages were never consumed"
  kill_9 "$doomed"
}

case $mode in
  --self-test)
    # In processes of their own: their fail ends them.
    if bash "${BASH_SOURCE[0]}" --silence >"$work/silence" 2>&1; then cat "$work/silence"; fail "a consumer that only fell silent was not noticed"; fi
    grep -q 'the second consumer has 4 of 8 queues' "$work/silence" || { cat "$work/silence"; fail "the wrong reason"; }
    if bash "${BASH_SOURCE[0]}" --lose-one >"$work/lose" 2>&1; then cat "$work/lose"; fail "a lost record was not noticed"; fi
    grep -q '1 acknowledged messages were never consumed' "$work/lose" || { cat "$work/lose"; fail "the wrong reason"; }
    echo "both faults were noticed" ;;
  --silence) round silence STOP ;;
  --lose-one) round lose KILL ;;
  *)
    round alone KILL
    round with_broker KILL ;;
esac
