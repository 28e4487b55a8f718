#!/bin/bash
# zklock bench: what it prints, whom it leaves alone, what it leaves behind.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need_sandbox sandbox

code 125 zklock bench --for 10ms
says "'10ms' is out of range; 100ms to"
code 125 zklock bench a b

# four PATTERN ARG...: zklock ARG... prints four lines like that. Thrice: in a machine that stalls the time is up before the first of one kind.
four() {
    code 0 zklock "${@:2}"
    [ "$(grep -cE "$1" "$work/out")" -eq 4 ]
}
true_that "four measurements" thrice four '^[a-z].* +[1-9][0-9]* +[0-9]+\.[0-9]{3} ms +[0-9]+\.[0-9]{3} ms +[0-9]+\.[0-9]$' bench --for 500ms
nobody() { [ -z "$(zklock ls)" ]; }
patience_ms=7000 await "nothing is left" nobody
true_that "as JSON" thrice four '^\{"v":1,"what":"(read|write|lock|hand-over)","count":[1-9][0-9]*,"median_ns":[1-9][0-9]*,"p99_ns":[1-9][0-9]*\}$' \
    --json bench --for 500ms /elsewhere/lock
same "and nothing else" "$(wc -l <"$work/out")" 4

hold busy-znode
code 125 zklock bench busy-znode
says '/locks/busy-znode is in use: 1 contenders'
code 125 zklock bench busy
says '/locks/busy-znode is in use; name another'
true_that "the holder was left alone" queued busy-znode 1
kill -TERM "$holder"
code 125 zklock bench / # whatever stands there

background zklock bench --for 1h >"$work/first"
await "a table" lines "$work/first" 1
ended_by INT "exit code after INT" 130
patience_ms=7000 await "nothing is left after INT" nobody
background zklock bench --for 1h >"$work/first"
await "a table" lines "$work/first" 1
freeze_servers
# No thread runs: all wait for a response.
hangs() { ! grep -q '^State:[[:space:]]*R' "/proc/$pid"/task/*/status; }
await "a request without a response" hangs
ended_by INT "exit code after INT, without servers" 130
thaw_servers
await "nothing is left after that" nobody

# Somebody removes the holder's znode while bench hands over, at another moment in each round: bench ends, and says why. ZKLOCK_ROUNDS: how
# often (3).
rob() {
    kill -STOP "$pid"
    zklock release --yes --force zklock-bench >/dev/null 2>&1
    kill -CONT "$pid"
    gone "$pid"
}
for round in $(seq "${ZKLOCK_ROUNDS:-3}"); do
    background zklock bench --for 800ms >"$work/robbed" 2>"$work/robbed.err"
    await "the third line" lines "$work/robbed" 4
    await "bench to end in round $round" rob || { kill -KILL "$pid" && break; }
    true_that "a reason in round $round" grep -qE '^zklock: /locks/zklock-bench: .|^hand-over' "$work/robbed.err" "$work/robbed"
done
