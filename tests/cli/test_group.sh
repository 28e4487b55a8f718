#!/bin/bash
# CMD and everything it starts: released when all are gone, dead when zklock or its keeper is.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need_sandbox sandbox

# Three that ignore TERM: CMD, a child, a grandchild in a session of its own whose parent has gone. All write their pids.
stubborn='
trap "" TERM HUP INT
echo $$ >>"$PIDS"
(trap "" TERM; echo $BASHPID >>"$PIDS"; while :; do sleep 1; done) &
setsid bash -c "(trap \"\" TERM; echo \$BASHPID >>\"$PIDS\"; while :; do sleep 1; done) &"
while :; do sleep 1; done'

start_stubborn() {
    export PIDS=$work/$1.pids
    background zklock --session-timeout 20s run "$@" bash -c "$stubborn"
    await "all of CMD" lines "$PIDS" 3
}
keeper_of() { pgrep -P "$1"; }
ends_of_term() { # WHAT CODE
    kill "$pid"
    patience_ms=20000 await "the end $1" gone "$pid" || kill -KILL "$pid" "$(keeper_of "$pid")"
    ends "exit code $1" "$2"
}

# --max-run kills all of them; only then the lock is free. So long that all are there by then, however slowly they start.
start_stubborn --max-run 10s --grace 200ms reaped
PIDS=$work/--max-run.pids
ends "exit code after --max-run" 137
true_that "nobody is left after --max-run" all_gone "$PIDS"

# zklock killed with -9: the keeper kills them; the lock stays taken until the session ends.
start_stubborn killed 2>"$work/said"
keeper=$(keeper_of "$pid")
kill -KILL "$pid"
await "all of CMD to die after zklock" all_gone "$PIDS"
await "the keeper to end" gone "$keeper"
file_matches "what the keeper says" said "^zklock: zklock has ended: stopping bash; its lock is free after the session timeout, then run it again$"

# The same, and nobody reads standard error: the keeper does not wait to say so.
mkfifo "$work/full"
exec 7<>"$work/full"
fill() { dd if=/dev/zero of="$work/full" oflag=nonblock bs=4096 count=1000 2>/dev/null; }
fill
start_stubborn unread 2>&7
kill -KILL "$pid"
await "all of CMD to die after zklock, unread" all_gone "$PIDS"

# Nor does zklock wait for a reader: hold can be ended, CMD is started, and what was left out is counted.
zklock hold muted <>"$work/never" >&7 &
pid=$!
await "hold, unread" queued muted 1
ends_of_term "of hold, unread" 143
gate "$work/read"
background zklock elect muted bash -c "echo >$work/led; read -r <$work/read" 2>&7
patience_ms=20000 await "CMD, unread" lines "$work/led" 1
written() { dd if="$work/full" iflag=nonblock bs=4096 2>/dev/null | tr -d '\0' >"$work/said"; }
written
echo >"$work/read"
ends "exit code of elect, unread" 0
written
file_matches "what nobody read" said '^zklock: here nobody read standard error, and 1 line was left out; the gravest until now: "muted": leader, token [0-9]+$'
# A report does not wait either.
fill
background zklock -v run --report "$work/report" muted true 2>&7
await "the report of one that nobody reads" test -s "$work/report"
ends_of_term "of run, unread" 143
# Nor for room for more than a page.
dd if="$work/full" bs=4096 count=1 >"$work/page" 2>/dev/null
code 125 timeout -s KILL 20 zklock run --metrics /dev/fd/7 muted true
says '^zklock: --metrics /dev/fd/7: Resource temporarily unavailable; see that it is read$'
exec 7>&-

# The keeper killed with -9: zklock kills them, and says so.
start_stubborn unkept
kill -KILL "$(keeper_of "$pid")"
ends "exit code after the keeper's death" 125
true_that "nobody is left after the keeper" all_gone "$PIDS"
patience_ms=12000 await "released after the keeper's death" queued unkept 0

# The keeper stopped, and the lock lost: zklock sees to CMD itself, also when more signals came for CMD than the keeper has room for.
start_stubborn frozen
kill -STOP "$(keeper_of "$pid")"
for _ in $(seq 200); do
    kill -WINCH "$pid"
    moment
done
freeze_servers
await "all of CMD to die of its zklock" all_gone "$PIDS"
kill -CONT "$(keeper_of "$pid")" "$ZKLOCK_SANDBOX_PIDS"
ends "exit code of a stopped keeper" 120
true_that "nobody is left after a stopped keeper" all_gone "$PIDS"

# Both at once: CMD itself dies at least.
start_stubborn both
kill -KILL "$pid" "$(keeper_of "$pid")"
await "CMD to die" gone "$(head -1 "$PIDS")"
xargs -r kill -KILL <"$PIDS" 2>/dev/null

# What CMD leaves behind holds the lock, whichever session it went to.
gate "$work/go"
for how in "" setsid; do
    background zklock run lingers bash -c "$how bash -c 'read -r <$work/go' & exit 6"
    await "CMD to linger" queued lingers 1
    code 124 zklock run -n lingers true
    echo >"$work/go"
    ends "exit code of CMD that left '$how' somebody behind" 6
    patience_ms=7000 await "released then" queued lingers 0
done

# Who lingers can be told to end.
for how in "" setsid; do
    background zklock run lingers bash -c "$how bash -c 'echo \$BASHPID >$work/lone; exec sleep 60' & echo \$\$ >$work/cmd; exit 0"
    await "somebody to linger" lines "$work/lone" 1
    await "CMD to end" lines "$work/cmd" 1
    await "CMD to end" gone "$(cat "$work/cmd")"
    ended_by TERM "exit code after TERM to who lingers '$how'" 0
    true_that "it ended" gone "$(cat "$work/lone")"
    rm "$work/lone" "$work/cmd"
done

# While it waits, zklock's own death leaves nothing that could run CMD.
hold busy
background zklock --session-timeout 5s run busy touch "$work/ran"
await "a waiter" queued busy 2
keeper=$(keeper_of "$pid")
kill -KILL "$pid"
await "the waiter's keeper to end" gone "$keeper"
kill "$holder"
await "the killed waiter's place to be free" queued busy 0
true_that "it did not run" [ ! -e "$work/ran" ]

# A keeper that is stopped keeps nobody from ending: neither while zklock waits, nor when CMD has ended, which only the keeper sees.
run_as stuck stuck
up stuck
kill -STOP "$(keeper_of "$pid")"
kill -KILL "$(cat "$work/stuck.cmd")"
ends_of_term "behind a stopped keeper" 137
hold busy
background zklock run busy true
await "a waiter with a keeper" queued busy 2
kill -STOP "$(keeper_of "$pid")"
ends_of_term "of a waiter with a stopped keeper" 143
