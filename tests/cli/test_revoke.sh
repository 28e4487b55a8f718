#!/bin/bash
# revoke: requests that the holder release, says whom, and whether it did; run --revocable releases.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need_sandbox sandbox

code 1 zklock revoke free
says '"free": nobody holds it'

# One that listens: CMD is stopped, the lock released, the next one granted.
run_as first --revocable --report "$work/report" x
first=$pid
up first
background zklock run x bash -c "echo up >$work/next"
next=$pid
await "the waiter" queued x 2
code 0 zklock revoke -w 1m x
says "^  who      $me, holds for 00:0[0-9]:[0-9]{2}\$"
says '^zklock: "x": the holder released after [0-9]+\.[0-9] s$'
ends "exit code of the holder: CMD's" 143 "$first"
file_is "what the holder says" first.err 'zklock: "x": another client requests the lock: stopping bash'
true_that "its CMD is dead" gone "$(cat "$work/first.cmd")"
file_matches "its report" report '"outcome":"revoked","exit_code":143,.*"signal":15'
ends "exit code of the next one" 0 "$next"
true_that "the next one ran" [ -e "$work/next" ]
# A second request finds a lock that may be asked again, and JSON is one line.
run_as first --revocable x
up first
code 0 zklock --json revoke -w 1m x
prints '^\{"v":1,"event":"revoked","path":"/locks/x","gave_way":true,"wait_ms":[0-9]+,"contender":\{"position":0,"holds":true,.*"pid":'
same "JSON is one line" "$(wc -l <"$work/out")" 1
wait "$pid"

# A CMD that ignores TERM gets KILL after the grace; one that is given no time is reported as not releasing.
rm -f "$work/deaf.cmd"
background zklock --session-timeout 30s run --revocable --grace 8s x bash -c "trap '' TERM; echo \$\$ >$work/deaf.cmd; while :; do read -rt 600 <> <(:) || :; done" 2>"$work/deaf.err"
await "CMD" lines "$work/deaf.cmd" 1
code 124 zklock revoke -w 0 x
says 'did not release within [0-9]\.[0-9] s; .*release --force'
ends "exit code of a CMD that ignores TERM" 137

# One that does not listen keeps the lock, and its name.
run_as deaf x
up deaf
code 121 zklock -q revoke -w 20s x
matches "it still holds" "$(zklock ls x)" "^  holds .* $me\$"
code 121 zklock revoke --token "$(token_of x)" x
says "with 'zklock release --force --token [0-9]+'"
code 1 zklock revoke --token 1 x
says 'no contender has this token'
# A waiter has nothing to release, and keeps its name.
deaf=$pid
run_as later --revocable x
await "a waiter" queued x 2
code 1 zklock revoke --token "$(token_of x)" x
says 'this contender waits'
matches "its name" "$(zklock ls x)" "^  1 .* $me\$"
kill -TERM "$pid" "$deaf"
wait "$pid" "$deaf"
# Several hold: which one must be said.
run_as one -r x
one=$pid
run_as two -r x
up one
up two
code 125 zklock revoke x
says 'held by several: say with --token which one to ask'
kill -TERM "$one" "$pid"
ends "exit code of a reader" 143
