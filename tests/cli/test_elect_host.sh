#!/bin/bash
# zklock elect as a part of its host: --health, --listen, --hook.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need_sandbox --tick 500ms sandbox

# --- hooks ---------------------------------------------------------------------------------------------------------------
hook() { # NAME BODY: an executable script
    printf '#!/bin/sh\n%s\n' "$2" >"$work/$1.hook"
    chmod +x "$work/$1.hook"
}
hook log "echo \"\$ZKLOCK_EVENT \$ZKLOCK_PATH \$ZKLOCK_TOKEN\" >>$work/events; echo printed; cat"
events() { cut -d' ' -f1 "$work/events" | tr '\n' ' '; }
code 0 zk run --hook "$work/log.hook" h -- sh -c 'echo "$ZKLOCK_TOKEN"'
token=$(cat "$work/out")
same "what a hook prints is not CMD's output" "$(wc -l <"$work/out")" 1
await "two events" lines "$work/events" 2
file_is "the events of a grant" events "granted /locks/h $token
released /locks/h $token"

# A removal by hand is a loss; the hook hears of it though zklock has ended by then.
rm "$work/events"
run_as h --hook "$work/log.hook" h
up h
code 0 zklock release --force --yes h
ends "exit code of a lost lock" 120
await "its events" lines "$work/events" 2
same "a loss" "$(events)" "granted lost "

# The servers are silent: CMD is given a grace beyond the lease's last quarter, so that the hook hears of jeopardy first.
rm "$work/events"
run_as h --grace 100ms --hook "$work/log.hook" h
up h
freeze_servers
await "jeopardy" grep -q '^jeopardy ' "$work/events"
thaw_servers
wait_end() { grep -qE '^(safe|lost) ' "$work/events"; }
await "what came of it" wait_end
kill -TERM "$pid"
wait "$pid"

# A hook that fails is told; one that hangs: test_provocations.sh.
# Neither hooks nor checks get the descriptor of the credentials.
secret secret digest:ann:pencil
hook fails 'test -e /dev/fd/3 || exit 7'
code 0 timeout 60 zklock --auth-file /dev/fd/3 elect --once --health 'test ! -e /dev/fd/3' --hook "$work/fails.hook" own true 3<"$work/secret"
# What the hook's process says comes when zklock may have ended: it has the same standard error.
await "a hook's failure" grep -q 'exit code 7 at released' "$work/err"

# --- health --------------------------------------------------------------------------------------------------------------
# Not healthy at the start: stays out. Healthy: leads. Not healthy again: CMD is stopped, another one leads.
check="test -e $work/healthy"
elect a --health "$check" --every 1s --fails 2 e bash -c "$(stay a)"
a=$pid
await "a to stay out" grep -q 'out of the queue until it succeeds' "$work/a.said"
true_that "a is not queued" queued e 0
touch "$work/healthy"
leads a 1
elect b e bash -c "$(stay b)"
b=$pid
await "b to queue" queued e 2
dead=$(last_pid a)
rm "$work/healthy"
leads b 1
true_that "a's CMD is dead" gone "$dead"
file_matches "a says why" a.said '"e": --health failed: stopping bash'
await "a to be out of the queue" queued e 1
# A waiter that is not healthy leaves the queue, and comes back.
touch "$work/healthy"
await "a to queue" queued e 2
rm "$work/healthy"
await "a to leave" queued e 1
touch "$work/healthy"
await "a to queue again" queued e 2
kill -TERM "$b"
wait "$b"
leads a 2
# A check that hangs has failed; its process group is killed.
ended_by TERM "exit code after TERM" 143 "$a"
elect c --report "$work/report" --health "sleep 0.1 & echo \$\$ >>$work/c.checks; test ! -e $work/hang || exec sleep 600" --every 5s --fails 1 e bash -c "$(stay c)"
c=$pid
leads c 1
touch "$work/hang"
await "c to be stopped" gone "$(last_pid c)"
rm "$work/hang"
leads c 2
true_that "no check is left" all_gone <(sed '$d' "$work/c.checks")
# Whoever kills the process that checks learns nothing of the host any more: it ends, by name.
checker=$(pgrep -P "$c" zklock-health)
reaped() { ! pgrep -r Z -P "$c,$checker" >/dev/null; }
await "the end of what checks leave behind" reaped
kill -KILL "$checker"
ends "exit code without a checker" 125 "$c"
file_matches "it says why" c.said 'the process that runs --health was killed'
file_matches "its report" report '"outcome":"error"'
code 125 zk elect --every 1s e true
says '--health, which is missing'

# --- HTTP ----------------------------------------------------------------------------------------------------------------
port_of() { sed -n 's/.*listening on port //p' "$work/$1.said"; }
has_port() { [ -n "$(port_of "$1")" ]; }
get() { http "$2" "$(port_of "$1")" "${@:3}"; } # NAME METHOD PATH [SIZE]
answers() { get "$1" GET "$2" | grep -qE -- "$3"; }
elect l --listen 0 --value "$(printf %0600d 0) host \"l\"" w bash -c "$(stay l)"
l=$pid
leads l 1
elect m --listen 127.0.0.1:0 w bash -c "$(stay m)"
m=$pid
await "m to listen" has_port m
await "m to queue" queued w 2
await "l to be known to m" answers m /leader 'host ..l'
matches "the leader" "$(get l GET /leader)" '^200 .*"leads":true,"token":[1-9][0-9]*,"remaining_ms":[1-9]'
matches "the other one" "$(get m GET /leader)" '^503 .*"leads":false,"token":0,"remaining_ms":0,"known":true,"leader":\{'
matches "health of the leader" "$(get l GET /healthz)" '^200 .*"state":"leading"'
matches "health of the other one" "$(get m GET /healthz)" '^200 .*"state":"queued"'
matches "metrics" "$(get m GET /metrics)" '^200 # HELP zklock_'
matches "HEAD" "$(get m HEAD /healthz)" '^200 $'
matches "another path" "$(get m GET /)" '^404 .*/healthz, /leader and /metrics'
matches "another method" "$(get m POST /leader 100000)" '^405 .*GET and HEAD'
# The servers are silent for longer than the lease: nobody leads, and both say so, l by its own clock.
freeze_servers
await "l to lead no more" answers l /leader '^503 '
await "m to be cut off" answers m /healthz '^503 .*"connected":false'
thaw_servers
either_leads() { answers l /leader '^200 ' || answers m /leader '^200 '; }
await "somebody to lead" either_leads
# Bad addresses; a port that is taken.
for bad in '' x 70000 1.2.3:80 localhost:80 '[::1:80'; do
    code 125 zk elect --listen "$bad" w true
done
code 125 zk elect --listen "$(port_of l)" w true
says 'Address already in use'
kill -TERM "$l" "$m"
wait "$l" "$m"

# Clients leave half of the descriptors to what a session that reconnects needs.
ulimit -Sn 64
elect o --listen 0 v bash -c "$(stay o)"
ulimit -Sn "$(ulimit -Hn)"
leads o 1
clients=0
while exec {client}<>"/dev/tcp/127.0.0.1/$(port_of o)" && printf 'GET / HTTP/1.1\r\nHost: x\r\n\r\n' >&"$client" && read -rt 3 -u "$client"; do
    clients=$((clients + 1))
done
same "clients at a time" "$clients" 32

# 1,000 requests, 1,000 connections that say nothing, half a request, no request at all: the holder sends as many heartbeats
# as another one that nobody asks in the same time.
elect n --listen 0 x bash -c "$(stay n)"
n=$pid
elect q --listen 0 y bash -c "$(stay q)"
q=$pid
leads n 1
leads q 1
matches "a thousand clients" "$(python3 - "$(port_of n)" "$(port_of q)" <<'PYTHON'
import re, socket, sys, time
noisy, quiet = int(sys.argv[1]), int(sys.argv[2])
def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=60)
def ask(port, path):
    s = connect(port)
    s.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    text = b""
    while True:
        part = s.recv(65536)
        if not part:
            return text.decode()
        text += part
def count(port, name):
    return int(re.search(rf"^zklock_{name}_total\S* (\d+)", ask(port, b"/metrics"), re.M).group(1))
before = [count(port, "heartbeats") for port in (noisy, quiet)]
idle = [connect(noisy) for _ in range(1000)]
for s in idle[:300]:
    s.sendall(b"GET /leader HT")
for s in idle[300:400]:
    s.sendall(b"\x16\x03\x01\x00\xff" * 100)
for i in range(1000):
    assert " 200 " in ask(noisy, b"/leader"), i
while count(quiet, "heartbeats") - before[1] < 10:
    ask(noisy, b"/healthz")
    time.sleep(0.02) # between two looks; the requests before these came as fast as they could
sent = [0, count(quiet, "heartbeats") - before[1]]
sent[0] = count(noisy, "heartbeats") - before[0] # last, as it was first: a stall between the two counts is not held against it
losses = [count(port, "losses") for port in (noisy, quiet)]
print("heartbeats", "as many" if sent[0] >= 0.8 * sent[1] - 1 else sent, "losses", losses)
PYTHON
)" '^heartbeats as many losses \[0, 0\]$'
kill -TERM "$n" "$q"
ends "exit code of the one with many clients" 143 "$n"
