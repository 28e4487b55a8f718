#!/bin/bash
# revoke: requests that the holder release, says whom, and whether it did; run --revocable releases.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need_sandbox sandbox

run_as() { # NAME ARG...: zklock run with ARG; CMD says so and stays
    local name=$1
    shift
    rm -f "$work/$name.cmd"
    background zklock run "$@" bash -c "echo \$\$ >$work/$name.cmd; exec sleep 600" 2>"$work/$name.err"
    await "CMD of $name" lines "$work/$name.cmd" 1
}

code 1 zklock revoke free
matches "nobody" "$(cat "$work/err")" '"free": nobody holds it'

# One that listens: CMD is stopped, the lock released, the next one granted.
run_as first --revocable --report "$work/report" x
first=$pid
background zklock run x bash -c "echo up >$work/next"
next=$pid
await "the waiter" queued x 2
code 0 zklock revoke x
matches "whom" "$(cat "$work/err")" "^  who      $me, holds for 00:00:[0-9]{2}\$"
matches "that it released" "$(cat "$work/err")" '^zklock: "x": the holder released after [0-9]+\.[0-9] s$'
wait "$first"
same "exit code of the holder: CMD's" $? 143
same "what the holder says" "$(cat "$work/first.err")" 'zklock: "x": another client requests the lock: stopping bash'
true_that "its CMD is dead" gone "$(cat "$work/first.cmd")"
matches "its report" "$(cat "$work/report")" '"outcome":"revoked","exit_code":143,.*"signal":15'
wait "$next"
same "exit code of the next one" $? 0
true_that "the next one ran" [ -e "$work/next" ]
# A second request finds a lock that may be asked again, and JSON is one line.
run_as first --revocable x
code 0 zklock --json revoke x
matches "as JSON" "$(cat "$work/out")" '^\{"v":1,"event":"revoked","path":"/locks/x","gave_way":true,"wait_ms":[0-9]+,"contender":\{"position":0,"holds":true,.*"pid":'
same "JSON is one line" "$(wc -l <"$work/out")" 1
wait "$pid"

# A CMD that ignores TERM gets KILL after the grace; one that is given no time is reported as not releasing.
rm -f "$work/deaf.cmd"
background zklock run --revocable --grace 1s x bash -c "trap '' TERM; echo \$\$ >$work/deaf.cmd; while :; do read -rt 600 <> <(:) || :; done" 2>"$work/deaf.err"
await "CMD" lines "$work/deaf.cmd" 1
code 124 zklock revoke -w 0 x
matches "not in time" "$(cat "$work/err")" 'did not release within 0\.[0-9] s; .*release --force'
wait "$pid"
same "exit code of a CMD that ignores TERM" $? 137

# One that does not listen keeps the lock, and its name.
run_as deaf x
code 121 zklock -q revoke -w 20s x
matches "does not listen" "$(cat "$work/err")" '"x": the holder accepts no request: it runs without --revocable, .*release --force'
matches "it still holds" "$(zklock ls x)" "^  holds .* $me\$"
# A waiter is asked by its token, and neither hears it nor is hurt.
token=$(zklock --json ls x | sed 's/.*"token":\([0-9]*\).*/\1/')
code 121 zklock revoke --token "$token" x
code 1 zklock revoke --token 1 x
matches "no such token" "$(cat "$work/err")" 'no contender has this token'
kill -TERM "$pid"
wait "$pid"
# Several hold: which one must be said.
run_as one -r x
one=$pid
run_as two -r x
code 125 zklock revoke x
matches "several" "$(cat "$work/err")" 'held by several: say with --token which one to ask'
kill -TERM "$one" "$pid"
wait "$pid"
same "exit code of a reader" $? 143
