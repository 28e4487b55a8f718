#!/bin/bash
# ls, check, hold; the order of a queue on three servers.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need_sandbox sandbox -n 3

me="$(hostname):[0-9]+ \($(id -un)\)"

# Nobody.
code 1 zklock check free
same "check of a free lock" "$(cat "$work/out")" "/locks/free is free"
code 1 zklock -q check free
same "a quiet check" "$(cat "$work/out")$(cat "$work/err")" ""
code 0 zklock ls free
matches "ls of a free lock" "$(cat "$work/out")" nobody
code 0 zklock --json ls free
same "ls as JSON" "$(cat "$work/out")" '{"v":1,"path":"/locks/free","contenders":[],"foreign":0}'
code 0 zklock ls
same "ls of nothing" "$(cat "$work/out")" ""

# A holder, and a queue of six behind it that must run in its order.
mkfifo "$work/end"
zklock hold queue <"$work/end" >"$work/granted" &
exec 8>"$work/end"
await "a holder" lines "$work/granted" 1
matches "what hold says" "$(cat "$work/granted")" '^\{"v":1,"event":"granted","lock":"queue","path":"/locks/queue","node":"/locks/queue/_c_.*","token":[1-9][0-9]*,"wait_ms":[0-9]+\}$'
for n in 1 2 3 4 5 6; do
    zklock run queue bash -c "mkdir $work/inside || echo overlap; echo $n \$ZKLOCK_TOKEN; rmdir $work/inside" >>"$work/order" 8>&- &
    await "waiter $n" queued queue $((n + 1))
done
code 0 zklock check queue
matches "check" "$(cat "$work/out")" "^/locks/queue is held by $me\$"
code 0 zklock check --is-me queue
code 0 zklock ls queue
matches "ls, the holder" "$(cat "$work/out")" "^  holds +[0-9:]{8} +[0-9]+ +0x[0-9a-f]+ +lock +$me\$"
matches "ls, the last one" "$(tail -1 "$work/out")" "^  6 +[0-9:]{8} +[0-9]+ +0x[0-9a-f]+ +lock +$me\$"
code 0 zklock ls
same "ls finds the lock" "$(head -1 "$work/out")" /locks/queue
code 0 zklock --json ls
same "ls as JSON: one line" "$(wc -l <"$work/out")" 1
matches "ls as JSON" "$(cat "$work/out")" '"position":6,"holds":false,"name":"_c_[^"]*","kind":"lock","token":[0-9]+,"session":"0x[0-9a-f]+","created":"20[-0-9]*T[0-9:]*Z","created_ms":[0-9]+,"age_ms":[0-9]+,"identity":".*","host":".*","pid":[0-9]+,"user":'
code 124 zklock hold -n queue
exec 8>&-
wait
same "order of the queue" "$(cut -d' ' -f1 "$work/order" | tr '\n' ' ')" "1 2 3 4 5 6 "
same "tokens rise" "$(cut -d' ' -f2 "$work/order" | sort -cn 2>&1)" ""

# hold ends with its time, with its input, with a signal; with a code for each.
code 0 zklock hold --for 100ms hold
code 0 zklock hold hold </dev/null
env --default-signal zklock hold hold <>"$work/end" >"$work/granted" &
pid=$!
await "hold" lines "$work/granted" 1
code 124 zklock run -w 100ms hold true
kill -TERM "$pid"
wait "$pid"
same "exit code of hold after TERM" $? 143
await "hold to let go" queued hold 0

# watch: every change as a line, and an end when nobody reads; a table on a terminal.
background zklock watch watched >"$work/watched"
await "the empty queue" lines "$work/watched" 1
zklock hold watched <>"$work/end" >/dev/null &
holder=$!
await "a holder in the stream" lines "$work/watched" 2
kill -TERM "$holder"
await "its end in the stream" lines "$work/watched" 3
kill -INT "$pid"
wait "$pid"
same "exit code of watch after INT" $? 130
matches "what watch says" "$(sed -n 2p "$work/watched")" '^\{"v":1,"path":"/locks/watched","contenders":\[\{"position":0,"holds":true,.*\}\],"foreign":0\}$'
same "watch says each change once" "$(grep -c '"contenders":\[\]' "$work/watched")" 2
code 0 timeout 20 bash -c 'zklock watch watched | head -n 1'
# Servers that are away for a while do not end it; a signal does, also then.
background zklock watch away >"$work/away" 2>"$work/said"
await "the stream" lines "$work/away" 1
# shellcheck disable=SC2086
kill -STOP $ZKLOCK_SANDBOX_PIDS
await "word of the silence" grep -q 'no answer from the servers' "$work/said"
# shellcheck disable=SC2086
kill -CONT $ZKLOCK_SANDBOX_PIDS
zklock hold away <>"$work/end" >/dev/null &
holder=$!
await "the stream to go on" lines "$work/away" 2
# shellcheck disable=SC2086
kill -STOP $ZKLOCK_SANDBOX_PIDS
begin=$(now_ms)
kill -INT "$pid"
wait "$pid"
same "exit code of watch after INT, without servers" $? 130
true_that "at once" [ $(($(now_ms) - begin)) -lt 5000 ]
# shellcheck disable=SC2086
kill -CONT $ZKLOCK_SANDBOX_PIDS
kill "$holder"
wait "$holder"
matches "watch on a terminal" "$(TERM=xterm script -qec 'timeout -s INT 1 zklock watch watched' /dev/null </dev/null)" '/locks/watched'

# doctor.
code 0 zklock doctor
same "doctor finds three servers" "$(grep -cE '^ok   127\.0\.0\.1:[0-9]+: 3\.[0-9.]+, (leader|follower), answers in' "$work/out")" 3
same "doctor finds one leader" "$(grep -c leader "$work/out")" 1
matches "doctor, the session" "$(cat "$work/out")" "^ok   session: timeout 10000ms; a holder's lease is [0-9]+ms at the least"
code 1 zklock --tick 1s doctor
matches "a tick that is too short" "$(cat "$work/out")" '^BAD .*tickTime is 2000ms.*use --tick 2000ms'
code 1 zklock -s "127.0.0.1:1,$ZKLOCK_SERVERS" doctor
matches "a server that is down" "$(cat "$work/out")" '^BAD  127\.0\.0\.1:1: Connection refused'
one=${ZKLOCK_SERVERS%%,*}
code 0 zklock -s "[::ffff:127.0.0.1]:${one##*:}" doctor
matches "a server in brackets" "$(cat "$work/out")" '^ok   \[::ffff:127\.0\.0\.1\]:[0-9]+: 3\.'
timeout 5 zklock -s localhost doctor >"$work/out" 2>&1 # there may be one, or not
if grep -q 'not host:port' "$work/out"; then bad "no port is the usual port"; else ok; fi
code 1 zklock -s "127.0.0.1:1,$ZKLOCK_SERVERS" --json doctor
same "doctor as JSON" "$(grep -cv '^{"v":1,"subject":".*","ok":\(true\|false\),"text":".*"}$' "$work/out")" 0
