#!/bin/bash
# zklock elect: terms, losses, failures, the end; what systemd is told.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need_sandbox --tick 500ms sandbox

# CMD that ends in good order ends it, with its code; nothing is left.
code 0 zk elect x true
says '"x": leader, token [1-9]'
code 0 zk elect -c 'echo $ZKLOCK_NODE' x
prints '^/locks/x/_c_[-0-9a-f]{36}-latch-[0-9]{10}$'
code 143 zk elect x sh -c 'kill -TERM $$'
code 127 zk elect x zklock-no-such-command
code 126 zk elect x /etc/passwd
code 3 zk elect --once x sh -c 'exit 3'
code 125 zk elect --grace 60s x true
code 0 zk elect --report "$work/report" x true
file_matches "report" report '"outcome":"ran","exit_code":0,"lock":"x".*latch'
patience_ms=12000 await "nobody stands any more" queued x 0

# CMD that fails is tried again, with a back-off that grows; standard files are there for each term.
begin=$(now_ms)
same "three terms" "$(zk -q elect --backoff 200ms x bash -c "echo term; echo >>$work/tries; [ \$(wc -l <$work/tries) -ge 3 ]" | wc -l)" 3
took=$(($(now_ms) - begin))
true_that "two pauses of 200 and 400 ms took $took ms" [ "$took" -ge 600 ]
same "standard input" "$(echo typed | zk elect x cat)" typed

# Two candidates: the first leads; failing hands over to the second; what they publish.
elect a --value "node a" y bash -c "$(stay a)"
a=$pid
leads a 1
elect b --backoff 100ms y bash -c "$(stay b)"
b=$pid
await "b to stand" queued y 2
matches "candidates" "$(zklock ls y)" 'holds .* latch +node a$'
kill -KILL "$(last_pid a)"
leads b 1
await "a to stand again" queued y 2
true_that "a's CMD did not start meanwhile" [ "$(wc -l <"$work/a.terms")" -eq 1 ]
file_matches "a says why" a.said 'bash failed \(137\): standing again in 1\.0 s'
code 0 zklock check --is-me y

# An operator removes the leader: its CMD is stopped, and it stands again behind the other.
code 0 zklock release --force --yes y
leads a 2
await "b's CMD to die" gone "$(last_pid b)"
await "b to stand again" queued y 2

# zklock is stopped beyond its session: CMD is dead before the next one leads; after CONT it stands again.
dead=$(last_pid a)
kill -STOP "$a"
leads b 2
true_that "a's CMD is dead" gone "$dead"
kill -CONT "$a"
await "a to stand again after CONT" queued y 2

# The server is frozen beyond the lease: CMD stops, and somebody leads again after it.
freeze_servers
await "b's CMD to die" gone "$(last_pid b)"
thaw_servers
terms() { [ "$(cat "$work/a.terms" "$work/b.terms" | wc -l)" -ge "$1" ]; }
await "a fifth term" terms 5
await "both to stand" queued y 2

# TERM: to CMD, whose code it is; while waiting, out of the queue at once.
leader=$a waiter=$b
[ "$(tail -n +3 "$work/a.terms" | wc -l)" -gt 0 ] || { leader=$b waiter=$a; }
ended_by INT "exit code of a waiter after INT" 130 "$waiter"
patience_ms=12000 await "it left at once" queued y 1
ended_by TERM "exit code of the leader after TERM" 143 "$leader"
patience_ms=12000 await "it left, too" queued y 0
# HUP says *read your configuration again*: no reason for a standby, or one that pauses, to go. From a
# terminal it is the end.
hold r
background setsid -w zklock elect r true 2>>"$work/r.said"
await "a standby" queued r 2
standby=$(pgrep -P "$pid" -x zklock || echo "$pid") # setsid forks or not; the keeper is no standby
kill -HUP "$standby"
kill -TERM "$holder"
ends "it led after HUP" 0
elect c --report "$work/report" --backoff 1h z bash -c 'exit 9'
await "c to pause" grep -q 'standing again in 3600' "$work/c.said"
ended_by TERM "exit code of a TERM in the pause" 143
file_matches "its report" report '"outcome":"signal".*"token":null.*"reason":null'
# It sleeps without a process: a shell that starts one loses a signal now and then.
sleeps="exec 9<>$work/never; while :; do read -rt 0.01 -u 9; done"
elect d z bash -c "trap 'exit 5' TERM; echo up >$work/up; $sleeps"
await "d to lead" lines "$work/up" 1
ended_by TERM "CMD's own code after TERM" 5

# HUP is CMD's: one that reads its configuration again goes on, and elect with it.
elect h --backoff 50ms z bash -c "trap 'echo again >>$work/hup' HUP; echo \$\$ >>$work/h.terms; $sleeps"
leads h 1
kill -HUP "$pid"
await "HUP at CMD" lines "$work/hup" 1
kill -KILL "$(last_pid h)"
leads h 2
ended_by TERM "exit code after TERM in the second term" 143

# --once: lost is 120.
elect e --once z bash -c "$(stay e)"
leads e 1
code 0 zklock release --force --yes z
ends "exit code of a lost term with --once" 120

# zklock killed: so is CMD, by the keeper, in the second term as in the first.
elect f --backoff 50ms z bash -c "$(stay f)"
leads f 1
kill -KILL "$(last_pid f)"
leads f 2
kill -KILL "$pid"
await "CMD to die" gone "$(last_pid f)"

# systemd's side of it, by path and by abstract name.
listen() { # ADDRESS
    rm -f "$work/told" "$work/listens"
    python3 -c '
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1].replace("@", "\0"))
open(sys.argv[2] + "/listens", "w").write("1\n")
with open(sys.argv[2] + "/told", "a") as told:
    while True:
        told.write(s.recv(4096).decode() + "\n---\n")
        told.flush()' "$1" "$work" &
    listener=$!
    await "a listener" lines "$work/listens" 1
}
told() { grep -qE -- "$1" "$work/told"; }
gate "$work/go"
for address in "$work/notify" "@zklock-test-$$"; do
    rm -f "$work/env"
    listen "$address"
    hold w
    background env NOTIFY_SOCKET="$address" WATCHDOG_USEC=2000000 zklock -q elect --notify --notify w bash -c \
        "trap 'read -r <$work/go; exit 6' TERM; env >$work/env; $sleeps"
    await "READY" told '^READY=1$'
    await "the place in the queue" told '^STATUS=waiting, 1 ahead$'
    await "the watchdog, from a standby" told '^WATCHDOG=1$'
    kill -TERM "$holder"
    await "the leader's status" told '^STATUS=leader since 20[-0-9]*T[0-9:]*Z, token [1-9][0-9]*$'
    await "CMD" grep -q ^ZKLOCK_TOKEN= "$work/env"
    same "CMD sees nothing of it" "$(grep -cE '^(NOTIFY_SOCKET|WATCHDOG_USEC)=' "$work/env")" 0
    barks=$(grep -c WATCHDOG "$work/told")
    more() { [ "$(grep -c WATCHDOG "$work/told")" -gt "$((barks + 2))" ]; }
    await "the watchdog, from a leader" more
    kill -TERM "$pid"
    await "STOPPING, while CMD is" told '^STATUS=stopping CMD$'
    echo >"$work/go"
    ends "exit code" 6
    true_that "STOPPING" told '^STOPPING=1$'
    same "READY once" "$(grep -c READY "$work/told")" 1
    kill "$listener"
    wait "$listener" 2>/dev/null
done
background env NOTIFY_SOCKET="$work/nobody" WATCHDOG_USEC=nonsense WATCHDOG_PID=1 zklock elect --notify w true
ends "no watchdog for us" 0
code 0 env NOTIFY_SOCKET=/x zklock elect w sh -c 'echo $NOTIFY_SOCKET'
prints_only /x
code 0 zklock elect --notify w true
code 0 env NOTIFY_SOCKET=/nobody/listens zklock elect --notify w true
code 125 env NOTIFY_SOCKET=relative zklock elect --notify w true
says "NOTIFY_SOCKET is 'relative'"
