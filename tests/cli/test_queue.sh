#!/bin/bash
# ls, check, hold; the order of a queue on three servers.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need_sandbox sandbox -n 3

# Nobody.
code 1 zklock check free
prints_only "/locks/free is free"
code 1 zklock -q check free
same "a quiet check" "$(cat "$work/out")$(cat "$work/err")" ""
code 0 zklock ls free
prints nobody
code 0 zklock --json ls free
prints_only '{"v":1,"path":"/locks/free","contenders":[],"foreign":0}'
code 0 zklock ls
prints_only ""

# A holder, and a queue of six behind it that must run in its order.
mkfifo "$work/end"
zklock --session-timeout 30s hold queue <"$work/end" >"$work/granted" &
exec 8>"$work/end"
await "a holder" lines "$work/granted" 1
file_matches "what hold says" granted '^\{"v":1,"event":"granted","lock":"queue","path":"/locks/queue","node":"/locks/queue/_c_.*","token":[1-9][0-9]*,"wait_ms":[0-9]+\}$'
for n in 1 2 3 4 5 6; do
    zklock run queue bash -c "mkdir $work/inside || echo overlap; echo $n \$ZKLOCK_TOKEN; rmdir $work/inside" >>"$work/order" 8>&- &
    await "waiter $n" queued queue $((n + 1))
done
code 0 zklock check queue
prints "^/locks/queue is held by $me\$"
code 0 zklock check --is-me queue
code 0 zklock ls queue
prints "^  holds +[0-9:]{8} +[0-9]+ +0x[0-9a-f]+ +lock +$me\$"
matches "ls, the last one" "$(tail -1 "$work/out")" "^  6 +[0-9:]{8} +[0-9]+ +0x[0-9a-f]+ +lock +$me\$"
code 0 zklock ls
same "ls finds the lock" "$(head -1 "$work/out")" /locks/queue
code 0 zklock --json ls
same "ls as JSON: one line" "$(wc -l <"$work/out")" 1
prints '"position":6,"holds":false,"stray":false,"name":"_c_[^"]*","kind":"lock","token":[0-9]+,"session":"0x[0-9a-f]+","created":"20[-0-9]*T[0-9:]*Z","created_ms":[0-9]+,"age_ms":[0-9]+,"readable":true,"identity":".*","host":".*","pid":[0-9]+,"user":'
code 124 zklock hold -n queue
exec 8>&-
wait
same "order of the queue" "$(cut -d' ' -f1 "$work/order" | tr '\n' ' ')" "1 2 3 4 5 6 "
same "tokens rise" "$(cut -d' ' -f2 "$work/order" | sort -cn 2>&1)" ""

# hold ends with its time, with its input, with a signal; with a code for each.
code 0 zklock hold --for 100ms hold
code 0 zklock hold hold </dev/null
env --default-signal zklock --session-timeout 30s hold hold <>"$work/end" >"$work/holds" & # another file: the old one has its line
pid=$!
await "hold" lines "$work/holds" 1
code 124 zklock run -n hold true
ended_by TERM "exit code of hold after TERM" 143
await "hold to let go" queued hold 0
