#!/bin/bash
# examples/transfer.c in several processes, which are stopped for longer than their sessions live, wherever they are just then: the sum of the
# accounts stays.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
need_sandbox --tick 100ms sandbox

transfers_of() { grep -c '^transferred$' "$work/$1"; }
# goes_on NUMBER COUNT: that process makes so many transfers more
goes_on() {
    local wanted=$(($(transfers_of "$1") + $2))
    has_made() { [ "$(transfers_of "$1")" -ge "$wanted" ]; }
    await "transfers of process $1" has_made "$1"
}

pids=()
options=(2000 100) # session timeout and tick, ms
for number in 0 1 2; do
    "$TRANSFER" "$ZKLOCK_SERVERS" 1000000 "${options[@]}" >"$work/$number" 2>&1 &
    pids+=($!)
done
goes_on 0 5
goes_on 1 5
goes_on 2 1
for victim in 0 1 2; do # the others go on as soon as its session has ended
    kill -STOP "${pids[victim]}"
    goes_on $(((victim + 1) % 3)) 20
    sleep 3 # the fault itself: so long it is stopped
    kill -CONT "${pids[victim]}"
    goes_on $victim 1
done
kill -KILL "${pids[@]}"
wait
echo "$(cat "$work"/[012] | grep -c '^not transferred') transfers were refused or lost"
code 0 "$TRANSFER" "$ZKLOCK_SERVERS" 10 30000 100 # nobody stops this one: none may be lost
prints '^sum: 2000$'
same "transfers" "$(grep -c '^transferred$' "$work/out")" 10
