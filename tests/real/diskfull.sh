#!/usr/bin/env bash
# A broker on a small ext4 file system: filling it gives refusals that name the disk, the bytes and the watermark; reads go on; freeing
# resumes writes without a restart; nothing acknowledged is lost. Then the same with cleanFileForciblyEnable, the default: the oldest segments
# go instead, and it is said whose unread messages went with them. Needs root for the loop mount.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
disk=$work/disk
cleanup_more() { umount "$disk" 2>/dev/null || umount -l "$disk" 2>/dev/null; }
mkdir "$disk"
truncate -s 64M "$work/image"
mkfs.ext4 -q -F "$work/image"
mount -o loop "$work/image" "$disk" || fail "cannot mount a loop file system (root is needed)"
fallocate -l 16M "$disk/ballast"

start_server "$work/namesrv" "$fulmar" namesrv --listen 127.0.0.1:0 --json
namesrv=$(field "$work/namesrv" port)
start_server "$work/broker" "$fulmar" broker --listen 127.0.0.1:0 -n "127.0.0.1:$namesrv" --store "$disk/store" --json \
  --set autoCreateTopicEnable=true --set mappedFileSizeCommitLog=1048576 --set mappedFileSizeConsumeQueue=20000 --set maxHashSlotNum=1000 --set maxIndexNum=4000 --set cleanFileForciblyEnable=false
broker=$started
: >"$work/acks"
body=$(head -c 4000 /dev/zero | tr '\0' d)
seq -f "line %g $body" 12000 >"$work/lines"   # 48 MB: more than there is
if "$fulmar" send full -n "127.0.0.1:$namesrv" --file "$work/lines" --window 64 --quiet --ack-log "$work/acks" --ack-timeout-ms 5000 >"$work/send" 2>"$work/refusal"; then
  fail "48 MB were taken by a disk of 64 MB with 16 MB of ballast"
fi
filled=$(wc -l <"$work/acks")
[ "$filled" -gt 1000 ] || fail "only $filled messages were acknowledged before the disk was full"
for word in "$disk/store" 'watermark' 'bytes' 'refused from'; do grep -q "$word" "$work/refusal" || { cat "$work/refusal" >&2; fail "the refusal does not name '$word'"; }; done
echo "refusal: $(tail -n 1 "$work/refusal" | sed "s|$work/||g")"

"$fulmar" consume full -n "127.0.0.1:$namesrv" -g reader --format id --idle-ms 1000 >"$work/received" || fail "reading from a full disk"
lost=$(comm -23 <(cut -d' ' -f1 "$work/acks" | sort -u) <(sort -u "$work/received") | wc -l)
[ "$lost" -eq 0 ] || fail "$lost acknowledged messages cannot be read from the full disk"

rm "$disk/ballast"
resumed=false
for _ in $(seq 30); do
  if "$fulmar" send full -n "127.0.0.1:$namesrv" "after the disk has room" --ack-log "$work/acks" >/dev/null 2>&1; then resumed=true; break; fi
  sleep 0.5
done
$resumed || fail "writes did not resume within 15 s"
kill -0 "$broker" || fail "the broker is gone"
head -n 1000 "$work/lines" >"$work/more"
"$fulmar" send full -n "127.0.0.1:$namesrv" --file "$work/more" --window 64 --quiet --ack-log "$work/acks" >/dev/null || fail "sending after the disk has room"

kill_9 "$broker"
start_server "$work/broker" "$fulmar" broker --listen 127.0.0.1:0 -n "127.0.0.1:$namesrv" --store "$disk/store" --json \
  --set autoCreateTopicEnable=true --set mappedFileSizeCommitLog=1048576 --set mappedFileSizeConsumeQueue=20000 --set maxHashSlotNum=1000 --set maxIndexNum=4000 --set cleanFileForciblyEnable=false
broker=$started
"$fulmar" consume full -n "127.0.0.1:$namesrv" -g reader2 --format id --idle-ms 1000 >"$work/received" || fail "consume"
lost=$(comm -23 <(cut -d' ' -f1 "$work/acks" | sort -u) <(sort -u "$work/received") | wc -l)
kill "$broker"
wait "$broker" || fail "the broker did not stop cleanly"
"$fulmar" store verify "$disk/store" >"$work/verify" || { cat "$work/verify" >&2; fail "store verify"; }
echo "acked $(sort -u "$work/acks" | wc -l) ($filled until full) lost $lost"
[ "$lost" -eq 0 ] || fail "$lost acknowledged messages are lost"

rm -rf "$disk/store"
start_server "$work/broker" "$fulmar" broker --listen 127.0.0.1:0 -n "127.0.0.1:$namesrv" --store "$disk/store" --json \
  --set autoCreateTopicEnable=true --set mappedFileSizeCommitLog=1048576 --set mappedFileSizeConsumeQueue=20000 --set maxHashSlotNum=1000 --set maxIndexNum=4000
broker=$started
: >"$work/acks"
"$fulmar" send full -n "127.0.0.1:$namesrv" "the first" --ack-log "$work/acks" >/dev/null || fail "the first message"
"$fulmar" consume full -n "127.0.0.1:$namesrv" -g slow --count 1 >/dev/null || fail "the slow group"
seq -f "line %g $body" 24000 >"$work/lines"   # 96 MB
"$fulmar" send full -n "127.0.0.1:$namesrv" --file "$work/lines" --window 64 --quiet --ack-log "$work/acks" --ack-timeout-ms 30000 >"$work/send" 2>"$work/refusal" || { tail -n 3 "$work/refusal"; ls "$disk/store/commitlog" | head -60; df "$disk"; grep -v Export "$work/server.log" | tail -30; "$fulmar" status -n "127.0.0.1:$namesrv" | grep -i "delet\|segm\|disk"; fail "sends stopped although old segments may go"; }
begin=$(ls "$disk/store/commitlog" | head -1 | sed 's/^0*//')
[ -n "$begin" ] || fail "96 MB fitted 64"
grep -q 'UnreadLost.*slow' "$work/server.log" || fail "nobody said that group slow loses messages"
kill "$broker"
wait "$broker" || fail "the broker did not stop cleanly"
"$fulmar" store verify "$disk/store" >"$work/verify" || { cat "$work/verify" >&2; fail "store verify"; }
echo "forced: $(wc -l <"$work/acks") acked, the log begins at $begin, the group that loses messages was named"
