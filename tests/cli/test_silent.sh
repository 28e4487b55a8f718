#!/bin/bash
# A server that is silent from the beginning, or after so many packets, whichever is the last one: of whom nothing is known is not said to hold
# a lock, and a signal ends what waits for a response.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need_sandbox sandbox
packets=12

# each WHAT NAME ARG...: with each of these servers zklock with ARG and a lock of its own, all at the same time; their codes are in got
each() {
    local what=$1 name=$2 count pids=()
    shift 2
    for ((count = 0; count <= packets; count++)); do
        python3 "${BASH_SOURCE%/*}/silent.py" "$count" "$what" zklock "$@" "$name-$count" -- echo ran >"$work/$name.$count" 2>/dev/null &
        pids[count]=$!
    done
    for ((count = 0; count <= packets; count++)); do
        wait "${pids[count]}"
        got[count]=$?
    done
}

ran() { [ "$(cat "$work/$1")" = ran ]; }

each stay try run -n -E 9
for ((count = 0; count <= packets; count++)); do
    ran "try.$count" && may='^(0|120)$' || may='^(120|122)$'
    matches "a try behind $count packets" "${got[count]}" "$may"
done

each term once once --slot 1h
for ((count = 0; count <= packets; count++)); do
    ran "once.$count" && may='^(0|120|122|125)$' || may='^143$'
    matches "a job that was ended behind $count packets" "${got[count]}" "$may"
done
