#!/bin/bash
# Signals: to CMD's whole process group while it runs, out of the queue while it does not.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need_sandbox sandbox

# Both CMD and its child must get it.
script='
note() { echo "$1" >>"$2"; exit 33; }
for n in TERM INT HUP QUIT USR1 USR2 CONT WINCH; do trap "note $n $FILE.parent" $n; done
env --default-signal bash -c "note() { echo \$1 >>$FILE.child; exit 0; }
    for n in TERM INT HUP QUIT USR1 USR2 CONT WINCH; do trap \"note \$n\" \$n; done
    echo up >>$FILE.up; while :; do sleep 0.05; done" &
until [ -s "$FILE.up" ]; do sleep 0.05; done
echo up >>"$FILE.up"
while :; do sleep 0.05; done'
for name in TERM INT HUP QUIT USR1 USR2 CONT WINCH; do
    export FILE=$work/$name
    background zklock run signals bash -c "$script"
        await "CMD for $name" lines "$FILE.up" 2
    kill "-$name" "$pid"
    ends "exit code after $name" 33
    same "$name at CMD" "$(cat "$FILE.parent")" "$name"
    same "$name at CMD's child" "$(cat "$FILE.child")" "$name"
done

# CMD that does not care dies of it.
run_as plain signals
up plain
ended_by INT "exit code of a CMD killed by INT" 130

# Who is stopped ends as well.
background zklock run signals bash -c "echo \$\$ >$work/stopped; kill -STOP \$\$; sleep 60" 2>"$work/err"
await "CMD to be stopped" grep -q 'stopped by SIGSTOP: "signals" stays held; kill -CONT -[0-9]* lets it go on' "$work/err"
ended_by TERM "exit code of a CMD that was stopped" 143
true_that "CMD is gone" gone "$(cat "$work/stopped")"

# It has left its process group, and who called us had TERM blocked.
background env --block-signal=TERM zklock run signals python3 -c 'import os, sys, time
child = os.fork() or time.sleep(2) or os._exit(0)
os.setpgid(child, child)
os.setpgid(0, child)
open(sys.argv[1], "w").close()
time.sleep(20)' "$work/left"
await "CMD in another group" test -e "$work/left"
ended_by TERM "exit code of a CMD in another group" 143

# It ends while zklock is stopped, after more stops of its own than the keeper can report.
background zklock --session-timeout 60s run signals bash -c "echo \$\$ >$work/flaps
(for _ in {1..350}; do kill -STOP \$\$; read -rt 0.004; kill -CONT \$\$; read -rt 0.004; done <>$work/never) & wait"
await "CMD" lines "$work/flaps" 1
kill -STOP "$pid"
await "CMD's end" gone "$(cat "$work/flaps")"
kill -CONT "$pid"
ends "exit code of a CMD that was often stopped" 0

# A script's background ignores what is typed, not what is sent.
zklock run signals env --default-signal bash -c "echo up >$work/sent; exec sleep 60" &
pid=$!
await "CMD" lines "$work/sent" 1
ended_by INT "exit code after INT in the background" 130

# A storm of signals around CMD's end does not hide how it ended. It pauses: signals that come faster than a handler returns would starve whoever
# has to end.
for _ in $(seq 20); do
    background zklock run signals bash -c 'trap "exit 7" USR1; while :; do read -rt 0.01 <> <(:); done'
    await "the storm's keeper" pgrep -P "$pid" >/dev/null
    burst=1
    while kill -USR1 "$pid" && kill -WINCH "$pid" && kill -CONT "$pid"; do
        ((burst++ % 100)) || moment
    done 2>/dev/null
    wait "$pid"
    got=$?
    case $got in
    7 | 138) ok ;; # 138: the first came before the trap
    *) bad "exit code after a storm of signals: $got" ;;
    esac
done

# While queued.
hold busy
for pair in TERM:143 INT:130 HUP:129 QUIT:131; do
    background zklock run --report "$work/report" busy touch "$work/ran"
        await "a waiter" queued busy 2
    kill "-${pair%:*}" "$pid"
    ends "exit code of a waiter after ${pair%:*}" "${pair#*:}"
    true_that "the znode is gone at once after ${pair%:*}" queued busy 1
    file_matches "report" report '"outcome":"signal"'
done
zklock run busy touch "$work/ran" &
pid=$!
await "a waiter" queued busy 2
ended_by INT "exit code of a waiter in the background after INT" 130
for name in USR1 USR2 CONT WINCH; do
    background zklock run busy touch "$work/ran"
        await "a waiter" queued busy 2
    kill "-$name" "$pid"
    true_that "a waiter survives $name" queued busy 2
    ended_by TERM "exit code after $name and TERM" 143
done
true_that "no waiter ran CMD" [ ! -e "$work/ran" ]

# While it looks for a server: at once.
background zklock -s 127.0.0.1:1 run --report "$work/report" busy true
await "zklock to look for a server" grep -q "^Threads:.*[2-9]" "/proc/$pid/status"
begin=$(now_ms)
ended_by TERM "exit code without a server" 143
true_that "at once without a server" [ $(($(now_ms) - begin)) -lt 8000 ] # of ten seconds
file_matches "its report" report '"outcome":"signal","exit_code":143'

# While it reads its secret, too: a signal is not kept for later.
mkfifo -m 600 "$work/secret"
exec 7<>"$work/secret"
background zklock -s 127.0.0.1:1 --auth-file "$work/secret" run signals true 7<&-
catches_term() { # not the shell, which catches it until it is zklock
    [ "$(cat "/proc/$pid/comm")" = zklock ] && (((0x$(awk '/^SigCgt:/ { print $2 }' "/proc/$pid/status") >> 14) & 1))
}
await "zklock to catch TERM" catches_term
kill "$pid"
await "its end while nobody writes the secret" gone "$pid"
exec 7<&-
ends "exit code of one that was to end while it read its secret" 143

kill "$holder"
