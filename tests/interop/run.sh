#!/bin/bash
# run.sh CONTEND WHO [RECIPE]: this library's contenders and WHO's (curator, kazoo, go) at one path on a real server: lock; rw; latch and
# selector (Curator's LeaderLatch and LeaderSelector); election (kazoo's, among locks), latch (the same among our elections);
# semaphore (of one permit). ZKLOCK_ROUNDS (30) rounds of each, one contender of each kind killed with -9 meanwhile. No two
# inside at once but readers, those of both kinds together, and nobody stuck. Exit 77: what it needs is not installed.
set -u
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tests/interop/others.sh
. "$here/others.sh"
enter "$@"
prepare "$who" contend

# The input of all, which ends when each has its session: otherwise one kind can be done before a virtual machine has started.
mkfifo "$room/begin"
exec 3<>"$room/begin"
start() { # KIND ROUNDS
    "$1" "/interop/$$" "$2" "$recipe" <"$room/begin" >"$room/$1.$RANDOM$RANDOM" 2>&1 3>&- &
}
for kind in ours other; do
    start $kind $(((rounds + 1) / 2)); pids+=($!)
    start $kind $(((rounds + 1) / 2)); pids+=($!)
    start $kind 100000; victims+=($!)
done
# count KIND WORD: lines of that kind that begin so. await NUMBER WORD: until there are so many of each kind.
count() { cat "$room/$1".* | grep -c "^$2"; }
await() {
    for kind in ours other; do
        for _ in $(seq 300); do
            [ "$(count $kind "$2")" -ge "$1" ] && break
            sleep 0.2
        done
    done
}
await 3 ready
exec 3>&-
# Each victim once its kind has been inside: by then it holds or queues nearly all the time.
await 6 round
kill -9 "${victims[@]}"
# Their znodes stand for some seconds more: nobody can have followed them yet.
printf "$(date +%s%N) out - victim %d\n" "${victims[@]}" >"$room/killed"
bad=0
for pid in "${pids[@]}"; do
    wait "$pid" || bad=1
done
wait "${victims[@]}" 2>/dev/null
# Who is inside with whom, by the times that all have printed.
grep -h '^[0-9]' "$room"/ours.* "$room"/other.* "$room/killed" | sort -n | awk '
    $2 == "in" {
        for (pid in mode)
            if ($3 == "w" || mode[pid] == "w")
                print "OVERLAP: " $0 " beside " mode[pid] " " kind[pid] " " pid
            else if ($4 != kind[pid])
                print "together"
        mode[$5] = $3
        kind[$5] = $4
    }
    $2 == "out" { delete mode[$5] }' >"$room/all"
cat "$room"/ours.* "$room"/other.* >>"$room/all"
grep -v -e '^ready' -e '^round' -e '^together' -e '^[0-9]' "$room/all"
overlaps=$(grep -c '^OVERLAP' "$room/all")
together=$(grep -c '^together' "$room/all")
mine=$(count ours round)
theirs=$(count other round)
echo "$who, $recipe: $theirs rounds of theirs, $mine of ours, $overlaps overlaps, readers of both together $together times"
[ "$recipe" != rw ] || [ "$together" -gt 0 ] || bad=1
[ $bad = 0 ] && [ "$overlaps" = 0 ] && [ "$mine" -ge "$rounds" ] && [ "$theirs" -ge "$rounds" ]
