#!/usr/bin/env bash
# What `fulmar dev` keeps in memory once nobody asks for anything: MIB mebibytes are sent as lines of 1 KiB and consumed; after SECONDS of
# silence VmRSS is at most 64 MiB and RssAnon + RssShmem at most 32 MiB. Exit 1 when it is more.
#   tests/real/residence.sh [MIB] [SECONDS]    1024 MiB and 60 s when nothing is said
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
mib=${1:-1024} silence=${2:-60} lines=0
[[ $mib =~ ^[1-9][0-9]*$ && $silence =~ ^[0-9]+$ ]] || { echo "usage: tests/real/residence.sh [MIB] [SECONDS]" >&2; exit 2; }
lines=$((mib * 1024))

start_server "$work/ready" "$fulmar" dev --dir "$work/dev" --port 0 --namesrv-port 0 --json
broker=$started
namesrv=127.0.0.1:$(field "$work/ready" namesrvPort)
kib() { awk -v name="$1:" '$1 == name { print $2 }' "/proc/$broker/status"; }
show() { printf '%-28s VmRSS %8d kB  RssAnon %6d kB  RssFile %8d kB  RssShmem %d kB\n' "$1" "$(kib VmRSS)" "$(kib RssAnon)" "$(kib RssFile)" "$(kib RssShmem)"; }

show "started"
seq -f "%01024.0f" "$lines" >"$work/lines"
"$fulmar" send residence -n "$namesrv" --file "$work/lines" --quiet >/dev/null || fail "send"
rm "$work/lines"
show "$mib MiB sent"
consumed=$("$fulmar" consume residence -n "$namesrv" -g reader --from first --count "$lines" --idle-ms 10000 --format id | sort -u | wc -l)
[ "$consumed" -eq "$lines" ] || fail "$consumed of $lines messages were consumed"
show "$mib MiB consumed"
sleep "$silence"
show "after $silence s of silence"

rss=$(kib VmRSS) anon=$(($(kib RssAnon) + $(kib RssShmem)))
if [ "$rss" -gt 65536 ] || [ "$anon" -gt 32768 ]; then
  awk '/^[0-9a-f]+-/ { name = $6 } $1 == "Rss:" { rss[name] += $2 } END { for (name in rss) print rss[name], "kB", name }' "/proc/$broker/smaps" |
    sort -rn | sed "s|$work/||" | head -n 8 >&2
  fail "VmRSS $rss kB (at most 65536), RssAnon + RssShmem $anon kB (at most 32768)"
fi
echo "$mib MiB sent and consumed, after $silence s: VmRSS $rss kB, RssAnon + RssShmem $anon kB"
