#!/bin/bash
# doctor: three servers that are well, that are not what they were said to be, and that are no quorum.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need_sandbox sandbox -n 3

zklock run job true
# Below a lock, other locks and what keeps a job's record are in order, and nothing else.
stranger "zk.create('/locks/stray/x', makepath=True)"
code 1 zklock run stray zklock doctor
prints '^BAD  /locks/stray: 1 znodes that are no contenders: '
finds 0 '' zklock once --slot 24h job zklock run job/step zklock doctor
same "doctor finds three servers" "$(grep -cE '^ok   127\.0\.0\.1:[0-9]+: 3\.[0-9.]+, (leader|follower), answers in' "$work/out")" 3
same "doctor finds one leader" "$(grep -c leader "$work/out")" 1
prints "^ok   session: timeout 10000ms; a holder's lease is [0-9]+ms at the least"
# What cannot be tried is not said to be there.
code 125 bash -c "exec 3>&-; ulimit -n 4 && exec zklock -s 127.0.0.1:1 doctor"
prints 'TLS not known to be built in, SASL not known'
code 1 zklock --tick 1s doctor
prints '^BAD .*tickTime is 2000ms.*use --tick 2000ms'
code 1 zklock -s "$(printf '127.0.0.1:1,%.0s' {1..200})$ZKLOCK_SERVERS" doctor
prints '^ok   127\.0\.0\.1:[0-9]+: .*, answers in'
prints '^BAD  127\.0\.0\.1:1: Connection refused'
one=${ZKLOCK_SERVERS%%,*}
finds 0 '^ok   \[::ffff:127\.0\.0\.1\]:[0-9]+: 3\.' zklock -s "[::ffff:127.0.0.1]:${one##*:}" doctor
timeout 5 zklock -s localhost doctor >"$work/out" 2>&1 # there may be one, or not
if grep -q 'not host:port' "$work/out"; then bad "no port is the usual port"; else ok; fi
code 1 zklock -s "127.0.0.1:1,$ZKLOCK_SERVERS" --json doctor
same "doctor as JSON" "$(grep -cv '^{"v":1,"subject":".*","ok":\(true\|false\),"text":".*"}$' "$work/out")" 0

# Nor is anybody else's service taken for one, and who says that it leads must also take a session.
impostor() {
    exec /usr/bin/python3 -c '
import select, socket, sys
def trickle(peer):
    try:
        for _ in range(20):
            peer.sendall(b"x")
            if select.select([peer], [], [], 0.5)[0]:
                return # it has hung up
    except OSError:
        pass
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    peer, _ = listener.accept()
    if peer.recv(64)[:4] == b"srvr":
        trickle(peer) if sys.argv[1] == "trickle" else peer.sendall(sys.argv[1].encode())
    peer.close()' "$1"
}
# Each doctor waits for a session in vain, so they wait beside each other, and beside what follows.
answers=() patterns=() strangers=() doctors=()
answer_is() {
    local nth=$((${#answers[@]} + 1))
    answers+=("$1")
    patterns+=("$2")
    : >"$work/port$nth"
    impostor "$1" >"$work/port$nth" &
    strangers+=($!)
    await "the stranger" lines "$work/port$nth" 1
    zklock -s "127.0.0.1:$(cat "$work/port$nth")" doctor >"$work/stranger$nth" 2>"$work/stranger$nth.err" &
    doctors+=($!)
}
# Collects what it said to the one of this number.
said_to_stranger() {
    local got=0 at=$(($1 - 1))
    wait "${doctors[at]}" || got=$?
    for _ in again "and again"; do # a stranger that stalled for two seconds
        grep -qE -- "${patterns[at]}" "$work/stranger$1" && break
        got=0
        zklock -s "127.0.0.1:$(cat "$work/port$1")" doctor >"$work/stranger$1" 2>"$work/stranger$1.err" || got=$?
    done
    kill "${strangers[at]}"
    same "exit code, who answers '${answers[at]}'" "$got" 122
    file_matches "who answers '${answers[at]}'" "stranger$1" "${patterns[at]}"
}
answer_is $'HTTP/1.1 400 Bad Request\r\n' '^BAD  127\.0\.0\.1:[0-9]+: what answers there is no ZooKeeper$'
answer_is $'Zookeeper version: 3.8.0-x, built\nMode: leader\n' \
    '^BAD  session: none, though 1 of the servers say that they serve: they demand TLS or SASL, or their leader commits nothing'
answer_is $'Zookeeper version: 3.8.0-x, built\nMode: observer\n' \
    '^ok   127\.0\.0\.1:[0-9]+: an observer\. Where a follower has an observerMasterPort'
answer_is trickle '^BAD  127\.0\.0\.1:[0-9]+: no response; start it, or '

# One of three is no quorum: it answers, and serves nobody.
# shellcheck disable=SC2086
set -- $ZKLOCK_SANDBOX_PIDS
kill -STOP "$1" "$2"
alone=${ZKLOCK_SERVERS##*,}
not_serving() {
    got=0
    zklock -s "$alone" doctor >"$work/out" 2>"$work/err" || got=$?
    grep -q "^BAD  $alone: it runs and serves nobody: no quorum" "$work/out"
}
await "the last server to notice" not_serving
same "exit code without a quorum" "$got" 122
same "no session" "$(grep -c session "$work/out")" 0

for nth in 1 2 3 4; do
    said_to_stranger $nth
done
