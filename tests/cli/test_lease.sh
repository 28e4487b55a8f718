#!/bin/bash
# CMD is dead before anybody else is granted, whatever stops: zklock, the server, both.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need_sandbox --tick 500ms sandbox --respawn 100ms

# The keeper is stopped between the start of CMD and its report of that: a lease on the file (fcntl) stops the exec there. zklock alone is
# left to act.
hold started
zklock run started "$work/script" 2>"$work/started.err" &
pid=$!
await "a waiter" queued started 2
keeper=$(pgrep -P "$pid")
printf '#!/bin/bash\necho $$ >%s\nexec sleep 600\n' "$work/started.pid" >"$work/script"
chmod +x "$work/script"
python3 - "$work/script" "$keeper" >"$work/leased" <<'PY' &
import fcntl, os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGIO])
script = os.open(sys.argv[1], os.O_RDONLY)
fcntl.fcntl(script, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("leased", flush=True)
signal.sigwait([signal.SIGIO])
os.kill(int(sys.argv[2]), signal.SIGSTOP)
fcntl.fcntl(script, fcntl.F_SETLEASE, fcntl.F_UNLCK)
PY
await "a lease on CMD's file" lines "$work/leased" 1
kill "$holder"
await "CMD" lines "$work/started.pid" 1
code 0 zklock -q release --force --yes started
patience_ms=20000 await "the end of a CMD whose keeper is stopped" gone "$(cat "$work/started.pid")"
await "what zklock says then" lines "$work/started.err" 1
kill -CONT "$keeper"
ends "exit code of a CMD whose keeper was stopped" 120
same "its lines" "$(wc -l <"$work/started.err")" 2

# zklock is stopped, beyond its session: the keeper alone is left to act.
run_lively stopped run --session-timeout 30s # it ends seconds after the lease: the keeper may stall meanwhile
kill -STOP "$pid"
dead_before_next stopped
ended_by CONT "exit code of the stopped one after CONT" 120

# zklock is killed. What a run on a free lock takes here and now is no part of the hand-over.
killed() {
    local begin control took
    begin=$(now_ms)
    zk run control true
    control=$(($(now_ms) - begin))
    run_lively killed run --session-timeout 10s
    kill -KILL "$pid"
    begin=$(now_ms)
    dead_before_next killed
    took=$((granted / 1000 - begin))
    echo "hand-over after kill -9 took $took ms, control $control"
    [ "$took" -lt $((10750 + 2 * control + 200)) ]
}
true_that "no hand-over after kill -9 was in time" thrice killed

# The server is frozen: TERM in time for the grace, KILL before the lease ends, 120.
frozen() {
    local begin took grace
    run_lively frozen run --grace 1s --report "$work/report"
    freeze_servers
    begin=$(now_ms)
    await "CMD to die" gone "$(cat "$FILE.pid")"
    took=$(($(tail -n 1 "$FILE.beat") / 1000 - begin))
    thaw_servers
    ends "exit code of a CMD whose server froze" 120
    grace=$((($(tail -n 1 "$FILE.beat") - $(cat "$FILE.term" || echo 0)) / 1000))
    echo "CMD died after $took ms of a session of 4000; TERM came $grace ms before the end, --grace was 1000"
    [ "$took" -lt 4000 ] && [ "$grace" -ge 500 ] && [ -s "$FILE.term" ]
}
true_that "TERM never came in time for --grace, or CMD never died in time" thrice frozen
file_matches "report" report '"outcome":"lost","exit_code":120,.*"exit":null,"signal":9'

# A freeze shorter than what the grace leaves disturbs nobody.
brief() {
    local begin took got=0
    rm -f "$work/brief" "$work/go"
    gate "$work/go"
    background zklock --session-timeout 4s run --grace 200ms brief \
        bash -c "echo up >$work/brief; read -r <$work/go; exit 5"
    await "CMD" lines "$work/brief" 1
    begin=$(now_ms)
    freeze_servers
    while [ "$(now_ms)" -lt $((begin + 700)) ]; do moment; done
    thaw_servers
    took=$(($(now_ms) - begin))
    echo >"$work/go"
    wait "$pid" || got=$?
    echo "exit code after a freeze of $took ms: $got"
    [ "$got" -eq 5 ]
}
true_that "no brief freeze was survived" thrice brief

# hold is told as well.
zklock --session-timeout 10s hold held <>"$work/never" >"$work/held.out" 2>"$work/held.err" &
pid=$!
await "a holder" lines "$work/held.out" 1
zklock --session-timeout 4s run -w 20s held true 2>"$work/waits.err" &
waiter=$!
await "a waiter" queued held 2
freeze_servers
ends "exit code of hold whose server froze" 120
file_matches "what hold says then" held.err '"held": lost while it was held: the lease ended$'
ends "exit code of a waiter whose server froze" 124 "$waiter"
file_matches "what it says then" waits.err '^zklock: "held" was not granted in 20.0 s: no response from the servers; .zklock doctor. asks each$'
thaw_servers

# Held for a while, and stopped before that is over, until that and the session were.
zklock --session-timeout 20s hold --for 15s stopped <>"$work/never" >"$work/stopped" 2>"$work/stopped.err" &
pid=$!
await "a holder" lines "$work/stopped" 1
kill -STOP "$pid"
is_free() { local got=0; zklock -q check "$1" || got=$?; [ $got -eq 1 ]; }
await "its session's end" is_free stopped
ended_by CONT "exit code of hold that was stopped" 120
file_matches "what it says then" stopped.err '"stopped": lost while it was held: '

# A server that comes back grants less (maxSessionTimeout). The shorter lease counts: for a CMD that runs, and for one that waits for its grant.
hold waits
zklock --session-timeout 40s run waits true &
waiter=$!
await "a waiter" queued waits 2
run_lively shortened run --session-timeout 40s --grace 1s
echo maxSessionTimeout=10000 >>"$ZKLOCK_SANDBOX_DIR/1/zoo.cfg"
kill -KILL "$ZKLOCK_SANDBOX_PIDS"
shorter() { [ "$(exec 8<>"/dev/tcp/${ZKLOCK_SERVERS/://}" && echo cons >&8 && grep -c to=10000 <&8)" -ge 3 ]; }
await "three sessions that are shorter" shorter
kill -STOP "$pid"
dead_before_next shortened
ended_by CONT "exit code of one whose lease was shortened" 120
kill "$holder"
ends "one that is granted with a shorter lease" 0 "$waiter"
